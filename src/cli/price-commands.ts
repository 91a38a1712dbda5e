// `bursar price`: the price books of a gateway, their figures with where each is from, and whether
// a file is one.
import { join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { CommandFailure, messageOfFailure, orFail } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type PriceBook, parsePriceBook } from '../quota/prices/price-book.ts';
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
import { flagOf, variableOf } from '../server/settings/setting.ts';
import { settings } from '../server/settings/settings.ts';
import { callApi } from './api-client.ts';
import { connect } from './command-arguments.ts';
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
  classes: Record<string, ClassText>;
}

type ClassText = Record<string, Meter | Record<string, Meter>>;

type Meter = { source: string } & Record<string, unknown>;

export function addPriceCommands(program: Command): void {
  const price = program.command('price').description('price books: by what operations are charged');
  const list = price
    .command('list')
    .description('say which price books the gateway knows, and which are in force')
    .action(listBooks);
  const show = price
    .command('show <name>')
    .description('show the figures of a price book, and where each is from')
    .action(showBook);
  for (const one of [list, show]) addPriceBooksFlag(one);
}

/** Adds it to the group `price`, whose other commands ask a gateway. */
export function addPriceCheckCommand(program: Command): void {
  program.commands
    .find((one) => one.name() === 'price')
    ?.command('check <file...>')
    .description('say whether files are price books that fit beside those that come with Bursar')
    .option('--json', 'answer with JSON')
    .action((files: string[], { json }: { json?: boolean }) => checkFiles(files, json))
    .addHelpText('after', '\nExample:\n  bursar price check price-books/lab-2026.json');
}

export function addPriceBooksFlag(command: Command): void {
  const names = `${flagOf(settings.priceBooks)} <${settings.priceBooks.placeholder}>`;
  const help = 'not the books of the gateway, but those that come with Bursar, and of this folder';
  command.addOption(new Option(names, `${help} [${variableOf(settings.priceBooks)}]`));
}

/** Books, and the one by which most is charged now. */
export interface FoundBooks {
  books: PriceBooks;
  usual: PriceBook | undefined;
}

/** As the flag above says. Rejects with `CommandFailure`. */
export async function findBooks(command: Command): Promise<FoundBooks> {
  const folder =
    command.optsWithGlobals<PriceFlags>().priceBooks ?? readClientEnvironment().priceBooks;
  if (folder !== undefined) {
    const books = openPriceBooks(folder);
    return { books, usual: books.inForce(String(settings.prices.default), Date.now()) };
  }
  const { connection } = connect(command);
  const { json } = await callApi(connection, { method: 'GET', path: ['price-books'] });
  const told = (json as Answers['ListPriceBooks']).books;
  const read = () => new PriceBooks(told.map(({ text }) => parsePriceBook(text)));
  const books = orFail('failed', 'the gateway has price books that are not known here: ', read);
  const usual = told.find(({ isUsual }) => isUsual);
  return { books, usual: usual && books.named(usual.name) };
}

async function listBooks(_given: object, command: Command): Promise<void> {
  const { books } = await findBooks(command);
  const now = Date.now();
  const rows = [...books].sort(byMarketAndDay).map((book) => ({
    name: book.name,
    market: marketOf(book),
    effective: new Date(book.effectiveMs).toISOString().slice(0, 10),
    inForce: books.inForce(marketOf(book), now) === book,
    classes: [...book.classes.keys()],
  }));
  printTable(command.optsWithGlobals<PriceFlags>().json, {
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

async function showBook(name: string, _given: object, command: Command): Promise<void> {
  const book = (await findBooks(command)).books.named(name);
  if (!book) {
    throw new CommandFailure('failed', `there is no price book ${name}: see bursar price list`);
  }
  const text = JSON.parse(book.text) as BookText;
  if (command.optsWithGlobals<PriceFlags>().json) {
    printJson(text);
    return;
  }
  const { sources, ingress, egress, classes } = text;
  const figures = Object.entries({ all: { ingress, egress }, ...classes }).flatMap(([of, prices]) =>
    metersOf(prices).map(([meter, one]) => ({ of, meter, one })),
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

/** By name; those of restores, which have one for each speed, as `restore Bulk`. */
function metersOf(prices: ClassText): [string, Meter][] {
  return Object.entries(prices).flatMap(([meter, one]): [string, Meter][] => {
    if (typeof one.source === 'string') return [[meter, one as Meter]];
    const speeds = Object.entries(one as Record<string, Meter>);
    return speeds.map(([speed, each]) => [`${meter} ${speed}`, each]);
  });
}

const unitNames: Readonly<Record<string, string>> = {
  usdPerGb: 'a GB',
  usdPerGbMonth: 'a GB-month',
  usdPer1000: 'for 1,000',
};

/** `$0 to 100 GB, $0.09 to 10,340 GB, $0.05 a GB` */
function describe({ source: _, ...figures }: Meter): string {
  const { usdPer1000, usdPerGb } = figures;
  if (usdPer1000 !== undefined && usdPerGb !== undefined) {
    return `$${usdPer1000} for 1,000, $${usdPerGb} a GB`;
  }
  const [[unit, amount] = ['', '']] = Object.entries(figures);
  const name = unitNames[unit];
  if (name === undefined) return `${figures.days} days, ${figures.bytes} bytes`;
  if (typeof amount === 'string') return `$${amount} ${name}`;
  const tiers = (amount as { usd: string; upToGb?: number }[]).map(({ usd, upToGb }) => {
    return upToGb === undefined ? `$${usd}` : `$${usd} to ${upToGb.toLocaleString('en-US')} GB`;
  });
  return `${tiers.join(', ')} ${name}`;
}

function checkFiles(files: readonly string[], asJson: boolean | undefined): void {
  const shipped = [...readPriceBooks()];
  try {
    const books = files.map((file) => [file, readPriceBook(file)] as const);
    const isGiven = ({ name }: PriceBook): boolean =>
      files.some((file) => resolve(file) === join(shippedFolder, fileOf(name)));
    const others = shipped.filter((book) => !isGiven(book));
    // A gateway can be served with all of them only if they fit together.
    new PriceBooks([...others, ...books.map(([, book]) => book)]);
    if (asJson) {
      const found = books.map(([file, book]) => ({
        file,
        name: book.name,
        market: marketOf(book),
      }));
      printJson(found);
      return;
    }
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
