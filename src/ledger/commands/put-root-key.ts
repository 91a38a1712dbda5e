// Gives the gateway's own operator its key, before anybody is served.
import {
  insertPrincipal,
  insertTenant,
  roleOf,
  tenantExists,
  updateRole,
} from '../../authz/identity-rows.ts';
import { accessKeyOwner, insertAccessKey, revokeAskedWith } from '../../authz/key-rows.ts';
import type { Tx } from '../../core/database.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';
import { revokedWithFormerKeys } from '../events.ts';
import { identityCommand } from './identity-command.ts';

/** Makes `default/admin` an operator with this key and no other: former ones stop working. */
export interface PutRootKey {
  kind: 'putRootKey';
  id: string;
  sealedSecret: Uint8Array;
}

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
  causes: async ({ id }, tx) => [
    { kind: 'principal', tenant: defaultTenant, name: rootPrincipal },
    ...(await revokedWithFormerKeys(tx, id)),
  ],
});

async function writeRootKey(tx: Tx, change: PutRootKey, timeMs: number): Promise<void> {
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
