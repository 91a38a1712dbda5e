// The accounts that are there only while they have limits: prefixes of keys, and principals as the
// writers of what is stored, anywhere or in one bucket. Says which of them a request is charged to.
// Invariant: for requests that are charged to the same ones it gives the same list, so that what is
// made of a list can be kept by it. Without any, asking costs a comparison.
import type { Limits } from '../core/quota-terms.ts';
import { bucketAccount } from './account-names.ts';
import { type Account, accountName, parseAccount } from './accounts.ts';

export type LimitedAccount = Extract<Account, { kind: 'prefix' | 'writer' }>;

/** Names of accounts. */
export type AccountList = readonly string[];

/** A prefix, with its own account and those of all prefixes that it begins with. */
interface Place {
  readonly prefix: string;
  readonly accounts: AccountList;
}

/** What somebody is charged as a writer: in the buckets named here, and in all others. */
interface Writer {
  readonly inBuckets: ReadonlyMap<string, AccountList>;
  readonly elsewhere: AccountList | undefined;
}

/** What a request is about, and who writes by it, `tenant/name`; null: nothing is written. */
export interface Concerned {
  tenant: string;
  bucket: string;
  key: string;
  writer: string | null;
}

export class LimitedAccounts {
  readonly #limited = new Map<string, LimitedAccount>();
  /** By the bucket's account; the longest prefixes first. */
  #places = new Map<string, readonly Place[]>();
  #writers = new Map<string, Writer>();
  /** Lists that were joined, by both. */
  #joined = new WeakMap<AccountList, WeakMap<AccountList, AccountList>>();

  /** Whether no such account has limits. */
  get isEmpty(): boolean {
    return this.#limited.size === 0;
  }

  get hasPrefixes(): boolean {
    return this.#places.size > 0;
  }

  get hasWriters(): boolean {
    return this.#writers.size > 0;
  }

  /** An account's limits from now on; null: it has none. Accounts of other kinds are ignored. */
  setLimits(account: string, limits: Limits | null): void {
    const parsed = limitedAccountOf(account);
    if (!parsed || this.has(account) === (limits !== null)) return;
    if (limits) this.#limited.set(account, parsed);
    else this.#limited.delete(account);
    this.#places = placesOf(this.#limited.values());
    this.#writers = writersOf(this.#limited);
    this.#joined = new WeakMap();
  }

  has(account: string): boolean {
    return this.#limited.has(account);
  }

  /** The accounts that a request is charged to besides others; undefined: none. */
  of({ tenant, bucket, key, writer }: Concerned): AccountList | undefined {
    if (this.isEmpty) return undefined;
    const under = this.under(tenant, bucket, key);
    const by = writer === null ? undefined : this.by(tenant, bucket, writer);
    if (!under || !by) return under ?? by;
    return this.#join(under, by);
  }

  /** The accounts of all prefixes that a key begins with; undefined: there are none. */
  under(tenant: string, bucket: string, key: string): AccountList | undefined {
    if (!this.hasPrefixes) return undefined;
    // All that the key begins with are prefixes of the longest one.
    for (const { prefix, accounts } of this.#places.get(bucketAccount(tenant, bucket)) ?? []) {
      if (key.startsWith(prefix)) return accounts;
    }
    return undefined;
  }

  /** The accounts of somebody, `tenant/name`, who writes in a bucket; undefined: there are none. */
  by(tenant: string, bucket: string, writer: string): AccountList | undefined {
    if (!this.hasWriters) return undefined;
    const found = this.#writers.get(writer);
    return found && (found.inBuckets.get(bucketAccount(tenant, bucket)) ?? found.elsewhere);
  }

  #join(under: AccountList, by: AccountList): AccountList {
    const known = this.#joined.get(under)?.get(by);
    if (known) return known;
    const joined = [...under, ...by];
    const others = this.#joined.get(under) ?? new WeakMap<AccountList, AccountList>();
    this.#joined.set(under, others.set(by, joined));
    return joined;
  }
}

/** The prefix or writer whose account it is; undefined: it is another account. */
export function limitedAccountOf(account: string): LimitedAccount | undefined {
  if (!/^(?:prefix|writer):/.test(account)) return undefined;
  const parsed = parseAccount(account);
  if (parsed?.kind !== 'prefix' && parsed?.kind !== 'writer') return undefined;
  return accountName(parsed) === account ? parsed : undefined;
}

function placesOf(limited: Iterable<LimitedAccount>): Map<string, readonly Place[]> {
  const all = new Map<string, string[]>();
  for (const one of limited) {
    if (one.kind !== 'prefix') continue;
    const bucket = bucketAccount(one.tenant, one.bucket);
    all.set(bucket, [...(all.get(bucket) ?? []), one.prefix]);
  }
  const places = new Map<string, readonly Place[]>();
  for (const [bucket, prefixes] of all) {
    prefixes.sort((a, b) => b.length - a.length);
    const accountOf = (prefix: string) => `prefix:${bucket.slice('bucket:'.length)}/${prefix}`;
    const place = (prefix: string): Place => {
      const outer = prefixes.filter((one) => prefix.startsWith(one));
      return { prefix, accounts: outer.map(accountOf) };
    };
    places.set(bucket, prefixes.map(place));
  }
  return places;
}

function writersOf(limited: ReadonlyMap<string, LimitedAccount>): Map<string, Writer> {
  const everywhere = new Map<string, string>();
  const inBuckets = new Map<string, Map<string, string>>();
  for (const [account, one] of limited) {
    if (one.kind !== 'writer') continue;
    const writer = `${one.writer.tenant}/${one.writer.name}`;
    if (one.bucket === null) everywhere.set(writer, account);
    else {
      const buckets = inBuckets.get(writer) ?? new Map<string, string>();
      inBuckets.set(writer, buckets.set(bucketAccount(one.tenant, one.bucket), account));
    }
  }
  const writers = new Map<string, Writer>();
  for (const writer of new Set([...everywhere.keys(), ...inBuckets.keys()])) {
    const whole = everywhere.get(writer);
    const elsewhere = whole === undefined ? undefined : [whole];
    const lists = [...(inBuckets.get(writer) ?? [])].map(([bucket, account]) => {
      return [bucket, [account, ...(elsewhere ?? [])]] as const;
    });
    writers.set(writer, { inBuckets: new Map(lists), elsewhere });
  }
  return writers;
}
