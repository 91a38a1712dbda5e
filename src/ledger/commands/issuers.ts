// Commands of the outside issuers that a tenant trusts. Issuer and audience tell whose a token is,
// so what a tenant takes can never be another's: an audience is its own because it names it, or
// because an operator gave it to the tenant with this issuer. Nobody is told what other tenants
// have.
import { countRows, issuerExists, missing, tenantExists } from '../../authz/identity-rows.ts';
import { type IssuerMapping, lastSegment, namesTenant } from '../../authz/oidc/issuer.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { issuersPerTenantMax } from '../../core/limits.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, type Named, tellsOf } from './identity-command.ts';

/** Makes the issuer, or puts this one in the place of what had its name. */
export interface PutIssuer extends Named {
  kind: 'putIssuer';
  url: string;
  audience: string;
  mapping: IssuerMapping;
  /** An operator asks: the audience need not be the tenant's own. */
  byOperator: boolean;
}

/**
 * Makes or replaces an outside issuer that a tenant trusts. Issuer and audience tell whose a token
 * is, so what a tenant takes can never be another's: an audience is its own because it names it,
 * or because an operator gave it to the tenant with this issuer. Nobody is told what other tenants
 * have.
 */
export const putIssuer = identityCommand<PutIssuer>({
  check: async (tx, change) => {
    const { tenant, name, mapping } = change;
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    const { defaultPrincipal } = mapping;
    const principals = Object.values(mapping.principals);
    if (defaultPrincipal !== null) principals.push(defaultPrincipal);
    if (await lacksOne(tx, 'principals', tenant, principals)) return 'NoSuchPrincipal';
    const groups = Object.values(mapping.groups);
    if (await lacksOne(tx, 'groups', tenant, groups)) return 'NoSuchGroup';
    const refusal = await refuseAudience(tx, change);
    if (refusal) return refusal;
    if (await issuerExists(tx, tenant, name)) return undefined;
    const held = await countRows(tx, 'issuers WHERE tenant = ?', tenant);
    return held >= issuersPerTenantMax ? 'TooManyIssuers' : undefined;
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
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('issuer'),
  account: ({ url, audience, mapping }) => ({ url, audience, mapping }),
  causes: ({ tenant, name }) => [{ kind: 'issuer', tenant, name }],
});

/**
 * A row with an audience that does not name its tenant is of an operator, or of release 0.1.0, and
 * binds the audience to its tenant: nobody else can make one like it.
 */
async function refuseAudience(
  tx: Tx,
  { tenant, name, url, audience, byOperator }: PutIssuer,
): Promise<ErrorCode | undefined> {
  const holder = await tx.get<{ tenant: string; name: string }>(
    'SELECT tenant, name FROM issuers WHERE url = ? AND audience = ?',
    ...[url, audience],
  );
  if (holder?.tenant === tenant) return holder.name === name ? undefined : 'AlreadyExists';
  const isOwn = namesTenant(audience, tenant);
  // The same whether another tenant has it or nobody has.
  if (!byOperator) return isOwn && !holder ? undefined : 'InvalidAudience';
  if (holder) return 'AlreadyExists';
  const named = lastSegment(audience);
  const isOthers = !isOwn && named !== null && (await tenantExists(tx, named));
  return isOthers ? 'InvalidAudience' : undefined;
}

/** Whether one of the names is nobody's. */
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

export interface DeleteIssuer extends Named {
  kind: 'deleteIssuer';
}

/** Deletes an outside issuer: its tokens are refused from then on. */
export const deleteIssuer = identityCommand<DeleteIssuer>({
  check: async (tx, { tenant, name }) =>
    (await issuerExists(tx, tenant, name)) ? undefined : missing(tx, tenant, 'NoSuchIssuer'),
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM issuers WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('issuer'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'issuer', tenant, name }],
});
