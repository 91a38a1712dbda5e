// What is set of a bucket besides its versioning and policy, each a JSON document that the gateway
// composed of what a client sent. What requests are decided by lies in the bucket's own row, which
// is kept in memory (bucket-cache.ts); the rest is read where it is asked for.
import { hash } from 'node:crypto';
import type { Reader, Tx } from '../core/database.ts';

export type StoredSetting = 'cors' | 'lifecycle' | 'tagging';

/** The JSON of a setting; null: the bucket has none. */
export async function readSetting(
  read: Reader,
  bucketId: number,
  name: StoredSetting,
): Promise<string | null> {
  const row = await read.get<{ document: string }>(
    'SELECT document FROM bucket_settings WHERE bucket_id = ? AND name = ?',
    bucketId,
    name,
  );
  return row?.document ?? null;
}

/** All of them, by name. */
export async function readSettings(
  read: Reader,
  bucketId: number,
): Promise<Record<string, string>> {
  const rows = await read.all<{ name: string; document: string }>(
    'SELECT name, document FROM bucket_settings WHERE bucket_id = ? ORDER BY name',
    bucketId,
  );
  return Object.fromEntries(rows.map(({ name, document }) => [name, document]));
}

export async function storeSetting(
  tx: Tx,
  bucketId: number,
  name: string,
  document: string | null,
): Promise<void> {
  if (document === null) {
    await tx.run('DELETE FROM bucket_settings WHERE bucket_id = ? AND name = ?', bucketId, name);
  } else {
    await tx.run(
      `INSERT INTO bucket_settings VALUES (?, ?, ?)
         ON CONFLICT (bucket_id, name) DO UPDATE SET document = excluded.document`,
      bucketId,
      name,
      document,
    );
  }
}

/**
 * SHA-256, hex, of all that is set of a bucket, but for how its reads are recorded: what the record
 * of a change says that it came to. undefined: there is no such bucket.
 */
export async function hashSettings(read: Reader, bucketId: number): Promise<string | undefined> {
  const row = await read.get<object>(
    'SELECT versioning, object_lock, public_access, ownership, policy FROM buckets WHERE id = ?',
    bucketId,
  );
  if (!row) return undefined;
  const settings = await readSettings(read, bucketId);
  return hash('sha256', JSON.stringify([row, settings]), 'hex');
}
