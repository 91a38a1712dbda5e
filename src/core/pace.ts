// Long work on the main thread, in which others have their turns. Invariant: in one turn of the
// event loop all works that begin share `turnMs`, and of those that have waited one goes on for as
// long; so others wait for no longer than that and the longest steps, however many such works are
// under way.
import { currentTurn, noteTurn } from './thread-turns.ts';

const turnMs = 10;

/** Works that wait to go on, in their order. */
const waiting: (() => void)[] = [];

/** Since when works have this turn of the event loop; null: none has. */
let sinceMs: number | null = null;

/** A pace is made where the work begins, by the code that does it. */
export class Pace {
  readonly #turn = currentTurn();

  constructor() {
    beginTurn();
  }

  /**
   * Returns whether the next step belongs to another turn. Where steps are short, it is asked
   * first.
   */
  get isDue(): boolean {
    return performance.now() - beginTurn() >= turnMs;
  }

  /** Must be awaited after each step. */
  async rest(): Promise<void> {
    if (this.isDue) await this.wait();
  }

  /**
   * Must be awaited before a step that is known to be long: in one turn only one such step is done.
   */
  async wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(giveTurn);
    });
    noteTurn(this.#turn, performance.now());
  }
}

function beginTurn(): number {
  if (sinceMs !== null) return sinceMs;
  setImmediate(endTurn);
  sinceMs = performance.now();
  return sinceMs;
}

function endTurn(): void {
  sinceMs = null;
}

function giveTurn(): void {
  // Whatever others have begun with in this turn.
  beginTurn();
  sinceMs = performance.now();
  waiting.shift()?.();
  // Work that is asked for in a turn's own callbacks comes with the next turn.
  if (waiting.length > 0) setImmediate(giveTurn);
}
