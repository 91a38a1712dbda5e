// Puts a bucket's policy, or takes it away.

import {
  type PutBucketPolicy,
  putBucketPolicy as putBucketPolicyRows,
} from '../../catalog/bucket-changes.ts';
import { namedBucket } from '../events.ts';
import { bucketOf } from '../scopes.ts';
import type { Command } from './command.ts';

export const putBucketPolicy: Command<PutBucketPolicy> = {
  apply: putBucketPolicyRows,
  takesFrom: (_, record) => bucketOf(record),
  told: null,
  account: null,
  causes: ({ bucketId }, tx) => namedBucket(tx, bucketId),
};
