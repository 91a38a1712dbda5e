// Listing keys in the order of their UTF-8 bytes, with keys that share a prefix up to a delimiter
// folded into one entry (ListObjects, ListObjectsV2, ListObjectVersions and ListMultipartUploads of
// the S3 API reference). A folded prefix is passed by one seek, however many keys and versions it
// holds; only keys that are under a delete marker are passed one by one, where objects are listed.
// Invariant: attributes may be long, so rows are held a batch at a time, and what a page keeps of
// each is what the caller takes of it.
import type { Reader } from '../core/database.ts';
import { Pace } from '../core/pace.ts';
import { compareText, textSuccessor } from '../core/text-order.ts';
import { findSeqAt, listKeysEver, readListedAt, readVersionsAt } from './snapshot-reads.ts';
import {
  currentColumns,
  noncurrentById,
  noncurrentColumns,
  type PackedVersion,
  packedColumns,
  unpackVersion,
  type Version,
} from './versions.ts';

export type ListedObject = Omit<Version, 'bucketId' | 'manifest'>;

/** A key that had nothing then: it is passed as one that is deleted. */
type Passed = Pick<Version, 'key' | 'isMarker'>;

/** `isLatest`: 1 of the current one of its key. */
export type ListedVersion = ListedObject & { isLatest: number };

export interface ListedUpload {
  key: string;
  id: string;
  initiator: string;
  createdMs: number;
  class: string;
  attributes: string;
}

/**
 * The position from which a listing goes on: after a key, or after all keys under a folded prefix.
 */
export interface Position {
  kind: 'key' | 'prefix';
  text: string;
}

export interface ListQuery {
  bucketId: number;
  prefix: string;
  /** Empty: no folding. */
  delimiter: string;
  after: Position | null;
  /** Keys and folded prefixes together. */
  max: number;
  /** The log index of the snapshot as of which is listed; absent: now. */
  at?: number | undefined;
  /** The prefix of the keys that the snapshot is of; absent: all. */
  within?: string | undefined;
}

export interface Listing<T> {
  entries: T[];
  prefixes: string[];
  /** Set when there is more: the last entry given. */
  next: Position | null;
}

/**
 * Where a batch begins: at `from`, or behind it; `tail` is the row that the batch before ended
 * with.
 */
interface Start<T> {
  from: string;
  exclusive: boolean;
  tail: T | null;
}

/** Fetches up to `max` rows from `start` on with `key < below`, in order. */
type Fetch<T> = (start: Start<T>, below: string | null, max: number) => Promise<T[]>;

/**
 * What `take` makes of current objects, which it gets as their rows say: `verifyListed` tells
 * whether that is so. Throws IntegrityError for a row that cannot be so.
 */
export async function listObjects<E>(
  read: Reader,
  query: ListQuery,
  take: (row: ListedObject) => E,
): Promise<Listing<E>> {
  const { bucketId, at } = query;
  if (at !== undefined) {
    const fetchAt: Fetch<ListedObject | Passed> = async ({ from, exclusive }, below, max) => {
      const rows: (ListedObject | Passed)[] = [];
      for (const key of await listKeysEver(read, { bucketId, from, exclusive, below, max })) {
        rows.push((await readListedAt(read, { bucketId, key, at })) ?? { key, isMarker: 1 });
      }
      return rows;
    };
    return foldKeys(query, fetchAt, (row) => take(row as ListedObject));
  }
  const fetch: Fetch<PackedVersion> = ({ from, exclusive }, below, max) =>
    read.all<PackedVersion>(
      `SELECT ${packedColumns} FROM versions AS v
         WHERE bucket_id = ? AND key ${exclusive ? '>' : '>='} ?
         ${below === null ? 'AND ? IS NULL' : 'AND key < ?'} ORDER BY key LIMIT ?`,
      ...[bucketId, from, below, max],
    );
  return foldKeys(query, fetch, (row) => take(unpackVersion(row)));
}

/**
 * Up to `max` versions as of a snapshot: those of the key `from` that are older than `behind`, and
 * then of the keys beyond it.
 */
async function fetchVersionsAt(
  read: Reader,
  wanted: {
    bucketId: number;
    at: number;
    from: string;
    exclusive: boolean;
    behind: number;
    below: string | null;
    max: number;
  },
): Promise<ListedVersion[]> {
  const { bucketId, at, from, exclusive, behind, below, max } = wanted;
  const rows: ListedVersion[] = [];
  if (behind >= 0) {
    const older = await readVersionsAt(read, { bucketId, key: from, at, max }, behind);
    for (const row of older) rows.push({ ...row, isLatest: 0 });
  }
  const pace = new Pace();
  let start = { from, exclusive };
  while (rows.length < max) {
    const keys = await listKeysEver(read, { bucketId, ...start, below, max: seekRows });
    for (const key of keys) {
      const room = max - rows.length;
      if (room === 0) return rows;
      const all = await readVersionsAt(read, { bucketId, key, at, max: room });
      for (const [i, row] of all.entries()) rows.push({ ...row, isLatest: i === 0 ? 1 : 0 });
      start = { from: key, exclusive: true };
    }
    if (keys.length < seekRows) break;
    await pace.rest();
  }
  return rows;
}

/** Behind this version of a key, `null` or an id; null: behind all of them. */
export interface VersionPosition {
  key: string;
  versionId: string | null;
}

export interface VersionListing<E> extends Omit<Listing<E>, 'next'> {
  /** Set when there is more: the last entry given; of a folded prefix with it as its key. */
  next: VersionPosition | null;
}

/**
 * What `take` makes of all versions and markers, by key and from the newest down, which it gets as
 * their rows say: `verifyListed` tells whether that is so. `after` may be a folded prefix, which is
 * passed whole. Where the version that it names is gone, all of the key's come again.
 */
export async function listVersions<E>(
  read: Reader,
  query: VersionQuery,
  take: (row: ListedVersion) => E,
): Promise<VersionListing<E>> {
  const { bucketId, at } = query;
  const { after, afterSeq } = await findStart(read, query);
  const fetchNow: Fetch<ListedVersion> = async ({ from, exclusive, tail }, below, max) => {
    // A batch may begin in the middle of a key.
    const behind = exclusive ? (tail?.seq ?? afterSeq) : -1;
    const older = [bucketId, from, behind, max];
    const rows = behind < 0 ? [] : await read.all<ListedVersion>(ofKey, ...older, ...older, max);
    const rest = max - rows.length;
    if (rest === 0) return rows;
    const bounds = [bucketId, from, below, rest];
    const sql = versionsFrom(exclusive, below !== null);
    rows.push(...(await read.all<ListedVersion>(sql, ...bounds, ...bounds, rest)));
    return rows;
  };
  const fetchAt: Fetch<ListedVersion> = ({ from, exclusive, tail }, below, max) => {
    const behind = exclusive ? (tail?.seq ?? afterSeq) : -1;
    return fetchVersionsAt(read, { bucketId, at: at ?? 0, from, exclusive, behind, below, max });
  };
  const fetch = at === undefined ? fetchNow : fetchAt;
  let versionId = 'null';
  const { next, ...listing } = await foldKeys(
    { ...query, after, keepsMarkers: true },
    fetch,
    (row) => {
      versionId = row.versionId ?? 'null';
      return take(row);
    },
  );
  if (next?.kind !== 'key') {
    return { ...listing, next: next && { key: next.text, versionId: null } };
  }
  return { ...listing, next: { key: next.text, versionId } };
}

export type VersionQuery = Omit<ListQuery, 'after'> & { after: VersionPosition | null };

/** Above the `seq` of every version. */
const everySeq = Number.MAX_SAFE_INTEGER;

/** Each table is read no further than the page may go. */
function eachTable(where: string): string {
  const [current, noncurrent] = [
    `SELECT ${currentColumns}, 1 AS isLatest FROM versions AS v`,
    `SELECT ${noncurrentColumns}, 0 AS isLatest FROM noncurrent_versions AS v`,
  ].map((select) => `SELECT * FROM (${select} WHERE ${where} ORDER BY key, seq DESC LIMIT ?)`);
  return `${current} UNION ALL ${noncurrent} ORDER BY key, seq DESC LIMIT ?`;
}

const ofKey = eachTable('bucket_id = ? AND key = ? AND seq < ?');

function versionsFrom(exclusive: boolean, hasEnd: boolean): string {
  const end = hasEnd ? 'key < ?' : '? IS NULL';
  return eachTable(`bucket_id = ? AND key ${exclusive ? '>' : '>='} ? AND ${end}`);
}

async function findStart(
  read: Reader,
  { bucketId, prefix, delimiter, after, at }: VersionQuery,
): Promise<{ after: Position | null; afterSeq: number }> {
  if (!after) return { after: null, afterSeq: -1 };
  const { key: text, versionId } = after;
  if (versionId === null) {
    const cut = delimiter === '' ? -1 : text.indexOf(delimiter, prefix.length);
    const isFolded = text.startsWith(prefix) && cut >= 0 && cut + delimiter.length === text.length;
    return { after: { kind: isFolded ? 'prefix' : 'key', text }, afterSeq: -1 };
  }
  const id = versionId === 'null' ? null : versionId;
  if (at !== undefined) {
    const seq = await findSeqAt(read, { bucketId, key: text, id, at });
    return { after: { kind: 'key', text }, afterSeq: seq ?? everySeq };
  }
  const row = await read.get<{ seq: number }>(
    `SELECT seq FROM versions WHERE bucket_id = ? AND key = ? AND version_id IS ?
       UNION ALL SELECT seq FROM ${noncurrentById}
         WHERE bucket_id = ? AND key = ? AND version_id IS ? LIMIT 1`,
    ...[bucketId, text, id, bucketId, text, id],
  );
  return { after: { kind: 'key', text }, afterSeq: row?.seq ?? everySeq };
}

/**
 * What `take` makes of unfinished uploads, by key and then id; `after.text` may be continued inside
 * a key by `afterId`.
 */
export async function listUploads<E>(
  read: Reader,
  query: ListQuery & { afterId: string | null },
  take: (row: ListedUpload) => E,
): Promise<Listing<E>> {
  const { bucketId, afterId } = query;
  const columns = 'key, id, initiator, created_ms AS createdMs, class, attributes';
  const fetch: Fetch<ListedUpload> = ({ from, exclusive, tail }, below, max) =>
    read.all<ListedUpload>(
      `SELECT ${columns} FROM uploads WHERE bucket_id = ? AND (key > ? OR (key = ? AND id > ?))
         AND (? IS NULL OR key < ?) AND completed IS NULL ORDER BY key, id LIMIT ?`,
      bucketId,
      from,
      from,
      // Ids are ASCII: nothing is before the empty text, nothing behind a tilde.
      exclusive ? (tail?.id ?? afterId ?? '~') : '',
      below,
      below,
      max,
    );
  return foldKeys(query, fetch, take);
}

const seekRows = 16;
/**
 * Each of these rows has at most some 430 KB: an object of 10,000 parts has attributes of that
 * length, half of them nonces where a customer's key encrypts it.
 */
const batchMax = 128;

async function foldKeys<T extends { key: string; isMarker?: number }, E>(
  query: ListQuery & { keepsMarkers?: true },
  fetch: Fetch<T>,
  take: (row: T) => E,
): Promise<Listing<E>> {
  const { prefix, delimiter, max } = query;
  const listing: Listing<E> = { entries: [], prefixes: [], next: null };
  const span = spanOf(query);
  if (span === null) return listing;
  const below = span === '' ? null : textSuccessor(span);
  let start = startOf<T>(query, span);
  if (start === null || max === 0) return listing;

  let last: Position | null = null;
  let batch = Math.min(max + 1, batchMax);
  const pace = new Pace();
  for (; ; await pace.rest()) {
    const rows: T[] = await fetch(start, below, batch);
    let folded: string | null = null;
    for (const row of rows) {
      if (row.isMarker && !query.keepsMarkers) continue;
      if (folded !== null && row.key.startsWith(folded)) continue;
      if (listing.entries.length + listing.prefixes.length === max) {
        listing.next = last;
        return listing;
      }
      const cut = delimiter === '' ? -1 : row.key.indexOf(delimiter, prefix.length);
      folded = cut < 0 ? null : row.key.slice(0, cut + delimiter.length);
      if (folded === null) {
        listing.entries.push(take(row));
        last = { kind: 'key', text: row.key };
      } else {
        listing.prefixes.push(folded);
        last = { kind: 'prefix', text: folded };
      }
      if (pace.isDue) await pace.wait();
    }
    const tail = rows.at(-1);
    if (rows.length < batch || !tail) return listing;
    if (folded === null) {
      start = { from: tail.key, exclusive: true, tail };
      batch = Math.min(batch * 2, batchMax);
    } else {
      const from = textSuccessor(folded);
      if (from === null) return listing;
      start = { from, exclusive: false, tail: null };
      batch = seekRows;
    }
  }
}

/** The longer of the two prefixes that all keys begin with; null: no key does with both. */
function spanOf({ prefix, within = '' }: ListQuery): string | null {
  if (prefix.startsWith(within)) return prefix;
  return within.startsWith(prefix) ? within : null;
}

function startOf<T>({ after }: ListQuery, span: string): Start<T> | null {
  const begin: Start<T> = { from: span, exclusive: false, tail: null };
  if (after === null) return begin;
  const from = after.kind === 'key' ? after.text : textSuccessor(after.text);
  if (from === null) return null;
  // A position before the prefix changes nothing: keys outside the prefix are not asked for.
  if (compareText(from, span) < 0) return begin;
  return { from, exclusive: after.kind === 'key', tail: null };
}
