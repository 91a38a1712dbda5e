// Reads of the links of tokens that the gateway knows: those it issued, and those it saw in use.
// Share links are in the same table and not in these answers.
import type { Reader } from '../core/database.ts';
import type { TokenDetails } from './token-details.ts';

export interface TokenEntry {
  id: string;
  /** `seen`: made elsewhere, by a principal's own key or by delegating, and used here. */
  kind: 'issued' | 'seen';
  /** The link above; null: it is the first of its token. */
  parent: string | null;
  tenant: string;
  /** The principal in whose name it acts. */
  principal: string;
  /** The access key that it was asked for with. */
  accessKeyId: string | null;
  details: TokenDetails;
  createdMs: number;
  expiresMs: number;
  lastUsedMs: number | null;
  uses: number;
  /** False: its principal, or the key of it that signed the first link, is inactive or gone. */
  isActive: boolean;
}

/** The tokens of one tenant or principal; null: everybody's. */
export interface TokenFilter {
  tenant: string | null;
  principal: string | null;
}

/** Where a run of a listing begins: after this one. */
export interface TokenPosition {
  tenant: string;
  principal: string;
  id: string;
}

type Row = Omit<TokenEntry, 'details' | 'isActive'> & {
  details: string;
  isActive: number;
};

// A `jti` that a principal's key signed begins with the thumbprint of the key: 43 characters and a
// dot, which no other has first in this place.
const select = `SELECT id, kind, parent, tenant, principal, access_key AS accessKeyId, details,
    created_ms AS createdMs, expires_ms AS expiresMs, last_used_ms AS lastUsedMs, uses,
    EXISTS (SELECT 1 FROM principals AS p
      WHERE p.tenant = tokens.tenant AND p.name = tokens.principal AND p.active)
    AND (instr(id, '.') <> 44 OR EXISTS (SELECT 1 FROM public_keys AS k
      WHERE k.thumbprint = substr(tokens.id, 1, 43) AND k.active)) AS isActive
  FROM tokens WHERE kind <> 'share'`;

/** At most `limit` links, by tenant, principal and id: a link comes after the one above it. */
export async function listTokens(
  read: Reader,
  { tenant, principal }: TokenFilter,
  { after, limit }: { after: TokenPosition; limit: number },
): Promise<TokenEntry[]> {
  const order = 'ORDER BY tenant, principal, id LIMIT ?';
  if (tenant === null) {
    const sql = `${select} AND (tenant, principal, id) > (?, ?, ?) ${order}`;
    return entriesOf(await read.all(sql, after.tenant, after.principal, after.id, limit));
  }
  if (principal === null) {
    const sql = `${select} AND tenant = ? AND (principal, id) > (?, ?) ${order}`;
    return entriesOf(await read.all(sql, tenant, after.principal, after.id, limit));
  }
  const sql = `${select} AND tenant = ? AND principal = ? AND id > ? ${order}`;
  return entriesOf(await read.all(sql, tenant, principal, after.id, limit));
}

/** One link; undefined: it is not known, or not one of these owners', which takes as long. */
export async function readToken(
  read: Reader,
  id: string,
  { tenant, principal }: TokenFilter = everybodys,
): Promise<TokenEntry | undefined> {
  const isOf = 'ifnull(?, tenant) = tenant AND ifnull(?, principal) = principal';
  const sql = `${select} AND id = ? AND ${isOf}`;
  return entriesOf(await read.all(sql, id, tenant, principal))[0];
}

const everybodys: TokenFilter = { tenant: null, principal: null };

function entriesOf(rows: Row[]): TokenEntry[] {
  return rows.map(({ details, isActive, ...row }) => ({
    ...row,
    details: JSON.parse(details) as TokenDetails,
    isActive: isActive !== 0,
  }));
}

/** The `jti`s of a link and of all that are above it, from the first down. */
export function lineOf(id: string): string[] {
  const parts = id.split('.');
  return parts.map((_, i) => parts.slice(0, i + 1).join('.'));
}
