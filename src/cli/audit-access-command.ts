// `bursar audit access`: who could read a place of a bucket on a day, by what, and who did, from
// the records: those of the gateway, or files of them.
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { isObject, parseJson } from '../core/json.ts';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { AccessHistory, type KnownPrincipal, type ToldRecord } from './access/history.ts';
import {
  type Access,
  isSameAccess,
  type Place,
  placesIn,
  strangersIn,
  whoCouldRead,
} from './access/who-could-read.ts';
import { ApiRefusal, type Connection, callApi, listAll } from './api-client.ts';
import { findPlace } from './bucket-names.ts';
import { connect } from './command-arguments.ts';
import { print, printCsv, printJson, printTable } from './output.ts';
import { readRecords } from './records-command.ts';
import { timeForms, timeMs } from './times.ts';

const dayMs = 86_400_000;

/** The moment, or all of the day. */
interface Span {
  fromMs: number;
  /** Not including it. */
  toMs: number;
}

interface Told extends Access {
  /** RFC 3339, where that was not so for all of the span. */
  from: string | null;
  to: string | null;
}

interface Reader {
  who: string;
  how: string;
  reads: number;
  first: string;
  last: string;
}

const help = `
Of a day all is shown that held at any time of it, with FROM and TO where that was not all day; of a
time what held then, and who read on that day. Days are of UTC. Without --records the gateway is
asked; with it, files that "bursar records --json" or "bursar audit export" wrote, without any.
Conditions are those of the rule: whether they held is a matter of each request.

Examples:
  bursar audit access s3://raw/run1 --at 2026-11-01
  bursar audit access s3://cms:raw/run1/ --at 2026-11-01T12:00:00Z --records cms.jsonl --json`;

export function addAuditAccessCommand(audit: Command): void {
  audit
    .command('access')
    .description('who could read a key, a prefix or a bucket on a day, by what; and who did')
    .argument('<s3-url>', 's3://raw, s3://raw/run1 or, of another tenant, s3://cms:raw/run1')
    .requiredOption('--at <time>', `on this day, or at this time: ${timeForms}`)
    .option('--records <file...>', 'files of records, in the order of the log')
    .option('--csv', 'answer with CSV')
    .addHelpText('after', help)
    .action(run);
}

interface AccessFlags {
  at: string;
  records?: string[];
  csv?: boolean;
}

async function run(url: string, given: AccessFlags, command: Command): Promise<void> {
  const span = spanOf(given.at);
  const json = command.optsWithGlobals<{ json?: boolean }>().json === true;
  const { place, pages, notTold, known } = given.records
    ? { place: namedPlace(url), pages: readFiles(given.records), notTold: [], known: [] }
    : await fromGateway(connect(command).connection, url, span);
  const report = await follow(place, pages, span, known);
  report.notTold.push(...notTold);
  if (json) printJson({ ...place, at: given.at, ...report });
  else if (given.csv)
    printCsv(
      accessHeading.map((name) => name.toLowerCase()),
      report.access.map(rowOf),
    );
  else show(place, report);
}

async function fromGateway(connection: Connection, url: string, { toMs }: Span) {
  const place = await findPlace(connection, url);
  const to = new Date(toMs).toISOString();
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  // Operators see all tenants, and what they themselves did in this one.
  const isOperator = (json as Answers['WhoAmI']).role === 'operator';
  const which = isOperator ? { to } : { to, tenant: place.tenant };
  const pages = readRecords(connection, which) as AsyncGenerator<unknown> as AsyncGenerator<Line[]>;
  const notTold = isOperator ? [] : [operatorsWork(place.tenant)];
  const known = isOperator ? [] : await knownPrincipals(connection, place.tenant);
  if (!known) notTold.push(unknownAdmins(place.tenant));
  return { place, pages, notTold, known: known ?? [] };
}

type ListedPrincipal = Answers['ListPrincipals']['principals'][number];

/**
 * Who is there now: admins of the tenant may know, and records of who was made by an operator are
 * not among those that they see. null: it is not the caller's to know.
 */
async function knownPrincipals(
  connection: Connection,
  tenant: string,
): Promise<KnownPrincipal[] | null> {
  const path = ['tenants', tenant, 'principals'];
  try {
    const found = await listAll<ListedPrincipal>(connection, path, 'principals');
    return found.map(({ createdAt, ...one }) => ({ ...one, createdMs: Date.parse(createdAt) }));
  } catch (error) {
    if (error instanceof ApiRefusal && error.status < 500) return null;
    throw error;
  }
}

function operatorsWork(tenant: string): string {
  return `what operators of other tenants did in ${tenant}: ask as an operator for it`;
}

/** Admins read everything by their role, which no rule of the bucket or of the tenant says. */
function unknownAdmins(tenant: string): string {
  return (
    `the rule admin: which admins ${tenant} has that somebody of another tenant made; each of ` +
    `them could read all of it. Whom a grant of bursar:ListPrincipals lets list the principals ` +
    `of ${tenant} is told`
  );
}

/** Throws `CommandFailure` (usage). */
function namedPlace(url: string): Place {
  const [, tenant, bucket, key = ''] = /^s3:\/\/([^/:]+):([^/:]+)(?:\/(.*))?$/s.exec(url) ?? [];
  if (tenant !== undefined && bucket !== undefined) return { tenant, bucket, key };
  throw new CommandFailure(
    'usage',
    `with --records ${url} must say the tenant: s3://TENANT:BUCKET`,
  );
}

function spanOf(at: string): Span {
  const fromMs = orFail('usage', `--at ${at} is no time. `, () => timeMs(at));
  if (/^\d{4}-\d\d-\d\d$/.test(at)) return { fromMs, toMs: fromMs + dayMs };
  if (/^\d{4}-\d\d$/.test(at)) {
    const from = new Date(fromMs);
    return { fromMs, toMs: Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1) };
  }
  return { fromMs, toMs: fromMs + 1 };
}

type Line = ToldRecord | { altered: true; index: number };

async function* readFiles(paths: readonly string[]): AsyncGenerator<Line[]> {
  for (const path of paths) {
    const text = orFail('failed', '', () => readFileSync(path, 'utf8'));
    yield text.split('\n').flatMap((line): Line[] => {
      const value = parseJson(line);
      if (!isObject(value)) return [];
      const { opening, erasedBy, index } = value;
      if (erasedBy !== undefined) return [{ altered: true, index: Number(index) }];
      const record = isObject(opening) ? opening.record : value;
      const isRecord = isObject(record) && 'action' in record && 'index' in record;
      return isRecord || value.altered === true ? [(isRecord ? record : value) as never] : [];
    });
  }
}

export interface Report {
  access: Told[];
  readers: Reader[];
  notTold: string[];
}

/** Goes through the records in their order. Of a span what held at any time in it. */
export async function follow(
  place: Place,
  pages: AsyncIterable<readonly Line[]>,
  { fromMs, toMs }: Span,
  known: readonly KnownPrincipal[] = [],
): Promise<Report> {
  const history = new AccessHistory(place.tenant, place.bucket, known);
  const told: Told[] = [];
  const holding = new Map<string, { one: Told; among: readonly string[] }>();
  const readers = new Map<string, Reader>();
  const day = { fromMs: fromMs - (fromMs % dayMs), toMs: Math.max(toMs, fromMs + 1) };
  let seenAt = -1;
  let isInside = false;
  let first: ToldRecord | null = null;
  const look = (at: number) => {
    const now = new Map(whoCouldRead(history, place, at).map((one) => [nameOf(one), one]));
    const among = placesIn(history, place);
    for (const [name, { one, among: before }] of holding) {
      const given = now.get(name)?.places;
      const was = { given: one.places, among: before };
      if (given && isSameAccess(was, { given, among })) {
        one.places = given;
        holding.set(name, { one, among });
        now.delete(name);
      } else {
        one.to = new Date(at).toISOString();
        holding.delete(name);
      }
    }
    for (const [name, access] of now) {
      const from = isInside ? new Date(at).toISOString() : null;
      const one: Told = { ...access, from, to: null };
      told.push(one);
      holding.set(name, { one, among });
    }
    isInside = true;
    seenAt = history.changes;
  };
  const takeIn = (beforeMs: number) => {
    for (;;) {
      const atMs = history.takeIn(Math.min(beforeMs, toMs));
      if (atMs === null) return;
      if (isInside) look(atMs);
    }
  };
  const enter = () => {
    takeIn(fromMs);
    look(fromMs);
  };
  for await (const page of pages) {
    for (const record of page) {
      if ('altered' in record) {
        history.notTold.add(`what record ${record.index} said: it was erased or altered`);
        continue;
      }
      first ??= record;
      const atMs = Date.parse(record.time);
      if (!isInside && atMs >= fromMs) enter();
      takeIn(atMs);
      if (atMs < toMs) history.visit(record);
      if (isInside && atMs < toMs && history.changes !== seenAt) look(atMs);
      if (atMs >= day.fromMs && atMs < day.toMs) noteReader(readers, history, place, record);
    }
  }
  if (!isInside) enter();
  takeIn(toMs);
  history.compare(known);
  if (!history.bucket && told.length === 0) {
    const why = first
      ? `no record tells of it, from record ${first.index} of ${first.time} on`
      : 'there is no record of that time, nor of one before it';
    history.notTold.add(`whether there was such a bucket then: ${why}`);
  } else if (first && first.index > 0) {
    history.notTold.add(`what was before record ${first.index}, the first of these`);
  }
  for (const tenant of strangersIn(history, place)) {
    history.notTold.add(
      `who is in ${tenant}, its groups, tokens and links: records of ${tenant} do`,
    );
  }
  history.notTold.add('tokens that holders made of theirs and passed on');
  return { access: told, readers: [...readers.values()], notTold: [...history.notTold] };
}

function nameOf({ who, by, through, conditions }: Access): string {
  return JSON.stringify([who, by, through, conditions]);
}

const readActions: ReadonlySet<string> = new Set(['s3:GetObject', 's3:GetObjectVersion']);

function noteReader(
  readers: Map<string, Reader>,
  history: AccessHistory,
  { key: base }: Place,
  record: ToldRecord,
): void {
  const { action, key = '', error, status, tenant, principal, tokens, accessKeyId } = record;
  if (!readActions.has(action) || error !== undefined || status >= 400) return;
  const isInside = base === '' || key === base || key.startsWith(base.replace(/\/?$/, '/'));
  if (!history.isAbout(record) || !isInside) return;
  const token = tokens?.at(-1);
  const how = token === undefined ? (accessKeyId ?? 'no credentials') : `token:${token}`;
  const who = `${tenant}/${principal}`;
  const last = record.lastRead ?? record.time;
  const before = readers.get(`${who} ${how}`) ?? { who, how, reads: 0, first: record.time, last };
  readers.set(`${who} ${how}`, { ...before, reads: before.reads + (record.reads ?? 1), last });
}

const accessHeading = ['WHO', 'BY', 'THROUGH', 'WHAT', 'CONDITIONS', 'FROM', 'TO'];

function rowOf({ who, by, through, places, conditions, from, to }: Told): string[] {
  return [who, by, through, places.join(' '), conditions.join('; '), from ?? '', to ?? ''];
}

function show({ tenant, bucket, key }: Place, { access, readers, notTold }: Report): void {
  print(printable(`could read s3://${tenant}:${bucket}/${key}:`));
  if (access.length === 0) print('  nobody that is told');
  else printTable(false, { json: null, heading: accessHeading, rows: access.map(rowOf) });
  print('\nread it:');
  if (readers.length === 0) print('  nobody that is told');
  else {
    const rows = readers.map(({ who, how, reads, first, last }) => [
      ...[who, how, String(reads), first, last],
    ]);
    const heading = ['WHO', 'HOW', 'READS', 'FIRST', 'LAST'];
    printTable(false, { json: null, heading, rows });
  }
  print('\nnot told by the records:');
  for (const one of notTold) print(printable(`  ${one}`));
}
