// Where a rebuild gathers what the stores say before it restores anything: a database file of its
// own, so that memory stays bounded however much there is. Nobody reads it once this has ended, so
// all of it is one transaction that is never committed. Invariant: what is asked of it is the same
// whatever the order in which the journal was read (staged-entries.ts).
import { type OpenDatabase, openDatabase, type Tx } from '../../core/database.ts';
import { pages } from '../../core/pages.ts';
import type { ExtentMetadata } from '../../tiering/extent-metadata.ts';
import type { BucketEntry, Entry, SettingsEntry, VersionEntry } from '../journal/format.ts';
import { type MustBeTold, noteReplaced, takeEntry, takeMetadata } from './staged-entries.ts';
import { identitySchema, StagedIdentities } from './staged-identities.ts';
import { holdReplaced, keptSchema, StagedKept } from './staged-kept.ts';

const schema = `${identitySchema}${keptSchema}
CREATE TABLE buckets (
  id INTEGER PRIMARY KEY,
  store INTEGER NOT NULL,
  told_seq INTEGER NOT NULL,
  entry TEXT                       -- JSON of a BucketEntry; null: it is gone
);
CREATE TABLE settings (
  bucket_id INTEGER PRIMARY KEY,
  told_seq INTEGER NOT NULL,
  documents TEXT NOT NULL          -- JSON, as a SettingsEntry has them
);
CREATE TABLE conflicts (bucket TEXT NOT NULL); -- tenant/name: another store has its id
CREATE TABLE versions (
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  version_id TEXT NOT NULL,        -- '': S3's null version
  told_seq INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  entry TEXT,                      -- JSON of a VersionEntry; null: there is no such version
  seq INTEGER,                     -- of the version; null: there is none
  is_tail INTEGER NOT NULL DEFAULT 0, -- known by the metadata of its extents alone
  PRIMARY KEY (bucket_id, key, version_id)
) WITHOUT ROWID;
CREATE INDEX versions_in_order ON versions (is_tail, seq, bucket_id, key) WHERE seq IS NOT NULL;
CREATE TABLE garbage (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE replaced (            -- extents of versions that the journal tells the end of
  id BLOB NOT NULL,
  seq INTEGER NOT NULL,            -- of the version
  PRIMARY KEY (id, seq)
) WITHOUT ROWID;
-- Of each store apart: whoever writes to the bucket of one can put there what has the name of an
-- extent in another, or is a copy of it.
CREATE TABLE extents (
  store INTEGER NOT NULL,
  id BLOB NOT NULL,
  size INTEGER NOT NULL,
  is_named INTEGER NOT NULL DEFAULT 0, -- by what the journal says of a version
  PRIMARY KEY (store, id)
) WITHOUT ROWID;
CREATE TABLE writes (              -- extents that nothing names, as their metadata has them
  store INTEGER NOT NULL,
  write_id TEXT NOT NULL,
  position INTEGER NOT NULL,       -- in the write
  id BLOB NOT NULL,
  trailer_bytes INTEGER NOT NULL,
  metadata TEXT NOT NULL,
  end_ms INTEGER,                  -- of the last extent: when the write ended
  PRIMARY KEY (store, write_id, position)
) WITHOUT ROWID;
CREATE INDEX writes_by_end ON writes (end_ms, write_id, store) WHERE end_ms IS NOT NULL;
CREATE TABLE packs (               -- extents of archived records
  store INTEGER NOT NULL,
  id BLOB NOT NULL,
  PRIMARY KEY (store, id)
) WITHOUT ROWID;
CREATE TABLE untold (              -- buckets that extents are of and that no journal knows
  store INTEGER NOT NULL,
  bucket TEXT NOT NULL,            -- tenant/name
  time_ms INTEGER NOT NULL,        -- when the newest of these extents was begun, or later
  PRIMARY KEY (store, bucket)
) WITHOUT ROWID;
CREATE TABLE uploads (             -- to which such extents belong
  id TEXT PRIMARY KEY,
  bucket TEXT NOT NULL,            -- tenant/name
  key TEXT NOT NULL,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;
`;

/** What is known of a key. */
interface StagedKey {
  /** Of its null version, which is null where there is none; undefined: nothing. */
  ofNull: { timeMs: number; version: VersionEntry | null } | undefined;
  /** When the last of those with an id was made, or ended; null: there were none. */
  identifiedMs: number | null;
}

/** A bucket that is there, and what is set of it. */
export type StagedBucket = BucketEntry & {
  store: number;
  documents: SettingsEntry['documents'];
};

/** `versionId` null: S3's `null` version. */
interface VersionName {
  bucketId: number;
  key: string;
  versionId: string | null;
}

export interface ToldVersion {
  version: VersionEntry | null;
  /** Only its extents tell of it. */
  isTail: boolean;
  toldSeq: number;
}

/** An extent that nothing names, and what it says of itself. */
export interface StagedExtent {
  id: Buffer;
  store: number;
  trailerBytes: number;
  metadata: ExtentMetadata;
}

export interface StagedUpload {
  id: string;
  /** `tenant/name` */
  bucket: string;
  key: string;
  /** Plaintext of the extents that are there. */
  sizeBytes: number;
}

const rowsPerQuery = 500;

export class Staging {
  readonly identities: StagedIdentities;
  readonly kept: StagedKept;
  readonly #db: OpenDatabase;
  /** The stores whose extents were listed. */
  readonly #listed = new Set<number>();
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(db: OpenDatabase) {
    this.#db = db;
    this.identities = new StagedIdentities(db.tx, (work) => this.#write(work));
    this.kept = new StagedKept(db.tx, (work) => this.#write(work));
  }

  /** Makes the file, which must not be there. */
  static open(path: string): Staging {
    const db = openDatabase(path, { readonly: false, cacheKib: 64 * 1024, isScratch: true });
    db.exec('BEGIN');
    db.exec(schema);
    return new Staging(db);
  }

  close(): void {
    this.#db.close();
  }

  /** Takes what an object of a store's journal says, as a whole. */
  takeEntries(store: number, entries: readonly Entry[]): Promise<void> {
    return this.#write(async (tx) => {
      for (const entry of entries) await takeEntry(tx, store, entry);
    });
  }

  /** Takes extents as a store lists them. */
  takeExtents(store: number, extents: readonly { id: Buffer; sizeBytes: number }[]): Promise<void> {
    this.#listed.add(store);
    return this.#write(async (tx) => {
      const sql = 'INSERT OR IGNORE INTO extents (id, store, size) VALUES (?, ?, ?)';
      for (const { id, sizeBytes } of extents) await tx.run(sql, id, store, sizeBytes);
    });
  }

  takeMetadata(extent: StagedExtent, mustBeTold: MustBeTold = 'byTime'): Promise<void> {
    return this.#write((tx) => takeMetadata(tx, extent, mustBeTold));
  }

  /** Marks extents as belonging to what the journal says of a version. */
  nameExtents(runs: readonly { store: number; id: Buffer }[]): Promise<void> {
    return this.#write(async (tx) => {
      const sql = 'UPDATE extents SET is_named = 1 WHERE store = ? AND id = ?';
      for (const { store, id } of runs) await tx.run(sql, store, id);
    });
  }

  /** A version known by the metadata of its extents takes the place of what is said of that one. */
  placeTail(version: VersionEntry): Promise<void> {
    const { bucketId, key, versionId, createdMs } = version;
    return this.#write(async (tx) => {
      const known = await tx.get<{ entry: string | null }>(
        // Of another tail no snapshot knows: each waited for the journal.
        `SELECT entry FROM versions
           WHERE bucket_id = ? AND key = ? AND version_id = ? AND is_tail = 0`,
        ...[bucketId, key, versionId ?? ''],
      );
      await holdReplaced(tx, known?.entry ?? null);
      await tx.run(
        'INSERT OR REPLACE INTO versions VALUES (?, ?, ?, 0, ?, ?, ?, 1)',
        bucketId,
        key,
        versionId ?? '',
        createdMs,
        JSON.stringify(version),
        createdMs,
      );
    });
  }

  /** An extent as a store lists it. */
  async findExtent(store: number, id: Buffer): Promise<{ sizeBytes: number } | undefined> {
    const sql = 'SELECT size AS sizeBytes FROM extents WHERE store = ? AND id = ?';
    return this.#db.tx.get(sql, store, id);
  }

  /** The stores that list an extent in this length, by number. */
  async findPlaces(id: Buffer, sizeBytes: number): Promise<number[]> {
    const places: number[] = [];
    for (const store of [...this.#listed].sort((a, b) => a - b)) {
      if ((await this.findExtent(store, id))?.sizeBytes === sizeBytes) places.push(store);
    }
    return places;
  }

  async findKey(bucketId: number, key: string): Promise<StagedKey> {
    const at = 'WHERE bucket_id = ? AND key = ?';
    const row = await this.#db.tx.get<{ timeMs: number; entry: string | null }>(
      `SELECT time_ms AS timeMs, entry FROM versions ${at} AND version_id = ''`,
      ...[bucketId, key],
    );
    const others = await this.#db.tx.get<{ timeMs: number | null }>(
      `SELECT max(time_ms) AS timeMs FROM versions ${at} AND version_id > ''`,
      ...[bucketId, key],
    );
    const version = row?.entry ? (JSON.parse(row.entry) as VersionEntry) : null;
    const ofNull = row && { timeMs: row.timeMs, version };
    return { ofNull, identifiedMs: others?.timeMs ?? null };
  }

  /** What the journals say of a bucket; undefined: nothing. */
  async findBucket(id: number): Promise<'there' | 'gone' | undefined> {
    const sql = 'SELECT entry IS NULL AS isGone FROM buckets WHERE id = ?';
    const row = await this.#db.tx.get<{ isGone: number }>(sql, id);
    return row && (row.isGone ? 'gone' : 'there');
  }

  /**
   * What they say of a version, null where it is not there, and as of which change; undefined:
   * nothing.
   */
  async findVersion({ bucketId, key, versionId }: VersionName): Promise<ToldVersion | undefined> {
    const row = await this.#db.tx.get<{ entry: string | null; isTail: number; toldSeq: number }>(
      `SELECT entry, is_tail AS isTail, told_seq AS toldSeq FROM versions
         WHERE bucket_id = ? AND key = ? AND version_id = ?`,
      ...[bucketId, key, versionId ?? ''],
    );
    if (!row) return undefined;
    const version = row.entry === null ? null : (JSON.parse(row.entry) as VersionEntry);
    return { version, isTail: row.isTail === 1, toldSeq: row.toldSeq };
  }

  /** Buckets that are there, in order of id. */
  async listBuckets(): Promise<StagedBucket[]> {
    const rows = await this.#db.tx.all<{ entry: string; store: number; documents: string | null }>(
      `SELECT entry, store, documents FROM buckets LEFT JOIN settings ON bucket_id = id
         WHERE entry IS NOT NULL ORDER BY id`,
    );
    return rows.map(({ entry, store, documents }) => ({
      ...(JSON.parse(entry) as BucketEntry),
      store,
      documents: JSON.parse(documents ?? '{}'),
    }));
  }

  /** Versions of buckets that are there, in the order in which they were made; the tail last. */
  async *listVersions(): AsyncGenerator<{ version: VersionEntry; isTail: boolean }> {
    let after = { isTail: 0, seq: -1, bucketId: 0, key: '' };
    for (;;) {
      const rows = await this.#db.tx.all<typeof after & { entry: string | null }>(
        `SELECT is_tail AS isTail, seq, bucket_id AS bucketId, key,
             CASE WHEN (SELECT entry FROM buckets WHERE id = bucket_id) IS NULL THEN NULL
               ELSE entry END AS entry
           FROM versions WHERE seq IS NOT NULL AND (is_tail, seq, bucket_id, key) > (?, ?, ?, ?)
           ORDER BY is_tail, seq, bucket_id, key LIMIT ?`,
        ...[after.isTail, after.seq, after.bucketId, after.key, rowsPerQuery],
      );
      for (const { entry, isTail } of rows) {
        if (entry !== null) yield { version: JSON.parse(entry), isTail: isTail === 1 };
      }
      const last = rows.at(-1);
      if (!last) return;
      after = last;
    }
  }

  /** A version that is there, by its number; undefined: there is none. */
  async findByNumber(
    at: Pick<VersionEntry, 'bucketId' | 'key' | 'versionId' | 'seq'>,
  ): Promise<VersionEntry | undefined> {
    const { bucketId, key, versionId, seq } = at;
    const row = await this.#db.tx.get<{ entry: string | null }>(
      `SELECT entry FROM versions
         WHERE bucket_id = ? AND key = ? AND version_id = ? AND seq = ? AND is_tail = 0`,
      ...[bucketId, key, versionId ?? '', seq],
    );
    return row?.entry ? (JSON.parse(row.entry) as VersionEntry) : undefined;
  }

  /** All extents of a store, in pages of ids. */
  listExtents(store: number): AsyncGenerator<Buffer[]> {
    return this.#listIds('SELECT id FROM extents WHERE id > ? AND store = ? ORDER BY id LIMIT ?', [
      store,
    ]);
  }

  /** Those of them that have archived records, of which no journal tells. */
  listPacks(store: number): AsyncGenerator<Buffer[]> {
    return this.#listIds('SELECT id FROM packs WHERE id > ? AND store = ? ORDER BY id LIMIT ?', [
      store,
    ]);
  }

  /**
   * Those of them that nothing names and that were not known to be garbage: nor to be what a
   * version up to `toldSeq` held that is not there any more. Of what wrote such an extent, maybe
   * under another key, the journal has told what became.
   */
  listUnnamed(store: number, toldSeq: number): AsyncGenerator<Buffer[]> {
    return this.#listIds(
      `SELECT id FROM extents WHERE id > ? AND store = ? AND is_named = 0
         AND NOT EXISTS (SELECT 1 FROM garbage WHERE garbage.id = extents.id)
         AND NOT EXISTS (SELECT 1 FROM replaced WHERE replaced.id = extents.id AND seq <= ?)
         ORDER BY id LIMIT ?`,
      [store, toldSeq],
    );
  }

  /** The last extents of writes that nothing names, the oldest write first. */
  async *listWriteEnds(): AsyncGenerator<StagedExtent> {
    let after = { endMs: -1, write: '', store: -1 };
    for (;;) {
      const rows = await this.#db.tx.all<WriteRow & { endMs: number; write: string }>(
        `${selectWrites} WHERE end_ms IS NOT NULL AND (end_ms, write_id, store) > (?, ?, ?)
           ORDER BY end_ms, write_id, store LIMIT ?`,
        ...[after.endMs, after.write, after.store, rowsPerQuery],
      );
      for (const row of rows) yield readWriteRow(row);
      const last = rows.at(-1);
      if (!last) return;
      after = last;
    }
  }

  /** The extents of one write that are in a store, in order. */
  async listWrite(store: number, write: string): Promise<StagedExtent[]> {
    const rows = await this.#db.tx.all<WriteRow>(
      `${selectWrites} WHERE store = ? AND write_id = ? ORDER BY position`,
      ...[store, write],
    );
    return rows.map(readWriteRow);
  }

  /**
   * Buckets of which a store has extents that were begun after this time, and of which its journal
   * says nothing: neither that they are there nor that they are gone.
   */
  async listUntold(store: number, afterMs: number, max: number): Promise<string[]> {
    const rows = await this.#db.tx.all<{ bucket: string }>(
      'SELECT bucket FROM untold WHERE store = ? AND time_ms > ? ORDER BY bucket LIMIT ?',
      ...[store, afterMs, max],
    );
    return rows.map(({ bucket }) => bucket);
  }

  async listUploads(max: number): Promise<{ count: number; first: StagedUpload[] }> {
    const { tx } = this.#db;
    const counted = await tx.get<{ count: number }>('SELECT count(*) AS count FROM uploads');
    const first = await tx.all<StagedUpload>(
      'SELECT id, bucket, key, bytes AS sizeBytes FROM uploads ORDER BY bucket, key, id LIMIT ?',
      max,
    );
    return { count: counted?.count ?? 0, first };
  }

  /**
   * Once all was taken that a database says of a store's buckets as of the change `toldSeq`: what
   * is older of them is not there any more.
   */
  async dropOlder(store: number, toldSeq: number): Promise<void> {
    const older = 'entry IS NOT NULL AND told_seq < ?';
    for await (const rows of this.#listStaged(
      `${older} AND bucket_id IN (SELECT id FROM buckets WHERE store = ?)`,
      [toldSeq, store],
    )) {
      await this.#write(async (tx) => {
        for (const { bucketId, key, versionId, text } of rows) {
          await noteReplaced(tx, text);
          await tx.run(
            `UPDATE versions SET entry = NULL, seq = NULL
               WHERE bucket_id = ? AND key = ? AND version_id = ?`,
            ...[bucketId, key, versionId],
          );
        }
      });
    }
    await this.#write(async (tx) => {
      const sql = `UPDATE buckets SET entry = NULL WHERE ${older} AND store = ?`;
      await tx.run(sql, toldSeq, store);
    });
  }

  /** What is said of a version is as new as this change, whatever it is. */
  affirm({ bucketId, key, versionId }: VersionName, toldSeq: number): Promise<void> {
    return this.#write(async (tx) => {
      await tx.run(
        `UPDATE versions SET told_seq = max(told_seq, ?)
           WHERE bucket_id = ? AND key = ? AND version_id = ?`,
        ...[toldSeq, bucketId, key, versionId ?? ''],
      );
    });
  }

  /**
   * Of several buckets of one name in a store the one that was made last is there: the others are
   * gone, if the journal still had to say so.
   */
  dropReplacedBuckets(): Promise<void> {
    return this.#write(async (tx) => {
      await tx.run(
        `UPDATE buckets SET entry = NULL WHERE entry IS NOT NULL AND id NOT IN (
           SELECT max(id) FROM buckets WHERE entry IS NOT NULL
             GROUP BY store, json_extract(entry, '$.tenant'), json_extract(entry, '$.name'))`,
      );
    });
  }

  /** What is in buckets that are gone is not there any more, though nothing says so of each key. */
  async replaceInGoneBuckets(): Promise<void> {
    const isInGone = 'bucket_id IN (SELECT id FROM buckets WHERE entry IS NULL)';
    for await (const rows of this.#listStaged(`entry IS NOT NULL AND ${isInGone}`, [])) {
      await this.#write(async (tx) => {
        for (const { text } of rows) await noteReplaced(tx, text);
      });
    }
  }

  /** Versions that are there and of which this holds, in pages. */
  async *#listStaged(where: string, values: number[]): AsyncGenerator<StagedText[]> {
    const sql = `SELECT bucket_id AS bucketId, key, version_id AS versionId, entry AS text
      FROM versions WHERE (bucket_id, key, version_id) > (?, ?, ?) AND ${where}
      ORDER BY bucket_id, key, version_id LIMIT ?`;
    yield* pages<StagedText>((last) => {
      const { bucketId, key, versionId } = last ?? { bucketId: -1, key: '', versionId: '' };
      return this.#db.tx.all(sql, bucketId, key, versionId, ...values, rowsPerQuery);
    });
  }

  /** Buckets, `tenant/name`, whose id or name several stores claim. */
  async listConflicts(): Promise<string[]> {
    const rows = await this.#db.tx.all<{ name: string }>(
      `SELECT bucket AS name FROM conflicts UNION
       SELECT json_extract(entry, '$.tenant') || '/' || json_extract(entry, '$.name') AS name
         FROM buckets WHERE entry IS NOT NULL GROUP BY name HAVING count(*) > 1`,
    );
    return rows.map(({ name }) => name);
  }

  async *#listIds(sql: string, values: number[]): AsyncGenerator<Buffer[]> {
    const readPage = (last?: { id: Buffer }) =>
      this.#db.tx.all<{ id: Buffer }>(sql, last?.id ?? Buffer.alloc(0), ...values, rowsPerQuery);
    for await (const rows of pages(readPage)) yield rows.map(({ id }) => id);
  }

  /** Who writes may go by what he read before: who stages from several sides takes turns. */
  #write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const done = this.#turn.then(() => work(this.#db.tx));
    this.#turn = done.catch(() => {});
    return done;
  }
}

interface StagedText {
  bucketId: number;
  key: string;
  versionId: string;
  text: string;
}

interface WriteRow {
  id: Buffer;
  store: number;
  trailerBytes: number;
  metadata: string;
}

const selectWrites = `SELECT id, store, trailer_bytes AS trailerBytes, metadata,
  end_ms AS endMs, write_id AS write FROM writes`;

function readWriteRow({ id, store, trailerBytes, metadata }: WriteRow): StagedExtent {
  return { id, store, trailerBytes, metadata: JSON.parse(metadata) as ExtentMetadata };
}
