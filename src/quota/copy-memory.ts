// The memory of copies whose bytes are read and written again, of all threads together. What a copy
// holds comes free by itself, so nobody takes it back.
import { Refusal } from '../core/errors.ts';
import { type Claim, FairShare } from '../core/fair-share.ts';
import type { WantedRoom } from './disk-room.ts';

const bytesMax = 64 * 1024 * 1024;

export interface HeldMemory {
  /** Gives it back. Calling it twice is harmless. */
  close(): void;
}

/** Where copies take their memory. */
export interface CopyMemories {
  /** Throws, or rejects with, `Refusal` SlowDown when there is none beside the other copies. */
  hold(wanted: WantedRoom): Promise<HeldMemory> | HeldMemory;
}

export class CopyMemory implements CopyMemories {
  readonly #share = new FairShare(() => bytesMax);

  hold(wanted: WantedRoom): HeldMemory {
    const claim = this.claim(wanted);
    if (!claim) throw new Refusal('SlowDown');
    return claim;
  }

  /** The same; null: there is none. */
  claim({ tenant, principal, bytes }: WantedRoom): Claim | null {
    const claim = this.#share.open(tenant, principal, null);
    return claim.take(bytes) === 'taken' ? claim : null;
  }
}
