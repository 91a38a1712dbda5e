// Verified tokens, so that the next request with one costs a look-up. Invariants: bounded in bytes;
// nothing is found after the time it is good for, or after something was forgotten that it may
// depend on.

export class RecentTokens<T extends { goodUntilMs: number }> {
  readonly #generationBytesMax: number;
  #young = new Map<string, T>();
  #old = new Map<string, T>();
  #youngBytes = 0;
  #epoch = 0;

  /** There are two generations. */
  constructor(generationBytesMax = 4 * 1024 * 1024) {
    this.#generationBytesMax = generationBytesMax;
  }

  /** Another one after each `forgetAll`. */
  get epoch(): number {
    return this.#epoch;
  }

  find(text: string, nowMs: number): T | undefined {
    const token = this.#young.get(text) ?? this.#old.get(text);
    return token !== undefined && nowMs < token.goodUntilMs ? token : undefined;
  }

  /**
   * Unless all was forgotten since `epoch`, when its verification began. `sizeBytes` is what all of
   * it takes, as far as that grows with what its sender wrote.
   */
  keep(text: string, token: T, epoch: number, sizeBytes = text.length): void {
    if (epoch !== this.#epoch) return;
    if (this.#youngBytes + sizeBytes > this.#generationBytesMax) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#youngBytes = 0;
    }
    this.#young.set(text, token);
    this.#youngBytes += sizeBytes;
  }

  forgetAll(): void {
    this.#epoch++;
    this.#young = new Map();
    this.#old = new Map();
    this.#youngBytes = 0;
  }
}
