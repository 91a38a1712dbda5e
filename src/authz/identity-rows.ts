// Rows of tenants, principals and groups, and of what belongs to a tenant, as the ledger's commands
// ask for them and write them. What is asked runs inside the transaction that writes.
import type { SqlValue, Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { PrincipalKind, Role } from '../core/principal.ts';
import type { RecordReads } from '../core/record-reads.ts';
import { anonymousName } from './identity.ts';

/** What a name stood for that is not used any more. */
export type RetiredKind = 'principal' | 'group' | 'public-key';

export async function tenantExists(tx: Tx, name: string): Promise<boolean> {
  return (await tx.get('SELECT 1 FROM tenants WHERE name = ?', name)) !== undefined;
}

/** How many rows there are. `of`: of which table, and which of its rows. */
export async function countRows(tx: Tx, of: string, ...values: SqlValue[]): Promise<number> {
  const counted = await tx.get<{ count: number }>(`SELECT count(*) AS count FROM ${of}`, ...values);
  return Number(counted?.count);
}

/** What is missing: the thing itself or already the tenant around it. */
export async function missing(tx: Tx, tenant: string, code: ErrorCode): Promise<ErrorCode> {
  return (await tenantExists(tx, tenant)) ? code : 'NoSuchTenant';
}

/** The role of a principal; undefined: there is none of this name. */
export async function roleOf(tx: Tx, tenant: string, name: string): Promise<Role | undefined> {
  const row = await tx.get<{ role: Role }>(
    'SELECT role FROM principals WHERE tenant = ? AND name = ?',
    tenant,
    name,
  );
  return row?.role;
}

export async function tenantNameIsUsed(tx: Tx, name: string): Promise<boolean> {
  if (await tenantExists(tx, name)) return true;
  return (await tx.get('SELECT 1 FROM retired_tenants WHERE name = ?', name)) !== undefined;
}

/** Names of those that are gone are not given again: records, grants and tokens may have them. */
export async function nameIsUsed(
  tx: Tx,
  tenant: string,
  kind: 'principal' | 'group',
  name: string,
): Promise<boolean> {
  if (kind === 'principal' && name === anonymousName) return true;
  const table = kind === 'principal' ? 'principals' : 'groups';
  const sql = `SELECT 1 FROM ${table} WHERE tenant = ? AND name = ?
    UNION ALL SELECT 1 FROM retired_names WHERE tenant = ? AND kind = ? AND name = ?`;
  return (await tx.get(sql, tenant, name, tenant, kind, name)) !== undefined;
}

export async function retireName(
  tx: Tx,
  tenant: string,
  kind: RetiredKind,
  name: string,
): Promise<void> {
  await tx.run('INSERT INTO retired_names VALUES (?, ?, ?)', tenant, kind, name);
}

export async function groupsExist(
  tx: Tx,
  tenant: string,
  names: readonly string[],
): Promise<boolean> {
  for (const name of names) {
    const sql = 'SELECT 1 FROM groups WHERE tenant = ? AND name = ?';
    if (!(await tx.get(sql, tenant, name))) return false;
  }
  return true;
}

/** Whether without this tenant, principal or key no operator with an access key would be left. */
export async function isLastOperatorKey(
  tx: Tx,
  without: { tenant?: string; principal?: string; id?: string },
): Promise<boolean> {
  const keys = await tx.all<{ id: string; tenant: string; principal: string }>(
    `SELECT k.id, k.tenant, k.principal FROM principals p
     JOIN access_keys k ON k.tenant = p.tenant AND k.principal = p.name
     WHERE p.role = 'operator' AND p.active AND k.active`,
  );
  const names = Object.entries(without) as [keyof (typeof keys)[number], string][];
  const goes = (key: (typeof keys)[number]) => names.every(([name, value]) => key[name] === value);
  return keys.some(goes) && keys.every(goes);
}

export async function insertTenant(
  tx: Tx,
  tenant: {
    name: string;
    membersCreateBuckets: boolean;
    defaultStore?: string | null;
    recordReads?: RecordReads;
  },
  timeMs: number,
): Promise<void> {
  await tx.run(
    `INSERT INTO tenants (name, created_ms, members_create_buckets, default_store, record_reads)
       VALUES (?, ?, ?, ?, ?)`,
    tenant.name,
    timeMs,
    Number(tenant.membersCreateBuckets),
    tenant.defaultStore ?? null,
    tenant.recordReads ?? null,
  );
}

const mayMount = 'membersMountBuckets';

/** Whether members of the tenant may give other tenants' buckets names of their own. */
export async function membersMount(tx: Tx, tenant: string): Promise<boolean> {
  const sql = 'SELECT document FROM tenant_settings WHERE tenant = ? AND name = ?';
  return (await tx.get<{ document: string }>(sql, tenant, mayMount))?.document !== 'false';
}

export async function letMembersMount(tx: Tx, tenant: string, may: boolean): Promise<void> {
  // What holds where nothing is said has no row.
  if (may) {
    const sql = 'DELETE FROM tenant_settings WHERE tenant = ? AND name = ?';
    await tx.run(sql, tenant, mayMount);
    return;
  }
  const sql = `INSERT INTO tenant_settings (tenant, name, document) VALUES (?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE SET document = excluded.document`;
  await tx.run(sql, tenant, mayMount, 'false');
}

export async function insertPrincipal(
  tx: Tx,
  tenant: string,
  name: string,
  kind: PrincipalKind,
  role: Role,
  timeMs: number,
): Promise<void> {
  await tx.run(
    'INSERT INTO principals (tenant, name, kind, role, created_ms) VALUES (?, ?, ?, ?, ?)',
    tenant,
    name,
    kind,
    role,
    timeMs,
  );
}

export async function updateRole(tx: Tx, tenant: string, name: string, role: Role): Promise<void> {
  const sql = 'UPDATE principals SET role = ? WHERE tenant = ? AND name = ?';
  await tx.run(sql, role, tenant, name);
}

export async function insertMemberships(
  tx: Tx,
  tenant: string,
  principal: string,
  groups: readonly string[],
): Promise<void> {
  // A name given twice is one membership; its second row would break the transaction.
  for (const group of new Set(groups)) {
    await tx.run(
      'INSERT INTO group_members (tenant, group_name, principal) VALUES (?, ?, ?)',
      tenant,
      group,
      principal,
    );
  }
}

export async function issuerExists(tx: Tx, tenant: string, name: string): Promise<boolean> {
  const sql = 'SELECT 1 FROM issuers WHERE tenant = ? AND name = ?';
  return (await tx.get(sql, tenant, name)) !== undefined;
}

export async function mountExists(tx: Tx, tenant: string, name: string): Promise<boolean> {
  const sql = 'SELECT 1 FROM mounts WHERE tenant = ? AND name = ?';
  return (await tx.get(sql, tenant, name)) !== undefined;
}
