// Changes the settings of a tenant.
import { tenantExists } from '../../authz/identity-rows.ts';
import type { RecordReads } from '../../core/record-reads.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOfTenant } from './identity-command.ts';

/** What is undefined stays as it is; a store of null is the gateway's default. */
export interface UpdateTenant {
  kind: 'updateTenant';
  name: string;
  membersCreateBuckets?: boolean;
  defaultStore?: string | null;
  recordReads?: RecordReads;
}

export const updateTenant = identityCommand<UpdateTenant>({
  check: async (tx, { name }) => ((await tenantExists(tx, name)) ? undefined : 'NoSuchTenant'),
  write: async (tx, { name, membersCreateBuckets, defaultStore, recordReads }) => {
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
  account: ({ membersCreateBuckets, defaultStore, recordReads }) => ({
    membersCreateBuckets,
    defaultStore,
    recordReads,
  }),
  causes: ({ name, recordReads }) => [
    { kind: 'tenant', name, isGone: false, ...(recordReads && { recordReads }) },
  ],
});
