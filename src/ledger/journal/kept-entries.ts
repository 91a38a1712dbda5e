// Snapshots, and the versions that they hold, as entries of the journal. Invariant: as with other
// versions (entries.ts), what is told was found authentic before.
import { isAuthentic, verifyVersion } from '../../catalog/authentic.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { holdsAny, listHeld, listHeldBy, listHeldSince } from '../../catalog/held-rows.ts';
import type { HeldVersion } from '../../catalog/held-versions.ts';
import { isOfSnapshot, type OutboxRow } from '../../catalog/outbox.ts';
import { findSnapshotAt, listLiving, type Snapshot } from '../../catalog/snapshots.ts';
import type { Reader } from '../../core/database.ts';
import type { Keyring } from '../../core/keyring.ts';
import { pages } from '../../core/pages.ts';
import type { HeldEntry, KeptEntry, SnapshotEntry } from './kept-format.ts';
import { versionEntry } from './version-entry.ts';

interface Source {
  read: Reader;
  keyring: Keyring;
}

/** What the rows of a segment tell besides what versions and buckets have become. */
export class KeptRows {
  readonly #source: Source;
  /** What was told, by what names it in its bucket. */
  readonly #told = new Set<string>();
  /** Buckets of which something is held, or not. */
  readonly #holding = new Map<number, boolean>();

  constructor(source: Source) {
    this.#source = source;
  }

  async tell(bucket: Bucket, row: OutboxRow): Promise<{ entries: KeptEntry[]; damaged: number }> {
    const { read, keyring } = this.#source;
    const bucketId = bucket.id;
    const { seq, key, versionId } = row;
    if (isOfSnapshot(row))
      return { entries: [await this.#ofSnapshot(bucketId, Number(versionId))], damaged: 0 };
    if (key === null || !(await this.#holds(bucketId))) return { entries: [], damaged: 0 };
    const entries: KeptEntry[] = [];
    let damaged = 0;
    // What is told of a version is what it has become, maybe by a change that the next segment is
    // to tell. Without that one, a snapshot from between would show too little, or what is too new.
    for (const held of [
      ...(await listHeldBy(read, { bucketId, key, seq })),
      ...(await listHeldSince(read, { bucketId, key, versionId, seq })),
    ]) {
      const name = `${bucketId}/${held.seq}/${held.endedSeq}/${key}`;
      if (this.#told.has(name)) continue;
      this.#told.add(name);
      if (isAuthentic(() => verifyVersion(keyring, bucket, held))) entries.push(heldEntry(held));
      else damaged++;
    }
    return { entries, damaged };
  }

  async #ofSnapshot(bucketId: number, seq: number): Promise<KeptEntry> {
    const living = await findSnapshotAt(this.#source.read, bucketId, seq);
    return living ? snapshotEntry(living) : { kind: 'snapshotGone', bucketId, seq };
  }

  async #holds(bucketId: number): Promise<boolean> {
    const known = this.#holding.get(bucketId);
    if (known !== undefined) return known;
    const holds = await holdsAny(this.#source.read, bucketId);
    this.#holding.set(bucketId, holds);
    return holds;
  }
}

/**
 * All of a bucket. Throws IntegrityError on a row that is not authentic, or passes over it where
 * that is asked for.
 */
export async function* listKeptEntries(
  { read, keyring }: Source,
  bucket: Bucket,
  { toldSeq, max, skipsDamaged = false }: { toldSeq: number; max: number; skipsDamaged?: boolean },
): AsyncGenerator<KeptEntry[]> {
  const living = await listLiving(read, bucket.id);
  // Also where there are none any more. Without any, something is held by an undelete window.
  yield [...living.map(snapshotEntry), livingEntry(bucket, living, toldSeq)];
  const of = { bucketId: bucket.id, max };
  for await (const rows of pages<HeldVersion>((last) =>
    listHeld(read, { ...of, after: last ?? null }),
  )) {
    const verify = (row: HeldVersion) => verifyVersion(keyring, bucket, row);
    if (!skipsDamaged) rows.forEach(verify);
    yield rows.filter((row) => !skipsDamaged || isAuthentic(() => verify(row))).map(heldEntry);
  }
}

function livingEntry(bucket: Bucket, living: readonly Snapshot[], toldSeq: number): KeptEntry {
  return { kind: 'snapshots', bucketId: bucket.id, toldSeq, living: living.map(({ seq }) => seq) };
}

function snapshotEntry(snapshot: Snapshot): SnapshotEntry {
  const { bucketId, seq, name, prefix, createdMs, expiresMs, lock } = snapshot;
  return { kind: 'snapshot', bucketId, seq, name, prefix, createdMs, expiresMs, lock };
}

function heldEntry(held: HeldVersion): HeldEntry {
  const { toldSeq: _, ...version } = versionEntry(held, held.seq);
  const { endedSeq, isImage } = held;
  return { ...version, kind: 'held', endedSeq, isImage: isImage === 1 };
}
