// Which operation kept the main thread from all others: of the time in which a timer was late, the
// longest stretch in which nobody said that it goes on is the stall, and who spoke before it is who
// made it.
import { noteTurn, takeLongest } from '../core/thread-turns.ts';
import { Histogram, secondBounds } from './histogram.ts';
import type { Labels } from './metric-registry.ts';

/** Shorter ones are in `bursar_event_loop_delay_seconds` alone. */
const stallMsMin = 50;

/** `none`: no request, such as garbage collection or upkeep. */
const nobody = 'none';

export class StallWatch {
  readonly #stalls = new Map<string, readonly [Labels, Histogram]>();

  constructor() {
    this.#stallsOf(nobody);
  }

  /** To be called by a timer, which was so late. */
  check(lateMs: number, nowMs: number): void {
    noteTurn(null, nowMs);
    const operation = takeLongest()?.operation ?? nobody;
    if (lateMs >= stallMsMin) this.#stallsOf(operation).record(lateMs / 1000);
  }

  stalls(): Iterable<readonly [Labels, Histogram]> {
    return this.#stalls.values();
  }

  /** There are no more of them than operations. */
  #stallsOf(operation: string): Histogram {
    let stalls = this.#stalls.get(operation);
    if (!stalls) {
      stalls = [{ operation }, new Histogram(secondBounds)];
      this.#stalls.set(operation, stalls);
    }
    return stalls[1];
  }
}
