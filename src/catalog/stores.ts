// Stores by number. Invariant: a number is given to a name once and for ever, since manifests and
// buckets have it: taking a store out of the configuration leaves its row, and bringing it back
// finds its old number.
import type { Reader, Tx } from '../core/database.ts';
import { decodeManifest, isManifest, localStore } from '../core/manifest.ts';
import { pages } from '../core/pages.ts';
import { extentState } from './extents.ts';
import { forgetJournalObjects } from './journal-objects.ts';
import { manifestOf } from './long-manifests.ts';

export interface StoreRow {
  number: number;
  name: string;
  /** The place where the store was last seen to be ours; '' before it ever was. */
  location: string;
}

/** A manifest has one byte for the number. */
const numberMax = 255;

/** All S3 stores that were ever configured, in order of number. */
export async function listStores(read: Reader): Promise<StoreRow[]> {
  return read.all<StoreRow>('SELECT number, name, location FROM stores ORDER BY number');
}

/** Resolves to whether a bucket or an archived record is in the store, or a class has a leg. */
export async function isStoreUsed(read: Reader, number: number): Promise<boolean> {
  const found = await read.get(
    `SELECT 1 WHERE EXISTS (SELECT 1 FROM buckets WHERE store = ?)
       OR EXISTS (SELECT 1 FROM classes, json_each(definition, '$.durability.legs') AS leg
         JOIN stores ON stores.name = json_extract(leg.value, '$.store') WHERE number = ?)
       OR EXISTS (SELECT 1 FROM record_packs WHERE substr(manifest, 17, 1) = ?)`,
    number,
    number,
    Buffer.of(number),
  );
  return found !== undefined;
}

/** Up to `max` buckets that are in a store, as `TENANT/BUCKET`. */
export async function listBucketsIn(read: Reader, number: number, max: number): Promise<string[]> {
  const sql = `SELECT tenant || '/' || name AS name FROM buckets WHERE store = ?
    ORDER BY tenant, name LIMIT ?`;
  return (await read.all<{ name: string }>(sql, number, max)).map(({ name }) => name);
}

/** Numbers of the stores that have archived records. */
export async function listPackStores(read: Reader): Promise<number[]> {
  const sql = 'SELECT DISTINCT substr(manifest, 17, 1) AS number FROM record_packs';
  return (await read.all<{ number: Uint8Array }>(sql)).flatMap(({ number }) => [...number]);
}

/** Numbers of the stores over a network where classes have legs. */
export async function listClassStores(read: Reader): Promise<number[]> {
  const sql = `SELECT DISTINCT number
    FROM classes, json_each(definition, '$.durability.legs') AS leg
    JOIN stores ON stores.name = json_extract(leg.value, '$.store')`;
  return (await read.all<{ number: number }>(sql)).map(({ number }) => number);
}

/** The name of the store for a tenant's new buckets; null: it has none of its own. */
export async function findDefaultStore(read: Reader, tenant: string): Promise<string | null> {
  const sql = 'SELECT default_store AS name FROM tenants WHERE name = ?';
  const row = await read.get<{ name: string | null }>(sql, tenant);
  return row?.name ?? null;
}

/** The identity that tells this data folder from every other. */
export async function readInstance(read: Reader): Promise<string> {
  const row = await read.get<{ instance: string }>('SELECT instance FROM gateway');
  if (!row) throw new Error('the database does not say which gateway it is of');
  return row.instance;
}

/** Makes a copy of a database another gateway's: stores are its own only when it takes them. */
export async function renewInstance(tx: Tx): Promise<void> {
  await tx.run('UPDATE gateway SET instance = lower(hex(randomblob(16)))');
}

/**
 * Gives a store its number, or notes where one that has a number is now. Gives how many rows were
 * touched: none when no number is left.
 */
export async function registerStore(tx: Tx, name: string, location: string): Promise<number> {
  const moved = await tx.run('UPDATE stores SET location = ? WHERE name = ?', location, name);
  if (moved.changes > 0) return moved.changes;
  const added = await tx.run(
    `INSERT INTO stores (number, name, location)
       SELECT n, ?, ? FROM (SELECT coalesce(max(number), ?) + 1 AS n FROM stores) WHERE n <= ?`,
    ...[name, location, localStore, numberMax],
  );
  return added.changes;
}

/** The state, in the database, of the journal that it writes in a store. */
export interface KnownJournal {
  /** Null: it has begun none. */
  generation: string | null;
  /** The journal tells of changes up to here, or up to one that the outbox still has. */
  journaledSeq: number;
}

export async function readJournal(read: Reader, store: number): Promise<KnownJournal> {
  const row = await read.get<KnownJournal>(
    'SELECT generation, journaled_seq AS journaledSeq FROM stores WHERE number = ?',
    store,
  );
  return row ?? { generation: null, journaledSeq: -1 };
}

/** Notes that the journal in a store may tell of changes up to `seq`. */
export async function noteJournaled(tx: Tx, store: number, seq: number): Promise<number> {
  const sql = 'UPDATE stores SET journaled_seq = max(journaled_seq, ?) WHERE number = ?';
  return (await tx.run(sql, seq, store)).changes;
}

export async function beginGeneration(tx: Tx, store: number, generation: string): Promise<number> {
  await forgetJournalObjects(tx, store);
  const sql = 'UPDATE stores SET generation = ? WHERE number = ?';
  return (await tx.run(sql, generation, store)).changes;
}

// What a snapshot of a store's journal has to tell besides buckets and versions: the extents in the
// store that belong to nothing any more.

/**
 * Extents of a store that may be in it and belong to nothing: condemned ones and those that a
 * rebuild left alone, the last ones of versions that ended, by which a plain write is known, and
 * what was swept lately and may be put back. In pages of hexadecimal ids.
 */
export async function* listGarbage(
  read: Reader,
  store: number,
  max: number,
): AsyncGenerator<string[]> {
  // In the order in which they go on: what an ended version is let go of meanwhile is condemned,
  // and then swept.
  yield* listLastExtents(read, store, max);
  const { condemned, left, swept } = extentState;
  for (const state of [condemned, left, swept]) {
    yield* listInState(read, { store, state, max });
  }
}

/**
 * Resolves to whether a rebuild left extents alone in a store, because something was lost that it
 * needed.
 */
export async function hasLeftExtents(read: Reader, store: number): Promise<boolean> {
  const sql = 'SELECT 1 FROM extents WHERE state <> 1 AND state = 3 AND store = ? LIMIT 1';
  return (await read.get(sql, store)) !== undefined;
}

async function* listInState(
  read: Reader,
  { store, state, max }: { store: number; state: number; max: number },
): AsyncGenerator<string[]> {
  const sql = `SELECT id, changed_ms AS changedMs, rowid AS rowId FROM extents
    WHERE state <> 1 AND state = ? AND store = ? AND (changed_ms, rowid) > (?, ?)
    ORDER BY changed_ms, rowid LIMIT ?`;
  type Row = { id: Buffer; changedMs: number; rowId: number };
  const readPage = (last?: Row) =>
    read.all<Row>(sql, state, store, last?.changedMs ?? -1, last?.rowId ?? -1, max);
  for await (const rows of pages(readPage)) yield rows.map(({ id }) => id.toString('hex'));
}

async function* listLastExtents(
  read: Reader,
  store: number,
  max: number,
): AsyncGenerator<string[]> {
  const sql = `SELECT seq, substr(manifest, -36) AS end
    FROM (SELECT seq, ${manifestOf('e')} FROM ended_versions AS e)
    WHERE seq > ? ORDER BY seq LIMIT ?`;
  type Row = { seq: number; end: Uint8Array };
  for await (const rows of pages<Row>((last) => read.all(sql, last?.seq ?? -1, max))) {
    const ids = rows.flatMap(({ end }) => {
      const run = isManifest(end) ? decodeManifest(end).at(-1) : undefined;
      return run?.store === store ? [run.id.toString('hex')] : [];
    });
    if (ids.length > 0) yield ids;
  }
}
