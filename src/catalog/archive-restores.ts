// Versions in classes that are read after a restore (`access: restore`): which of them are being
// restored, and which can be read, until when. Invariant: the rows only say when bytes are given
// out that are verified as any; whoever writes one has a version read early, or later.
import { dateMsMax } from '../core/clock.ts';
import type { Tx } from '../core/database.ts';
import { endOfDay } from './lifecycle.ts';
import type { VersionPlace } from './lost-versions.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';
import { findRestore, isReadable } from './restore-rows.ts';
import { namedIn, openBucket } from './version-places.ts';
import { readNumbered } from './versions.ts';

/** Asks for a version; of one that can be read already, how long it can be is set anew. */
export interface BeginRestore extends VersionPlace {
  kind: 'beginRestore';
  days: number;
  /** How fast it is to be there, as RestoreObject names it. */
  tier: string;
  /** As it was decided: it can be read already. */
  isThere: boolean;
  /** How long it takes, and how long a day lasts. Milliseconds. */
  delayMs: number;
  dayMs: number;
}

/** It can be read from now on. */
export interface FinishRestore extends VersionPlace {
  kind: 'finishRestore';
  dayMs: number;
}

/** It cannot any more. */
export interface EndRestore extends VersionPlace {
  kind: 'endRestore';
}

/** SlowDown where it is to be decided again: it can be read by now, or not any more. */
export async function beginRestore(
  tx: Tx,
  change: BeginRestore,
  moment: Moment,
): Promise<Outcome<null>> {
  const { bucketId, key, seq, days, tier, delayMs, dayMs } = change;
  const { timeMs } = moment;
  const before = await findRestore(tx, seq);
  if (before && before.expiresMs === null) return refused('RestoreAlreadyInProgress');
  const isThere = isReadable(before, timeMs);
  if (isThere !== change.isThere) return refused('SlowDown');
  if (!(await findAnywhere(tx, change))) return refused('NoSuchKey');
  const expiresMs = isThere ? endsAt(timeMs, days, dayMs) : null;
  await tx.run(
    'INSERT OR REPLACE INTO restores VALUES (?, ?, ?, ?, ?, ?, ?)',
    ...[seq, bucketId, key, days, expiresMs ?? timeMs + delayMs, expiresMs, tier],
  );
  return outcomeOf(tx, { bucketId, key, seq });
}

/** SlowDown, of which there is no record: nothing is on its way. */
export async function finishRestore(
  tx: Tx,
  { seq, dayMs }: FinishRestore,
  { timeMs }: Moment,
): Promise<Outcome<null>> {
  const found = await findRestore(tx, seq);
  if (!found || found.expiresMs !== null) return refused('SlowDown');
  if (!(await findAnywhere(tx, found))) return refused('SlowDown');
  const expiresMs = endsAt(timeMs, found.days, dayMs);
  const sql = 'UPDATE restores SET due_ms = ?, expires_ms = ? WHERE seq = ?';
  await tx.run(sql, expiresMs, expiresMs, seq);
  return outcomeOf(tx, found);
}

/** SlowDown, of which there is no record: it goes on, or has ended. */
export async function endRestore(
  tx: Tx,
  { seq }: EndRestore,
  { timeMs }: Moment,
): Promise<Outcome<null>> {
  const found = await findRestore(tx, seq);
  if (!found || found.expiresMs === null || found.expiresMs > timeMs) return refused('SlowDown');
  await tx.run('DELETE FROM restores WHERE seq = ?', seq);
  return outcomeOf(tx, found);
}

function endsAt(timeMs: number, days: number, dayMs: number): number {
  return Math.min(endOfDay(timeMs, days, dayMs), dateMsMax);
}

async function outcomeOf(tx: Tx, place: VersionPlace): Promise<Outcome<null>> {
  const bucket = await openBucket(tx, place.bucketId);
  const version = await findAnywhere(tx, place);
  const named = version && { versionId: version.versionId, isMarker: false };
  const storage = { ...noStorage, ...(bucket && named && namedIn(bucket, named)) };
  return { ok: true, storage, result: null };
}

/** In its bucket, or held by a snapshot or an undelete window. */
async function findAnywhere(
  tx: Tx,
  { bucketId, key, seq }: VersionPlace,
): Promise<{ versionId: string | null } | undefined> {
  const found = await readNumbered(tx, bucketId, { key, seq });
  if (found) return found;
  const sql = `SELECT version_id AS versionId FROM held_versions
    WHERE bucket_id = ? AND key = ? AND seq = ? AND NOT is_image`;
  return tx.get<{ versionId: string | null }>(sql, bucketId, key, seq);
}
