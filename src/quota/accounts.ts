// Accounts: whatever has a budget, by name. Invariant: a name has one reading, and is bounded, so
// it is a key of tables and maps as it comes.
import { keyBytesMax } from '../core/limits.ts';
import { namePart as part } from '../core/names.ts';

export type Account =
  | { kind: 'tenant'; tenant: string }
  | { kind: 'principal'; tenant: string; name: string }
  | { kind: 'bucket'; tenant: string; name: string }
  /** The keys of a bucket that begin with a prefix. It is counted while it has limits. */
  | { kind: 'prefix'; tenant: string; bucket: string; prefix: string }
  /**
   * What a principal writes, in a bucket of the tenant; `bucket` null: in all buckets, and the
   * tenant is the principal's. It is counted while it has limits.
   */
  | { kind: 'writer'; tenant: string; bucket: string | null; writer: Writer }
  /** `tenant` is not in the name: the caller has looked up whose token it is. */
  | { kind: 'token'; id: string };

export interface Writer {
  tenant: string;
  name: string;
}

const form = new RegExp(
  `^(?:tenant:(${part})|(principal|bucket):(${part})/(${part})|token:([A-Za-z0-9_.-]{1,585}))$`,
);
const writerForm = new RegExp(`^writer:(${part})/(${part})(?:/(${part})/(${part}))?$`);
/** No control characters: names of accounts are lines of tables and of files. */
const prefixForm = new RegExp(`^prefix:(${part})/(${part})/([^\\p{Cc}\\p{Cs}]+)$`, 'u');

/**
 * `tenant:cms`, `principal:cms/alice`, `bucket:cms/raw`, `prefix:cms/raw/run1/`,
 * `writer:cms/alice`, in a bucket `writer:cms/raw/cms/alice`, `token:<jti>`; undefined for others.
 */
export function parseAccount(text: string): Account | undefined {
  const match = form.exec(text);
  if (!match) return parsePrefix(text) ?? parseWriter(text);
  const [, alone, kind, tenant = '', name = '', id] = match;
  if (alone !== undefined) return { kind: 'tenant', tenant: alone };
  if (id !== undefined) return { kind: 'token', id };
  return { kind: kind as 'principal' | 'bucket', tenant, name };
}

/** The most characters that a name has: those of a prefix. */
export const accountNameMax = 'prefix://'.length + 2 * 63 + keyBytesMax;

function parsePrefix(text: string): Account | undefined {
  const [, tenant, bucket, prefix] = prefixForm.exec(text) ?? [];
  if (tenant === undefined || bucket === undefined || prefix === undefined) return undefined;
  if (Buffer.byteLength(prefix) > keyBytesMax) return undefined;
  return { kind: 'prefix', tenant, bucket, prefix };
}

function parseWriter(text: string): Account | undefined {
  const [, first, second, tenant, name] = writerForm.exec(text) ?? [];
  if (first === undefined || second === undefined) return undefined;
  if (tenant === undefined || name === undefined) {
    return { kind: 'writer', tenant: first, bucket: null, writer: { tenant: first, name: second } };
  }
  return { kind: 'writer', tenant: first, bucket: second, writer: { tenant, name } };
}

/** What somebody may have meant who wrote something that is no account; undefined: unknown. */
export function guessAccounts(text: string): string[] | undefined {
  const low = text.toLowerCase();
  const guesses = [
    ...[`principal:${low}`, `bucket:${low}`, `tenant:${low}`, low],
    ...[low.replace(/^(?:user|person|robot)s?:/, 'principal:'), low.replace(/^s3:\/+/, 'bucket:')],
    text.replace(/^(?:bucket:|s3:\/+)/, 'prefix:'),
    low.replace(/^(principal|bucket|tenant|writer)s?[/=:]/, '$1:'),
  ];
  const found = [...new Set(guesses)].filter((one) => parseAccount(one) !== undefined);
  return found.length === 0 ? undefined : found;
}

export function accountName(account: Account): string {
  switch (account.kind) {
    case 'tenant':
      return `tenant:${account.tenant}`;
    case 'principal':
    case 'bucket':
      return `${account.kind}:${account.tenant}/${account.name}`;
    case 'prefix':
      return `prefix:${account.tenant}/${account.bucket}/${account.prefix}`;
    case 'writer': {
      const { tenant, bucket, writer } = account;
      const place = bucket === null ? '' : `${tenant}/${bucket}/`;
      return `writer:${place}${writer.tenant}/${writer.name}`;
    }
    case 'token':
      return `token:${account.id}`;
  }
}

/** In whose name a token acts, or who owns a bucket. `name` null: nobody knows which principal. */
export interface Holder {
  tenant: string;
  name: string | null;
}

/** How far a right goes: everywhere, in the caller's tenant, or to what is the caller's own. */
type Reach = 'all' | 'tenant' | 'self' | 'none';

/**
 * Returns whether somebody may see an account's limits and use. `holder` is the principal that a
 * bucket, one of its prefixes or writers, or a token belongs to; null where there is none. Writers
 * see their own.
 */
export function maySeeAccount(
  asker: { tenant: string; name: string },
  reach: Reach,
  account: Account,
  holder: Holder | null,
): boolean {
  if (reach === 'all') return true;
  if (reach === 'none') return false;
  if (account.kind === 'writer') {
    const { tenant, name } = account.writer;
    if (tenant === asker.tenant && name === asker.name) return true;
  }
  const owner = ownerOf(account, holder);
  if (owner?.tenant !== asker.tenant) return false;
  return reach === 'tenant' || owner.name === asker.name;
}

/**
 * Returns the principal that an account belongs to. The account of a tenant belongs to nobody in
 * particular.
 */
function ownerOf(account: Account, holder: Holder | null): Holder | null {
  switch (account.kind) {
    case 'tenant':
      return { tenant: account.tenant, name: null };
    case 'principal':
      return account;
    case 'bucket':
    case 'prefix':
    case 'writer':
      // The tenant goes on showing the use and the limits of a deleted principal.
      return { tenant: account.tenant, name: holder?.name ?? null };
    case 'token':
      return holder;
  }
}
