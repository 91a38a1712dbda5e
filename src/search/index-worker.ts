// The thread that keeps the index of objects: reads the catalog once, and then follows the log
// behind it, which tells whose objects changed. What an object says is always read from the
// catalog. When there is nothing to do it compares some objects with the index, again and again,
// since nothing protects that. It never takes a core for itself: it rests nine times as long as it
// works, since whoever writes is slower for each moment of a core that it takes, and less the later
// it is, but always as long as it works.
import { readlinkSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { readLagMs } from '../audit/changes/lag.ts';
import { changeOf } from '../audit/changes/object-change.ts';
import { readLogSize } from '../audit/log/stored-tiles.ts';
import { RecordStore } from '../audit/record-store.ts';
import { openDatabase } from '../core/database.ts';
import { compareText } from '../core/text-order.ts';
import {
  commitmentOf,
  damageOf,
  type IndexedVersion,
  type IndexState,
  indexedColumns,
  isDamage,
  isOfLog,
  ObjectIndexWriter,
  type ObjectNow,
  type ObjectPlace,
  takeDamage,
} from './object-index.ts';
import type { IndexedMetadata } from './postings.ts';
import { WatchedFile } from './watched-file.ts';

export interface IndexWorkerOptions {
  /** The catalog and the log. */
  databasePath: string;
  /** The index, made if it is not there. */
  indexPath: string;
  metadata: IndexedMetadata;
  /** Pause between two looks at the log, milliseconds. */
  intervalMs: number;
  /** And between two times that some objects are compared. */
  comparingMs: number;
}

export interface IndexProgress {
  /** Records before this index are in the index. */
  through: number;
  /** false: the catalog is still being read, so that the index is not used. */
  isComplete: boolean;
}

export type FromIndexWorker =
  | { progress: IndexProgress }
  /** So many objects were not in the index as the catalog has them. */
  | { mended: number }
  /** The index is made anew, and why. */
  | { begun: string }
  | { failed: string };

export interface ToIndexWorker {
  close: true;
}

const readerCacheKib = 16 * 1024;
const objectsAtOnce = 256;
const recordsAtOnce = 1024;
/** Objects that are read by their keys in one statement. */
const readAtOnce = 64;
const comparedAtOnce = 512;
/** Where the log grows all the time, those are compared again in their turn. */
const mendingTriesMax = 20;
/** How many times as long as it works it rests where it is not late. */
const restTimes = 9;
/** It rests as long as it works where it is later than that. */
const lagMsMax = 600;
/** Records a second, from which on much is being written, while the catalog is read. */
const busyRecords = 200;
const restMsMax = 1000;
/** What was deleted stays in SQLite's log for so long where nothing else is written. */
const forgetMs = 60_000;
/** After a failure it waits longer and longer, up to so long. */
const pauseMsMax = 60_000;
/** Beyond that the catalog is read again, which takes less than so many records. */
const behindMax = 500_000;

const port = parentPort;
if (!port) throw new Error('the index of objects is made in a worker thread');
const options = workerData as IndexWorkerOptions;
const { databasePath, indexPath, metadata, intervalMs, comparingMs } = options;

const stopping = new AbortController();
/** Why the index is to be made anew; null: it is not. */
let damaged: string | null = null;
port.on('message', (_message: ToIndexWorker) => stopping.abort());

const catalog = openDatabase(databasePath, { readonly: true, cacheKib: readerCacheKib });
const records = new RecordStore(catalog.tx, async () => {
  throw new ArchivedRecords('what the index has not followed is in the archive');
});

class ArchivedRecords extends Error {}

/** null: it is not open. */
let index: { writer: ObjectIndexWriter; file: WatchedFile } | null = null;
/** What is compared next. */
let compared: ObjectPlace = { bucketId: 0, key: '' };
let comparedMs = performance.now();
/** The log, as it was when more of the catalog was last to be read. */
let looked = { size: 0, ms: performance.now() };
/** When pages as they were before were last taken out of the index's log. */
let forgottenMs = performance.now();

beLast();
await keep();
closeIndex();
catalog.close();
port.close();

/** Whoever else wants a core has it first. On Linux alone a thread has a priority of its own. */
function beLast(): void {
  try {
    const [, thread] = /task\/(\d+)$/.exec(readlinkSync('/proc/thread-self')) ?? [];
    if (thread) setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It rests as well.
  }
}

async function keep(): Promise<void> {
  let failures = 0;
  while (!stopping.signal.aborted) {
    const begunMs = usedMs();
    let rest = intervalMs;
    try {
      const { writer } = await open();
      if (await advance(writer)) rest = await restAfter(writer, usedMs() - begunMs);
      else if (performance.now() > forgottenMs + forgetMs) {
        writer.forgetPages();
        forgottenMs = performance.now();
      }
      failures = 0;
    } catch (cause) {
      if (stopping.signal.aborted) return;
      if (isDamage(cause)) damaged = damageOf(cause);
      else tell({ failed: cause instanceof Error ? (cause.stack ?? cause.message) : `${cause}` });
      failures += 1;
      rest = Math.min(intervalMs * 2 ** failures, pauseMsMax);
    }
    await setTimeout(rest, undefined, { signal: stopping.signal }).catch(() => {});
  }
}

/** Of a core by this thread; by the clock where Node does not tell: it tells from 23.9 on. */
function usedMs(): number {
  const used = process.threadCpuUsage?.();
  return used ? (used.user + used.system) / 1000 : performance.now();
}

/** How long it rests after it has worked so long, milliseconds, with more to do. */
async function restAfter(writer: ObjectIndexWriter, workedMs: number): Promise<number> {
  const { through, scan } = await writer.state();
  if (!scan) {
    const lagMs = await readLagMs(catalog.tx, through - 1);
    return Math.min(workedMs * Math.max(restTimes * (1 - lagMs / lagMsMax), 1), restMsMax);
  }
  const now = { size: await readLogSize(catalog.tx), ms: performance.now() };
  const perSecond = ((now.size - looked.size) * 1000) / Math.max(now.ms - looked.ms, 1);
  looked = now;
  return perSecond > busyRecords
    ? Math.min(workedMs * restTimes, restMsMax)
    : Math.min(workedMs, intervalMs);
}

/** The index, opened again or made anew where its file is not the one that was opened. */
async function open(): Promise<{ writer: ObjectIndexWriter }> {
  const wasGone = index?.file.isOther() === true;
  if (index && !wasGone && damaged === null) return index;
  closeIndex();
  const gone = wasGone ? 'its file was not there any more' : null;
  const found = takeDamage(indexPath);
  const reason = damaged ?? found ?? gone;
  if (reason !== null) tell({ begun: reason });
  const isOf = async (state: IndexState) => damaged === null && (await isOfLog(catalog.tx, state));
  const writer = await ObjectIndexWriter.open(indexPath, metadata, isOf);
  damaged = null;
  index = { writer, file: new WatchedFile(indexPath) };
  await tellProgress(await writer.state());
  return index;
}

function closeIndex(): void {
  index?.writer.close();
  index = null;
}

/** Does what is next; gives whether there is more to do. */
async function advance(writer: ObjectIndexWriter): Promise<boolean> {
  const state = await writer.state();
  if (state.scan) return readCatalog(writer, state, state.scan);
  const size = await readLogSize(catalog.tx);
  if (size - state.through > behindMax) {
    damaged = `it is ${size - state.through} records behind`;
    return true;
  }
  if (size > state.through && (await followLog(writer, state, size))) return true;
  // Also where something is asked for all the time.
  return compareSome(writer);
}

/** Has the next objects of the catalog in the index. */
async function readCatalog(
  writer: ObjectIndexWriter,
  state: IndexState,
  from: ObjectPlace,
): Promise<boolean> {
  // What changes from now on is followed, whether it was read already or not.
  const begin = from.bucketId === 0 ? await beginning() : state;
  const rows = await readObjects(from, objectsAtOnce);
  const last = rows.at(-1);
  const scan = last ? { bucketId: last.bucketId, key: last.key } : null;
  await writer.write(async () => {
    await writer.put(rows.map((row) => ({ bucketId: row.bucketId, key: row.key, version: row })));
    return { ...begin, scan };
  });
  await tellProgress({ ...begin, scan });
  return true;
}

async function beginning(): Promise<Pick<IndexState, 'through' | 'commitment'>> {
  const through = await readLogSize(catalog.tx);
  return {
    through,
    commitment: through === 0 ? null : await commitmentOf(catalog.tx, through - 1),
  };
}

function readObjects({ bucketId, key }: ObjectPlace, max: number): Promise<IndexedVersion[]> {
  return catalog.tx.all<IndexedVersion>(
    `SELECT ${indexedColumns} FROM versions WHERE (bucket_id, key) > (?, ?)
       ORDER BY bucket_id, key LIMIT ?`,
    ...[bucketId, key, max],
  );
}

/** Has in the index what the next records say was changed, as it is now. */
async function followLog(
  writer: ObjectIndexWriter,
  state: IndexState,
  size: number,
): Promise<boolean> {
  const count = Math.min(recordsAtOnce, size - state.through);
  const texts = await records.readTexts(state.through, count).catch((cause: unknown) => {
    if (!(cause instanceof ArchivedRecords)) throw cause;
    damaged = cause.message;
    return null;
  });
  if (!texts) return true;
  const places = new Map<string, ObjectPlace>();
  const buckets = new Map<string, number | null>();
  let { through } = state;
  for (const { index: at, opened } of texts) {
    if (at !== through) break;
    through += 1;
    const change = opened && changeOf(opened.record);
    if (!change) continue;
    const { tenant, bucket, key } = change;
    const bucketId = await numberOf(buckets, tenant, bucket);
    if (bucketId !== null) places.set(`${bucketId} ${key}`, { bucketId, key });
  }
  // What lies between was archived in this moment.
  if (through === state.through) return true;
  const commitment = await commitmentOf(catalog.tx, through - 1);
  await writer.write(async () => {
    await writer.put(await readNow([...places.values()]));
    return { through, commitment, scan: null };
  });
  await tellProgress({ through, commitment, scan: null });
  return through < size;
}

async function numberOf(
  known: Map<string, number | null>,
  tenant: string,
  name: string,
): Promise<number | null> {
  const id = known.get(`${tenant}/${name}`);
  if (id !== undefined) return id;
  const sql = 'SELECT id FROM buckets WHERE tenant = ? AND name = ?';
  const found = (await catalog.tx.get<{ id: number }>(sql, tenant, name))?.id ?? null;
  known.set(`${tenant}/${name}`, found);
  return found;
}

/** In the order of the catalog. */
async function readNow(places: readonly ObjectPlace[]): Promise<ObjectNow[]> {
  const sorted = [...places].sort(
    (one, other) => one.bucketId - other.bucketId || compareText(one.key, other.key),
  );
  const now: ObjectNow[] = [];
  for (let at = 0; at < sorted.length; ) {
    const { bucketId } = sorted[at] as ObjectPlace;
    const keys: string[] = [];
    for (; sorted[at]?.bucketId === bucketId && keys.length < readAtOnce; at++) {
      keys.push((sorted[at] as ObjectPlace).key);
    }
    const versions = await readVersions(bucketId, keys);
    for (const key of keys) now.push({ bucketId, key, version: versions.get(key) });
  }
  return now;
}

async function readVersions(
  bucketId: number,
  keys: readonly string[],
): Promise<Map<string, IndexedVersion>> {
  // Of two forms, of which each is prepared once.
  const width = keys.length === 1 ? 1 : readAtOnce;
  const filled = Array.from({ length: width }, (_, i) => keys[i] ?? (keys[0] as string));
  const rows = await catalog.tx.all<IndexedVersion>(
    `SELECT ${indexedColumns} FROM versions
      WHERE bucket_id = ? AND key IN (${filled.map(() => '?').join(', ')})`,
    ...[bucketId, ...filled],
  );
  return new Map(rows.map((row) => [row.key, row]));
}

/** Compares some objects with the index, when it is time, and forgets buckets that are gone. */
async function compareSome(writer: ObjectIndexWriter): Promise<boolean> {
  if (performance.now() < comparedMs + comparingMs) return false;
  comparedMs = performance.now();
  if (await forgetSome(writer)) return true;
  const rows = await readObjects(compared, comparedAtOnce);
  const wrong = [...(await writer.findMissed(rows)), ...(await findExtra(writer, rows))];
  const last = rows.length < comparedAtOnce ? undefined : rows.at(-1);
  compared = last ? { bucketId: last.bucketId, key: last.key } : { bucketId: 0, key: '' };
  return wrong.length > 0 && mendSome(writer, wrong);
}

/** Mends those that are wrong still when the log was followed: what was changed is no fault. */
async function mendSome(writer: ObjectIndexWriter, places: ObjectPlace[]): Promise<boolean> {
  for (let tries = 0; tries < mendingTriesMax; tries++) {
    const state = await writer.state();
    const size = await readLogSize(catalog.tx);
    if (size > state.through) {
      await followLog(writer, state, size);
      continue;
    }
    const wrong: ObjectPlace[] = [];
    for (const place of places) if (!(await isRight(writer, place))) wrong.push(place);
    if ((await readLogSize(catalog.tx)) > state.through) continue;
    if (wrong.length === 0) return true;
    await writer.write(async () => {
      for (const one of await readNow(wrong)) await writer.mend(one);
      return state;
    });
    tell({ mended: wrong.length });
    return true;
  }
  return true;
}

async function isRight(writer: ObjectIndexWriter, place: ObjectPlace): Promise<boolean> {
  const [now] = await readNow([place]);
  const row = now?.version;
  return row ? writer.leadsTo(row) : (await writer.keysFrom(place, 1))[0] !== place.key;
}

/** What the index has among these objects that the catalog does not. */
async function findExtra(
  writer: ObjectIndexWriter,
  rows: readonly IndexedVersion[],
): Promise<ObjectPlace[]> {
  const [first] = rows;
  if (!first) return [];
  const { bucketId } = first;
  const known = new Set(rows.filter((row) => row.bucketId === bucketId).map(({ key }) => key));
  const keys = await writer.keysFrom(first, known.size);
  return keys.filter((key) => !known.has(key)).map((key) => ({ bucketId, key }));
}

/** Objects of buckets that are gone: no record tells of each where a bucket ended with them. */
async function forgetSome(writer: ObjectIndexWriter): Promise<boolean> {
  const isThere = async (id: number) =>
    (await catalog.tx.get('SELECT 1 FROM buckets WHERE id = ?', id)) !== undefined;
  const bucketId = await writer.findGone(isThere);
  if (bucketId === undefined) return false;
  const keys = await writer.keysFrom({ bucketId, key: '' }, objectsAtOnce);
  const state = await writer.state();
  await writer.write(async () => {
    await writer.put(keys.map((key) => ({ bucketId, key, version: undefined })));
    if (keys.length < objectsAtOnce) await writer.forgetBucket(bucketId);
    return state;
  });
  // The next are not waited for.
  comparedMs -= comparingMs;
  return true;
}

async function tellProgress({ through, scan }: IndexState): Promise<void> {
  tell({ progress: { through, isComplete: scan === null } });
}

function tell(message: FromIndexWorker): void {
  port?.postMessage(message);
}
