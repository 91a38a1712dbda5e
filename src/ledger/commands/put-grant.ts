// Makes or replaces a grant. Whether there is room for one is asked before (state/grant-book.ts).
// What is written was read by `parseGrant`, so every row is a rule that holds in full.
import type { Grant } from '../../authz/grants/grant.ts';
import { tenantExists } from '../../authz/identity-rows.ts';
import { ruleOf } from '../events.ts';
import { tenantScope } from '../scopes.ts';
import {
  concernsAdministration,
  findGrant,
  subjectFault,
  type WrittenGrant,
} from './grant-rows.ts';
import { identityCommand } from './identity-command.ts';

/** Makes the grant, or puts it in the place of the one of its name. */
export interface PutGrant extends WrittenGrant {
  kind: 'putGrant';
  grant: Grant;
}

export const putGrant = identityCommand<PutGrant>({
  check: async (tx, { tenant, grant, isByAdmin }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    if (!isByAdmin) {
      const replaced = await findGrant(tx, tenant, grant.name);
      if (concernsAdministration(grant)) return 'AccessDenied';
      if (replaced && concernsAdministration(replaced)) return 'AccessDenied';
    }
    for (const subject of grant.subjects) {
      const code = await subjectFault(tx, tenant, subject);
      if (code !== undefined) return code;
    }
    return undefined;
  },
  write: async (tx, { tenant, grant }, timeMs) => {
    await tx.run(
      `INSERT INTO grants (tenant, name, rule, created_ms) VALUES (?, ?, ?, ?)
       ON CONFLICT (tenant, name) DO UPDATE
       SET rule = excluded.rule, created_ms = excluded.created_ms`,
      tenant,
      grant.name,
      JSON.stringify(grant),
      timeMs,
    );
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: {
    things: ({ tenant, grant }) => [{ kind: 'grant', tenant, name: grant.name }],
    isAwaited: true,
  },
  account: ({ grant: { effect, subjects, actions, bucket, prefix, key, conditions } }) => ({
    ...{ effect, subjects, actions, bucket, prefix, key, conditions },
  }),
  causes: async ({ tenant, grant }, tx) => [
    {
      ...{ kind: 'grants', tenant },
      ...{ removed: await ruleOf(tx, tenant, grant.name), added: [JSON.stringify(grant)] },
    },
  ],
});
