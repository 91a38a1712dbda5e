// What is charged by time, in SQLite. Amounts that 64 bits may not hold are text.
import type { Reader, SqlValue, Tx } from '../../core/database.ts';
import { pages } from '../../core/pages.ts';
import { UnsealedRow } from '../../core/seals/row-seal.ts';
import type { AccountMac, AccountMacs, MacForm } from '../leases/account-macs.ts';
import { type BookOrder, type Due, endOfDue, type StorageLevel } from './storage-level.ts';

export const storageSchema = `
CREATE TABLE quota_storage (       -- what is kept in buckets and charged by time
  tenant TEXT NOT NULL,            -- of the bucket
  bucket TEXT NOT NULL,
  class TEXT NOT NULL,
  billed_bytes INTEGER NOT NULL,   -- now: sum of versions.billed, and of parts' sizes
  at_ms INTEGER NOT NULL,          -- until when it has accrued
  charged_ms INTEGER NOT NULL,     -- when it was last charged
  due TEXT NOT NULL,               -- JSON: what accrued since, [book, since (ms), byte-ms] each
  epoch INTEGER,                   -- of the root key that the MAC is made under
  mac BLOB,                        -- of all this
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

/** The bucket and the class that a level belongs to. */
export interface Place {
  readonly tenant: string;
  readonly bucket: string;
  readonly class: string;
}

export interface OwnedPlace extends Place {
  readonly owner: string;
}

export interface UnchargedPlace extends OwnedPlace {
  /** The bucket's: where what is in a class of a tenant's own lies, that says. */
  readonly store: number;
}

interface Row {
  billedBytes: string;
  atMs: number;
  chargedMs: number;
  due: string;
  epoch: unknown;
  mac: unknown;
}

type Content = Pick<Row, 'atMs' | 'chargedMs' | 'due'> & { billedBytes: string | bigint };

export interface KeptLevel extends StorageLevel {
  chargedMs: number;
  /** The time that its row has; null: there is no row. */
  writtenMs: number | null;
  /** The MAC that its row has; undefined: it has none. */
  mac?: AccountMac | undefined;
}

const columns = `CAST(billed_bytes AS TEXT) AS billedBytes, at_ms AS atMs, charged_ms AS chargedMs,
  due, epoch, mac`;

/** MACs of levels, which are named `TENANT/BUCKET/CLASS`: no name has a slash. */
export const levelForm: MacForm = {
  purpose: 'bursar/level/v1',
  table: 'quota_storage',
  tenantOf: (name) => name.slice(0, name.indexOf('/')),
  scopeOf: (name) => {
    const [tenant = '', bucket = ''] = name.split('/');
    return { tenant, bucket };
  },
  describe: (name) => {
    const [tenant, bucket, of] = name.split('/');
    return `what bucket ${tenant}/${bucket} is charged for ${of}`;
  },
};

/** Throws UnsealedRow for a level that is not what was written. `macs`: null: it is trusted. */
export async function readLevel(
  read: Reader,
  place: Place,
  { order, macs }: { order: BookOrder; macs: AccountMacs | null },
): Promise<KeptLevel | undefined> {
  const { tenant, bucket, class: of } = place;
  const sql = `SELECT ${columns} FROM quota_storage WHERE tenant = ? AND bucket = ? AND class = ?`;
  const row = await read.get<Row>(sql, tenant, bucket, of);
  if (!row) return undefined;
  const mac = macs?.verify(nameOf(place), contentOf(row), row, levelForm);
  return { ...levelOf(row, order), mac };
}

/** Writes a level, or removes it where nothing is kept and nothing is due. */
export async function writeLevel(
  tx: Tx,
  place: Place,
  level: KeptLevel,
  macs: AccountMacs | null,
): Promise<void> {
  const { tenant, bucket, class: of } = place;
  const { billedBytes, atMs, chargedMs, due } = level;
  const at = 'tenant = ? AND bucket = ? AND class = ?';
  if (billedBytes === 0n && due.every(({ byteMs }) => byteMs === 0n)) {
    level.writtenMs = null;
    if (level.mac) macs?.forget(level.mac);
    level.mac = undefined;
    await tx.run(`DELETE FROM quota_storage WHERE ${at}`, tenant, bucket, of);
    return;
  }
  const text = JSON.stringify(due.map((one) => [one.book, one.sinceMs, String(one.byteMs)]));
  const content = contentOf({ billedBytes, atMs, chargedMs, due: text });
  level.mac = macs?.seal(nameOf(place), content, level.mac, levelForm);
  const { epoch = null, mac = null } = level.mac ?? {};
  if (level.writtenMs === chargedMs) {
    // Most writes change only these columns, which are not in the index.
    const set = 'billed_bytes = ?, at_ms = ?, due = ?, epoch = ?, mac = ?';
    const sql = `UPDATE quota_storage SET ${set} WHERE ${at}`;
    await tx.run(sql, billedBytes, atMs, text, epoch, mac, tenant, bucket, of);
    return;
  }
  level.writtenMs = chargedMs;
  const sql = 'INSERT OR REPLACE INTO quota_storage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)';
  await tx.run(sql, tenant, bucket, of, billedBytes, atMs, chargedMs, text, epoch, mac);
}

/**
 * Verifies each level; gives those that are not what was written. What there is of MACs is taken
 * into the digests.
 */
export async function verifyLevels(read: Reader, macs: AccountMacs): Promise<UnsealedRow[]> {
  const wrong: UnsealedRow[] = [];
  for await (const row of walkLevels(read)) {
    const [name, content] = [nameOf(row), contentOf(row)];
    macs.count(name, content, row, levelForm);
    try {
      macs.verify(name, content, row, levelForm);
    } catch (error) {
      if (!(error instanceof UnsealedRow)) throw error;
      wrong.push(error);
    }
  }
  return wrong;
}

/** Gives each level a MAC of what it is now, whatever it was before. */
export async function sealLevels(tx: Tx, macs: AccountMacs): Promise<void> {
  for await (const row of walkLevels(tx)) {
    const { epoch, mac } = macs.seal(nameOf(row), contentOf(row), undefined, levelForm);
    const at = 'tenant = ? AND bucket = ? AND class = ?';
    const sql = `UPDATE quota_storage SET epoch = ?, mac = ? WHERE ${at}`;
    await tx.run(sql, epoch, mac, row.tenant, row.bucket, row.class);
  }
}

async function* walkLevels(read: Reader): AsyncGenerator<Row & Place> {
  const order = 'tenant, bucket, class';
  const sql = `SELECT ${order}, ${columns} FROM quota_storage WHERE (${order}) > (?, ?, ?)
    ORDER BY ${order} LIMIT 1000`;
  for await (const rows of pages<Row & Place>((last) =>
    read.all(sql, last?.tenant ?? '', last?.bucket ?? '', last?.class ?? ''),
  )) {
    yield* rows;
  }
}

function nameOf({ tenant, bucket, class: of }: Place): string {
  return `${tenant}/${bucket}/${of}`;
}

/** The message of a level's MAC without its name: one text, since it is made with each PUT. */
function contentOf({ billedBytes, atMs, chargedMs, due }: Content): SqlValue[] {
  return [`${billedBytes} ${atMs} ${chargedMs} ${due}`];
}

/** Up to `max` levels that were last charged before `beforeMs`, the longest ago first. */
export function listUncharged(
  read: Reader,
  { beforeMs, max }: { beforeMs: number; max: number },
): Promise<UnchargedPlace[]> {
  return read.all<UnchargedPlace>(
    `SELECT s.tenant, s.bucket, s.class, b.owner, b.store
       FROM quota_storage AS s
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
): Promise<{ place: Place & { owner: string }; level: KeptLevel }[]> {
  const { tenant, owner = null, bucket = null } = of;
  const rows = await read.all<Row & Place & { owner: string }>(
    `SELECT s.tenant, s.bucket, s.class, b.owner, ${columns}
       FROM quota_storage AS s
       JOIN buckets AS b ON b.tenant = s.tenant AND b.name = s.bucket
       WHERE s.tenant = ? AND b.owner = ifnull(?, b.owner) AND s.bucket = ifnull(?, s.bucket)`,
    tenant,
    owner,
    bucket,
  );
  return rows.map((row) => ({ place: row, level: levelOf(row, order) }));
}

/** Returns what was charged for a class in a month, in byte-milliseconds. */
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

/** The market, class and month that a total belongs to. */
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
  // Each total that is read for a charge is written with it: where it is not what was written last,
  // the triggers of its seal have nothing be charged (core/seals/seal-triggers.ts).
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
