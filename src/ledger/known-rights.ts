// How far the memory by which requests are decided has followed the changes that took rights away,
// on the main thread; and commits that are decided again when it had not. Invariants: an epoch is
// known only when the events of all changes up to it are applied, so a request that notes it before
// it is decided was decided by all of them; and neither requests nor administrators wait for the
// others without end.
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { principalId } from '../core/principal.ts';
import type { Change } from './commands/index.ts';
import type { Commit, CommitResult } from './commit.ts';
import { dependsOn, takenFrom } from './rights-epoch.ts';
import { RightsTurns, type Stake, type Turn } from './rights-turns.ts';
import type { Scope } from './scopes.ts';

/** By which epoch of rights a request was decided. */
export interface Decision {
  epoch: number;
  /** Decides again by what is known now; gives the epoch. Throws `Refusal`. */
  again: () => Promise<number>;
  /** Told of each try that has left no trace. */
  onOutdated?: () => void;
}

/** How long a commit is tried at most. Clients wait a minute for an answer, or longer. */
const patienceMsDefault = 30_000;
/**
 * How long a change stands in line before it is tried all the same: what it takes away is not to
 * stay for as long as others ask. Where it depends on their changes itself it keeps its place.
 */
const courtesyMs = 1000;

export class KnownRights {
  /**
   * The newest epoch that all memory has; `reach` moves it on. To be noted before anything is read
   * to decide by.
   */
  epoch = 0;
  /** Told from where rights were taken away, when all memory has that. */
  onTaken?: (from: Scope) => void;
  #reached = signal();
  readonly #turns = new RightsTurns();
  readonly #patienceMs: number;

  constructor({ patienceMs = patienceMsDefault } = {}) {
    this.#patienceMs = patienceMs;
  }

  /** All that was taken away up to this epoch is in memory. `taken`: from where that was, of it. */
  reach(epoch: number, taken?: Scope): void {
    this.epoch = epoch;
    if (taken !== undefined) this.onTaken?.(taken);
    this.#reached.give();
    this.#reached = signal();
  }

  /**
   * Commits what was decided by an epoch; where rights were taken away since then that concern it,
   * decides again and commits again, in turn with those that it could outdate or be outdated by.
   * `send`: to the ledger; `commit`: its own from here on. Throws what deciding throws, and
   * `Refusal` SlowDown where that went on for too long; then nothing was committed.
   */
  async commit(
    send: (commit: Commit) => Promise<CommitResult>,
    commit: Commit,
    { epoch, again, onOutdated }: Decision,
  ): Promise<CommitResult> {
    const standing = this.#standInLine(commit);
    let turn = standing && (await standing);
    try {
      // Not a copy of it: this is of each request.
      commit.epoch = epoch;
      let result = await send(commit);
      if (!isOutdated(result)) return result;
      const deadlineMs = monotonicMs() + this.#patienceMs;
      turn ??= this.#turns.take(stakeOf(commit));
      do {
        onOutdated?.();
        const { outdated }: Outdated = result;
        await waitFor(turn.come, deadlineMs);
        await this.#waitUntil(outdated.epoch, deadlineMs);
        const next = { ...commit, change: withBody(commit.change, outdated.body) };
        result = await send({ ...next, epoch: await again() });
      } while (isOutdated(result));
      return result;
    } finally {
      turn?.end();
    }
  }

  /** A change that would outdate what is decided again now waits for that, a moment at most. */
  #standInLine(commit: Commit): Promise<Turn> | null {
    if (this.#turns.lines.size === 0) return null;
    const takes = takenFrom(commit.change, commit.record);
    if (takes === null || !this.#turns.isTaken(takes)) return null;
    const turn = this.#turns.take(stakeOf(commit));
    return within(turn.come, courtesyMs).then(() => turn);
  }

  /** Until the epoch is reached. Throws `Refusal` SlowDown where it is not. */
  async #waitUntil(epoch: number, deadlineMs: number): Promise<void> {
    while (this.epoch < epoch) await waitFor(this.#reached.given, deadlineMs);
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

/** Throws `Refusal` SlowDown when it has not come by the deadline. */
async function waitFor(coming: Promise<unknown>, deadlineMs: number): Promise<void> {
  if (!(await within(coming, deadlineMs - monotonicMs()))) throw busy();
}

/** Has it come within so many milliseconds? */
async function within(coming: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const inTime = await Promise.race([coming.then(() => true), late]);
  clearTimeout(timer);
  return inTime;
}

function stakeOf(commit: Commit): Stake {
  const { change, record } = commit;
  const requester = principalId(record.tenant, record.principal);
  return { requester, depends: dependsOn(commit), takes: takenFrom(change, record) };
}
