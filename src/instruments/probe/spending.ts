// What a probe's requests are estimated to cost, and how much of that it may. Invariant: what is
// about to be sent was set aside first, and tries that failed count as well, so that the limit is
// never passed; where a price has tiers the dearest counts.
import { divideUp, type Picodollars } from '../../core/money.ts';

/** The prices of the objects' class at the endpoint that is measured. */
export interface ProbePrices {
  perPut: Picodollars;
  perGet: Picodollars;
  perGbIn: Picodollars;
  /** Retrieval included. */
  perGbOut: Picodollars;
}

const bytesPerGb = 2n ** 30n;

export interface Work {
  puts?: number;
  gets?: number;
  bytesIn?: number;
  bytesOut?: number;
}

function priceWork(prices: ProbePrices, work: Work): Picodollars {
  const { puts = 0, gets = 0, bytesIn = 0, bytesOut = 0 } = work;
  return (
    BigInt(puts) * prices.perPut +
    BigInt(gets) * prices.perGet +
    divideUp(BigInt(bytesIn) * prices.perGbIn, bytesPerGb) +
    divideUp(BigInt(bytesOut) * prices.perGbOut, bytesPerGb)
  );
}

export class Spending {
  readonly #max: Picodollars | null;
  spent: Picodollars = 0n;

  /** null: there is no limit. */
  constructor(max: Picodollars | null) {
    this.#max = max;
  }

  /**
   * Counts the work as done; prices that are null are not known. Throws `ProbeEnd` where it would
   * cost more than is left.
   */
  spend(prices: ProbePrices | null, work: Work): Picodollars {
    const cost = prices ? priceWork(prices, work) : 0n;
    if (this.#max !== null && this.spent + cost > this.#max) {
      throw new ProbeEnd('spent', 'the spending limit leaves too little for the next request');
    }
    this.spent += cost;
    return cost;
  }
}

/** `spent`: for want of money; `refused`: the server will not be measured; `stopped`: asked to. */
export type EndReason = 'spent' | 'refused' | 'stopped';

/** Why a probe ends before it is done. */
export class ProbeEnd extends Error {
  override readonly name = 'ProbeEnd';
  readonly reason: EndReason;

  constructor(reason: EndReason, message: string, cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}
