// Who has the main thread. Whoever enters a stage of its way, or goes on after a rest, says so and has
// the thread from then on, until another does. Invariant: a word costs one comparison, and allocates
// nothing.

/** Who has the thread: a request. */
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

/** Who spoke last. */
export function currentTurn(): Turn | null {
  return last;
}

/** Who had the thread longest without another's word since this was asked the last time. */
export function takeLongest(): Turn | null {
  const turn = longest;
  longestMs = 0;
  longest = null;
  return turn;
}
