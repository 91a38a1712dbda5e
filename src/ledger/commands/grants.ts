// Commands of grants.
import type { Grant } from '../../authz/grants/grant.ts';
import {
  countRows,
  groupsExist,
  missing,
  roleOf,
  tenantExists,
} from '../../authz/identity-rows.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { ruleOf } from '../events.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

/** Which tenant's grants a command changes, and in whose name. */
export interface WrittenGrant {
  tenant: string;
  /** By an admin. Others leave what is about administration as it is: they would become admins. */
  isByAdmin: boolean;
}

async function findGrant(tx: Tx, tenant: string, name: string): Promise<Grant | undefined> {
  const sql = 'SELECT rule FROM grants WHERE tenant = ? AND name = ?';
  const row = await tx.get<{ rule: string }>(sql, tenant, name);
  return row && (JSON.parse(row.rule) as Grant);
}

function concernsAdministration({ actions }: Grant): boolean {
  return actions.some((action) => !action.toLowerCase().startsWith('s3:'));
}

/**
 * A subject of the grant's own tenant that is not there: most likely a slip of the pen. Of another
 * tenant's nothing is said, whether there is such a one or not.
 */
async function subjectFault(
  tx: Tx,
  tenant: string,
  subject: string,
): Promise<ErrorCode | undefined> {
  const [, kind, owner, name = ''] = /^(principal|group):([^/]+)\/(.+)$/.exec(subject) ?? [];
  if (owner !== tenant) return undefined;
  if (kind === 'principal') return (await roleOf(tx, tenant, name)) ? undefined : 'NoSuchPrincipal';
  return (await groupsExist(tx, tenant, [name])) ? undefined : 'NoSuchGroup';
}

/** Makes the grant, or puts it in the place of the one of its name. */
export interface PutGrant extends WrittenGrant {
  kind: 'putGrant';
  grant: Grant;
  /** When the one that it replaces was made; absent: whichever there is. */
  replacesMs?: number;
}

/**
 * Makes or replaces a grant. Whether there is room for one is asked before (state/grant-book.ts).
 * What is written was read by `parseGrant`, so every row is a rule that holds in full.
 */
export const putGrant = identityCommand<PutGrant>({
  check: async (tx, { tenant, grant, isByAdmin, replacesMs }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    if (replacesMs !== undefined) {
      const same = 'grants WHERE tenant = ? AND name = ? AND created_ms = ?';
      const isThere = (await countRows(tx, same, tenant, grant.name, replacesMs)) > 0;
      if (!isThere) return 'PreconditionFailed';
    }
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
  account: ({ grant: { effect, subjects, actions, bucket, prefix, key, alias, conditions } }) => ({
    ...{ effect, subjects, actions, bucket, prefix, key, alias, conditions },
  }),
  causes: async ({ tenant, grant }, tx) => [
    {
      kind: 'grants',
      tenant,
      removed: await ruleOf(tx, tenant, grant.name),
      added: [JSON.stringify(grant)],
    },
  ],
});

export interface DeleteGrant extends WrittenGrant {
  kind: 'deleteGrant';
  name: string;
}

export const deleteGrant = identityCommand<DeleteGrant>({
  check: async (tx, { tenant, name, isByAdmin }) => {
    const grant = await findGrant(tx, tenant, name);
    if (!grant) return missing(tx, tenant, 'NoSuchGrant');
    return isByAdmin || !concernsAdministration(grant) ? undefined : 'AccessDenied';
  },
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM grants WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('grant'),
  account: null,
  causes: async ({ tenant, name }, tx) => [
    { kind: 'grants', tenant, removed: await ruleOf(tx, tenant, name), added: [] },
  ],
});
