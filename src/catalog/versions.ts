// Versions: immutable states of objects, and delete markers. The current one of each key is in
// `versions`; those before it, where the bucket keeps them, in `noncurrent_versions`; those that
// are gone, until their bytes are let go of, in `ended_versions`. What is read here was found
// authentic before it is given. Writing is version-changes.ts's.
import type { Acl } from '../core/acl.ts';
import type { CustomerSeal } from '../core/customer-key.ts';
import type { Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { macBytes } from '../core/hmac.ts';
import type { Keyring } from '../core/keyring.ts';
import { objectBytesMax } from '../core/limits.ts';
import { principalId } from '../core/principal.ts';
import { type BucketName, verifyListed, verifyVersion } from './authentic.ts';
import { manifestOf } from './long-manifests.ts';
import type { Retention } from './object-lock.ts';

export type ChecksumType = 'COMPOSITE' | 'FULL_OBJECT';

/** Everything about an object that its client gave, besides the bytes. Kept as JSON. */
export interface Attributes {
  /** System headers to give back: content-type, cache-control, content-encoding, … */
  headers: Record<string, string>;
  /** User metadata, names without `x-amz-meta-`. */
  metadata: Record<string, string>;
  checksum?: { algorithm: string; value: string; type: ChecksumType };
  /** Sizes of the parts of a multipart object, in order; a pair: as many parts of one size. */
  partBytes?: readonly PartBytes[];
  /** Their checksums, of the algorithm of the object's, joined and in base64. */
  partChecksums?: string;
  /** Names and values, in the order in which they came. */
  tags?: Tags;
  /** Of object lock (object-lock.ts). These and the tags are all that can change. */
  retention?: Retention;
  legalHold?: boolean;
  /** What others may; absent: nothing. It counts where the bucket allows lists. */
  acl?: Acl;
  /** It was written for `aws:kms`; absent: for AES256, if its bytes are encrypted. */
  encryption?: KmsEncryption;
  /** Its bytes were encrypted under a customer's key before they were stored. */
  customer?: CustomerSeal;
  /** When it came to its key by a rename; absent: when it was made. */
  renamedMs?: number;
  /** When a move brought it into its class; absent: it was made in it. */
  classedMs?: number;
  /** Who wrote it (`tenant/name`); absent: whoever owned the bucket then, its `owner`. */
  writer?: string;
  /** For a copy, who made it (`tenant/name`), and of what. */
  copied?: { by: string; tenant: string; bucket: string; bucketId: number; key: string };
}

/** Release 0.1.0 wrote a number for each part. */
export type PartBytes = number | readonly [sizeBytes: number, count: number];

export interface KmsEncryption {
  /** ARN of the key of AWS KMS that wraps the root key under which its bytes were encrypted. */
  kms: string;
  /** `BucketKeyEnabled` was asked for; absent: it was not. */
  bucketKey?: true;
}

export type Tags = readonly (readonly [string, string])[];

export interface Version {
  bucketId: number;
  key: string;
  seq: number;
  /** 32 hexadecimal digits; null: S3's `null` version. */
  versionId: string | null;
  /** 1: a delete marker. */
  isMarker: number;
  /** `seq` of what it became noncurrent by, and when; null of a current one. */
  supersededSeq: number | null;
  supersededMs: number | null;
  sizeBytes: number;
  etag: string;
  sha256: Uint8Array | null;
  class: string;
  owner: string;
  createdMs: number;
  manifest: Uint8Array;
  /** JSON of `Attributes`. */
  attributes: string;
  /** The epoch of the root key under which its MACs are made. */
  epoch: number;
  manifestMac: Uint8Array;
  rowMac: Uint8Array;
  /** 1 when the catalog knows that it ended, or that its place is another. */
  isStale: number;
}

/** Who wrote a version of a tenant's bucket, `tenant/name`. */
export function writerOf(
  tenant: string,
  { owner, attributes }: { owner: string; attributes: string },
): string {
  return (JSON.parse(attributes) as Attributes).writer ?? principalId(tenant, owner);
}

export type VersionWithBody = Version & { inlineBody: Uint8Array | null };

/** The size that a row says, for counters: a damaged one may say anything. */
export function countedBytes(sizeBytes: number): number {
  const isSize = Number.isSafeInteger(sizeBytes) && sizeBytes >= 0 && sizeBytes <= objectBytesMax;
  return isSize ? sizeBytes : 0;
}

/** The version that a write makes, without its place. */
export interface ObjectDraft {
  tenant: string;
  sizeBytes: number;
  etag: string;
  sha256: Uint8Array | null;
  class: string;
  owner: string;
  attributes: string;
  manifest: Uint8Array;
  epoch: number;
  /** From `sealObject`. */
  manifestMac: Uint8Array;
}

/** The columns that all tables of versions have, except the bucket and the manifest. */
const plainColumns = `key, seq, version_id AS versionId, is_marker AS isMarker,
  size AS sizeBytes, etag, class, owner, created_ms AS createdMs, attributes, epoch`;
export const sharedColumns = `${plainColumns}, sha256,
  manifest_mac AS manifestMac, row_mac AS rowMac`;

const hasEnded = 'EXISTS(SELECT 1 FROM superseded AS s WHERE s.seq = v.seq)';

/**
 * All but bucket and manifest of `versions AS v`. A row that is older than a kept one is not
 * current.
 */
export const currentColumns = currentBeside(sharedColumns);

/**
 * The same with its three BLOBs as one hexadecimal text, which takes half of the time where
 * thousands are read: most of it is the memory of each. Empty where one is null that must not be.
 */
export const packedColumns = currentBeside(
  `${plainColumns}, hex(manifest_mac || row_mac || coalesce(sha256, x'')) AS packed`,
);

function currentBeside(columns: string): string {
  return `${columns}, NULL AS supersededSeq, NULL AS supersededMs,
    ${hasEnded} OR EXISTS(SELECT 1 FROM noncurrent_versions AS n WHERE n.bucket_id = v.bucket_id
      AND n.key = v.key AND n.seq >= v.seq) AS isStale`;
}

/** A row of `packedColumns`. */
export type PackedVersion = Omit<
  Version,
  'bucketId' | 'manifest' | 'sha256' | 'manifestMac' | 'rowMac'
> & { packed: string };

/** Throws IntegrityError for what cannot be unpacked, and so is not authentic. */
export function unpackVersion(row: PackedVersion): Omit<Version, 'bucketId' | 'manifest'> {
  const packed = Buffer.from(row.packed, 'hex');
  if (packed.length < 2 * macBytes) {
    throw new IntegrityError(`version ${row.seq} is not authentic`);
  }
  const unpacked = row as PackedVersion & Omit<Version, 'bucketId' | 'manifest'>;
  unpacked.manifestMac = packed.subarray(0, macBytes);
  unpacked.rowMac = packed.subarray(macBytes, 2 * macBytes);
  unpacked.sha256 = packed.length === 2 * macBytes ? null : packed.subarray(2 * macBytes);
  return unpacked;
}

/** The same of `noncurrent_versions AS v`: there is a newer one, which is current. */
export const noncurrentColumns = `${sharedColumns}, superseded_seq AS supersededSeq,
  superseded_ms AS supersededMs,
  ${hasEnded} OR NOT EXISTS(SELECT 1 FROM versions AS c WHERE c.bucket_id = v.bucket_id
    AND c.key = v.key AND c.seq > v.seq) AS isStale`;

/** The same of `ended_versions AS v`. */
export const endedColumns = `${sharedColumns}, superseded_seq AS supersededSeq,
  superseded_ms AS supersededMs, NOT ${hasEnded} AS isStale`;

/** Of a table `AS v`: what listings do not read. */
export const wholeColumns = `bucket_id AS bucketId, ${manifestOf('v')}`;
const stored = `${wholeColumns}, billed AS billedBytes`;

/** With what it counts for where storage is charged, which no MAC covers. */
export type StoredVersion = Version & { billedBytes: number };

/** What is needed to read from the catalog and to verify what was read. */
export interface Catalog {
  read: Reader;
  keyring: Keyring;
}

/** A version as S3 names it: `null`, or its id; undefined: the newest. */
export interface VersionName {
  key: string;
  versionId?: string | undefined;
}

/** The current version of a key, unless that is a marker. Throws IntegrityError: not authentic. */
export async function findCurrent(
  catalog: Catalog,
  bucket: BucketName,
  key: string,
): Promise<Version | undefined> {
  const newest = await findNamed(catalog, bucket, { key });
  return newest?.isMarker ? undefined : newest;
}

/**
 * The version of this name, which may be a delete marker. Throws IntegrityError when its row is not
 * authentic.
 */
export async function findNamed(
  { read, keyring }: Catalog,
  bucket: BucketName,
  name: VersionName,
): Promise<Version | undefined> {
  const version = await readNamed(read, bucket.id, name);
  if (version) verifyVersion(keyring, bucket, version);
  return version;
}

/** What was found for who may not know whether there is anything: `findNamedEvenly`. */
export interface EvenlyFound {
  version: Version | undefined;
  /** Its tags; none of one that is not there. */
  tags: Tags;
}

/**
 * The same, for who may not know whether it is there: one that is there and one that is not are
 * both a look-up that finds something and one that finds nothing, and what was found is verified.
 * So the time tells of a version no more than how much larger its row is than that of another one
 * in the bucket.
 */
export async function findNamedEvenly(
  { read, keyring }: Catalog,
  bucket: BucketName,
  name: VersionName,
): Promise<EvenlyFound> {
  const standIn = standIns.get(bucket) ?? (await chooseStandIn(read, bucket));
  const asked = await readNamed(read, bucket.id, name);
  const { key, versionId } = asked || !standIn ? noVersion : standIn;
  const isNamed = name.versionId !== undefined;
  const other = await readNamed(read, bucket.id, isNamed ? { key, versionId } : { key });
  const row = asked ?? other;
  if (!row) {
    standIns.delete(bucket);
    return { version: undefined, tags: [] };
  }
  try {
    verifyVersion(keyring, bucket, row);
  } catch (error) {
    // Whether the other version is authentic matters to another request only.
    if (asked) throw error;
  }
  const { tags = [] } = JSON.parse(row.attributes) as Attributes;
  return asked ? { version: asked, tags } : { version: undefined, tags: [] };
}

/** No key is empty. */
const noVersion: VersionName = { key: '', versionId: 'null' };

/** Of a bucket as it is kept in memory, a version that was there. */
const standIns = new WeakMap<BucketName, VersionName>();

async function chooseStandIn(read: Reader, bucket: BucketName): Promise<VersionName | undefined> {
  const sql = `SELECT key, version_id AS versionId FROM versions
    WHERE bucket_id = ? AND NOT is_marker LIMIT 1`;
  const found = await read.get<{ key: string; versionId: string | null }>(sql, bucket.id);
  const standIn = found && { key: found.key, versionId: found.versionId ?? nullVersion };
  if (standIn) standIns.set(bucket, standIn);
  return standIn;
}

/** The same, with the sealed bytes of its first extent where those are inline. */
export async function findNamedWithBody(
  { read, keyring }: Catalog,
  bucket: BucketName,
  name: VersionName,
): Promise<VersionWithBody | undefined> {
  const version = await readNamedWithBody(read, bucket.id, name);
  if (version) verifyVersion(keyring, bucket, version);
  return version;
}

/** The row of this name, as it is. */
export function readNamed(
  read: Reader,
  bucketId: number,
  { key, versionId }: VersionName,
): Promise<StoredVersion | undefined> {
  if (versionId === undefined) return read.get<StoredVersion>(newestSql, bucketId, key);
  const at = [bucketId, key, idOf(versionId)];
  return read.get<StoredVersion>(namedSql, ...at, ...at);
}

function readNamedWithBody(
  read: Reader,
  bucketId: number,
  { key, versionId }: VersionName,
): Promise<VersionWithBody | undefined> {
  if (versionId === undefined) return read.get<VersionWithBody>(newestWithBodySql, bucketId, key);
  const at = [bucketId, key, idOf(versionId)];
  return read.get<VersionWithBody>(namedWithBodySql, ...at, ...at);
}

/** SQLite would rather read all versions of the key. */
export const noncurrentById = 'noncurrent_versions AS v INDEXED BY noncurrent_by_id';
/** Of a table `AS v`: the sealed bytes of the first extent, where those are inline. */
export const inlineBody = `(SELECT body FROM extents WHERE id = substr(v.manifest, 1, 16))
  AS inlineBody`;
const newestSql = selectNewest(stored);
const newestWithBodySql = selectNewest(`${wholeColumns}, ${inlineBody}`);
const namedSql = selectNamed(stored);
const namedWithBodySql = selectNamed(`${wholeColumns}, ${inlineBody}`);
const numberedSql = selectAt('seq = ?', stored, 'noncurrent_versions AS v');

function selectNewest(more: string): string {
  return `SELECT ${currentColumns}, ${more} FROM versions AS v WHERE bucket_id = ? AND key = ?`;
}

function selectNamed(more: string): string {
  return selectAt('version_id IS ?', more, noncurrentById);
}

/** One statement: versions move between the two tables while others read. */
function selectAt(condition: string, more: string, noncurrent: string): string {
  const at = `WHERE bucket_id = ? AND key = ? AND ${condition}`;
  return `SELECT ${currentColumns}, ${more} FROM versions AS v ${at}
    UNION ALL SELECT ${noncurrentColumns}, ${more} FROM ${noncurrent} ${at} LIMIT 1`;
}

/** All of a version but its manifest, which can be large. */
export type VersionHead = Omit<StoredVersion, 'manifest'>;

/** The current version of a key as its row is, which may be a marker. */
export function readHead(
  read: Reader,
  bucketId: number,
  key: string,
): Promise<VersionHead | undefined> {
  return read.get<VersionHead>(headSql, bucketId, key);
}

const headSql = selectNewest('bucket_id AS bucketId, billed AS billedBytes');

/** The same, found authentic. Throws IntegrityError when it is not. */
export async function findHead(
  { read, keyring }: Catalog,
  bucket: BucketName,
  key: string,
): Promise<VersionHead | undefined> {
  const head = await readHead(read, bucket.id, key);
  if (head) verifyListed(keyring, bucket, head);
  return head;
}

/** When a version came to its key: when it was made, or renamed to it. */
export function placedMs({
  createdMs,
  attributes,
}: Pick<Version, 'createdMs' | 'attributes'>): number {
  const { renamedMs } = JSON.parse(attributes) as Attributes;
  return renamedMs ?? createdMs;
}

/** When a version came into its class, from when on the minimum time of that counts. */
export function classedSinceMs({
  createdMs,
  attributes,
}: Pick<Version, 'createdMs' | 'attributes'>): number {
  const { classedMs } = JSON.parse(attributes) as Attributes;
  return classedMs ?? createdMs;
}

/** The newest noncurrent version of a key, as its row says. */
export async function findNewestNoncurrent(
  read: Reader,
  bucketId: number,
  key: string,
): Promise<StoredVersion | undefined> {
  return read.get<StoredVersion>(
    `SELECT ${noncurrentColumns}, ${stored} FROM noncurrent_versions AS v
       WHERE bucket_id = ? AND key = ? ORDER BY seq DESC LIMIT 1`,
    bucketId,
    key,
  );
}

const nullVersion = 'null';

/** Returns the catalog's form of a version id of S3. */
function idOf(versionId: string | undefined): string | null {
  return versionId === undefined || versionId === nullVersion ? null : versionId;
}

/**
 * A version by its number, current or kept. Throws IntegrityError when its row is not authentic, or
 * is where it cannot be.
 */
export async function findVersion(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { key, seq }: { key: string; seq: number },
): Promise<Version | undefined> {
  const version = await readNumbered(read, bucket.id, { key, seq });
  if (version) verifyVersion(keyring, bucket, version);
  return version;
}

/** The same, as its row is. */
export function readNumbered(
  read: Reader,
  bucketId: number,
  { key, seq }: { key: string; seq: number },
): Promise<StoredVersion | undefined> {
  const at = [bucketId, key, seq];
  return read.get<StoredVersion>(numberedSql, ...at, ...at);
}

/**
 * Whether the extents of a version that was read are still held: it is there, a snapshot has it, or
 * it just ended.
 */
export async function holdsExtents(
  read: Reader,
  { bucketId, key, seq }: { bucketId: number; key: string; seq: number },
): Promise<boolean> {
  const row = await read.get(
    `SELECT 1 FROM versions WHERE bucket_id = ? AND key = ? AND seq = ?
       UNION ALL SELECT 1 FROM noncurrent_versions WHERE bucket_id = ? AND key = ? AND seq = ?
       UNION ALL SELECT 1 FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ?
       UNION ALL SELECT 1 FROM ended_versions WHERE seq = ? AND bucket_id = ? AND key = ? LIMIT 1`,
    ...[bucketId, key, seq],
    ...[bucketId, key, seq],
    ...[bucketId, key, seq],
    ...[seq, bucketId, key],
  );
  return row !== undefined;
}
