// `bursar changes`: what became of objects, once or for ever, shown or given to a command.
// Invariant: a cursor is written when all before it was shown, or was done by the command; so who
// is killed and started again sees some changes twice, and none never.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi, mayPass } from './api-client.ts';
import { findPlace, findTenant } from './bucket-names.ts';
import { connect } from './command-arguments.ts';
import { print, printCsv, writeOutput } from './output.ts';

type Page = Answers['ReadChanges'];

/** What of an event is shown. */
interface ShownEvent {
  eventTime: string;
  eventName: string;
  s3: { bucket: { name: string }; object: { key: string; size?: number; versionId?: string } };
  bursar: { index: number };
}

interface FeedFlags {
  after?: string;
  cursor?: string;
  batch: string;
}

const waitSeconds = 30;
/** Between two tries of what failed, the first and the longest. */
const pauseMsMin = 1000;
const pauseMsMax = 60_000;

export function addChangesCommand(program: Command): void {
  const changes = program
    .command('changes')
    .description('what became of objects, in the order of the log');
  addFeedFlags(changes.command('list', { isDefault: true }))
    .argument('[place]', placeHelp)
    .description('shows what became of objects; with --json an event a line')
    .addHelpText('after', listHelp)
    .option('--follow', 'go on with what comes, until it is stopped')
    .action(async (place, flags: FeedFlags & { follow?: boolean }, command: Command) => {
      const { connection, flags: all } = connect(command);
      const { follow: isEndless = false } = flags;
      await follow(connection, { place, flags, isEndless, take: showerOf(all) });
    });
  addFeedFlags(changes.command('run'))
    .usage('[options] [place] -- <command...>')
    .argument('<words...>', `${placeHelp}. Behind --: a command, whose success counts`)
    .description('has a command work on what becomes of objects, until it is stopped')
    .addHelpText('after', runHelp)
    .option('--once', 'end when all that is there was worked on')
    .action(async (words: string[], flags: FeedFlags & { once?: boolean }, command: Command) => {
      const { connection } = connect(command);
      const isEndless = flags.once !== true;
      const isPlaced = words[0]?.startsWith('s3://') === true;
      const given = isPlaced ? words.slice(1) : words;
      if (given.length === 0) throw new CommandFailure('usage', 'a command is missing behind --');
      const place = isPlaced ? words[0] : undefined;
      await follow(connection, { place, flags, isEndless, take: runnerOf(given) });
    });
}

const placeHelp = 's3://BUCKET or s3://BUCKET/PREFIX; s3:// or nothing: all buckets';

function addFeedFlags(command: Command): Command {
  return command
    .option('--after <index>', 'behind this log index; now: what comes', parseAfter)
    .option('--cursor <file>', 'go on where this file says, and keep it up to date')
    .option('--batch <count>', 'at most so many changes at once', parseBatch, '1000');
}

const listHelp = `
  bursar changes s3://raw --follow --cursor raw.cursor --json`;

const runHelp = `
The command is started for each batch, with one event a line on its standard input (JSON, as S3
tells of changes). Where it fails it is started again with the same batch, later and later: no
others are asked for meanwhile. With --cursor it goes on, after whatever end, with what it has not
done.

  bursar changes run s3://raw/in/ --cursor in.cursor --batch 100 -- ./ingest.sh`;

interface Following {
  place: string | undefined;
  flags: FeedFlags;
  /** Goes on with what comes, and waits for a gateway that is away. */
  isEndless: boolean;
  /** Resolves when they are shown or done. */
  take: (events: readonly ShownEvent[]) => Promise<void>;
}

async function follow(connection: Connection, following: Following): Promise<void> {
  const { place, flags, isEndless, take } = following;
  const { path, query } = await tried(isEndless, () => findFeed(connection, place));
  const { cursor, batch: limit } = flags;
  let after = (cursor === undefined ? undefined : readCursor(cursor)) ?? flags.after;
  const noted = new Set<number>();
  for (;;) {
    // What `now` is has to be known before anything is waited for: should that call fail, another
    // one would begin later.
    const isNow = after === 'now';
    const wait = isEndless && !isNow ? String(waitSeconds) : undefined;
    const call = { method: 'GET', path, query: { ...query, after, wait, limit } } as const;
    const begunMs = performance.now();
    const page = (await tried(isEndless, () => callApi(connection, call))).json as Page;
    for (const index of page.altered) {
      if (!noted.has(index)) process.stderr.write(`bursar: record ${index} was altered\n`);
      noted.add(index);
    }
    const events = page.Records as unknown as ShownEvent[];
    if (events.length > 0) await take(events);
    if (cursor !== undefined && after !== page.next) writeCursor(cursor, page.next);
    after = page.next;
    if (page.more || (isNow && isEndless)) continue;
    if (!isEndless) return;
    // A gateway that stops answers at once.
    if (events.length === 0 && performance.now() - begunMs < pauseMsMin) await sleep(pauseMsMin);
  }
}

/** Where the changes are of what is named. */
async function findFeed(connection: Connection, place: string | undefined) {
  if (place === undefined || place === 's3://') {
    return { path: ['tenants', await findTenant(connection), 'changes'], query: {} };
  }
  const { tenant, bucket, key } = await findPlace(connection, place);
  const own = await findTenant(connection);
  // Another's bucket is asked for in the own tenant, as S3 clients do.
  const name = tenant === own ? bucket : `${tenant}:${bucket}`;
  return {
    path: ['tenants', own, 'changes'],
    query: { bucket: name, prefix: key === '' ? undefined : key },
  };
}

/** Who follows waits for a gateway that is away, or has too much to do. */
async function tried<T>(isPatient: boolean, work: () => Promise<T>): Promise<T> {
  for (let pauseMs = pauseMsMin; ; pauseMs = Math.min(2 * pauseMs, pauseMsMax)) {
    try {
      return await work();
    } catch (error) {
      if (!isPatient || !mayPass(error)) throw error;
      process.stderr.write(`bursar: ${messageOfFailure(error)}; it is tried again\n`);
      await sleep(pauseMs);
    }
  }
}

/** undefined: there is none yet. Throws `CommandFailure`. */
function readCursor(file: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new CommandFailure('failed', `cannot read ${file}: ${messageOfFailure(error)}`);
  }
  const cursor = text.trim();
  if (/^(?:-1|\d{1,15})$/.test(cursor)) return cursor;
  throw new CommandFailure('failed', `${file} has no log index: it is no cursor`);
}

function writeCursor(file: string, after: string): void {
  writeOutput(file, `${after}\n`, { mode: 0o600, ifExists: 'replace' });
}

function showerOf({ json, csv }: { json?: boolean; csv?: boolean }): Following['take'] {
  if (csv) printCsv(csvHeading, []);
  return async (events) => {
    if (csv) printCsv(null, events.map(cellsOf));
    else for (const event of events) print(json ? JSON.stringify(event) : lineOf(event));
    if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
  };
}

const csvHeading = ['index', 'time', 'event', 'bucket', 'key', 'size', 'version'];

function cellsOf({ bursar, eventTime, eventName, s3 }: ShownEvent): string[] {
  const { key, size = '', versionId = '' } = s3.object;
  return [
    `${bursar.index}`,
    eventTime,
    eventName,
    s3.bucket.name,
    nameOf(key),
    `${size}`,
    versionId,
  ];
}

/** Of a key as events have it. */
function nameOf(key: string): string {
  return decodeURIComponent(key.replaceAll('+', ' '));
}

function lineOf({ bursar, eventTime, eventName, s3 }: ShownEvent): string {
  const { key, size, versionId } = s3.object;
  const version = versionId === undefined ? [] : [`version ${versionId}`];
  const sizes = size === undefined ? [] : [formatBytes(size)];
  const place = printable(`s3://${s3.bucket.name}/${nameOf(key)}`);
  return [bursar.index, eventTime, eventName, place, ...sizes, ...version].join('  ');
}

/** Gives a batch to a command until it has done it. */
function runnerOf([file = '', ...args]: readonly string[]): Following['take'] {
  return async (events) => {
    const input = events.map((event) => `${JSON.stringify(event)}\n`).join('');
    for (let pauseMs = pauseMsMin; ; pauseMs = Math.min(2 * pauseMs, pauseMsMax)) {
      const failure = await run(file, args, input);
      if (failure === null) return;
      process.stderr.write(`bursar: ${file} ${failure}; the same batch is tried again\n`);
      await sleep(pauseMs);
    }
  };
}

/** null: it has succeeded. Throws `CommandFailure` where there is no such command. */
async function run(file: string, args: readonly string[], input: string): Promise<string | null> {
  const child = spawn(file, args, { stdio: ['pipe', 'inherit', 'inherit'] });
  // It need not read all that it is given.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    if (code === 0) return null;
    return code === null ? `was ended by ${signal}` : `ended with ${code}`;
  } catch (error) {
    throw new CommandFailure('failed', `cannot run ${file}: ${messageOfFailure(error)}`);
  }
}

function parseAfter(value: string): string {
  if (/^(?:now|-1|\d{1,15})$/.test(value)) return value;
  throw new InvalidArgumentError('Must be a log index, or now.');
}

function parseBatch(value: string): string {
  if (/^(?:[1-9]\d{0,2}|1000)$/.test(value)) return value;
  throw new InvalidArgumentError('Must be 1 to 1000.');
}
