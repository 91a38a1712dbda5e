// `bursar tiering`: what moving objects along classes by how they are used would have done, from
// the records of a bucket.
import type { WriteStream } from 'node:tty';
import { type Command, InvalidArgumentError } from 'commander';
import { formatBytes } from '../../core/bytes-text.ts';
import { CommandFailure } from '../../core/command-failure.ts';
import { formatUsd, picodollarsPerUsd } from '../../core/money.ts';
import type { Answers } from '../../gateway/native/routes.ts';
import { horizonDaysUsual, smallestBytesUsual } from '../../tiering/policy/cold-rule.ts';
import { type Connection, callApi } from '../api-client.ts';
import { findPlace, type NamedPlace } from '../bucket-names.ts';
import { type CommandFlags, connect } from '../command-arguments.ts';
import { print, printJson, printTable } from '../output.ts';
import { addPriceBooksFlag, findBooks } from '../price-commands.ts';
import { CountProgress } from '../progress.ts';
import { type Plan, type PlanCost, planOf } from './plan.ts';
import { readChain } from './priced-chain.ts';
import { VersionHistories } from './version-histories.ts';

interface PlanFlags extends CommandFlags {
  chain: string[];
  book?: string;
  horizon: number;
}

const chainMax = 5;

const help = `
A chain begins with the class that objects are written into. Its classes are those of a price book,
or your own as TENANT/NAME. What is not read moves on when it has cost as much as the move, the
minimum time and one more read would; how much sooner pays is learned from the bucket itself. What
is read on several days comes back. Nothing is moved: this only says what it would have cost.

Examples:
  bursar tiering plan s3://raw
  bursar tiering plan s3://raw/2025/ --chain STANDARD STANDARD_IA GLACIER_IR
  bursar tiering plan s3://cms:raw --chain STANDARD cms/batch-production --json`;

export function addTieringCommands(program: Command): void {
  const tiering = program
    .command('tiering')
    .description('storage classes by use: what is not read moves to cheaper ones');
  const plan = tiering
    .command('plan <s3-url>')
    .description('say from the records what moving by use would have done and cost')
    .option('--chain <class...>', 'from the first class to the last', [
      ...['STANDARD', 'STANDARD_IA'],
    ])
    .option('--book <name>', 'prices of its classes (see bursar price list)')
    .option(
      '--horizon <days>',
      'a move has to earn its price within so many days',
      parseDays,
      horizonDaysUsual,
    )
    .addHelpText('after', help)
    .action(runPlan);
  addPriceBooksFlag(plan);
}

function parseDays(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Must be 1 to 99999.');
}

async function runPlan(url: string, _: object, command: Command): Promise<void> {
  const { connection } = connect(command);
  const { chain: names, book, horizon, json } = command.optsWithGlobals<PlanFlags>();
  if (names.length > chainMax || new Set(names).size < names.length) {
    throw new CommandFailure('usage', `a chain has up to ${chainMax} classes, each once`);
  }
  const { books, usual } = await findBooks(command);
  const prices = book === undefined ? usual : books.named(book);
  if (book !== undefined && !prices) {
    throw new CommandFailure('usage', `--book ${book} is not there: see bursar price list`);
  }
  const chain = await readChain(connection, books, prices, names);
  const place = await findPlace(connection, url);
  const { histories, altered } = await readHistories(connection, place);
  const known = histories.list(Date.now());
  const terms = { chain, smallestBytes: smallestBytesUsual, horizonDays: horizon };
  const plan = planOf(terms, known);
  const reads = known.reduce((sum, one) => one.reads.reduce((n, day) => n + day.reads, sum), 0);
  const of = { ...place, prefix: place.key, versions: known.length, reads };
  const { strayReads } = histories;
  const notes = notesOf({ altered, strayReads });
  if (json) printJson({ of: { ...of, key: undefined }, chain: names, ...shown(plan), notes });
  else show({ versions: known.length, reads, names }, plan, notes);
}

async function readHistories(connection: Connection, { tenant, bucket, key }: NamedPlace) {
  const path = ['tenants', tenant, 'buckets', bucket, 'uses'];
  const histories = new VersionHistories();
  const progress = new CountProgress(process.stderr as WriteStream, 'uses');
  let [altered, read] = [0, 0];
  let after: string | undefined;
  do {
    const query = { after, prefix: key === '' ? undefined : key };
    const { json } = await callApi(connection, { method: 'GET', path, query });
    const page = json as Answers['ListUses'];
    for (const use of page.uses) histories.add(use);
    altered += page.altered.length;
    read += page.uses.length;
    progress.show(read);
    after = page.next ?? undefined;
  } while (after !== undefined);
  progress.clear();
  return { histories, altered };
}

function shown({ staying, byUse, best, ...plan }: Plan): object {
  return { staying: inUsd(staying), byUse: inUsd(byUse), best: usd(best), ...plan };
}

function inUsd(cost: PlanCost): Record<string, string> {
  return Object.fromEntries(Object.entries(cost).map(([name, amount]) => [name, usd(amount)]));
}

/** Estimates: to a nanodollar. */
function usd(amount: number, decimalsMax = 9): string {
  const nanodollars = BigInt(Math.round(amount * 1e9));
  return formatUsd(nanodollars * (picodollarsPerUsd / 1_000_000_000n), decimalsMax);
}

function show(
  of: { versions: number; reads: number; names: readonly string[] },
  plan: Plan,
  notes: readonly string[],
): void {
  const { staying, byUse, best, tiers, movesDown, movesBack } = plan;
  print(`${of.versions} versions, ${of.reads} reads`);
  const row = (title: string, name: keyof PlanCost) => [
    ...[title, usd(staying[name], 6), usd(byUse[name], 6)],
    name === 'total' ? usd(best, 6) : '',
  ];
  printTable(false, {
    json: null,
    heading: ['USD', `ALL IN ${of.names[0]}`, 'BY USE', 'BEST IN HINDSIGHT'],
    rows: [
      row('storage', 'storage'),
      row('reads', 'reads'),
      row('moves', 'moves'),
      row('minimum time', 'minimum'),
      row('total', 'total'),
    ],
  });
  print(`\n${movesDown} moves to cheaper classes, ${movesBack} back. As it would be now:`);
  printTable(false, {
    json: null,
    heading: ['CLASS', 'VERSIONS', 'BYTES', '1 GIB MOVES THERE'],
    rows: tiers.map(({ name, versions, bytes, idleDays }, i) => [
      ...[name, String(versions), formatBytes(bytes)],
      i === 0 ? '' : idleDays === null ? 'never' : `after ${idleDays} days without a read`,
    ]),
  });
  print('');
  for (const note of notes) print(note);
}

function notesOf({ altered, strayReads }: { altered: number; strayReads: number }): string[] {
  const notes = [
    'Prices are those of the first tier, and of today. What is sent costs the same in each case, ' +
      'and is left out.',
    'The best in hindsight knows all reads before, and owes nothing for minimum times.',
    'Each version counts as written into the first class, and each class as read at once.',
  ];
  if (strayReads > 0) notes.push(`Left out: ${strayReads} reads of versions that are not known.`);
  if (altered > 0) notes.push(`Left out: ${altered} records that are not what was recorded.`);
  return notes;
}
