// What an operation claims of the leases of a holder: what it needs of each account, what memory
// gave of that, and what is lacking, which the ledger is asked for.
import { type Meter, meters } from '../../core/quota-terms.ts';
import { amountMax, type MeterAmounts } from '../amounts.ts';
import type { AccountLease } from './account-lease.ts';
import type { HeldAccount, Shortage } from './requests.ts';

/** The amounts that an operation needs of one account, and what memory held of them. */
export interface Claim {
  lease: AccountLease;
  held: HeldAccount;
  needed: { [M in Meter]?: number };
  taken: { [M in Meter]?: number };
}

/**
 * All amounts that memory cannot give come through here: a negative one, or one that is no number,
 * is a bug.
 */
export function checkAmounts(amounts: MeterAmounts): void {
  for (const meter of meters) {
    const amount = amounts[meter] ?? 0;
    if (!(amount >= 0 && amount <= amountMax)) {
      throw new RangeError(`${amount} ${meter} cannot be reserved`);
    }
  }
}

export function lackOf({ held, needed, taken }: Claim): MeterAmounts {
  const lack: { [M in Meter]?: number } = {};
  for (const meter of held.limited) lack[meter] = (needed[meter] ?? 0) - (taken[meter] ?? 0);
  return lack;
}

export function isLacking({ held, needed, taken }: Claim): boolean {
  return held.limited.some((meter) => (taken[meter] ?? 0) < (needed[meter] ?? 0));
}

export function gainsOf(claims: readonly Claim[]): number {
  return claims.reduce((sum, { lease }) => sum + lease.gains, 0);
}

/**
 * The shortage as the client sees it: everything it asked for, and as reserved only what others
 * reserved.
 */
export function explain(shortage: Shortage, claims: readonly Claim[]): Shortage {
  const claim = claims.find(({ lease }) => lease.account === shortage.account);
  const taken = BigInt(claim?.taken[shortage.meter] ?? 0);
  return { ...shortage, reserved: shortage.reserved - taken, asked: shortage.asked + taken };
}

/** Has the leases know of a request to the ledger until it is known what came of it. */
export async function track<T>(
  within: readonly { lease: AccountLease }[],
  work: Promise<T>,
): Promise<T> {
  for (const { lease } of within) lease.asked.add(work);
  try {
    return await work;
  } finally {
    for (const { lease } of within) lease.asked.delete(work);
  }
}
