// The index of objects: beside the catalog, and made of it alone, so that it can be made again at
// any time. Invariants: an object's postings are those of its current version as the catalog has
// it, once all of the log is followed; a batch of changes and how far the log was followed become
// durable together; and of an object that is gone, or of what it said before, nothing is kept.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

/** An object, and its current version; undefined: it has none. */
export interface ObjectNow extends ObjectPlace {
  version: IndexedVersion | undefined;
}

/** Postings as they are stored. */
type Stored = [field: number, value: string | number];
type Row = [...Stored, key: string];
type Value = string | number;

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
   * Has the index say of objects what their current versions do; undefined, or a delete marker:
   * nothing. Each object may be there once. Few statements are run for all of them, in the order of
   * the index, so that pages which many of them change are looked for once.
   */
  async put(objects: readonly ObjectNow[]): Promise<void> {
    const kept = await this.#read(objects);
    const [gone, made]: [Row[], Row[]] = [[], []];
    const [ended, said]: [Value[][], Value[][]] = [[], []];
    for (const { bucketId, key, version } of objects) {
      const before = kept.get(nameOfPlace(bucketId, key));
      const next = version && !version.isMarker ? await this.#storedOf(bucketId, version) : null;
      const text = next && JSON.stringify(next);
      if (text === (before ?? null)) continue;
      // Most are new.
      const known = before === undefined ? null : byName(parseStored(before));
      for (const one of next ?? []) {
        if (!known?.delete(nameOf(one))) made.push([one[0], one[1], key]);
      }
      for (const one of known?.values() ?? []) gone.push([one[0], one[1], key]);
      if (text === null) ended.push([bucketId, key]);
      else said.push([bucketId, key, text]);
    }
    await this.#runAll(deletePostings, gone.sort(inOrder));
    await this.#runAll(insertPostings, made.sort(inOrder));
    await this.#runAll(deleteObjects, ended);
    await this.#runAll(insertObjects, said);
  }

  /** The same, though its row says that nothing is to be done: a posting of it may be missing. */
  async mend(object: ObjectNow): Promise<void> {
    const { bucketId, key } = object;
    const kept = (await this.#read([object])).get(nameOfPlace(bucketId, key));
    const postings = parseStored(kept).map((one): Row => [...one, key]);
    await this.#runAll(deletePostings, postings);
    await this.#runAll(deleteObjects, [[bucketId, key]]);
    await this.put([object]);
  }

  async #storedOf(bucketId: number, version: IndexedVersion): Promise<Stored[]> {
    const stored: Stored[] = [];
    for (const [field, kind, value] of postingsOf(version, this.#metadata)) {
      const name = `${bucketId} ${kind} ${field}`;
      // Nearly all are known, and are not waited for.
      const id = this.#fields.get(name) ?? (await this.#idOf(name, bucketId, field, kind));
      stored.push([id, value]);
    }
    return stored;
  }

  async #runAll(statement: RowStatement, rows: readonly Value[][]): Promise<void> {
    for (const { sql, values } of runsOf(statement, rows)) await this.#db.tx.run(sql, ...values);
  }

  /** Whether the index leads to the object by all that it says. */
  async leadsTo(version: IndexedVersion): Promise<boolean> {
    const { bucketId, key, isMarker } = version;
    const wanted = isMarker ? [] : postingsOf(version, this.#metadata);
    return leadsTo(this.#db.tx, { bucketId, key }, isMarker ? null : wanted);
  }

  /** Those to which it does not, of many that are looked at in one transaction. */
  async findMissed(versions: readonly IndexedVersion[]): Promise<IndexedVersion[]> {
    this.#db.exec('BEGIN');
    try {
      const missed: IndexedVersion[] = [];
      for (const version of versions) if (!(await this.leadsTo(version))) missed.push(version);
      return missed;
    } finally {
      this.#db.rollback();
    }
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

  /** Takes what was deleted out of SQLite's log, too, unless somebody reads. */
  forgetPages(): void {
    this.#db.emptyLog(0);
  }

  close(): void {
    this.#db.close();
  }

  /** Postings as they are stored of those that the index has, by place. */
  async #read(places: readonly ObjectPlace[]): Promise<Map<string, string>> {
    const kept = new Map<string, string>();
    const asked = places.map(({ bucketId, key }): Value[] => [bucketId, key]);
    for (const { sql, values } of runsOf(keptPostings, asked)) {
      const rows = await this.#db.tx.all<ObjectPlace & { postings: string }>(sql, ...values);
      for (const row of rows) kept.set(nameOfPlace(row.bucketId, row.key), row.postings);
    }
    return kept;
  }

  async #idOf(name: string, bucketId: number, field: string, kind: ValueKind): Promise<number> {
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
/** Rows that one statement is about: each costs more to begin than to go on. */
const rowsAtOnce = 64;

/** What is done to rows of so many values each. */
interface RowStatement {
  readonly one: string;
  readonly many: string;
}

function rowStatement(begin: string, width: number, end = ''): RowStatement {
  const row = `(${Array(width).fill('?').join(', ')})`;
  const many = Array(rowsAtOnce).fill(row).join(', ');
  return { one: `${begin} ${row}${end}`, many: `${begin} ${many}${end}` };
}

const insertPostings = rowStatement('INSERT OR IGNORE INTO postings VALUES', 3);
const deletePostings = rowStatement(
  'DELETE FROM postings WHERE (field, value, key) IN (VALUES',
  ...([3, ')'] as const),
);
const insertObjects = rowStatement('INSERT OR REPLACE INTO objects VALUES', 3);
const deleteObjects = rowStatement(
  'DELETE FROM objects WHERE (bucket_id, key) IN (VALUES',
  ...([2, ')'] as const),
);
const keptPostings = rowStatement(
  'SELECT bucket_id AS bucketId, key, postings FROM objects WHERE (bucket_id, key) IN (VALUES',
  ...([2, ')'] as const),
);

/** The rows of each statement, so that few are run. */
function* runsOf({ one, many }: RowStatement, rows: readonly Value[][]): Generator<Run> {
  const whole = rows.length - (rows.length % rowsAtOnce);
  for (let at = 0; at < whole; at += rowsAtOnce) {
    const values: Value[] = [];
    for (let i = at; i < at + rowsAtOnce; i++) {
      for (const value of rows[i] as Value[]) values.push(value);
    }
    yield { sql: many, values };
  }
  for (let i = whole; i < rows.length; i++) yield { sql: one, values: rows[i] as Value[] };
}

interface Run {
  sql: string;
  values: Value[];
}

/** By field, then as values are found in the index, near enough, then by key. */
function inOrder([field, value, key]: Row, [otherField, other, otherKey]: Row): number {
  if (field !== otherField) return field - otherField;
  if (value !== other) return value < other ? -1 : 1;
  return key < otherKey ? -1 : 1;
}

function nameOfPlace(bucketId: number, key: string): string {
  return `${bucketId} ${key}`;
}

function byName(stored: readonly Stored[]): Map<string, Stored> {
  return new Map(stored.map((one) => [nameOf(one), one]));
}

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

/** What is said of an index that is made anew because of this error. */
export function damageOf(cause: unknown): string {
  return `it is damaged: ${String(cause)}`;
}

/** Who only reads a damaged index removes it, and leaves word for the thread that keeps it. */
export function giveUp(path: string, cause: unknown): void {
  try {
    writeFileSync(`${path}-damage`, damageOf(cause));
  } finally {
    removeDatabase(path);
  }
}

/** Why the index was removed by who reads it; null: it was not. */
export function takeDamage(path: string): string | null {
  const word = `${path}-damage`;
  if (!existsSync(word)) return null;
  const reason = readFileSync(word, 'utf8');
  rmSync(word);
  return reason;
}

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

/** Throws where the index has none: it is not one. */
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
