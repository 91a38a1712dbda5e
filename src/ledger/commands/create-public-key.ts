// Enrols a public key: one that signs tokens and proofs, or one that verifies SigV4A requests,
// which is an access key too. A key belongs to one principal of the whole gateway, and one that was
// deleted is not enrolled again, or the tokens it once signed would come back with it.
import { missing, roleOf } from '../../authz/identity-rows.ts';
import { refuseAccessKey } from '../../authz/key-rows.ts';
import type { KeyPurpose } from '../../authz/public-keys.ts';
import type { Tx } from '../../core/database.ts';
import { publicKeysPerPrincipalMax } from '../../core/limits.ts';
import { identityCommand, tellsOfOwner } from './identity-command.ts';

export interface CreatePublicKey {
  kind: 'createPublicKey';
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

export const createPublicKey = identityCommand<CreatePublicKey>({
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
