// A collection of numbers that stays within bounds. Invariants: counts and means are exact; all
// values are kept up to a bound, and beyond it each has the same chance to be kept (Vitter's
// algorithm R); what is kept depends on nothing but the values and their order.
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
  /** Values, each once. */
  count = 0;
  #sum = 0;
  #weights = 0;
  readonly #keptMax: number;
  readonly #chance = new Chance();
  #kept = new Float64Array(16);
  /** The weights of what was kept; null: each is 1. */
  #keptWeights: Float64Array | null = null;
  #sorted: Float64Array | null = null;
  /** The cumulative weights of what was kept, in the order of `sorted`. */
  #weightsUpTo: Float64Array | null = null;

  constructor(keptMax: number) {
    this.#keptMax = keptMax;
  }

  /** `weight`: how many it stands for. */
  add(value: number, weight = 1): void {
    const index = this.#placeOfNext();
    this.#sum += value * weight;
    this.#weights += weight;
    if (index >= this.#keptMax) return;
    if (index >= this.#kept.length) this.#grow();
    if (weight !== 1) this.#keptWeights ??= new Float64Array(this.#kept.length).fill(1);
    this.#kept[index] = value;
    if (this.#keptWeights) this.#keptWeights[index] = weight;
    this.#sorted = null;
  }

  #placeOfNext(): number {
    this.count++;
    return this.count <= this.#keptMax ? this.count - 1 : this.#chance.pick(this.count);
  }

  #grow(): void {
    const length = Math.min(this.#kept.length * 2, this.#keptMax);
    this.#kept = widen(this.#kept, length);
    if (this.#keptWeights) this.#keptWeights = widen(this.#keptWeights, length);
  }

  get mean(): number {
    return this.#sum / this.#weights;
  }

  /** What was kept, ascending. */
  get sorted(): Float64Array {
    this.#sorted ??= this.#sort();
    return this.#sorted;
  }

  #sort(): Float64Array {
    const kept = this.#kept.slice(0, Math.min(this.count, this.#keptMax));
    const weights = this.#keptWeights;
    if (!weights) return kept.sort();
    const order = Array.from(kept.keys()).sort((a, b) => (kept[a] ?? 0) - (kept[b] ?? 0));
    let sum = 0;
    this.#weightsUpTo = Float64Array.from(order, (index) => {
      sum += weights[index] ?? 1;
      return sum;
    });
    return Float64Array.from(order, (index) => kept[index] ?? 0);
  }

  /** What share of all is at most as large as that value of `sorted`. */
  shareUpTo(index: number): number {
    const { length } = this.sorted;
    const sums = this.#weightsUpTo;
    return sums ? (sums[index] ?? 0) / (sums[length - 1] ?? 1) : (index + 1) / length;
  }

  /**
   * `share` 0 to 1; of at least one value. Where weights differ, the least value that so large a
   * share of the weights is not above.
   */
  quantile(share: number): number {
    const { sorted } = this;
    const sums = this.#weightsUpTo;
    if (!sums) return quantileOf(sorted, share);
    const wanted = share * (sums[sums.length - 1] ?? 0);
    const index = sums.findIndex((sum) => sum >= wanted);
    return sorted[index < 0 ? sorted.length - 1 : index] ?? 0;
  }
}

function widen(values: Float64Array, length: number): Float64Array<ArrayBuffer> {
  const wider = new Float64Array(length);
  wider.set(values);
  return wider;
}
