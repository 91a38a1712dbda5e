// Two-phase charging (DESIGN section 9, after TigerBeetle's two-phase transfers): an operation
// reserves the most it may use before its body moves, and the reservation is resolved exactly once,
// by a post (the ledger charges what was used) or a void. What is reserved and not yet resolved
// counts against the disk, the one limit that every gateway has: an upload that cannot fit is
// refused before its body. No principal gets it all: see `FairShare`.
import { Refusal } from '../core/errors.ts';
import { FairShare } from '../core/fair-share.ts';

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
  readonly #disk: FairShare;
  #count = 0;

  /** `storeFreeBytes` tells what the store can still take, not counting reservations. */
  constructor(storeFreeBytes: () => number) {
    this.#disk = new FairShare(storeFreeBytes);
  }

  /** How many reservations are open. */
  get open(): number {
    return this.#count;
  }

  /**
   * Sets `estimate` aside for a principal (`cms/alice`). Throws `Refusal` ServiceUnavailable when
   * the store has no room for it; SlowDown when beside the principal's other open uploads it would
   * be more than half of what the others leave.
   */
  reserve(principal: string, estimate: Estimate): Reservation {
    const { ingressBytes } = estimate;
    const outcome = this.#disk.take(principal, ingressBytes);
    if (outcome === 'noRoom') {
      throw new Refusal('ServiceUnavailable', { message: 'The store has no room for this body.' });
    }
    if (outcome === 'tooMuch') {
      const message =
        'Your open uploads take too much of the room that is left. Finish them first.';
      throw new Refusal('SlowDown', { message });
    }
    this.#count += 1;
    let resolved = false;
    const resolve = (): void => {
      resolved = true;
      this.#disk.give(principal, ingressBytes);
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
