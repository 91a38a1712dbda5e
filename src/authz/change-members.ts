// What the record of a change of identities says that it changed. Invariants: each type of change says
// here what is told of it, so that none can be added in silence; and nothing with which another could
// act is told: no secret, sealed or hashed.
import { isoTime } from '../core/clock.ts';
import type { AuthzChange } from './changes.ts';

/** null: the record's action and target say all. */
export function membersOfAuthz(change: AuthzChange): object | null {
  switch (change.type) {
    case 'createTenant':
    case 'updateTenant':
      return pick(change, ['membersCreateBuckets', 'defaultStore', 'recordReads']);
    case 'createPrincipal':
    case 'updatePrincipal':
      return pick(change, ['kind', 'role', 'groups', 'active']);
    case 'createAccessKey':
    case 'putRootKey':
      return { accessKeyId: change.id };
    case 'updateAccessKey':
    case 'updatePublicKey':
      return { active: change.active };
    case 'createPublicKey': {
      const { thumbprint, jwk, purpose, accessKeyId } = change;
      return { thumbprint, jwk: JSON.parse(jwk) as object, purpose, accessKeyId };
    }
    case 'putGrant':
      return pick(change.grant, [
        ...(['effect', 'subjects', 'actions', 'bucket', 'prefix', 'key', 'conditions'] as const),
      ]);
    case 'putIssuer':
      return pick(change, ['url', 'audience', 'mapping']);
    case 'putMount':
      return pick(change, ['bucketTenant', 'bucket']);
    case 'addToken': {
      const { scope, holder, depthMax, conditions, label } = change.details;
      const expiresAt = isoTime(change.expiresMs);
      return { id: change.id, scope, holder, depthMax, conditions, label, expiresAt };
    }
    case 'addShare': {
      const { bucketTenant, bucket, key } = change.shared;
      const { id, downloadsMax, expiresMs } = change;
      return { id, bucketTenant, bucket, key, downloadsMax, expiresAt: isoTime(expiresMs) };
    }
    case 'revokeToken': {
      const { id, tenant, principal, expiresMs } = change;
      const expiresAt = expiresMs === null ? null : isoTime(expiresMs);
      return { id, principal: `${tenant}/${principal}`, expiresAt };
    }
    case 'deleteTenant':
    case 'deletePrincipal':
    case 'createGroup':
    case 'deleteGroup':
    case 'deleteAccessKey':
    case 'deletePublicKey':
    case 'deleteGrant':
    case 'deleteMount':
    case 'deleteIssuer':
      return null;
  }
}

function pick<T extends object, K extends AllKeys<T>>(from: T, names: readonly K[]): object {
  const values = from as Partial<Record<K, unknown>>;
  return Object.fromEntries(names.map((name) => [name, values[name]]));
}

/** Of any member of a union. */
type AllKeys<T> = T extends T ? keyof T : never;
