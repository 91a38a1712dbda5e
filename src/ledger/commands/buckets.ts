// Commands of buckets and of what is set of them. Their types, checks and rows are in `catalog/`,
// which tells the journal of a bucket's store about each.
import * as rows from '../../catalog/bucket-changes.ts';
import type { BucketRow } from '../../catalog/buckets.ts';
import { restoreBucket as putBackBucket, type RestoreBucket } from '../../catalog/restore.ts';
import {
  restoreSettings as putBackSettings,
  type RestoreSettings,
} from '../../catalog/roll-forward.ts';
import type { Tx } from '../../core/database.ts';
import type { ReadPayer } from '../../core/read-payer.ts';
import { namedBucket, restored } from '../events.ts';
import { bucketOf, bucketScope, type RecordedPlace } from '../scopes.ts';
import type { Command } from './command.ts';

export const createBucket: Command<rows.CreateBucket> = {
  apply: rows.createBucket,
  takesFrom: null,
  told: null,
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'bucket', tenant, name }],
};

/** Of a command of one bucket that may take rights away, by the bucket's id. */
const ofBucket = {
  takesFrom: (_: unknown, record: RecordedPlace) => bucketOf(record),
  told: null,
  account: null,
  causes: ({ bucketId }: { bucketId: number }, tx: Tx) => namedBucket(tx, bucketId),
};

export const deleteBucket: Command<rows.DeleteBucket> = { ...ofBucket, apply: rows.deleteBucket };

/** Puts the policy, or takes it away. */
export const putBucketPolicy: Command<rows.PutBucketPolicy> = {
  ...ofBucket,
  apply: rows.putBucketPolicy,
};

export const setVersioning: Command<rows.SetVersioning> = {
  ...ofBucket,
  apply: rows.setVersioning,
  takesFrom: null,
};

/** Puts one of the settings, or takes it away. */
export const putBucketSetting: Command<rows.PutBucketSetting> = {
  apply: rows.putBucketSetting,
  takesFrom: ({ name }, record) =>
    name === 'publicAccess' || name === 'acl' || name === 'ownership' ? bucketOf(record) : null,
  told: null,
  account: null,
  causes: ({ bucketId, name }, tx) => {
    switch (name) {
      case 'publicAccess':
      case 'acl':
      case 'readPayer':
      case 'ownership':
      case 'objectLock':
        return namedBucket(tx, bucketId);
      case 'cors':
      case 'encryption':
      case 'lifecycle':
      case 'metrics':
      case 'notification':
      case 'website':
        return [{ kind: 'setting', bucketId, name }];
      // They are read where they are asked for.
      case 'accelerate':
      case 'intelligentTiering':
      case 'inventory':
      case 'tagging':
        return [];
    }
  },
};

/** Sets for how long what is overwritten or deleted is held; or not at all. */
export const setUndelete: Command<rows.SetUndelete> = {
  apply: rows.setUndelete,
  takesFrom: null,
  // The bucket's own settings in the journal tell it.
  told: { things: () => [], isAwaited: true },
  account: ({ windowMs }) => (windowMs === null ? null : { seconds: windowMs / 1000 }),
  causes: ({ bucketId }) => [{ kind: 'setting', bucketId, name: 'undelete' }],
};

/** Sets how reads of a bucket are recorded. */
export const setRecordReads: Command<rows.SetRecordReads> = {
  apply: rows.setRecordReads,
  takesFrom: null,
  // The bucket's own row in the journal tells it.
  told: { things: () => [], isAwaited: true },
  account: ({ recordReads }) => ({ recordReads }),
  causes: ({ tenant, name }) => [{ kind: 'bucket', tenant, name }],
};

export interface SetReadPayer {
  kind: 'setReadPayer';
  tenant: string;
  name: string;
  bucketId: number;
  readsPaidBy: ReadPayer;
}

/** Sets who pays for reads of a bucket. */
export const setReadPayer: Command<SetReadPayer> = {
  apply: (tx, { bucketId, readsPaidBy }, work) => {
    const setting = { kind: 'putBucketSetting', bucketId, name: 'readPayer' } as const;
    return rows.putBucketSetting(
      tx,
      { ...setting, document: rows.payerDocument(readsPaidBy) },
      work,
    );
  },
  takesFrom: null,
  // The bucket's own row in the journal tells it.
  told: { things: () => [], isAwaited: true },
  account: ({ readsPaidBy }) => ({ readsPaidBy }),
  causes: ({ tenant, name }) => [{ kind: 'bucket', tenant, name }],
};

/** Gives a bucket to another principal. Whose rights and whose money it is, is decided anew. */
export const changeOwner: Command<rows.ChangeOwner> = {
  apply: rows.changeOwner,
  takesFrom: ({ tenant, name }) => bucketScope(tenant, name),
  // The bucket's own row in the journal tells it.
  told: { things: () => [], isAwaited: true },
  account: ({ from, to }) => ({ from, to }),
  causes: ({ tenant, name }) => [{ kind: 'bucket', tenant, name }],
};

/** Of a bucket that a journal tells of: only rebuilds and restores put it back. */
const ofRestored = {
  takesFrom: null,
  told: null,
  account: null,
  causes: ({ bucket }: { bucket: BucketRow }) => restored(bucket),
};

export const restoreBucket: Command<RestoreBucket> = { ...ofRestored, apply: putBackBucket };

export const restoreSettings: Command<RestoreSettings> = { ...ofRestored, apply: putBackSettings };
