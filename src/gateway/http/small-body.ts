// Bodies that are collected before they are used (XML), and the memory that all of them share while
// they come in. Invariants: memory is taken as fast as bytes come, not as they are declared; and
// where it is short, the oldest body of whoever holds most gives way to somebody who holds less.
import { Refusal } from '../../core/errors.ts';
import { type Claim, FairShare, type Reclaim } from '../../core/fair-share.ts';
import { smallBodiesBytesMax, xmlBytesMax } from '../../core/limits.ts';

/** The memory of one of so many threads. */
export function memoryOfSmallBodies(threads: number): FairShare {
  const bytesMax = Math.max(Math.floor(smallBodiesBytesMax / threads), xmlBytesMax);
  return new FairShare(() => bytesMax);
}

/** What a body begins with; most need no more. */
const firstBytes = 64 * 1024;

export class SmallBody implements Reclaim {
  readonly #sizeBytes: number;
  readonly #claim: Claim;
  #buffer: Buffer;
  #filled = 0;
  #evict: (refusal: Refusal) => void = () => {};
  /** Rejects with `Refusal` SlowDown when others need the memory; else it never settles. */
  readonly evicted: Promise<never>;
  #isEvicted = false;

  /**
   * A body of `sizeBytes` in `memory`; it is to be closed. Throws `Refusal` SlowDown: there is no
   * memory.
   */
  constructor(memory: FairShare, who: { tenant: string; requester: string }, sizeBytes: number) {
    this.#sizeBytes = sizeBytes;
    this.#claim = memory.open(who.tenant, who.requester, this);
    this.evicted = new Promise((_, reject) => {
      this.#evict = reject;
    });
    this.evicted.catch(() => {});
    this.#buffer = this.#allocate(Math.min(sizeBytes, firstBytes));
  }

  /** Adds what has come. Throws `Refusal` IncompleteBody or SlowDown. */
  write(data: Buffer): null {
    // Whoever reads the rest of an evicted body throws it away.
    if (this.#isEvicted) return null;
    const filled = this.#filled + data.length;
    if (filled > this.#sizeBytes) throw new Refusal('IncompleteBody');
    if (filled > this.#buffer.length) this.#growTo(filled);
    data.copy(this.#buffer, this.#filled);
    this.#filled = filled;
    return null;
  }

  /** What has come. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#filled);
  }

  get spareBytes(): number {
    return this.#claim.bytes;
  }

  reclaim(): void {
    this.#isEvicted = true;
    this.close();
    this.#buffer = Buffer.alloc(0);
    this.#evict(new Refusal('SlowDown'));
  }

  /** Its memory is not counted any more. Harmless twice. */
  close(): void {
    this.#claim.close();
  }

  #growTo(leastBytes: number): void {
    const bytes = Math.min(Math.max(2 * this.#buffer.length, leastBytes), this.#sizeBytes);
    const grown = this.#allocate(bytes);
    this.#buffer.copy(grown, 0, 0, this.#filled);
    this.#buffer = grown;
  }

  #allocate(bytes: number): Buffer {
    if (this.#claim.take(bytes - this.#claim.bytes) !== 'taken') throw new Refusal('SlowDown');
    return Buffer.allocUnsafeSlow(bytes);
  }
}
