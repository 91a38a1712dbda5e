// What a running gateway knows of the journal that it writes in one store, and the marker by which
// that counts. Invariant: what the database has listed of the journal is known by that list; of
// what 0.1.0 has written there is none, so a snapshot is due before anything can be missed.
import type { JournalObjectRow } from '../../catalog/journal-objects.ts';
import { hasLeftExtents, readInstance } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import type { Ledger } from '../ledger.ts';
import { beginName, snapshotOf } from './format.ts';
import {
  type GenerationFiles,
  markBegin,
  readObject,
  type SegmentFile,
  sealBegin,
} from './generation.ts';
import type { Tells } from './identity-format.ts';
import { findLastSegment, type GenerationPlace, objectRow } from './inventory.ts';

export interface OpenedJournal {
  generation: string;
  /** As its marker says: what an earlier rebuild could not restore. */
  losses: number;
  /** In order; those that the newest complete snapshot has not made superfluous. */
  segments: SegmentFile[];
  /** The segment that was written last; null: none was, or a snapshot has made it superfluous. */
  previous: string | null;
  /** The newest complete one. */
  snapshot: { beginSeq: number; sizeBytes: number } | null;
  /** The database has a list of all that the journal consists of. */
  isListed: boolean;
  /** Names of what the store has lost, until a snapshot has taken their place. */
  lost: string[];
  /** What it tells of identities. */
  tells: Tells | 'changes';
}

/** Writes the marker of a generation. */
export async function putBegin(
  { store, keyring, generation }: GenerationPlace,
  begin: { losses: number; snapshot: number | null; instance: string },
): Promise<JournalObjectRow> {
  const sealed = sealBegin(store, keyring, { generation, ...begin });
  await markBegin(store, generation, sealed);
  return objectRow(beginName, null, sealed);
}

export interface FoundBegin {
  losses: number;
  /** The marker's name, where it was there once and had to be written anew. */
  lost: string[];
}

/** Reads the marker of this database's generation; writes it where it is not there, or not ours. */
export async function findOrMakeBegin(
  place: GenerationPlace,
  known: { rows: readonly JournalObjectRow[]; read: Reader; ledger: Ledger; isNew: boolean },
): Promise<FoundBegin> {
  const { store, keyring, generation } = place;
  const { rows, read, ledger, isNew } = known;
  const isListed = rows.some(({ name }) => name === beginName);
  const put = async (losses: number): Promise<void> => {
    const snapshot = snapshotIn(rows)?.beginSeq ?? null;
    const object = await putBegin(place, { losses, snapshot, instance: await readInstance(read) });
    if (!isNew && !isListed) return;
    await ledger.maintain({ kind: 'noteJournalObject', store: store.number, object });
  };
  const found = await readObject(store, keyring, { generation, name: beginName }, 'begin');
  if (found && found !== 'false') {
    const { losses, instance } = found.head;
    // 0.1.0 has served an older copy meanwhile: by its marker no identities would be restored.
    if (isListed && instance === undefined) await put(losses);
    return { losses, lost: [] };
  }
  // What the one that is gone said of losses is not known: but of some there are extents left.
  const losses = (await hasLeftExtents(read, store.number)) ? 1 : 0;
  await put(losses);
  return { losses, lost: isListed ? [beginName] : [] };
}

/** `rows` were read before `files`. */
export async function openedOf(
  { store, keyring, generation }: GenerationPlace,
  known: {
    rows: readonly JournalObjectRow[];
    files: GenerationFiles;
    begin: FoundBegin;
    isNew: boolean;
    tells: Tells | 'changes';
  },
): Promise<OpenedJournal> {
  const { rows, files, begin, isNew, tells } = known;
  const isListed = isNew || rows.some(({ name }) => name === beginName);
  const segments = isListed ? segmentsIn(rows) : files.segments;
  const previous = isListed
    ? (segments.at(-1)?.name ?? null)
    : await findLastSegment({ store, keyring, generation }, segments);
  const { losses } = begin;
  const snapshot = snapshotIn(rows);
  return { generation, losses, segments, previous, snapshot, isListed, lost: [], tells };
}

function segmentsIn(rows: readonly JournalObjectRow[]): SegmentFile[] {
  return rows.flatMap(({ name, lastSeq, sizeBytes }) =>
    lastSeq === null ? [] : [{ name, lastSeq, sizeBytes }],
  );
}

function snapshotIn(rows: readonly JournalObjectRow[]): OpenedJournal['snapshot'] {
  const objects = rows.filter(({ name }) => snapshotOf(name));
  const beginSeq = objects[0] && snapshotOf(objects[0].name)?.beginSeq;
  if (beginSeq === undefined) return null;
  return { beginSeq, sizeBytes: objects.reduce((sum, one) => sum + one.sizeBytes, 0) };
}
