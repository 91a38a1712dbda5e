// Which prefixes of keys have limits, and which of them a key begins with: each of these is an
// account that a request about the key is charged to. Without any, asking costs a comparison.
import type { Limits } from '../core/quota-terms.ts';
import { type Account, accountName, parseAccount } from './accounts.ts';

type PrefixAccount = Extract<Account, { kind: 'prefix' }>;

interface Limited {
  readonly prefix: string;
  readonly account: string;
}

export class PrefixAccounts {
  /** By bucket, as `TENANT/NAME`. */
  readonly #byBucket = new Map<string, readonly Limited[]>();

  /** Whether no prefix has limits. */
  get isEmpty(): boolean {
    return this.#byBucket.size === 0;
  }

  /** An account's limits from now on; null: it has none. Accounts of other kinds are ignored. */
  setLimits(account: string, limits: Limits | null): void {
    const parsed = prefixOf(account);
    if (!parsed) return;
    const { tenant, bucket, prefix } = parsed;
    const name = `${tenant}/${bucket}`;
    const others = (this.#byBucket.get(name) ?? []).filter((one) => one.account !== account);
    const all = limits ? [...others, { prefix, account }] : others;
    if (all.length > 0) this.#byBucket.set(name, all);
    else this.#byBucket.delete(name);
  }

  has(account: string): boolean {
    const parsed = prefixOf(account);
    const limited = parsed && this.#byBucket.get(`${parsed.tenant}/${parsed.bucket}`);
    return limited?.some((one) => one.account === account) ?? false;
  }

  /** The accounts of all prefixes that a key begins with; undefined: there are none. */
  of(tenant: string, bucket: string, key: string): string[] | undefined {
    if (this.isEmpty) return undefined;
    let found: string[] | undefined;
    for (const { prefix, account } of this.#byBucket.get(`${tenant}/${bucket}`) ?? []) {
      if (!key.startsWith(prefix)) continue;
      found ??= [];
      found.push(account);
    }
    return found;
  }
}

/** The prefix whose account it is; undefined: it is another account. */
export function prefixOf(account: string): PrefixAccount | undefined {
  if (!account.startsWith('prefix:')) return undefined;
  const parsed = parseAccount(account);
  const isCanonical = parsed?.kind === 'prefix' && accountName(parsed) === account;
  return isCanonical ? parsed : undefined;
}
