// Deletes a bucket that is empty.

import {
  type DeleteBucket,
  deleteBucket as deleteBucketRows,
} from '../../catalog/bucket-changes.ts';
import { namedBucket } from '../events.ts';
import { bucketOf } from '../scopes.ts';
import type { Command } from './command.ts';

export const deleteBucket: Command<DeleteBucket> = {
  apply: deleteBucketRows,
  takesFrom: (_, record) => bucketOf(record),
  told: null,
  account: null,
  causes: ({ bucketId }, tx) => namedBucket(tx, bucketId),
};
