// How administration commands answer: aligned columns for people, JSON for machines (--json).

import { existsSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { orFail } from '../core/command-failure.ts';
import {
  type DurableFileOptions,
  streamFileDurably,
  writeFileDurably,
} from '../core/durable-file.ts';
import { printable } from '../core/printable.ts';

/** Writes what a command found: `json` with --json, else `rows` under `heading`. */
export function printTable(
  asJson: boolean | undefined,
  answer: { json: unknown; heading: readonly string[]; rows: readonly (readonly string[])[] },
): void {
  if (asJson) {
    printJson(answer.json);
    return;
  }
  const lines = [answer.heading, ...answer.rows];
  const widths = answer.heading.map((_, i) => Math.max(...lines.map((line) => width(line[i]))));
  for (const line of lines) {
    const cells = line.map((cell, i) => printable(cell).padEnd(widths[i] as number));
    print(cells.join('  ').trimEnd());
  }
}

/** Writes names and what they are, a pair a line. */
export function printPairs(width: number, rows: readonly (readonly [string, string])[]): void {
  for (const [name, value] of rows) print(`${name.padEnd(width)}${printable(value)}`);
}

export function printJson(json: unknown): void {
  print(JSON.stringify(json, null, 2));
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function width(cell: string | undefined): number {
  return printable(cell ?? '').length;
}

/** Writes lines of CSV: `heading`, then `rows`, for programs and spreadsheets. */
export function printCsv(heading: readonly string[], rows: readonly (readonly string[])[]): void {
  process.stdout.write(csvText(heading, rows));
}

/** RFC 4180. */
export function csvText(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heading, ...rows].map((row) => `${row.map(csvField).join(',')}\r\n`).join('');
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
