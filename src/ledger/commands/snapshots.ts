// Commands of snapshots. Their types, checks and rows are in `catalog/`.
import { getBucket } from '../../catalog/buckets.ts';
import { type HeldRow, releaseRows } from '../../catalog/held-release.ts';
import { refused } from '../../catalog/outcome.ts';
import { purgeHeld as findPurged, type PurgeHeld } from '../../catalog/purge-held.ts';
import * as rows from '../../catalog/snapshots.ts';
import { isoTime } from '../../core/clock.ts';
import { namedBucket } from '../events.ts';
import type { Command } from './command.ts';

/** The catalog's outbox tells the journal of the bucket's store. */
const told = { things: () => [], isAwaited: true };

export const createSnapshot: Command<rows.CreateSnapshot> = {
  apply: rows.createSnapshot,
  takesFrom: null,
  told,
  account: ({ prefix, expiresMs, lock }) => ({
    prefix,
    expiresAt: expiresMs === null ? null : isoTime(expiresMs),
    lock,
  }),
  causes: ({ bucketId }, tx) => namedBucket(tx, bucketId),
};

/** Only rebuilds put one back, of what a journal tells. */
export const restoreSnapshot: Command<rows.RestoreSnapshot> = {
  apply: rows.restoreSnapshot,
  takesFrom: null,
  told: null,
  account: ({ prefix, expiresMs, lock, createdMs }) => ({
    prefix,
    expiresAt: expiresMs === null ? null : isoTime(expiresMs),
    lock,
    createdAt: isoTime(createdMs),
  }),
  causes: ({ bucketId }, tx) => namedBucket(tx, bucketId),
};

export const deleteSnapshot: Command<rows.DeleteSnapshot> = {
  apply: rows.deleteSnapshot,
  takesFrom: null,
  told,
  account: ({ bypassGovernance }) => (bypassGovernance ? { bypassGovernance } : null),
  causes: ({ bucketId }, tx) => namedBucket(tx, bucketId),
};

/** Lets go of what is held of a key or a prefix, whoever has it. */
export const purgeHeld: Command<PurgeHeld> = {
  apply: findPurged,
  takesFrom: null,
  told: null,
  account: ({ key, isPrefix, reason }) => ({ ...(isPrefix ? { prefix: key } : { key }), reason }),
  causes: null,
};

/** Ends versions that no snapshot has any more. Only the gateway itself asks for it. */
export interface ReleaseHeld {
  kind: 'releaseHeld';
  bucketId: number;
  /** `seq` of the dying snapshot that held them. */
  holder: number;
  /** As they were read in the same transaction. */
  rows: readonly HeldRow[];
}

export const releaseHeld: Command<ReleaseHeld> = {
  apply: async (tx, { bucketId, holder, rows: held }, moment) => {
    const bucket = await getBucket(tx, bucketId);
    if (!bucket) return refused('NoSuchBucket');
    const storage = await releaseRows(tx, { bucket, holder, rows: held }, moment);
    return { ok: true, storage, result: null };
  },
  takesFrom: null,
  told: null,
  account: null,
  causes: null,
};
