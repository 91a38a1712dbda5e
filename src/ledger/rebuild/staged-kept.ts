// Snapshots, and the versions that they hold, as a rebuild gathers them from journals, and in which
// order they are to be made again. A rebuild numbers anew: so what is in a snapshot is told by the
// order of the old numbers, in which versions are made, changed and ended again, and snapshots made
// between. Invariant: only what a living snapshot has is made for its sake.
import type { Tx } from '../../core/database.ts';
import type { VersionEntry } from '../journal/format.ts';
import type { HeldEntry, KeptEntry, SnapshotEntry } from '../journal/kept-format.ts';

export const keptSchema = `
CREATE TABLE living (              -- which snapshots a bucket had when it was last told whole
  bucket_id INTEGER PRIMARY KEY,
  told_seq INTEGER NOT NULL,
  seqs TEXT NOT NULL               -- JSON
);
CREATE VIEW lived AS SELECT bucket_id, value AS seq FROM living, json_each(seqs);
CREATE TABLE snapshots (
  bucket_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  entry TEXT,                      -- JSON of a SnapshotEntry; null: it is gone
  is_living INTEGER NOT NULL DEFAULT 0,
  prefix TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (bucket_id, seq)
) WITHOUT ROWID;
CREATE TABLE held (
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  ended_seq INTEGER NOT NULL,
  is_image INTEGER NOT NULL,
  entry TEXT NOT NULL,             -- JSON of a HeldEntry
  is_wanted INTEGER NOT NULL DEFAULT 0, -- a living snapshot has it
  PRIMARY KEY (bucket_id, key, seq, ended_seq)
) WITHOUT ROWID;
CREATE INDEX held_by_seq ON held (seq, bucket_id, key) WHERE is_wanted;
CREATE INDEX held_by_end ON held (ended_seq, bucket_id, key) WHERE is_wanted;
`;

/** Ends that only a write of the tail tells: before all of these, and after all that is told. */
const endedByTail = Number.MAX_SAFE_INTEGER;

/** What is done again, besides making versions that are there now. */
export type KeptStep = { seq: number; bucketId: number } & (
  | { kind: 'make'; version: VersionEntry }
  | { kind: 'amend'; held: HeldEntry; attributes: string | null }
  | { kind: 'end'; held: HeldEntry }
  | { kind: 'snapshot'; snapshot: SnapshotEntry }
);

interface StepRow {
  seq: number;
  bucketId: number;
  /** 0: it ends or changes what is held; 1: that is made; 2: a snapshot is. */
  rank: number;
  /** JSON. */
  entry: string;
  isImage: number | null;
}

const stepsPerQuery = 500;

export class StagedKept {
  readonly #tx: Tx;
  readonly #write: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;

  constructor(tx: Tx, write: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>) {
    this.#tx = tx;
    this.#write = write;
  }

  /** Takes what an object of a journal says, in any order. */
  take(entries: readonly KeptEntry[]): Promise<void> {
    return this.#write(async (tx) => {
      for (const entry of entries) await takeKept(tx, entry);
    });
  }

  /**
   * Once all was taken, and writes that only extents tell: marks the snapshots that live, and what
   * they have.
   */
  settle(): Promise<void> {
    return this.#write(async (tx) => {
      await tx.run(
        `UPDATE snapshots SET is_living = 1 WHERE entry IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM living AS l WHERE l.bucket_id = snapshots.bucket_id
             AND l.told_seq >= snapshots.seq AND (l.bucket_id, snapshots.seq) NOT IN lived)`,
      );
      // An image is what a version was since the change before, which another one tells.
      await tx.run(
        `UPDATE held SET is_wanted = 1 WHERE EXISTS (SELECT 1 FROM snapshots AS s
           WHERE s.bucket_id = held.bucket_id AND s.is_living AND s.seq < held.ended_seq
             AND s.seq >= max(held.seq, ifnull((SELECT max(b.ended_seq) FROM held AS b
               WHERE held.is_image AND b.bucket_id = held.bucket_id AND b.key = held.key
                 AND b.seq = held.seq AND b.ended_seq < held.ended_seq), 0))
             AND substr(held.key, 1, length(s.prefix)) = s.prefix)
           AND (is_image OR NOT EXISTS (SELECT 1 FROM versions AS v
             WHERE v.bucket_id = held.bucket_id AND v.key = held.key AND v.seq = held.seq
               AND v.entry IS NOT NULL))`,
      );
    });
  }

  /** Snapshots of a bucket that live, in their order. */
  async listLiving(bucketId: number): Promise<SnapshotEntry[]> {
    const rows = await this.#tx.all<{ entry: string }>(
      'SELECT entry FROM snapshots WHERE bucket_id = ? AND is_living ORDER BY seq',
      bucketId,
    );
    return rows.map(({ entry }) => JSON.parse(entry) as SnapshotEntry);
  }

  /** Whether a journal says which snapshots a bucket has, be it none. */
  async isTold(bucketId: number): Promise<boolean> {
    const sql = 'SELECT 1 FROM living WHERE bucket_id = ?';
    return (await this.#tx.get(sql, bucketId)) !== undefined;
  }

  /**
   * What living snapshots have of a key's versions that were made at this time, and that ended, or
   * were changed, after the change `seq`; in the order in which that came.
   */
  async listWanted(
    { bucketId, key, createdMs }: Pick<VersionEntry, 'bucketId' | 'key' | 'createdMs'>,
    seq: number,
  ): Promise<HeldEntry[]> {
    const rows = await this.#tx.all<{ entry: string }>(
      `SELECT entry FROM held WHERE bucket_id = ? AND key = ? AND is_wanted AND ended_seq > ?
         AND json_extract(entry, '$.createdMs') = ? ORDER BY ended_seq`,
      ...[bucketId, key, seq, createdMs],
    );
    return rows.map(({ entry }) => JSON.parse(entry) as HeldEntry);
  }

  /**
   * What a version was after the change `endedSeq`, as far as a living snapshot has that; null: as
   * it is.
   */
  async attributesAfter(
    { bucketId, key, seq }: Pick<VersionEntry, 'bucketId' | 'key' | 'seq'>,
    endedSeq: number,
  ): Promise<string | null> {
    const next = await this.#tx.get<{ attributes: string }>(
      `SELECT json_extract(entry, '$.attributes') AS attributes FROM held
         WHERE is_wanted AND bucket_id = ? AND key = ? AND seq = ? AND ended_seq > ?
         ORDER BY ended_seq LIMIT 1`,
      ...[bucketId, key, seq, endedSeq],
    );
    return next?.attributes ?? null;
  }

  /** The versions that are told to be held, whether a snapshot has them or not. */
  async *listHeld(): AsyncGenerator<HeldEntry> {
    let after = { bucketId: -1, key: '', seq: -1, endedSeq: -1 };
    for (;;) {
      const rows = await this.#tx.all<typeof after & { entry: string }>(
        `SELECT bucket_id AS bucketId, key, seq, ended_seq AS endedSeq, entry FROM held
           WHERE (bucket_id, key, seq, ended_seq) > (?, ?, ?, ?)
           ORDER BY bucket_id, key, seq, ended_seq LIMIT ?`,
        ...[after.bucketId, after.key, after.seq, after.endedSeq, stepsPerQuery],
      );
      for (const { entry } of rows) yield JSON.parse(entry) as HeldEntry;
      const last = rows.at(-1);
      if (!last) return;
      after = last;
    }
  }

  /** All steps in their order: what ends by a change is ended before what is made by it. */
  async *list(): AsyncGenerator<KeptStep> {
    let after = { seq: -1, rank: 0, bucketId: 0, key: '', version: -1 };
    for (;;) {
      const rows = await this.#tx.all<typeof after & StepRow>(
        `SELECT * FROM (
           SELECT ended_seq AS seq, 0 AS rank, bucket_id AS bucketId, key, seq AS version, entry,
               is_image AS isImage
             FROM held WHERE is_wanted AND ended_seq >= ?
           UNION ALL SELECT seq, 1, bucket_id, key, seq, entry, NULL
             FROM held WHERE is_wanted AND NOT is_image AND seq >= ?
           UNION ALL SELECT seq, 2, bucket_id, '', seq, entry, NULL
             FROM snapshots WHERE is_living AND seq >= ?)
         WHERE (seq, rank, bucketId, key, version) > (?, ?, ?, ?, ?)
         ORDER BY seq, rank, bucketId, key, version LIMIT ?`,
        ...[after.seq, after.seq, after.seq],
        ...[after.seq, after.rank, after.bucketId, after.key, after.version, stepsPerQuery],
      );
      for (const row of rows) yield await this.#stepOf(row);
      const last = rows.at(-1);
      if (!last) return;
      after = last;
    }
  }

  async #stepOf({ seq, bucketId, rank, entry, isImage }: StepRow): Promise<KeptStep> {
    const at = { seq, bucketId };
    if (rank === 2) return { ...at, kind: 'snapshot', snapshot: JSON.parse(entry) };
    const held = JSON.parse(entry) as HeldEntry;
    if (rank === 1) {
      const { endedSeq: _, isImage: __, ...version } = held;
      return { ...at, kind: 'make', version: { ...version, kind: 'version', toldSeq: seq } };
    }
    if (!isImage) return { ...at, kind: 'end', held };
    const attributes = await this.attributesAfter(held, held.endedSeq);
    return { ...at, kind: 'amend', held, attributes };
  }
}

/** What a journal says of the null version of a key, when a write that it lacks replaces that. */
export async function holdReplaced(tx: Tx, text: string | null): Promise<void> {
  if (text === null) return;
  const { toldSeq: _, ...version } = JSON.parse(text) as VersionEntry;
  const entry = { ...version, kind: 'held', endedSeq: endedByTail, isImage: false } as const;
  await takeKept(tx, entry);
}

async function takeKept(tx: Tx, entry: KeptEntry): Promise<void> {
  switch (entry.kind) {
    case 'snapshots':
      await tx.run(
        `INSERT INTO living VALUES (?, ?, ?) ON CONFLICT DO UPDATE
           SET told_seq = excluded.told_seq, seqs = excluded.seqs
           WHERE excluded.told_seq > told_seq`,
        ...[entry.bucketId, entry.toldSeq, JSON.stringify(entry.living)],
      );
      return;
    case 'snapshot':
      await tx.run(
        'INSERT OR IGNORE INTO snapshots (bucket_id, seq, entry, prefix) VALUES (?, ?, ?, ?)',
        ...[entry.bucketId, entry.seq, JSON.stringify(entry), entry.prefix],
      );
      return;
    case 'snapshotGone':
      await tx.run(
        `INSERT INTO snapshots (bucket_id, seq) VALUES (?, ?)
           ON CONFLICT DO UPDATE SET entry = NULL`,
        ...[entry.bucketId, entry.seq],
      );
      return;
    case 'held': {
      const { bucketId, key, seq, endedSeq, isImage } = entry;
      await tx.run(
        `INSERT OR IGNORE INTO held (bucket_id, key, seq, ended_seq, is_image, entry)
           VALUES (?, ?, ?, ?, ?, ?)`,
        ...[bucketId, key, seq, endedSeq, isImage ? 1 : 0, JSON.stringify(entry)],
      );
    }
  }
}
