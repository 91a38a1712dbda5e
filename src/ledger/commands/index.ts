// All commands of the ledger by the kind of their change, and the type of all changes. To add a
// command is to add a file and a row here, which the compiler asks for.

import { recordedChange } from '../../audit/recorded-change.ts';
import type {
  CreateBucket,
  DeleteBucket,
  PutBucketPolicy,
  PutBucketSetting,
  SetVersioning,
} from '../../catalog/bucket-changes.ts';
import type { RestoreBucket, RestoreVersion } from '../../catalog/restore.ts';
import type { RestoreAttributes, RestoreEnd, RestoreSettings } from '../../catalog/roll-forward.ts';
import type { AbortUpload, CompleteUpload, CreateUpload, PutPart } from '../../catalog/uploads.ts';
import type { AmendVersion } from '../../catalog/version-amendments.ts';
import type { CopyObject, DeleteObject, PutObject } from '../../catalog/version-changes.ts';
import type { Tx } from '../../core/database.ts';
import type { Caused } from '../events.ts';
import { abortUpload } from './abort-upload.ts';
import { type AddRootKey, addRootKey } from './add-root-key.ts';
import { amendVersion } from './amend-version.ts';
import type { Command } from './command.ts';
import { completeUpload } from './complete-upload.ts';
import { type ConfirmClock, confirmClock } from './confirm-clock.ts';
import { copyObject } from './copy-object.ts';
import { createBucket } from './create-bucket.ts';
import { createUpload } from './create-upload.ts';
import { deleteBucket } from './delete-bucket.ts';
import { deleteObject } from './delete-object.ts';
import { type EraseRecords, eraseRecords } from './erase-records.ts';
import { type ForgetLost, forgetLost } from './forget-lost.ts';
import { type IdentityChange, identityCommands } from './identities.ts';
import { type None, none } from './none.ts';
import { putBucketPolicy } from './put-bucket-policy.ts';
import { putBucketSetting } from './put-bucket-setting.ts';
import { putObject } from './put-object.ts';
import { putPart } from './put-part.ts';
import { restoreAttributes } from './restore-attributes.ts';
import { restoreBucket } from './restore-bucket.ts';
import { restoreEnd } from './restore-end.ts';
import { type RestoreIdentity, restoreIdentity } from './restore-identity.ts';
import { restoreSettings } from './restore-settings.ts';
import { restoreVersion } from './restore-version.ts';
import { type RevokeLogKey, revokeLogKey } from './revoke-log-key.ts';
import { type RotateLogKey, rotateLogKey } from './rotate-log-key.ts';
import { type SetAlarmHook, setAlarmHook } from './set-alarm-hook.ts';
import { type SetLimits, setLimits } from './set-limits.ts';
import { type SetRecordReads, setRecordReads } from './set-record-reads.ts';
import { setVersioning } from './set-versioning.ts';
import { type UseUpShare, useUpShare } from './use-up-share.ts';

export type Change =
  | IdentityChange
  | CreateBucket
  | DeleteBucket
  | PutBucketPolicy
  | SetVersioning
  | PutBucketSetting
  | SetRecordReads
  | PutObject
  | CopyObject
  | DeleteObject
  | AmendVersion
  | CreateUpload
  | PutPart
  | CompleteUpload
  | AbortUpload
  | RestoreBucket
  | RestoreVersion
  | RestoreSettings
  | RestoreAttributes
  | RestoreEnd
  | None
  | AddRootKey
  | RotateLogKey
  | RevokeLogKey
  | ConfirmClock
  | EraseRecords
  | SetLimits
  | ForgetLost
  | SetAlarmHook
  | UseUpShare
  | RestoreIdentity;

export const commands: {
  readonly [K in Change['kind']]: Command<Extract<Change, { kind: K }>>;
} = {
  ...identityCommands,
  createBucket,
  deleteBucket,
  putBucketPolicy,
  setVersioning,
  putBucketSetting,
  setRecordReads,
  putObject,
  copyObject,
  deleteObject,
  amendVersion,
  createUpload,
  putPart,
  completeUpload,
  abortUpload,
  restoreBucket,
  restoreVersion,
  restoreSettings,
  restoreAttributes,
  restoreEnd,
  none,
  addRootKey,
  rotateLogKey,
  revokeLogKey,
  confirmClock,
  eraseRecords,
  setLimits,
  forgetLost,
  setAlarmHook,
  useUpShare,
  restoreIdentity,
};

export function commandOf(change: Change): Command<Change> {
  return commands[change.kind] as Command<Change>;
}

/** What a change changed, as records say it; null: the record's action and target say all. */
export function membersOf(change: Change): object | null {
  return commandOf(change).account?.(change) ?? null;
}

/** The same in the form of records. */
export function accountOf(change: Change): object | null {
  const members = membersOf(change);
  return members && recordedChange(members);
}

/**
 * What a change makes of what is kept in memory; null: nothing there depends on it. To be called
 * before it is applied.
 */
export function eventsOf(tx: Tx, change: Change): Caused | Promise<Caused> | null {
  return commandOf(change).causes?.(change, tx) ?? null;
}
