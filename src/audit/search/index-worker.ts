// The thread of the search index: follows the log behind it, block by block, and does erasures
// again in the index. When there is nothing to do, it now and then compares a block with its
// records, since a block that was tampered with hides some. It has its own readers, so nothing
// waits for it; and it rests as long as it works while it has much to catch up with, so that it
// never takes a core for itself.
import { setTimeout } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import type { PackedPart } from '../archive/archived-tiles.ts';
import { readNextErasure } from '../erasure.ts';
import { readLogSize } from '../log/stored-tiles.ts';
import { type KeptText, RecordStore } from '../record-store.ts';
import { blockWidth } from './positions.ts';
import { SearchIndexWriter } from './search-index.ts';

export interface IndexWorkerOptions {
  /** The log's database. */
  logPath: string;
  /** The index, made if it is not there. */
  indexPath: string;
  /** Pause between two looks at the log, milliseconds. */
  intervalMs: number;
  /** And between two blocks that are compared with their records. */
  comparingMs: number;
}

export type FromIndexWorker =
  | { ready: true }
  /** Wants what the archive's store has; answered by `ToIndexWorker`. */
  | { wanted: PackedPart; id: number }
  | { mended: number }
  /** A record that is not what was recorded. */
  | { altered: number }
  | { failed: string };

export type ToIndexWorker =
  | { close: true }
  | { doubted: number }
  | { id: number; bytes: Uint8Array }
  /** `isLost`: its store does not have it as it was written, so that waiting does not help. */
  | { id: number; failed: string; isLost: boolean };

class PartFailure extends Error {
  readonly isLost: boolean;

  constructor(message: string, isLost: boolean) {
    super(message);
    this.isLost = isLost;
  }
}

const readerCacheKib = 4 * 1024;
/** After a failure it waits longer and longer, up to so long. */
const pauseMsMax = 60_000;

const port = parentPort;
if (!port) throw new Error('the search index is made in a worker thread');
const { logPath, indexPath, intervalMs, comparingMs } = workerData as IndexWorkerOptions;

const wanted = new Map<number, { resolve(bytes: Uint8Array): void; reject(cause: Error): void }>();
let nextId = 1;
/** Blocks that led to records which they should not lead to. */
const doubted = new Set<number>();
/** The next to be compared. */
let comparedBlock = 0;
let comparedMs = performance.now();
const stopping = new AbortController();
port.on('message', (message: ToIndexWorker) => {
  if ('close' in message) {
    stopping.abort();
    for (const { reject } of wanted.values()) reject(new Error('the gateway stops'));
    return;
  }
  if ('doubted' in message) {
    doubted.add(message.doubted);
    return;
  }
  const waiting = wanted.get(message.id);
  wanted.delete(message.id);
  if ('bytes' in message) waiting?.resolve(message.bytes);
  else waiting?.reject(new PartFailure(message.failed, message.isLost));
});

const log = openDatabase(logPath, { readonly: true, cacheKib: readerCacheKib });
const store = new RecordStore(log.tx, readPart);
const index = await SearchIndexWriter.open(indexPath, store);
tell({ ready: true });
await follow();
index.close();
log.close();
port.close();

async function follow(): Promise<void> {
  let failures = 0;
  while (!stopping.signal.aborted) {
    const begunMs = performance.now();
    let rest = intervalMs;
    try {
      if ((await indexNext()) || (await eraseNext()) || (await mendNext()))
        rest = performance.now() - begunMs;
      failures = 0;
    } catch (cause) {
      if (stopping.signal.aborted) return;
      tell({ failed: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause) });
      failures += 1;
      rest = Math.min(intervalMs * 2 ** failures, pauseMsMax);
    }
    await setTimeout(rest, undefined, { signal: stopping.signal }).catch(ignoreAbort);
  }
}

/** Indexes the next block, once it is whole. */
async function indexNext(): Promise<boolean> {
  const end = await index.end();
  if ((await readLogSize(log.tx)) < end + blockWidth) return false;
  await indexBlock(end / blockWidth);
  return true;
}

/** Indexes anew the blocks that the oldest erasure concerns which is not done here yet. */
async function eraseNext(): Promise<boolean> {
  const next = await readNextErasure(log.tx, await index.erasedBy());
  if (!next) return false;
  const end = await index.end();
  for (const block of new Set(next.indexes.map((one) => Math.floor(one / blockWidth)))) {
    if (block * blockWidth < end) await indexBlock(block);
  }
  await index.noteErased(next.byIndex);
  return true;
}

/**
 * Makes a block anew where it is doubted, or compares the next with its records when it is time.
 */
async function mendNext(): Promise<boolean> {
  const end = (await index.end()) / blockWidth;
  const [block] = doubted;
  if (block !== undefined) {
    doubted.delete(block);
    if (block < end) await mend(block);
    return true;
  }
  if (end === 0 || performance.now() < comparedMs + comparingMs) return false;
  comparedMs = performance.now();
  // Records in the archive are left out: they would cost requests to its store each time.
  const oldest = await log.tx.get<{ idx: number | null }>('SELECT min(idx) AS idx FROM records');
  const first = Math.ceil((oldest?.idx ?? 0) / blockWidth);
  const next = comparedBlock >= first && comparedBlock < end ? comparedBlock : first;
  comparedBlock = next + 1;
  if (next >= end) return false;
  if (!(await index.leadsToAll(next, await readBlock(next)))) await mend(next);
  return true;
}

async function mend(block: number): Promise<void> {
  const wasUnread = await index.isUnread(block);
  await indexBlock(block);
  if (!wasUnread) tell({ mended: block });
}

/** A lost pack must not keep the other records from being indexed, nor those erased here. */
async function indexBlock(block: number): Promise<void> {
  try {
    await index.putBlock(block, await readBlock(block));
  } catch (cause) {
    const isLost = cause instanceof PartFailure ? cause.isLost : cause instanceof IntegrityError;
    if (!isLost) throw cause;
    tell({ failed: `block ${block} cannot be read: ${(cause as Error).message}` });
    await index.putBlock(block, null);
  }
}

/** What is not what was recorded is indexed by nothing. */
async function readBlock(block: number): Promise<KeptText[]> {
  const texts = await store.readTexts(block * blockWidth, blockWidth);
  for (const { index: altered, isAltered } of texts) if (isAltered) tell({ altered });
  return texts;
}

/** The archive's stores are the main thread's. */
function readPart(part: PackedPart): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const id = nextId++;
    wanted.set(id, { resolve, reject });
    tell({ wanted: part, id });
  });
}

function tell(message: FromIndexWorker): void {
  port?.postMessage(message);
}

function ignoreAbort(cause: unknown): void {
  if (!stopping.signal.aborted) throw cause;
}
