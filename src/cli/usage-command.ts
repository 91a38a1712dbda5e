// `bursar usage`: what accounts used, how near their limits are, and when these will be reached; or
// of one account what it used by day, month, action or class, or by who and where.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { formatUsd } from '../core/money.ts';
import { isLevel, windows } from '../core/quota-terms.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type ChargedRecord, partsOfRecord, type Tally } from '../quota/roll-up/charged-record.ts';
import { ApiRefusal, type Connection, callApi, listAll } from './api-client.ts';
import { askWho } from './api-command.ts';
import { type CommandFlags, choice, connect } from './command-arguments.ts';
import { showAmount } from './limit-commands.ts';
import { print, printCsv, printJson, printNote, printTable } from './output.ts';
import { readRecords } from './records-command.ts';
import { day } from './times.ts';

type Counters = Omit<PartRow, 'name'>;
type Cap = Usage['caps'][number];
type Usage = Answers['ListUsage']['usage'][number] & Partial<Answers['GetUsage']>;
type PartRow = Answers['BreakDownUsage']['rows'][number];

interface UsageFlags extends CommandFlags {
  by?: string;
  from?: string;
  to?: string;
  csv?: boolean;
}

const meters: (keyof Counters)[] = [
  'spend',
  'requests',
  'ingressBytes',
  'egressBytes',
  'storedBytes',
  'storedObjects',
];
const countersHeading = [
  ...['SPEND', 'REQUESTS', 'BYTES IN', 'BYTES OUT', 'BYTES STORED', 'OBJECTS'],
];

export function addUsageCommand(program: Command): void {
  program
    .command('usage [account]')
    .description(
      'what accounts used, and when their limits will be reached: of one (tenant:cms, ' +
        'principal:cms/alice, bucket:cms/raw, prefix:cms/raw/run1/, writer:cms/alice, token:ID) ' +
        'or all',
    )
    .option(
      '--by <part>',
      'by day, month, action or class; of a tenant by principal, bucket, prefix, writer or ' +
        'token, of a bucket by prefix or writer, of a principal by token; without an account ' +
        'your own or, where you see all of it, your tenant',
      choice(parts),
    )
    .option(
      '--from <day>',
      'with --by: not before this day of UTC: 2026-11-01, 2026-11 or 7d ago',
      day,
    )
    .option('--to <day>', 'with --by: before this day', day)
    .option('--csv', 'answer with CSV')
    .addHelpText('after', examples)
    .action(async (account: string | undefined, _given: object, command: Command) => {
      const { connection } = connect(command);
      const flags = command.optsWithGlobals<UsageFlags>();
      checkFlags(flags);
      const { by } = flags;
      if (by !== undefined) await showParts(connection, account ?? (await own(connection)), flags);
      else if (account === undefined) await showAll(connection, flags);
      else await showOne(connection, account, flags);
    });
}

const parts = [
  'day',
  'month',
  'action',
  'class',
  'principal',
  'bucket',
  'prefix',
  'writer',
  'token',
];

const examples = `
Examples:
  bursar usage
  bursar usage principal:cms/alice
  bursar usage bucket:cms/raw --by day --from 2026-11-01 --csv
  bursar usage --by principal
  bursar usage tenant:cms --by principal --from 2026-11
  bursar usage bucket:cms/raw --by prefix
  bursar usage bucket:cms/raw --by writer
  bursar usage principal:cms/alice --by token

At the present rate: by the use in the limit's window so far, or in the present hour or day; of
limits without a window, by that of the last seven days. The earliest is shown, and --json has
them all.`;

function checkFlags({ by, from, to }: UsageFlags): void {
  if (by !== undefined || (from === undefined && to === undefined)) return;
  throw new CommandFailure('usage', '--from and --to go with --by');
}

/** The account of who asks: of who sees the whole tenant, that of the tenant. */
async function own(connection: Connection): Promise<string> {
  const { tenant, principal, role } = await askWho(connection);
  return role === 'member' ? `principal:${tenant}/${principal}` : `tenant:${tenant}`;
}

async function showAll(connection: Connection, flags: UsageFlags): Promise<void> {
  const all = await listAll<Usage>(connection, ['usage'], 'usage');
  if (flags.csv) {
    printCsv(capHeading, all.flatMap(capRows));
    for (const usage of all) noteCounting(usage);
    return;
  }
  printTable(flags.json, {
    json: all,
    heading: ['ACCOUNT', ...countersHeading, 'HELD', 'READS PAID BY', 'NEAREST LIMIT'],
    rows: all.map((usage) => [
      ...[usage.account, ...shownOf(usage), show('storedBytes', String(usage.heldBytes ?? ''))],
      ...[usage.readsPaidBy ?? '', nearest(usage.caps)],
    ]),
  });
  if (!flags.json) for (const usage of all) noteCounting(usage);
}

function noteCounting({ account, isCounting }: Usage): void {
  if (!isCounting) return;
  const what = `what is stored of ${account} is still being counted`;
  printNote(`${what}: shown is what was found so far`);
}

async function showOne(connection: Connection, account: string, flags: UsageFlags): Promise<void> {
  const path = ['usage', account];
  const usage = (await callApi(connection, { method: 'GET', path })).json as Usage;
  if (flags.json) printJson(usage);
  else if (flags.csv) printCsv(capHeading, capRows(usage));
  else {
    const [, ...heading] = capHeading;
    const rows = capRows(usage).map(([, meter = '', window = '', ...row]) => [
      ...[meter, window, ...row.slice(0, 4).map((amount) => show(meter, amount, row[3]))],
      ...row.slice(4),
    ]);
    print(`${usage.account}, and ${usage.accrued} USD accrued for storage, not charged yet`);
    if (usage.heldBytes !== null && usage.heldBytes > 0) {
      const held = show('storedBytes', String(usage.heldBytes));
      print(`of what is stored, ${held} are held by snapshots and undelete windows`);
    }
    if (usage.readsPaidBy)
      print(`besides who reads, reads are paid by: ${payers[usage.readsPaidBy]}`);
    printTable(false, { json: null, heading: heading.map(columnTitle), rows });
  }
  if (!flags.json) noteCounting(usage);
}

const payers: Readonly<Record<string, string>> = {
  owner: 'the bucket, its owner and their tenant',
  requester: 'nobody, if the requester is of another tenant',
  tenant: 'the bucket and its tenant, not its owner',
};

async function showParts(
  connection: Connection,
  account: string,
  { by = '', from, to, ...flags }: UsageFlags,
): Promise<void> {
  const path = ['usage', account, 'by', by];
  let altered = 0;
  const found = await listAll<PartRow>(connection, path, 'rows', { from, to }, (page) => {
    ({ alteredRecords: altered } = page as Answers['BreakDownUsage']);
  });
  if (altered > 0) {
    const what = `${altered} records of the tenant are not what was recorded`;
    process.stderr.write(`bursar: ${what}, and are not in these sums (bursar records)\n`);
  }
  const [, guestsOf] = by === 'principal' ? (/^tenant:(.+)$/.exec(account) ?? []) : [];
  if (guestsOf !== undefined) found.push(...(await guestsRows(connection, guestsOf, { from, to })));
  if (flags.csv) {
    printCsv(
      [by, ...meters],
      found.map((row) => [row.name, ...countersOf(row)]),
    );
  } else {
    const rows = found.map((row) => [row.name, ...shownOf(row)]);
    const heading = [by.toUpperCase(), ...countersHeading];
    printTable(flags.json, { json: found, heading, rows });
  }
}

/** Where the records cannot be read, that is said, and all else is shown. */
async function guestsRows(
  connection: Connection,
  tenant: string,
  span: Pick<UsageFlags, 'from' | 'to'>,
): Promise<PartRow[]> {
  try {
    return await sumGuests(connection, tenant, span);
  } catch (error) {
    if (!(error instanceof ApiRefusal)) throw error;
    const what = `whom other tenants sent to ${tenant} is not in these sums`;
    process.stderr.write(
      `bursar: ${what}, since its records were not to be had: ${error.message}\n`,
    );
    return [];
  }
}

/**
 * What a tenant was charged for what principals of others did in its buckets, each under its whole
 * name. Nothing of that is added up by day, so the records are.
 */
async function sumGuests(
  connection: Connection,
  tenant: string,
  { from, to }: Pick<UsageFlags, 'from' | 'to'>,
): Promise<PartRow[]> {
  const rows = new Map<string, Tally>();
  const span = { ...(from && { from: beginOf(from) }), ...(to && { to: beginOf(to) }) };
  for await (const page of readRecords(connection, { tenant, guests: 'true', ...span })) {
    for (const record of page) {
      if (record.altered) continue;
      const name = `${record.tenant}/${record.principal}`;
      const parts = partsOfRecord(record as unknown as ChargedRecord);
      for (const part of parts.filter(({ account }) => account === `tenant:${tenant}`)) {
        rows.set(name, addTally(rows.get(name), part));
      }
    }
  }
  return [...rows]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { spend, ...row }]) => ({ name, ...row, spend: formatUsd(spend) }));
}

const beginOf = (dayOfUtc: string): string => `${dayOfUtc}T00:00:00.000Z`;

function addTally(sum: Tally | undefined, part: Tally): Tally {
  return {
    requests: (sum?.requests ?? 0) + part.requests,
    ingressBytes: (sum?.ingressBytes ?? 0) + part.ingressBytes,
    egressBytes: (sum?.egressBytes ?? 0) + part.egressBytes,
    storedBytes: (sum?.storedBytes ?? 0) + part.storedBytes,
    storedObjects: (sum?.storedObjects ?? 0) + part.storedObjects,
    spend: (sum?.spend ?? 0n) + part.spend,
  };
}

function countersOf(counters: Counters): string[] {
  return meters.map((meter) => String(counters[meter]));
}

/** The same as people read it. */
function shownOf(counters: Counters): string[] {
  return meters.map((meter) => show(meter, String(counters[meter])));
}

/** A removal is negative; a meter that does not apply stays empty. */
function show(meter: string, amount: string, limit?: string): string {
  if (amount.startsWith('-')) return `-${showAmount(meter, amount.slice(1), limit)}`;
  return amount === '' ? '' : showAmount(meter, amount, limit);
}

/** The limit of which the largest share is used. */
function nearest(caps: readonly Cap[]): string {
  const [first, ...others] = caps;
  if (!first) return '';
  const cap = others.reduce((one, other) => (other.percent > one.percent ? other : one), first);
  return `${cap.meter} ${cap.window} ${cap.percent}%`;
}

const capHeading = [
  ...['account', 'meter', 'window', 'used', 'reserved', 'lost', 'limit', 'percent'],
  ...['reset', 'reachedAt'],
];

function columnTitle(name: string): string {
  return name === 'reachedAt' ? 'REACHED AT THIS RATE' : name.toUpperCase();
}

/** Of each meter what was used in all, and each of its limits. */
function capRows({ account, caps, isCounting, ...counters }: Usage): string[][] {
  return meters.flatMap((meter) => {
    const own = caps.filter((cap) => cap.meter === meter);
    own.sort((a, b) => places.indexOf(a.window) - places.indexOf(b.window));
    const rows = own.map((cap) => [
      ...[account, meter, cap.window, cap.used, cap.reserved, cap.lost, cap.limit],
      ...[`${cap.percent}`, cap.resetAt ?? 'never'],
      isCounting && isLevel(meter) ? 'unknown' : reachedAt(cap),
    ]);
    if (own.some(({ window }) => window === 'total')) return rows;
    return [...rows, [account, meter, 'total', String(counters[meter]), '', '', '', '', '', '']];
  });
}

const places: readonly string[] = windows;

/** The earliest of its forecasts. */
function reachedAt({ forecasts, resetAt }: Cap): string {
  const times = forecasts.flatMap((one) => one.reachedAt ?? []).sort();
  return times[0] ?? (resetAt === null ? 'never' : 'not before');
}
