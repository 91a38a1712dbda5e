// How far the memory by which requests are decided has followed the changes that took rights away, on
// the main thread; and commits that are decided again when it had not. Invariants: an epoch is known
// only when all changes up to it are in memory, so a request that notes it before it is decided was
// decided by all of them; and neither requests nor administrators wait for the others without end.
import { Refusal } from '../core/errors.ts';
import type { Change, Commit, CommitResult } from './commit.ts';
import { type Scope, takenFrom } from './rights-epoch.ts';

/** By which epoch of rights a request was decided. */
export interface Decision {
  epoch: number;
  /** Decides again by what is known now; gives the epoch. Throws `Refusal`. */
  again: () => Promise<number>;
  /** Told of each try that has left no trace. */
  onOutdated?: () => void;
}

/** From this try on, changes that take rights away are held back, which others made too fast. */
const heldBackFrom = 4;
const triesMax = 8;
/** How long such a change waits at most for those tries, and a try for what is not in memory yet. */
const waitMsMax = 1000;

export class KnownRights {
  #epoch = 0;
  /** What is in memory though something before it is not. */
  readonly #ahead = new Set<number>();
  #followed = signal();
  /** What commits in their last tries depend on. */
  readonly #holds = new Set<{ scope: Scope; released: Promise<undefined> }>();

  /** The newest epoch that all memory has. To be noted before anything is read to decide by. */
  get epoch(): number {
    return this.#epoch;
  }

  /** What a commit took away is in memory. `epoch`: as the commit was answered; undefined: nothing. */
  follow(epoch: number | undefined): void {
    if (epoch === undefined) return;
    this.#ahead.add(epoch);
    while (this.#ahead.delete(this.#epoch + 1)) this.#epoch += 1;
    this.#followed.give();
    this.#followed = signal();
  }

  /**
   * Commits what was decided by an epoch; where rights were taken away since then that concern it,
   * decides again and commits again. `send`: to the ledger. Throws what deciding throws, and
   * `Refusal` SlowDown where that went on for too long; then nothing was committed.
   */
  async commit(
    send: (commit: Commit) => Promise<CommitResult>,
    commit: Commit,
    { epoch, again, onOutdated }: Decision,
  ): Promise<CommitResult> {
    if (this.#holds.size > 0) await this.#standBack(takenFrom(commit.change, commit.record));
    const first = await send({ ...commit, epoch });
    if (!isOutdated(first)) return first;
    let result = first;
    let release = (): void => {};
    try {
      for (let tries = 2; tries <= triesMax; tries++) {
        onOutdated?.();
        const { outdated } = result;
        if (tries >= heldBackFrom) {
          release();
          release = this.#holdBack(outdated.scope);
        }
        await this.#reach(outdated.epoch);
        const next = { ...commit, change: withBody(commit.change, outdated.body) };
        const answer = await send({ ...next, epoch: await again() });
        if (!isOutdated(answer)) return answer;
        result = answer;
      }
      onOutdated?.();
    } finally {
      release();
    }
    throw busy();
  }

  /** Until memory has followed so far. Throws `Refusal` SlowDown where it does not. */
  async #reach(epoch: number): Promise<void> {
    if (this.#epoch >= epoch) return;
    const deadline = timeout();
    while (this.#epoch < epoch) {
      const isLate = await Promise.race([this.#followed.given, deadline.passed]);
      if (isLate) throw busy();
    }
    deadline.clear();
  }

  /** Changes that take rights from there wait until that is called. */
  #holdBack(scope: Scope): () => void {
    const { given, give } = signal();
    const hold = { scope, released: given };
    this.#holds.add(hold);
    return () => {
      this.#holds.delete(hold);
      give();
    };
  }

  async #standBack(from: Scope | null): Promise<void> {
    const held = [...this.#holds].filter(({ scope }) => scope === from);
    if (held.length === 0) return;
    const deadline = timeout();
    await Promise.race([Promise.all(held.map(({ released }) => released)), deadline.passed]);
    deadline.clear();
  }
}

type Refused = Extract<CommitResult, { ok: false }>;
type Outdated = Refused & Required<Pick<Refused, 'outdated'>>;

function isOutdated(result: CommitResult): result is Outdated {
  return !result.ok && result.outdated !== undefined;
}

function busy(): Refusal {
  const message = 'Rights that this request depends on are being changed all the time. Try again.';
  return new Refusal('SlowDown', { message });
}

function signal(): { given: Promise<undefined>; give: () => void } {
  let give = (): void => {};
  const given = new Promise<undefined>((resolve) => {
    give = () => resolve(undefined);
  });
  return { given, give };
}

/** A change with the body that it was sent with, which is not there any more. */
function withBody(change: Change, body: Uint8Array | undefined): Change {
  if (body === undefined || (change.kind !== 'putObject' && change.kind !== 'putPart'))
    return change;
  return change.inline ? { ...change, inline: { ...change.inline, body } } : change;
}

function timeout(): { passed: Promise<true>; clear: () => void } {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<true>((resolve) => {
    timer = setTimeout(resolve, waitMsMax, true);
  });
  return { passed, clear: () => clearTimeout(timer) };
}
