// FindObjects: a page of the objects of a bucket that fit a query. A page gives no more objects
// than a listing shows, and what it looks at besides is bounded: each costs what a listing does.
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import type { ListedObject } from '../../catalog/listing.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import { asksForTags, type Facts } from '../../search/facts.ts';
import { type FoundPage, findObjects, lookedMax } from '../../search/find-objects.ts';
import { parseQuery } from '../../search/query.ts';
import type { Reply } from '../http/reply.ts';
import { administers } from '../native/rights.ts';
import { idOf } from '../s3/asked-version.ts';
import type { Operation } from '../s3/operation.ts';
import { checkKeyLength, parameter, type S3Request } from '../s3/request.ts';
import type { Reserved } from '../s3/stages.ts';
import type { FoundObject, FoundObjects } from './find-schema.ts';
import { readableBy, readsAll } from './readable.ts';

export const findObjectsIn: Operation<'listing'> = {
  name: 'FindObjects',
  action: 's3:ListBucket',
  resource: 'listing',
  price: 'put',
  run,
};

/** What a query string may have. */
const parameters: ReadonlySet<string> = new Set([
  ...['where', 'prefix', 'after', 'limit', 'form', 'explain'],
]);

async function run(context: Reserved<'listing'>): Promise<Reply> {
  const { request, asked, bucket, services } = context;
  for (const [name] of request.query) {
    // Presigned requests have their signature there.
    if (!parameters.has(name) && !name.toLowerCase().startsWith('x-amz-')) {
      throw refuse(name, `${name} is not known here`);
    }
  }
  const where = parameter(request, 'where');
  if (where === undefined) throw refuse('where', 'where is missing: what objects must fit');
  const query = parseQuery(where, steadyClock.nowMs());
  // What a mount does not show is not found by its name, nor does the index look for it.
  const within = asked.where;
  const isExplained = parameter(request, 'explain') === 'true';
  if (isExplained && !mayExplain(asked.who, bucket)) throw new Refusal('AccessDenied');
  const prefix = parameter(request, 'prefix') ?? '';
  checkKeyLength(prefix);
  const isTotal = parameter(request, 'form') === 'totals';
  // Before it is asked whether it fits: how many are looked at tells nothing of the others.
  const mayRead = readableBy(asked, asked, query, within);
  const withTags = asksForTags(query) || (within !== null && asksForTags(within));
  let bytes = 0;
  let objects = 0;
  const wanted = { query, within, prefix, after: readAfter(request), max: readLimit(request) };
  const page = await findObjects(
    services,
    bucket,
    {
      ...wanted,
      at: asked.at?.seq,
      mayRead,
      isBlind: !(await readsAll(asked, asked, query, within)),
    },
    (row, facts) => {
      bytes += row.sizeBytes;
      objects += 1;
      // Written here, where others have their turns, and not all at once.
      return isTotal ? '' : JSON.stringify(show(row, facts, withTags));
    },
  );
  const told = JSON.stringify({
    ...{ count: objects, bytes, looked: page.looked },
    next: page.through === null ? null : Buffer.from(page.through).toString('base64url'),
    ...(isExplained ? { plan: describe(page) } : {}),
  } satisfies Omit<FoundObjects, 'objects' | 'plan'>);
  const body = isTotal ? told : `{"objects":[${page.entries.join(',')}],${told.slice(1)}`;
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  return { status: 200, headers, body };
}

/**
 * How the index leads to objects depends on all of the bucket: so it is told to those alone who may
 * read all of it by what they are.
 */
function mayExplain({ principal, delegation }: Identity, { tenant, owner }: Bucket): boolean {
  if (delegation !== null) return false;
  return (
    administers(principal, tenant) || (principal.tenant === tenant && principal.name === owner)
  );
}

function show(row: ListedObject, facts: Facts, withTags: boolean): FoundObject {
  const { headers, metadata, tags = [], renamedMs } = facts.attributes;
  const shown: FoundObject = {
    key: row.key,
    size: row.sizeBytes,
    etag: row.etag,
    sha256: row.sha256 === null ? null : Buffer.from(row.sha256).toString('hex'),
    class: row.class,
    type: headers['content-type'] ?? null,
    modified: isoTime(renamedMs ?? row.createdMs),
    versionId: row.versionId === null ? null : idOf(row),
    index: row.seq,
    metadata,
  };
  if (withTags) shown.tags = Object.fromEntries(tags);
  return shown;
}

/** In words that need no knowledge of the index. */
function describe({ plan }: Pick<FoundPage<unknown>, 'plan'>): object {
  return plan ?? { any: null, all: [] };
}

/** Throws `Refusal` InvalidInput. */
function readAfter(request: S3Request): string | null {
  const token = parameter(request, 'after');
  if (token === undefined) return null;
  const bytes = Buffer.from(token, 'base64url');
  const key = bytes.toString('utf8');
  const isOurs = bytes.toString('base64url') === token && Buffer.from(key).equals(bytes);
  if (!isOurs) throw refuse('after', 'after must be the next of the page before');
  checkKeyLength(key);
  return key;
}

/** Throws `Refusal` InvalidInput. */
function readLimit(request: S3Request): number {
  const text = parameter(request, 'limit') ?? String(lookedMax);
  if (/^[1-9]\d{0,3}$/.test(text) && Number(text) <= lookedMax) return Number(text);
  throw refuse('limit', `limit must be 1 to ${lookedMax}`);
}

function refuse(name: string, message: string): Refusal {
  return new Refusal('InvalidInput', { message, fields: { field: `query.${name}` } });
}
