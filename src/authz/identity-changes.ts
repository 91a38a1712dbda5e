// Changes of who there is: tenants, principals, groups, access keys. Each is plain data, so that it
// can cross to the ledger's thread, and has two steps: `check` finds every reason to refuse, then
// `write` changes rows. Invariants: a refused change writes nothing, and after `check` no write can
// fail on a constraint, because the transaction is shared with other requests' changes; there is
// always an operator with an access key; the name of a deleted tenant is never given again, since
// records and usage of the old one carry it and its keys are derived from it.
import type { Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import { accessKeysPerPrincipalMax } from '../core/limits.ts';
import type { PrincipalKind, Role } from '../core/principal.ts';
import type { RecordReads } from '../core/record-reads.ts';
import { missing, roleOf, type StepsOf, tenantExists } from './change-steps.ts';
import { anonymousName } from './identity.ts';
import { revokeAskedWith } from './token-changes.ts';

/** The tenant of the gateway itself: requests without credentials and the first operator. */
export const defaultTenant = 'default';
/** The principal in it to whom the root key belongs. */
export const rootPrincipal = 'admin';

export type IdentityChange =
  | {
      type: 'createTenant';
      name: string;
      membersCreateBuckets: boolean;
      defaultStore?: string | null;
      recordReads?: RecordReads;
    }
  | {
      /** What is undefined stays as it is; a store of null is the gateway's default. */
      type: 'updateTenant';
      name: string;
      membersCreateBuckets?: boolean;
      defaultStore?: string | null;
      recordReads?: RecordReads;
    }
  | { type: 'deleteTenant'; name: string }
  | {
      type: 'createPrincipal';
      tenant: string;
      name: string;
      kind: PrincipalKind;
      role: Role;
      groups: string[];
    }
  | {
      /** What is undefined stays as it is. */
      type: 'updatePrincipal';
      tenant: string;
      name: string;
      role?: Role;
      groups?: string[];
      active?: boolean;
    }
  | { type: 'deletePrincipal'; tenant: string; name: string }
  | { type: 'createGroup'; tenant: string; name: string }
  | { type: 'deleteGroup'; tenant: string; name: string }
  | {
      type: 'createAccessKey';
      tenant: string;
      principal: string;
      id: string;
      /** Sealed under `accessKeyContext(tenant, principal, id)`. */
      sealedSecret: Uint8Array;
    }
  | { type: 'updateAccessKey'; tenant: string; principal: string; id: string; active: boolean }
  | { type: 'deleteAccessKey'; tenant: string; principal: string; id: string }
  | {
      /** Makes `default/admin` an operator with this key and no other: former ones stop working. */
      type: 'putRootKey';
      id: string;
      sealedSecret: Uint8Array;
    };

type ChangeOf<T extends IdentityChange['type']> = Extract<IdentityChange, { type: T }>;

/** Of what a name that is gone was. */
export type RetiredKind = 'principal' | 'group' | 'public-key';

/** Those with rows of a tenant that go with it, referring ones first. */
const tenantTables = [
  ...['access_keys', 'public_keys', 'group_members', 'groups', 'principals', 'retired_names'],
  ...['grants', 'mounts', 'issuers', 'tokens', 'revocations'],
];

export const identitySteps: StepsOf<IdentityChange> = {
  createTenant: {
    check: async (tx, { name }) =>
      (await tenantNameIsUsed(tx, name)) ? 'AlreadyExists' : undefined,
    write: (tx, change, timeMs) => insertTenant(tx, change, timeMs),
  },

  updateTenant: {
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
  },

  deleteTenant: {
    check: async (tx, { name }) => {
      if (!(await tenantExists(tx, name))) return 'NoSuchTenant';
      if (name === defaultTenant) return 'InUse';
      const bucket = await tx.get('SELECT 1 FROM buckets WHERE tenant = ? LIMIT 1', name);
      if (bucket) return 'InUse';
      return (await isLastOperatorKey(tx, { tenant: name })) ? 'InUse' : undefined;
    },
    write: async (tx, { name }) => {
      for (const table of tenantTables) {
        await tx.run(`DELETE FROM ${table} WHERE tenant = ?`, name);
      }
      await tx.run('DELETE FROM tenants WHERE name = ?', name);
      await tx.run('INSERT INTO retired_tenants (name) VALUES (?)', name);
    },
  },

  createPrincipal: {
    check: async (tx, { tenant, name, groups }) => {
      if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
      if (await nameIsUsed(tx, tenant, 'principal', name)) return 'AlreadyExists';
      return (await groupsExist(tx, tenant, groups)) ? undefined : 'NoSuchGroup';
    },
    write: async (tx, { tenant, name, kind, role, groups }, timeMs) => {
      await insertPrincipal(tx, tenant, name, kind, role, timeMs);
      await insertMemberships(tx, tenant, name, groups);
    },
  },

  updatePrincipal: {
    check: async (tx, { tenant, name, role, groups, active }) => {
      const current = await roleOf(tx, tenant, name);
      if (!current) return missing(tx, tenant, 'NoSuchPrincipal');
      if (groups && !(await groupsExist(tx, tenant, groups))) return 'NoSuchGroup';
      const demoted = role !== undefined && role !== 'operator';
      const leaves = current === 'operator' && (demoted || active === false);
      return leaves && (await isLastOperatorKey(tx, { tenant, principal: name }))
        ? 'InUse'
        : undefined;
    },
    write: async (tx, { tenant, name, role, groups, active }) => {
      if (active !== undefined) {
        const sql = 'UPDATE principals SET active = ? WHERE tenant = ? AND name = ?';
        await tx.run(sql, Number(active), tenant, name);
      }
      if (role !== undefined) await updateRole(tx, tenant, name, role);
      if (groups === undefined) return;
      await tx.run('DELETE FROM group_members WHERE tenant = ? AND principal = ?', tenant, name);
      await insertMemberships(tx, tenant, name, groups);
    },
  },

  deletePrincipal: {
    check: async (tx, { tenant, name }) => {
      if (!(await roleOf(tx, tenant, name))) return missing(tx, tenant, 'NoSuchPrincipal');
      const bucket = await tx.get(
        'SELECT 1 FROM buckets WHERE tenant = ? AND owner = ? LIMIT 1',
        tenant,
        name,
      );
      if (bucket) return 'InUse';
      return (await isLastOperatorKey(tx, { tenant, principal: name })) ? 'InUse' : undefined;
    },
    write: async (tx, { tenant, name }) => {
      await tx.run('DELETE FROM access_keys WHERE tenant = ? AND principal = ?', tenant, name);
      await tx.run('DELETE FROM public_keys WHERE tenant = ? AND principal = ?', tenant, name);
      await tx.run('DELETE FROM group_members WHERE tenant = ? AND principal = ?', tenant, name);
      await tx.run('DELETE FROM principals WHERE tenant = ? AND name = ?', tenant, name);
      await retireName(tx, tenant, 'principal', name);
    },
  },

  createGroup: {
    check: async (tx, { tenant, name }) => {
      if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
      return (await nameIsUsed(tx, tenant, 'group', name)) ? 'AlreadyExists' : undefined;
    },
    write: async (tx, { tenant, name }, timeMs) => {
      await tx.run(
        'INSERT INTO groups (tenant, name, created_ms) VALUES (?, ?, ?)',
        tenant,
        name,
        timeMs,
      );
    },
  },

  deleteGroup: {
    check: async (tx, { tenant, name }) =>
      (await groupsExist(tx, tenant, [name])) ? undefined : missing(tx, tenant, 'NoSuchGroup'),
    write: async (tx, { tenant, name }) => {
      await tx.run('DELETE FROM group_members WHERE tenant = ? AND group_name = ?', tenant, name);
      await tx.run('DELETE FROM groups WHERE tenant = ? AND name = ?', tenant, name);
      await retireName(tx, tenant, 'group', name);
    },
  },

  createAccessKey: {
    check: async (tx, { tenant, principal, id }) => {
      if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
      return refuseAccessKey(tx, tenant, principal, id);
    },
    write: (tx, { tenant, principal, id, sealedSecret }, timeMs) =>
      insertAccessKey(tx, tenant, principal, id, sealedSecret, timeMs),
  },

  updateAccessKey: {
    check: async (tx, { tenant, principal, id, active }) => {
      const owner = await accessKeyOwner(tx, id);
      if (owner?.tenant !== tenant || owner.principal !== principal) {
        if (await roleOf(tx, tenant, principal)) return 'NoSuchAccessKey';
        return missing(tx, tenant, 'NoSuchPrincipal');
      }
      return !active && (await isLastOperatorKey(tx, { id })) ? 'InUse' : undefined;
    },
    write: async (tx, { id, active }, timeMs) => {
      await tx.run('UPDATE access_keys SET active = ? WHERE id = ?', Number(active), id);
      if (!active) await revokeAskedWith(tx, id, timeMs);
      const sql = `UPDATE public_keys SET active = ? WHERE thumbprint = (${thumbprintOfKey})`;
      await tx.run(sql, Number(active), id);
    },
  },

  deleteAccessKey: {
    check: async (tx, { tenant, principal, id }) => {
      const owner = await accessKeyOwner(tx, id);
      if (owner?.tenant !== tenant || owner.principal !== principal) {
        if (await roleOf(tx, tenant, principal)) return 'NoSuchAccessKey';
        return missing(tx, tenant, 'NoSuchPrincipal');
      }
      return (await isLastOperatorKey(tx, { id })) ? 'InUse' : undefined;
    },
    write: async (tx, { tenant, id }, timeMs) => {
      const key = await tx.get<{ thumbprint: string | null }>(thumbprintOfKey, id);
      await tx.run('DELETE FROM access_keys WHERE id = ?', id);
      await revokeAskedWith(tx, id, timeMs);
      if (key?.thumbprint) await removePublicKey(tx, tenant, key.thumbprint);
    },
  },

  putRootKey: {
    check: async (tx, { id }) => {
      const owner = await accessKeyOwner(tx, id);
      if (!owner) return undefined;
      const isOurs = owner.tenant === defaultTenant && owner.principal === rootPrincipal;
      return isOurs ? undefined : 'AlreadyExists';
    },
    write: writeRootKey,
  },
};

async function writeRootKey(tx: Tx, change: ChangeOf<'putRootKey'>, timeMs: number): Promise<void> {
  if (!(await tenantExists(tx, defaultTenant))) {
    await insertTenant(tx, { name: defaultTenant, membersCreateBuckets: true }, timeMs);
  }
  if (await roleOf(tx, defaultTenant, rootPrincipal)) {
    await updateRole(tx, defaultTenant, rootPrincipal, 'operator');
    const sql = 'UPDATE principals SET active = 1 WHERE tenant = ? AND name = ?';
    await tx.run(sql, defaultTenant, rootPrincipal);
  } else {
    await insertPrincipal(tx, defaultTenant, rootPrincipal, 'person', 'operator', timeMs);
  }
  const formerKeys = await tx.all<{ id: string }>(
    'SELECT id FROM access_keys WHERE tenant = ? AND principal = ? AND id <> ?',
    ...[defaultTenant, rootPrincipal, change.id],
  );
  for (const { id } of formerKeys) await revokeAskedWith(tx, id, timeMs);
  for (const table of ['access_keys', 'public_keys']) {
    const sql = `DELETE FROM ${table} WHERE tenant = ? AND principal = ?`;
    await tx.run(sql, defaultTenant, rootPrincipal);
  }
  await insertAccessKey(tx, defaultTenant, rootPrincipal, change.id, change.sealedSecret, timeMs);
}

async function tenantNameIsUsed(tx: Tx, name: string): Promise<boolean> {
  if (await tenantExists(tx, name)) return true;
  return (await tx.get('SELECT 1 FROM retired_tenants WHERE name = ?', name)) !== undefined;
}

/** Names of those that are gone are not given again: records, grants and tokens may have them. */
async function nameIsUsed(
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

async function retireName(tx: Tx, tenant: string, kind: RetiredKind, name: string): Promise<void> {
  await tx.run('INSERT INTO retired_names VALUES (?, ?, ?)', tenant, kind, name);
}

async function groupsExist(tx: Tx, tenant: string, names: readonly string[]): Promise<boolean> {
  for (const name of names) {
    const sql = 'SELECT 1 FROM groups WHERE tenant = ? AND name = ?';
    if (!(await tx.get(sql, tenant, name))) return false;
  }
  return true;
}

/** Of a SigV4A key: its other row, which is switched and deleted with it. */
const thumbprintOfKey = 'SELECT thumbprint FROM access_keys WHERE id = ?';

/** Deletes an enrolled key. It is not enrolled again: what it signed would come back with it. */
export async function removePublicKey(tx: Tx, tenant: string, thumbprint: string): Promise<void> {
  await tx.run('DELETE FROM public_keys WHERE thumbprint = ?', thumbprint);
  await retireName(tx, tenant, 'public-key', thumbprint);
}

/** Why a principal that exists cannot have another access key, of this id. */
export async function refuseAccessKey(
  tx: Tx,
  tenant: string,
  principal: string,
  id: string,
): Promise<ErrorCode | undefined> {
  if (await accessKeyOwner(tx, id)) return 'AlreadyExists';
  const held = await tx.get<{ count: number }>(
    'SELECT count(*) AS count FROM access_keys WHERE tenant = ? AND principal = ?',
    tenant,
    principal,
  );
  return Number(held?.count) >= accessKeysPerPrincipalMax ? 'TooManyAccessKeys' : undefined;
}

async function accessKeyOwner(
  tx: Tx,
  id: string,
): Promise<{ tenant: string; principal: string } | undefined> {
  return tx.get('SELECT tenant, principal FROM access_keys WHERE id = ?', id);
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

async function insertTenant(
  tx: Tx,
  tenant: Omit<ChangeOf<'createTenant'>, 'type'>,
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

async function insertPrincipal(
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

async function updateRole(tx: Tx, tenant: string, name: string, role: Role): Promise<void> {
  const sql = 'UPDATE principals SET role = ? WHERE tenant = ? AND name = ?';
  await tx.run(sql, role, tenant, name);
}

async function insertMemberships(
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

async function insertAccessKey(
  tx: Tx,
  tenant: string,
  principal: string,
  id: string,
  sealedSecret: Uint8Array,
  timeMs: number,
): Promise<void> {
  await tx.run(
    `INSERT INTO access_keys (id, tenant, principal, sealed_secret, created_ms)
     VALUES (?, ?, ?, ?, ?)`,
    id,
    tenant,
    principal,
    sealedSecret,
    timeMs,
  );
}
