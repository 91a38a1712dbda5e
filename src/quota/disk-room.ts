// The one limit that every gateway has: what its own disk can still take. An upload sets aside the
// room that its body needs before the body moves, so one that cannot fit is refused before it is
// sent; and no principal gets all the room there is: see `FairShare`.
import { Refusal } from '../core/errors.ts';
import { FairShare } from '../core/fair-share.ts';

export class DiskRoom {
  readonly #share: FairShare;

  /** `freeBytes` tells what the disk can still take, not counting what is set aside. */
  constructor(freeBytes: () => number) {
    this.#share = new FairShare(freeBytes);
  }

  /** What the disk can still take, with what is set aside of it. */
  get freeBytes(): number {
    return this.#share.capacityBytes;
  }

  get heldBytes(): number {
    return this.#share.heldBytes;
  }

  /**
   * Sets `bytes` aside for a principal (`cms/alice`); gives what ends that, to be called once. Throws
   * `Refusal` ServiceUnavailable when there is no room for it; SlowDown when beside the principal's
   * other open uploads it would be more than half of what the others leave.
   */
  take(principal: string, bytes: number): () => void {
    if (bytes === 0) return nothing;
    const outcome = this.#share.take(principal, bytes);
    if (outcome === 'noRoom') {
      throw new Refusal('ServiceUnavailable', { message: 'The store has no room for this body.' });
    }
    if (outcome === 'tooMuch') {
      const message =
        'Your open uploads take too much of the room that is left. Finish them first.';
      throw new Refusal('SlowDown', { message });
    }
    return () => this.#share.give(principal, bytes);
  }
}

function nothing(): void {}
