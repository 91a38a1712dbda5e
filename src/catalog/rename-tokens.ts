// Client tokens of renames: a request that is sent again with the same token within seven days does
// nothing once more. Invariants: a token is noted in the transaction of its rename, so that none is
// done twice; it is its requester's own; and a row that is not authentic is not believed.
// Specification: "RenameObject" of the Amazon S3 API reference.
import { hash } from 'node:crypto';
import type { Tx } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { KeyedMessage } from '../core/keyed-message.ts';
import type { Keyring } from '../core/keyring.ts';
import { renameTokenKeptMs } from '../core/limits.ts';
import type { BucketName } from './authentic.ts';
import type { Moment } from './outcome.ts';
import type { Catalog } from './versions.ts';

export const renameTokenSchema = `
CREATE TABLE rename_tokens (       -- client tokens of renames, for seven days
  bucket_id INTEGER NOT NULL,
  id BLOB NOT NULL,                -- SHA-256 of the requester and the token
  request BLOB NOT NULL,           -- SHA-256 of what was asked with it
  seq INTEGER NOT NULL,            -- log index of the record of its rename
  made_ms INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  mac BLOB NOT NULL,
  PRIMARY KEY (bucket_id, id)
) WITHOUT ROWID;
CREATE INDEX rename_tokens_by_time ON rename_tokens (made_ms);
`;

export interface ClientToken {
  id: Uint8Array;
  request: Uint8Array;
}

/** `asked`: all that the request asks for, in one order. */
export function clientToken(
  requester: string,
  token: string,
  asked: readonly (string | undefined)[],
): ClientToken {
  return {
    id: hash('sha256', JSON.stringify([requester, token]), 'buffer'),
    request: hash('sha256', JSON.stringify(asked.map((one) => one ?? null)), 'buffer'),
  };
}

interface TokenRow {
  request: Uint8Array;
  seq: number;
  madeMs: number;
  epoch: number;
  mac: Uint8Array;
}

const message = new KeyedMessage();

function describe(
  keyring: Keyring,
  bucket: BucketName,
  id: Uint8Array,
  { request, seq, madeMs, epoch }: Omit<TokenRow, 'mac'>,
): KeyedMessage {
  return message
    .begin(keyring.rowKey(epoch), 'bursar/rename-token/v1')
    .text(bucket.tenant)
    .number(bucket.id)
    .text(bucket.name)
    .bytes(id)
    .bytes(request)
    .number(seq)
    .number(madeMs);
}

/**
 * The rename that was done with the token, and what had been asked for; undefined: none, or too
 * long ago. Throws IntegrityError when its row is not authentic.
 */
export async function findRename(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { id }: ClientToken,
  timeMs: number,
): Promise<Pick<TokenRow, 'request' | 'seq'> | undefined> {
  const sql = `SELECT request, seq, made_ms AS madeMs, epoch, mac FROM rename_tokens
    WHERE bucket_id = ? AND id = ?`;
  const row = await read.get<TokenRow>(sql, bucket.id, id);
  if (!row) return undefined;
  if (!describe(keyring, bucket, id, row).matches(row.mac)) {
    throw new IntegrityError('the client token of a rename is not authentic');
  }
  return row.madeMs > timeMs - renameTokenKeptMs ? row : undefined;
}

/** Whether something was done with the token: whoever asks must look what. */
export async function isRepeated(
  tx: Tx,
  { id: bucketId }: BucketName,
  { id }: ClientToken,
  { timeMs }: Pick<Moment, 'timeMs'>,
): Promise<boolean> {
  const sql = 'SELECT 1 FROM rename_tokens WHERE bucket_id = ? AND id = ? AND made_ms > ?';
  return (await tx.get(sql, bucketId, id, timeMs - renameTokenKeptMs)) !== undefined;
}

export async function noteToken(
  tx: Tx,
  bucket: BucketName,
  { id, request }: ClientToken,
  { seq, timeMs: madeMs, keyring }: Pick<Moment, 'seq' | 'timeMs' | 'keyring'>,
): Promise<void> {
  const { currentEpoch: epoch } = keyring;
  const mac = describe(keyring, bucket, id, { request, seq, madeMs, epoch }).mac();
  await tx.run(
    'INSERT OR REPLACE INTO rename_tokens VALUES (?, ?, ?, ?, ?, ?, ?)',
    ...[bucket.id, id, request, seq, madeMs, epoch, mac],
  );
}

/** Forgets up to `max` tokens of before `beforeMs`; gives how many. */
export async function forgetTokens(tx: Tx, beforeMs: number, max: number): Promise<number> {
  const { changes } = await tx.run(
    `DELETE FROM rename_tokens WHERE (bucket_id, id) IN (
       SELECT bucket_id, id FROM rename_tokens WHERE made_ms < ? LIMIT ?)`,
    ...[beforeMs, max],
  );
  return changes;
}
