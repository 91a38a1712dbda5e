// What one turn of a bucket does for its lifecycle rules: a bounded piece of a walk through it, in
// which what is due is ended, or moved. Invariant: it keeps nothing but how far the walk has come;
// what was ended, or moved, is not found again.
import { type Bucket, readConfigurations } from '../catalog/buckets.ts';
import { holdsAny } from '../catalog/class-rows.ts';
import { coveredPrefixes, type Lifecycle } from '../catalog/lifecycle.ts';
import {
  findDue,
  type LifecyclePlace,
  type LifecycleWalk,
  lifecycleWalks,
  rulesOf,
  type WalkStep,
} from '../catalog/lifecycle-due.ts';
import {
  findDueMoves,
  type MovingWalk,
  movesOf,
  movingWalks,
  type PlannedMove,
  type VersionAt,
} from '../catalog/lifecycle-moves.ts';
import { readChains, type TieringConfig } from '../catalog/tiers.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { inParallel } from '../core/in-parallel.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { Ledger } from './ledger.ts';
import { MoveFailures } from './move-failures.ts';

export interface LifecycleTurnOptions {
  read: Reader;
  ledger: Pick<Ledger, 'maintain'>;
  /** How long a day lasts for rules. Milliseconds. */
  dayMs: number;
  /** Throws where nothing can be ended in a store now. */
  admit(store: number): void;
  /** The price book in force of a store. */
  bookOf(store: number): { name: string };
  onEnded(ended: { store: number; walk: LifecycleWalk; count: number }): void;
  onMoved(moved: { store: number; walk: MovingWalk; count: number }): void;
}

/** How far a walk has come, and what it has met. */
export interface WalkCursor {
  /** Of the prefixes, walked through one after the other, the one it is in. */
  step: number;
  after: LifecyclePlace | null;
  /** Of the moves that failed; the others go on. */
  failures: {
    first: unknown;
    inARow: number;
    /** When the first of those that failed, or wait, is to be tried again; null: there are none. */
    untilMs: number | null;
  };
}

export function startOfWalk(): WalkCursor {
  return { step: 0, after: null, failures: { first: null, inARow: 0, untilMs: null } };
}

/** Work on one bucket. */
export interface LifecycleTurns {
  /** How many buckets, and how many of a tenant, have their turns at once. */
  readonly width: number;
  readonly perTenant: number;
  /** After which it is rested no longer. */
  readonly restMsMax: number;
  /** Gives where the next turn goes on; `after` null behind the last step: at the walk's end. */
  go(at: WalkedBucket, cursor: WalkCursor): Promise<WalkCursor | null>;
}

export interface WalkedBucket {
  bucket: Bucket;
  rules: Lifecycle;
  stopping: AbortSignal;
}

/** Resolves to whether the version was moved: what is not due any more, or may not, stays. */
export type Move = (
  bucket: Bucket,
  planned: PlannedMove,
  stopping: AbortSignal,
) => Promise<boolean>;

/** One transaction's worth, so that requests never wait long for it. */
const rowsPerSlice = 100;
/** Versions of a bucket that are moved at once, and in its turn. */
const movesAtOnce = 2;
const movesPerTurn = 8;
/** After so long a turn begins with no other version. */
const turnMs = 1000;
/** A walk in which a store did not answer for so many versions in a row ends: it is away. */
const awayMax = 8;

interface Step<W> {
  walk: W;
  prefix: string;
}

function stepsOf<W>(walks: readonly W[], rulesFor: (walk: W) => Lifecycle['moving']): Step<W>[] {
  return walks.flatMap((walk) =>
    coveredPrefixes(rulesFor(walk)).map((prefix) => ({ walk, prefix })),
  );
}

/** `last` null: the step is done. */
function nextOf(
  steps: readonly unknown[],
  { step, failures }: WalkCursor,
  last: LifecyclePlace | null,
): WalkCursor | null {
  if (last !== null) return { step, after: last, failures };
  return step + 1 < steps.length ? { step: step + 1, after: null, failures } : null;
}

export class EndingTurns implements LifecycleTurns {
  readonly width = 1;
  readonly perTenant = 1;
  readonly restMsMax = Number.POSITIVE_INFINITY;
  readonly #options: LifecycleTurnOptions;
  readonly #steps = new WeakMap<Lifecycle, Step<LifecycleWalk>[]>();

  constructor(options: LifecycleTurnOptions) {
    this.#options = options;
  }

  async go({ bucket, rules }: WalkedBucket, cursor: WalkCursor): Promise<WalkCursor | null> {
    const steps = this.#steps.get(rules) ?? stepsOf(lifecycleWalks, (walk) => rulesOf(rules, walk));
    this.#steps.set(rules, steps);
    const at = steps[cursor.step];
    if (!at) return null;
    const step = { ...at, after: cursor.after, max: rowsPerSlice };
    return nextOf(steps, cursor, await this.#endSlice(bucket, rules, step));
  }

  /** Gives where the next slice begins; null: there is none. */
  async #endSlice(
    bucket: Bucket,
    rules: Lifecycle,
    step: WalkStep,
  ): Promise<LifecyclePlace | null> {
    const { read, ledger, dayMs, admit, bookOf, onEnded } = this.#options;
    const terms = { bucket, rules, timeMs: steadyClock.nowMs(), dayMs };
    const { due, last } = await findDue(read, terms, step);
    if (due.length === 0) return last;
    const { id: bucketId, store } = bucket;
    admit(store);
    const work = { bucketId, dayMs, book: bookOf(store).name };
    // An upload may have 10,000 parts, all let go of at once: each has a transaction to itself.
    const batches = step.walk === 'uploads' ? due.map((place) => [place]) : [due];
    let count = 0;
    for (const places of batches) {
      count += await ledger.maintain({ kind: 'endDue', places, ...work });
    }
    if (count > 0) onEnded({ store, walk: step.walk, count });
    return last;
  }
}

/** A move takes as long as stores do, so several buckets have their turns at once. */
export class MovingTurns implements LifecycleTurns {
  readonly width = 6;
  readonly perTenant = 2;
  readonly restMsMax = 1000;
  readonly #options: LifecycleTurnOptions;
  readonly #move: Move;
  readonly #failures = new MoveFailures();
  readonly #steps = new WeakMap<Lifecycle, Step<MovingWalk>[]>();
  /** What has tiers may be anywhere. */
  readonly #everywhere = movingWalks.map((walk) => ({ walk, prefix: '' }));

  constructor(options: LifecycleTurnOptions, move: Move) {
    this.#options = options;
    this.#move = move;
  }

  async go(at: WalkedBucket, cursor: WalkCursor): Promise<WalkCursor | null> {
    const { bucket, rules } = at;
    const { read, dayMs, admit } = this.#options;
    const chains = await readChains(read, bucket.tenant);
    const isTiered = chains.size > 0 && (await holdsAny(read, bucket, chains.keys()));
    const steps = isTiered ? this.#everywhere : this.#stepsBy(rules);
    const step = steps[cursor.step];
    if (!step) return null;
    const tierings = await readConfigurations<TieringConfig>(read, bucket.id, 'intelligentTiering');
    const times = { timeMs: steadyClock.nowMs(), dayMs };
    const terms = { bucket, rules, chains, tierings, ...times };
    const slice = { ...step, after: cursor.after, max: rowsPerSlice };
    const { moves, last } = await findDueMoves(read, terms, slice, movesPerTurn);
    const { failures } = cursor;
    const ready = moves.filter(({ place: { seq } }) => {
      const untilMs = this.#failures.waitsUntil(seq, Date.now());
      if (untilMs !== null) failures.untilMs = Math.min(untilMs, failures.untilMs ?? Infinity);
      return untilMs === null;
    });
    if (ready.length === 0) return nextOf(steps, cursor, last);
    admit(bucket.store);
    const stoppedAt = await this.#moveSome(at, { moves: ready, walk: step.walk, failures });
    return nextOf(steps, cursor, stoppedAt ?? last);
  }

  #stepsBy(rules: Lifecycle): Step<MovingWalk>[] {
    const steps = this.#steps.get(rules) ?? stepsOf(movingWalks, (walk) => movesOf(rules, walk));
    this.#steps.set(rules, steps);
    return steps;
  }

  /**
   * Gives the version behind which the time was over; null: all had their turn. Throws where a
   * store is away; else the others go on.
   */
  async #moveSome(
    { bucket, stopping }: WalkedBucket,
    { moves, walk, failures }: Moving,
  ): Promise<VersionAt | null> {
    const sinceMs = monotonicMs();
    let count = 0;
    let begun = 0;
    await inParallel(moves, movesAtOnce, async (planned) => {
      // One is begun however long the turn lasts, so the walk goes on.
      if (stopping.aborted || (begun > 0 && monotonicMs() - sinceMs >= turnMs)) return;
      begun++;
      const { seq } = planned.place;
      try {
        if (await this.#move(bucket, planned, stopping)) {
          count++;
          failures.inARow = 0;
        }
        this.#failures.forget(seq);
      } catch (error) {
        if (!stopping.aborted) this.#noteFailure(seq, failures, error);
      }
    }).finally(() => {
      if (count > 0) this.#options.onMoved({ store: bucket.store, walk, count });
    });
    return begun < moves.length ? (moves[begun - 1]?.place ?? null) : null;
  }

  #noteFailure(seq: number, failures: WalkCursor['failures'], error: unknown): void {
    const untilMs = this.#failures.note(seq, Date.now());
    failures.untilMs = Math.min(untilMs, failures.untilMs ?? Infinity);
    failures.first ??= error;
    // Of one that is damaged, or lost, the next is none the worse.
    if (!(error instanceof Refusal) || error.code !== 'ServiceUnavailable') return;
    if (++failures.inARow >= awayMax) throw error;
  }
}

interface Moving {
  moves: readonly PlannedMove[];
  walk: MovingWalk;
  failures: WalkCursor['failures'];
}
