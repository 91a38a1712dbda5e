// Which events a change causes: what of all that is kept in memory is another from then on. Plain
// data without secrets, since it crosses threads. Invariant: each kind of change says here what it
// causes, or that nothing in memory depends on it, so that none can be added in silence; what is
// said is true of the change once it is committed, and is found before it is made.

import type { Tx } from '../core/database.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import type { Limits } from '../core/quota-terms.ts';
import type { RecordReads } from '../core/record-reads.ts';

/** The settings of buckets that are kept in memory. */
export const keptSettings = [
  'cors',
  'encryption',
  'lifecycle',
  'metrics',
  'notification',
  'undelete',
  'website',
] as const;
export type KeptSetting = (typeof keptSettings)[number];

export interface RevokedToken {
  id: string;
  /** When it would have ended by itself; null: nobody knows. */
  expiresMs: number | null;
}

export type LedgerEvent =
  /**
   * A bucket was made or deleted, or what requests to it are decided by is another; or snapshots
   * of it were made or deleted.
   */
  | { kind: 'bucket'; tenant: string; name: string }
  | { kind: 'setting'; bucketId: number; name: KeptSetting }
  /** `recordReads`: what it says from now on; absent: as before. */
  | { kind: 'tenant'; name: string; isGone: boolean; recordReads?: RecordReads }
  /** A tenant has its secret, which is in its row. */
  | { kind: 'tenantKey'; name: string }
  | { kind: 'principal'; tenant: string; name: string }
  | { kind: 'group'; tenant: string; name: string }
  | { kind: 'accessKey'; id: string }
  | { kind: 'publicKey'; thumbprint: string }
  /** Grants as they are stored: JSON. */
  | { kind: 'grants'; tenant: string; removed: readonly string[]; added: readonly string[] }
  /** `to`: null where there is none of the name any more. */
  | { kind: 'mount'; tenant: string; name: string; to: { tenant: string; bucket: string } | null }
  /** A principal's own. `name`: null for all that it has, which are gone then. */
  | {
      kind: 'ownMount';
      tenant: string;
      principal: string;
      name: string | null;
      to: { tenant: string; bucket: string } | null;
    }
  | { kind: 'issuer'; tenant: string; name: string }
  /** `definition`: as it is stored, JSON; null where there is no class of the name any more. */
  | { kind: 'class'; tenant: string; name: string; definition: string | null }
  | { kind: 'revocation'; tokens: readonly RevokedToken[] }
  /** `limits`: null where the account has none any more. */
  | { kind: 'limits'; account: string; limits: Limits | null }
  /** From now on what is new is made under the root key of this epoch. */
  | { kind: 'rootKey'; epoch: number }
  /** The system's clock is right, however far it stepped. */
  | { kind: 'clock' };

/** In the order in which they are applied. */
export type Caused = readonly LedgerEvent[];

export async function namedBucket(tx: Tx, bucketId: number): Promise<Caused> {
  const sql = 'SELECT tenant, name FROM buckets WHERE id = ?';
  const bucket = await tx.get<{ tenant: string; name: string }>(sql, bucketId);
  return bucket ? [{ kind: 'bucket', ...bucket }] : [];
}

export function restored({
  id,
  tenant,
  name,
}: {
  id: number;
  tenant: string;
  name: string;
}): Caused {
  const settings = keptSettings.map(
    (setting) => ({ kind: 'setting', bucketId: id, name: setting }) as const,
  );
  return [{ kind: 'bucket', tenant, name }, ...settings];
}

export async function ruleOf(tx: Tx, tenant: string, name: string): Promise<string[]> {
  const sql = 'SELECT rule FROM grants WHERE tenant = ? AND name = ?';
  return (await tx.all<{ rule: string }>(sql, tenant, name)).map(({ rule }) => rule);
}

export async function rulesOf(tx: Tx, tenant: string): Promise<string[]> {
  const sql = 'SELECT rule FROM grants WHERE tenant = ?';
  return (await tx.all<{ rule: string }>(sql, tenant)).map(({ rule }) => rule);
}

/** What is revoked with access keys: all that was asked for with them. */
export async function revokedWith(tx: Tx, ...accessKeyIds: string[]): Promise<Caused> {
  const tokens: RevokedToken[] = [];
  for (const id of accessKeyIds) {
    const sql = 'SELECT id, expires_ms AS expiresMs FROM tokens WHERE access_key = ?';
    tokens.push(...(await tx.all<RevokedToken>(sql, id)));
  }
  return tokens.length === 0 ? [] : [{ kind: 'revocation', tokens }];
}

export async function revokedWithPublicKey(tx: Tx, thumbprint: string): Promise<Caused> {
  const sql = 'SELECT id FROM access_keys WHERE thumbprint = ?';
  return revokedWith(tx, ...(await tx.all<{ id: string }>(sql, thumbprint)).map(({ id }) => id));
}

export async function revokedWithFormerKeys(tx: Tx, newId: string): Promise<Caused> {
  const sql = 'SELECT id FROM access_keys WHERE tenant = ? AND principal = ? AND id <> ?';
  const keys = await tx.all<{ id: string }>(sql, defaultTenant, rootPrincipal, newId);
  return revokedWith(tx, ...keys.map(({ id }) => id));
}
