// In which order commits are decided again that outdate each other: each in its turn, so that all
// get through. A turn is for what a commit depends on, and from what it takes rights away itself:
// those that only depend on the same things take theirs together. Invariants: a turn waits only for
// turns that were taken before it, so none waits for itself; and of one requester's changes only
// one stands in line at a time, so nobody keeps an administrator waiting by asking for very many.
import type { Scope } from './scopes.ts';

export interface Stake {
  /** Who asks. */
  requester: string;
  depends: readonly Scope[];
  /** From what it takes rights away; null: it takes none. */
  takes: Scope | null;
}

export interface Turn {
  /** Resolves when those before it have ended. */
  come: Promise<unknown>;
  /** To be called once, also of a turn that nobody waited for to the end. */
  end: () => void;
}

/** Who stands in line for a scope. */
interface Line {
  /** The turns that have not ended. */
  length: number;
  /** The end of the last one that takes rights away. */
  taken: Promise<unknown>;
  /** The ends of those that depend on the scope and came after that one. */
  dependents: Set<Promise<unknown>>;
}

export class RightsTurns {
  /** Nearly always empty: nobody stands in line. */
  readonly lines = new Map<Scope, Line>();
  /** By requester: the end of the last change, in line or not yet. */
  readonly #changes = new Map<string, Promise<unknown>>();

  /** Has somebody a turn who depends on the scope, or takes rights from there? */
  isTaken(scope: Scope): boolean {
    return this.lines.has(scope);
  }

  take(stake: Stake): Turn {
    const { requester, takes } = stake;
    let end = (): void => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    const before = takes === null ? undefined : this.#changes.get(requester);
    const come = before ? before.then(() => this.#enter(stake, over)) : this.#enter(stake, over);
    if (takes !== null) {
      const ended = Promise.all([come, over]);
      this.#changes.set(requester, ended);
      ended.then(() => {
        if (this.#changes.get(requester) === ended) this.#changes.delete(requester);
      });
    }
    return { come, end };
  }

  /** Steps into all lines at the same moment; resolves when it is first in each. */
  #enter({ depends, takes }: Stake, over: Promise<void>): Promise<unknown> {
    const scopes = new Set(depends);
    const ahead = [...scopes].map((scope) => this.#lineOf(scope).taken);
    if (takes !== null) {
      const { taken, dependents } = this.#lineOf(takes);
      ahead.push(taken, ...dependents);
      scopes.add(takes);
    }
    const come = Promise.all(ahead);
    const ended = Promise.all([come, over]);
    for (const scope of scopes) {
      const line = this.#lineOf(scope);
      if (scope === takes) {
        line.taken = ended;
        line.dependents = new Set();
      } else line.dependents.add(ended);
      line.length += 1;
      this.lines.set(scope, line);
    }
    ended.then(() => this.#leave(scopes, ended));
    return come;
  }

  #lineOf(scope: Scope): Line {
    const none: Line = { length: 0, taken: Promise.resolve(), dependents: new Set() };
    return this.lines.get(scope) ?? none;
  }

  #leave(scopes: ReadonlySet<Scope>, ended: Promise<unknown>): void {
    for (const scope of scopes) {
      const line = this.#lineOf(scope);
      line.dependents.delete(ended);
      line.length -= 1;
      if (line.length === 0) this.lines.delete(scope);
    }
  }
}
