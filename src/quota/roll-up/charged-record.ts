// What one audit record says that was charged, and to whom. Invariant: added up, records give each
// account's counters exactly, because the accounts are named by the function that charged them
// (`charge.ts`). The record's members are described in docs/audit/records.md.
import { parseUsd } from '../../core/money.ts';
import { type Charged, drawsOf, drawsOfOwner } from '../charge.ts';

/** Of a record, who asked and whose bucket it was. */
export interface Parties {
  readonly tenant: string;
  readonly principal: string;
  readonly tokens?: readonly string[];
  readonly bucket?: string;
  readonly bucketTenant?: string;
  readonly bucketOwner?: string;
}

/** Of a record, what says about charges. */
export interface ChargedRecord extends Parties {
  time: string;
  action: string;
  class?: string;
  /** Decimal USD; absent: nobody was charged. */
  cost?: string;
  /** The same of what the bucket, its owner and the owner's tenant were charged besides. */
  storageCost?: string;
  /** Absent: it was not charged as a request. */
  price?: string;
  /** Of reads that are one record: how many, and when the last was. */
  reads?: number;
  lastRead?: string;
  bytesIn: number;
  bytesOut: number;
  storedBytes: number;
  storedObjects: number;
}

/** Where no object was concerned. */
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

export interface Part extends Tally {
  account: string;
  /** `2026-11-21`, UTC. */
  day: string;
  action: string;
  /** Storage class, or `noClass`. */
  class: string;
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
  if (cost === undefined) return [];
  const who = chargedOf(record);
  const moved = {
    requests: record.price === undefined ? 0 : (record.reads ?? 1),
    ingressBytes: record.bytesIn,
    egressBytes: record.bytesOut,
  };
  const { storedBytes, storedObjects } = record;
  const spend = readCost(cost);
  const storageCost = readCost(record.storageCost ?? '0');
  const owners = storageCost > 0n && who.bucket ? drawsOfOwner(who.bucket, storageCost) : [];
  const isOwners = (account: string) => owners.some((draw) => draw.account === account);
  return drawsOf(who, moved, { storedBytes, storedObjects }).map(({ account, amounts }) => ({
    account,
    day: (record.lastRead ?? record.time).slice(0, 10),
    action: record.action,
    class: record.class ?? noClass,
    requests: amounts.requests ?? 0,
    ingressBytes: amounts.ingressBytes ?? 0,
    egressBytes: amounts.egressBytes ?? 0,
    storedBytes: amounts.storedBytes ?? 0,
    storedObjects: amounts.storedObjects ?? 0,
    spend: isOwners(account) ? spend + storageCost : spend,
  }));
}

/** A token's account, which no day has. */
export function isToken(account: string): boolean {
  return account.startsWith('token:');
}

/** Whom a record says that its operation was charged to. */
export function chargedOf(record: Parties): Charged {
  const { tenant, principal, bucket, bucketOwner, bucketTenant = tenant, tokens = [] } = record;
  const isAboutBucket = bucket !== undefined && bucketOwner !== undefined;
  return {
    tenant,
    principal,
    tokens: tokens.map((jti) => ({ name: `token:${jti}`, expiresAtMs: 0 })),
    bucket: isAboutBucket ? { tenant: bucketTenant, name: bucket, owner: bucketOwner } : null,
  };
}

function readCost(text: string): bigint {
  const cost = parseUsd(text);
  if (cost === undefined) throw new Error('a record has a cost that is none');
  return cost;
}
