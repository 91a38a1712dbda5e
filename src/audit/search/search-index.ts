// The search index: a database beside the log's, of whole blocks of records, in the log's order.
// Invariants: it says where to look, and never what there is, since whoever finds something by it
// reads the record and compares it with what was asked; a block is there whole or not at all; a
// block whose records could not be read leads to all of them, so that who looks is told of it; and
// an index that was not made of the log beside it is not used. It can always be made anew.
import { existsSync } from 'node:fs';
import {
  type OpenDatabase,
  openDatabase,
  type Reader,
  removeDatabase,
} from '../../core/database.ts';
import type { KeptText, RecordStore } from '../record-store.ts';
import { type KeyNode, keyNodes } from './key-nodes.ts';
import { allBits, type Bits, blockWidth, intersect, packPlaces } from './positions.ts';
import { type FoundBy, keysOf, termsOf } from './terms.ts';

/**
 * 2: copies are found by what was read, too. 3: buckets, by what the native API did to them. 4:
 * what principals of other tenants did, by whose bucket it was.
 */
const version = 4;

const schema = `
CREATE TABLE blocks (              -- of 4096 records that are indexed, without gaps
  block INTEGER PRIMARY KEY,
  commitment BLOB NOT NULL         -- of its last record: it tells one log from another
);
CREATE TABLE postings (            -- in which places of a block a term is
  term TEXT NOT NULL,
  block INTEGER NOT NULL,
  places BLOB NOT NULL,
  PRIMARY KEY (term, block)
) WITHOUT ROWID;
CREATE TABLE keys (                -- the radix tree of the object keys of a block
  block INTEGER NOT NULL,
  prefix BLOB NOT NULL,
  places BLOB NOT NULL,
  PRIMARY KEY (block, prefix)
) WITHOUT ROWID;
CREATE TABLE erased (              -- erasures up to the record of this one are done here too
  by_idx INTEGER NOT NULL
);
INSERT INTO erased VALUES (-1);
`;

/** The log that is indexed. */
export type LogRecords = Pick<RecordStore, 'readRecord'>;

/** The mark of a block that was not read: no record is found by it. */
const unreadTerm = '';
const everyPlace = packPlaces(Array.from({ length: blockWidth }, (_, place) => place));

const writerCacheKib = 16 * 1024;
const readerCacheKib = 16 * 1024;
/** Searches are short: they are waited for. */
const readersMsMax = 10_000;

/** The thread's end, which alone writes. */
export class SearchIndexWriter {
  readonly #db: OpenDatabase;
  readonly #log: LogRecords;

  private constructor(db: OpenDatabase, log: LogRecords) {
    this.#db = db;
    this.#log = log;
  }

  /** Opens or makes the file. What is no index of the log behind `log` is made anew. */
  static async open(path: string, log: LogRecords): Promise<SearchIndexWriter> {
    if (existsSync(path)) {
      const found = await openExisting(path, log);
      if (found) return new SearchIndexWriter(found, log);
      removeDatabase(path);
    }
    const db = openWriter(path);
    db.exec(`BEGIN; ${schema} PRAGMA user_version = ${version}; COMMIT;`);
    return new SearchIndexWriter(db, log);
  }

  /** Records that are indexed. */
  end(): Promise<number> {
    return indexedEnd(this.#db.tx);
  }

  /**
   * Indexes a whole block, in the place of what was there of it. null: its records cannot be read,
   * so that what was there of them may be wrong.
   */
  async putBlock(block: number, records: readonly KeptText[] | null): Promise<void> {
    const commitment = await readCommitment(this.#log, (block + 1) * blockWidth - 1);
    if (!commitment || (records && records.length !== blockWidth)) {
      throw new Error(`block ${block} has ${records?.length ?? 'too few'} records`);
    }
    const { tx } = this.#db;
    const isKnown = block * blockWidth < (await this.end());
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      if (isKnown) {
        await tx.run('DELETE FROM postings WHERE block = ?', block);
        await tx.run('DELETE FROM keys WHERE block = ?', block);
      }
      if (records) await this.#insert(block, records);
      else await tx.run('INSERT INTO postings VALUES (?, ?, ?)', unreadTerm, block, everyPlace);
      await tx.run('INSERT OR REPLACE INTO blocks VALUES (?, ?)', block, commitment);
      this.#db.exec('COMMIT');
    } catch (cause) {
      this.#db.rollback();
      throw cause;
    }
  }

  /** Whether a block was not read when it was put here. */
  async isUnread(block: number): Promise<boolean> {
    const sql = 'SELECT 1 FROM postings WHERE term = ? AND block = ?';
    return (await this.#db.tx.get(sql, unreadTerm, block)) !== undefined;
  }

  /**
   * Returns whether the index leads to all records of the block by every term by which they are
   * found. It does not matter whether it leads to others as well: whoever is led there sees that
   * they do not fit.
   */
  async leadsToAll(block: number, records: readonly KeptText[]): Promise<boolean> {
    const { postings, nodes } = rowsOf(records);
    const { tx } = this.#db;
    for (const [term, places] of postings) {
      const sql = 'SELECT places FROM postings WHERE term = ? AND block = ?';
      const row = await tx.get<{ places: Buffer }>(sql, term, block);
      if (!row?.places.equals(packPlaces(places))) return false;
    }
    const sql = 'SELECT prefix, places FROM keys WHERE block = ? ORDER BY prefix';
    const rows = await tx.all<{ prefix: Buffer; places: Buffer }>(sql, block);
    const isNode = ({ prefix, places }: KeyNode, i: number): boolean =>
      rows[i]?.prefix.equals(prefix) === true && rows[i].places.equals(packPlaces(places));
    return rows.length === nodes.length && nodes.every(isNode);
  }

  /** Erasures that were made by records behind this one are to be done here. */
  async erasedBy(): Promise<number> {
    return (await this.#db.tx.get<{ idx: number }>('SELECT by_idx AS idx FROM erased'))?.idx ?? -1;
  }

  /** Records that were erased by then are in no page of the index any more. */
  async noteErased(byIndex: number): Promise<void> {
    await this.#db.tx.run('UPDATE erased SET by_idx = ?', byIndex);
    this.#db.emptyLog(readersMsMax);
  }

  close(): void {
    this.#db.close();
  }

  async #insert(block: number, records: readonly KeptText[]): Promise<void> {
    const { postings, nodes } = rowsOf(records);
    const { tx } = this.#db;
    for (const [term, places] of postings) {
      await tx.run('INSERT INTO postings VALUES (?, ?, ?)', term, block, packPlaces(places));
    }
    for (const { prefix, places } of nodes) {
      await tx.run('INSERT INTO keys VALUES (?, ?, ?)', block, prefix, packPlaces(places));
    }
  }
}

/**
 * What the index has of a block, in the order of its tables, whose pages are so written in turn.
 */
function rowsOf(records: readonly KeptText[]): {
  postings: [term: string, places: number[]][];
  nodes: KeyNode[];
} {
  const byTerm = new Map<string, number[]>();
  const byKey = new Map<string, number[]>();
  records.forEach(({ opened }, place) => {
    if (!opened) return;
    const found = JSON.parse(opened.record) as FoundBy;
    for (const term of termsOf(found)) enter(byTerm, term, place);
    for (const key of keysOf(found)) enter(byKey, key, place);
  });
  const postings = Array.from(byTerm).sort(([one], [other]) => (one < other ? -1 : 1));
  return { postings, nodes: keyNodes(byKey) };
}

function enter(sets: Map<string, number[]>, name: string, place: number): void {
  const places = sets.get(name);
  if (places) places.push(place);
  else sets.set(name, [place]);
}

function openWriter(path: string): OpenDatabase {
  return openDatabase(path, { readonly: false, cacheKib: writerCacheKib, isDerived: true });
}

/** undefined: it is another version's, or another log's, or damaged. */
async function openExisting(path: string, log: LogRecords): Promise<OpenDatabase | undefined> {
  let db: OpenDatabase | undefined;
  try {
    db = openWriter(path);
    if (db.userVersion() === version && (await isOf(db.tx, log))) return db;
  } catch (cause) {
    if (!isDamage(cause)) throw cause;
  }
  db?.close();
  return undefined;
}

function isDamage(cause: unknown): boolean {
  const { code } = cause as { code?: string };
  return code === 'SQLITE_NOTADB' || code?.startsWith('SQLITE_CORRUPT') === true;
}

/**
 * Returns whether the index was made of this log. An index that was put back from a backup may be
 * shorter than the log, or be of another one, and erasures that the log no longer has must not hide
 * later ones. No store is asked, since it may not answer now.
 */
async function isOf(index: Reader, log: LogRecords): Promise<boolean> {
  const end = await indexedEnd(index);
  if (end === 0) return true;
  const ours = await index.get<{ commitment: Buffer; erasedBy: number }>(
    `SELECT commitment, (SELECT by_idx FROM erased) AS erasedBy FROM blocks WHERE block = ?`,
    end / blockWidth - 1,
  );
  const its = await readCommitment(log, end - 1);
  if (!ours || !its || !ours.commitment.equals(its)) return false;
  return ours.erasedBy < 0 || (await readCommitment(log, ours.erasedBy)) !== undefined;
}

async function readCommitment(log: LogRecords, index: number): Promise<Buffer | undefined> {
  const nobodys = () => false;
  return (await log.readRecord(index, nobodys))?.commitment;
}

async function indexedEnd(index: Reader): Promise<number> {
  const last = await index.get<{ block: number | null }>('SELECT max(block) AS block FROM blocks');
  return ((last?.block ?? -1) + 1) * blockWidth;
}

/** Rows that are read of one term at a time. */
const postingsAhead = 64;

/** Any thread's end, which reads. */
export class SearchIndexReader {
  readonly #db: OpenDatabase;

  /** The file must be there. */
  constructor(path: string) {
    this.#db = openDatabase(path, { readonly: true, cacheKib: readerCacheKib });
  }

  /** Records that are indexed, from the first on. */
  end(): Promise<number> {
    return indexedEnd(this.#db.tx);
  }

  /**
   * From block `from` to before `to` those that have all terms and keys with the prefix, and where.
   * Blocks that lack one of the terms cost nothing: each term leads to the next that has it. A
   * block that was not read has everything.
   */
  async *blocksWith(
    terms: readonly string[],
    prefix: string | undefined,
    { from, to }: { from: number; to: number },
  ): AsyncGenerator<{ block: number; bits: Bits }> {
    const runs = terms.map((term) => new TermRun(this.#db.tx, term));
    const unread = new TermRun(this.#db.tx, unreadTerm);
    let nextUnread = await unread.seek(from);
    for (let block = from; block < to; ) {
      let next = block;
      for (const run of runs) next = Math.max(next, await run.seek(next));
      if (nextUnread <= next && nextUnread < to) {
        yield { block: nextUnread, bits: allBits() };
        block = nextUnread + 1;
        nextUnread = await unread.seek(block);
        continue;
      }
      if (next >= to) return;
      if (next > block) {
        block = next;
        continue;
      }
      const bits = allBits();
      for (const run of runs) intersect(bits, run.places());
      if (!prefix || (await this.#narrow(bits, block, prefix))) yield { block, bits };
      block += 1;
    }
  }

  close(): void {
    this.#db.close();
  }

  async #narrow(bits: Bits, block: number, prefix: string): Promise<boolean> {
    const begin = Buffer.from(prefix);
    const node = await this.#db.tx.get<{ prefix: Buffer; places: Buffer }>(
      'SELECT prefix, places FROM keys WHERE block = ? AND prefix >= ? ORDER BY prefix LIMIT 1',
      block,
      begin,
    );
    if (!node?.prefix.subarray(0, begin.length).equals(begin)) return false;
    intersect(bits, node.places);
    return true;
  }
}

interface Posting {
  block: number;
  places: Buffer;
}

/** The blocks of one term, in order. */
class TermRun {
  readonly #read: Reader;
  readonly #term: string;
  #rows: Posting[] = [];
  #at = 0;

  constructor(read: Reader, term: string) {
    this.#read = read;
    this.#term = term;
  }

  /** Goes on to the first block from `block` on; gives Infinity behind the last. */
  async seek(block: number): Promise<number> {
    while (this.#at < this.#rows.length && (this.#rows[this.#at] as Posting).block < block) {
      this.#at += 1;
    }
    if (this.#at === this.#rows.length) {
      const sql = 'SELECT block, places FROM postings WHERE term = ? AND block >= ? LIMIT ?';
      this.#rows = await this.#read.all<Posting>(sql, this.#term, block, postingsAhead);
      this.#at = 0;
    }
    return this.#rows[this.#at]?.block ?? Number.POSITIVE_INFINITY;
  }

  /** The places in the present block. */
  places(): Buffer {
    return (this.#rows[this.#at] as Posting).places;
  }
}
