// Puts one of a bucket's settings, or takes it away.

import {
  type PutBucketSetting,
  putBucketSetting as putBucketSettingRows,
} from '../../catalog/bucket-changes.ts';
import { namedBucket } from '../events.ts';
import { bucketOf } from '../scopes.ts';
import type { Command } from './command.ts';

export const putBucketSetting: Command<PutBucketSetting> = {
  apply: putBucketSettingRows,
  takesFrom: ({ name }, record) =>
    name === 'publicAccess' || name === 'ownership' ? bucketOf(record) : null,
  told: null,
  account: null,
  causes: ({ bucketId, name }, tx) => {
    switch (name) {
      case 'publicAccess':
      case 'ownership':
      case 'objectLock':
        return namedBucket(tx, bucketId);
      case 'cors':
      case 'lifecycle':
        return [{ kind: 'setting', bucketId, name }];
      // It is read where it is asked for.
      case 'tagging':
        return [];
    }
  },
};
