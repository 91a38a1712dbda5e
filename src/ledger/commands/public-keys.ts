// Commands of public keys: those that sign tokens and proofs, and those that verify SigV4A
// requests, which are access keys too and are switched and deleted together with these.
import { countRows, missing, roleOf } from '../../authz/identity-rows.ts';
import {
  refuseAccessKey,
  refuseLossOfKey,
  refuseUnknownKey,
  removePublicKey,
  revokeMadeWith,
} from '../../authz/key-rows.ts';
import type { KeyPurpose } from '../../authz/public-keys.ts';
import type { Tx } from '../../core/database.ts';
import { publicKeysPerPrincipalMax } from '../../core/limits.ts';
import { revokedWithPublicKey } from '../events.ts';
import { principalScope } from '../scopes.ts';
import {
  identityCommand,
  type Owned,
  ownerOf,
  principalAndKey,
  tellsOfOwner,
} from './identity-command.ts';

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
      tenant,
      principal,
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
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: { ...tellsOfOwner, revokedWith: ownerOf },
  account: ({ active }) => ({ active }),
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
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
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
