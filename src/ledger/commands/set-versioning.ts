// Switches a bucket's versioning.

import {
  type SetVersioning,
  setVersioning as setVersioningRows,
} from '../../catalog/bucket-changes.ts';
import { namedBucket } from '../events.ts';
import type { Command } from './command.ts';

export const setVersioning: Command<SetVersioning> = {
  apply: setVersioningRows,
  takesFrom: null,
  told: null,
  account: null,
  causes: ({ bucketId }, tx) => namedBucket(tx, bucketId),
};
