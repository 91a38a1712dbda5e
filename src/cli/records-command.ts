// `bursar records`: what happened.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import type { AuditRecord as Recorded } from '../audit/verify/opening.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { ApiRefusal, type Connection, callApi, listAll, mayPass } from './api-client.ts';
import { askWho } from './api-command.ts';
import { findPlace } from './bucket-names.ts';
import { connect, parsePositive } from './command-arguments.ts';
import { nearest } from './nearest.ts';
import { chooseForm, PagedLines, print, printCsv, writeOutput } from './output.ts';
import { placeFor } from './record-place.ts';
import { time, timeForms } from './times.ts';

/** What was found in the place of a record that was altered. */
interface AlteredMark {
  altered: true;
  index: number;
}

interface AuditRecord
  extends Pick<Recorded, 'index' | 'time' | 'tenant' | 'principal' | 'action' | 'status'>,
    Pick<Recorded, 'bucket' | 'key' | 'target' | 'error' | 'tokens' | 'accessKeyId' | 'source'> {
  altered?: undefined;
  evidence: string;
  bytesIn: number;
  bytesOut: number;
  requestId: string;
  keyThumbprint?: string;
  /** Of a copy, what was read. */
  change?: { source?: { bucketTenant?: string; bucket?: string; key?: string } };
}

interface RecordFlags {
  from?: string;
  to?: string;
  tenant?: string;
  principal?: string;
  bucket?: string;
  bucketTenant?: string | undefined;
  /** Only of principals of other tenants. */
  guests?: 'true';
  prefix?: string;
  key?: string;
  action?: string;
  token?: string;
  status?: string;
  address?: string;
  after?: string;
  limit?: number;
  last?: number;
  follow?: boolean;
  csv?: boolean;
}

const pageMax = 1000;
/** So many of a follower's own looks are known. */
const ownMax = 1000;
/** How long a follower waits before it looks again. */
const followMs = 1000;

const heading = [
  ...['INDEX', 'TIME', 'WHO', 'HOW', 'EVIDENCE', 'FROM', 'ACTION', 'OUTCOME', 'REQUEST', 'ABOUT'],
];

export function addRecordsCommand(program: Command): void {
  program
    .command('records')
    .description('audit records, in the order of the log; with --json one canonical record a line')
    .addHelpText('after', helpText)
    .option('--from <time>', `not before this time: ${timeForms}`, time)
    .option('--to <time>', 'before this time', time)
    .option('--tenant <name>', 'of principals of this tenant, and about its buckets')
    .option('--principal <name>', 'of this principal (alice or cms/alice)')
    .option(
      '--bucket <bucket>',
      'about this bucket, also by the native API (snapshots, owner, limits): s3://raw, ' +
        'cms:raw or s3://cms:raw; raw finds those of all tenants',
    )
    .option('--prefix <text>', 'about keys that begin so')
    .option('--key <key>', 'about the object with this key')
    .option('--action <name>', 'of this action (s3:PutObject, bursar:CreateTenant)')
    .option('--token <jti>', 'made with this token, or one below it')
    .option('--status <code>', 'of this HTTP status', parseStatus)
    .option('--address <address>', 'from this address')
    .option('--after <index>', 'behind this log index', parseIndex)
    .option('--limit <count>', 'at most so many records (default: all)', parsePositive)
    .option(
      '--last <count>',
      'the last so many, the newest first; with --follow the newest last',
      parsePositive,
    )
    .option('--follow', 'go on with what comes, until it is stopped')
    .option('--csv', 'answer with CSV')
    .action(async (given: RecordFlags, command: Command) => {
      const { connection, flags } = connect(command);
      chooseForm({ ...given, json: flags.json });
      checkTogether(given);
      const show = showerOf(flags.json ? 'json' : given.csv ? 'csv' : 'text');
      const pages = given.follow ? followRecords : readRecords;
      const wanted = { ...given, ...(await bucketOf(connection, given.bucket)) };
      let count = 0;
      for await (const page of pages(connection, wanted)) {
        count += page.length;
        if (page.length > 0) show(page);
      }
      if (count === 0 && given.csv) show([]);
      if (count > 0 || given.follow) return;
      const lost = await whatIsLost(connection, given);
      if (lost !== null) process.stderr.write(`bursar: ${lost}\n`);
      else if (!flags.json) process.stderr.write('bursar: no records fit\n');
    });
}

const helpText = `
HOW is the access key, the token (its jti), the share link (its id) or the public key that was
used; EVIDENCE how well that proves who it was; FROM the client's address. A copy is about what was
written and what was read, and is found by both.`;

/** A name alone is that of buckets of all tenants. Throws `CommandFailure`. */
async function bucketOf(connection: Connection, text: string | undefined) {
  if (text === undefined || !/[:/]/.test(text)) return { bucket: text };
  const url = /^[^/:]+:[^/:]+$/.test(text) ? `s3://${text}` : text;
  const { tenant, bucket, key } = await findPlace(connection, url);
  if (key === '') return { bucket, bucketTenant: tenant };
  throw new CommandFailure('usage', `--bucket ${text} has a key: give it by --key or --prefix`);
}

/** Why nothing fits, where that is since nobody has the name that was asked for; else null. */
async function whatIsLost(
  connection: Connection,
  { principal, tenant }: RecordFlags,
): Promise<string | null> {
  if (principal === undefined) return null;
  const own = principal.includes('/') ? null : (tenant ?? (await askWho(connection)).tenant);
  const id = own === null ? principal : `${own}/${principal}`;
  const [of = '', name = ''] = id.split('/');
  try {
    const path = ['tenants', of, 'principals'];
    const all = await listAll<{ name: string }>(connection, path, 'principals');
    const names = all.map((one) => one.name);
    if (names.includes(name)) return null;
    const near = nearest(name, names);
    const guess = near === null ? '' : `: was ${of}/${near} meant?`;
    return `no records fit, and there is no principal ${id}${guess}`;
  } catch (error) {
    // Whoever may not list them is not told who there is.
    if (!(error instanceof ApiRefusal) || error.status >= 500) throw error;
    return null;
  }
}

function checkTogether({ last, after, limit }: RecordFlags): void {
  if (last === undefined) return;
  const other = after !== undefined ? '--after' : limit !== undefined ? '--limit' : null;
  if (other !== null) {
    throw new CommandFailure('usage', `--last and ${other} exclude each other`);
  }
}

type Page = (AuditRecord | AlteredMark)[];

/** Shows pages of records; people and spreadsheets get the columns' names first. */
function showerOf(form: 'json' | 'csv' | 'text'): (page: Page) => void {
  if (form === 'json') return (page) => page.forEach((one) => void print(JSON.stringify(one)));
  const lines = new PagedLines(heading);
  let names: string[] | null = heading.map((name) => name.toLowerCase());
  return (page) => {
    const rows = page.map(cellsOf);
    if (form === 'text') lines.print(rows.map((row) => row.map(quoted)));
    else printCsv(names, rows);
    names = null;
  };
}

/**
 * Gives pages of records. JSON.stringify gives the canonical text back, since members keep their
 * order.
 */
export async function* readRecords(
  connection: Connection,
  given: RecordFlags,
  onCall?: (requestId: string | undefined) => void,
): AsyncGenerator<Page> {
  const { from, to, tenant, principal, bucket, bucketTenant, prefix, key } = given;
  const { action, token, status, address, last } = given;
  const place = { bucket, bucketTenant, prefix, key };
  const about = {
    tenant,
    principal,
    guests: given.guests,
    ...place,
    action,
    token,
    status,
    address,
  };
  const order = last === undefined ? undefined : 'newest';
  const filters = { from, to, ...about, order };
  let left = given.limit ?? last ?? Number.POSITIVE_INFINITY;
  let cursor = given.after;
  while (left > 0) {
    const query = { ...filters, cursor, limit: String(Math.min(left, pageMax)) };
    const answer = await callApi(connection, { method: 'GET', path: ['records'], query });
    onCall?.(answer.requestId);
    const page = answer.json as { records: Page; next: string | null };
    yield page.records;
    left -= page.records.length;
    if (page.next === null) return;
    cursor = page.next;
  }
}

/**
 * The same from the first of them on, or from the last so many, and then what comes. Its own looks
 * are recorded, too: each would be shown by the next, without end, so they are left out. A gateway
 * that was reached and is gone, as where it is started anew, is waited for.
 */
async function* followRecords(connection: Connection, given: RecordFlags): AsyncGenerator<Page> {
  const { last, ...about } = given;
  const own = new Set<string | undefined>();
  const isOthers = (one: AuditRecord | AlteredMark) => one.altered || !own.delete(one.requestId);
  const note = (id: string | undefined) => {
    own.add(id);
    // Where a filter leaves them out already, they are never met.
    if (own.size > ownMax) own.delete(own.values().next().value);
  };
  const read = (what: RecordFlags) => readRecords(connection, what, note);
  let left = given.limit ?? Number.POSITIVE_INFINITY;
  let after = given.after;
  let state: 'new' | 'reached' | 'lost' = 'new';
  if (last !== undefined) {
    const newest: Page = [];
    for await (const page of read(given)) newest.push(...page);
    after = newest[0] === undefined ? after : String(newest[0].index);
    state = 'reached';
    yield newest.reverse();
  }
  while (left > 0) {
    const limit = Number.isFinite(left) ? left : undefined;
    const wanted = { ...about, ...(limit && { limit }), ...(after && { after }) };
    try {
      for await (const page of read(wanted)) {
        const end = page.at(-1);
        if (end) after = String(end.index);
        const others = page.filter(isOthers);
        left -= others.length;
        yield others;
      }
      state = 'reached';
    } catch (error) {
      if (state === 'new' || !mayPass(error)) throw error;
      const message = messageOfFailure(error);
      if (state === 'reached') process.stderr.write(`bursar: ${message}: it is tried again\n`);
      state = 'lost';
    }
    if (left > 0) await sleep(followMs);
  }
}

function cellsOf(record: AuditRecord | AlteredMark): string[] {
  if (record.altered) {
    return [String(record.index), 'ALTERED: it is not what was recorded', ...Array(8).fill('')];
  }
  const { index, time, tenant, principal, evidence, source, action, requestId } = record;
  const outcome = record.error ?? String(record.status);
  const who = `${tenant}/${principal}`;
  const how = howOf(record);
  return [
    ...[String(index), time, who, how, evidence, source ?? '', action, outcome, requestId],
    aboutOf(record),
  ];
}

/** By what somebody was let in. */
function howOf({ tokens, accessKeyId, keyThumbprint }: AuditRecord): string {
  const token = tokens?.at(-1);
  if (token !== undefined) return `token:${token}`;
  if (accessKeyId !== undefined) return `key:${accessKeyId}`;
  return keyThumbprint === undefined ? '-' : `public-key:${keyThumbprint}`;
}

function aboutOf(record: AuditRecord): string {
  const { target, tenant, change } = record;
  const object = target ?? placeFor(tenant, record);
  const source = change?.source;
  if (source?.bucket === undefined) return object;
  return `${object} from ${placeFor(tenant, source)}`;
}

/**
 * A text that is shown differently from what it is, is quoted, so that nobody takes an escape for
 * the key's own text.
 */
function quoted(cell: string): string {
  return printable(cell) === cell ? cell : printable(JSON.stringify(cell));
}

function parseStatus(value: string): string {
  if (!/^[1-5]\d{2}$/.test(value)) throw new InvalidArgumentError('Must be 100 to 599.');
  return value;
}

function parseIndex(value: string): string {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('Must be a log index.');
  return value;
}

// `bursar receipt show`: the proof that an operation is in the audit log, for whoever wants to keep
// it.

export function addReceiptCommands(program: Command): void {
  const receipt = program.command('receipt').description('proofs of what was done');
  receipt
    .command('show')
    .description('show the receipt of an operation; "bursar verify receipt" needs no gateway')
    .argument(
      '<index>',
      'the x-bursar-receipt of its answer, or the index of its record',
      parseReceiptIndex,
    )
    .option('--out <file>', 'write it to this file (default: to stdout)')
    .action(async (index: string, { out }: { out?: string }, command: Command) => {
      const { connection } = connect(command);
      const { text } = await callApi(connection, { method: 'GET', path: ['receipts', index] });
      if (out === undefined) process.stdout.write(text);
      else writeOutput(out, text, { mode: 0o600, ifExists: 'replace' });
    });
}

function parseReceiptIndex(value: string): string {
  if (/^(?:0|[1-9][0-9]{0,15})$/.test(value)) return value;
  throw new InvalidArgumentError('Must be a whole number from 0 on.');
}
