// `bursar price`: the price books that are here, their figures with where each is from, and whether
// a file is one. They ask no gateway.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import {
  fileOf,
  marketOf,
  PriceBooks,
  readPriceBook,
  readPriceBooks,
  shippedFolder,
} from '../quota/prices/price-books.ts';
import { openPriceBooks } from '../server/folder/store-prices.ts';
import { readClientEnvironment } from '../server/settings/config.ts';
import { flagOf, settings, variableOf } from '../server/settings/settings.ts';
import { print, printJson, printTable } from './output.ts';

interface PriceFlags {
  json?: boolean;
  priceBooks?: string;
}

/** A book as its file has it: once it is parsed, its sources are gone. */
interface BookText {
  sources: Record<string, { text: string; date: string }>;
  ingress: Meter;
  egress: Meter;
  classes: Record<string, Record<string, Meter>>;
}

type Meter = { source: string } & Record<string, unknown>;

export function addPriceCommands(program: Command): void {
  const price = program.command('price').description('price books: by what operations are charged');
  const list = price
    .command('list')
    .description('say which price books are here, and which are in force')
    .action((_given: object, command: Command) => listBooks(command.optsWithGlobals()));
  const show = price
    .command('show <name>')
    .description('show the figures of a price book, and where each is from')
    .action((name: string, _given: object, command: Command) => {
      showBook(name, command.optsWithGlobals());
    });
  const check = price
    .command('check <file...>')
    .description('say whether files are price books that fit beside those that come with Bursar')
    .action((files: string[]) => checkFiles(files));
  for (const one of [list, show]) addPriceBooksFlag(one.option('--json', 'answer with JSON'));
  check.addHelpText('after', '\nExample:\n  bursar price check price-books/lab-2026.json');
}

export function addPriceBooksFlag(command: Command): void {
  const { priceBooks } = settings;
  const names = `${flagOf(priceBooks)} <${priceBooks.placeholder}>`;
  command.addOption(new Option(names, `${priceBooks.description} [${variableOf(priceBooks)}]`));
}

/** The books that are shipped, and those of a folder. Throws `CommandFailure` (usage). */
export function readBooks(folder: string | undefined): PriceBooks {
  return openPriceBooks(folder ?? readClientEnvironment().priceBooks);
}

function listBooks(flags: PriceFlags): void {
  const books = readBooks(flags.priceBooks);
  const now = Date.now();
  const rows = [...books].sort(byMarketAndDay).map((book) => ({
    name: book.name,
    market: marketOf(book),
    effective: new Date(book.effectiveMs).toISOString().slice(0, 10),
    inForce: books.inForce(marketOf(book), now) === book,
    classes: [...book.classes.keys()],
  }));
  printTable(flags.json, {
    json: rows,
    heading: ['NAME', 'PROVIDER/REGION', 'FROM', 'IN FORCE', 'CLASSES'],
    rows: rows.map(({ name, market, effective, inForce, classes }) => [
      ...[name, market, effective, inForce ? 'yes' : 'no', classes.join(',')],
    ]),
  });
}

function byMarketAndDay(a: PriceBook, b: PriceBook): number {
  const [one, other] = [marketOf(a), marketOf(b)];
  if (one === other) return a.effectiveMs - b.effectiveMs;
  return one < other ? -1 : 1;
}

function showBook(name: string, flags: PriceFlags): void {
  const book = readBooks(flags.priceBooks).named(name);
  if (!book) {
    throw new CommandFailure('failed', `there is no price book ${name}: see bursar price list`);
  }
  const folder = flags.priceBooks ?? readClientEnvironment().priceBooks;
  const folders = folder === undefined ? [shippedFolder] : [shippedFolder, folder];
  const file = folders.map((one) => join(one, fileOf(name))).find(existsSync) as string;
  const text = JSON.parse(readFileSync(file, 'utf8')) as BookText;
  if (flags.json) {
    printJson(text);
    return;
  }
  const { sources, ingress, egress, classes } = text;
  const figures = Object.entries({ all: { ingress, egress }, ...classes }).flatMap(([of, prices]) =>
    Object.entries(prices).map(([meter, one]) => ({ of, meter, one })),
  );
  printTable(false, {
    json: null,
    heading: ['CLASS', 'METER', 'PRICE', 'SOURCE'],
    rows: figures.map(({ of, meter, one }) => [of, meter, describe(one), one.source]),
  });
  print('');
  for (const [source, { text: what, date }] of Object.entries(sources)) {
    print(printable(`${source} (${date}): ${what}`));
  }
}

const unitNames: Readonly<Record<string, string>> = {
  usdPerGb: 'a GB',
  usdPerGbMonth: 'a GB-month',
  usdPer1000: 'for 1,000',
};

/** `$0 to 100 GB, $0.09 to 10,340 GB, $0.05 a GB` */
function describe({ source: _, ...figures }: Meter): string {
  const [[unit, amount] = ['', '']] = Object.entries(figures);
  const name = unitNames[unit];
  if (name === undefined) return `${figures.days} days, ${figures.bytes} bytes`;
  if (typeof amount === 'string') return `$${amount} ${name}`;
  const tiers = (amount as { usd: string; upToGb?: number }[]).map(({ usd, upToGb }) => {
    return upToGb === undefined ? `$${usd}` : `$${usd} to ${upToGb.toLocaleString('en-US')} GB`;
  });
  return `${tiers.join(', ')} ${name}`;
}

function checkFiles(files: readonly string[]): void {
  const shipped = [...readPriceBooks()];
  try {
    const books = files.map((file) => [file, readPriceBook(file)] as const);
    const isGiven = ({ name }: PriceBook): boolean =>
      files.some((file) => resolve(file) === join(shippedFolder, fileOf(name)));
    const others = shipped.filter((book) => !isGiven(book));
    // A gateway can be served with all of them only if they fit together.
    new PriceBooks([...others, ...books.map(([, book]) => book)]);
    for (const [file, book] of books) {
      const classes = [...book.classes.keys()].join(', ');
      print(
        printable(`${file}: the price book ${book.name} of ${marketOf(book)}, with ${classes}`),
      );
    }
  } catch (error) {
    throw new CommandFailure('failed', messageOfFailure(error), error);
  }
}
