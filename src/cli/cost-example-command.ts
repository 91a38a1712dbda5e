// `bursar cost example`: what the studies computed, computed again from their assumptions, beside
// what they printed.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { formatUsd, type Picodollars } from '../core/money.ts';
import {
  type ComparedFigure,
  comparePaper,
  type PaperExample,
  paperExamples,
} from '../quota/cost/paper-examples.ts';
import { readPriceBooks } from '../quota/prices/price-books.ts';
import { print, printJson, printTable } from './output.ts';

interface ExampleFlags {
  list?: boolean;
  json?: boolean;
}

/** Below `bursar cost`, which asks a gateway where this does not. */
export function addCostExampleCommand(program: Command): void {
  program.commands
    .find((command) => command.name() === 'cost')
    ?.command('example [name]')
    .description("rebuild a study's figures, and state what they assume")
    .option('--list', 'say which there are')
    .option('--json', 'answer with JSON')
    .action((name: string | undefined, _given: object, command: Command) => {
      const flags = command.optsWithGlobals<ExampleFlags>();
      if (flags.list) return listExamples(flags);
      const example = paperExamples.get(name ?? '');
      if (!name || !example) {
        const names = [...paperExamples.keys()].join(', ');
        throw new CommandFailure('usage', `name one of the examples: ${names}`);
      }
      const figures = comparePaper(example, readPriceBooks());
      if (flags.json) printJson(jsonOf(example, figures));
      else printExample(example, figures);
    });
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
