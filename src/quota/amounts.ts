// What operations use, and sums of it, by meter. One operation's amounts are safe integers, so the
// way of a request makes no bigint. Sums are bigints.
import { type Meter, meters } from '../core/quota-terms.ts';

/** Bytes, objects, requests, and picodollars. Levels may be negative: something was removed. */
export type MeterAmounts = { readonly [M in Meter]?: number };

/**
 * The most of a meter that one step of an operation may reserve: in picodollars $1,125.90, for
 * which 5 TiB are sent at 21 cents a GB. Sums of some of them stay safe integers.
 */
export const amountMax = 2 ** 50;

export type Sums = Record<Meter, bigint>;

/** Sums of few enough amounts that they are safe integers. */
export type Counts = Record<Meter, number>;

/**
 * What the ledger keeps of a token. Nothing else tells to whom a token belongs that was made
 * elsewhere.
 */
export interface TokenFacts {
  /** The principal in whose name the token acts. */
  readonly tenant: string;
  readonly principal: string;
  readonly expiresAtMs: number;
}

/** The amounts that each of some accounts uses, or may use, of one operation. */
export interface Draw {
  /** Each once. Requests that are charged to the same ones share a list of them. */
  readonly accounts: readonly string[];
  readonly amounts: MeterAmounts;
  /** The token, where the only account is a token's. */
  readonly token?: TokenFacts;
  /** It is used whatever was reserved. */
  readonly isUnreserved?: true;
}

export function emptySums(): Sums {
  return {
    spend: 0n,
    storedBytes: 0n,
    storedObjects: 0n,
    ingressBytes: 0n,
    egressBytes: 0n,
    requests: 0n,
  };
}

export function emptyCounts(): Counts {
  return {
    spend: 0,
    storedBytes: 0,
    storedObjects: 0,
    ingressBytes: 0,
    egressBytes: 0,
    requests: 0,
  };
}

/** Adds `amounts` to `sums`, or takes them off with a `sign` of -1. Throws for a fraction. */
export function addAmounts(sums: Sums, amounts: MeterAmounts, sign: 1 | -1 = 1): void {
  for (const meter of meters) {
    const amount = amounts[meter];
    if (amount) sums[meter] += BigInt(sign * amount);
  }
}

/** Whether of each meter `held` is at least what is `taken`. Member by member: requests ask it. */
export function covers(held: MeterAmounts, taken: MeterAmounts): boolean {
  return (
    (held.spend ?? 0) >= (taken.spend ?? 0) &&
    (held.storedBytes ?? 0) >= (taken.storedBytes ?? 0) &&
    (held.storedObjects ?? 0) >= (taken.storedObjects ?? 0) &&
    (held.ingressBytes ?? 0) >= (taken.ingressBytes ?? 0) &&
    (held.egressBytes ?? 0) >= (taken.egressBytes ?? 0) &&
    (held.requests ?? 0) >= (taken.requests ?? 0)
  );
}

export function isEmpty(sums: Sums): boolean {
  return meters.every((meter) => sums[meter] === 0n);
}
