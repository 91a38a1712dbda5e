// Two-phase charging (DESIGN section 9, after TigerBeetle's two-phase transfers): an operation reserves
// the most it may use before its body moves, and the reservation is resolved exactly once, by a post
// (the ledger charges what was used) or a void. What is reserved and not yet resolved counts against
// the disk, the one limit that every gateway has: an upload that cannot fit is refused before its body.
import { Refusal } from '../core/errors.ts';

export interface Estimate {
  ingressBytes: number;
  egressBytes: number;
}

export interface Reservation {
  readonly estimate: Estimate;
  /** Ends the reservation; the charge itself travels in the commit. Calling it twice is a bug. */
  post(): void;
  /** Ends the reservation of an operation that did not happen; harmless after `post`. */
  void(): void;
}

export class Reservations {
  readonly #storeFreeBytes: () => number;
  #ingressBytes = 0;
  #count = 0;

  /** `storeFreeBytes` tells what the store can still take, not counting reservations. */
  constructor(storeFreeBytes: () => number) {
    this.#storeFreeBytes = storeFreeBytes;
  }

  /** How many reservations are open. */
  get open(): number {
    return this.#count;
  }

  /** Sets `estimate` aside. Throws `Refusal` ServiceUnavailable when the store has no room for it. */
  reserve(estimate: Estimate): Reservation {
    const { ingressBytes } = estimate;
    if (ingressBytes > 0 && this.#ingressBytes + ingressBytes > this.#storeFreeBytes()) {
      throw new Refusal('ServiceUnavailable', { message: 'The store has no room for this body.' });
    }
    this.#ingressBytes += ingressBytes;
    this.#count += 1;
    let resolved = false;
    const resolve = (): void => {
      resolved = true;
      this.#ingressBytes -= ingressBytes;
      this.#count -= 1;
    };
    return {
      estimate,
      post: () => {
        if (resolved) throw new Error('a reservation was resolved twice');
        resolve();
      },
      void: () => {
        if (!resolved) resolve();
      },
    };
  }
}
