// Erasing records: salt, text and evidence go, the leaf stays. Invariants: a record is erased by an
// act that is itself a record and names it; what is erased is erased whole, in the transaction of
// that act; every tenant that could see a record has a record of its erasure; and the log's tree
// does not change by it.
import type { Reader, Tx } from '../core/database.ts';
import { decodeLeaves, eraseArchived, readArchivedTile, saltOf } from './archive/archived-tiles.ts';
import { tileWidth } from './log/merkle.ts';

export const erasureSchema = `
CREATE TABLE erasures (            -- records that were erased, for ever
  idx INTEGER PRIMARY KEY,
  by_idx INTEGER NOT NULL          -- the record of the act
);
CREATE INDEX erasures_by_act ON erasures (by_idx);

CREATE TABLE erasure_notices (     -- records of acts, for tenants that do not see the act's own
  idx INTEGER PRIMARY KEY,
  act_idx INTEGER NOT NULL,        -- the record of the act
  tenant TEXT NOT NULL             -- that it is for
);
CREATE INDEX erasure_notices_by_act ON erasure_notices (act_idx);
`;

/** The first act behind the record `afterIndex` that erased something, and what. */
export async function readNextErasure(
  read: Reader,
  afterIndex: number,
): Promise<{ byIndex: number; indexes: number[] } | undefined> {
  const sql = 'SELECT by_idx AS byIndex FROM erasures WHERE by_idx > ? ORDER BY by_idx LIMIT 1';
  const next = await read.get<{ byIndex: number }>(sql, afterIndex);
  if (!next) return undefined;
  const rows = await read.all<{ idx: number }>(
    'SELECT idx FROM erasures WHERE by_idx = ? ORDER BY idx',
    next.byIndex,
  );
  return { byIndex: next.byIndex, indexes: rows.map(({ idx }) => idx) };
}

export interface EraseRecords {
  /** The tenant whose principals made the requests that the records tell of. */
  tenant: string;
  indexes: readonly number[];
}

/** Why nothing was erased: of the first record that cannot be. */
export interface ErasureFault {
  code: 'NoSuchRecord' | 'RecordErased' | 'InUse' | 'ServiceUnavailable';
  message: string;
}

/**
 * Erases all of them, or says why not and has erased none. `summedEnd`: what records before it
 * charged is added up elsewhere. Whoever commits it must see that nothing stays in free pages.
 */
export async function eraseRecords(
  tx: Tx,
  { tenant, indexes }: EraseRecords,
  { byIndex, summedEnd }: { byIndex: number; summedEnd: number },
): Promise<ErasureFault | null> {
  for (const index of indexes) {
    const kept = await readKept(tx, index);
    if (kept?.tenant !== tenant) {
      return { code: 'NoSuchRecord', message: `Record ${index} is none of ${tenant}'s own.` };
    }
    if (kept.isErased)
      return { code: 'RecordErased', message: `Record ${index} is erased already.` };
    // The record of what was erased, by whom and why, stays.
    if (await isOfAct(tx, index))
      return { code: 'InUse', message: `Record ${index} is that of an erasure.` };
    if (index >= summedEnd) {
      const message = `What record ${index} charged is not added up yet; try again in a moment.`;
      return { code: 'ServiceUnavailable', message };
    }
  }
  for (const index of new Set(indexes)) {
    await tx.run("UPDATE records SET salt = NULL, record = '' WHERE idx = ?", index);
    await tx.run('DELETE FROM evidence WHERE idx = ?', index);
    await eraseArchived(tx, index);
    await tx.run('INSERT INTO erasures VALUES (?, ?)', index, byIndex);
  }
  return null;
}

async function isOfAct(read: Reader, index: number): Promise<boolean> {
  const sql = `SELECT 1 WHERE EXISTS (SELECT 1 FROM erasures WHERE by_idx = ?)
    OR EXISTS (SELECT 1 FROM erasure_notices WHERE idx = ?)`;
  return (await read.get(sql, index, index)) !== undefined;
}

/** The records about buckets of each tenant, by the tenant's name. */
export async function readConcerned(
  read: Reader,
  indexes: readonly number[],
): Promise<[tenant: string, indexes: number[]][]> {
  const concerned = new Map<string, number[]>();
  for (const index of new Set(indexes)) {
    const tenant = (await readKept(read, index))?.bucketTenant;
    if (tenant) concerned.set(tenant, [...(concerned.get(tenant) ?? []), index]);
  }
  return [...concerned].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Notes that the record `index` tells a tenant of the act. */
export async function noteNotice(
  tx: Tx,
  { index, act, tenant }: { index: number; act: number; tenant: string },
): Promise<void> {
  await tx.run('INSERT INTO erasure_notices VALUES (?, ?, ?)', index, act, tenant);
}

interface KeptOwners {
  tenant: string;
  bucketTenant: string | null;
  isErased: boolean;
}

/** The tenants that a record belongs to, whether it is in the database or archived. */
async function readKept(read: Reader, index: number): Promise<KeptOwners | undefined> {
  const row = await read.get<Omit<KeptOwners, 'isErased'> & { isErased: number }>(
    `SELECT tenant, bucket_tenant AS bucketTenant, salt IS NULL AS isErased
       FROM records WHERE idx = ?`,
    index,
  );
  if (row) return { ...row, isErased: row.isErased === 1 };
  const tile = await readArchivedTile(read, Math.floor(index / tileWidth));
  const leaf = tile && decodeLeaves(tile.leaves)[index % tileWidth];
  if (!leaf) return undefined;
  const tenant = await readTenant(read, leaf.tenant);
  const bucketTenant = leaf.bucketTenant && (await readTenant(read, leaf.bucketTenant));
  if (tenant === undefined) return undefined;
  return { tenant, bucketTenant: bucketTenant ?? null, isErased: saltOf(tile, index) === null };
}

async function readTenant(read: Reader, pseudonym: string): Promise<string | undefined> {
  const sql = 'SELECT tenant FROM log_tenants WHERE pseudonym = ?';
  return (await read.get<{ tenant: string }>(sql, pseudonym))?.tenant;
}

/**
 * The record that tells this tenant of the act which erased the record `index`; undefined: it was
 * not erased.
 */
export async function readErasure(
  read: Reader,
  index: number,
  tenant: string,
): Promise<number | undefined> {
  const sql = `SELECT coalesce(
      (SELECT idx FROM erasure_notices WHERE act_idx = by_idx AND tenant = ?), by_idx) AS byIndex
    FROM erasures WHERE idx = ?`;
  return (await read.get<{ byIndex: number }>(sql, tenant, index))?.byIndex;
}

/**
 * The action of a record that tells a tenant of an erasure which concerns it
 * (ledger/erasure-notices.ts).
 */
export const erasureNotice = 'bursar:ErasureNotice';
