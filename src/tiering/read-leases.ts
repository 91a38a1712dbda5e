// Which extents this process is reading, so that the sweeper spares them: it condemns an extent,
// waits, and checks again whether it is read (docs/decisions/0009-sweeper.md). Invariant: an extent
// is held as long as one hold of it is not yet released.
import type { ExtentRun } from '../core/manifest.ts';

export class ReadLeases {
  /**
   * How many readers an extent has, by its id; a Latin-1 string of the id's bytes is the cheapest
   * key.
   */
  readonly #readers = new Map<string, number>();

  /**
   * Holds the runs' extents until the returned function is called; calling it again does nothing.
   */
  hold(runs: readonly ExtentRun[]): () => void {
    const ids = runs.map((run) => run.id.toString('latin1'));
    for (const id of ids) this.#readers.set(id, (this.#readers.get(id) ?? 0) + 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      for (const id of ids) this.#drop(id);
    };
  }

  /** Extents that are being read. */
  get held(): number {
    return this.#readers.size;
  }

  isHeld(id: Buffer): boolean {
    return this.#readers.has(id.toString('latin1'));
  }

  #drop(id: string): void {
    const readers = (this.#readers.get(id) ?? 0) - 1;
    if (readers > 0) this.#readers.set(id, readers);
    else this.#readers.delete(id);
  }
}
