// Native API: mounts, names for other tenants' buckets and for snapshots: those of a tenant, in its
// namespace, and those of a principal, which nobody else sees.
// Invariant: nothing here tells whether what a mount leads to is there, and a mount gives no right.
import type { Page } from '../../authz/paced-page.ts';
import { readMoment } from '../../catalog/undelete-window.ts';
import { Refusal } from '../../core/errors.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import { parseQuery } from '../../search/query.ts';
import type { Alias } from '../../state/alias-book.ts';
import { storedTarget } from '../../state/mount-book.ts';
import { isBucketName } from '../s3/bucket-lookup.ts';
import { administers } from './rights.ts';
import {
  type Call,
  listPage,
  nameOf,
  param,
  refuseMissing,
  routeTable,
  showDated,
} from './route.ts';
import {
  answerObject,
  answerPage,
  closedObject,
  name,
  pageQuery,
  text,
  textOrNull,
  time,
} from './schemas.ts';
import { readShown } from './snapshot-routes.ts';

const collection = '/_/v1/tenants/:t/mounts';
const ownCollection = '/_/v1/tenants/:t/principals/:p/mounts';
const bucketName = text("A bucket's name.");
const target = {
  bucketTenant: { ...name, description: 'The tenant that has the bucket.' },
  bucket: { ...bucketName, description: "The bucket's name there." },
} as const;
const at = textOrNull(
  'The name of a snapshot of it, or a time in its undelete window: the mount shows that. null: ' +
    'the bucket as it is.',
);
const where = textOrNull(
  'A query (docs/formats/query.md): the mount shows the objects that fit it, for reading alone. ' +
    'null: all.',
);
const targetBody = closedObject({ ...target, at, where }, ['bucketTenant', 'bucket']);
const warnings = {
  type: 'array',
  items: { type: 'string' },
  description: 'What it leads to that is not there, as far as the caller may know. In words.',
} as const;
const mount = answerObject({
  ...{ tenant: name, name: bucketName, ...target, at, where, createdAt: time },
});
const ownMount = answerObject({
  ...{ tenant: name, principal: name, name: bucketName, ...target, at, where, createdAt: time },
});
const putMount = answerObject({ ...mount.properties, warnings });
const putOwnMount = answerObject({ ...ownMount.properties, warnings });

export const mountRoutes = routeTable([
  {
    method: 'PUT',
    url: `${collection}/:mount`,
    action: 'bursar:PutMount',
    summary: 'Give a bucket, or a snapshot of one, a name. Who may use it is said where it is.',
    body: targetBody,
    answer: putMount,
    run: async (call) => ({
      change: { kind: 'putMount', tenant: param(call, 't'), ...readTarget(call) },
      answer: async () => ({ ...(await showMount(call)), warnings: await warnOfTarget(call) }),
    }),
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListMounts',
    summary: "List a tenant's mounts, by name.",
    query: pageQuery,
    answer: answerPage('mounts', mount),
    run: (call) => {
      const list = (page: Page) => call.deps.mounts.list(param(call, 't'), page);
      return listPage(call, 'mounts', list, showDated, nameOf);
    },
  },
  {
    method: 'GET',
    url: `${collection}/:mount`,
    action: 'bursar:GetMount',
    summary: 'Show a mount.',
    answer: mount,
    run: async (call) => ({ answer: await showMount(call) }),
  },
  {
    method: 'DELETE',
    url: `${collection}/:mount`,
    action: 'bursar:DeleteMount',
    summary: 'Take a mount away. The bucket stays as it is.',
    run: async (call) => ({
      change: { kind: 'deleteMount', tenant: param(call, 't'), name: param(call, 'mount') },
    }),
  },
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/own-mounts',
    action: 'bursar:ListOwnMounts',
    operation: 'ListOwnMountsOfTenant',
    summary: "List the mounts of a tenant's principals that the caller may see.",
    query: pageQuery,
    answer: answerPage('mounts', ownMount),
    run: (call) => {
      const tenant = param(call, 't');
      const { mounts } = call.deps;
      const isOwn = call.reach === 'self';
      const list = async (page: Page) => {
        if (!isOwn) return mounts.pageOwnOfAll(tenant, page);
        return mounts.pageOwn(tenant, call.who.name, page);
      };
      return listPage(call, 'mounts', list, showDated, (one) =>
        isOwn ? one.name : `${one.principal}/${one.name}`,
      );
    },
  },
]);

const alias = answerObject({
  ...{ tenant: name, name: bucketName, ...target },
  grant: text('The grant of that tenant that brings it.'),
  state: {
    type: 'string',
    enum: ['used', 'hidden by a bucket', 'hidden by a mount', 'hidden by another alias'],
    description: 'Whether it is what its name stands for.',
  },
});

export const aliasRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/aliases',
    action: 'bursar:ListAliases',
    summary: "List names that other tenants' grants bring along: of those that name the caller.",
    query: pageQuery,
    answer: answerPage('aliases', alias),
    run: (call) => listPage(call, 'aliases', (page) => listAliases(call, page), show, placeOf),
  },
]);

const placeOf = ({ name, bucketTenant, grant }: Alias) => `${name}/${bucketTenant}/${grant}`;

async function listAliases(call: Call, { after, limit }: Page): Promise<Shown[]> {
  const { grants, buckets, mounts } = call.deps;
  const { who, identity, reach } = call;
  const tenant = param(call, 't');
  const isConcerned = ({ subjects }: Alias) =>
    reach !== 'self' || subjects.some((one) => identity.subjects.includes(one));
  const all = [...grants.aliases.list(tenant)].filter(isConcerned);
  const next = all
    .sort((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1))
    .filter((one) => placeOf(one) > after);
  const shown: Shown[] = [];
  for (const one of next.slice(0, limit)) {
    const { name } = one;
    const isMount = mounts.find(tenant, name) ?? mounts.findOwn(who.id, name);
    const isOther = grants.aliases.find(tenant, name) !== one;
    const taken = isMount ? 'a mount' : isOther ? 'another alias' : null;
    const by = (await buckets.find(tenant, name)) ? 'a bucket' : taken;
    shown.push({ ...one, state: by === null ? 'used' : `hidden by ${by}` });
  }
  return shown;
}

interface Shown extends Alias {
  state: string;
}

function show({ tenant, name, bucketTenant, bucket, grant, state }: Shown): object {
  return { tenant, name, bucketTenant, bucket, grant, state };
}

export const ownMountRoutes = routeTable([
  {
    method: 'PUT',
    url: `${ownCollection}/:mount`,
    action: 'bursar:PutOwnMount',
    summary: "Give another tenant's bucket a name that only this principal sees.",
    body: targetBody,
    answer: putOwnMount,
    run: async (call) => {
      const of = ownerOf(call);
      const isByAdmin = administers(call.who, of.tenant);
      return {
        change: { kind: 'putOwnMount', ...of, ...readTarget(call), isByAdmin },
        answer: async () => ({ ...(await showOwnMount(call)), warnings: await warnOfTarget(call) }),
      };
    },
  },
  {
    method: 'GET',
    url: ownCollection,
    action: 'bursar:ListOwnMounts',
    summary: "List a principal's own mounts, by name.",
    query: pageQuery,
    answer: answerPage('mounts', ownMount),
    run: (call) => {
      const { tenant, principal } = ownerOf(call);
      const list = (page: Page) => call.deps.mounts.pageOwn(tenant, principal, page);
      return listPage(call, 'mounts', list, showDated, nameOf);
    },
  },
  {
    method: 'GET',
    url: `${ownCollection}/:mount`,
    action: 'bursar:GetOwnMount',
    summary: 'Show a mount of a principal.',
    answer: ownMount,
    run: async (call) => ({ answer: await showOwnMount(call) }),
  },
  {
    method: 'DELETE',
    url: `${ownCollection}/:mount`,
    action: 'bursar:DeleteOwnMount',
    summary: 'Take a mount of a principal away. The bucket stays as it is.',
    run: async (call) => ({
      change: { kind: 'deleteOwnMount', ...ownerOf(call), name: param(call, 'mount') },
    }),
  },
]);

interface TargetBody {
  bucketTenant: string;
  bucket: string;
  at?: string | null;
  where?: string | null;
}

/** Throws `Refusal` for what cannot be names of buckets, or is no query. */
function readTarget(call: Call): { name: string; bucketTenant: string; bucket: string } {
  const mountName = param(call, 'mount');
  const wanted = call.body as TargetBody;
  const { bucketTenant, at = null, where: query = null } = wanted;
  for (const one of [mountName, wanted.bucket]) {
    if (isBucketName(one)) continue;
    const message = `${one} can be no bucket's name: 3 to 63 of a-z, 0-9, hyphens and dots.`;
    throw new Refusal('InvalidBucketName', { message, fields: { BucketName: one } });
  }
  if (query !== null) parseQuery(query, steadyClock.nowMs());
  const bucket = storedTarget(wanted.bucket, at === null ? null : readShown(at), query);
  return { name: mountName, bucketTenant, bucket };
}

/**
 * What a mount leads to may come later, and may be somebody else's. Only who administers the bucket
 * or owns it learns that it is not there.
 */
async function warnOfTarget({ who, body, deps: { buckets, snapshots } }: Call): Promise<string[]> {
  const { bucketTenant: tenant, bucket, at = null } = body as TargetBody;
  const found = await buckets.find(tenant, bucket);
  const isOwn = found !== undefined && tenant === who.tenant && found.owner === who.name;
  if (!isOwn && !administers(who, tenant)) return [];
  const answers = 'requests for this mount are answered 404';
  if (!found) return [`There is no bucket ${tenant}:${bucket}: ${answers} until there is.`];
  if (at === null || (await snapshots.find({ tenant, bucket, id: found.id }, at))) return [];
  return readMoment(at) === null
    ? [`${tenant}:${bucket} has no snapshot ${at}: ${answers} until it has.`]
    : [`${tenant}:${bucket} cannot be shown as of ${at}: ${answers}.`];
}

function ownerOf(call: Call): { tenant: string; principal: string } {
  return { tenant: param(call, 't'), principal: param(call, 'p') };
}

async function showMount(call: Call): Promise<object> {
  const entry = await call.deps.mounts.read(param(call, 't'), param(call, 'mount'));
  return entry ? showDated(entry) : refuseMissing(call, 'NoSuchMount');
}

async function showOwnMount(call: Call): Promise<object> {
  const { tenant, principal } = ownerOf(call);
  const entry = await call.deps.mounts.readOwn(tenant, principal, param(call, 'mount'));
  return entry ? showDated(entry) : refuseMissing(call, 'NoSuchMount');
}
