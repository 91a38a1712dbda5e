// Commands of mounts. A mount is a name in a tenant's own namespace for another tenant's bucket. No
// name is both a bucket and a mount: `createBucket` of the catalog refuses the name of a mount.
import { countRows, missing, mountExists, tenantExists } from '../../authz/identity-rows.ts';
import { mountsPerTenantMax } from '../../core/limits.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, type Named, tellsOf } from './identity-command.ts';

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
