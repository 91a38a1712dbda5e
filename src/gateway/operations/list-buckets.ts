// ListBuckets: of the requester's tenant those that it owns, or that a rule lets it list; a tenant's
// admins see all. Only those that the scope of a token touches.
import { setImmediate } from 'node:timers/promises';
import { type ListedBucket, listBuckets as readBuckets } from '../../catalog/buckets.ts';
import { s3Time } from '../../core/clock.ts';
import { invalidArgument } from '../../core/errors.ts';
import { principalId } from '../../core/principal.ts';
import type { Context, Reply } from '../context.ts';
import { touches } from '../delegated-rights.ts';
import { decodeToken, encodeToken, ownerElement, parseCount } from '../listing-xml.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';
import { parameter } from '../request.ts';

const bucketsMax = 10_000;
/** Buckets decided before others get their turn. */
const bucketsPerTurn = 200;

export const listBuckets: Operation = {
  name: 'ListBuckets',
  action: 's3:ListAllMyBuckets',
  resource: 'service',
  price: 'put',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { request, rooms } = context;
  const { tenant, name, id } = context.who.principal;
  const max = parseCount(request, 'max-buckets', bucketsMax);
  if (max < 1 || max > bucketsMax) {
    throw invalidArgument('max-buckets', String(max), 'max-buckets must be between 1 and 10000');
  }
  const token = parameter(request, 'continuation-token');
  const prefix = parameter(request, 'prefix') ?? '';
  const after = token === undefined ? '' : decodeToken(token).text;
  const found = await collect(context, { prefix, after, max: max + 1 });
  const buckets = found.slice(0, max);
  const last = buckets.at(-1);
  return xmlReply('ListAllMyBucketsResult', {
    Owner: ownerElement(id),
    Buckets: {
      Bucket: buckets.map((bucket) => ({
        Name: bucket.name,
        CreationDate: s3Time(bucket.createdMs),
        BucketRegion: rooms.region,
        Owner: bucket.owner === name ? undefined : ownerElement(principalId(tenant, bucket.owner)),
      })),
    },
    Prefix: prefix === '' ? undefined : prefix,
    ContinuationToken:
      found.length > max && last ? encodeToken({ kind: 'key', text: last.name }) : undefined,
  });
}

/** A tenant has no more than 10,000 buckets, so the search for a few has an end. */
async function collect(
  context: Context,
  { prefix, after, max }: { prefix: string; after: string; max: number },
): Promise<ListedBucket[]> {
  const { read } = context.rooms;
  const { tenant } = context.who.principal;
  const found: ListedBucket[] = [];
  let from = after;
  for (;;) {
    const rows = await readBuckets(read, { tenant, prefix, after: from, max: bucketsPerTurn });
    for (const row of rows) {
      if (!(await isShown(context, row))) continue;
      found.push(row);
      if (found.length === max) return found;
    }
    const last = rows.at(-1);
    if (!last || rows.length < bucketsPerTurn) return found;
    from = last.name;
    await setImmediate();
  }
}

async function isShown(context: Context, row: ListedBucket): Promise<boolean> {
  const { principal, delegation } = context.who;
  const { tenant, name } = row;
  if (delegation?.scope && !touches(delegation.scope, name)) return false;
  if (principal.role !== 'member' || row.owner === principal.name) return true;
  const { buckets } = context.rooms;
  const bucket = row.hasPolicy ? await buckets.find(tenant, name) : { ...row, policy: null };
  const place = { askedName: name, found: { tenant, name, bucket }, key: null, listPrefix: null };
  return context.mayReach({ action: 's3:ListBucket', ...place });
}
