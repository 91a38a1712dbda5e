// How much of what an account stores is held by snapshots and undelete windows, and not there any
// more.
import type { HeldShare } from '../catalog/held-totals.ts';
import { parseAccount } from '../quota/accounts.ts';

/**
 * By the buckets that are the account's now; of tokens, which store nothing of their own, 0. null:
 * of a prefix or a writer, nobody knows.
 */
export function heldBytesOf(shares: readonly HeldShare[], name: string): number | null {
  const account = parseAccount(name);
  if (account?.kind === 'prefix' || account?.kind === 'writer') return null;
  if (!account || account.kind === 'token') return 0;
  return shares.reduce((sum, { tenant, bucket, owner, bytes }) => {
    if (tenant !== account.tenant) return sum;
    if (account.kind === 'principal' && owner !== account.name) return sum;
    return account.kind === 'bucket' && bucket !== account.name ? sum : sum + bytes;
  }, 0);
}
