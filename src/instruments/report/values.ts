// A collection of numbers that stays within bounds. Invariants: count, sum, least and greatest are
// exact; all values are kept up to a bound, and beyond it each has the same chance to be kept
// (Vitter's algorithm R); what is kept depends on nothing but the values and their order.
import { quantileOf } from './statistics.ts';

/** Equal on every machine and in every run (mulberry32). */
export class Chance {
  #state = 0x6d2b79f5;

  /** A whole number, 0 to `below` - 1. */
  pick(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  }
}

export class Values {
  count = 0;
  sum = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  readonly #keptMax: number;
  readonly #chance = new Chance();
  #kept = new Float64Array(16);
  #sorted: Float64Array | null = null;

  constructor(keptMax: number) {
    this.#keptMax = keptMax;
  }

  add(value: number): void {
    const index = this.#placeOfNext();
    this.sum += value;
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    if (index >= this.#keptMax) return;
    if (index >= this.#kept.length) this.#grow();
    this.#kept[index] = value;
    this.#sorted = null;
  }

  #placeOfNext(): number {
    this.count++;
    return this.count <= this.#keptMax ? this.count - 1 : this.#chance.pick(this.count);
  }

  #grow(): void {
    const wider = new Float64Array(Math.min(this.#kept.length * 2, this.#keptMax));
    wider.set(this.#kept);
    this.#kept = wider;
  }

  get mean(): number {
    return this.sum / this.count;
  }

  /** How many values the quantiles are of. */
  get keptCount(): number {
    return Math.min(this.count, this.#keptMax);
  }

  /** What was kept, ascending. */
  get sorted(): Float64Array {
    this.#sorted ??= this.#kept.slice(0, this.keptCount).sort();
    return this.#sorted;
  }

  /** `share` 0 to 1; of at least one value. */
  quantile(share: number): number {
    return quantileOf(this.sorted, share);
  }
}
