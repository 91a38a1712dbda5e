// Versions that living snapshots, or a bucket's undelete window (undelete-window.ts), hold although
// they ended, and images of versions as they were before their tags or their lock changed. What a
// key was at a snapshot S is its version with the greatest `seq` up to S that had not ended at S;
// of its images the first that was made after S. Invariants: a version that a living snapshot has
// comes here when it ends, whoever ends it (version-rows.ts), and goes only when none has it any
// more; it keeps its extents, and counts as stored, for as long as it is here; `held_mac` binds it
// to its end, so that no row shows at another time than it should.
import type { Reader, SqlValue, Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { type BucketName, computeHeldMac, isAuthentic, verifyVersion } from './authentic.ts';
import { addReferences, dropReferences } from './extents.ts';
import type { BilledDelta, EndedObject, Moment, StorageDelta } from './outcome.ts';
import { heldByWindow } from './undelete-window.ts';
import type { OpenBucket } from './version-places.ts';
import type { FoundVersion } from './version-rows.ts';
import {
  type Catalog,
  countedBytes,
  currentColumns,
  noncurrentColumns,
  sharedColumns,
  type Version,
  type VersionWithBody,
} from './versions.ts';

/** What is said of a version besides where it is held. */
export interface HeldVersion extends Version {
  /** Of the record that ended or changed it, and when. */
  endedSeq: number;
  endedMs: number;
  /** 1: it was changed in place, and went on. */
  isImage: number;
  /** null: its row was not authentic when it ended. */
  heldMac: Uint8Array | null;
}

/**
 * Who holds a version which is about to end, or to change: the bucket's undelete window, or the
 * newest living snapshot that has it; null: nobody. `sinceSeq`: from which record on it has been as
 * it is.
 */
export async function findHolder(
  tx: Tx,
  { id, newestSnapshot, hasWindow }: Pick<OpenBucket, 'id' | 'newestSnapshot' | 'hasWindow'>,
  { key, sinceSeq }: { key: string; sinceSeq: number },
): Promise<number | null> {
  if (hasWindow) return heldByWindow;
  if (newestSnapshot === null || newestSnapshot < sinceSeq) return null;
  return findCovering(tx, id, { key, fromSeq: sinceSeq, beforeSeq: null });
}

async function findCovering(
  tx: Tx,
  bucketId: number,
  { key, fromSeq, beforeSeq }: { key: string; fromSeq: number; beforeSeq: number | null },
): Promise<number | null> {
  const found = await tx.get<{ seq: number }>(
    `SELECT seq FROM snapshots WHERE bucket_id = ? AND seq >= ? AND (? IS NULL OR seq < ?)
       AND state = 'living' AND substr(?, 1, length(prefix)) = prefix ORDER BY seq DESC LIMIT 1`,
    ...[bucketId, fromSeq, beforeSeq, beforeSeq, key],
  );
  return found?.seq ?? null;
}

/** Holds a version that ends: its row is to go from where it is. */
export async function holdEnded(
  tx: Tx,
  bucket: BucketName,
  version: FoundVersion,
  holder: number,
  moment: Moment,
): Promise<void> {
  await hold(tx, bucket, version, { holder, isImage: 0 }, moment);
}

/** Holds what a version is before it is changed in place, where somebody has it as it is. */
export async function holdImage(
  tx: Tx,
  bucket: OpenBucket,
  version: FoundVersion,
  moment: Moment,
): Promise<void> {
  if (bucket.newestSnapshot === null && !bucket.hasWindow) return;
  const { key, seq } = version;
  const row = await tx.get<{ seq: number | null }>(
    'SELECT max(ended_seq) AS seq FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ?',
    ...[bucket.id, key, seq],
  );
  const holder = await findHolder(tx, bucket, { key, sinceSeq: Math.max(seq, row?.seq ?? 0) });
  if (holder === null) return;
  await hold(tx, bucket, version, { holder, isImage: 1 }, moment);
  await addReferences(tx, version.manifest);
}

async function hold(
  tx: Tx,
  bucket: BucketName,
  version: FoundVersion,
  { holder, isImage }: { holder: number; isImage: number },
  { keyring, seq: endedSeq, timeMs: endedMs }: Moment,
): Promise<void> {
  const { bucketId, key, seq, supersededSeq, isDamaged } = version;
  const from =
    supersededSeq === null ? 'v.*, NULL, NULL FROM versions' : 'v.* FROM noncurrent_versions';
  const held = { ...version, endedSeq, endedMs, isImage };
  const mac = isDamaged ? null : computeHeldMac(keyring, bucket, held);
  const [columns, table] = from.split(' FROM ');
  await tx.run(
    `INSERT OR REPLACE INTO held_versions SELECT ${columns}, ?, ?, ?, ?, ?
       FROM ${table} AS v WHERE bucket_id = ? AND key = ? AND seq = ?`,
    ...[endedSeq, endedMs, isImage, mac, holder],
    ...[bucketId, key, seq],
  );
  await addToTotal(tx, { bucketId, holder }, { versions: 1, bytes: heldBytesOf(held, mac) });
}

/** What a held version counts for; an image shares what the version itself keeps. */
function heldBytesOf(
  { isImage, isMarker, sizeBytes }: Pick<HeldVersion, 'isImage' | 'isMarker' | 'sizeBytes'>,
  heldMac: Uint8Array | null,
): number {
  return isImage || isMarker || !heldMac ? 0 : countedBytes(sizeBytes);
}

async function addToTotal(
  tx: Tx,
  { bucketId, holder }: { bucketId: number; holder: number },
  { versions, bytes }: { versions: number; bytes: number },
): Promise<void> {
  await tx.run(
    `INSERT INTO held_totals VALUES (?, ?, ?, ?) ON CONFLICT (bucket_id, holder) DO UPDATE
       SET versions = versions + excluded.versions, bytes = bytes + excluded.bytes`,
    ...[bucketId, holder, versions, bytes],
  );
}

/** Takes all snapshots from a bucket, and ends what they and its undelete window held. */
export async function dropSnapshots(
  tx: Tx,
  bucket: BucketName,
  moment: Pick<Moment, 'keyring' | 'timeMs'>,
): Promise<Pick<StorageDelta, 'storedBytes' | 'billed'>> {
  const snapshots = await tx.all<{ seq: number }>(
    'SELECT seq FROM snapshots WHERE bucket_id = ?',
    bucket.id,
  );
  await tx.run('DELETE FROM snapshots WHERE bucket_id = ?', bucket.id);
  const billed: BilledDelta[] = [];
  let storedBytes = 0;
  for (const holder of [heldByWindow, ...snapshots.map(({ seq }) => seq)]) {
    for (;;) {
      const rows = await tx.all<HeldRow>(heldRowsSql, bucket.id, holder, everMs, rowsAtOnce);
      if (rows.length === 0) break;
      const released = await releaseRows(tx, { bucket, holder, rows }, moment);
      storedBytes += released.storedBytes;
      billed.push(...released.billed);
    }
  }
  await tx.run('DELETE FROM held_totals WHERE bucket_id = ?', bucket.id);
  return { storedBytes, billed };
}

const rowsAtOnce = 100;
const everMs = Number.MAX_SAFE_INTEGER;

/** What the versions that snapshots of a bucket hold count for. */
export async function readHeldTotal(
  read: Reader,
  bucketId: number,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT ifnull(sum(versions), 0) AS versions, ifnull(sum(bytes), 0) AS bytes
    FROM held_totals WHERE bucket_id = ?`;
  return (await read.get(sql, bucketId)) ?? { versions: 0, bytes: 0 };
}

/** The same of those that living snapshots hold of which all keys begin with `prefix`. */
export async function readHeldBelow(
  read: Reader,
  bucketId: number,
  prefix: string,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT ifnull(sum(t.versions), 0) AS versions, ifnull(sum(t.bytes), 0) AS bytes
    FROM snapshots AS s JOIN held_totals AS t ON t.bucket_id = s.bucket_id AND t.holder = s.seq
    WHERE s.bucket_id = ? AND s.state = 'living' AND substr(s.prefix, 1, length(?)) = ?`;
  return (await read.get(sql, bucketId, prefix, prefix)) ?? { versions: 0, bytes: 0 };
}

/** The same of those that one snapshot holds, or the undelete window. */
export async function readHeldBy(
  read: Reader,
  bucketId: number,
  holder: number,
): Promise<{ versions: number; bytes: number }> {
  const sql = 'SELECT versions, bytes FROM held_totals WHERE bucket_id = ? AND holder = ?';
  return (await read.get(sql, bucketId, holder)) ?? { versions: 0, bytes: 0 };
}

/** What snapshots and undelete windows hold for whom. */
export interface HeldShare {
  tenant: string;
  bucket: string;
  owner: string;
  bytes: number;
}

/** Of each bucket for which something is held; of one tenant, or of all. */
export async function listHeldShares(read: Reader, tenant: string | null): Promise<HeldShare[]> {
  return read.all<HeldShare>(
    // Few buckets hold anything: those are looked for that do.
    `SELECT b.tenant, b.name AS bucket, b.owner, sum(t.bytes) AS bytes
       FROM held_totals AS t CROSS JOIN main.buckets AS b ON b.id = t.bucket_id
       WHERE ? IS NULL OR b.tenant = ? GROUP BY t.bucket_id`,
    ...[tenant, tenant],
  );
}

// Reading as of a snapshot.

const notHeld = 'NULL AS endedSeq, NULL AS endedMs, 0 AS isImage, NULL AS heldMac';
/** Of `held_versions AS v`: what ended, ended as it says. */
const heldColumns = `${sharedColumns}, superseded_seq AS supersededSeq,
  superseded_ms AS supersededMs,
  NOT is_image AND NOT EXISTS(SELECT 1 FROM superseded AS s
    WHERE s.seq = v.seq AND s.by_seq = v.ended_seq) AS isStale,
  ended_seq AS endedSeq, ended_ms AS endedMs, is_image AS isImage, held_mac AS heldMac`;
const whole = 'bucket_id AS bucketId, manifest';
const inlineBody = '(SELECT body FROM extents WHERE id = substr(manifest, 1, 16)) AS inlineBody';

/**
 * The current version of a key, where it is what the key was: one seek more than to read it now.
 * Values: `[bucketId, key, at, at, at]`.
 */
function selectUnchanged(more: string): string {
  return `SELECT ${currentColumns}, ${notHeld}${more} FROM versions AS v
    WHERE bucket_id = ? AND key = ? AND seq <= ? AND NOT EXISTS(SELECT 1 FROM held_versions AS h
      WHERE h.bucket_id = v.bucket_id AND h.key = v.key AND h.seq <= ? AND h.ended_seq > ?)`;
}

/**
 * What each of the tables has of a key as of a snapshot: its newest version, or up to `?` versions.
 * One statement, since versions move between the tables while others read.
 */
function selectAt(more: string, condition: string, max: '1' | '?'): string {
  const of = (columns: string, table: string, then: string) =>
    `SELECT * FROM (SELECT ${columns}${more} FROM ${table} AS v
       WHERE bucket_id = ? AND key = ? AND seq <= ?${condition}${then} LIMIT ${max})`;
  // Of a version's images the first that was made after the snapshot is what it was.
  const held =
    max === '1'
      ? of(heldColumns, 'held_versions', ' AND ended_seq > ? ORDER BY seq DESC, ended_seq')
      : of(
          heldColumns.replace('ended_seq AS endedSeq', 'min(ended_seq) AS endedSeq'),
          ...(['held_versions', ' AND ended_seq > ? GROUP BY seq ORDER BY seq DESC'] as const),
        );
  return [
    of(`${currentColumns}, ${notHeld}`, 'versions', ''),
    of(`${noncurrentColumns}, ${notHeld}`, 'noncurrent_versions', ' ORDER BY seq DESC'),
    held,
  ].join(' UNION ALL ');
}

const body = `, ${whole}, ${inlineBody}`;
const unchangedSql = selectUnchanged(body);
const newestAtSql = selectAt(body, '', '1');
const namedAtSql = selectAt(body, ' AND version_id IS ?', '1');
const seqAtSql = selectAt('', ' AND version_id IS ?', '1');
const listedUnchangedSql = selectUnchanged('');
const listedAtSql = selectAt('', '', '1');
const versionsAtSql = `${selectAt('', '', '?')} ORDER BY seq DESC, endedSeq NULLS LAST`;

interface Asked {
  bucketId: number;
  key: string;
  at: number;
}

async function readUnchanged<R>(
  read: Reader,
  sql: string,
  { bucketId, key, at }: Asked,
): Promise<R | undefined> {
  return read.get<R>(sql, bucketId, key, at, at, at);
}

/** What of a version goes on is the last to be what it was: its images come first. */
async function readNewest<R extends Pick<HeldVersion, 'seq' | 'endedSeq'>>(
  read: Reader,
  sql: string,
  { bucketId, key, at }: Asked,
  id: SqlValue[] = [],
): Promise<R | undefined> {
  const place = [bucketId, key, at, ...id];
  const [first, ...others] = await read.all<R>(sql, ...place, ...place, ...place, at);
  return others.reduce((newest, row) => (isNewer(row, newest as R) ? row : newest), first);
}

function isNewer(
  one: Pick<HeldVersion, 'seq' | 'endedSeq'>,
  other: Pick<HeldVersion, 'seq' | 'endedSeq'>,
): boolean {
  if (one.seq !== other.seq) return one.seq > other.seq;
  return one.endedSeq !== null && (other.endedSeq === null || one.endedSeq < other.endedSeq);
}

/**
 * The version of a key, or the one of this name, as of a snapshot, which may be a delete marker;
 * with the sealed bytes of its first extent where those are inline. Throws IntegrityError when it
 * is not authentic.
 */
export async function findAt(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { key, versionId, at }: { key: string; versionId?: string | undefined; at: number },
): Promise<VersionWithBody | undefined> {
  type Found = VersionWithBody & HeldVersion;
  const asked = { bucketId: bucket.id, key, at };
  const found =
    versionId === undefined
      ? ((await readUnchanged<Found>(read, unchangedSql, asked)) ??
        (await readNewest<Found>(read, newestAtSql, asked)))
      : await readNewest<Found>(read, namedAtSql, asked, [versionId === 'null' ? null : versionId]);
  if (found) verifyVersion(keyring, bucket, found);
  return found;
}

/**
 * A version that ended and is held, by its number. Throws IntegrityError when it is not authentic.
 */
export async function findHeld(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { key, seq }: { key: string; seq: number },
): Promise<HeldVersion | undefined> {
  const found = await read.get<HeldVersion>(
    `SELECT ${heldColumns}, ${whole} FROM held_versions AS v
       WHERE bucket_id = ? AND key = ? AND seq = ? AND NOT is_image`,
    ...[bucket.id, key, seq],
  );
  if (found) verifyVersion(keyring, bucket, found);
  return found;
}

/** Whether anything of a bucket is held. */
export async function holdsAny(read: Reader, bucketId: number): Promise<boolean> {
  const sql = 'SELECT 1 FROM held_totals WHERE bucket_id = ? AND versions > 0 LIMIT 1';
  return (await read.get(sql, bucketId)) !== undefined;
}

/**
 * What of a key this change has ended, or changed, and is held, as the rows are. Of one that was
 * not authentic then, nothing is shown nor told.
 */
export async function listHeldBy(
  read: Reader,
  { bucketId, key, seq }: { bucketId: number; key: string; seq: number },
): Promise<HeldVersion[]> {
  return read.all<HeldVersion>(
    `SELECT ${heldColumns}, ${whole} FROM held_versions AS v
       WHERE bucket_id = ? AND key = ? AND ended_seq = ? AND held_mac IS NOT NULL`,
    ...[bucketId, key, seq],
  );
}

/**
 * The version that had this name when a change was made, as far as it ended or changed later and is
 * held: its end, and its images. `versionId` null: S3's `null` version.
 */
export async function listHeldSince(
  read: Reader,
  at: { bucketId: number; key: string; versionId: string | null; seq: number },
): Promise<HeldVersion[]> {
  const { bucketId, key, versionId, seq } = at;
  const select = `SELECT ${heldColumns}, ${whole} FROM held_versions AS v
    WHERE bucket_id = ? AND key = ? AND ended_seq > ? AND held_mac IS NOT NULL`;
  if (versionId !== null) {
    const sql = `${select} AND seq <= ? AND version_id = ?`;
    return read.all<HeldVersion>(sql, bucketId, key, seq, seq, versionId);
  }
  // A key may have had very many null versions since: of those made up to then, it is the newest.
  const newest = `SELECT seq FROM held_versions
    WHERE bucket_id = ? AND key = ? AND seq <= ? AND version_id IS NULL ORDER BY seq DESC LIMIT 1`;
  const sql = `${select} AND seq = (${newest})`;
  return read.all<HeldVersion>(sql, bucketId, key, seq, bucketId, key, seq);
}

/** Up to `max` of a bucket's held versions as their rows are, behind `after`. */
export async function listHeld(
  read: Reader,
  wanted: {
    bucketId: number;
    after: Pick<HeldVersion, 'key' | 'seq' | 'endedSeq'> | null;
    max: number;
  },
): Promise<HeldVersion[]> {
  const { bucketId, after, max } = wanted;
  const select = `SELECT ${heldColumns}, ${whole} FROM held_versions AS v
    WHERE held_mac IS NOT NULL AND bucket_id = ?`;
  if (after) {
    const { key, seq, endedSeq } = after;
    const rows = await read.all<HeldVersion>(
      `${select} AND key = ? AND seq <= ? AND (seq < ? OR ended_seq > ?)
         ORDER BY seq DESC, ended_seq LIMIT ?`,
      ...[bucketId, key, seq, seq, endedSeq, max],
    );
    if (rows.length > 0) return rows;
  }
  return read.all<HeldVersion>(
    `${select} AND key > ? ORDER BY key, seq DESC, ended_seq LIMIT ?`,
    ...[bucketId, after?.key ?? '', max],
  );
}

/** What listings show of a version as of a snapshot, as its row says. */
export type ListedAt = Omit<HeldVersion, 'bucketId' | 'manifest'>;

/** The newest version of a key as of a snapshot. */
export async function readListedAt(read: Reader, asked: Asked): Promise<ListedAt | undefined> {
  return (
    (await readUnchanged<ListedAt>(read, listedUnchangedSql, asked)) ??
    (await readNewest<ListedAt>(read, listedAtSql, asked))
  );
}

/** Up to `max` versions of a key as of a snapshot, from the newest down. */
export async function readVersionsAt(
  read: Reader,
  { bucketId, key, at, max }: Asked & { max: number },
  beforeSeq: number = Number.MAX_SAFE_INTEGER,
): Promise<ListedAt[]> {
  const upTo = Math.min(at, beforeSeq - 1);
  const place = [bucketId, key, upTo];
  const rows = await read.all<ListedAt>(
    versionsAtSql,
    ...[...place, max, ...place, max, ...place, at, max],
  );
  return rows.filter(({ seq }, i) => rows[i - 1]?.seq !== seq).slice(0, max);
}

/** `seq` of the version of this name as of a snapshot, as its row says. */
export async function findSeqAt(
  read: Reader,
  { id, ...asked }: Asked & { id: string | null },
): Promise<number | undefined> {
  return (await readNewest<ListedAt>(read, seqAtSql, asked, [id]))?.seq;
}

/** Up to `max` keys that have or had versions, in order, from `from` on or behind it. */
export async function listKeysEver(
  read: Reader,
  wanted: {
    bucketId: number;
    from: string;
    exclusive: boolean;
    below: string | null;
    max: number;
  },
): Promise<string[]> {
  const { bucketId, from, exclusive, below, max } = wanted;
  const bounds = [bucketId, from, below, below];
  const values = [...bounds, max, ...bounds, bucketId, below, below, max];
  const rows = await read.all<{ key: string }>(
    keysSql(exclusive),
    ...[...values, ...bounds, bucketId, below, below, max, max],
  );
  return rows.map(({ key }) => key);
}

/** Keys with many versions are passed by a seek for each key. */
function keysSql(exclusive: boolean): string {
  const beyond = `bucket_id = ? AND key ${exclusive ? '>' : '>='} ? AND (? IS NULL OR key < ?)`;
  const seeking = (table: string) =>
    `SELECT * FROM (WITH RECURSIVE k(key) AS (
         SELECT min(key) FROM ${table} WHERE ${beyond}
         UNION ALL SELECT (SELECT min(t.key) FROM ${table} AS t
           WHERE t.bucket_id = ? AND t.key > k.key AND (? IS NULL OR t.key < ?))
           FROM k WHERE k.key IS NOT NULL)
       SELECT key FROM k WHERE key IS NOT NULL LIMIT ?)`;
  return `SELECT * FROM (SELECT key FROM versions WHERE ${beyond} ORDER BY key LIMIT ?)
    UNION ${seeking('noncurrent_versions')} UNION ${seeking('held_versions')}
    ORDER BY key LIMIT ?`;
}

// Letting go of what a dying snapshot alone has held, or what an undelete window has passed.

/** A held row, whole. */
export type HeldRow = HeldVersion & { billedBytes: number };

const heldRowsSql = `SELECT ${heldColumns}, ${whole}, billed AS billedBytes
  FROM held_versions AS v WHERE bucket_id = ? AND holder = ? AND ended_ms <= ?
    ORDER BY ended_ms LIMIT ?`;

/**
 * Up to `max` of those of a key, or of all keys from it on and below `below`; null: of all behind
 * it. The oldest version of a key comes first, and its images last: as long as a later version is
 * there, no snapshot shows an older one, or other tags, in its place.
 */
export async function readHeldOf(
  read: Reader,
  wanted: {
    bucketId: number;
    from: string;
    below: string | null;
    isPrefix: boolean;
    max: number;
  },
): Promise<(HeldRow & { holder: number })[]> {
  const { bucketId, from, below, isPrefix, max } = wanted;
  const condition = isPrefix ? 'key >= ? AND (? IS NULL OR key < ?)' : 'key = ?';
  return read.all<HeldRow & { holder: number }>(
    `SELECT ${heldColumns}, ${whole}, billed AS billedBytes, holder FROM held_versions AS v
       WHERE bucket_id = ? AND ${condition}
       ORDER BY key DESC, seq, ended_seq DESC LIMIT ?`,
    ...[bucketId, from, ...(isPrefix ? [below, below] : []), max],
  );
}

/** Some 1,000 runs: a few milliseconds in which nobody else can commit. */
const releasedManifestBytesMax = 36 * 1024;

/** The first of these rows, as many as one transaction lets go of. */
export function releasableAtOnce<R extends HeldRow>(rows: readonly R[]): R[] {
  let manifestBytes = 0;
  const end = rows.findIndex(({ manifest }) => {
    manifestBytes += manifest.length;
    return manifestBytes > releasedManifestBytesMax;
  });
  return end < 0 ? [...rows] : rows.slice(0, end + 1);
}

/**
 * Takes up to `max` versions from a dying snapshot, or those that ended up to `untilMs` from an
 * undelete window: what an older snapshot has goes to that one; all others are given, for
 * `releaseHeld` to end. Empty, with nothing moved: it holds none of them any more.
 */
export async function takeHeld(
  tx: Tx,
  { bucket, holder, max, untilMs = everMs }: Taking,
  keyring: Keyring,
): Promise<{ released: HeldRow[]; moved: number }> {
  const released: HeldRow[] = [];
  let moved = 0;
  let manifestBytes = 0;
  for (const row of await tx.all<HeldRow>(heldRowsSql, bucket.id, holder, untilMs, max)) {
    const next = await findNextHolder(tx, bucket, row, keyring);
    if (next !== null) {
      await moveTo(tx, row, holder, next);
      moved++;
      continue;
    }
    released.push(row);
    manifestBytes += row.manifest.length;
    if (manifestBytes > releasedManifestBytesMax) break;
  }
  return { released, moved };
}

interface Taking {
  bucket: BucketName;
  holder: number;
  max: number;
  untilMs?: number;
}

/** Of a row that is not authentic nobody knows to which it belongs: any that lives keeps it. */
async function findNextHolder(
  tx: Tx,
  bucket: BucketName,
  row: HeldRow,
  keyring: Keyring,
): Promise<number | null> {
  const { bucketId, key, seq, endedSeq, isImage } = row;
  if (!isAuthentic(() => verifyVersion(keyring, bucket, row))) {
    const living = `SELECT max(seq) AS seq FROM snapshots WHERE bucket_id = ? AND state = 'living'`;
    return (await tx.get<{ seq: number | null }>(living, bucketId))?.seq ?? null;
  }
  if (!isImage) return findCovering(tx, bucketId, { key, fromSeq: seq, beforeSeq: endedSeq });
  // A snapshot before the image of before was made has that one.
  const before = await tx.get<{ seq: number | null }>(
    `SELECT max(ended_seq) AS seq FROM held_versions
       WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq < ?`,
    ...[bucketId, key, seq, endedSeq],
  );
  const fromSeq = Math.max(seq, before?.seq ?? 0);
  return findCovering(tx, bucketId, { key, fromSeq, beforeSeq: endedSeq });
}

async function moveTo(tx: Tx, row: HeldRow, from: number, to: number): Promise<void> {
  const { bucketId, key, seq, endedSeq } = row;
  await tx.run(
    `UPDATE held_versions SET holder = ?
       WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq = ?`,
    ...[to, bucketId, key, seq, endedSeq],
  );
  const bytes = heldBytesOf(row, row.heldMac);
  await addToTotal(tx, { bucketId, holder: from }, { versions: -1, bytes: -bytes });
  await addToTotal(tx, { bucketId, holder: to }, { versions: 1, bytes });
}

/** Ends versions that no snapshot has any more, and lets go of their bytes. */
export async function releaseRows(
  tx: Tx,
  { bucket, holder, rows }: { bucket: BucketName; holder: number; rows: readonly HeldRow[] },
  { keyring, timeMs }: Pick<Moment, 'keyring' | 'timeMs'>,
): Promise<StorageDelta> {
  const billed = new Map<string, number>();
  const released: EndedObject[] = [];
  let storedBytes = 0;
  for (const row of rows) {
    const { bucketId, key, seq, endedSeq, class: of, createdMs } = row;
    await tx.run(
      'DELETE FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq = ?',
      ...[bucketId, key, seq, endedSeq],
    );
    const bytes = heldBytesOf(row, row.heldMac);
    await addToTotal(tx, { bucketId, holder }, { versions: -1, bytes: -bytes });
    // The extents that a damaged row names may belong to other objects, so they are not released.
    if (isAuthentic(() => verifyVersion(keyring, bucket, row))) {
      await dropReferences(tx, row.manifest, timeMs);
    }
    if (!row.heldMac || row.isImage || row.isMarker) continue;
    const billedBytes = countedBytes(row.billedBytes);
    storedBytes -= bytes;
    billed.set(of, (billed.get(of) ?? 0) - billedBytes);
    released.push({ class: of, billedBytes, createdMs });
  }
  const deltas = [...billed].map(([storageClass, bytes]) => ({ class: storageClass, bytes }));
  return { storedBytes, storedObjects: 0, billed: deltas, ended: null, released };
}
