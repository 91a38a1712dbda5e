// What one audit record says that was charged, and to whom. Invariant: added up, records give each
// account's counters exactly, because the accounts are named by the function that charged them
// (`charge.ts`). The record's members are described in docs/audit/records.md.
import { parseUsd } from '../../core/money.ts';
import { drawsOf } from '../charge.ts';

/** Of a record, what says about charges. */
interface ChargedRecord {
  time: string;
  tenant: string;
  principal: string;
  action: string;
  class?: string;
  bucket?: string;
  bucketTenant?: string;
  bucketOwner?: string;
  /** Decimal USD; absent: nobody was charged. */
  cost?: string;
  /** Absent: it was not charged as a request. */
  price?: string;
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
  const record = JSON.parse(text) as ChargedRecord;
  const { tenant, principal, bucket, bucketOwner, cost } = record;
  if (cost === undefined) return [];
  const isAboutBucket = bucket !== undefined && bucketOwner !== undefined;
  const who = {
    ...{ tenant, principal, tokens: [] },
    bucket: isAboutBucket
      ? { tenant: record.bucketTenant ?? tenant, name: bucket, owner: bucketOwner }
      : null,
  };
  const moved = {
    requests: record.price === undefined ? 0 : 1,
    ingressBytes: record.bytesIn,
    egressBytes: record.bytesOut,
  };
  const { storedBytes, storedObjects } = record;
  const spend = readCost(cost);
  return drawsOf(who, moved, { storedBytes, storedObjects }).map(({ account, amounts }) => ({
    account,
    day: record.time.slice(0, 10),
    action: record.action,
    class: record.class ?? noClass,
    requests: amounts.requests ?? 0,
    ingressBytes: amounts.ingressBytes ?? 0,
    egressBytes: amounts.egressBytes ?? 0,
    storedBytes: amounts.storedBytes ?? 0,
    storedObjects: amounts.storedObjects ?? 0,
    spend,
  }));
}

function readCost(text: string): bigint {
  const cost = parseUsd(text);
  if (cost === undefined) throw new Error('a record has a cost that is none');
  return cost;
}
