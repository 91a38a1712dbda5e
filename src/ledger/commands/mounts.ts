// Commands of mounts. A mount is a name in a tenant's own namespace for another tenant's bucket. No
// name is both a bucket and a mount: `createBucket` of the catalog refuses the name of a mount. A
// principal's own mount is such a name that means something to that principal alone, so it takes no
// name from anybody (decision 114).
import {
  countRows,
  membersMount,
  missing,
  mountExists,
  roleOf,
  tenantExists,
} from '../../authz/identity-rows.ts';
import { mountsPerTenantMax, ownMountsMax } from '../../core/limits.ts';
import { principalScope, tenantScope } from '../scopes.ts';
import {
  identityCommand,
  type Named,
  type Owned,
  tellsOf,
  tellsOfOwner,
} from './identity-command.ts';

/** Makes the mount, or lets it lead elsewhere. */
export interface PutMount extends Named {
  kind: 'putMount';
  bucketTenant: string;
  bucket: string;
}

/**
 * Whether what a mount leads to is there is not asked, because the answer is another tenant's.
 */
export const putMount = identityCommand<PutMount>({
  check: async (tx, { tenant, name }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    const bucket = 'SELECT 1 FROM buckets WHERE tenant = ? AND name = ?';
    if (await tx.get(bucket, tenant, name)) return 'AlreadyExists';
    if (await mountExists(tx, tenant, name)) return undefined;
    const held = await countRows(tx, 'mounts WHERE tenant = ?', tenant);
    return held >= mountsPerTenantMax ? 'TooManyBuckets' : undefined;
  },
  write: async (tx, { tenant, name, bucketTenant, bucket }, timeMs) => {
    await tx.run(
      `INSERT INTO mounts (tenant, name, bucket_tenant, bucket, created_ms)
       VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET
         bucket_tenant = excluded.bucket_tenant, bucket = excluded.bucket,
         created_ms = excluded.created_ms`,
      ...[tenant, name, bucketTenant, bucket, timeMs],
    );
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('mount'),
  account: ({ bucketTenant, bucket }) => ({ bucketTenant, bucket }),
  causes: ({ tenant, name, bucketTenant, bucket }) => [
    { kind: 'mount', tenant, name, to: { tenant: bucketTenant, bucket } },
  ],
});

export interface DeleteMount extends Named {
  kind: 'deleteMount';
}

/** Deletes a mount. */
export const deleteMount = identityCommand<DeleteMount>({
  check: async (tx, { tenant, name }) =>
    (await mountExists(tx, tenant, name)) ? undefined : missing(tx, tenant, 'NoSuchMount'),
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM mounts WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('mount'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'mount', tenant, name, to: null }],
});

export interface PutOwnMount extends Owned {
  kind: 'putOwnMount';
  name: string;
  bucketTenant: string;
  bucket: string;
  /** By an admin, who may whatever the tenant lets its members do. */
  isByAdmin: boolean;
}

/** Makes the mount, or lets it lead elsewhere. What has the name for all keeps it. */
export const putOwnMount = identityCommand<PutOwnMount>({
  check: async (tx, { tenant, principal, name, isByAdmin }) => {
    if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
    if (!isByAdmin && !(await membersMount(tx, tenant))) return 'AccessDenied';
    const bucket = 'SELECT 1 FROM buckets WHERE tenant = ? AND name = ?';
    if (await tx.get(bucket, tenant, name)) return 'AlreadyExists';
    if (await mountExists(tx, tenant, name)) return 'AlreadyExists';
    const others = 'own_mounts WHERE tenant = ? AND principal = ? AND name <> ?';
    const held = await countRows(tx, others, tenant, principal, name);
    return held >= ownMountsMax ? 'TooManyBuckets' : undefined;
  },
  write: async (tx, { tenant, principal, name, bucketTenant, bucket }, timeMs) => {
    await tx.run(
      `INSERT INTO own_mounts (tenant, principal, name, bucket_tenant, bucket, created_ms)
       VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, principal, name) DO UPDATE SET
         bucket_tenant = excluded.bucket_tenant, bucket = excluded.bucket,
         created_ms = excluded.created_ms`,
      ...[tenant, principal, name, bucketTenant, bucket, timeMs],
    );
  },
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: tellsOfOwner,
  account: ({ bucketTenant, bucket }) => ({ bucketTenant, bucket }),
  causes: ({ tenant, principal, name, bucketTenant, bucket }) => [
    { kind: 'ownMount', tenant, principal, name, to: { tenant: bucketTenant, bucket } },
  ],
});

export interface DeleteOwnMount extends Owned {
  kind: 'deleteOwnMount';
  name: string;
}

export const deleteOwnMount = identityCommand<DeleteOwnMount>({
  check: async (tx, { tenant, principal, name }) => {
    const own = 'own_mounts WHERE tenant = ? AND principal = ? AND name = ?';
    if ((await countRows(tx, own, tenant, principal, name)) > 0) return undefined;
    if (await roleOf(tx, tenant, principal)) return 'NoSuchMount';
    return missing(tx, tenant, 'NoSuchPrincipal');
  },
  write: async (tx, { tenant, principal, name }) => {
    const sql = 'DELETE FROM own_mounts WHERE tenant = ? AND principal = ? AND name = ?';
    await tx.run(sql, tenant, principal, name);
  },
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: tellsOfOwner,
  account: null,
  causes: ({ tenant, principal, name }) => [
    { kind: 'ownMount', tenant, principal, name, to: null },
  ],
});
