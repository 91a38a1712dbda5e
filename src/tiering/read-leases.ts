// Which extents this thread is reading, so that the sweeper spares them: it condemns an extent,
// waits, and checks again whether it is read (docs/decisions/0009-sweeper.md). Invariant: an extent
// is held as long as one hold of it is not yet released.
import type { ExtentRun } from '../core/manifest.ts';

export class ReadLeases {
  /**
   * How many readers an extent has, by its id; a Latin-1 string of the id's bytes is the cheapest
   * key.
   */
  readonly #readers = new Map<string, number>();

  #askOthers: ((ids: readonly string[]) => Promise<ReadonlySet<string>>) | null = null;

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

  /** Which of these are being read, by this thread or another. */
  async findHeld(ids: readonly Buffer[]): Promise<(id: Buffer) => boolean> {
    const elsewhere = await this.#askOthers?.(ids.map((id) => id.toString('hex')));
    return (id) => this.isHeld(id) || (elsewhere?.has(id.toString('hex')) ?? false);
  }

  /** From now on other threads read extents, too; `ask`: which of these, by their ids in hex. */
  addOthers(ask: (ids: readonly string[]) => Promise<ReadonlySet<string>>): void {
    this.#askOthers = ask;
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
