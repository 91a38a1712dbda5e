// Counting what is stored under a prefix, or by a writer, by the rows that are there: a slice at a
// time, in the order of buckets and keys. Where a count has come to is durable (`stored_counts`).
// Invariant: all rows of a key, in whichever table, are on one side of that place; so what comes to
// be on the side that is counted, or leaves it, can be told from what the count will still find.
import type { Reader, SqlValue, Tx } from '../core/database.ts';
import { compareText, textSuccessor } from '../core/text-order.ts';
import type { Stored } from '../quota/charge.ts';
import type { LimitedAccount } from '../quota/limited-accounts.ts';
import { countedRows, namedWriter } from './stored-triggers.ts';

export const storedCountSchema = `
CREATE TABLE stored_counts (       -- prefixes and writers with limits that are being counted
  account TEXT PRIMARY KEY,
  bucket_id INTEGER NOT NULL,      -- all before this bucket, and before this key of it, is counted
  key TEXT NOT NULL
) WITHOUT ROWID;
`;

/** All of the buckets before this one, and of its keys before this one, is counted. */
export interface CountPlace {
  bucketId: number;
  key: string;
}

export const countBegin: CountPlace = { bucketId: 0, key: '' };

export function isBefore(bucketId: number, key: string, place: CountPlace): boolean {
  if (bucketId !== place.bucketId) return bucketId < place.bucketId;
  return compareText(key, place.key) < 0;
}

/** The accounts that are being counted, and where each count has come to. */
export async function readCounts(read: Reader): Promise<Map<string, CountPlace>> {
  const rows = await read.all<CountPlace & { account: string }>(
    'SELECT account, bucket_id AS bucketId, key FROM stored_counts ORDER BY account',
  );
  return new Map(rows.map(({ account, ...place }) => [account, place]));
}

/** null: all is counted. */
export async function noteCount(tx: Tx, account: string, place: CountPlace | null): Promise<void> {
  if (!place) {
    await tx.run('DELETE FROM stored_counts WHERE account = ?', account);
    return;
  }
  const sql = 'INSERT OR REPLACE INTO stored_counts VALUES (?, ?, ?)';
  await tx.run(sql, account, BigInt(place.bucketId), place.key);
}

export interface StoredSlice {
  stored: Stored;
  /** null: there is nothing more to count. */
  end: CountPlace | null;
  /** How much work it was: so many rows, and one more bucket. */
  rows: number;
}

/** To find a bucket, and that there is little in it, takes as long as reading so many rows. */
const rowsOfBucket = 20;

/**
 * What is stored from a place on, of about `max` rows at most, of each table its share, or of one
 * key where that has more.
 */
export async function countSlice(
  read: Reader,
  limited: LimitedAccount,
  { from, max }: { from: CountPlace; max: number },
): Promise<StoredSlice> {
  const place = await nextBucket(read, limited, from.bucketId);
  if (!place) return { stored: noneStored, end: null, rows: 0 };
  const range = rangeOf(limited);
  const begun = place.id === from.bucketId ? from.key : '';
  const first = compareText(begun, range.first) < 0 ? range.first : begun;
  const end = await findEnd(read, { id: place.id, first, behind: range.behind }, max);
  const counted = { ...place, first, behind: end ?? range.behind };
  const { rows, ...stored } = await countIn(read, limited, counted);
  const next =
    end === null ? { bucketId: place.id + 1, key: '' } : { bucketId: place.id, key: end };
  return { stored, end: next, rows: rows + rowsOfBucket };
}

/** What is stored, up to a place where it is given. */
export async function countStored(
  read: Reader,
  limited: LimitedAccount,
  before?: CountPlace,
): Promise<Stored> {
  let sum = noneStored;
  const { first, behind } = rangeOf(limited);
  for (let id = 0; ; ) {
    const place = await nextBucket(read, limited, id);
    if (!place || (before && place.id > before.bucketId)) return sum;
    const isLast = place.id === before?.bucketId;
    const isShorter = isLast && !(behind !== null && compareText(behind, before.key) < 0);
    const counted = { ...place, first, behind: isShorter ? before.key : behind };
    const { rows: _, ...stored } = await countIn(read, limited, counted);
    sum = sumOf(sum, stored);
    id = place.id + 1;
  }
}

export const noneStored: Stored = { storedBytes: 0, storedObjects: 0 };

export function sumOf(one: Stored, other: Stored): Stored {
  return {
    storedBytes: one.storedBytes + other.storedBytes,
    storedObjects: one.storedObjects + other.storedObjects,
  };
}

interface Place {
  id: number;
  tenant: string;
}

/** Keys from one on, and before another; null: all. */
interface Range {
  first: string;
  behind: string | null;
}

function rangeOf(limited: LimitedAccount): Range {
  if (limited.kind === 'writer') return { first: '', behind: null };
  return { first: limited.prefix, behind: textSuccessor(limited.prefix) };
}

/** The first bucket with this id or a later one; there is more than one of a name over time. */
function nextBucket(
  read: Reader,
  { tenant, bucket }: LimitedAccount,
  fromId: number,
): Promise<Place | undefined> {
  const first = 'SELECT id, tenant FROM buckets WHERE id >= ?';
  if (bucket === null) return read.get<Place>(`${first} ORDER BY id LIMIT 1`, fromId);
  return read.get<Place>(`${first} AND tenant = ? AND name = ?`, fromId, tenant, bucket);
}

/** Rows as they are counted, in the order of keys: of uploads the parts, or one without any. */
const keyedRows = [
  ...Object.keys(countedRows),
  'uploads AS u LEFT JOIN parts AS p ON p.upload_id = u.id',
];
const keyed = [...Object.keys(countedRows), 'uploads'];
const inRange = 'bucket_id = ? AND key >= ? AND key < ?';
const endSql = `SELECT min(key) AS key FROM (${keyedRows
  .map(
    (rows) => `SELECT (SELECT key FROM ${rows} WHERE ${inRange} ORDER BY key LIMIT 1 OFFSET ?)
      AS key`,
  )
  .join(' UNION ALL ')})`;
const nextKeySql = `SELECT min(key) AS key FROM (${keyed
  .map(
    (table) => `SELECT min(key) AS key FROM ${table} WHERE bucket_id = ? AND key > ? AND key < ?`,
  )
  .join(' UNION ALL ')})`;

/** The key before which a slice ends; null: it goes to the end of the range. */
async function findEnd(
  read: Reader,
  { id, first, behind }: { id: number } & Range,
  max: number,
): Promise<string | null> {
  const bounds = [id, first, behindOf(behind)];
  const values = keyedRows.flatMap(() => [...bounds, Math.ceil(max / keyedRows.length)]);
  const { key } = (await read.get<{ key: string | null }>(endSql, ...values)) as EndRow;
  if (key === null || key !== first) return key;
  const others = keyed.flatMap(() => bounds);
  return ((await read.get<EndRow>(nextKeySql, ...others)) as EndRow).key;
}

type EndRow = { key: string | null };

/** A blob comes after all texts. */
function behindOf(behind: string | null): SqlValue {
  return behind ?? Buffer.alloc(0);
}

/** Sums over rows `v` of versions and over parts `p` of uploads `u`. */
function sumsOf(ofVersion: (row: string) => string, ofUpload: string): string {
  const isIn = (row: string) =>
    `${row}.bucket_id = place AND ${row}.key >= first AND ${row}.key < behind`;
  const sums = (objects: number, isMeant: string) =>
    `SELECT ifnull(sum(size) FILTER (WHERE ${isMeant}), 0) AS bytes,
       ${objects} * count(*) FILTER (WHERE ${isMeant}) AS objects, count(*) AS rows`;
  const versions = Object.entries(countedRows).map(([table, { when, objects }]) => {
    const isMeant = `${when.replaceAll('$', 'v')} AND ${ofVersion('v')}`;
    return `${sums(objects, isMeant)} FROM given, ${table} AS v WHERE ${isIn('v')}`;
  });
  const parts = `${sums(0, ofUpload)}
     FROM given, uploads AS u LEFT JOIN parts AS p ON p.upload_id = u.id WHERE ${isIn('u')}`;
  return `WITH given (place, first, behind, tenant, writer) AS (SELECT ?, ?, ?, ?, ?)
    ${[...versions, parts].join('\nUNION ALL ')}`;
}

const sumsUnder = sumsOf(() => 'TRUE', 'TRUE');
const sumsBy = sumsOf(
  (row) => `CASE
    WHEN instr(${row}.attributes, '"writer":"') > 0 AND ${namedWriter(row)} IS NOT NULL
    THEN ${namedWriter(row)} = writer
    ELSE tenant || '/' || ${row}.owner = writer END`,
  'u.initiator = writer',
);

async function countIn(
  read: Reader,
  limited: LimitedAccount,
  { id, tenant, first, behind }: Place & Range,
): Promise<Stored & { rows: number }> {
  const isBy = limited.kind === 'writer';
  const writer = isBy ? `${limited.writer.tenant}/${limited.writer.name}` : null;
  const values = [id, first, behindOf(behind), tenant, writer];
  const sums = await read.all<Sums>(isBy ? sumsBy : sumsUnder, ...values);
  const counted = { ...noneStored, rows: 0 };
  for (const { bytes, objects, rows } of sums) {
    counted.storedBytes += bytes;
    counted.storedObjects += objects;
    counted.rows += rows;
  }
  return counted;
}

interface Sums {
  bytes: number;
  objects: number;
  rows: number;
}
