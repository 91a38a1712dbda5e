// `bursar cost`: what was paid, by the records, or would be for a described workload, and beside it
// what the same costs by other prices, in another class, behind a cache.
import { readFileSync } from 'node:fs';
import type { WriteStream } from 'node:tty';
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { formatUsd, type Picodollars } from '../core/money.ts';
import { parseAccount } from '../quota/accounts.ts';
import { type CostRecord, costsOfAccount, RecordCosts } from '../quota/cost/record-costs.ts';
import { parseWorkload, type Workload } from '../quota/cost/workload.ts';
import {
  costOfYear,
  picocentsPerBitYear,
  priceWorkload,
  type WorkloadCost,
} from '../quota/cost/workload-cost.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import type { PriceBooks } from '../quota/prices/price-books.ts';
import type { Parties } from '../quota/roll-up/charged-record.ts';
import type { Connection } from './api-client.ts';
import { askWho } from './api-command.ts';
import { type ClassPlan, costInClass, readPlans } from './class-plan.ts';
import { type CommandFlags, connect } from './command-arguments.ts';
import { print, printCsv, printJson, printTable } from './output.ts';
import { addPriceBooksFlag, type FoundBooks, findBooks } from './price-commands.ts';
import { CountProgress } from './progress.ts';
import { readRecords } from './records-command.ts';
import { time, timeForms } from './times.ts';

interface CostFlags extends CommandFlags {
  account?: string;
  bucket?: string;
  from?: string;
  to?: string;
  workload?: string;
  book?: string[];
  class?: string[];
  classPlan?: string[];
  cacheHits?: number[];
  priceBooks?: string;
  csv?: boolean;
}

/** One case of the comparison: what is given is changed, what is undefined stays as it is. */
interface Asked {
  readonly book: PriceBook | undefined;
  readonly storageClass: string | undefined;
  readonly hitsPerMillion: number | undefined;
  /** It has its own prices and classes. */
  readonly plan?: ClassPlan;
}

const help = `
Each --book, --class and --cache-hits can have several values: each is compared with each. A class
of --class-plan says by which prices.

Examples:
  bursar cost --from 2026-10-01 --to 2026-11-01
  bursar cost principal:cms/alice --book s3-2007 s3-2010
  bursar cost bucket:cms/raw --class STANDARD_IA GLACIER_IR --csv
  bursar cost --workload archive.json --cache-hits 0.5 0.8
  bursar cost bucket:cms/raw --class-plan cms/online-production cms/batch-production
  bursar cost example dzero`;

export function addCostCommand(program: Command): void {
  const command = program
    .command('cost [account]')
    .description(
      'say what was paid, by all or by one account (tenant:cms, principal:cms/alice, ' +
        'bucket:cms/raw, token:ID), or what a workload costs, and what it would cost otherwise',
    )
    .option('--bucket <name>', 'only what is about this bucket')
    .option('--from <time>', `not before this time: ${timeForms}`, time)
    .option('--to <time>', 'before this time', time)
    .option('--workload <file>', 'not the records, but what this file describes')
    .option('--book <name...>', 'and by this price book (see bursar price list)')
    .option('--class <name...>', 'and all in this storage class')
    .option('--class-plan <tenant/name...>', 'and all in this class of your own (see bursar class)')
    .option('--cache-hits <share...>', 'and with this share of reads from a cache', parseShares)
    .option('--csv', 'answer with CSV')
    .addHelpText('after', help)
    .action(async (account: string | undefined, _given: object, one: Command) => {
      const flags = { ...one.optsWithGlobals<CostFlags>(), account };
      const { books, usual } = await findBooks(one);
      const { workload, classPlan = [] } = flags;
      const filters = workload === undefined ? filtersOf(flags) : null;
      const connection = filters || classPlan.length > 0 ? connect(one).connection : null;
      const plans = connection ? await readPlans(connection, books, classPlan) : [];
      const asked = askedBy(flags, books, plans);
      printCosts(
        connection && filters
          ? await answerRecords(connection, { flags, books, asked, filters })
          : answerWorkload({ flags, books, asked, usual }),
        flags,
      );
    });
  addPriceBooksFlag(command);
}

async function answerRecords(
  connection: Connection,
  given: {
    flags: CostFlags;
    books: PriceBooks;
    asked: readonly Asked[];
    filters: ReturnType<typeof filtersOf>;
  },
): Promise<CostAnswer> {
  const { flags, books, asked, filters } = given;
  const { account, bucket, from, to } = flags;
  const costs = new RecordCosts(books);
  const progress = new CountProgress(process.stderr as WriteStream, 'records');
  let read = 0;
  let altered = 0;
  for await (const page of readRecords(connection, filters)) {
    const unaltered = page.filter((one) => !one.altered);
    altered += page.length - unaltered.length;
    orFail('failed', '', () => addPage(costs, unaltered as (CostRecord & Parties)[], account));
    read += page.length;
    progress.show(read);
  }
  progress.clear();
  const price = (what: Asked) => costs.price(what);
  const cases = orFail('failed', '', () => asked.map((one) => caseOf(one, priceCase(one, price))));
  return {
    of: { account, bucket, from, to, records: costs.count, ...(altered > 0 && { altered }) },
    cases: [{ ...caseOf(asWas, costs.charged), name: 'as charged' }, ...cases],
    months: null,
    notes: [
      ...noteOfAltered(altered),
      ...(await noteOfMembers(connection)),
      ...(asked.length > 0 ? notesOf(asked) : []),
    ],
  };
}

function addPage(
  costs: RecordCosts,
  page: readonly (CostRecord & Parties)[],
  account: string | undefined,
): void {
  for (const record of page) {
    const charged = account === undefined ? record : costsOfAccount(record, account);
    if (charged) costs.add(charged);
  }
}

/** What all of it costs, by the prices of what is asked or by those of each of its legs. */
function priceCase(one: Asked, price: (asked: Asked) => WorkloadCost): WorkloadCost {
  const { plan } = one;
  return plan ? costInClass(plan, (leg) => price({ ...one, ...leg })) : price(one);
}

function answerWorkload({
  flags,
  asked,
  usual: inForce,
}: FoundBooks & { flags: CostFlags; asked: readonly Asked[] }): CostAnswer {
  for (const flag of ['account', 'bucket', 'from', 'to'] as const) {
    if (flags[flag] === undefined) continue;
    const what = flag === 'account' ? 'an account' : `--${flag}`;
    throw new CommandFailure('usage', `${what} is of records: leave it out with --workload`);
  }
  const workload = readWorkload(flags.workload ?? '');
  const cases: CostCase[] = [];
  const price = (one: Asked): CostCase =>
    orFail('failed', '', () => caseOf(one, priceCase(one, priceBy)));
  const priceBy = (one: Asked): WorkloadCost => {
    const book = one.book ?? inForce;
    if (!book) throw new CommandFailure('failed', 'no price book is in force: give --book');
    return priceWorkload(book, workload, one);
  };
  const lacking = workload.parts.find((part) => !inForce?.classes.has(part.storageClass));
  // The cases are compared with what is paid today, unless something of that has no price.
  if (!lacking || asked.length === 0) cases.push(price({ ...asWas, book: inForce }));
  cases.push(...asked.map(price));
  return {
    of: { workload: workload.name, months: workload.months },
    cases,
    months: workload.months,
    storedBytes: workload.parts.reduce((sum, part) => sum + BigInt(part.storedBytes), 0n),
    notes: [
      `Of ${workload.months} months, over which all is spread evenly.`,
      ...notesOfPlans(asked),
    ],
  };
}

const asWas: Asked = { book: undefined, storageClass: undefined, hitsPerMillion: undefined };

/** Combines each of the values with each of the others, and each plan with the caches. */
function askedBy(flags: CostFlags, books: PriceBooks, plans: readonly ClassPlan[]): Asked[] {
  const { book = [], class: storageClass = [], cacheHits = [] } = flags;
  const planned = plans.flatMap((plan) =>
    orNone(cacheHits).map((hits) => ({ ...asWas, hitsPerMillion: hits, plan })),
  );
  if (book.length + storageClass.length + (planned.length > 0 ? 0 : cacheHits.length) === 0) {
    return planned;
  }
  const chosen = book.map((name) => {
    const found = books.named(name);
    if (found) return found;
    throw new CommandFailure('usage', `--book ${name} is not there: see bursar price list`);
  });
  const asked = orNone(chosen).flatMap((one) =>
    orNone(storageClass).flatMap((of) =>
      orNone(cacheHits).map((hits) => ({ book: one, storageClass: of, hitsPerMillion: hits })),
    ),
  );
  const all = [...asked, ...planned];
  if (all.length > casesMax) {
    throw new CommandFailure('usage', `these are ${all.length} cases: ask for at most ${casesMax}`);
  }
  return all;
}

const casesMax = 50;

function orNone<T>(values: readonly T[]): readonly (T | undefined)[] {
  return values.length === 0 ? [undefined] : values;
}

function caseOf(asked: Asked, cost: CostCase['cost']): CostCase {
  const { book, hitsPerMillion, plan } = asked;
  const storageClass = plan?.name ?? asked.storageClass;
  const cacheHits = (hitsPerMillion ?? 0) / 1_000_000;
  const words = [
    book?.name,
    storageClass,
    hitsPerMillion === undefined ? undefined : `${hitsPerMillion / 10_000}% cached`,
  ];
  const name = words.filter((word) => word !== undefined).join(', ');
  return { name, book: book?.name ?? null, class: storageClass ?? null, cacheHits, cost };
}

function noteOfAltered(count: number): string[] {
  if (count === 0) return [];
  return [`Left out: ${count} records that are not what was recorded; bursar records names them.`];
}

/** What a member pays for others is in records that it does not see. */
async function noteOfMembers(connection: Connection): Promise<string[]> {
  if ((await askWho(connection)).role !== 'member') return [];
  return [
    'Of your own requests alone: what others did in your buckets, and you paid for, is in ' +
      'records that you do not see, and in bursar usage.',
  ];
}

/** The assumptions that pricing the records needed. */
function notesOf(asked: readonly Asked[]): string[] {
  const notes = [
    'Tiers are counted for these records alone, by calendar months (UTC).',
    'Storage is what has been charged for until now, and counts as large as it was billed.',
  ];
  if (asked.some(({ storageClass }) => storageClass !== undefined)) {
    notes.push(
      "Of a class's minimums nothing is counted: describe a workload for those.",
      'What was sent, or copied, was read from the class.',
    );
  }
  if (asked.some(({ book }) => book)) {
    notes.push('One price book has all of the time, also before it came into force.');
  }
  if (asked.some(({ hitsPerMillion }) => hitsPerMillion !== undefined)) {
    notes.push('A cache answers the same share of all reads of objects, and of their bytes.');
  }
  return [...notes, ...notesOfPlans(asked)];
}

/** What the classes promise for it, and how they were priced. */
function notesOfPlans(asked: readonly Asked[]): string[] {
  const plans = new Set(asked.flatMap(({ plan }) => plan ?? []));
  if (plans.size === 0) return [];
  return [
    'A class of your own costs what each of its legs stores, by the prices of its store, and ' +
      'what is asked of the first leg, sent and read. Its own minimum is not counted.',
    ...[...plans].map(({ name, sentences }) => `${name}: ${sentences.join(' ')}`),
  ];
}

/** Which records the gateway is asked for: at least all those that concern the account. */
function filtersOf({ account: name, bucket, from, to }: CostFlags) {
  if (name === undefined) return { bucket, from, to };
  const account = parseAccount(name);
  if (!account) {
    const forms =
      'tenant:cms, principal:cms/alice, bucket:cms/raw, prefix:cms/raw/run1/, ' +
      'writer:cms/alice or token:ID';
    throw new CommandFailure('usage', `${name} must be such as ${forms}`);
  }
  // What somebody wrote may be removed by others.
  const isAnybodys = account.kind === 'writer' && account.bucket === null;
  if (account.kind === 'token' || isAnybodys) return { bucket, from, to };
  const { tenant } = account;
  if (account.kind === 'tenant' || account.kind === 'principal') {
    return { tenant, bucket, from, to };
  }
  const own = (account.kind === 'bucket' ? account.name : account.bucket) ?? bucket;
  if (bucket !== undefined && bucket !== own) {
    throw new CommandFailure('usage', `--bucket ${bucket} is another than that of ${name}`);
  }
  return { tenant, bucket: own, from, to };
}

function readWorkload(file: string): Workload {
  const read = () => parseWorkload(readFileSync(file, 'utf8'));
  return orFail('usage', `--workload ${file}: `, read);
}

/** Hits of a million, of `0.8` or `80%`. */
function parseShares(text: string, before: number[] = []): number[] {
  const match = /^(?:(0|1)(?:\.(\d{1,6}))?|(\d{1,3})%)$/.exec(text);
  const [, whole = '0', decimals = '', percent] = match ?? [];
  const hits =
    percent === undefined ? Number(whole + decimals.padEnd(6, '0')) : Number(percent) * 10_000;
  if (match && hits <= 1_000_000) return [...before, hits];
  throw new InvalidArgumentError('Must be a share such as 0.8 or 80%.');
}

// Costs side by side: a column for each case and a row for each meter, or a line of CSV for each
// case. In JSON and CSV amounts are exact; the table shows as many decimals as are needed, up to 9.

export interface CostCase {
  readonly name: string;
  readonly book: string | null;
  readonly class: string | null;
  /** The share of reads that a cache answers, from 0 to 1. */
  readonly cacheHits: number;
  readonly cost: WorkloadCost;
}

export interface CostAnswer {
  /** What was priced. */
  readonly of: Readonly<Record<string, string | number | undefined>>;
  /** The first is what the others are compared with. */
  readonly cases: readonly CostCase[];
  /**
   * How many months a workload is priced for; null where records are priced. A workload also has a
   * cost per year.
   */
  readonly months: number | null;
  readonly storedBytes?: bigint;
  /** The assumptions that pricing needed. */
  readonly notes: readonly string[];
}

const meters: readonly (readonly [keyof WorkloadCost, string])[] = [
  ['puts', 'PUT requests'],
  ['gets', 'GET requests'],
  ['ingress', 'transfer in'],
  ['egress', 'transfer out'],
  ['retrieval', 'retrieval'],
  ['storage', 'storage'],
  ['earlyDeletion', 'early deletion'],
  ['total', 'total'],
];
const decimalsMax = 9;

/** Writes the answer: a table, with --json or --csv for programs. */
export function printCosts(answer: CostAnswer, form: { json?: boolean; csv?: boolean }): void {
  const { of, cases, notes } = answer;
  if (form.json) {
    const shown = cases.map(({ cost, ...one }) => {
      return { ...one, ...inUsd(cost), ...ofYear(cost, answer) };
    });
    printJson({ of, cases: shown, notes });
  } else if (form.csv) {
    const heading = ['case', 'book', 'class', 'cacheHits', ...meters.map(([name]) => name)];
    printCsv(heading, cases.map(lineOf));
    for (const note of notes) process.stderr.write(`${note}\n`);
  } else {
    printColumns(answer);
    for (const note of notes) print(note);
  }
}

function ofYear({ total }: WorkloadCost, { months, storedBytes = 0n }: CostAnswer): object {
  if (months === null) return {};
  const year = costOfYear(total, months);
  return { year: formatUsd(year), picocentsPerBitYear: picocentsPerBitYear(year, storedBytes) };
}

function lineOf({ name, book, class: of, cacheHits, cost }: CostCase): string[] {
  const amounts = meters.map(([meter]) => formatUsd(cost[meter]));
  return [name, book ?? '', of ?? '', String(cacheHits), ...amounts];
}

function inUsd(cost: WorkloadCost): Record<string, string> {
  return Object.fromEntries(meters.map(([meter]) => [meter, formatUsd(cost[meter])]));
}

function printColumns({ cases, months, storedBytes = 0n }: CostAnswer): void {
  const rows = meters.map(([meter, title]) => amountRow(title, cases, (cost) => cost[meter]));
  const [first, ...others] = cases;
  if (months !== null) {
    const yearOf = ({ total }: WorkloadCost): bigint => costOfYear(total, months);
    rows.push(amountRow('a year', cases, yearOf));
    if (storedBytes > 0n) {
      const picocents = cases.map(({ cost }) => picocentsPerBitYear(yearOf(cost), storedBytes));
      rows.push(['picocents per bit and year', ...picocents.map(String)]);
    }
  }
  if (first && others.length > 0) {
    const shares = others.map(({ cost }) => change(first.cost.total, cost.total));
    rows.push(['beside the first', '', ...shares]);
  }
  const [heading = [], ...aligned] = alignRight([
    ['USD', ...cases.map(({ name }) => name)],
    ...rows,
  ]);
  printTable(false, { json: null, heading, rows: aligned });
}

function amountRow(
  title: string,
  cases: readonly CostCase[],
  amountOf: (cost: WorkloadCost) => Picodollars,
): string[] {
  return [title, ...cases.map(({ cost }) => formatUsd(amountOf(cost), decimalsMax))];
}

/** `+12.3%`; nothing for what cannot be compared. */
function change(from: Picodollars, to: Picodollars): string {
  if (from === 0n) return '';
  const permille = Number(((to - from) * 2000n + from) / (2n * from));
  return `${permille < 0 ? '' : '+'}${(permille / 10).toFixed(1)}%`;
}

/** All but the first column to the right, and decimal points below each other. */
function alignRight(rows: readonly string[][]): string[][] {
  const aligned = rows.map((row) => [...row]);
  for (let i = 1; i < (rows[0]?.length ?? 0); i++) {
    const decimals = Math.max(...rows.map((row) => decimalsOf(row[i])));
    const cells = rows.map((row) => padDecimals(row[i] ?? '', decimals));
    const width = Math.max(...cells.map((cell) => cell.length));
    cells.forEach((cell, at) => {
      (aligned[at] as string[])[i] = cell.padStart(width);
    });
  }
  return aligned;
}

/** A cell that is no amount is not aligned. */
function padDecimals(cell: string, decimals: number): string {
  const own = decimalsOf(cell);
  return own === 0 ? cell : cell.padEnd(cell.length + decimals - own);
}

function decimalsOf(cell = ''): number {
  return /^-?\d+\.(\d+)$/.exec(cell)?.[1]?.length ?? 0;
}
