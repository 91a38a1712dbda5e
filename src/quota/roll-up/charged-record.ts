// What one audit record says that was charged, and to whom. Invariant: added up, records give each
// account's counters exactly, because the accounts are named by the function that charged them
// (`charge.ts`). The record's members are described in docs/audit/records.md.
import { parseUsd } from '../../core/money.ts';
import type { MeterAmounts } from '../amounts.ts';
import { type Charged, drawsOf, drawsOfLevels, drawsOfOwner, type Stored } from '../charge.ts';

/** The members of a record that say who asked, and whose bucket it was. */
export interface Parties {
  readonly tenant: string;
  readonly principal: string;
  readonly tokens?: readonly string[];
  readonly bucket?: string;
  readonly bucketTenant?: string;
  readonly bucketOwner?: string;
  readonly payer?: string;
  /** The accounts of prefixes and writers with limits. */
  limited?: readonly LimitedUse[] | undefined;
}

/** What a record says of one account of a prefix or a writer. */
export interface LimitedUse {
  readonly account: string;
  /** It was charged the request, and what that moved. */
  readonly charged: boolean;
  readonly storedBytes: number;
  readonly storedObjects: number;
}

/** The members of a record that say what was charged. */
export interface ChargedRecord extends Parties {
  time: string;
  action: string;
  class?: string;
  /** Decimal USD; absent: nobody was charged. */
  cost?: string;
  /** Decimal USD that the bucket, its owner and the owner's tenant were charged in addition. */
  storageCost?: string;
  /** The class of its request's price. Absent: it was not charged as a request. */
  price?: string;
  /** Where several reads are one record: how many, and when the last one was. */
  reads?: number;
  lastRead?: string;
  bytesIn: number;
  bytesOut: number;
  storedBytes: number;
  storedObjects: number;
}

/** The class of what concerns no object. */
export const noClass = '-';

/** What is counted of a day, by account, action and class. */
export interface Tally {
  requests: number;
  ingressBytes: number;
  egressBytes: number;
  storedBytes: number;
  storedObjects: number;
  /** Picodollars. */
  spend: bigint;
}

/** What sums are kept for separately, besides the account. */
interface Kind {
  /** `2026-11-21`, UTC. */
  readonly day: string;
  readonly action: string;
  /** Storage class, or `noClass`. */
  readonly class: string;
}

export interface Part extends Kind, Tally {
  readonly account: string;
}

/** What one record charged, or several of the same parties and kind together. */
export interface Use extends Parties, Kind, Tally {
  /** Nobody was charged: it says only what prefixes and writers have more or less. */
  isUncharged?: boolean;
  /** Picodollars that the bucket, its owner and the owner's tenant were charged besides. */
  storageCost: bigint;
}

/** What a record's text charged to each account but tokens; nothing: nobody was charged. */
export function partsOf(text: string): Part[] {
  return partsOfRecord(JSON.parse(text) as ChargedRecord).filter(
    ({ account }) => !isToken(account),
  );
}

/** The same of a record that was read, and of tokens too. */
export function partsOfRecord(record: ChargedRecord): Part[] {
  const { cost } = record;
  const day = (record.lastRead ?? record.time).slice(0, 10);
  const kind = { day, action: record.action, class: record.class ?? noClass };
  if (cost === undefined) return partsOfLevels(kind, record.limited);
  return partsOfUse({
    ...record,
    ...kind,
    requests: record.price === undefined ? 0 : (record.reads ?? 1),
    ingressBytes: record.bytesIn,
    egressBytes: record.bytesOut,
    spend: readCost(cost),
    storageCost: readCost(record.storageCost ?? '0'),
  });
}

/** What each account was charged, tokens where they are named. */
export function partsOfUse(use: Use): Part[] {
  if (use.isUncharged) return partsOfLevels(use, use.limited);
  const { day, action, spend, storageCost } = use;
  const who = chargedOf(use);
  const owners = storageCost > 0n && who.bucket ? drawsOfOwner(who.bucket, storageCost) : [];
  const isOwners = (account: string) => owners.some(({ accounts }) => accounts.includes(account));
  const levels = use.limited ? levelsOf(use.limited) : null;
  const charged = drawsOf(who, movedBy(use), use, levels).flatMap(({ accounts, amounts }) =>
    accounts.map((account) => ({ account, amounts })),
  );
  // The last ones are of prefixes and writers that were charged nothing.
  const payers = charged.length - (levels ? drawsOfLevels(levels, who.limited).length : 0);
  return charged.map(({ account, amounts }, i) => ({
    account,
    day,
    action,
    class: use.class,
    requests: amounts.requests ?? 0,
    ingressBytes: amounts.ingressBytes ?? 0,
    egressBytes: amounts.egressBytes ?? 0,
    storedBytes: amounts.storedBytes ?? 0,
    storedObjects: amounts.storedObjects ?? 0,
    spend: i >= payers ? 0n : isOwners(account) ? spend + storageCost : spend,
  }));
}

/** What prefixes and writers have more or less where nobody was charged. */
function partsOfLevels(kind: Kind, limited: readonly LimitedUse[] = []): Part[] {
  const { day, action, class: of } = kind;
  return limited.map(({ account, storedBytes, storedObjects }) => ({
    ...{ account, day, action, class: of, requests: 0, ingressBytes: 0, egressBytes: 0 },
    ...{ storedBytes, storedObjects, spend: 0n },
  }));
}

function levelsOf(limited: readonly LimitedUse[]): Map<string, Stored> {
  return new Map(limited.map((one) => [one.account, one]));
}

function movedBy({ requests, ingressBytes, egressBytes }: Tally): MeterAmounts {
  return { requests, ingressBytes, egressBytes };
}

/** A token's account, which no day has. */
export function isToken(account: string): boolean {
  return account.startsWith('token:');
}

/** Whom a record says that its operation was charged to. */
export function chargedOf(record: Parties): Charged {
  const { tenant, principal, bucket, bucketOwner, bucketTenant = tenant, tokens = [] } = record;
  const isAboutBucket = bucket !== undefined && bucketOwner !== undefined;
  const limited = record.limited?.filter(({ charged }) => charged);
  return {
    tenant,
    principal,
    tokens: tokens.map((jti) => ({ name: `token:${jti}`, expiresAtMs: 0 })),
    bucket: isAboutBucket
      ? {
          ...{ tenant: bucketTenant, name: bucket, owner: bucketOwner },
          ...(record.payer === 'tenant' && { payer: 'tenant' }),
        }
      : null,
    limited: limited?.map(({ account }) => account),
  };
}

function readCost(text: string): bigint {
  const cost = parseUsd(text);
  if (cost === undefined) throw new Error('a record has a cost that is none');
  return cost;
}
