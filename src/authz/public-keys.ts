// Reads of the public keys that principals have enrolled.
import type { Reader } from '../core/database.ts';
import type { Page } from './paced-page.ts';
import type { PublicJwk } from './tokens/keys.ts';

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
