// Native API: tenants.

import type { Page } from '../../authz/paced-page.ts';
import { newTenantKey } from '../../authz/tenant-keys.ts';
import { listBuckets } from '../../catalog/buckets.ts';
import { Refusal } from '../../core/errors.ts';
import type { RecordReads } from '../../core/record-reads.ts';
import type { TenantEntry } from '../../state/directory.ts';
import { ownedMax, refuseOwned } from './conflict-words.ts';
import type { NativeDeps } from './deps.ts';
import { type Call, listPage, nameOf, param, routeTable, showDated } from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  name,
  pageQuery,
  recordReads,
  textOrNull,
  time,
} from './schemas.ts';

const membersCreateBuckets = boolean('May members create buckets?');
const membersMountBuckets = boolean("May members give other tenants' buckets names of their own?");

const defaultStore = textOrNull("The store for new buckets; null: the gateway's default.", {
  maxLength: 63,
});

const tenant = answerObject({
  ...{ name, membersCreateBuckets, membersMountBuckets, defaultStore, recordReads },
  createdAt: time,
});

export const tenantRoutes = routeTable([
  {
    method: 'POST',
    url: '/_/v1/tenants',
    action: 'bursar:CreateTenant',
    summary: 'Create a tenant. The name of a deleted tenant is not given again.',
    status: 201,
    body: closedObject(
      {
        ...{ name, defaultStore, recordReads },
        membersCreateBuckets: { ...membersCreateBuckets, default: true },
        membersMountBuckets: { ...membersMountBuckets, default: true },
      },
      ['name'],
    ),
    answer: tenant,
    run: async ({ body, deps }) => {
      const wanted = body as { name: string } & Members & Placement;
      checkStore(deps, wanted);
      const sealedKey = newTenantKey(deps.sealer, wanted.name);
      return {
        change: { kind: 'createTenant', ...wanted, sealedKey },
        target: `tenants/${wanted.name}`,
        answer: () => showTenant(deps, wanted.name),
      };
    },
  },
  {
    method: 'GET',
    url: '/_/v1/tenants',
    action: 'bursar:ListTenants',
    summary: 'List the tenants that the caller may see, by name.',
    query: pageQuery,
    answer: answerPage('tenants', tenant),
    run: (call) =>
      listPage(call, 'tenants', (page) => listVisibleTenants(call, page), showDated, nameOf),
  },
  {
    method: 'GET',
    url: '/_/v1/tenants/:t',
    action: 'bursar:GetTenant',
    summary: 'Show a tenant.',
    answer: tenant,
    run: async (call) => ({ answer: await showTenant(call.deps, param(call, 't')) }),
  },
  {
    method: 'PATCH',
    url: '/_/v1/tenants/:t',
    action: 'bursar:UpdateTenant',
    summary: "Change a tenant's settings.",
    body: {
      ...closedObject({ membersCreateBuckets, membersMountBuckets, defaultStore, recordReads }),
      minProperties: 1,
    },
    answer: tenant,
    run: async (call) => {
      const settings = call.body as Partial<Members> & Placement;
      checkStore(call.deps, settings);
      const tenantName = param(call, 't');
      return {
        change: { kind: 'updateTenant', name: tenantName, ...settings },
        answer: () => showTenant(call.deps, tenantName),
      };
    },
  },
  {
    method: 'DELETE',
    url: '/_/v1/tenants/:t',
    action: 'bursar:DeleteTenant',
    summary: 'Delete a tenant that owns no bucket, with its principals, groups and access keys.',
    run: async (call) => {
      const tenant = param(call, 't');
      const wanted = { tenant, prefix: '', after: '', max: ownedMax };
      const owned = await listBuckets(call.deps.read, wanted);
      refuseOwned(
        tenant,
        owned.map((bucket) => bucket.name),
      );
      return { change: { kind: 'deleteTenant', name: tenant } };
    },
  },
]);

interface Members {
  membersCreateBuckets: boolean;
  membersMountBuckets: boolean;
}

interface Placement {
  defaultStore?: string | null;
  recordReads?: RecordReads;
}

/** Throws `InvalidInput` where the gateway has no store of the name that is asked for. */
function checkStore({ stores }: NativeDeps, { defaultStore: asked }: Placement): void {
  if (asked === undefined || asked === null || stores.numberOf(asked) !== undefined) return;
  throw new Refusal('InvalidInput', {
    message: 'There is no store of this name.',
    fields: { field: 'body.defaultStore' },
  });
}

async function listVisibleTenants(call: Call, page: Page): Promise<TenantEntry[]> {
  if (call.reach === 'all') return call.deps.directory.listTenants(page);
  const own = await call.deps.directory.readTenant(call.who.tenant);
  return own && own.name > page.after ? [own] : [];
}

async function showTenant(deps: NativeDeps, tenantName: string): Promise<object> {
  const entry = await deps.directory.readTenant(tenantName);
  if (!entry) throw new Refusal('NoSuchTenant');
  return showDated(entry);
}
