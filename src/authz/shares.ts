// Share links as they are stored: who shares what with whoever holds the link. Invariant: the
// secret of a link leaves once, in the URL that makes it; only its SHA-256 is kept.
import { createHash, randomBytes } from 'node:crypto';
import type { Reader, Tx } from '../core/database.ts';
import type { Actor, Identity } from './identity.ts';
import { ChainConditions } from './tokens/conditions.ts';
import { newIdPart } from './tokens/issue.ts';

/** What a link opens. */
export interface Shared {
  bucketTenant: string;
  /** Its name there. */
  bucket: string;
  /** The bucket itself: another of its name, made later, is somebody else's business. */
  bucketId: number;
  /**
   * The key of an object; or what all keys of a folder begin with: '' or a text that ends in a
   * slash.
   */
  key: string;
}

export interface Share extends Shared {
  id: string;
  /** The principal in whose name it is used. */
  tenant: string;
  principal: string;
  createdMs: number;
  expiresMs: number;
  downloads: number;
  /** null: there is no limit. */
  downloadsMax: number | null;
  lastUsedMs: number | null;
  isRevoked: boolean;
}

export function isFolder({ key }: Pick<Shared, 'key'>): boolean {
  return key === '' || key.endsWith('/');
}

const secretBytes = 24;
const tokenForm = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{32})$/;

/** A new link's id, the part of its URL that opens it, and what is kept of the secret in that. */
export function newShareToken(): { id: string; token: string; secretHash: Buffer } {
  const id = newIdPart();
  const secret = randomBytes(secretBytes).toString('base64url');
  return { id, token: `${id}.${secret}`, secretHash: digest(secret) };
}

/** The link that a token opens, alive or not; undefined for one that was never made. */
export async function findShare(read: Reader, token: string): Promise<Share | undefined> {
  const [, id, secret = ''] = tokenForm.exec(token) ?? [];
  if (id === undefined) return undefined;
  const row = await read.get<ShareRow>(shareOrNothing, id, digest(secret));
  return row?.id === id ? shareOf(row) : undefined;
}

/** Whose links are meant: those of all tenants, of one, or of one principal in it. */
export interface ShareOwner {
  tenant?: string | undefined;
  principal?: string | undefined;
}

/** One link; undefined: it is not there, or not one of these owners', which takes as long. */
export async function readShare(
  read: Reader,
  id: string,
  { tenant, principal }: ShareOwner = {},
): Promise<Share | undefined> {
  const sql = `${selectShares} AND id = ? AND ifnull(?, tenant) = tenant
    AND ifnull(?, principal) = principal`;
  const row = await read.get<ShareRow>(sql, id, tenant ?? null, principal ?? null);
  return row && shareOf(row);
}

/** Where a run of a listing begins: after this one. */
export type SharePosition = Pick<Share, 'tenant' | 'principal' | 'id'>;

/** At most `limit` links, by tenant, principal and id. */
export async function listShares(
  read: Reader,
  { tenant, principal }: ShareOwner,
  { after, limit }: { after: SharePosition; limit: number },
): Promise<Share[]> {
  const owner = [tenant, principal].filter((name) => name !== undefined);
  const rows = await read.all<ShareRow>(
    `${selectShares} ${ownedBy[owner.length]} AND (tenant, principal, id) > (?, ?, ?)
       ORDER BY tenant, principal, id LIMIT ?`,
    ...[...owner, after.tenant, after.principal, after.id, limit],
  );
  return rows.map(shareOf);
}

const ownedBy = ['', 'AND tenant = ?', 'AND tenant = ? AND principal = ?'] as const;

/** Whoever holds the link: who made it, narrowed to what it opens. */
export function identityOf(share: Share, actor: Actor): Identity {
  const { id, bucketTenant, bucket, key, createdMs, expiresMs } = share;
  return {
    ...actor,
    isAnonymous: false,
    accessKeyId: null,
    keyThumbprint: null,
    delegation: {
      ids: [id],
      scope: [{ right: 'read', bucket: `${bucketTenant}:${bucket}`, prefix: key }],
      conditions: noConditions,
      accounts: [{ name: `token:${id}`, expiresAtMs: expiresMs }],
      policies: [],
      expiresAtMs: expiresMs,
      shareId: id,
    },
    evidence: 'shared-secret',
    authentication: { type: 'SHARE-LINK', version: 'SHARE-LINK', signedAtMs: createdMs },
    payload: { kind: 'unsigned' },
    presigned: false,
  };
}

const noConditions = new ChainConditions([]);
function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

type ShareRow = Omit<Share, keyof Shared | 'isRevoked'> & {
  details: string;
  isRevoked: number;
};

const selectShares = `SELECT id, tenant, principal, details, created_ms AS createdMs,
    expires_ms AS expiresMs, uses AS downloads, uses_max AS downloadsMax,
    last_used_ms AS lastUsedMs,
    EXISTS(SELECT 1 FROM revocations AS r WHERE r.id = tokens.id) AS isRevoked
  FROM tokens WHERE kind = 'share'`;

/**
 * Where the secret opens no such link, one without an id: whether there is a link takes as long to
 * find as that there is none, since a row is verified only after its secret was compared
 * (core/seals). How long two digests take to compare tells nothing of what they are of.
 */
const shareOrNothing = `${selectShares} AND id = ? AND secret_hash = ? UNION ALL
  SELECT '', '', '', '{}', 0, 0, 0, NULL, NULL,
    EXISTS(SELECT 1 FROM revocations WHERE id = '') LIMIT 1`;

function shareOf({ details, isRevoked, ...row }: ShareRow): Share {
  return { ...row, ...(JSON.parse(details) as Shared), isRevoked: isRevoked !== 0 };
}

/**
 * Counts a download if the link still allows one; gives 1, or 0 if it does not. A count that was
 * granted is durable before the first byte goes out, and no more are granted than the link allows,
 * however many ask at once: the transaction that counts is the one that asks.
 */
export async function countDownload(tx: Tx, id: string, timeMs: number): Promise<number> {
  const { changes } = await tx.run(
    `UPDATE tokens SET uses = uses + 1, last_used_ms = ?
       WHERE id = ? AND kind = 'share' AND expires_ms > ? AND (uses_max IS NULL OR uses < uses_max)
         AND NOT EXISTS (SELECT 1 FROM revocations AS r WHERE r.id = tokens.id)`,
    ...[timeMs, id, timeMs],
  );
  return Number(changes);
}
