// Listing keys in the order of their UTF-8 bytes, with keys that share a prefix up to a delimiter
// folded into one entry (ListObjects, ListObjectsV2 and ListMultipartUploads of the S3 API
// reference). A folded prefix is passed by one seek, however many keys it holds.
import type { Reader } from '../core/database.ts';
import { compareText, textSuccessor } from '../core/text-order.ts';
import { listedColumns, type Version } from './versions.ts';

export type ListedObject = Omit<Version, 'bucketId' | 'manifest'>;

export interface ListedUpload {
  key: string;
  id: string;
  initiator: string;
  createdMs: number;
  class: string;
  attributes: string;
}

/** Where a listing goes on: after a key, or after all keys under a folded prefix. */
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

/** Current objects, as their rows say: `verifyListed` tells whether that is so. */
export async function listObjects(read: Reader, query: ListQuery): Promise<Listing<ListedObject>> {
  const { bucketId } = query;
  return foldKeys<ListedObject>(query, ({ from, exclusive }, below, max) =>
    read.all<ListedObject>(
      `SELECT ${listedColumns} FROM versions WHERE bucket_id = ? AND key ${exclusive ? '>' : '>='} ?
         ${below === null ? 'AND ? IS NULL' : 'AND key < ?'} AND superseded_seq IS NULL
         ORDER BY key LIMIT ?`,
      bucketId,
      from,
      below,
      max,
    ),
  );
}

/**
 * Unfinished uploads, by key and then id; `after.text` may be continued inside a key by `afterId`.
 */
export async function listUploads(
  read: Reader,
  query: ListQuery & { afterId: string | null },
): Promise<Listing<ListedUpload>> {
  const { bucketId, afterId } = query;
  const columns = 'key, id, initiator, created_ms AS createdMs, class, attributes';
  return foldKeys<ListedUpload>(query, ({ from, exclusive, tail }, below, max) =>
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
    ),
  );
}

const seekRows = 16;

async function foldKeys<T extends { key: string }>(
  query: ListQuery,
  fetch: Fetch<T>,
): Promise<Listing<T>> {
  const { prefix, delimiter, max } = query;
  const listing: Listing<T> = { entries: [], prefixes: [], next: null };
  const below = prefix === '' ? null : textSuccessor(prefix);
  let start = startOf<T>(query);
  if (start === null || max === 0) return listing;

  let last: Position | null = null;
  let batch = max + 1;
  for (;;) {
    const rows: T[] = await fetch(start, below, batch);
    let folded: string | null = null;
    for (const row of rows) {
      if (folded !== null && row.key.startsWith(folded)) continue;
      if (listing.entries.length + listing.prefixes.length === max) {
        listing.next = last;
        return listing;
      }
      const cut = delimiter === '' ? -1 : row.key.indexOf(delimiter, prefix.length);
      folded = cut < 0 ? null : row.key.slice(0, cut + delimiter.length);
      if (folded === null) {
        listing.entries.push(row);
        last = { kind: 'key', text: row.key };
      } else {
        listing.prefixes.push(folded);
        last = { kind: 'prefix', text: folded };
      }
    }
    const tail = rows.at(-1);
    if (rows.length < batch || !tail) return listing;
    if (folded === null) {
      start = { from: tail.key, exclusive: true, tail };
      batch = Math.min(batch * 2, max + 1);
    } else {
      const from = textSuccessor(folded);
      if (from === null) return listing;
      start = { from, exclusive: false, tail: null };
      batch = seekRows;
    }
  }
}

function startOf<T>(query: ListQuery): Start<T> | null {
  const { prefix, after } = query;
  const begin: Start<T> = { from: prefix, exclusive: false, tail: null };
  if (after === null) return begin;
  const from = after.kind === 'key' ? after.text : textSuccessor(after.text);
  if (from === null) return null;
  // A position before the prefix changes nothing: keys outside the prefix are not asked for.
  if (compareText(from, prefix) < 0) return begin;
  return { from, exclusive: after.kind === 'key', tail: null };
}
