// Walks through the buckets that have lifecycle rules, at the start and at the end of each day, and
// through one at once when its rules were set, and has the ledger end what is due. Invariants: one
// bucket at a time, in slices of bounded work, and for each slice three times as long is rested, so
// it never takes more than a quarter of what others need, and less the busier the ledger is. It
// keeps nothing that must not be lost: after a stop, a kill or an error it begins anew, and what is
// ended already is not there any more.
import { getBucket } from '../catalog/buckets.ts';
import { coveredPrefixes, type Lifecycle, readLifecycle } from '../catalog/lifecycle.ts';
import {
  findDue,
  findLifecycleBucket,
  type LifecyclePlace,
  type LifecycleTerms,
  type LifecycleWalk,
  lifecycleWalks,
  rulesOf,
} from '../catalog/lifecycle-due.ts';
import { SettingCache } from '../catalog/setting-cache.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import type { Ledger } from './ledger.ts';

export interface LifecycleOptions {
  read: Reader;
  ledger: Pick<Ledger, 'keepHouse'>;
  /** How long a day lasts for rules. Milliseconds. */
  dayMs: number;
  /** Throws where nothing can be ended in a store now. */
  admit(store: number): void;
  /** Name of the price book in force of a store. */
  bookOf(store: number): { name: string };
  onEnded(ended: { store: number; walk: LifecycleWalk; count: number }): void;
  onError(error: unknown): void;
}

/** One transaction's worth, so that requests never wait long for it. */
const rowsPerSlice = 100;
/** How much longer than a slice is rested. */
const restShare = 3;
/** After a bucket could not be walked through. */
const retryMsMax = 60_000;

export class LifecycleWorker {
  /** Those of buckets, as answers tell of them. */
  readonly rules: SettingCache<Lifecycle>;
  readonly #options: LifecycleOptions;
  /** Buckets whose rules were set. */
  readonly #changed = new Set<number>();
  /** Ends the present sleep. */
  #wake: (() => void) | null = null;
  #isIdle = false;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    this.rules = new SettingCache(options.read, 'lifecycle', readLifecycle);
  }

  /** Works until `stop`. */
  start(): void {
    this.#running = this.#work();
  }

  /** Resolves when nothing is under way and nothing will begin. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake?.();
    await this.#running;
  }

  /** To be told when the rules of a bucket were set or taken away, before that is answered. */
  follow(bucketId: number): void {
    this.rules.forget(bucketId);
    this.#changed.add(bucketId);
    if (this.#isIdle) this.#wake?.();
  }

  async #work(): Promise<void> {
    const { dayMs } = this.#options;
    let passMs = 0;
    while (!this.#stopped) {
      const nowMs = Date.now();
      // A clock that was set back far must not keep it asleep.
      if (nowMs >= passMs || nowMs < passMs - dayMs) {
        const isWhole = await this.#walkAll();
        const nextMs = nowMs - (nowMs % dayMs) + dayMs;
        passMs = isWhole ? nextMs : Math.min(nextMs, Date.now() + retryMsMax);
      }
      await this.#walkChanged();
      this.#isIdle = true;
      if (this.#changed.size === 0) await this.#sleep(Math.min(passMs - Date.now(), dayMs));
      this.#isIdle = false;
    }
  }

  /** Gives whether all of it could be done. */
  async #walkAll(): Promise<boolean> {
    let isWhole = true;
    for (let bucketId: number | undefined = 0; !this.#stopped; ) {
      bucketId = await findLifecycleBucket(this.#options.read, bucketId);
      if (bucketId === undefined) break;
      this.#changed.delete(bucketId);
      if (!(await this.#walk(bucketId))) isWhole = false;
      await this.#walkChanged();
    }
    return isWhole;
  }

  async #walkChanged(): Promise<void> {
    for (const bucketId of this.#changed) {
      this.#changed.delete(bucketId);
      await this.#walk(bucketId);
    }
  }

  async #walk(bucketId: number): Promise<boolean> {
    try {
      await this.#walkBucket(bucketId);
      return true;
    } catch (error) {
      this.#options.onError(error);
      return false;
    }
  }

  async #walkBucket(bucketId: number): Promise<void> {
    const { read } = this.#options;
    const bucket = await getBucket(read, bucketId);
    const rules = await this.rules.find(bucketId);
    if (!bucket || !rules) return;
    for (const walk of lifecycleWalks) {
      for (const prefix of coveredPrefixes(rulesOf(rules, walk))) {
        let after: LifecyclePlace | null = null;
        do {
          if (this.#stopped) return;
          after = await this.#walkSlice({ bucket, rules }, { walk, prefix, after });
        } while (after !== null);
      }
    }
  }

  async #walkSlice(
    { bucket, rules }: { bucket: LifecycleTerms['bucket'] & { store: number }; rules: Lifecycle },
    at: { walk: LifecycleWalk; prefix: string; after: LifecyclePlace | null },
  ): Promise<LifecyclePlace | null> {
    const { read, ledger, dayMs, admit, bookOf, onEnded } = this.#options;
    const sinceMs = monotonicMs();
    const terms = { bucket, rules, timeMs: Date.now(), dayMs };
    const { due, last } = await findDue(read, terms, { ...at, max: rowsPerSlice });
    if (due.length > 0) {
      const { id: bucketId, store } = bucket;
      admit(store);
      const work = { bucketId, places: due, dayMs, book: bookOf(store).name };
      const count = await ledger.keepHouse({ kind: 'endDue', ...work });
      if (count > 0) onEnded({ store, walk: at.walk, count });
    }
    await this.#sleep((monotonicMs() - sinceMs) * restShare);
    return last;
  }

  #sleep(durationMs: number): Promise<void> {
    if (this.#stopped) return Promise.resolve();
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
