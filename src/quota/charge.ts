// Which accounts an operation is charged to, and for what. Invariant: the same accounts are asked
// before it and charged after it, because one function names them. Plain data: it crosses threads.
// Charged are the requester, the requester's tenant, every token of the chain, the bucket, its
// owner and the owner's tenant; each once, and any of them can refuse (docs/admin/limits.md). A
// bucket whose reads its tenant pays for spares its owner them. Prefixes and writers with limits
// are charged besides.
// Stored bytes are the owner's: a requester who is not the owner is not charged for them.
import type { Picodollars } from '../core/money.ts';
import { bucketAccount, principalAccount, tenantAccount } from './account-names.ts';
import type { Draw, MeterAmounts } from './amounts.ts';
import type { Settlement } from './leases/requests.ts';
import type { AccountList } from './limited-accounts.ts';

export interface Charged {
  tenant: string;
  principal: string;
  /** `token:<jti>` of each link, and when it ends. */
  tokens: readonly { name: string; expiresAtMs: number }[];
  /** The bucket, of the requester's tenant or another's. Null means that no bucket is concerned. */
  bucket: ChargedBucket | null;
  /**
   * The accounts with limits of the prefixes that the key begins with, and of who writes; absent:
   * none.
   */
  limited?: AccountList | undefined;
}

export interface ChargedBucket {
  tenant: string;
  name: string;
  owner: string;
  /** `tenant`: of what is done there its tenant pays, and its owner does not. */
  payer?: 'tenant';
}

/** What each account of a prefix or a writer has more, or less, of what is stored. */
export type LimitedLevels = ReadonlyMap<string, LimitedLevel>;

export interface LimitedLevel extends Stored {
  /**
   * The account is still being counted. So it may be the half of a change whose other half is left
   * to the count: more than what was reserved for both.
   */
  isCounting?: true;
}

/** What an operation added to or, less than 0, removed from what is stored. */
export interface Stored {
  storedBytes: number;
  storedObjects: number;
}

/** What an operation moved. Bytes are counted as sent on the wire, without HTTP framing. */
export interface Transfer {
  requests: number;
  ingressBytes: number;
  egressBytes: number;
  /** Read from the object's class, to be sent or copied. */
  retrievalBytes: number;
}

/** The prices that were in force when the operation was reserved. */
export interface Pricing {
  /** Name of the price book. */
  book: string;
  storageClass: string;
  /**
   * The storage class of what was read. Null means that nothing was read, or that the class is the
   * same.
   */
  sourceClass: string | null;
  price: 'put' | 'get' | 'free';
  /** The book by which what was read is priced; absent: as the rest. */
  sourceBook?: string;
  /**
   * The books of the copies of a class that is not one of price books, joined
   * (storage/several-books.ts); absent: as the operation.
   */
  storageBook?: string;
}

/** The charge for one operation, without what it changes of what is stored. */
export interface Charge {
  who: Charged;
  transfer: Transfer;
  pricing: Pricing;
  /** What the operation had reserved. Null means nothing that is limited. */
  settlement: Settlement | null;
}

export const noTransfer: Readonly<Transfer> = {
  requests: 0,
  ingressBytes: 0,
  egressBytes: 0,
  retrievalBytes: 0,
};

/**
 * What each account is charged. `moved`: requests, bytes and money; `stored`: what is added to or,
 * less than 0, removed from what is stored. `levels`: the same of prefixes and writers, once it is
 * known; they may be others than those of the request, where it is about two keys, or about what
 * somebody else wrote.
 */
export function drawsOf(
  who: Charged,
  moved: MeterAmounts,
  stored: Stored | null,
  levels?: LimitedLevels | null,
): Draw[] {
  const isStored = stored !== null && (stored.storedBytes !== 0 || stored.storedObjects !== 0);
  const { all, owners, limitedOwners, others } = listsOf(who);
  const { tenant, principal, tokens, limited } = who;
  // Nearly always the prefixes and writers store what the owners do.
  const isWithOwners = levels === undefined || isAsStored(levels, limited, stored);
  const draws: Draw[] = [];
  if (!isStored && !levels) draws.push({ accounts: all, amounts: moved });
  else {
    const both = isStored ? withStored(moved, stored) : moved;
    const accounts = isWithOwners ? limitedOwners : owners;
    if (accounts.length > 0) draws.push({ accounts, amounts: both });
    if (others.length > 0) draws.push({ accounts: others, amounts: moved });
  }
  if (tokens.length > 0) {
    // A token has no store of its own: it is counted what was added with it, and removing it, or
    // somebody else's, does not make room for more.
    const amounts = isStored ? withStored(moved, addedOf(stored)) : moved;
    for (const { name, expiresAtMs } of tokens) {
      draws.push({ accounts: [name], amounts, token: { tenant, principal, expiresAtMs } });
    }
  }
  if (limited && levels === null && isStored) draws.push({ accounts: limited, amounts: moved });
  if (!levels || isWithOwners) return draws;
  if (limited) {
    for (const account of limited) {
      const level = levels.get(account);
      const isWith = level && !level.isCounting;
      const amounts = isWith ? withStored(moved, level) : moved;
      draws.push({ accounts: [account], amounts });
      if (level?.isCounting) draws.push(drawOfLevel(account, level));
    }
  }
  draws.push(...drawsOfLevels(levels, limited));
  return draws;
}

/** Whether those charged besides store as much more, or less, as the owners do, and nobody else. */
function isAsStored(
  levels: LimitedLevels | null,
  limited: AccountList | undefined,
  stored: Stored | null,
): boolean {
  if (!levels || !limited || !stored || levels.size !== limited.length) return false;
  for (const account of limited) {
    const level = levels.get(account);
    if (!level || level.isCounting) return false;
    if (level.storedBytes !== stored.storedBytes) return false;
    if (level.storedObjects !== stored.storedObjects) return false;
  }
  return true;
}

/** The accounts that an operation is charged to. */
export function accountsOf(who: Charged): AccountList {
  const { all } = listsOf(who);
  return who.tokens.length === 0 ? all : [...all, ...who.tokens.map(({ name }) => name)];
}

/** The accounts of who is charged, tokens apart. */
interface Lists {
  readonly all: AccountList;
  /** For whom is stored what is: the bucket, its owner and its tenant; empty without a bucket. */
  readonly owners: AccountList;
  /** Prefixes and writers as well. */
  readonly limitedOwners: AccountList;
  readonly others: AccountList;
}

/** Many requests share who is charged. */
const lists = new WeakMap<Charged, Lists>();

function listsOf(who: Charged): Lists {
  const known = lists.get(who);
  if (known) return known;
  const { tenant, principal, bucket, limited = [] } = who;
  const requester = principalAccount(tenant, principal);
  const owner = bucket && principalAccount(bucket.tenant, bucket.owner);
  const owners: string[] = [];
  const others: string[] = [];
  if (bucket) {
    owners.push(bucketAccount(bucket.tenant, bucket.name));
    if (owner && !bucket.payer) owners.push(owner);
    owners.push(tenantAccount(bucket.tenant));
  }
  if (requester !== owner || bucket?.payer) others.push(requester);
  if (tenant !== bucket?.tenant) others.push(tenantAccount(tenant));
  const limitedOwners = bucket ? [...limited, ...owners] : owners;
  const made = { all: [...limitedOwners, ...others], owners, limitedOwners, others };
  // With tokens, who is charged is made for each request.
  if (who.tokens.length === 0) lists.set(who, made);
  return made;
}

/** What of prefixes and writers is stored, but for those that are charged with the rest. */
export function drawsOfLevels(levels: LimitedLevels, besides: AccountList = []): Draw[] {
  const draws: Draw[] = [];
  for (const [account, level] of levels) {
    if (!besides.includes(account)) draws.push(drawOfLevel(account, level));
  }
  return draws;
}

function drawOfLevel(account: string, level: LimitedLevel): Draw {
  const { storedBytes, storedObjects, isCounting } = level;
  const amounts = { storedBytes, storedObjects };
  return { accounts: [account], amounts, ...(isCounting && { isUnreserved: true }) };
}

/**
 * The cost of storage is charged to the bucket, its owner and the owner's tenant, whoever made the
 * request.
 */
export function drawsOfOwner(bucket: NonNullable<Charged['bucket']>, cost: Picodollars): Draw[] {
  const { tenant, owner: principal } = bucket;
  return drawsOf({ tenant, principal, tokens: [], bucket }, { spend: Number(cost) }, null);
}

/** Member by member: this is on the way of each request, and spreading takes ten times as long. */
function withStored(
  { spend = 0, requests = 0, ingressBytes = 0, egressBytes = 0 }: MeterAmounts,
  { storedBytes, storedObjects }: Stored,
): MeterAmounts {
  return { spend, requests, ingressBytes, egressBytes, storedBytes, storedObjects };
}

function addedOf(stored: Stored): Stored {
  return {
    storedBytes: Math.max(0, stored.storedBytes),
    storedObjects: Math.max(0, stored.storedObjects),
  };
}

/** A charge for stored bytes alone: it has no price, and nobody's limits hold it up. */
export function chargeStored(who: Charged, book: string, storageBook?: string): Charge {
  const pricing: Pricing = {
    ...{ book, storageClass: '', sourceClass: null, price: 'free' },
    ...(storageBook !== undefined && { storageBook }),
  };
  return { who, transfer: noTransfer, pricing, settlement: null };
}
