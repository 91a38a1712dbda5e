// What is charged by time, in SQLite. Amounts that 64 bits may not hold are text.
import type { Reader, Tx } from '../../core/database.ts';
import { type BookOrder, type Due, endOfDue, type StorageLevel } from './storage-level.ts';

export const storageSchema = `
CREATE TABLE quota_storage (       -- what is kept in buckets and charged by time
  tenant TEXT NOT NULL,            -- of the bucket
  bucket TEXT NOT NULL,
  class TEXT NOT NULL,
  billed_bytes INTEGER NOT NULL,   -- now: sum of versions.billed, and of parts' sizes
  at_ms INTEGER NOT NULL,          -- until when it has accrued
  charged_ms INTEGER NOT NULL,     -- when it was last charged
  due TEXT NOT NULL,               -- JSON: what accrued since then, [book, since (ms), byte-ms] each
  PRIMARY KEY (tenant, bucket, class)
) WITHOUT ROWID;
CREATE INDEX quota_storage_charged ON quota_storage (charged_ms);

CREATE TABLE quota_storage_totals ( -- what was charged in a month: what tiers of storage go by
  market TEXT NOT NULL,            -- provider/region
  class TEXT NOT NULL,
  month_ms INTEGER NOT NULL,       -- its begin
  byte_ms TEXT NOT NULL,
  PRIMARY KEY (market, class, month_ms)
) WITHOUT ROWID;
`;

/** What a level is of. */
export interface Place {
  readonly tenant: string;
  readonly bucket: string;
  readonly class: string;
}

/** With whose it is, and where its bytes lie. */
export interface OwnedPlace extends Place {
  readonly owner: string;
  readonly store: number;
}

interface Row {
  billedBytes: string;
  atMs: number;
  chargedMs: number;
  due: string;
}

export interface KeptLevel extends StorageLevel {
  chargedMs: number;
  /** The same as it is in its row; null: there is none. */
  writtenMs: number | null;
}

const columns =
  'CAST(billed_bytes AS TEXT) AS billedBytes, at_ms AS atMs, charged_ms AS chargedMs, due';

export async function readLevel(
  read: Reader,
  { tenant, bucket, class: of }: Place,
  order: BookOrder,
): Promise<KeptLevel | undefined> {
  const sql = `SELECT ${columns} FROM quota_storage WHERE tenant = ? AND bucket = ? AND class = ?`;
  const row = await read.get<Row>(sql, tenant, bucket, of);
  return row && levelOf(row, order);
}

/** Writes a level; one in which nothing is kept and nothing due is gone. */
export async function writeLevel(
  tx: Tx,
  { tenant, bucket, class: of }: Place,
  level: KeptLevel,
): Promise<void> {
  const { billedBytes, atMs, chargedMs, due } = level;
  const at = 'tenant = ? AND bucket = ? AND class = ?';
  if (billedBytes === 0n && due.every(({ byteMs }) => byteMs === 0n)) {
    level.writtenMs = null;
    await tx.run(`DELETE FROM quota_storage WHERE ${at}`, tenant, bucket, of);
    return;
  }
  const text = JSON.stringify(due.map((one) => [one.book, one.sinceMs, String(one.byteMs)]));
  if (level.writtenMs === chargedMs) {
    // Of most writes: the index has no part in it.
    const sql = `UPDATE quota_storage SET billed_bytes = ?, at_ms = ?, due = ? WHERE ${at}`;
    await tx.run(sql, billedBytes, atMs, text, tenant, bucket, of);
    return;
  }
  level.writtenMs = chargedMs;
  const sql = 'INSERT OR REPLACE INTO quota_storage VALUES (?, ?, ?, ?, ?, ?, ?)';
  await tx.run(sql, tenant, bucket, of, billedBytes, atMs, chargedMs, text);
}

/** Up to `max` levels that were last charged before `beforeMs`, the longest ago first. */
export function listUncharged(
  read: Reader,
  { beforeMs, max }: { beforeMs: number; max: number },
): Promise<OwnedPlace[]> {
  return read.all<OwnedPlace>(
    `SELECT s.tenant, s.bucket, s.class, b.owner, b.store FROM quota_storage AS s
       JOIN buckets AS b ON b.tenant = s.tenant AND b.name = s.bucket
       WHERE s.charged_ms < ? ORDER BY s.charged_ms LIMIT ?`,
    beforeMs,
    max,
  );
}

/** The classes in which a bucket has a level. */
export async function listClasses(read: Reader, tenant: string, bucket: string): Promise<string[]> {
  const sql = 'SELECT class FROM quota_storage WHERE tenant = ? AND bucket = ?';
  return (await read.all<{ class: string }>(sql, tenant, bucket)).map((row) => row.class);
}

/** The levels of a tenant's buckets, of one owner or one bucket only where that is given. */
export async function listLevels(
  read: Reader,
  of: { tenant: string; owner?: string | undefined; bucket?: string | undefined },
  order: BookOrder,
): Promise<{ place: OwnedPlace; level: KeptLevel }[]> {
  const { tenant, owner = null, bucket = null } = of;
  const rows = await read.all<Row & OwnedPlace>(
    `SELECT s.tenant, s.bucket, s.class, b.owner, b.store, ${columns} FROM quota_storage AS s
       JOIN buckets AS b ON b.tenant = s.tenant AND b.name = s.bucket
       WHERE s.tenant = ? AND b.owner = ifnull(?, b.owner) AND s.bucket = ifnull(?, s.bucket)`,
    tenant,
    owner,
    bucket,
  );
  return rows.map((row) => ({ place: row, level: levelOf(row, order) }));
}

/** What was charged of a class in a month, byte-milliseconds. */
export async function readTotal(
  read: Reader,
  { market, class: of, monthMs }: Total,
): Promise<bigint> {
  const row = await read.get<{ byteMs: string }>(
    `SELECT byte_ms AS byteMs FROM quota_storage_totals
       WHERE market = ? AND class = ? AND month_ms = ?`,
    market,
    of,
    monthMs,
  );
  return BigInt(row?.byteMs ?? 0);
}

/** What a total is of. */
export interface Total {
  readonly market: string;
  readonly class: string;
  readonly monthMs: number;
}

export async function writeTotal(
  tx: Tx,
  { market, class: of, monthMs }: Total,
  byteMs: bigint,
): Promise<void> {
  const sql = 'INSERT OR REPLACE INTO quota_storage_totals VALUES (?, ?, ?, ?)';
  await tx.run(sql, market, of, monthMs, String(byteMs));
}

function levelOf({ billedBytes, atMs, chargedMs, due: text }: Row, order: BookOrder): KeptLevel {
  const due = (JSON.parse(text) as [string, number, string][]).map(
    ([book, sinceMs, byteMs]): Due => ({ book, sinceMs, byteMs: BigInt(byteMs) }),
  );
  const dueEndMs = endOfDue(due[due.length - 1] as Due, order);
  const writtenMs = chargedMs;
  return { billedBytes: BigInt(billedBytes), atMs, chargedMs, writtenMs, due, dueEndMs };
}
