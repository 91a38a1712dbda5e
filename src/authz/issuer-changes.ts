// Changes of the outside issuers that tenants trust.
import type { Tx } from '../core/database.ts';
import { issuersPerTenantMax } from '../core/limits.ts';
import { missing, type StepsOf, tenantExists } from './change-steps.ts';
import type { IssuerMapping } from './oidc/issuer.ts';

export type IssuerChange =
  | {
      /** Makes the issuer, or puts this one in the place of what had its name. */
      type: 'putIssuer';
      tenant: string;
      name: string;
      url: string;
      audience: string;
      mapping: IssuerMapping;
    }
  | { type: 'deleteIssuer'; tenant: string; name: string };

export const issuerSteps: StepsOf<IssuerChange> = {
  putIssuer: {
    check: async (tx, { tenant, name, url, audience, mapping }) => {
      if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
      const { defaultPrincipal } = mapping;
      const principals = Object.values(mapping.principals);
      if (defaultPrincipal !== null) principals.push(defaultPrincipal);
      if (await lacksOne(tx, 'principals', tenant, principals)) return 'NoSuchPrincipal';
      const groups = Object.values(mapping.groups);
      if (await lacksOne(tx, 'groups', tenant, groups)) return 'NoSuchGroup';
      // A token says issuer and audience: these must tell whose it is.
      const holder = await tx.get<{ tenant: string; name: string }>(
        'SELECT tenant, name FROM issuers WHERE url = ? AND audience = ?',
        url,
        audience,
      );
      if (holder && (holder.tenant !== tenant || holder.name !== name)) return 'AlreadyExists';
      if (await issuerExists(tx, tenant, name)) return undefined;
      const sql = 'SELECT count(*) AS count FROM issuers WHERE tenant = ?';
      const held = await tx.get<{ count: number }>(sql, tenant);
      return Number(held?.count) >= issuersPerTenantMax ? 'TooManyIssuers' : undefined;
    },
    write: async (tx, { tenant, name, url, audience, mapping }, timeMs) => {
      await tx.run(
        `INSERT INTO issuers (tenant, name, url, audience, mapping, created_ms)
         VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (tenant, name) DO UPDATE
         SET url = excluded.url, audience = excluded.audience, mapping = excluded.mapping`,
        tenant,
        name,
        url,
        audience,
        JSON.stringify(mapping),
        timeMs,
      );
    },
  },

  deleteIssuer: {
    check: async (tx, { tenant, name }) =>
      (await issuerExists(tx, tenant, name)) ? undefined : missing(tx, tenant, 'NoSuchIssuer'),
    write: async (tx, { tenant, name }) => {
      await tx.run('DELETE FROM issuers WHERE tenant = ? AND name = ?', tenant, name);
    },
  },
};

async function issuerExists(tx: Tx, tenant: string, name: string): Promise<boolean> {
  const sql = 'SELECT 1 FROM issuers WHERE tenant = ? AND name = ?';
  return (await tx.get(sql, tenant, name)) !== undefined;
}

/** Is one of the names nobody's? */
async function lacksOne(
  tx: Tx,
  table: 'principals' | 'groups',
  tenant: string,
  names: readonly string[],
): Promise<boolean> {
  const sql = `SELECT 1 FROM json_each(?) AS wanted WHERE NOT EXISTS
    (SELECT 1 FROM ${table} WHERE tenant = ? AND name = wanted.value) LIMIT 1`;
  return (await tx.get(sql, JSON.stringify(names), tenant)) !== undefined;
}
