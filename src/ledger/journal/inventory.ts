// The journal in a store against what its database has written there. Invariants: an object counts
// as lost only when the store, asked for it by name, does not give what was written: a listing may
// be stale; and an object counts as written by a gateway only when it opens.
import { hash } from 'node:crypto';
import type { JournalObjectRow } from '../../catalog/journal-objects.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { beginName } from './format.ts';
import {
  type GenerationFiles,
  isThere,
  isTooLong,
  readObject,
  type SegmentFile,
} from './generation.ts';

/** A generation in its store. */
export interface GenerationPlace {
  store: RemoteStore;
  keyring: Keyring;
  generation: string;
}

const readsAtOnce = 8;
/** So many of the newest objects are read and compared, whatever the listing says. */
const newestRead = 16;
/** More losses than that are not counted: a snapshot takes the place of all. */
const lostMax = 1000;
/** Objects that no row tells of and that are read, the oldest first. */
const strangersRead = 1000;

export function objectRow(name: string, lastSeq: number | null, sealed: Buffer): JournalObjectRow {
  const digest = hash('sha256', sealed, 'buffer');
  return { name, lastSeq, sizeBytes: sealed.length, digest };
}

/**
 * Names of what the store has no longer as it was written, the marker of the generation aside.
 * `rows` were read before `files`.
 */
export async function findLost(
  { store, generation }: GenerationPlace,
  rows: readonly JournalObjectRow[],
  files: GenerationFiles,
): Promise<string[]> {
  const listed = new Map<string, number>();
  for (const { name, sizeBytes } of files.segments) listed.set(name, sizeBytes);
  const inSnapshots = new Set(files.snapshots.flatMap(({ names }) => names));
  const segments = rows.filter(({ lastSeq }) => lastSeq !== null);
  const snapshot = rows.filter(({ name, lastSeq }) => lastSeq === null && name !== beginName);
  const newest = new Set([...segments.slice(-newestRead), ...snapshot.slice(-newestRead)]);
  const isDoubtful = (row: JournalObjectRow): boolean => {
    if (newest.has(row)) return true;
    const { name, lastSeq, sizeBytes } = row;
    return lastSeq === null ? !inSnapshots.has(name) : listed.get(name) !== sizeBytes;
  };
  const lost: string[] = [];
  await inParallel([...segments, ...snapshot].filter(isDoubtful), readsAtOnce, async (row) => {
    const { name, digest } = row;
    if (lost.length >= lostMax) return;
    if (!(await isThere(store, { generation, name }, digest))) lost.push(name);
  });
  return lost.sort();
}

/**
 * The newest change that authentic objects tell of which are not in `rows` and could tell of later
 * ones than `journaledSeq`; -1: there is no such object.
 */
export async function findToldElsewhere(
  { store, keyring, generation }: GenerationPlace,
  {
    rows,
    files,
    journaledSeq,
  }: {
    rows: readonly JournalObjectRow[];
    files: GenerationFiles;
    journaledSeq: number;
  },
): Promise<number> {
  const known = new Set(rows.map(({ name }) => name));
  const strangers = [
    ...files.segments.map(({ name, lastSeq, sizeBytes }) => {
      return { name, seq: lastSeq, kind: 'segment' as const, sizeBytes };
    }),
    ...files.snapshots.flatMap(({ names, beginSeq, isComplete }) => {
      const name = isComplete ? names.find((one) => one.endsWith('complete')) : undefined;
      return name ? [{ name, seq: beginSeq - 1, kind: 'complete' as const, sizeBytes: 0 }] : [];
    }),
  ].filter(({ name, seq, sizeBytes }) => {
    return seq > journaledSeq && !known.has(name) && !isTooLong(sizeBytes);
  });
  strangers.sort((a, b) => a.seq - b.seq);
  let toldSeq = -1;
  await inParallel(strangers.slice(0, strangersRead), readsAtOnce, async ({ name, seq, kind }) => {
    const object = await readObject(store, keyring, { generation, name }, kind);
    if (object && object !== 'false') toldSeq = Math.max(toldSeq, seq);
  });
  return toldSeq;
}

/** The last of these segments that opens, in a journal whose objects no row tells of. */
export async function findLastSegment(
  { store, keyring, generation }: GenerationPlace,
  segments: readonly SegmentFile[],
): Promise<string | null> {
  for (const { name, sizeBytes } of segments.slice(-strangersRead).reverse()) {
    if (isTooLong(sizeBytes)) continue;
    const object = await readObject(store, keyring, { generation, name }, 'segment');
    if (object && object !== 'false') return name;
  }
  return null;
}
