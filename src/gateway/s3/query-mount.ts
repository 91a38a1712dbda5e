// What may be done with the objects of a bucket that fit a query: a mount of a query is read and
// listed, and copied from. Invariants: reading it is reading the bucket, or the snapshot of it that
// the mount shows, so the rights to that are asked for; what does not fit is not there, as is what
// who asks may not read; and nothing is written by its name.

import type { ListedObject, Listing, Position } from '../../catalog/listing.ts';
import { Refusal } from '../../core/errors.ts';
import { textSuccessor } from '../../core/text-order.ts';
import { type Described, Facts, fits } from '../../search/facts.ts';
import { findObjects, lookedMax } from '../../search/find-objects.ts';
import { parseQuery } from '../../search/query.ts';
import { readableBy, readsAll } from '../find/readable.ts';
import type { AskedRequest } from './asked.ts';
import type { ListingParameters } from './buckets/listing-xml.ts';
import type { AnyOperation } from './operation.ts';
import { isRead, type S3Request } from './request.ts';
import type { Reserved } from './stages.ts';

/** What tells of more than the current version of each key. */
const ofVersions: ReadonlySet<string> = new Set([
  'ListObjectVersions',
  'ListMultipartUploads',
  'ListParts',
]);

/**
 * Throws `Refusal` MethodNotAllowed for what would change something, or tells of more than objects.
 */
export function checkReadsQuery(request: S3Request, { name }: AnyOperation): void {
  if (isRead(request) && !ofVersions.has(name)) return;
  const fields = { Method: request.method, ResourceType: 'QUERY' };
  throw new Refusal('MethodNotAllowed', { fields, headers: { allow: 'GET, HEAD' } });
}

/**
 * Is this version among what the name of its bucket stands for? Where that is no mount of a query,
 * it is. `place`: of the request's own bucket, or of the source of a copy.
 */
export async function isShown(
  asked: AskedRequest,
  place: Pick<AskedRequest, 'askedName' | 'found'>,
  version: Described,
): Promise<boolean> {
  const text = place.found?.where;
  if (text === undefined) return true;
  const where = parseQuery(text, asked.askedMs);
  return fits(where, new Facts(version)) && (await readableBy(asked, place, where)(version));
}

/**
 * A page of the objects that the mount shows. It looks at as many as a listing shows, so it may
 * have few entries, or none, and a next.
 */
export async function listShown<E>(
  { asked, bucket, services }: Reserved<'listing'>,
  { prefix, delimiter, max }: ListingParameters,
  after: Position | null,
  take: (row: ListedObject) => E,
): Promise<Listing<E>> {
  const { where, at } = asked;
  if (!where) throw new Error('a mount without a query');
  const listing: Listing<E> = { entries: [], prefixes: [], next: null };
  const within = at?.prefix ?? '';
  const from = after?.kind === 'prefix' ? textSuccessor(after.text) : null;
  const isPast = after?.kind === 'prefix' && from === null;
  const isApart = !prefix.startsWith(within) && !within.startsWith(prefix);
  if (max === 0 || isPast || isApart) return listing;
  let last: Position | null = null;
  const mayRead = readableBy(asked, asked, where);
  const page = await findObjects(
    services,
    bucket,
    {
      query: where,
      ...{ mayRead, isBlind: !(await readsAll(asked, asked, where)) },
      prefix: prefix.length > within.length ? prefix : within,
      after: after?.kind === 'key' ? after.text : null,
      from: from ?? '',
      ...{ max: Math.min(max, lookedMax), at: at?.seq },
    },
    (row) => {
      const cut = delimiter === '' ? -1 : row.key.indexOf(delimiter, prefix.length);
      const folded = cut < 0 ? null : row.key.slice(0, cut + delimiter.length);
      if (folded !== null && listing.prefixes.at(-1) === folded) return null;
      if (folded === null) listing.entries.push(take(row));
      else listing.prefixes.push(folded);
      last = folded === null ? { kind: 'key', text: row.key } : { kind: 'prefix', text: folded };
      return true;
    },
  );
  listing.next = positionOf(page.through, last);
  return listing;
}

/** Where the next page begins. A folded prefix is passed whole. */
function positionOf(through: string | null, last: Position | null): Position | null {
  if (through === null) return null;
  return last?.kind === 'prefix' && through.startsWith(last.text)
    ? last
    : { kind: 'key', text: through };
}
