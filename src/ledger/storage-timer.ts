// Has what is stored charged as the clock's hours pass. Invariant: what was not charged in time,
// since nobody ran, is charged at the next start; nothing is charged twice, because the ledger
// knows until when it has charged (docs/admin/charges.md).
import { steadyClock } from '../core/steady-clock.ts';
import type { Ledger } from './ledger.ts';

export interface StorageTimerOptions {
  ledger: Pick<Ledger, 'maintain'>;
  /** By number of store the names of the price books in force. */
  books: () => ReadonlyMap<number, string>;
  onError: (error: unknown) => void;
  /** Absent: the steady clock. */
  nowMs?: () => number;
}

const intervalMs = 3_600_000;
/** One transaction's worth, so that requests never wait long for it. */
const placesMax = 200;

export class StorageTimer {
  readonly #options: StorageTimerOptions;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: StorageTimerOptions) {
    this.#options = options;
  }

  /** Charges what is due now, and then at the begin of each hour, until `stop`. */
  start(): void {
    this.#running = this.charge()
      .catch(this.#options.onError)
      .then(() => {
        if (this.#stopped) return;
        this.#timer = setTimeout(() => this.start(), intervalMs - (Date.now() % intervalMs));
        this.#timer.unref();
      });
  }

  /** Resolves when nothing is under way and nothing will begin. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#running;
  }

  /** Charges what was not charged in this hour yet. */
  async charge(): Promise<void> {
    const { ledger, books } = this.#options;
    const nowMs = (this.#options.nowMs ?? (() => steadyClock.nowMs()))();
    const work = { beforeMs: nowMs - (nowMs % intervalMs), max: placesMax, books: books() };
    for (let charged = placesMax; charged === placesMax && !this.#stopped; ) {
      charged = await ledger.maintain({ kind: 'chargeStorage', ...work });
    }
  }
}
