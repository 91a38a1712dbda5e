// Makes a bucket.
import {
  type CreateBucket,
  createBucket as createBucketRows,
} from '../../catalog/bucket-changes.ts';
import type { Command } from './command.ts';

export const createBucket: Command<CreateBucket> = {
  apply: createBucketRows,
  takesFrom: null,
  told: null,
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'bucket', tenant, name }],
};
