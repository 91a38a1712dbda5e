// Changes of the public keys of principals: those that sign tokens and proofs, and those that
// verify SigV4A requests. Invariants: a key belongs to one principal of the whole gateway; one that
// was deleted is not enrolled again, or the tokens it once signed would come back with it; and a
// SigV4A key is a public key and an access key, which are made, switched and deleted together.
import type { Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import { publicKeysPerPrincipalMax } from '../core/limits.ts';
import { missing, roleOf, type StepsOf } from './change-steps.ts';
import { isLastOperatorKey, refuseAccessKey, removePublicKey } from './identity-changes.ts';
import { revokeAskedWith } from './token-changes.ts';

/** `token`: it signs tokens and proofs. `sigv4a`: it signs requests, with an access key id. */
export const keyPurposes = ['token', 'sigv4a'] as const;
export type KeyPurpose = (typeof keyPurposes)[number];

export type PublicKeyChange =
  | {
      type: 'createPublicKey';
      tenant: string;
      principal: string;
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
  | {
      type: 'updatePublicKey';
      tenant: string;
      principal: string;
      thumbprint: string;
      active: boolean;
    }
  | { type: 'deletePublicKey'; tenant: string; principal: string; thumbprint: string };

type Named = Extract<PublicKeyChange, { type: 'deletePublicKey' | 'updatePublicKey' }>;

export const publicKeySteps: StepsOf<PublicKeyChange> = {
  createPublicKey: {
    check: async (tx, { tenant, principal, thumbprint, accessKeyId }) => {
      if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
      if (await thumbprintIsUsed(tx, tenant, thumbprint)) return 'AlreadyExists';
      const held = await tx.get<{ count: number }>(
        'SELECT count(*) AS count FROM public_keys WHERE tenant = ? AND principal = ?',
        tenant,
        principal,
      );
      if (Number(held?.count) >= publicKeysPerPrincipalMax) return 'TooManyPublicKeys';
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
  },

  updatePublicKey: {
    check: async (tx, change) =>
      change.active ? refuseUnknown(tx, change) : refuseLoss(tx, change),
    write: async (tx, { thumbprint, active }, timeMs) => {
      if (!active) await revokeMadeWith(tx, thumbprint, timeMs);
      for (const table of ['public_keys', 'access_keys']) {
        const sql = `UPDATE ${table} SET active = ? WHERE thumbprint = ?`;
        await tx.run(sql, Number(active), thumbprint);
      }
    },
  },

  deletePublicKey: {
    check: refuseLoss,
    write: async (tx, { tenant, thumbprint }, timeMs) => {
      await revokeMadeWith(tx, thumbprint, timeMs);
      await tx.run('DELETE FROM access_keys WHERE thumbprint = ?', thumbprint);
      await removePublicKey(tx, tenant, thumbprint);
    },
  },
};

async function thumbprintIsUsed(tx: Tx, tenant: string, thumbprint: string): Promise<boolean> {
  // Of another tenant none needs to be retired: old tokens name a principal that is not theirs.
  const sql = `SELECT 1 FROM public_keys WHERE thumbprint = ?
    UNION ALL SELECT 1 FROM retired_names WHERE tenant = ? AND kind = 'public-key' AND name = ?`;
  return (await tx.get(sql, thumbprint, tenant, thumbprint)) !== undefined;
}

async function refuseUnknown(tx: Tx, change: Named): Promise<ErrorCode | undefined> {
  const { tenant, principal, thumbprint } = change;
  const sql = 'SELECT 1 FROM public_keys WHERE thumbprint = ? AND tenant = ? AND principal = ?';
  if (await tx.get(sql, thumbprint, tenant, principal)) return undefined;
  if (await roleOf(tx, tenant, principal)) return 'NoSuchPublicKey';
  return missing(tx, tenant, 'NoSuchPrincipal');
}

/** What a key of tokens signed is refused with it; tokens asked for with a SigV4A key are not. */
async function revokeMadeWith(tx: Tx, thumbprint: string, timeMs: number): Promise<void> {
  const accessKey = await accessKeyOf(tx, thumbprint);
  if (accessKey) await revokeAskedWith(tx, accessKey.id, timeMs);
}

async function accessKeyOf(tx: Tx, thumbprint: string): Promise<{ id: string } | undefined> {
  return tx.get('SELECT id FROM access_keys WHERE thumbprint = ?', thumbprint);
}

async function refuseLoss(tx: Tx, change: Named): Promise<ErrorCode | undefined> {
  const fault = await refuseUnknown(tx, change);
  if (fault) return fault;
  const accessKey = await accessKeyOf(tx, change.thumbprint);
  return accessKey && (await isLastOperatorKey(tx, accessKey)) ? 'InUse' : undefined;
}
