// Makes a tenant. The name of a deleted one is never given again: records and usage of the old one
// carry it, and its keys are derived from it.
import { insertTenant, tenantNameIsUsed } from '../../authz/identity-rows.ts';
import type { RecordReads } from '../../core/record-reads.ts';
import { identityCommand, tellsOfTenant } from './identity-command.ts';

export interface CreateTenant {
  kind: 'createTenant';
  name: string;
  membersCreateBuckets: boolean;
  defaultStore?: string | null;
  recordReads?: RecordReads;
}

export const createTenant = identityCommand<CreateTenant>({
  check: async (tx, { name }) => ((await tenantNameIsUsed(tx, name)) ? 'AlreadyExists' : undefined),
  write: (tx, change, timeMs) => insertTenant(tx, change, timeMs),
  takesFrom: null,
  told: tellsOfTenant,
  account: ({ membersCreateBuckets, defaultStore, recordReads }) => ({
    membersCreateBuckets,
    defaultStore,
    recordReads,
  }),
  causes: ({ name, recordReads }) =>
    recordReads === undefined ? [] : [{ kind: 'tenant', name, isGone: false, recordReads }],
});
