// What kept the main thread from all others: of the time in which a timer was late, the longest
// stretch in which nobody said that it goes on is the stall, and who spoke before it made it. A
// stall in which the thread was ready and others had the processors is the machine's and nobody's
// here, so each is told with what is left of it without that time.
import { noteTurn, takeLongest } from '../core/thread-turns.ts';
import { Histogram, secondBounds } from './histogram.ts';
import type { Labels } from './metric-registry.ts';

/** Shorter ones are in `bursar_event_loop_delay_seconds` alone. */
const stallMsMin = 50;

/** `none`: no request, such as garbage collection or upkeep. */
const nobody = 'none';

/** What the system gave the thread since the timer came before, milliseconds. */
export interface GivenTime {
  processorMs: number;
  /** In which it was ready, and waited for a processor. */
  queuedMs: number;
}

interface Stalls {
  readonly labels: Labels;
  readonly late: Histogram;
  readonly own: Histogram;
  processorSeconds: number;
}

export class StallWatch {
  readonly #stalls = new Map<string, Stalls>();

  constructor() {
    this.#stallsOf(nobody);
  }

  /** To be called by a timer, which was so late. */
  check(lateMs: number, nowMs: number, { processorMs, queuedMs }: GivenTime): void {
    noteTurn(null, nowMs);
    const operation = takeLongest()?.operation ?? nobody;
    if (lateMs < stallMsMin) return;
    const stalls = this.#stallsOf(operation);
    stalls.late.record(lateMs / 1000);
    stalls.own.record(Math.max(0, lateMs - queuedMs) / 1000);
    stalls.processorSeconds += processorMs / 1000;
  }

  *late(): Iterable<readonly [Labels, Histogram]> {
    for (const { labels, late } of this.#stalls.values()) yield [labels, late];
  }

  /** Of the same, what is left without the time in which the thread waited for a processor. */
  *own(): Iterable<readonly [Labels, Histogram]> {
    for (const { labels, own } of this.#stalls.values()) yield [labels, own];
  }

  /** Of the same, the time in which the thread had a processor. */
  *processorSeconds(): Iterable<readonly [Labels, number]> {
    for (const { labels, processorSeconds } of this.#stalls.values()) {
      yield [labels, processorSeconds];
    }
  }

  /** There are no more of them than operations. */
  #stallsOf(operation: string): Stalls {
    let stalls = this.#stalls.get(operation);
    if (!stalls) {
      const [late, own] = [new Histogram(secondBounds), new Histogram(secondBounds)];
      stalls = { labels: { operation }, late, own, processorSeconds: 0 };
      this.#stalls.set(operation, stalls);
    }
    return stalls;
  }
}
