// A bit for each record of a log, in memory, and kept with the rest of a comparison in pages. So
// what is kept of a version is three bits, and a log of a billion records takes less than 400 MB.
import { isCount } from '../../core/json.ts';
import type { StagedMap, Staging } from './staging.ts';

const pageBytes = 4096;

export class Bits {
  readonly #pages: StagedMap<string>;
  readonly #changed = new Set<number>();
  #bytes = new Uint8Array(pageBytes);

  private constructor(pages: StagedMap<string>) {
    this.#pages = pages;
  }

  static async open(staging: Staging, name: string): Promise<Bits> {
    const bits = new Bits(staging.map(`bits ${name}`));
    for await (const [page, text] of bits.#pages.entries()) {
      const at = Number(page) * pageBytes;
      bits.#reach(at + pageBytes);
      bits.#bytes.set(Buffer.from(text, 'base64'), at);
    }
    return bits;
  }

  /** `place`: of any type, as rows have it. */
  has(place: number): boolean {
    if (!isCount(place)) return false;
    return ((this.#bytes[Math.floor(place / 8)] ?? 0) & (1 << (place % 8))) !== 0;
  }

  /** `place` must be one of the log. */
  set(place: number): void {
    const at = Math.floor(place / 8);
    this.#reach(at + 1);
    this.#bytes[at] = (this.#bytes[at] ?? 0) | (1 << (place % 8));
    this.#changed.add(Math.floor(at / pageBytes));
  }

  /** To be called before a slice is committed. */
  async save(): Promise<void> {
    for (const page of this.#changed) {
      const bytes = this.#bytes.subarray(page * pageBytes, (page + 1) * pageBytes);
      await this.#pages.set(`${page}`, Buffer.from(bytes).toString('base64'));
    }
    this.#changed.clear();
  }

  #reach(length: number): void {
    if (length <= this.#bytes.length) return;
    const pages = Math.ceil(Math.max(length, 2 * this.#bytes.length) / pageBytes);
    const bytes = new Uint8Array(pages * pageBytes);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
  }
}
