// Makes or moves a mount: a name in a tenant's own namespace for another tenant's bucket. No name
// is both a bucket and a mount (the catalog's createBucket holds the other side of it). Whether
// what a mount leads to is there is not asked, because the answer is another tenant's.
import { mountExists, tenantExists } from '../../authz/identity-rows.ts';
import { mountsPerTenantMax } from '../../core/limits.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

/** Makes the mount, or lets it lead elsewhere. */
export interface PutMount {
  kind: 'putMount';
  tenant: string;
  name: string;
  bucketTenant: string;
  bucket: string;
}

export const putMount = identityCommand<PutMount>({
  check: async (tx, { tenant, name }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    const bucket = 'SELECT 1 FROM buckets WHERE tenant = ? AND name = ?';
    if (await tx.get(bucket, tenant, name)) return 'AlreadyExists';
    if (await mountExists(tx, tenant, name)) return undefined;
    const sql = 'SELECT count(*) AS count FROM mounts WHERE tenant = ?';
    const held = await tx.get<{ count: number }>(sql, tenant);
    return Number(held?.count) >= mountsPerTenantMax ? 'TooManyBuckets' : undefined;
  },
  write: async (tx, { tenant, name, bucketTenant, bucket }, timeMs) => {
    await tx.run(
      `INSERT INTO mounts (tenant, name, bucket_tenant, bucket, created_ms)
       VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET
         bucket_tenant = excluded.bucket_tenant, bucket = excluded.bucket,
         created_ms = excluded.created_ms`,
      tenant,
      name,
      bucketTenant,
      bucket,
      timeMs,
    );
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('mount'),
  account: ({ bucketTenant, bucket }) => ({ bucketTenant, bucket }),
  causes: ({ tenant, name, bucketTenant, bucket }) => [
    { kind: 'mount', tenant, name, to: { tenant: bucketTenant, bucket } },
  ],
});
