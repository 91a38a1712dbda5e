// ListBuckets: of the requester's tenant the buckets that it owns; those, and those that are
// mounted in it or that a grant names there, which a rule lets it list; a tenant's admins see all
// of the tenant's. With a token, only those that its scope touches.

import { type ListedBucket, listBuckets as readBuckets } from '../../../catalog/buckets.ts';
import { s3Time } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { Pace } from '../../../core/pace.ts';
import { principalId } from '../../../core/principal.ts';
import { compareText } from '../../../core/text-order.ts';
import type { Mount } from '../../../state/mount-book.ts';
import { largeXmlReply, type Reply } from '../../http/reply.ts';
import { findMounted, type NamedBucket, namesOfBucket } from '../bucket-lookup.ts';
import {
  bucketArn,
  decodeToken,
  encodeToken,
  ownerElement,
  parseCount,
} from '../buckets/listing-xml.ts';
import { touches } from '../delegated-rights.ts';
import type { Operation } from '../operation.ts';
import { parameter } from '../request.ts';
import type { Reserved } from '../stages.ts';

const bucketsMax = 10_000;
/** Buckets read at once. */
const bucketsPerRead = 200;

export const listBuckets: Operation<'service'> = {
  name: 'ListBuckets',
  action: 's3:ListAllMyBuckets',
  resource: 'service',
  price: 'put',
  run,
};

async function run(context: Reserved<'service'>): Promise<Reply> {
  const { request, services } = context;
  const { id } = context.who.principal;
  const max = parseCount(request, 'max-buckets', bucketsMax);
  if (max < 1 || max > bucketsMax) {
    throw invalidArgument('max-buckets', String(max), 'max-buckets must be between 1 and 10000');
  }
  const token = parameter(request, 'continuation-token');
  const prefix = parameter(request, 'prefix') ?? '';
  const after = token ? decodeToken(token).text : '';
  // All buckets are in the gateway's region: who asks for another's gets none.
  const region = parameter(request, 'bucket-region') ?? services.region;
  const isHere = region === services.region;
  if (!isHere && !regionsOfAws.has(region)) {
    const message = `Argument value ${region} is not a valid AWS Region`;
    throw new Refusal('InvalidArgument', { message, fields: { ArgumentName: 'bucket-region' } });
  }
  // As on S3, only who asks for a part of the list is told of each bucket where it is.
  const isPaged = request.query.some(([name]) => pagingParameters.has(name));
  const found = isHere ? await collect(context, { prefix, after, max: max + 1 }) : [];
  const buckets = found.slice(0, max);
  const last = buckets.at(-1);
  return largeXmlReply('ListAllMyBucketsResult', {
    Owner: ownerElement(id),
    Buckets: {
      Bucket: buckets.map((bucket) => ({
        Name: bucket.name,
        CreationDate: s3Time(bucket.createdMs),
        BucketRegion: isPaged ? services.region : undefined,
        BucketArn: bucketArn(bucket.name),
        Owner: bucket.owner === id ? undefined : ownerElement(bucket.owner),
      })),
    },
    Prefix: prefix === '' ? undefined : prefix,
    ContinuationToken:
      found.length > max && last ? encodeToken({ kind: 'key', text: last.name }) : undefined,
  });
}

/** Those that SDKs know: who misspells one must not take it for a region of no buckets. */
const regionsOfAws: ReadonlySet<string> = new Set([
  ...['af-south-1', 'ap-east-1', 'ap-east-2', 'ap-northeast-1', 'ap-northeast-2', 'ap-northeast-3'],
  ...['ap-south-1', 'ap-south-2', 'ap-southeast-1', 'ap-southeast-2', 'ap-southeast-3'],
  ...['ap-southeast-4', 'ap-southeast-5', 'ap-southeast-6', 'ap-southeast-7', 'ca-central-1'],
  ...['ca-west-1', 'cn-north-1', 'cn-northwest-1', 'eu-central-1', 'eu-central-2', 'eu-north-1'],
  ...['eu-south-1', 'eu-south-2', 'eu-west-1', 'eu-west-2', 'eu-west-3', 'eusc-de-east-1'],
  ...['eu-isoe-west-1', 'il-central-1', 'me-central-1', 'me-south-1', 'me-west-1', 'mx-central-1'],
  ...['sa-east-1', 'sa-west-1', 'us-east-1', 'us-east-2', 'us-gov-east-1', 'us-gov-west-1'],
  ...['us-iso-east-1', 'us-iso-west-1', 'us-isob-east-1', 'us-isob-west-1', 'us-isof-east-1'],
  ...['us-isof-south-1', 'us-west-1', 'us-west-2'],
]);

const pagingParameters: ReadonlySet<string> = new Set([
  ...['max-buckets', 'continuation-token', 'prefix', 'bucket-region'],
]);

interface Entry {
  name: string;
  createdMs: number;
  /** `tenant/name` */
  owner: string;
}

/** What can be shown: a bucket of the tenant, or another's that is mounted. */
type Candidate = { name: string } & ({ bucket: ListedBucket } | { mount: Mount });

/** A tenant has no more than 10,000 buckets, so the search for a few has an end. */
async function collect(
  context: Reserved<'service'>,
  { prefix, after, max }: { prefix: string; after: string; max: number },
): Promise<Entry[]> {
  const found: Entry[] = [];
  const pace = new Pace();
  let from = after;
  for (;;) {
    const candidates = await readCandidates(context, { prefix, after: from });
    for (const candidate of candidates) {
      const entry = await readEntry(context, candidate);
      await pace.rest();
      if (!entry) continue;
      found.push(entry);
      if (found.length === max) return found;
    }
    const last = candidates.at(-1);
    if (!last || candidates.length < bucketsPerRead) return found;
    from = last.name;
  }
}

/**
 * The next names, in their order. A bucket hides the tenant's mount of its name, and one of the
 * requester's own hides both.
 */
async function readCandidates(
  { services, who }: Reserved<'service'>,
  { prefix, after }: { prefix: string; after: string },
): Promise<Candidate[]> {
  const { tenant, id } = who.principal;
  const page = { after, limit: bucketsPerRead };
  const buckets = await readBuckets(services.read, { tenant, prefix, after, max: bucketsPerRead });
  const mounts = await services.mounts.list(tenant, page, prefix);
  const named = new Map<string, Candidate>();
  const isNext = ({ name }: Mount) => name.startsWith(prefix) && compareText(name, after) > 0;
  for (const alias of services.grants.aliases.list(tenant)) {
    const isFirst = services.grants.aliases.find(tenant, alias.name) === alias;
    if (isFirst && isNext(alias)) named.set(alias.name, { name: alias.name, mount: alias });
  }
  for (const mount of mounts) named.set(mount.name, { name: mount.name, mount });
  for (const bucket of buckets) named.set(bucket.name, { name: bucket.name, bucket });
  for (const mount of services.mounts.listOwn(id)) {
    if (isNext(mount)) named.set(mount.name, { name: mount.name, mount });
  }
  const candidates = [...named.values()];
  candidates.sort((a, b) => compareText(a.name, b.name));
  return candidates.slice(0, bucketsPerRead);
}

/** Undefined: it is not shown to who asks. */
async function readEntry(
  context: Reserved<'service'>,
  candidate: Candidate,
): Promise<Entry | undefined> {
  const { principal, delegation } = context.who;
  const found = await find(context, candidate);
  const { name } = candidate;
  const { tenant, bucket } = found;
  if (!bucket) return undefined;
  const entry = { name, createdMs: bucket.createdMs, owner: principalId(tenant, bucket.owner) };
  if (delegation?.scope) {
    const { scope } = delegation;
    const names = namesOfBucket(principal.tenant, name, found);
    if (!names.some((one) => touches(scope, one))) return undefined;
  }
  const isAdmin = principal.role !== 'member' && tenant === principal.tenant;
  if (isAdmin || entry.owner === principal.id) return entry;
  const place = { askedName: name, found, key: null, listPrefix: null };
  const action = found.at ? 's3:ListBucketVersions' : 's3:ListBucket';
  return (await context.asked.mayReach({ action, ...place })) ? entry : undefined;
}

/** What a candidate is. A policy is read only where there is one. */
async function find({ services }: Reserved<'service'>, candidate: Candidate): Promise<NamedBucket> {
  if ('mount' in candidate) return findMounted(services, candidate.mount);
  const { hasPolicy, ...row } = candidate.bucket;
  const { tenant, name } = row;
  const bucket = hasPolicy ? await services.buckets.find(tenant, name) : { ...row, policy: null };
  return { tenant, name, bucket };
}
