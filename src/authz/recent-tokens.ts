// What was verified, kept so that the next request with the same token costs a look-up. Invariants:
// bounded in bytes of the tokens; nothing is found after the time it is good for, or after
// something was changed that it may depend on.
import { type Followed, Loads } from '../core/loads.ts';

const MiB = 1024 * 1024;

interface Kept<T> {
  token: T;
  bytes: number;
}

export class RecentTokens<T extends { goodUntilMs: number }> {
  readonly #generationBytes: number;
  readonly #loads: Loads;
  #young = new Map<string, Kept<T>>();
  #youngBytes = 0;
  #old = new Map<string, Kept<T>>();
  hits = 0;
  /** What was verified and kept. */
  misses = 0;

  /** `generationBytes`: of the tokens in one of the two generations that are kept. */
  constructor(followed: Followed, generationBytes = 4 * MiB) {
    this.#loads = new Loads(followed);
    this.#generationBytes = generationBytes;
  }

  /** To be read before a token is verified. */
  get asOf(): number {
    return this.#loads.asOf;
  }

  get entries(): number {
    return this.#young.size + this.#old.size;
  }

  find(text: string, nowMs: number): T | undefined {
    let kept = this.#young.get(text);
    if (kept === undefined) {
      kept = this.#old.get(text);
      if (kept !== undefined) this.#add(text, kept);
    }
    if (kept === undefined || nowMs >= kept.token.goodUntilMs) return undefined;
    this.hits += 1;
    return kept.token;
  }

  /**
   * Unless something was changed that it may depend on since `asOf`, when its verification began.
   * `bytes`: what it takes in memory, where that is more than its text.
   */
  keep(text: string, token: T, asOf: number, bytes = text.length): void {
    this.misses += 1;
    if (this.#loads.isCurrent(asOf)) this.#add(text, { token, bytes });
  }

  #add(text: string, kept: Kept<T>): void {
    if (this.#youngBytes + kept.bytes > this.#generationBytes) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#youngBytes = 0;
    }
    if (!this.#young.has(text)) this.#youngBytes += kept.bytes;
    this.#young.set(text, kept);
  }

  /** An event of this index concerns what tokens may depend on, and is being applied. */
  clear(index: number): void {
    this.#loads.outdate(index);
    this.#young = new Map();
    this.#old = new Map();
    this.#youngBytes = 0;
  }
}
