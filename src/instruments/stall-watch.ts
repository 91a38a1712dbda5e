// Which operation kept the main thread from all others. Whoever enters a stage of its way has the
// thread from then on, until another does: of the time in which a timer was late, the longest stretch
// without such a word is the stall, and who spoke before it is who made it. Invariant: a word costs one
// comparison, and allocates nothing.
import { Histogram, secondBounds } from './histogram.ts';
import type { Labels } from './metric-registry.ts';

/** Who has the thread: a request. */
export interface Turn {
  /** null: not known yet. */
  readonly operation: string | null;
}

/** Shorter ones are in `bursar_event_loop_delay_seconds` alone. */
const stallMsMin = 50;

let lastMs = 0;
let last: Turn | null = null;
let longestMs = 0;
let longest: Turn | null = null;

/** A request goes on, at this monotonic time. */
export function noteTurn(turn: Turn | null, nowMs: number): void {
  const ms = nowMs - lastMs;
  if (ms > longestMs) {
    longestMs = ms;
    longest = last;
  }
  lastMs = nowMs;
  last = turn;
}

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
    const operation = longest?.operation ?? nobody;
    longestMs = 0;
    longest = null;
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
