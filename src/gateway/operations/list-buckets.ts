// ListBuckets: a principal's own buckets; a tenant's admins see all of the tenant's.
import { listBuckets as readBuckets } from '../../catalog/buckets.ts';
import { s3Time } from '../../core/clock.ts';
import { invalidArgument } from '../../core/errors.ts';
import { principalId } from '../../core/principal.ts';
import type { Context, Reply } from '../context.ts';
import { decodeToken, encodeToken, ownerElement, parseCount } from '../listing-xml.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';
import { parameter } from '../request.ts';

const bucketsMax = 10_000;

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
  const { tenant, name, role, id } = context.who.principal;
  const max = parseCount(request, 'max-buckets', bucketsMax);
  if (max < 1 || max > bucketsMax) {
    throw invalidArgument('max-buckets', String(max), 'max-buckets must be between 1 and 10000');
  }
  const token = parameter(request, 'continuation-token');
  const prefix = parameter(request, 'prefix') ?? '';
  const found = await readBuckets(rooms.read, {
    tenant,
    owner: role === 'member' ? name : null,
    prefix,
    after: token === undefined ? '' : decodeToken(token).text,
    max: max + 1,
  });
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
