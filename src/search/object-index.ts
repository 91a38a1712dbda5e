// The index of objects: beside the catalog, and made of it alone, so that it can be made again at
// any time. Invariants: an object's postings are those of its current version as the catalog has
// it, once all of the log is followed; a batch of changes and how far the log was followed become
// durable together; and of an object that is gone, or of what it said before, nothing is kept.
import { type OpenDatabase, openDatabase, type Reader, removeDatabase } from '../core/database.ts';
import type { Described } from './facts.ts';
import type { ValueKind } from './plan.ts';
import { type IndexedMetadata, type Posting, postingsOf } from './postings.ts';

const version = 1;
const writerCacheKib = 64 * 1024;

const schema = `
CREATE TABLE state (                 -- one row
  through INTEGER NOT NULL,          -- records before this index are followed
  commitment BLOB,                   -- of the last of them; null: there is none
  metadata TEXT NOT NULL,            -- JSON: which names of metadata are indexed
  scan_bucket INTEGER,               -- the catalog is being read from here on; null: it was
  scan_key TEXT
);
CREATE TABLE fields (                -- of each bucket
  id INTEGER PRIMARY KEY,
  bucket_id INTEGER NOT NULL,
  field TEXT NOT NULL,
  kind TEXT NOT NULL,                -- text | number | time
  UNIQUE (bucket_id, field, kind)
);
CREATE TABLE postings (
  field INTEGER NOT NULL,
  value NOT NULL,
  key TEXT NOT NULL,
  PRIMARY KEY (field, value, key)
) WITHOUT ROWID;
CREATE TABLE objects (               -- what postings each has: [[field, value], …]
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  postings TEXT NOT NULL,
  PRIMARY KEY (bucket_id, key)
) WITHOUT ROWID;
PRAGMA user_version = ${version};
`;

/** Where an object is. */
export interface ObjectPlace {
  bucketId: number;
  key: string;
}

export interface IndexState {
  /** Records before this index are followed. */
  through: number;
  commitment: Buffer | null;
  /** Where the catalog is read on; null: all of it is in the index. */
  scan: ObjectPlace | null;
}

/** A version as it is read for the index. */
export type IndexedVersion = Described & { bucketId: number; isMarker: number };

export const indexedColumns = `bucket_id AS bucketId, key, size AS sizeBytes, etag, sha256, class,
  owner, created_ms AS createdMs, attributes, is_marker AS isMarker`;

/** Postings as they are stored. */
type Stored = [field: number, value: string | number];

/** The one writer. */
export class ObjectIndexWriter {
  readonly #db: OpenDatabase;
  readonly #metadata: IndexedMetadata;
  readonly #fields = new Map<string, number>();

  private constructor(db: OpenDatabase, metadata: IndexedMetadata) {
    this.#db = db;
    this.#metadata = metadata;
  }

  /**
   * Opens the index, or begins one anew where there is none, or it is another version's, indexes
   * other metadata, is damaged, or `isOf` says that it is not this log's.
   */
  static async open(
    path: string,
    metadata: IndexedMetadata,
    isOf: (state: IndexState) => Promise<boolean>,
  ): Promise<ObjectIndexWriter> {
    const found = await openExisting(path, metadata);
    if (found) {
      const index = new ObjectIndexWriter(found, metadata);
      if (await isOf(await index.state())) return index;
      index.close();
    }
    removeDatabase(path);
    const db = openWriter(path);
    db.exec(`BEGIN; ${schema}`);
    const insert = 'INSERT INTO state VALUES (0, NULL, ?, 0, ?)';
    await db.tx.run(insert, JSON.stringify(metadata), '');
    db.exec('COMMIT');
    return new ObjectIndexWriter(db, metadata);
  }

  state(): Promise<IndexState> {
    return readState(this.#db.tx);
  }

  /** All that `change` does becomes durable with the state that it gives. */
  async write(change: () => Promise<IndexState>): Promise<void> {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      const { through, commitment, scan } = await change();
      await this.#db.tx.run(
        'UPDATE state SET through = ?, commitment = ?, scan_bucket = ?, scan_key = ?',
        ...[BigInt(through), commitment, scan && BigInt(scan.bucketId), scan?.key ?? null],
      );
      this.#db.exec('COMMIT');
    } catch (cause) {
      this.#db.rollback();
      // Fields that were made in it are not there.
      this.#fields.clear();
      throw cause;
    }
  }

  /**
   * Has the index say of an object what its current version does; undefined, or a delete marker:
   * nothing. Gives whether it said something else.
   */
  async put({ bucketId, key }: ObjectPlace, version: IndexedVersion | undefined): Promise<boolean> {
    const { tx } = this.#db;
    const kept = await this.#read(bucketId, key);
    const isThere = version !== undefined && !version.isMarker;
    const wanted = isThere ? postingsOf(version, this.#metadata) : [];
    const next: Stored[] = [];
    for (const [field, kind, value] of wanted) {
      next.push([await this.#idOf(bucketId, field, kind), value]);
    }
    const text = JSON.stringify(next);
    if (kept === (isThere ? text : undefined)) return false;
    const before = parseStored(kept);
    const after = new Set(next.map(nameOf));
    const known = new Set(before.map(nameOf));
    for (const one of before) {
      if (!after.has(nameOf(one))) await tx.run(deletePosting, BigInt(one[0]), one[1], key);
    }
    for (const one of next) {
      if (!known.has(nameOf(one))) await tx.run(insertPosting, BigInt(one[0]), one[1], key);
    }
    if (isThere) {
      await tx.run('INSERT OR REPLACE INTO objects VALUES (?, ?, ?)', BigInt(bucketId), key, text);
    } else await tx.run('DELETE FROM objects WHERE bucket_id = ? AND key = ?', bucketId, key);
    return true;
  }

  /** The same, though its row says that nothing is to be done: a posting of it may be missing. */
  async mend(place: ObjectPlace, version: IndexedVersion | undefined): Promise<void> {
    const { bucketId, key } = place;
    const { tx } = this.#db;
    for (const [field, value] of parseStored(await this.#read(bucketId, key))) {
      await tx.run(deletePosting, BigInt(field), value, key);
    }
    await tx.run('DELETE FROM objects WHERE bucket_id = ? AND key = ?', bucketId, key);
    await this.put(place, version);
  }

  /** Whether the index leads to the object by all that it says. */
  async leadsTo(version: IndexedVersion): Promise<boolean> {
    const { bucketId, key, isMarker } = version;
    const wanted = isMarker ? [] : postingsOf(version, this.#metadata);
    return leadsTo(this.#db.tx, { bucketId, key }, isMarker ? null : wanted);
  }

  /** Keys from `from` on that the index has of a bucket, in order. */
  async keysFrom({ bucketId, key }: ObjectPlace, max: number): Promise<string[]> {
    const sql = `SELECT key FROM objects WHERE bucket_id = ? AND key >= ? ORDER BY key LIMIT ?`;
    const rows = await this.#db.tx.all<{ key: string }>(sql, bucketId, key, max);
    return rows.map((row) => row.key);
  }

  /** The least number of a bucket that the index knows and `isThere` does not; undefined: none. */
  async findGone(isThere: (bucketId: number) => Promise<boolean>): Promise<number | undefined> {
    const sql = 'SELECT DISTINCT bucket_id AS id FROM fields ORDER BY bucket_id';
    for (const { id } of await this.#db.tx.all<{ id: number }>(sql)) {
      if (!(await isThere(id))) return id;
    }
    return undefined;
  }

  /** Forgets a bucket, when all its objects are forgotten. */
  async forgetBucket(bucketId: number): Promise<void> {
    await this.#db.tx.run('DELETE FROM fields WHERE bucket_id = ?', bucketId);
    this.#fields.clear();
  }

  close(): void {
    this.#db.close();
  }

  async #read(bucketId: number, key: string): Promise<string | undefined> {
    const sql = 'SELECT postings FROM objects WHERE bucket_id = ? AND key = ?';
    return (await this.#db.tx.get<{ postings: string }>(sql, bucketId, key))?.postings;
  }

  async #idOf(bucketId: number, field: string, kind: ValueKind): Promise<number> {
    const name = `${bucketId} ${kind} ${field}`;
    const known = this.#fields.get(name);
    if (known !== undefined) return known;
    if (this.#fields.size >= fieldsKeptMax) this.#fields.clear();
    const { tx } = this.#db;
    const found = await readField(tx, bucketId, field, kind);
    const insert = 'INSERT INTO fields (bucket_id, field, kind) VALUES (?, ?, ?)';
    const id = found ?? (await tx.run(insert, BigInt(bucketId), field, kind)).insertedId;
    this.#fields.set(name, id);
    return id;
  }
}

const fieldsKeptMax = 10_000;
const insertPosting = 'INSERT OR IGNORE INTO postings VALUES (?, ?, ?)';
const deletePosting = 'DELETE FROM postings WHERE field = ? AND value = ? AND key = ?';

function nameOf([field, value]: Stored): string {
  return `${field} ${typeof value} ${value}`;
}

/** Of a text that is damaged nothing is known. */
function parseStored(text: string | undefined): Stored[] {
  try {
    const stored = JSON.parse(text ?? '[]') as unknown;
    return Array.isArray(stored) ? (stored as Stored[]) : [];
  } catch {
    return [];
  }
}

function openWriter(path: string): OpenDatabase {
  return openDatabase(path, { readonly: false, cacheKib: writerCacheKib, isDerived: true });
}

/** undefined: it is another version's, or indexes other metadata, or is damaged. */
async function openExisting(
  path: string,
  metadata: IndexedMetadata,
): Promise<OpenDatabase | undefined> {
  let db: OpenDatabase | undefined;
  try {
    db = openWriter(path);
    if (db.userVersion() === version) {
      const row = await db.tx.get<{ metadata: string }>('SELECT metadata FROM state');
      if (row?.metadata === JSON.stringify(metadata)) return db;
    }
  } catch (cause) {
    if (!isDamage(cause)) throw cause;
  }
  db?.close();
  return undefined;
}

/** Does an error say that a database is damaged? */
export function isDamage(cause: unknown): boolean {
  const { code } = cause as { code?: string };
  return code === 'SQLITE_NOTADB' || code?.startsWith('SQLITE_CORRUPT') === true;
}

/** Throws where the index has none: it is not one. */
/**
 * Whether an index follows this log: one that was put back from elsewhere, or whose database was,
 * may be of another one, or ahead of it. Such an index is made anew.
 */
export async function isOfLog(
  catalog: Reader,
  { through, commitment }: Pick<IndexState, 'through' | 'commitment'>,
): Promise<boolean> {
  if (through === 0) return true;
  const kept = await commitmentOf(catalog, through - 1);
  return kept !== null && commitment !== null && kept.equals(commitment);
}

/** Of a record that is in the database; null: it is not there, or archived. */
export async function commitmentOf(catalog: Reader, at: number): Promise<Buffer | null> {
  const sql = 'SELECT commitment FROM records WHERE idx = ?';
  return (await catalog.get<{ commitment: Buffer }>(sql, at))?.commitment ?? null;
}

export async function readState(index: Reader): Promise<IndexState> {
  const row = await index.get<{
    through: number;
    commitment: Buffer | null;
    scanBucket: number | null;
    scanKey: string | null;
  }>(`SELECT through, commitment, scan_bucket AS scanBucket, scan_key AS scanKey FROM state`);
  if (!row) throw Object.assign(new Error('objects.db has no state'), { code: 'SQLITE_CORRUPT' });
  const { through, commitment, scanBucket, scanKey } = row;
  const scan = scanBucket === null ? null : { bucketId: scanBucket, key: scanKey ?? '' };
  return { through, commitment, scan };
}

/** Which names of metadata it indexes. */
export async function readMetadata(index: Reader): Promise<IndexedMetadata> {
  const row = await index.get<{ metadata: string }>('SELECT metadata FROM state');
  return JSON.parse(row?.metadata ?? '"all"') as IndexedMetadata;
}

/** Number of a field; undefined: no object of the bucket says something in it. */
export async function readField(
  index: Reader,
  bucketId: number,
  field: string,
  kind: ValueKind,
): Promise<number | undefined> {
  const sql = 'SELECT id FROM fields WHERE bucket_id = ? AND field = ? AND kind = ?';
  return (await index.get<{ id: number }>(sql, bucketId, field, kind))?.id;
}

/**
 * Whether the index leads to an object by all of its postings, and by no others of its own; null:
 * whether it leads to it by none.
 */
export async function leadsTo(
  index: Reader,
  { bucketId, key }: ObjectPlace,
  postings: readonly Posting[] | null,
): Promise<boolean> {
  const sql = 'SELECT postings FROM objects WHERE bucket_id = ? AND key = ?';
  const row = await index.get<{ postings: string }>(sql, bucketId, key);
  if (!row || postings === null) return row === undefined && postings === null;
  const stored = parseStored(row.postings);
  if (stored.length !== postings.length) return false;
  for (const [i, [field, kind, value]] of postings.entries()) {
    const id = await readField(index, bucketId, field, kind);
    if (id === undefined || stored[i]?.[0] !== id || stored[i]?.[1] !== value) return false;
    const posting = 'SELECT 1 FROM postings WHERE field = ? AND value = ? AND key = ?';
    if ((await index.get(posting, id, value, key)) === undefined) return false;
  }
  return true;
}
