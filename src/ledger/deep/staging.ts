// What a comparison keeps between two slices, in a database of its own: what records told, and how
// far it has come. So memory is bounded however much there is, and a run that was interrupted goes
// on where its last slice ended. Invariants: a slice is there as a whole or not at all; and what is
// read back is what was written, since all rows together are authenticated under a key of the
// gateway's.
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { type OpenDatabase, openDatabase } from '../../core/database.ts';
import { macBytes } from '../../core/hmac.ts';
import { pages } from '../../core/pages.ts';

const version = 1;
const cacheKib = 32 * 1024;
/** Of each map, in memory. */
const keptMax = 5000;
const rowsPerPage = 1000;

const schema = `
CREATE TABLE things (              -- by kind and name, what is kept of it
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  value TEXT NOT NULL,             -- JSON
  mac BLOB NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE TABLE progress (            -- one row: how far the run has come
  state TEXT NOT NULL,             -- JSON
  mac BLOB NOT NULL                -- of it, and of the XOR of all MACs above
);
PRAGMA user_version = ${version};
`;

interface StoredThing {
  id: string;
  value: string;
  mac: Uint8Array;
}

interface Kept {
  value: unknown;
  isChanged: boolean;
  /** As it is stored; null: it is not. */
  mac: Uint8Array | null;
}

export class Staging {
  readonly #db: OpenDatabase;
  readonly #key: KeyObject;
  readonly #maps: StagedMap<unknown>[] = [];
  /** Of the MACs of all things that are stored. */
  readonly #sum = Buffer.alloc(macBytes);

  private constructor(db: OpenDatabase, key: Uint8Array) {
    this.#db = db;
    this.#key = createSecretKey(key);
  }

  /** Opens or makes the file. Throws when it is not what a run under this key wrote. */
  static async open(file: string, key: Uint8Array): Promise<Staging> {
    const db = openDatabase(file, { readonly: false, isDerived: true, cacheKib });
    try {
      const found = db.userVersion();
      if (found !== 0 && found !== version) throw new Error('it is of another version of Bursar');
      if (found === 0) db.exec(`BEGIN;${schema}COMMIT`);
      const staging = new Staging(db, key);
      await staging.#verify();
      db.exec('BEGIN');
      return staging;
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Things of one kind, by name. What is kept of them is plain data. */
  map<V>(kind: string): StagedMap<V> {
    const map = new StagedMap<V>(this.#db, { kind, macOf: this.#macOf, count: this.#count });
    this.#maps.push(map as StagedMap<unknown>);
    return map;
  }

  /** How far the run had come; undefined: it has not begun. */
  async readProgress<P>(): Promise<P | undefined> {
    const row = await this.#db.tx.get<{ state: string }>('SELECT state FROM progress');
    return row && (JSON.parse(row.state) as P);
  }

  /** Ends a slice: all of it is kept, with how far it came. */
  async commit(progress: unknown): Promise<void> {
    for (const map of this.#maps) await map.flush();
    const state = JSON.stringify(progress);
    await this.#db.tx.run('DELETE FROM progress');
    await this.#db.tx.run('INSERT INTO progress VALUES (?, ?)', state, this.#progressMac(state));
    this.#db.exec('COMMIT; BEGIN');
  }

  close(): void {
    this.#db.rollback();
    this.#db.close();
  }

  async #verify(): Promise<void> {
    for (let [kind, id] = ['', '']; ; ) {
      const rows = await this.#db.tx.all<StoredThing & { kind: string }>(
        'SELECT kind, id, value, mac FROM things WHERE (kind, id) > (?, ?) ORDER BY kind, id ' +
          'LIMIT ?',
        ...[kind, id, rowsPerPage],
      );
      for (const row of rows) {
        const mac = this.#macOf(row.kind, row.id, row.value);
        if (Buffer.compare(mac, row.mac) !== 0) throw new Error(notOurs);
        this.#count(mac);
      }
      const last = rows.at(-1);
      if (!last) break;
      [kind, id] = [last.kind, last.id];
    }
    const row = await this.#db.tx.get<{ state: string; mac: Uint8Array }>('SELECT * FROM progress');
    const isEmpty = !row && this.#sum.every((byte) => byte === 0);
    if (isEmpty) return;
    const mac = row && this.#progressMac(row.state);
    if (!mac || row.mac.length !== macBytes || !timingSafeEqual(mac, row.mac)) {
      throw new Error(notOurs);
    }
  }

  readonly #macOf = (kind: string, id: string, value: string): Buffer =>
    createHmac('sha256', this.#key)
      .update(JSON.stringify([kind, id, value]))
      .digest();

  /** Adds a MAC to the sum, or takes it out again. */
  readonly #count = (mac: Uint8Array): void => {
    for (let i = 0; i < macBytes; i++) this.#sum[i] = (this.#sum[i] ?? 0) ^ (mac[i] ?? 0);
  };

  #progressMac(state: string): Buffer {
    const parts = JSON.stringify([state, this.#sum.toString('hex')]);
    return createHmac('sha256', this.#key).update(parts).digest();
  }
}

const notOurs = 'it is not what a run of this Bursar on this folder wrote';

interface Store {
  kind: string;
  macOf: (kind: string, id: string, value: string) => Buffer;
  count: (mac: Uint8Array) => void;
}

/** Written to the file when it is full, or a slice ends. */
export class StagedMap<V> {
  readonly #db: OpenDatabase;
  readonly #store: Store;
  readonly #kept = new Map<string, Kept>();

  constructor(db: OpenDatabase, store: Store) {
    this.#db = db;
    this.#store = store;
  }

  /** Not to be changed but by `set`. */
  async get(id: string): Promise<V | undefined> {
    return (await this.#find(id)).value as V | undefined;
  }

  async set(id: string, value: V): Promise<void> {
    const kept = await this.#find(id);
    kept.value = value;
    kept.isChanged = true;
  }

  async delete(id: string): Promise<void> {
    const kept = await this.#find(id);
    kept.value = undefined;
    kept.isChanged = true;
  }

  /** In the order of their names. Each may be changed or deleted when it is met. */
  async *entries(): AsyncGenerator<[string, V]> {
    await this.flush();
    const { kind } = this.#store;
    const sql = 'SELECT id FROM things WHERE kind = ? AND id > ? ORDER BY id LIMIT ?';
    for await (const rows of pages<{ id: string }>((last) =>
      this.#db.tx.all(sql, kind, last?.id ?? '', rowsPerPage),
    )) {
      for (const { id } of rows) {
        const value = await this.get(id);
        if (value !== undefined) yield [id, value];
      }
    }
  }

  async flush(): Promise<void> {
    for (const [id, kept] of this.#kept) if (kept.isChanged) await this.#write(id, kept);
  }

  async #find(name: string): Promise<Kept> {
    // Half of a surrogate pair is not kept by SQLite.
    const id = name.toWellFormed();
    const known = this.#kept.get(id);
    if (known) return known;
    if (this.#kept.size >= keptMax) {
      await this.flush();
      this.#kept.clear();
    }
    const row = await this.#db.tx.get<StoredThing>(
      'SELECT value, mac FROM things WHERE kind = ? AND id = ?',
      ...[this.#store.kind, id],
    );
    const value: unknown = row && JSON.parse(row.value);
    const kept = { value, isChanged: false, mac: row?.mac ?? null };
    this.#kept.set(id, kept);
    return kept;
  }

  async #write(id: string, kept: Kept): Promise<void> {
    const { kind, macOf, count } = this.#store;
    if (kept.mac) count(kept.mac);
    kept.mac = null;
    if (kept.value === undefined) {
      await this.#db.tx.run('DELETE FROM things WHERE kind = ? AND id = ?', kind, id);
    } else {
      const value = JSON.stringify(kept.value);
      kept.mac = macOf(kind, id, value);
      count(kept.mac);
      const sql = 'INSERT OR REPLACE INTO things VALUES (?, ?, ?, ?)';
      await this.#db.tx.run(sql, kind, id, value, kept.mac);
    }
    kept.isChanged = false;
  }
}
