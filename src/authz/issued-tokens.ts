// Reads of the links of tokens that the gateway knows: those it issued, and those it saw in use.
// Share links are in the same table and not in these answers.
import type { Reader, Tx } from '../core/database.ts';
import { expiredTokenKeptMs, seenTokensPerPrincipalMax } from '../core/limits.ts';
import { issuerOfId } from './oidc/outside-id.ts';
import type { SeenLink, TokenUses } from './token-use.ts';
import { thumbprintOf } from './tokens/keys.ts';
import type { Link } from './tokens/link.ts';
import { renderScope } from './tokens/scope.ts';

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

// What lists show of a token's link besides its id: its claims, less what is the same in all of a
// chain. It is shown, and decides nothing.

export interface TokenDetails
  extends Pick<Link, 'depth' | 'depthMax' | 'notBeforeMs' | 'limits' | 'conditions'> {
  /** null: wherever its principal may. */
  scope: string | null;
  /** Thumbprint of the key that signed it; null: the gateway, or an outside issuer. */
  signer: string | null;
  /** Thumbprint of the key that it is bound to; null: whoever bears it may use it. */
  holder: string | null;
  issuedMs: number;
  /** What who asked for it called it. */
  label?: string;
}

export function detailsOf(link: Link): TokenDetails {
  const { scope, issuer, holder, depth, depthMax, limits, conditions } = link;
  return {
    scope: renderScope(scope),
    signer: thumbprintOf(issuer) ?? null,
    holder: holder?.thumbprint ?? null,
    ...{ depth, depthMax, issuedMs: link.issuedAtMs, notBeforeMs: link.notBeforeMs },
    ...(limits && { limits }),
    ...(conditions && { conditions }),
  };
}

// Whose a token is, from its id alone.

export interface TokenOwner {
  tenant: string;
  /**
   * null: an outside issuer's token that was not seen yet, so its tenant's admins have to decide.
   */
  principal: string | null;
  /** When it expires at the latest; null: unknown. */
  expiresMs: number | null;
}

/**
 * Whose a `jti` is, though it may never have been seen: its own or the nearest above it that is
 * known, down to the enrolled key that its chain begins with, or the outside issuer that signs it.
 * Who asks may have to be told that there is none, so all are looked for, whichever is found.
 */
export async function findTokenOwner(read: Reader, id: string): Promise<TokenOwner | undefined> {
  let found: TokenOwner | undefined;
  for (let end = id.length; end > 0; end = id.lastIndexOf('.', end - 1)) {
    const above = id.slice(0, end);
    const owner = await read.get<TokenOwner | { tenant: null }>(
      `SELECT tenant, principal, expires_ms AS expiresMs FROM tokens WHERE id = ?
         UNION ALL SELECT tenant, principal, NULL FROM public_keys
           WHERE thumbprint = ? AND purpose = 'token'
         UNION ALL SELECT NULL, NULL, NULL LIMIT 1`,
      ...[above, above],
    );
    if (owner && owner.tenant !== null) found ??= owner;
  }
  const { tenant, name } = issuerOfId(id) ?? {};
  if (found || tenant === undefined || name === undefined) return found;
  const sql = 'SELECT 1 FROM issuers WHERE tenant = ? AND name = ?';
  const isTrusted = (await read.get(sql, tenant, name)) !== undefined;
  return isTrusted ? { tenant, principal: null, expiresMs: null } : undefined;
}

// What the ledger keeps of tokens by itself: when they were used, and that what has expired goes.
// Invariant: a row of use decides nothing, so losing one takes no right from anybody and gives
// none; a revocation goes only once all that it refuses has expired.

/** Gives how many links were seen for the first time. */
export async function noteTokenUse(
  tx: Tx,
  { seen, used }: TokenUses,
  timeMs: number,
): Promise<number> {
  const grown = new Map<string, SeenLink>();
  let added = 0;
  for (const link of seen) {
    const { id, parent, tenant, principal, details, expiresMs } = link;
    const { changes } = await tx.run(
      `INSERT INTO tokens (id, kind, parent, tenant, principal, details, created_ms, expires_ms)
         VALUES (?, 'seen', ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
      ...[id, parent, tenant, principal, JSON.stringify(details), timeMs, expiresMs],
    );
    added += changes;
    if (changes > 0) grown.set(`${tenant}/${principal}`, link);
  }
  for (const { tenant, principal } of grown.values()) await forgetOldest(tx, tenant, principal);
  for (const { id, uses, lastUsedMs } of used) {
    // Each thread tells of its own.
    const sql = `UPDATE tokens SET uses = uses + ?, last_used_ms = max(coalesce(last_used_ms, 0), ?)
      WHERE id = ?`;
    await tx.run(sql, uses, lastUsedMs, id);
  }
  return added;
}

/** Links cost their holders nothing to make: only so many of a principal's are remembered. */
async function forgetOldest(tx: Tx, tenant: string, principal: string): Promise<void> {
  const held = await tx.get<{ count: number }>(
    `SELECT count(*) AS count FROM tokens
     WHERE tenant = ? AND principal = ? AND kind = 'seen'`,
    ...[tenant, principal],
  );
  const surplus = Number(held?.count) - seenTokensPerPrincipalMax;
  if (surplus <= 0) return;
  await tx.run(
    `DELETE FROM tokens WHERE id IN (SELECT id FROM tokens
       WHERE tenant = ? AND principal = ? AND kind = 'seen' ORDER BY created_ms LIMIT ?)`,
    ...[tenant, principal, surplus],
  );
}

/** Forgets what has expired: at most `max` tokens, and revocations; gives how many. */
export async function purgeTokens(tx: Tx, max: number, timeMs: number): Promise<number> {
  const tokens = await tx.run(
    'DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE expires_ms < ? LIMIT ?)',
    ...[timeMs - expiredTokenKeptMs, max],
  );
  const revocations = await tx.run(
    'DELETE FROM revocations WHERE id IN (SELECT id FROM revocations WHERE expires_ms < ? LIMIT ?)',
    ...[timeMs - expiredTokenKeptMs, max],
  );
  return tokens.changes + revocations.changes;
}
