// Walks through the buckets that have lifecycle rules, at the start and at the end of each day, and
// through one at once when its rules were set, and has what is due ended or moved. Invariants:
// buckets have their turns in slices of bounded work, so a large one holds up no other, and tenants
// take turns, so one with many buckets holds up no other; for each slice three times as long is
// rested, so all of it never takes more than a quarter of what others need, and less the busier the
// ledger is. It keeps nothing that must not be lost: after a stop, a kill or an error it begins
// anew, and what has ended is not there any more.
import { setTimeout as sleep } from 'node:timers/promises';
import { getBucket } from '../catalog/buckets.ts';
import { type Lifecycle, noRules } from '../catalog/lifecycle.ts';
import { findLifecycleBucket } from '../catalog/lifecycle-due.ts';
import { monotonicMs } from '../core/clock.ts';
import { Pace } from '../core/pace.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { type BucketTurn, BucketTurns } from './bucket-turns.ts';
import type { FeedEntry, Subscriber } from './feed.ts';
import {
  EndingTurns,
  type LifecycleTurnOptions,
  type LifecycleTurns,
  type Move,
  MovingTurns,
  startOfWalk,
  type WalkCursor,
} from './lifecycle-turns.ts';
import { retryMsMin } from './move-failures.ts';

export interface LifecycleOptions extends LifecycleTurnOptions {
  /** Those of buckets. */
  rules: { find(bucketId: number): Lifecycle | null | Promise<Lifecycle | null> };
  /** With it, it has moved what is to be in another class; without, ended what is to end. */
  move?: Move;
  /** The names of all classes that have tiers, and of those; absent: there are none. */
  tiered?: () => readonly string[];
  onError(error: unknown): void;
}

/** One transaction's worth. */
const usesPerSlice = 500;
/** How much longer than a slice is rested. */
const restShare = 3;

type Turn = BucketTurn<WalkCursor>;

export class LifecycleWorker implements Subscriber {
  readonly #options: LifecycleOptions;
  readonly #turns: LifecycleTurns;
  readonly #buckets = new BucketTurns<WalkCursor>();
  /** Buckets whose rules were set. */
  readonly #changed = new Set<number>();
  /** When buckets are walked through again whose walks failed, or met what failed. */
  readonly #again = new Map<number, number>();
  /** When the first of these is. */
  #againMs = Number.POSITIVE_INFINITY;
  /** When the next pass begins. */
  #passMs = 0;
  /** Ends the present sleep. */
  #wake: (() => void) | null = null;
  #running: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(options: LifecycleOptions) {
    const { move } = options;
    this.#options = options;
    this.#turns = move ? new MovingTurns(options, move) : new EndingTurns(options);
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
      this.#wake?.();
    }
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #work(): Promise<void> {
    const { width, perTenant } = this.#turns;
    const underWay = new Set<Promise<void>>();
    while (!this.#isStopped) {
      try {
        await this.#beginWalks();
      } catch (error) {
        this.#options.onError(error);
        await this.#idle(retryMsMin);
      }
      const next = underWay.size < width ? this.#buckets.take(perTenant) : undefined;
      if (next) {
        const served: Promise<void> = this.#serve(next).finally(() => {
          underWay.delete(served);
          this.#wake?.();
        });
        underWay.add(served);
      } else if (this.#changed.size === 0) await this.#idle(this.#untilNextMs());
    }
    await Promise.all(underWay);
  }

  async #beginWalks(): Promise<void> {
    // Rules that were set count from the first key on.
    for (const bucketId of this.#changed) {
      const bucket = await getBucket(this.#options.read, bucketId);
      this.#changed.delete(bucketId);
      const { tenant } = bucket ?? {};
      if (tenant !== undefined) this.#buckets.put({ tenant, bucketId, cursor: startOfWalk() });
    }
    if (Date.now() >= this.#againMs) await this.#beginAgain(Date.now());
    await this.#beginPass();
  }

  async #beginAgain(nowMs: number): Promise<void> {
    this.#againMs = Number.POSITIVE_INFINITY;
    for (const [bucketId, untilMs] of [...this.#again]) {
      if (untilMs > nowMs) {
        this.#againMs = Math.min(this.#againMs, untilMs);
        continue;
      }
      this.#again.delete(bucketId);
      const bucket = await getBucket(this.#options.read, bucketId);
      const { tenant } = bucket ?? {};
      if (tenant !== undefined) this.#buckets.begin({ tenant, bucketId, cursor: startOfWalk() });
    }
  }

  #walkAgain(bucketId: number, atMs: number): void {
    this.#again.set(bucketId, atMs);
    this.#againMs = Math.min(this.#againMs, atMs);
  }

  async #beginPass(): Promise<void> {
    const { read, ledger, dayMs, move, tiered } = this.#options;
    const nowMs = steadyClock.nowMs();
    // A clock that was set back far must not keep it waiting.
    if (nowMs < this.#passMs && nowMs >= this.#passMs - dayMs) return;
    const pace = new Pace();
    const classes = move ? (tiered?.() ?? []) : [];
    for (let afterId = 0; !this.#isStopped; ) {
      const found = await findLifecycleBucket(read, afterId, classes);
      if (!found) break;
      const { id: bucketId, tenant } = found;
      this.#buckets.begin({ tenant, bucketId, cursor: startOfWalk() });
      afterId = bucketId;
      await pace.rest();
    }
    if (classes.length > 0) await ledger.maintain({ kind: 'beginUses' });
    if (move) await this.#forgetUses();
    this.#passMs = nowMs - (nowMs % dayMs) + dayMs;
  }

  /** Of versions that are not there any more. */
  async #forgetUses(): Promise<void> {
    let after = 0;
    do {
      after = await this.#options.ledger.maintain({ kind: 'forgetUses', after, max: usesPerSlice });
    } while (after > 0 && !this.#isStopped);
  }

  /** Until a pass begins, or a bucket is walked through again. */
  #untilNextMs(): number {
    const { dayMs } = this.#options;
    const passMs = this.#passMs - steadyClock.nowMs();
    return Math.min(passMs, this.#againMs - Date.now(), dayMs);
  }

  async #serve(turn: Turn): Promise<void> {
    const { restMsMax } = this.#turns;
    const sinceMs = monotonicMs();
    let next: WalkCursor | null = null;
    try {
      next = await this.#go(turn);
      if (next === null) this.#endWalk(turn);
    } catch (error) {
      this.#walkAgain(turn.bucketId, Date.now() + retryMsMin);
      this.#options.onError(error);
    }
    await this.#rest(Math.min((monotonicMs() - sinceMs) * restShare, restMsMax));
    this.#buckets.end(turn, next);
  }

  async #go({ bucketId, cursor }: Turn): Promise<WalkCursor | null> {
    const { read, rules: known } = this.#options;
    const bucket = await getBucket(read, bucketId);
    const rules = (await known.find(bucketId)) ?? noRules;
    if (!bucket) return null;
    return this.#turns.go({ bucket, rules, stopping: this.#stopping.signal }, cursor);
  }

  #endWalk({ bucketId, cursor: { failures } }: Turn): void {
    const { first, untilMs } = failures;
    if (untilMs !== null) this.#walkAgain(bucketId, untilMs);
    if (first !== null) this.#options.onError(first);
  }

  /** So that others have their turns, for at least one turn of the event loop. */
  async #rest(durationMs: number): Promise<void> {
    const options = { signal: this.#stopping.signal, ref: false };
    await sleep(Math.max(1, Math.ceil(durationMs)), undefined, options).catch(() => {});
  }

  #idle(durationMs: number): Promise<void> {
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
