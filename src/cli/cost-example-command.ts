// `bursar cost example`: what the studies computed, computed again from their assumptions, beside
// what they printed.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { formatUsd, type Picodollars } from '../core/money.ts';
import {
  type ComparedFigure,
  comparePaper,
  type PaperExample,
  paperExamples,
} from '../quota/cost/paper-examples.ts';
import { type Unbundled, type UnbundledRow, unbundle } from '../quota/cost/unbundled.ts';
import { readPriceBooks } from '../quota/prices/price-books.ts';
import { print, printJson, printTable } from './output.ts';

interface ExampleFlags {
  list?: boolean;
  classes?: boolean;
  /** Percent. */
  raw: number;
  json?: boolean;
}

/** Below `bursar cost`, which asks a gateway where this does not. */
export function addCostExampleCommand(program: Command): void {
  program.commands
    .find((command) => command.name() === 'cost')
    ?.command('example [name]')
    .description("rebuild a study's figures, and state what they assume")
    .option('--list', 'say which there are')
    .option('--classes', 'of dzero: what its year costs bundled, and in classes of its own')
    .option('--raw <percent>', 'with --classes: how much of it is raw data', percentOf, 50)
    .option('--json', 'answer with JSON')
    .action((name: string | undefined, _given: object, command: Command) => {
      const flags = command.optsWithGlobals<ExampleFlags>();
      if (flags.list) return listExamples(flags);
      const example = paperExamples.get(name ?? '');
      if (!name || !example) {
        const names = [...paperExamples.keys()].join(', ');
        throw new CommandFailure('usage', `name one of the examples: ${names}`);
      }
      if (flags.classes) return showClasses(name, example, flags);
      const figures = comparePaper(example, readPriceBooks());
      if (flags.json) printJson(jsonOf(example, figures));
      else printExample(example, figures);
    });
}

function percentOf(written: string): number {
  const percent = /^\d{1,3}%?$/.test(written) ? Number.parseInt(written, 10) : 101;
  if (percent <= 100) return percent;
  throw new CommandFailure('usage', `${written} must be a percentage, 0 to 100`);
}

/** What a class costs today, whatever the study's own prices were. */
const classesBook = 'aws-us-east-1-2026';

function showClasses(name: string, { workload }: PaperExample, { raw, json }: ExampleFlags): void {
  const book = readPriceBooks().named(classesBook);
  if (name !== 'dzero' || !book) {
    throw new CommandFailure('usage', 'only of dzero it is known what its data are used for');
  }
  const found = unbundle(workload, book, { rawPercent: raw });
  if (json) {
    printJson(jsonOfClasses(found));
    return;
  }
  print(`${workload.name}: a year by the book ${found.book}`);
  print('\nAssumed:');
  for (const assumption of found.assumptions) print(`  - ${assumption}`);
  print('');
  const { bundled, classes, total, egress } = found;
  const rowOf = ({ what, legs, bytes, ...costs }: UnbundledRow) => [
    ...[what, legs.join(' + '), formatBytes(bytes)],
    ...[usd(costs.storage), usd(costs.retrieval), usd(costs.total)],
  ];
  printTable(false, {
    json: null,
    heading: ['USD A YEAR', 'COPIES IN', 'BYTES', 'STORAGE', 'RETRIEVAL', 'TOTAL'],
    rows: [rowOf(bundled), ...classes.map(rowOf), ['all classes', '', '', '', '', usd(total)]],
  });
  const saved = Number(bundled.total - total) / Number(bundled.total);
  const word = saved < 0 ? 'more' : 'less';
  print(`\nUnbundled it is ${(Math.abs(saved) * 100).toFixed(1)}% ${word}.`);
  print(`Where it is read from outside, ${usd(egress)} more in both cases for what is sent.`);
}

function jsonOfClasses({ bundled, classes, total, egress, ...rest }: Unbundled): object {
  const of = ({ storage, retrieval, total: all, ...one }: UnbundledRow) => ({
    ...one,
    ...{ storage: formatUsd(storage), retrieval: formatUsd(retrieval), total: formatUsd(all) },
  });
  const sums = { total: formatUsd(total), egress: formatUsd(egress) };
  return { ...rest, bundled: of(bundled), classes: classes.map(of), ...sums };
}

function listExamples(flags: ExampleFlags): void {
  const rows = [...paperExamples].map(([name, { title, source, book }]) => {
    return { name, title, source, book };
  });
  printTable(flags.json, {
    json: rows,
    heading: ['NAME', 'WHAT', 'BY', 'SOURCE'],
    rows: rows.map(({ name, title, source, book }) => [name, title, book, source]),
  });
}

function printExample(example: PaperExample, figures: readonly ComparedFigure[]): void {
  const { title, source, book, workload } = example;
  print(title);
  print(`Source: ${source}`);
  print(`Priced by the book ${book}, over ${workload.months} months`);
  for (const { what, assumptions } of figures) {
    print(`\nAssumed of ${what}:`);
    for (const assumption of assumptions) print(`  - ${assumption}`);
  }
  print('');
  printTable(false, {
    json: null,
    heading: ['USD A YEAR', 'OURS', "THE PAPER'S", 'DIFFERENCE', ''],
    rows: figures.map(({ what, ours, paper, difference }) => [
      ...[what, usd(ours), usd(paper), usd(difference)],
      `${((Number(difference) / Number(paper)) * 100).toFixed(2)}%`,
    ]),
  });
  print('');
  printTable(false, {
    json: null,
    heading: ['PICOCENTS PER BIT AND YEAR', 'OURS', "THE PAPER'S"],
    rows: figures.map(({ what, picocentsPerBitYear: { ours, paper } }) => [
      what,
      ...[ours, paper].map((one) => one?.toFixed(3) ?? '-'),
    ]),
  });
}

function jsonOf(example: PaperExample, figures: readonly ComparedFigure[]): object {
  const { title, source, book, workload } = example;
  return {
    ...{ title, source, book, workload },
    figures: figures.map(({ ours, paper, difference, ...rest }) => ({
      ...rest,
      ours: formatUsd(ours),
      paper: formatUsd(paper),
      difference: formatUsd(difference),
    })),
  };
}

/** `$335,928.43` */
function usd(amount: Picodollars): string {
  const [whole = '', cents = ''] = formatUsd(amount, 2).split('.');
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ',')}.${cents}`;
}
