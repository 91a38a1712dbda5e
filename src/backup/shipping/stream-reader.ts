// Brings a database that was put back from a backup forward by the segments that were shipped on
// top of it. Invariant: after the first segment that was begun when the backup was there, and after
// each later one, the file is the database as of that segment; before, it is nothing that can be
// opened.
import { type FileHandle, open } from 'node:fs/promises';
import { IntegrityError } from '../../core/errors.ts';
import { listBackupIds, type Manifest, readManifest } from '../manifest.ts';
import type { PieceSealer } from '../pieces.ts';
import type { BackupPlace } from '../place.ts';
import { type PutDatabaseOptions, putDatabaseBack } from '../put-back.ts';
import { type Page, type ReadSegment, readPages, readSegment } from './segment.ts';

/** The last segment that was put on. */
export interface Position {
  stream: string;
  seq: number;
  /** Of that segment, as the next one names it; null: none was put on. */
  digest: string | null;
}

export interface Forwarded extends Position {
  /** Everything that was committed before this moment was put on; in milliseconds. */
  timeMs: number;
  /** The number of records in the log, at least. */
  records: number;
}

export interface ForwardingOptions extends PutDatabaseOptions {
  /** The last segment that is to be put on. */
  until: number;
}

export interface Forwarding {
  /** The last state that the file came to; null: it is the backup's, or `isTorn`. */
  reached: Forwarded | null;
  /**
   * Whether the file is no state at all: it must be put back again, and brought forward to the one
   * that was reached.
   */
  isTorn: boolean;
  /** Why it ended early; null: there was no more. */
  problem: string | null;
}

const readsAtOnce = 8;

/**
 * Puts the database of the newest backup back, and on it what was shipped since, as far as that is
 * whole. While no segment can be put on that backup yet, an earlier one of its stream may lead
 * further, and is put back instead. Gives the state it came to; null: the newest backup's. Throws
 * IntegrityError where the newest backup is not what was written.
 */
export async function putNewestBack(source: PutDatabaseOptions): Promise<Forwarded | null> {
  const reached = await putForward(source);
  if (reached || !source.manifest.shipped) return reached;
  let isReplaced = false;
  for await (const manifest of earlierOfStream(source)) {
    isReplaced = true;
    try {
      const other = await putForward({ ...source, manifest });
      if (other && other.records > source.manifest.records) return other;
    } catch (error) {
      // The backup is damaged; an earlier one may be whole.
      if (!(error instanceof IntegrityError)) throw error;
    }
  }
  if (isReplaced) await putDatabaseBack(source);
  return null;
}

/** Null: nothing was put on it. */
async function putForward(source: PutDatabaseOptions): Promise<Forwarded | null> {
  for (let until = Number.POSITIVE_INFINITY; ; ) {
    await putDatabaseBack(source);
    if (until === 0) return null;
    const { reached, isTorn } = await bringForward({ ...source, until });
    if (!isTorn) return reached;
    until = reached?.seq ?? 0;
  }
}

/** The backups before this one that are of its stream, the newest first. */
async function* earlierOfStream({
  place,
  sealer,
  manifest: { id: newest, shipped },
}: PutDatabaseOptions): AsyncGenerator<Manifest> {
  for (const id of (await listBackupIds(place)).reverse()) {
    if (id >= newest) continue;
    try {
      const manifest = await readManifest(place, sealer, id);
      if (manifest?.shipped && manifest.shipped.stream === shipped?.stream) yield manifest;
    } catch (error) {
      if (!(error instanceof IntegrityError)) throw error;
    }
  }
}

/** Throws what the place throws when it does not answer. */
export async function bringForward(options: ForwardingOptions): Promise<Forwarding> {
  const { place, sealer, manifest, databaseFile, until, onProgress } = options;
  const forwarding: Forwarding = { reached: null, isTorn: false, problem: null };
  if (!manifest.shipped) return forwarding;
  const from = { ...manifest.shipped, digest: null };
  const file = await open(databaseFile, 'r+');
  try {
    for await (const segment of readStream(place, sealer, from)) {
      const { head, digest } = segment;
      forwarding.isTorn = forwarding.reached === null;
      for await (const pages of readPages(place, sealer, segment)) await writePages(file, pages);
      await file.truncate(head.pageBytes * head.pageCount);
      const { stream, seq, timeMs, records, covers } = head;
      if (!forwarding.isTorn || covers.includes(manifest.id)) {
        forwarding.reached = { stream, seq, digest, timeMs, records };
        forwarding.isTorn = false;
      }
      onProgress('putting what was shipped on top', seq - from.seq);
      if (seq >= until) break;
    }
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    forwarding.problem = error.message;
    // Some pages of the damaged segment may have been written already.
    if (forwarding.reached) forwarding.isTorn = true;
  } finally {
    await file.sync();
    await file.close();
  }
  return forwarding;
}

/**
 * The segments after a position, in order, as far as they follow one another. Throws
 * IntegrityError.
 */
export async function* readStream(
  place: BackupPlace,
  sealer: PieceSealer,
  from: Position,
): AsyncGenerator<ReadSegment> {
  const { stream } = from;
  const ahead: Promise<ReadSegment | undefined>[] = [];
  let previous = from.digest;
  let next = from.seq + 1;
  try {
    // The more segments there were, the more are likely to come.
    for (let wanted = 1; ; wanted++) {
      while (ahead.length < Math.min(wanted, readsAtOnce)) {
        const one = readSegment(place, sealer, { stream, seq: next++ });
        one.catch(() => {});
        ahead.push(one);
      }
      const segment = await ahead.shift();
      if (!segment) return;
      const { head, digest } = segment;
      if (previous !== null && head.previous !== previous) {
        throw new IntegrityError(`segment ${head.seq} of ${stream} does not follow the one before`);
      }
      previous = digest;
      yield segment;
    }
  } finally {
    await Promise.allSettled(ahead);
  }
}

export async function writePages(file: FileHandle, pages: readonly Page[]): Promise<void> {
  for (const { number, bytes } of pages) {
    await file.write(bytes, 0, bytes.length, (number - 1) * bytes.length);
  }
}
