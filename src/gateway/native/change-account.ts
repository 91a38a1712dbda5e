// What the record of an administrative call says that it changed. Invariants: each kind of change says
// here what is told of it, so that none can be added in silence; and nothing with which another could
// act is told: no secret, sealed or hashed, and of a webhook's URL only where it leads.
import { renderVerifier } from '../../audit/log/note.ts';
import { recordedChange } from '../../audit/recorded-change.ts';
import type { AuthzChange } from '../../authz/changes.ts';
import { isoTime } from '../../core/clock.ts';
import { signerOf } from '../../ledger/log-signing.ts';
import type { NativeChange } from './deps.ts';

/** null: the record's action and target say all. */
export function accountOf(change: NativeChange): object | null {
  const told = membersOf(change);
  return told && recordedChange(told);
}

function membersOf(change: NativeChange): object | null {
  switch (change.type) {
    case 'setLimits':
    case 'forgetLost':
      // What is set is the record's `limits`.
      return null;
    case 'setAlarmHook':
      return change.hook && { origin: new URL(change.hook.url).origin };
    case 'rotateLogKey': {
      const { key } = signerOf(change.key);
      return { verifier: renderVerifier(key), othersSignUntil: isoTime(change.retireMs) };
    }
    case 'revokeLogKey':
      return { keyId: change.id };
    case 'eraseRecords':
      return { erased: change.indexes, reason: change.reason };
    case 'confirmClock':
      return { stepMs: change.stepMs };
    case 'addRootKey':
      return { epoch: change.key.epoch };
    case 'setRecordReads':
      return { recordReads: change.recordReads };
    default:
      return membersOfAuthz(change);
  }
}

function membersOfAuthz(change: AuthzChange): object | null {
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
    case 'revokeToken':
      return { id: change.id, principal: `${change.tenant}/${change.principal}` };
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
