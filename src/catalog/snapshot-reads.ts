// Reading as of a snapshot, or of a moment in an undelete window: which version a key had then, and
// what a listing shows of it.
import type { Reader, SqlValue } from '../core/database.ts';
import { type BucketName, verifyVersion } from './authentic.ts';
import { type HeldVersion, heldColumns, newestNull } from './held-versions.ts';
import {
  type Catalog,
  currentColumns,
  inlineBody,
  noncurrentColumns,
  type VersionWithBody,
  wholeColumns,
} from './versions.ts';

const notHeld = 'NULL AS endedSeq, NULL AS endedMs, 0 AS isImage, NULL AS heldMac';

/**
 * The current version of a key, where it is what the key was: two seeks more than to read it now.
 * Values: `[bucketId, key, at, at, at, at, at]`.
 */
function selectUnchanged(more: string): string {
  return `SELECT ${currentColumns}, ${notHeld}${more} FROM versions AS v
    WHERE bucket_id = ? AND key = ? AND seq <= ?
      AND NOT EXISTS(SELECT 1 FROM held_versions AS h
        WHERE h.bucket_id = v.bucket_id AND h.key = v.key AND h.ended_seq > ?
          AND h.seq = ${newestNull('<= ?')})
      AND NOT EXISTS(SELECT 1 FROM held_versions AS h INDEXED BY held_by_end
        WHERE h.bucket_id = v.bucket_id AND h.key = v.key AND h.version_id IS NOT NULL
          AND h.seq <= ? AND h.ended_seq > ?)`;
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

const body = `, ${wholeColumns}, ${inlineBody}`;
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
  return read.get<R>(sql, bucketId, key, at, at, at, at, at);
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
