// Rows of access keys and of public keys, as the ledger's commands ask for them and write them. A
// SigV4A key is a public key and an access key, which are made, switched and deleted together.
import type { Reader, Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import { accessKeysPerPrincipalMax } from '../core/limits.ts';
import { countRows, isLastOperatorKey, missing, retireName, roleOf } from './identity-rows.ts';
import type { Page } from './paced-page.ts';
import type { PublicJwk } from './tokens/keys.ts';

/** The associated data that binds a sealed secret to its row. */
export function accessKeyContext(tenant: string, principal: string, id: string): string {
  return `access-key:${tenant}/${principal}/${id}`;
}

/** Of a SigV4A key: its other row, which is switched and deleted with it. */
export const thumbprintOfKey = 'SELECT thumbprint FROM access_keys WHERE id = ?';

export async function accessKeyOwner(
  tx: Tx,
  id: string,
): Promise<{ tenant: string; principal: string } | undefined> {
  return tx.get('SELECT tenant, principal FROM access_keys WHERE id = ?', id);
}

/** Why a principal that exists cannot have another access key, of this id. */
export async function refuseAccessKey(
  tx: Tx,
  tenant: string,
  principal: string,
  id: string,
): Promise<ErrorCode | undefined> {
  if (await accessKeyOwner(tx, id)) return 'AlreadyExists';
  const held = await countRows(
    tx,
    'access_keys WHERE tenant = ? AND principal = ?',
    tenant,
    principal,
  );
  return held >= accessKeysPerPrincipalMax ? 'TooManyAccessKeys' : undefined;
}

export async function insertAccessKey(
  tx: Tx,
  tenant: string,
  principal: string,
  id: string,
  sealedSecret: Uint8Array,
  timeMs: number,
): Promise<void> {
  await tx.run(
    `INSERT INTO access_keys (id, tenant, principal, sealed_secret, created_ms)
     VALUES (?, ?, ?, ?, ?)`,
    id,
    tenant,
    principal,
    sealedSecret,
    timeMs,
  );
}

/** Deletes an enrolled key. It is not enrolled again: what it signed would come back with it. */
export async function removePublicKey(tx: Tx, tenant: string, thumbprint: string): Promise<void> {
  await tx.run('DELETE FROM public_keys WHERE thumbprint = ?', thumbprint);
  await retireName(tx, tenant, 'public-key', thumbprint);
}

export async function isActiveKey(tx: Tx, id: string): Promise<boolean> {
  return (await tx.get('SELECT 1 FROM access_keys WHERE id = ? AND active', id)) !== undefined;
}

/**
 * Revokes all tokens and share links that were asked for with an access key. Throws UnsealedRow
 * where one of them is not what was stored: a revocation would go when that one says that it ends.
 */
export async function revokeAskedWith(tx: Tx, accessKeyId: string, timeMs: number): Promise<void> {
  await tx.rows?.verifyWhere('tokens', 't.access_key = ?', accessKeyId);
  await tx.run(
    `INSERT INTO revocations SELECT id, tenant, principal, ?, expires_ms FROM tokens
       WHERE access_key = ? ON CONFLICT (id) DO NOTHING`,
    ...[timeMs, accessKeyId],
  );
}

/** A public key by its place. */
interface PublicKeyPlace {
  tenant: string;
  principal: string;
  thumbprint: string;
}

/** Why there is no such key of the principal; undefined: there is. */
export async function refuseUnknownKey(
  tx: Tx,
  change: PublicKeyPlace,
): Promise<ErrorCode | undefined> {
  const { tenant, principal, thumbprint } = change;
  const sql = 'SELECT 1 FROM public_keys WHERE thumbprint = ? AND tenant = ? AND principal = ?';
  if (await tx.get(sql, thumbprint, tenant, principal)) return undefined;
  if (await roleOf(tx, tenant, principal)) return 'NoSuchPublicKey';
  return missing(tx, tenant, 'NoSuchPrincipal');
}

/** Why it may not be taken away. */
export async function refuseLossOfKey(
  tx: Tx,
  change: PublicKeyPlace,
): Promise<ErrorCode | undefined> {
  const fault = await refuseUnknownKey(tx, change);
  if (fault) return fault;
  const accessKey = await accessKeyOf(tx, change.thumbprint);
  return accessKey && (await isLastOperatorKey(tx, accessKey)) ? 'InUse' : undefined;
}

/** What a key of tokens signed is refused with it; tokens asked for with a SigV4A key are not. */
export async function revokeMadeWith(tx: Tx, thumbprint: string, timeMs: number): Promise<void> {
  const accessKey = await accessKeyOf(tx, thumbprint);
  if (accessKey) await revokeAskedWith(tx, accessKey.id, timeMs);
}

async function accessKeyOf(tx: Tx, thumbprint: string): Promise<{ id: string } | undefined> {
  return tx.get('SELECT id FROM access_keys WHERE thumbprint = ?', thumbprint);
}

// Reads of the public keys that principals have enrolled.

/** `token`: it signs tokens and proofs. `sigv4a`: it signs requests, with an access key id. */
export const keyPurposes = ['token', 'sigv4a'] as const;
export type KeyPurpose = (typeof keyPurposes)[number];

export interface PublicKeyEntry {
  /** RFC 7638. */
  thumbprint: string;
  jwk: PublicJwk;
  purpose: KeyPurpose;
  /** The access key of a `sigv4a` key; else null. */
  accessKeyId: string | null;
  active: boolean;
  createdMs: number;
}

type Row = Omit<PublicKeyEntry, 'jwk' | 'active'> & { jwk: string; active: number };

const select = `SELECT k.thumbprint, k.jwk, k.purpose, a.id AS accessKeyId, k.active,
    k.created_ms AS createdMs
  FROM public_keys k LEFT JOIN access_keys a ON a.thumbprint = k.thumbprint
  WHERE k.tenant = ? AND k.principal = ?`;

export async function readPublicKeyEntry(
  read: Reader,
  { tenant, principal, thumbprint }: { tenant: string; principal: string; thumbprint: string },
): Promise<PublicKeyEntry | undefined> {
  const row = await read.get<Row>(`${select} AND k.thumbprint = ?`, tenant, principal, thumbprint);
  return row && entryOf(row);
}

/** A principal's keys, by thumbprint. */
export async function listPublicKeys(
  read: Reader,
  { tenant, principal }: { tenant: string; principal: string },
  page: Page,
): Promise<PublicKeyEntry[]> {
  const sql = `${select} AND k.thumbprint > ? ORDER BY k.thumbprint LIMIT ?`;
  const rows = await read.all<Row>(sql, tenant, principal, page.after, page.limit);
  return rows.map(entryOf);
}

function entryOf({ jwk, active, ...row }: Row): PublicKeyEntry {
  return { ...row, jwk: JSON.parse(jwk) as PublicJwk, active: active !== 0 };
}
