// Which request has the main thread. A request that enters a stage of its way, or goes on after a
// pause, announces itself and has the thread from then on, until another one announces itself.
// Invariant: an announcement costs one comparison, and allocates nothing.

/** The request that has the thread. */
export interface Turn {
  /** null: not known yet. */
  readonly operation: string | null;
}

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

/** The request that announced itself last. */
export function currentTurn(): Turn | null {
  return last;
}

/** The request that had the thread longest without interruption since this was last called. */
export function takeLongest(): Turn | null {
  const turn = longest;
  longestMs = 0;
  longest = null;
  return turn;
}
