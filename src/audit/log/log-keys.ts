// The keys that the log was ever signed with: rows stay for ever, so that old receipts can be
// checked and revoked keys are known. The private halves are not here. All have the log's origin as
// their name.
import type { Reader, Tx } from '../../core/database.ts';
import { ed25519, type NoteKey, noteKey } from './note.ts';

export const logKeySchema = `
CREATE TABLE log_keys (            -- that the log was ever signed with
  id TEXT PRIMARY KEY,             -- as signatures have it, hex
  name TEXT NOT NULL,              -- the log's origin
  public_key BLOB NOT NULL,        -- Ed25519, 32 bytes
  created_ms INTEGER NOT NULL,
  from_size INTEGER NOT NULL,      -- no shorter log was signed with it
  retired_ms INTEGER,              -- from then on it signs no more
  revoked_ms INTEGER               -- nothing that it signed is to be believed
) WITHOUT ROWID;
`;

export interface LogKeyRow {
  key: NoteKey;
  createdMs: number;
  fromSize: number;
  /** The time may lie in the future: until then both this key and its successor sign. */
  retiredMs: number | null;
  revokedMs: number | null;
}

/** All, newest first. */
export async function listLogKeys(read: Reader): Promise<LogKeyRow[]> {
  const rows = await read.all<Omit<LogKeyRow, 'key'> & { name: string; publicKey: Buffer }>(
    `SELECT name, public_key AS publicKey, created_ms AS createdMs, from_size AS fromSize,
      retired_ms AS retiredMs, revoked_ms AS revokedMs
    FROM log_keys ORDER BY from_size DESC, created_ms DESC, id`,
  );
  return rows.map(({ name, publicKey, ...row }) => {
    return { key: noteKey(name, publicKey, ed25519), ...row };
  });
}

/** Adds a key that signs from `fromSize` on. */
export async function addLogKey(
  tx: Tx,
  { id, name, publicKey }: NoteKey,
  { fromSize, timeMs }: { fromSize: number; timeMs: number },
): Promise<void> {
  const sql = 'INSERT INTO log_keys VALUES (?, ?, ?, ?, ?, NULL, NULL)';
  await tx.run(sql, id, name, publicKey, timeMs, fromSize);
}

/** All that sign do so until then, unless they end earlier. */
export async function retireLogKeys(tx: Tx, retiredMs: number): Promise<void> {
  await tx.run(
    'UPDATE log_keys SET retired_ms = ? WHERE retired_ms IS NULL OR retired_ms > ?',
    retiredMs,
    retiredMs,
  );
}

/** False: there is no such key, or it is revoked already. */
export async function revokeLogKey(tx: Tx, id: string, timeMs: number): Promise<boolean> {
  const sql = `UPDATE log_keys SET revoked_ms = ?, retired_ms = min(coalesce(retired_ms, ?), ?)
    WHERE id = ? AND revoked_ms IS NULL`;
  return (await tx.run(sql, timeMs, timeMs, timeMs, id)).changes > 0;
}

/** Returns whether the key signs at that time. */
export function isSigning({ retiredMs, revokedMs }: LogKeyRow, timeMs: number): boolean {
  return revokedMs === null && (retiredMs === null || retiredMs > timeMs);
}
