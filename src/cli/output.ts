// How commands answer: aligned columns for people, one JSON document for programs (--json), or
// lines of CSV for spreadsheets (--csv, of lists). With --json a failure is a document too.

import { existsSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import {
  type DurableFileOptions,
  streamFileDurably,
  writeFileDurably,
} from '../core/durable-file.ts';
import { printable } from '../core/printable.ts';

/** What the command that runs was asked for. One process runs one command. */
const asked = { json: false, csv: false };
let hasPrintedJson = false;

/** To be called before the command runs. Throws `CommandFailure` where both are asked for. */
export function chooseForm({ json, csv }: { json?: boolean; csv?: boolean | string }): void {
  asked.json = json === true;
  asked.csv = csv === true;
  if (!asked.json || !asked.csv) return;
  throw new CommandFailure('usage', '--json and --csv exclude each other');
}

interface Table {
  json: unknown;
  heading: readonly string[];
  rows: readonly (readonly string[])[];
  /** The rows as CSV has them, with exact amounts; absent: the same. */
  csv?: readonly (readonly string[])[];
}

/** Writes what a command found: `json` with --json, else `rows` under `heading`. */
export function printTable(asJson: boolean | undefined, answer: Table): void {
  if (asJson) {
    printJson(answer.json);
    return;
  }
  if (asked.csv) {
    printCsv(answer.heading.map(columnName), answer.csv ?? answer.rows);
    return;
  }
  new PagedLines(answer.heading).print(answer.rows);
}

interface PagesOf<Entry> {
  heading: readonly string[];
  row(entry: Entry): readonly string[];
  /** The row as CSV has it, with exact amounts. */
  csvRow(entry: Entry): readonly string[];
}

/**
 * The same of a list of which no more than a page is in memory: columns become wider where a page
 * needs it.
 */
export async function printPages<Entry>(
  { heading, row, csvRow }: PagesOf<Entry>,
  pages: AsyncIterable<readonly Entry[]>,
): Promise<void> {
  const lines = new PagedLines(heading);
  let count = 0;
  for await (const page of pages) {
    if (asked.json) {
      for (const one of page)
        print(`${count++ === 0 ? '[' : ','}\n${JSON.stringify(one, null, 2)}`);
      continue;
    }
    if (asked.csv) printCsv(count++ === 0 ? heading.map(columnName) : null, page.map(csvRow));
    else lines.print(page.map(row));
  }
  if (asked.json) print(count === 0 ? '[]' : ']');
}

/** Columns that come page by page, under their heading. */
export class PagedLines {
  readonly #widths: number[];
  #heading: readonly string[] | null;

  constructor(heading: readonly string[]) {
    this.#heading = heading;
    this.#widths = heading.map(() => 0);
  }

  /** Cells are shown as `printable` has them. */
  print(rows: readonly (readonly string[])[]): void {
    const lines = this.#heading ? [this.#heading, ...rows] : rows;
    this.#heading = null;
    for (const line of lines) {
      for (const [i, cell] of line.entries()) {
        this.#widths[i] = Math.max(this.#widths[i] ?? 0, width(cell));
      }
    }
    for (const line of lines) {
      const cells = line.map((cell, i) => printable(cell).padEnd(this.#widths[i] as number));
      print(cells.join('  ').trimEnd());
    }
  }
}

/** Writes what a command's answer warns of, beside what it shows. */
export function printWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) process.stderr.write(`bursar: ${printable(warning)}\n`);
}

/** Writes names and what they are, a pair a line. */
export function printPairs(width: number, rows: readonly (readonly [string, string])[]): void {
  for (const [name, value] of rows) print(`${name.padEnd(width)}${printable(value)}`);
}

/** The same as JSON has it: `CREATED BY` is `createdBy`. */
function columnName(title: string): string {
  const [first = '', ...others] = title.toLowerCase().split(' ');
  return first + others.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

export function printJson(json: unknown): void {
  print(JSON.stringify(json, null, 2));
}

/** A line for people below a list. Whoever reads CSV finds it on standard error. */
export function printNote(line: string): void {
  if (asked.csv) process.stderr.write(`${line}\n`);
  else print(line);
}

/** What a failure is in JSON; `exitCode` is the command's. */
export interface FailureDocument {
  /** Of the gateway's errors, or `UsageError`, `Unreachable` or `CommandFailed`. */
  code: string;
  message: string;
  exitCode: number;
  /** Of the gateway's answer, as are all below. */
  status?: number;
  requestId?: string;
}

/** With --json, unless the command has answered with a document already. */
export function printFailure(error: FailureDocument): void {
  if (asked.json && !hasPrintedJson) print(JSON.stringify({ error }));
}

export function print(line: string): void {
  hasPrintedJson ||= asked.json;
  process.stdout.write(`${line}\n`);
}

function width(cell: string | undefined): number {
  return printable(cell ?? '').length;
}

/** Writes lines of CSV: `heading`, then `rows`, for programs and spreadsheets. */
export function printCsv(
  heading: readonly string[] | null,
  rows: readonly (readonly string[])[],
): void {
  process.stdout.write(csvText(heading, rows));
}

/** RFC 4180. `heading`: null where it was written before. */
export function csvText(
  heading: readonly string[] | null,
  rows: readonly (readonly string[])[],
): string {
  return [...(heading ? [heading] : []), ...rows]
    .map((row) => `${row.map(csvField).join(',')}\r\n`)
    .join('');
}

const number = /^-?\d+(?:\.\d+)?(?:e[+-]\d+)?$/;

/** A text that a spreadsheet would take for a formula gets a quote before it, as is the custom. */
function csvField(text: string): string {
  const safe = /^[=+\-@\t\r][\s\S]/.test(text) && !number.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// Files that commands make for people. Invariant: each is written whole and durably, or it is not
// there and what was there stands; but a pipe or a device is written as it is, and not replaced by
// a file.

/** Throws CommandFailure. */
export function writeOutput(file: string, content: string, options: DurableFileOptions): void {
  orFail('failed', `cannot write ${file}: `, () => {
    if (options.ifExists !== 'refuse' && isSpecial(file)) writeFileSync(file, content);
    else writeFileDurably(file, content, options);
  });
}

/**
 * Writes what `write` gives, piece by piece. Rejects with the system's error, or with what `write`
 * throws.
 */
export async function streamOutput(
  file: string,
  options: Pick<DurableFileOptions, 'mode'>,
  write: (append: (content: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  if (!isSpecial(file)) return streamFileDurably(file, options, write);
  await using opened = await open(file, 'w');
  await write((content) => opened.appendFile(content));
}

function isSpecial(file: string): boolean {
  return existsSync(file) && !statSync(file).isFile();
}
