// Walks through the buckets that have lifecycle rules, at the start and at the end of each day, and
// through one at once when its rules were set, and has what is due ended or moved. Invariants:
// buckets have their turns in slices of bounded work, so a large one holds up no other; for each
// slice three times as long is rested, so all of it never takes more than a quarter of what others
// need, and less the busier the ledger is. It keeps nothing that must not be lost: after a stop, a
// kill or an error it begins anew, and what has ended is not there any more.

import { type Bucket, getBucket } from '../catalog/buckets.ts';
import { coveredPrefixes, type Lifecycle } from '../catalog/lifecycle.ts';
import {
  findDue,
  findLifecycleBucket,
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
} from '../catalog/lifecycle-moves.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { inParallel } from '../core/in-parallel.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { FeedEntry, Subscriber } from './feed.ts';
import type { Ledger } from './ledger.ts';

export interface LifecycleOptions {
  read: Reader;
  ledger: Pick<Ledger, 'maintain'>;
  /** Those of buckets. */
  rules: { find(bucketId: number): Lifecycle | null | Promise<Lifecycle | null> };
  /** How long a day lasts for rules. Milliseconds. */
  dayMs: number;
  /** Throws where nothing can be ended in a store now. */
  admit(store: number): void;
  /** The price book in force of a store. */
  bookOf(store: number): { name: string };
  /** With it, it has moved what is to be in another class; without, ended what is to end. */
  move?: Move;
  onEnded(ended: { store: number; walk: LifecycleWalk; count: number }): void;
  onMoved(moved: { store: number; walk: MovingWalk; count: number }): void;
  onError(error: unknown): void;
}

/** One transaction's worth, so that requests never wait long for it. */
const rowsPerSlice = 100;
/** How much longer than a slice is rested. */
const restShare = 3;
/** Buckets of a pass that have their turns beside each other. */
const walksMax = 8;
/** Versions that are moved at once, and in the turn of one bucket. */
const movesAtOnce = 2;
const movesPerTurn = 8;
const movingRestMsMax = 1000;
/** A walk in which so many moves have failed in a row ends: a store is away. */
const failuresMax = 8;
/** When a pass is made again in which a bucket could not be walked through. */
const retryMs = 60_000;

/** Resolves to whether the version was moved: what is not due any more, or may not, stays. */
type Move = (bucket: Bucket, planned: PlannedMove, stopping: AbortSignal) => Promise<boolean>;

/** Moves of a walk that failed; the others go on. */
interface Failures {
  first: unknown;
  inARow: number;
}

/** A walk through one bucket; it yields after each slice. */
type Walk = AsyncGenerator<void, void, void>;

export class LifecycleWorker implements Subscriber {
  readonly #options: LifecycleOptions;
  /** By bucket, in the order of their turns. */
  readonly #walks = new Map<number, Walk>();
  /** Buckets whose rules were set. */
  readonly #changed = new Set<number>();
  /** How far a pass has begun walks, by the buckets' ids; null: none is under way. */
  #passedId: number | null = null;
  /** When the next pass begins. */
  #passMs = 0;
  /** Ends the present sleep. */
  #wake: (() => void) | null = null;
  #isIdle = false;
  #running: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(options: LifecycleOptions) {
    this.#options = options;
  }

  /** Works until `stop`. */
  start(): void {
    this.#running = this.#work();
  }

  /** Resolves when nothing is under way and nothing will begin. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake?.();
    await this.#running;
  }

  /** Rules that were set are executed at once. */
  apply({ events }: FeedEntry): void {
    for (const event of events) {
      if (event.kind !== 'setting' || event.name !== 'lifecycle') continue;
      this.#changed.add(event.bucketId);
      if (this.#isIdle) this.#wake?.();
    }
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #work(): Promise<void> {
    while (!this.#isStopped) {
      try {
        await this.#beginWalks();
      } catch (error) {
        this.#options.onError(error);
        await this.#sleep(retryMs);
      }
      const [next] = this.#walks;
      if (next) await this.#goOn(...next);
      else if (this.#changed.size === 0) await this.#idle();
    }
  }

  async #goOn(bucketId: number, walk: Walk): Promise<void> {
    const { done } = await walk.next();
    this.#walks.delete(bucketId);
    if (!done) this.#walks.set(bucketId, walk);
  }

  async #beginWalks(): Promise<void> {
    // Rules that were set count from the first key on.
    for (const bucketId of this.#changed) this.#walks.set(bucketId, this.#walk(bucketId));
    this.#changed.clear();
    this.#beginPass();
    while (this.#passedId !== null && this.#walks.size < walksMax) {
      const bucketId = await findLifecycleBucket(this.#options.read, this.#passedId);
      this.#passedId = bucketId ?? null;
      if (bucketId === undefined || this.#walks.has(bucketId)) continue;
      this.#walks.set(bucketId, this.#walk(bucketId));
    }
  }

  #beginPass(): void {
    const { dayMs } = this.#options;
    const nowMs = steadyClock.nowMs();
    // A clock that was set back far must not keep it waiting.
    const isDue = nowMs >= this.#passMs || nowMs < this.#passMs - dayMs;
    if (!isDue || this.#passedId !== null) return;
    this.#passedId = 0;
    this.#passMs = nowMs - (nowMs % dayMs) + dayMs;
  }

  async #idle(): Promise<void> {
    this.#isIdle = true;
    await this.#sleep(Math.min(this.#passMs - Date.now(), this.#options.dayMs));
    this.#isIdle = false;
  }

  async *#walk(bucketId: number): Walk {
    try {
      const bucket = await getBucket(this.#options.read, bucketId);
      const rules = await this.#options.rules.find(bucketId);
      if (bucket && rules) yield* this.#walkBucket(bucket, rules);
    } catch (error) {
      this.#passMs = Math.min(this.#passMs, Date.now() + retryMs);
      this.#options.onError(error);
    }
  }

  async *#walkBucket(bucket: Bucket, rules: Lifecycle): Walk {
    const { move } = this.#options;
    yield* move ? this.#moveAll(bucket, rules, move) : this.#endAll(bucket, rules);
  }

  async *#endAll(bucket: Bucket, rules: Lifecycle): Walk {
    for (const walk of lifecycleWalks) {
      for (const prefix of coveredPrefixes(rulesOf(rules, walk))) {
        const step: WalkStep = { walk, prefix, after: null, max: rowsPerSlice };
        do {
          const sinceMs = monotonicMs();
          step.after = await this.#walkSlice(bucket, rules, step);
          await this.#sleep((monotonicMs() - sinceMs) * restShare);
          yield;
        } while (step.after !== null);
      }
    }
  }

  async *#moveAll(bucket: Bucket, rules: Lifecycle, move: Move): Walk {
    const { read, dayMs, admit } = this.#options;
    const failures: Failures = { first: null, inARow: 0 };
    for (const walk of movingWalks) {
      for (const prefix of coveredPrefixes(movesOf(rules, walk))) {
        const step: WalkStep<MovingWalk> = { walk, prefix, after: null, max: rowsPerSlice };
        do {
          const terms = { bucket, rules, timeMs: steadyClock.nowMs(), dayMs };
          const { moves, last } = await findDueMoves(read, terms, step);
          for (let i = 0; i < moves.length && !this.#isStopped; i += movesPerTurn) {
            admit(bucket.store);
            const sinceMs = monotonicMs();
            const some = moves.slice(i, i + movesPerTurn);
            await this.#moveSome(bucket, { some, walk, failures }, move);
            const restMs = (monotonicMs() - sinceMs) * restShare;
            await this.#sleep(Math.min(restMs, movingRestMsMax));
            yield;
          }
          step.after = last;
          yield;
        } while (step.after !== null && !this.#isStopped);
      }
    }
    if (failures.first !== null) throw failures.first;
  }

  /** Throws where too many have failed in a row; else the others go on. */
  async #moveSome(
    bucket: Bucket,
    { some, walk, failures }: { some: PlannedMove[]; walk: MovingWalk; failures: Failures },
    move: Move,
  ): Promise<void> {
    let count = 0;
    await inParallel(some, movesAtOnce, async (planned) => {
      if (this.#isStopped) return;
      try {
        if (await move(bucket, planned, this.#stopping.signal)) count++;
        failures.inARow = 0;
      } catch (error) {
        failures.first ??= error;
        if (++failures.inARow >= failuresMax) throw error;
      }
    }).finally(() => {
      if (count > 0) this.#options.onMoved({ store: bucket.store, walk, count });
    });
  }

  /** Gives where the next slice begins; null: there is none. */
  async #walkSlice(
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

  #sleep(durationMs: number): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
      const timer = setTimeout(end, Math.max(1, Math.ceil(durationMs))).unref();
      this.#wake = end;
    });
  }
}
