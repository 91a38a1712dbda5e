// Native API: share links. Invariants: only who may read an object makes a link that opens it; the
// secret leaves the gateway once, in the URL of the answer that makes the link; and nobody but its
// maker and the administrators of its tenant sees or revokes a link.

import type { Identity } from '../../authz/identity.ts';
import type { Page } from '../../authz/paced-page.ts';
import {
  identityOf,
  isFolder,
  listShares,
  newShareToken,
  readShare,
  type Share,
} from '../../authz/shares.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { listObjects } from '../../catalog/listing.ts';
import { type Catalog, findCurrent } from '../../catalog/versions.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { keyBytesMax, shareSecondsMax } from '../../core/limits.ts';
import { principalId } from '../../core/principal.ts';
import { Access } from '../s3/access.ts';
import { lookUpBucket, type NamedBucket } from '../s3/bucket-lookup.ts';
import { checkKeyLength, parseRequest } from '../s3/request.ts';
import { shareUrl } from '../share/share-url.ts';
import { protectOthers } from './rights.ts';
import {
  type Call,
  listPage,
  type Outcome,
  param,
  placeOf,
  refuseDelegated,
  routeTable,
} from './route.ts';
import {
  answerObject,
  answerPage,
  closedObject,
  integer,
  integerOrNull,
  type Json,
  pageQuery,
  name as principalName,
  text,
  time,
  timeOrNull,
} from './schemas.ts';

const collection = '/_/v1/shares';
const downloadsMaxMax = 1_000_000_000;
/** The longest place in the listing: a tenant, a principal and an id, with slashes. */
const afterLengthMax = 200;
const secondsDefault = 7 * 24 * 3600;

const share = {
  id: { type: 'string' },
  principal: text('Who made it, and in whose name it is used.'),
  bucket: text('`TENANT:NAME`'),
  key: text('Of an object; of a folder, what all keys in it begin with.'),
  createdAt: time,
  expiresAt: time,
  downloads: integer('Each begun GET of an object, ranges too.'),
  downloadsMax: integerOrNull('null: no bound but the time.'),
  lastUsedAt: timeOrNull,
  state: { type: 'string', enum: ['valid', 'used up', 'expired', 'revoked'] },
} as const;

const wishSchema = closedObject(
  {
    bucket: text('As S3 requests name it.'),
    key: text('Of an object, or else of a folder; empty: all of the bucket.', {
      maxLength: keyBytesMax,
      default: '',
    }),
    expiresIn: integer('Seconds.', {
      minimum: 1,
      maximum: shareSecondsMax,
      default: secondsDefault,
    }),
    downloads: integerOrNull('As many as may be begun; null: any number.', {
      minimum: 1,
      maximum: downloadsMaxMax,
      default: null,
    }),
  },
  ['bucket'],
);
type Wish = Json<typeof wishSchema>;

export const shareRoutes = routeTable([
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreateShare',
    summary: 'Make a link by which anybody can read an object or a folder. Its URL is shown once.',
    status: 201,
    body: wishSchema,
    answer: answerObject({ ...share, url: { type: 'string' } }),
    run: async (call) => {
      refuseDelegated(call);
      const { deps, identity } = call;
      const { tenant, name } = call.who;
      const { id, token, secretHash } = newShareToken();
      const made = await planShare(call, id);
      const { bucketTenant, bucket, bucketId, key, expiresMs, downloadsMax } = made;
      return {
        change: {
          kind: 'addShare',
          ...{ id, tenant, principal: name, accessKeyId: identity.accessKeyId, secretHash },
          ...{ shared: { bucketTenant, bucket, bucketId, key }, expiresMs, downloadsMax },
        },
        target: `shares/${id}`,
        answer: async () => ({
          ...show((await readShare(deps.read, id)) ?? made),
          url: shareUrl(deps.shareUrl(), token, made),
        }),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListShares',
    summary: "List share links: one's own; of all of a tenant for who administers it.",
    query: { ...pageQuery, after: { ...pageQuery.after, maxLength: afterLengthMax } },
    answer: answerPage('shares', answerObject(share)),
    run: (call) => {
      const list = ({ after, limit }: Page) => {
        const [tenant = '', principal = '', id = ''] = after.split('/');
        const from = { after: { tenant, principal, id }, limit };
        return listShares(call.deps.read, reachOf(call), from);
      };
      return listPage(call, 'shares', list, show, placeOf);
    },
  },
  {
    method: 'DELETE',
    url: `${collection}/:id`,
    action: 'bursar:RevokeShare',
    summary: 'Revoke a share link. It stops working at once.',
    run: async (call) => {
      const found = await readShare(call.deps.read, param(call, 'id'), reachOf(call));
      if (!found) throw new Refusal('NoSuchShare');
      const { id, expiresMs } = found;
      return {
        change: {
          kind: 'revokeToken',
          ...{ id, tenant: found.tenant, principal: found.principal, expiresMs },
        },
      };
    },
  },
  {
    method: 'PUT',
    url: `${collection}/:id/principal`,
    action: 'bursar:TransferShare',
    summary: 'Have a share link be used in the name of another principal of its tenant.',
    body: closedObject({ principal: principalName }, ['principal']),
    answer: answerObject(share),
    run: transferShare,
  },
]);

async function transferShare(call: Call): Promise<Outcome> {
  const { read, directory } = call.deps;
  const { principal: to } = call.body as { principal: string };
  const found = await readShare(read, param(call, 'id'), reachOf(call));
  if (!found) throw new Refusal('NoSuchShare');
  const { id, tenant, principal: from } = found;
  if (from === to) return { answer: show(found) };
  for (const principal of [from, to]) {
    await protectOthers(call.who, directory, { tenant, principal });
  }
  return {
    change: { kind: 'transferShare', tenant, id, from, to },
    answer: async () => show((await readShare(read, id)) ?? found),
  };
}

/** Whose links the caller may see and revoke. */
function reachOf({ who, reach }: Call) {
  return {
    tenant: reach === 'all' ? undefined : who.tenant,
    principal: reach === 'self' ? who.name : undefined,
  };
}

/**
 * The link that a call asks for. Throws `Refusal` AccessDenied unless it would work now and from
 * the caller's address, and NoSuchBucket or NoSuchKey where there is nothing to open.
 */
async function planShare(call: Call, id: string): Promise<Share> {
  const { deps, who } = call;
  const { bucket: asked, key, expiresIn, downloads: downloadsMax } = call.body as Wish;
  checkKeyLength(key);
  const actor = await deps.directory.findActor(who.id);
  if (!actor) throw new Refusal('AccessDenied');
  const found = await lookUpBucket(deps, who, asked);
  if (found.at || found.where !== undefined) {
    const message =
      'A snapshot, or a query, cannot be shared by a link. Copy the object, and share the copy.';
    throw new Refusal('InvalidInput', { message, fields: { field: 'bucket' } });
  }
  const createdMs = nowMs();
  // A folder may be named without its last slash, unless an object has that name.
  const keys = isFolder({ key }) ? [key] : [key, `${key}/`];
  const shares = keys.map((one) => ({
    ...{ id, tenant: who.tenant, principal: who.name },
    ...{ bucketTenant: found.tenant, bucket: found.name, bucketId: found.bucket?.id ?? 0 },
    key: one,
    ...{ createdMs, expiresMs: createdMs + expiresIn * 1000, downloadsMax },
    ...{ downloads: 0, lastUsedMs: null, isRevoked: false },
  }));
  let isAllowed = false;
  for (const share of shares) {
    if (!(await isReadable(call, identityOf(share, actor), found, share.key))) continue;
    if (!found.bucket) throw new Refusal('NoSuchBucket');
    isAllowed = true;
    if (share.key === key && isFolder({ key })) return share;
    if (await isThere(deps, found.bucket, share.key)) return share;
  }
  if (isAllowed) throw new Refusal('NoSuchKey');
  await deps.buckets.levelRefusal(found.tenant, found.name);
  throw new Refusal('AccessDenied');
}

/** Whether the principal of the link may read what it opens. */
async function isReadable(
  { deps, request }: Call,
  holder: Identity,
  found: NamedBucket,
  key: string,
): Promise<boolean> {
  const begun = { id: request.id, ...deps.originOf(request) };
  const access = new Access(deps, parseRequest(request.raw, begun, []), holder);
  const target = { askedName: `${found.tenant}:${found.name}`, found };
  if (!(await access.allows({ ...target, action: 's3:GetObject', key, listPrefix: null }))) {
    return false;
  }
  if (!isFolder({ key })) return true;
  return access.allows({ ...target, action: 's3:ListBucket', key: null, listPrefix: key });
}

/** Whether there is an object with this key, or anything in this folder. */
async function isThere(deps: Catalog, bucket: Bucket, key: string): Promise<boolean> {
  if (!isFolder({ key })) return (await findCurrent(deps, bucket, key)) !== undefined;
  const query = { bucketId: bucket.id, prefix: key, delimiter: '', max: 1, after: null };
  return (await listObjects(deps.read, query, ({ seq }) => seq)).entries.length > 0;
}

function show(one: Share): object {
  const { id, tenant, principal, bucketTenant, bucket, key, downloads, downloadsMax } = one;
  return {
    ...{ id, principal: principalId(tenant, principal), bucket: `${bucketTenant}:${bucket}`, key },
    ...{ createdAt: isoTime(one.createdMs), expiresAt: isoTime(one.expiresMs) },
    ...{ downloads, downloadsMax },
    lastUsedAt: one.lastUsedMs === null ? null : isoTime(one.lastUsedMs),
    state: stateOf(one),
  };
}

/** Whether the link works, or why it does not. */
export function stateOf({ isRevoked, expiresMs, downloads, downloadsMax }: Share): string {
  if (isRevoked) return 'revoked';
  if (nowMs() >= expiresMs) return 'expired';
  return downloadsMax !== null && downloads >= downloadsMax ? 'used up' : 'valid';
}
