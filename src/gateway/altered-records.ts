// Tells of records that are not what was recorded: each once, whoever came upon it, however often.
import { AlteredRecord } from '../audit/record-store.ts';

/** So many are remembered; more are told again. */
const knownMax = 100_000;

export class AlteredRecords {
  readonly #known = new Set<number>();
  #tell: ((found: AlteredRecord) => void) | null = null;

  /** The record `index` is not what was recorded. */
  readonly found = (index: number): void => {
    if (this.#known.has(index)) return;
    if (this.#known.size === knownMax) this.#known.clear();
    this.#known.add(index);
    this.#tell?.(new AlteredRecord(index));
  };

  /** From now on they are told here; those that were found before are at once. */
  begin(tell: (found: AlteredRecord) => void): void {
    this.#tell = tell;
    for (const index of this.#known) tell(new AlteredRecord(index));
  }
}
