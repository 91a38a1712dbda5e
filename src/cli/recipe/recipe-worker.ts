// Leases jobs, and has each done. Invariants: no more are under way than were asked for, and no
// more are taken while the oldest unfinished one is older than half its visibility window, so a
// worker that cannot keep up leaves jobs to others (Yoon); a lease that ends ends what is done
// under it; what fails is told, so that it waits and is tried again; and what has not failed by
// itself is given back, so that no outage, no distrust and no stop uses up a job's tries.
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOfFailure } from '../../core/command-failure.ts';
import { printable } from '../../core/printable.ts';
import type { Answers } from '../../gateway/native/routes.ts';
import { ApiRefusal, callApi, S3Refusal, Unreachable } from '../api-client.ts';
import { print } from '../output.ts';
import type { S3Connection } from '../s3-bucket.ts';
import { type Done, JobFailure, NotMine, remake } from './remake.ts';

export type LeasedJob = Answers['LeaseWork']['jobs'][number];

export interface WorkerOptions {
  connection: S3Connection;
  /** The caller's. */
  tenant: string;
  /** Of the tenant in the native API. */
  path: readonly string[];
  query: { bucket?: string; prefix?: string };
  /** Where recipes may be that are run. */
  trusted: readonly string[];
  /** What runs all commands; undefined: they are run as they are. */
  wrapper: string | undefined;
  parallel: number;
  visibilityMs: number;
  timeoutMs: number;
  /** It ends when nothing is due. */
  isOnce: boolean;
  asJson: boolean;
}

interface InFlight {
  begunMs: number;
  done: Promise<void>;
}

const pauseMs = 2000;
/** What others may do is not asked for again for so long. */
const notMineMs = 10 * 60_000;
const notMineMax = 1000;
/** Where the gateway or an input is away, and at most, where it is so again and again. */
const deferSeconds = 60;
const deferSecondsMax = 60 * 60;
/** Of how many jobs it is known that something was away. */
const awayMax = 10_000;
const problemLengthMax = 300;

export class RecipeWorker {
  readonly #options: WorkerOptions;
  readonly #inFlight = new Set<InFlight>();
  readonly #stopping = new AbortController();
  readonly #counts = { done: 0, failed: 0, left: 0 };
  /** Jobs that are left to others, and until when. */
  readonly #notMine = new Map<number, number>();
  /** How often in a row something was away that a job needs. */
  readonly #away = new Map<number, number>();

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** What is under way is ended, and left to others. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Rejects with what the first call of all is refused with. */
  async run(): Promise<{ done: number; failed: number; left: number }> {
    let after: string | undefined;
    /** Whether, since the first page of all jobs, one came that is not known to be others'. */
    let isNew = false;
    for (let isFirst = true; !this.#stopping.signal.aborted; isFirst = false) {
      if (!this.#mayPull()) {
        await this.#rest();
        continue;
      }
      const page = await this.#pull(after, isFirst);
      isNew ||= page?.jobs.some(({ id }) => !this.#notMine.has(id)) ?? false;
      for (const job of page?.jobs ?? []) this.#begin(job, (page as Page).lease);
      after = page?.next ?? undefined;
      if (page === null) await this.#rest();
      else if (after === undefined) {
        if (!isNew) {
          if (this.#options.isOnce && this.#inFlight.size === 0) break;
          await this.#rest();
        }
        isNew = false;
      }
    }
    await Promise.all([...this.#inFlight].map(({ done }) => done));
    return this.#counts;
  }

  /** Until something ends, or a moment later. */
  async #rest(): Promise<void> {
    const { signal } = this.#stopping;
    const pause = sleep(pauseMs, undefined, { signal }).catch(() => {});
    await Promise.race([pause, ...[...this.#inFlight].map(({ done }) => done)]);
  }

  #mayPull(): boolean {
    const { parallel, visibilityMs } = this.#options;
    if (this.#inFlight.size >= parallel) return false;
    const oldestMs = Math.min(...[...this.#inFlight].map(({ begunMs }) => begunMs));
    return performance.now() - oldestMs <= visibilityMs / 2 || this.#inFlight.size === 0;
  }

  /** null: the gateway is away, or has too much to do. */
  async #pull(after: string | undefined, isFirst: boolean): Promise<Page | null> {
    const { connection, path, query, parallel, visibilityMs } = this.#options;
    const max = parallel - this.#inFlight.size;
    const seconds = Math.round(visibilityMs / 1000);
    const body = { ...query, after, max, seconds, except: this.#listNotMine() };
    try {
      const call = { method: 'POST', path: [...path, 'work', 'leases'], body } as const;
      return (await callApi(connection, call)).json as Page;
    } catch (error) {
      if (isFirst || !mayPass(error)) throw error;
      process.stderr.write(`bursar: ${messageOfFailure(error)}; it is tried again\n`);
      return null;
    }
  }

  #listNotMine(): number[] {
    const nowMs = performance.now();
    for (const [id, untilMs] of this.#notMine) if (untilMs < nowMs) this.#notMine.delete(id);
    return [...this.#notMine.keys()].slice(-notMineMax);
  }

  #begin(job: LeasedJob, lease: string): void {
    const one: InFlight = { begunMs: performance.now(), done: Promise.resolve() };
    one.done = this.#work(job, lease).finally(() => this.#inFlight.delete(one));
    this.#inFlight.add(one);
  }

  async #work(job: LeasedJob, lease: string): Promise<void> {
    const ending = new AbortController();
    const end = () => ending.abort();
    this.#stopping.signal.addEventListener('abort', end);
    if (this.#stopping.signal.aborted) end();
    const { visibilityMs } = this.#options;
    const seconds = Math.round(visibilityMs / 1000);
    const timer = setInterval(() => {
      this.#update(job, { lease, seconds }).catch((error: unknown) => {
        // Somebody else may have it from now on.
        if (error instanceof ApiRefusal && error.status < 500) end();
      });
    }, visibilityMs / 3);
    try {
      const done = await remake(job, { ...this.#options, signal: ending.signal });
      this.#away.delete(job.id);
      this.#tell(job, done);
    } catch (error) {
      await this.#tellFailure(job, lease, error);
    } finally {
      clearInterval(timer);
      this.#stopping.signal.removeEventListener('abort', end);
    }
  }

  async #tellFailure(job: LeasedJob, lease: string, error: unknown): Promise<void> {
    const isFinal = error instanceof JobFailure && error.isFinal;
    const problem = printable(messageOfFailure(error)).slice(0, problemLengthMax) || 'it failed';
    if (this.#stopping.signal.aborted) {
      await this.#update(job, { lease, defer: 0 }).catch(() => {});
      return;
    }
    if (error instanceof NotMine) {
      if (!this.#notMine.has(job.id)) this.#sayNot(job, 'left', problem);
      this.#notMine.set(job.id, performance.now() + notMineMs);
      await this.#giveBack(job, { lease, defer: 0 });
    } else if (isAway(error)) {
      this.#sayNot(job, 'left', problem);
      await this.#giveBack(job, { lease, defer: this.#deferOf(job), problem });
    } else {
      this.#away.delete(job.id);
      this.#sayNot(job, 'failed', problem);
      // Where that cannot be told, the lease ends by itself.
      await this.#update(job, { lease, problem, final: isFinal }).catch(() => {});
    }
  }

  /** Twice as long each time, since all of the job is done anew then. */
  #deferOf({ id }: LeasedJob): number {
    const before = this.#away.get(id) ?? 0;
    if (this.#away.size >= awayMax) this.#away.clear();
    this.#away.set(id, before + 1);
    return Math.min(deferSeconds * 2 ** before, deferSecondsMax);
  }

  /** Where that cannot be told, it is tried until the lease has ended. */
  async #giveBack(job: LeasedJob, body: object): Promise<void> {
    const { signal } = this.#stopping;
    const endMs = performance.now() + this.#options.visibilityMs;
    for (;;) {
      try {
        await this.#update(job, body);
        return;
      } catch (error) {
        if (!mayPass(error) || signal.aborted || performance.now() > endMs) return;
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }

  #sayNot({ id, bucket, key }: LeasedJob, outcome: 'failed' | 'left', problem: string): void {
    this.#counts[outcome]++;
    if (this.#options.asJson) print(JSON.stringify({ id, bucket, key, outcome, problem }));
    else print(printable(`s3://${bucket}/${key}: ${problem}`));
  }

  #tell({ id, bucket, key }: LeasedJob, { receipt, sha256 }: Done): void {
    this.#counts.done++;
    if (this.#options.asJson) {
      print(JSON.stringify({ id, bucket, key, outcome: 'remade', sha256, receipt }));
    } else print(printable(`s3://${bucket}/${key}: remade, receipt ${receipt ?? 'unknown'}`));
  }

  async #update({ id }: LeasedJob, body: object): Promise<void> {
    const { connection, path } = this.#options;
    await callApi(connection, { method: 'PUT', path: [...path, 'work', String(id)], body });
  }
}

type Page = Answers['LeaseWork'];

function mayPass(error: unknown): boolean {
  if (error instanceof Unreachable) return true;
  return error instanceof ApiRefusal && (error.status >= 500 || error.status === 429);
}

/** Of an input that is lost, of too much to do, and of a gateway or a store that is away. */
const awayStatus = new Set([410, 429, 502, 503, 504]);

/**
 * Has it to do with the way, or with what is not there for now, and not with the job? What the
 * gateway cannot do (501), or fails at (500), as at an input that is damaged, is a try.
 */
function isAway(error: unknown): boolean {
  if (error instanceof S3Refusal || error instanceof ApiRefusal) {
    return awayStatus.has(error.status);
  }
  return error instanceof Unreachable;
}
