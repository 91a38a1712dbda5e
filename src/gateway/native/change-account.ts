// What the record of an administrative call says that it changed. Invariants: each kind of change says
// here what is told of it, so that none can be added in silence; and nothing with which another could
// act is told: no secret, sealed or hashed, and of a webhook's URL only where it leads.
import { renderVerifier } from '../../audit/log/note.ts';
import { recordedChange } from '../../audit/recorded-change.ts';
import { membersOfAuthz } from '../../authz/change-members.ts';
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
