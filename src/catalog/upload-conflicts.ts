// Whether the key of a multipart upload was left alone since the upload was begun, which a
// conditional completion demands. A write leaves another version there, and nothing needs to be
// noted of it. Only a deletion can bring back what was there at the beginning (nothing, or the
// version before), so it is noted where the key has uploads. Invariant: a key that has no uploads
// has no note.
// Specification: "How to prevent object overwrites with conditional writes" of the Amazon S3 user
// guide.
import type { Tx } from '../core/database.ts';
import { isConditional } from './conditions.ts';
import { type Outcome, refused } from './outcome.ts';
import type { CompleteUpload, Upload } from './uploads.ts';
import type { Place } from './version-places.ts';

export const uploadConflictSchema = `
CREATE TABLE deleted_during_uploads ( -- keys with uploads, whose current version was deleted
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,            -- of the newest record that did
  PRIMARY KEY (bucket_id, key)
) WITHOUT ROWID;
`;

/**
 * What the attributes of an upload say of its beginning. Uploads that release 0.1.0 began do not
 * say it.
 */
interface Beginning {
  /** The log index of the record that began it. */
  begunSeq?: number;
  /** `seq` of the version that was current then; null: there was none. */
  currentSeq?: number | null;
}

interface KeyPlace {
  bucketId: number;
  key: string;
}

/**
 * Reads where the log is and what it says of the key, for the attributes of an upload that is being
 * begun.
 */
export async function readBeginning(
  tx: Tx,
  { bucketId, key }: KeyPlace,
  begunSeq: number,
): Promise<Beginning> {
  const current = await tx.get<{ seq: number }>(
    'SELECT seq FROM versions WHERE bucket_id = ? AND key = ?',
    ...[bucketId, key],
  );
  return { begunSeq, currentSeq: current?.seq ?? null };
}

/** Notes that the current version of a key was deleted, and no delete marker came in its place. */
export async function noteDeletion(tx: Tx, place: KeyPlace, seq: number): Promise<void> {
  const { bucketId, key } = place;
  if (!(await hasUploads(tx, place))) return;
  const sql = 'INSERT OR REPLACE INTO deleted_during_uploads VALUES (?, ?, ?)';
  await tx.run(sql, bucketId, key, seq);
}

/** Must be called when an upload of the key is gone. */
export async function forgetDeletion(tx: Tx, place: KeyPlace): Promise<void> {
  const { bucketId, key } = place;
  if (await hasUploads(tx, place)) return;
  const sql = 'DELETE FROM deleted_during_uploads WHERE bucket_id = ? AND key = ?';
  await tx.run(sql, bucketId, key);
}

async function hasUploads(tx: Tx, { bucketId, key }: KeyPlace): Promise<boolean> {
  const sql = 'SELECT 1 FROM uploads WHERE bucket_id = ? AND key = ? LIMIT 1';
  return (await tx.get(sql, bucketId, key)) !== undefined;
}

/** Must be called when all uploads of the bucket are gone. */
export async function forgetDeletions(tx: Tx, bucketId: number): Promise<void> {
  await tx.run('DELETE FROM deleted_during_uploads WHERE bucket_id = ?', bucketId);
}

/**
 * Why a conditional completion is refused though its conditions hold; null: it is not. Whoever
 * states a condition has based the parts on what was there when the upload was begun.
 */
export async function findConflict(
  tx: Tx,
  upload: Upload,
  { bucketId, key, conditions }: CompleteUpload,
  { keeps, ends }: Place,
): Promise<Outcome<never> | null> {
  const { ifMatch, mustCreate } = conditions;
  if (!isConditional(conditions) || mustCreate) return null;
  const current = keeps ?? ends;
  const { begunSeq = -1, currentSeq } = JSON.parse(upload.attributes) as Beginning;
  const isSame =
    currentSeq === undefined
      ? (current?.createdMs ?? 0) <= upload.createdMs
      : currentSeq === (current?.seq ?? null);
  // Before such notes were made, uploads did not say when they were begun: any note is newer.
  const deletion =
    isSame &&
    (await tx.get(
      'SELECT 1 FROM deleted_during_uploads WHERE bucket_id = ? AND key = ? AND seq > ?',
      bucketId,
      key,
      begunSeq,
    ));
  if (isSame && !deletion) return null;
  const Condition = ifMatch ? 'If-Match' : 'If-None-Match';
  return refused('ConditionalRequestConflict', { Condition, Key: key });
}
