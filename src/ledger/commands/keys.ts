// Commands of access keys. The public key of a SigV4A key is switched and deleted with it, and
// there is always an operator with an access key.
import {
  countRows,
  insertPrincipal,
  insertTenant,
  isLastOperatorKey,
  missing,
  roleOf,
  tenantExists,
  updateRole,
} from '../../authz/identity-rows.ts';
import {
  accessKeyOwner,
  insertAccessKey,
  type KeyPurpose,
  refuseAccessKey,
  refuseLossOfKey,
  refuseUnknownKey,
  removePublicKey,
  revokeAskedWith,
  revokeMadeWith,
  thumbprintOfKey,
} from '../../authz/key-rows.ts';
import { hasTenantKey, insertTenantKey } from '../../authz/tenant-keys.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { publicKeysPerPrincipalMax } from '../../core/limits.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';
import { revokedWith, revokedWithFormerKeys, revokedWithPublicKey } from '../events.ts';
import { principalScope, type Scope } from '../scopes.ts';
import {
  identityCommand,
  type Owned,
  ownerOf,
  principalAndKey,
  tellsOfOwner,
} from './identity-command.ts';

/** An access key by its place. */
export interface KeyPlace extends Owned {
  id: string;
}

export interface CreateAccessKey extends KeyPlace {
  kind: 'createAccessKey';
  /** Sealed under `accessKeyContext(tenant, principal, id)`. */
  sealedSecret: Uint8Array;
}

/** Gives a principal an access key. */
export const createAccessKey = identityCommand<CreateAccessKey>({
  check: async (tx, { tenant, principal, id }) => {
    if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
    return refuseAccessKey(tx, tenant, principal, id);
  },
  write: (tx, { tenant, principal, id, sealedSecret }, timeMs) =>
    insertAccessKey(tx, tenant, principal, id, sealedSecret, timeMs),
  takesFrom: null,
  told: tellsOfOwner,
  account: ({ id }) => ({ accessKeyId: id }),
  causes: ({ id }) => [{ kind: 'accessKey', id }],
});

function scopeOf({ tenant, principal }: Owned): Scope {
  return principalScope(tenant, principal);
}

/** What all commands have in common that switch a key on or off. */
const switchesKey = {
  takesFrom: scopeOf,
  told: { ...tellsOfOwner, revokedWith: ownerOf },
  account: ({ active }: { active: boolean }) => ({ active }),
};

export interface UpdateAccessKey extends KeyPlace {
  kind: 'updateAccessKey';
  active: boolean;
}

/**
 * Switches an access key on or off. With it goes all that was asked for with it, and the public
 * key of a SigV4A key is switched too.
 */
export const updateAccessKey = identityCommand<UpdateAccessKey>({
  check: async (tx, change) =>
    change.active ? refuseUnknownAccessKey(tx, change) : refuseLossOfAccessKey(tx, change),
  write: async (tx, { id, active }, timeMs) => {
    await tx.run('UPDATE access_keys SET active = ? WHERE id = ?', Number(active), id);
    if (!active) await revokeAskedWith(tx, id, timeMs);
    const sql = `UPDATE public_keys SET active = ? WHERE thumbprint = (${thumbprintOfKey})`;
    await tx.run(sql, Number(active), id);
  },
  ...switchesKey,
  causes: async ({ id, active }, tx) => [
    { kind: 'accessKey', id },
    ...(active ? [] : await revokedWith(tx, id)),
  ],
});

export interface DeleteAccessKey extends KeyPlace {
  kind: 'deleteAccessKey';
}

/**
 * Deletes an access key, and with it all that was asked for with it, and the public key of a
 * SigV4A key.
 */
export const deleteAccessKey = identityCommand<DeleteAccessKey>({
  check: refuseLossOfAccessKey,
  write: async (tx, { tenant, id }, timeMs) => {
    const key = await tx.get<{ thumbprint: string | null }>(thumbprintOfKey, id);
    await tx.run('DELETE FROM access_keys WHERE id = ?', id);
    await revokeAskedWith(tx, id, timeMs);
    if (key?.thumbprint) await removePublicKey(tx, tenant, key.thumbprint);
  },
  takesFrom: scopeOf,
  told: {
    things: async (change, tx) => {
      const key = await tx.get<{ thumbprint: string | null }>(thumbprintOfKey, change.id);
      return principalAndKey(change, key?.thumbprint);
    },
    isAwaited: true,
    revokedWith: ownerOf,
  },
  account: null,
  causes: async ({ id }, tx) => [{ kind: 'accessKey', id }, ...(await revokedWith(tx, id))],
});

/** Why there is no such key of the principal; undefined: there is. */
async function refuseUnknownAccessKey(tx: Tx, change: KeyPlace): Promise<ErrorCode | undefined> {
  const { tenant, principal, id } = change;
  const owner = await accessKeyOwner(tx, id);
  if (owner?.tenant === tenant && owner.principal === principal) return undefined;
  if (await roleOf(tx, tenant, principal)) return 'NoSuchAccessKey';
  return missing(tx, tenant, 'NoSuchPrincipal');
}

/** Why it may not be taken away. */
async function refuseLossOfAccessKey(tx: Tx, change: KeyPlace): Promise<ErrorCode | undefined> {
  const fault = await refuseUnknownAccessKey(tx, change);
  if (fault) return fault;
  return (await isLastOperatorKey(tx, { id: change.id })) ? 'InUse' : undefined;
}

/** Makes `default/admin` an operator with this key and no other: former ones stop working. */
export interface PutRootKey {
  kind: 'putRootKey';
  id: string;
  sealedSecret: Uint8Array;
  /** The secret of the tenant, sealed, where it has none; absent: it gets one later. */
  sealedTenantKey?: Uint8Array;
}

/** Gives the gateway's own operator its key, before anybody is served. */
export const putRootKey = identityCommand<PutRootKey>({
  check: async (tx, { id }) => {
    const owner = await accessKeyOwner(tx, id);
    if (!owner) return undefined;
    const isOurs = owner.tenant === defaultTenant && owner.principal === rootPrincipal;
    return isOurs ? undefined : 'AlreadyExists';
  },
  write: writeRootKey,
  takesFrom: null,
  told: {
    things: () => [
      { kind: 'tenant', tenant: defaultTenant, name: '' },
      { kind: 'principal', tenant: defaultTenant, name: rootPrincipal },
    ],
    isAwaited: true,
    revokedWith: () => ({ tenant: defaultTenant, principal: rootPrincipal }),
  },
  account: ({ id }) => ({ accessKeyId: id }),
  causes: async ({ id, sealedTenantKey }, tx) => [
    ...(sealedTenantKey && !(await hasTenantKey(tx, defaultTenant))
      ? [{ kind: 'tenantKey', name: defaultTenant } as const]
      : []),
    { kind: 'principal', tenant: defaultTenant, name: rootPrincipal },
    ...(await revokedWithFormerKeys(tx, id)),
  ],
});

async function writeRootKey(tx: Tx, change: PutRootKey, timeMs: number): Promise<void> {
  if (!(await tenantExists(tx, defaultTenant))) {
    await insertTenant(tx, { name: defaultTenant, membersCreateBuckets: true }, timeMs);
  }
  const { sealedTenantKey } = change;
  if (sealedTenantKey && !(await hasTenantKey(tx, defaultTenant))) {
    await insertTenantKey(tx, defaultTenant, sealedTenantKey, timeMs);
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

// Commands of public keys: those that sign tokens and proofs, and those that verify SigV4A
// requests, which are access keys too and are switched and deleted together with these.

export interface CreatePublicKey extends Owned {
  kind: 'createPublicKey';
  /** RFC 7638. */
  thumbprint: string;
  /** JSON. */
  jwk: string;
  /** What its holder signed to enrol it, which was verified. */
  proof: string;
  purpose: KeyPurpose;
  /** Of a `sigv4a` key; else null. */
  accessKeyId: string | null;
}

/**
 * Enrols a public key: one that signs tokens and proofs, or one that verifies SigV4A requests,
 * which is an access key too. A key belongs to one principal of the whole gateway, and one that
 * was deleted is not enrolled again, or the tokens it once signed would come back with it.
 */
export const createPublicKey = identityCommand<CreatePublicKey>({
  check: async (tx, { tenant, principal, thumbprint, accessKeyId }) => {
    if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
    if (await thumbprintIsUsed(tx, tenant, thumbprint)) return 'AlreadyExists';
    const held = await countRows(
      tx,
      'public_keys WHERE tenant = ? AND principal = ?',
      ...[tenant, principal],
    );
    if (held >= publicKeysPerPrincipalMax) return 'TooManyPublicKeys';
    return accessKeyId === null ? undefined : refuseAccessKey(tx, tenant, principal, accessKeyId);
  },
  write: async (tx, change, timeMs, seq) => {
    const { tenant, principal, thumbprint, jwk, purpose, proof, accessKeyId } = change;
    await tx.run(
      `INSERT INTO public_keys
         (thumbprint, tenant, principal, jwk, purpose, proof, created_ms, enrolled_seq)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[thumbprint, tenant, principal, jwk, purpose, proof, timeMs, seq],
    );
    if (accessKeyId === null) return;
    await tx.run(
      `INSERT INTO access_keys (id, tenant, principal, thumbprint, created_ms)
       VALUES (?, ?, ?, ?, ?)`,
      ...[accessKeyId, tenant, principal, thumbprint, timeMs],
    );
  },
  takesFrom: null,
  told: tellsOfOwner,
  account: ({ thumbprint, jwk, purpose, accessKeyId }) => ({
    ...{ thumbprint, jwk: JSON.parse(jwk) as object, purpose, accessKeyId },
  }),
  causes: ({ thumbprint }) => [{ kind: 'publicKey', thumbprint }],
});

async function thumbprintIsUsed(tx: Tx, tenant: string, thumbprint: string): Promise<boolean> {
  // Of another tenant none needs to be retired: old tokens name a principal that is not theirs.
  const sql = `SELECT 1 FROM public_keys WHERE thumbprint = ?
    UNION ALL SELECT 1 FROM retired_names WHERE tenant = ? AND kind = 'public-key' AND name = ?`;
  return (await tx.get(sql, thumbprint, tenant, thumbprint)) !== undefined;
}

export interface UpdatePublicKey extends Owned {
  kind: 'updatePublicKey';
  thumbprint: string;
  active: boolean;
}

/** Switches a public key on or off, with the access key of a SigV4A key. */
export const updatePublicKey = identityCommand<UpdatePublicKey>({
  check: async (tx, change) =>
    change.active ? refuseUnknownKey(tx, change) : refuseLossOfKey(tx, change),
  write: async (tx, { thumbprint, active }, timeMs) => {
    if (!active) await revokeMadeWith(tx, thumbprint, timeMs);
    for (const table of ['public_keys', 'access_keys']) {
      const sql = `UPDATE ${table} SET active = ? WHERE thumbprint = ?`;
      await tx.run(sql, Number(active), thumbprint);
    }
  },
  ...switchesKey,
  causes: async ({ thumbprint, active }, tx) => [
    { kind: 'publicKey', thumbprint },
    ...(active ? [] : await revokedWithPublicKey(tx, thumbprint)),
  ],
});

export interface DeletePublicKey extends Owned {
  kind: 'deletePublicKey';
  thumbprint: string;
}

/** Deletes a public key, with the access key of a SigV4A key. It is not enrolled again. */
export const deletePublicKey = identityCommand<DeletePublicKey>({
  check: refuseLossOfKey,
  write: async (tx, { tenant, thumbprint }, timeMs) => {
    await revokeMadeWith(tx, thumbprint, timeMs);
    await tx.run('DELETE FROM access_keys WHERE thumbprint = ?', thumbprint);
    await removePublicKey(tx, tenant, thumbprint);
  },
  takesFrom: scopeOf,
  told: {
    things: (change) => principalAndKey(change, change.thumbprint),
    isAwaited: true,
    revokedWith: ownerOf,
  },
  account: null,
  causes: async ({ thumbprint }, tx) => [
    { kind: 'publicKey', thumbprint },
    ...(await revokedWithPublicKey(tx, thumbprint)),
  ],
});
