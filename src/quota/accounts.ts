// Accounts: whatever has a budget, by name. Invariant: a name has one reading, and is bounded, so it
// is a key of tables and maps as it comes.
import type { Principal } from '../core/principal.ts';

export type Account =
  | { kind: 'tenant'; tenant: string }
  | { kind: 'principal'; tenant: string; name: string }
  | { kind: 'bucket'; tenant: string; name: string }
  /** `tenant` is not in the name: who asks about a token has looked up whose it is. */
  | { kind: 'token'; id: string };

const part = '[a-z0-9][a-z0-9._-]{0,62}';
const form = new RegExp(
  `^(?:tenant:(${part})|(principal|bucket):(${part})/(${part})|token:([A-Za-z0-9_.-]{1,585}))$`,
);

/** `tenant:cms`, `principal:cms/alice`, `bucket:cms/raw`, `token:<jti>`; undefined for others. */
export function parseAccount(text: string): Account | undefined {
  const match = form.exec(text);
  if (!match) return undefined;
  const [, alone, kind, tenant = '', name = '', id] = match;
  if (alone !== undefined) return { kind: 'tenant', tenant: alone };
  if (id !== undefined) return { kind: 'token', id };
  return { kind: kind as 'principal' | 'bucket', tenant, name };
}

export function accountName(account: Account): string {
  switch (account.kind) {
    case 'tenant':
      return `tenant:${account.tenant}`;
    case 'principal':
    case 'bucket':
      return `${account.kind}:${account.tenant}/${account.name}`;
    case 'token':
      return `token:${account.id}`;
  }
}

/** In whose name a token acts, or who owns a bucket: `tenant` and principal's name. */
export interface Holder {
  tenant: string;
  name: string;
}

type Asker = Pick<Principal, 'tenant' | 'name' | 'role'>;

/**
 * May they see limits and use? The operator all, a tenant's admins and auditors all of the tenant,
 * a member its own. `holder` of a bucket or a token; null when there is none of the name, which
 * only the operator may learn.
 */
export function maySeeAccount(asker: Asker, account: Account, holder: Holder | null): boolean {
  if (asker.role === 'operator') return true;
  const owner = ownerOf(account, holder);
  if (owner === null || owner.tenant !== asker.tenant) return false;
  return asker.role !== 'member' || owner.name === asker.name;
}

/**
 * May they set limits? The operator all; a tenant's admins those of its principals and buckets.
 * Nobody sets a token's: its links say them, signed.
 */
export function maySetLimits(asker: Asker, account: Account): boolean {
  if (account.kind === 'token') return false;
  if (asker.role === 'operator') return true;
  return asker.role === 'admin' && account.kind !== 'tenant' && account.tenant === asker.tenant;
}

function ownerOf(
  account: Account,
  holder: Holder | null,
): Holder | { tenant: string; name: null } | null {
  switch (account.kind) {
    case 'tenant':
      return { tenant: account.tenant, name: null };
    case 'principal':
      return account;
    case 'bucket':
    case 'token':
      return holder;
  }
}
