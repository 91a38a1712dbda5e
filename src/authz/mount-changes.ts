// Changes of mounts: names in a tenant's own namespace for other tenants' buckets. Invariants: no
// name is both a bucket and a mount (the catalog's createBucket holds the other side of it); and
// whether what a mount leads to is there is not asked, because the answer is another tenant's.
import { mountsPerTenantMax } from '../core/limits.ts';
import { missing, type StepsOf, tenantExists } from './change-steps.ts';

export type MountChange =
  /** Makes the mount, or lets it lead elsewhere. */
  | { type: 'putMount'; tenant: string; name: string; bucketTenant: string; bucket: string }
  | { type: 'deleteMount'; tenant: string; name: string };

const findMount = 'SELECT 1 FROM mounts WHERE tenant = ? AND name = ?';

export const mountSteps: StepsOf<MountChange> = {
  putMount: {
    check: async (tx, { tenant, name }) => {
      if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
      const bucket = 'SELECT 1 FROM buckets WHERE tenant = ? AND name = ?';
      if (await tx.get(bucket, tenant, name)) return 'AlreadyExists';
      if (await tx.get(findMount, tenant, name)) return undefined;
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
  },

  deleteMount: {
    check: async (tx, { tenant, name }) =>
      (await tx.get(findMount, tenant, name)) ? undefined : missing(tx, tenant, 'NoSuchMount'),
    write: async (tx, { tenant, name }) => {
      await tx.run('DELETE FROM mounts WHERE tenant = ? AND name = ?', tenant, name);
    },
  },
};
