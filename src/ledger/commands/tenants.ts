// Commands of tenants.
import {
  insertTenant,
  isLastOperatorKey,
  letMembersMount,
  tenantExists,
  tenantNameIsUsed,
} from '../../authz/identity-rows.ts';
import { hasTenantKey, insertTenantKey } from '../../authz/tenant-keys.ts';
import { defaultTenant } from '../../core/principal.ts';
import type { RecordReads } from '../../core/record-reads.ts';
import { rulesOf } from '../events.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOfTenant } from './identity-command.ts';

/** What is undefined stays as it is; a store of null is the gateway's default. */
export interface TenantSettings {
  membersCreateBuckets?: boolean;
  /** May members give other tenants' buckets names of their own? */
  membersMountBuckets?: boolean;
  defaultStore?: string | null;
  recordReads?: RecordReads;
}

export interface CreateTenant extends TenantSettings {
  kind: 'createTenant';
  name: string;
  membersCreateBuckets: boolean;
  /** Its secret, sealed; absent: it gets one when the gateway starts. */
  sealedKey?: Uint8Array;
}

/**
 * Makes a tenant. The name of a deleted one is never given again: records and usage of the old one
 * carry it, and its keys are derived from it.
 */
export const createTenant = identityCommand<CreateTenant>({
  check: async (tx, { name }) => ((await tenantNameIsUsed(tx, name)) ? 'AlreadyExists' : undefined),
  write: async (tx, tenant, timeMs) => {
    await insertTenant(tx, tenant, timeMs);
    const { name, sealedKey, membersMountBuckets } = tenant;
    if (membersMountBuckets !== undefined) await letMembersMount(tx, name, membersMountBuckets);
    if (sealedKey) await insertTenantKey(tx, name, sealedKey, timeMs);
  },
  takesFrom: null,
  told: tellsOfTenant,
  account: settingsOf,
  causes: ({ name, recordReads, sealedKey }) => [
    ...(recordReads ? [{ kind: 'tenant', name, isGone: false, recordReads } as const] : []),
    ...(sealedKey ? [{ kind: 'tenantKey', name } as const] : []),
  ],
});

export interface CreateTenantKey {
  kind: 'createTenantKey';
  name: string;
  sealedKey: Uint8Array;
}

/**
 * Gives a tenant that has none its secret. It is never another: what it encrypted would be lost.
 */
export const createTenantKey = identityCommand<CreateTenantKey>({
  check: async (tx, { name }) => {
    if (!(await tenantExists(tx, name))) return 'NoSuchTenant';
    return (await hasTenantKey(tx, name)) ? 'AlreadyExists' : undefined;
  },
  write: (tx, { name, sealedKey }, timeMs) => insertTenantKey(tx, name, sealedKey, timeMs),
  takesFrom: null,
  told: tellsOfTenant,
  account: null,
  causes: ({ name }) => [{ kind: 'tenantKey', name }],
});

export interface UpdateTenant extends TenantSettings {
  kind: 'updateTenant';
  name: string;
}

/** Changes the settings of a tenant. */
export const updateTenant = identityCommand<UpdateTenant>({
  check: async (tx, { name }) => ((await tenantExists(tx, name)) ? undefined : 'NoSuchTenant'),
  write: async (tx, settings) => {
    const { name, membersCreateBuckets, membersMountBuckets, defaultStore, recordReads } = settings;
    if (membersMountBuckets !== undefined) await letMembersMount(tx, name, membersMountBuckets);
    if (recordReads !== undefined) {
      await tx.run('UPDATE tenants SET record_reads = ? WHERE name = ?', recordReads, name);
    }
    if (membersCreateBuckets !== undefined) {
      const sql = 'UPDATE tenants SET members_create_buckets = ? WHERE name = ?';
      await tx.run(sql, Number(membersCreateBuckets), name);
    }
    if (defaultStore === undefined) return;
    await tx.run('UPDATE tenants SET default_store = ? WHERE name = ?', defaultStore, name);
  },
  takesFrom: ({ name }) => tenantScope(name),
  told: tellsOfTenant,
  account: settingsOf,
  causes: ({ name, recordReads }) => [
    { kind: 'tenant', name, isGone: false, ...(recordReads && { recordReads }) },
  ],
});

function settingsOf(settings: TenantSettings) {
  const { membersCreateBuckets, membersMountBuckets, defaultStore, recordReads } = settings;
  return { membersCreateBuckets, membersMountBuckets, defaultStore, recordReads };
}

export interface DeleteTenant {
  kind: 'deleteTenant';
  name: string;
}

/** Those with rows of a tenant that go with it, referring ones first. */
const tenantTables = [
  ...['access_keys', 'public_keys', 'group_members', 'groups', 'own_mounts', 'principals'],
  ...['retired_names', 'grants', 'mounts', 'issuers', 'tokens', 'revocations', 'tenant_keys'],
  ...['tenant_settings', 'targets', 'classes'],
];

/**
 * Deletes a tenant that has no buckets, everybody in it, and its secret, without which nobody reads
 * what copies of its bytes there may be. There is always an operator with an access key.
 */
export const deleteTenant = identityCommand<DeleteTenant>({
  check: async (tx, { name }) => {
    if (!(await tenantExists(tx, name))) return 'NoSuchTenant';
    if (name === defaultTenant) return 'InUse';
    const bucket = await tx.get('SELECT 1 FROM buckets WHERE tenant = ? LIMIT 1', name);
    if (bucket) return 'InUse';
    return (await isLastOperatorKey(tx, { tenant: name })) ? 'InUse' : undefined;
  },
  write: async (tx, { name }) => {
    for (const table of tenantTables) {
      await tx.run(`DELETE FROM ${table} WHERE tenant = ?`, name);
    }
    await tx.run('DELETE FROM tenants WHERE name = ?', name);
    await tx.run('INSERT INTO retired_tenants (name) VALUES (?)', name);
  },
  takesFrom: ({ name }) => tenantScope(name),
  told: tellsOfTenant,
  account: () => ({ destroysKey: true }),
  causes: async ({ name }, tx) => [
    { kind: 'tenant', name, isGone: true },
    { kind: 'grants', tenant: name, removed: await rulesOf(tx, name), added: [] },
  ],
});
