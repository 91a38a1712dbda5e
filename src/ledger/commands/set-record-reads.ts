// Sets how reads of a bucket are recorded.
import {
  type SetRecordReads as RecordReadsOfBucket,
  setRecordReads as setRecordReadsRows,
} from '../../catalog/bucket-changes.ts';
import type { Command } from './command.ts';

export interface SetRecordReads extends RecordReadsOfBucket {
  kind: 'setRecordReads';
}

export const setRecordReads: Command<SetRecordReads> = {
  apply: setRecordReadsRows,
  takesFrom: null,
  told: {
    // The bucket's own row in the journal tells it.
    things: () => [],
    isAwaited: true,
  },
  account: ({ recordReads }) => ({ recordReads }),
  causes: ({ tenant, name }) => [{ kind: 'bucket', tenant, name }],
};
