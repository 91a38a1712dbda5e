// Garbage collection (DESIGN section 6). The catalog alone says what is live. The sweeper touches
// only extents that the ledger has condemned: intents whose upload died, and what no manifest names
// any more; it waits, spares what is being read, and any error ends the sweep. It lives here, above
// the rooms, because it needs the catalog's word and the store's hand.
import { listCondemned } from '../catalog/extents.ts';
import type { Reader } from '../core/database.ts';
import { completedUploadKeptMs, uploadMsMax } from '../core/limits.ts';
import type { ReadLeases } from '../tiering/read-leases.ts';
import type { Ledger } from './ledger.ts';

export interface SweeperOptions {
  read: Reader;
  ledger: Ledger;
  store: { remove(id: Buffer): Promise<void> };
  leases: ReadLeases;
  /** Pause between sweeps, milliseconds. */
  intervalMs: number;
  /** How long a condemned extent is kept before its bytes go, milliseconds. */
  graceMs: number;
  onError: (error: unknown) => void;
}

export interface SweepResult {
  condemnedIntents: number;
  purgedVersions: number;
  removedExtents: number;
}

/** One transaction's worth, so that requests never wait long for the sweeper. */
const rowsPerBatch = 200;
/** Caps a run: what is left waits for the next. */
const batchesMax = 5000;
/** Inline bodies are in the database; only a read that is under way can still want one. */
const inlineGraceMsMax = 5000;

export class Sweeper {
  readonly #options: SweeperOptions;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #stopped = false;

  constructor(options: SweeperOptions) {
    this.#options = options;
  }

  /** Sweeps now and then again after each interval, until `stop`. */
  start(): void {
    this.#running = this.sweep()
      .catch(this.#options.onError)
      .then(() => {
        if (this.#stopped) return;
        this.#timer = setTimeout(() => this.start(), this.#options.intervalMs);
        this.#timer.unref();
      });
  }

  /** Resolves when no sweep is under way and none will begin. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#running;
  }

  /** One sweep. Rejects on the first error. */
  async sweep(): Promise<SweepResult> {
    const { ledger } = this.#options;
    const max = rowsPerBatch;
    const condemnedIntents = await this.#repeat(() =>
      ledger.keepHouse({ kind: 'condemnIntents', expiredBeforeMs: Date.now() - uploadMsMax, max }),
    );
    const purgedVersions = await this.#repeat(() =>
      ledger.keepHouse({ kind: 'purgeSuperseded', max }),
    );
    await this.#repeat(() =>
      ledger.keepHouse({
        kind: 'forgetCompleted',
        beforeMs: Date.now() - completedUploadKeptMs,
        max,
      }),
    );
    const removedExtents = await this.#repeat(() => this.#removeCondemned());
    return { condemnedIntents, purgedVersions, removedExtents };
  }

  async #removeCondemned(): Promise<number> {
    const { read, ledger, store, leases, graceMs } = this.#options;
    const now = Date.now();
    const before = { storedMs: now - graceMs, inlineMs: now - Math.min(graceMs, inlineGraceMsMax) };
    const found = await listCondemned(read, before, rowsPerBatch);
    const free = found.filter(({ id }) => !leases.isHeld(id));
    for (const { id, isInline } of free) if (!isInline) await store.remove(id);
    if (free.length > 0) {
      await ledger.keepHouse({ kind: 'forgetExtents', ids: free.map(({ id }) => id) });
    }
    return free.length;
  }

  /** Runs `work` until it has less than a batch to do, or the cap is reached. */
  async #repeat(work: () => Promise<number>): Promise<number> {
    let total = 0;
    for (let i = 0; i < batchesMax && !this.#stopped; i++) {
      const done = await work();
      total += done;
      if (done < rowsPerBatch) break;
    }
    return total;
  }
}
