// The requests' end of the ledger. Commits that wait while a batch is being applied go together in
// the next one, so the more requests there are, the more of them share one fsync. The worker has
// one batch at a time: another would wait there, closed to what comes while the first is applied.
// Reads are recorded "promptly": they wait for company, at most `promptMs`, and nobody waits for
// them.
import { Worker } from 'node:worker_threads';
import { makeVersionMarks, VersionMarks } from '../catalog/version-marks.ts';
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import type { RootKey } from '../core/keyring.ts';
import type { Unsealed } from '../core/seals/row-seal.ts';
import { LedgerMeter } from '../instruments/ledger-meter.ts';
import type { Draw } from '../quota/amounts.ts';
import type { DrawAnswer, DrawRequest } from '../quota/leases/requests.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import type { Commit, CommitResult, LedgerAnswer, LedgerRequest, Maintenance } from './commit.ts';
import { Feed } from './feed.ts';
import { KnownRights } from './known-rights.ts';
import type { LogKey } from './log-signing.ts';
import type { FromWorker, ToWorker, WorkerOptions } from './worker.ts';

/** How long the record of a read may wait to be written, milliseconds. */
const promptMs = 50;
/** When those are tried again that could not be written, milliseconds. */
const againMs = 1000;
const batchRequestsMax = 1000;
/** What was written so recently shows that the disk takes what is written, milliseconds. */
const writtenLatelyMs = 1000;
/** So many reads have room in a batch however much else waits. */
const batchReadsMin = batchRequestsMax / 2;
/** Records of reads that may wait; beyond it readers wait too, so memory stays bounded. */
const promptWaitingMax = 20_000;

type AnsweredBatch = Extract<FromWorker, { answers: unknown }>;
type NewCheckpoint = Extract<FromWorker, { checkpoint: unknown }>;

interface Waiting {
  request: LedgerRequest;
  /** It is kept until it is recorded: nobody could ask for it again. */
  isRead?: true;
  resolve: (answer: LedgerAnswer) => void;
}

export interface LedgerLoad {
  /** Requests that no batch has yet. */
  waiting: number;
  /** Records of reads that wait for company. */
  readsWaiting: number;
  /** There are so many of them that who reads waits, too. */
  isFull: boolean;
  /** Requests of the batch that is being applied. */
  underWay: number;
  /** What the ledger's thread has worked since it began. */
  busyMs: number;
  /** How long the worker has had that batch, milliseconds. */
  underWayMs: number;
  /** False: the disk refused what was last to be written. */
  isWritable: boolean;
}

export interface LedgerOptions {
  /** The database file. */
  path: string;
  /** Of all epochs; `addRootKey` changes add others. */
  rootKeys: readonly RootKey[];
  /** All by which anything may be charged. */
  priceBooks: readonly PriceBook[];
  /** Called once when the ledger cannot go on: the process must stop. */
  onFatal: (reason: string) => void;
  /**
   * Called with alarms that have just become durable: at once, and not for those that an earlier
   * run was not done with (`listUntoldAlarms`).
   */
  onAlarms?: (alarms: Alarm[]) => void;
  /** Called with the log's newest checkpoint, a signed note, soon after each batch (`signLog`). */
  onCheckpoint?: (note: string) => void;
  /** Called with records that turned out not to be what was recorded. */
  onAltered?: (indexes: number[]) => void;
  /**
   * Reads what requests will be decided by, while the database stays as it is and is verified;
   * absent: nothing is read.
   */
  load?: () => Promise<void>;
  /**
   * Called for each row that is not authentic: with those of the start before `open` resolves, then
   * with each that a request came upon.
   */
  onUnsealed?: (unsealed: Unsealed) => void;
  /** Called when somebody else has written to the database. */
  onTouched?: () => void;
  /** Called for each request that failed by a bug. */
  onFailure: (reason: string) => void;
}

export class Ledger {
  /** What its batches took. */
  readonly meter = new LedgerMeter();
  /** By what requests are decided, and their commits held to. */
  readonly rights = new KnownRights();
  /** What commits change of what is kept in memory: applied before they resolve. */
  readonly feed = new Feed();
  /** Tells whether a current version may have changed since it was read. */
  readonly versionMarks: VersionMarks;
  readonly #worker: Worker;
  readonly #options: LedgerOptions;
  #waiting: Waiting[] = [];
  #prompt: Waiting[] = [];
  /** The batch that the worker has; none: it is idle. */
  #underWay: Waiting[] = [];
  #underWaySinceMs = 0;
  #scheduled = false;
  #promptTimer: NodeJS.Timeout | null = null;
  /** Some reads have waited for company long enough. */
  #isPromptDue = false;
  /** What was last to be written could not be. */
  #isUnwritten = false;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #idle: (() => void)[] = [];
  /** What cannot be written now never is. */
  #isEnding = false;
  #lostReads = 0;
  #closing = false;

  private constructor(worker: Worker, marks: SharedArrayBuffer, options: LedgerOptions) {
    this.#worker = worker;
    this.versionMarks = new VersionMarks(marks);
    this.#options = options;
  }

  /** Opens or creates the database. Rejects when it cannot be, or was written under other keys. */
  static async open(options: LedgerOptions): Promise<Ledger> {
    const { path, rootKeys, priceBooks } = options;
    const marks = makeVersionMarks();
    const workerData: WorkerOptions = { path, rootKeys, priceBooks, marks };
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData });
    await nextOf(worker);
    const ready = nextOf(worker);
    // Whoever awaits it first says what went wrong.
    ready.catch(() => {});
    try {
      await options.load?.();
    } catch (error) {
      await worker.terminate();
      throw error;
    }
    worker.postMessage({ loaded: true } satisfies ToWorker);
    const message = await ready;
    worker.removeAllListeners('error');
    const ledger = new Ledger(worker, marks, options);
    ledger.#listen();
    if ('ready' in message) for (const one of message.unsealed) options.onUnsealed?.(one);
    return ledger;
  }

  /** How much it has to do now. */
  get load(): LedgerLoad {
    return {
      waiting: this.#waiting.length,
      readsWaiting: this.#prompt.length,
      isFull: this.#prompt.length >= promptWaitingMax,
      underWay: this.#underWay.length,
      underWayMs: this.#underWay.length > 0 ? monotonicMs() - this.#underWaySinceMs : 0,
      busyMs: this.#worker.performance.eventLoopUtilization().active,
      isWritable: !this.#isUnwritten,
    };
  }

  /** Makes one operation durable. Refusals of the transaction are values: the caller may retry. */
  commit(commit: Commit): Promise<CommitResult> {
    return this.#send({ kind: 'commit', commit }) as Promise<CommitResult>;
  }

  /**
   * Records something that changed nothing, soon: as soon as the disk takes it. Resolves at once
   * unless very many are waiting.
   */
  record(commit: Commit): Promise<unknown> | null {
    let recorded: Promise<unknown> | null = null;
    const request: LedgerRequest = { kind: 'commit', commit };
    const waiting: Waiting = { request, isRead: true, resolve: ignore };
    if (this.#prompt.length >= promptWaitingMax) {
      recorded = new Promise((resolve) => {
        waiting.resolve = resolve;
      });
    }
    this.#prompt.push(waiting);
    this.#recordWithin(promptMs);
    return recorded;
  }

  #recordWithin(ms: number): void {
    this.#promptTimer ??= setTimeout(() => {
      this.#promptTimer = null;
      this.#isPromptDue = this.#prompt.length > 0;
      this.#flush();
    }, ms);
  }

  /** Maintenance; gives how many rows it touched. Throws `Refusal` when the disk is full. */
  async maintain(work: Maintenance): Promise<number> {
    const answer = await this.#send(work);
    if (!answer.ok) throw new Refusal(answer.code);
    return 'touched' in answer ? answer.touched : 0;
  }

  /** Does the disk take what is written? Where nothing was written lately, that is tried. */
  async tryWriting(): Promise<boolean> {
    const sinceMs = monotonicMs() - this.#writtenMs;
    if (!this.#isUnwritten && sinceMs < writtenLatelyMs) return true;
    return (await this.#send({ kind: 'tryWriting' })).ok;
  }

  /** Sets amounts aside in accounts with limits. Throws `Refusal` when the disk is full. */
  async draw(request: DrawRequest): Promise<DrawAnswer> {
    const answer = await this.#send({ kind: 'draw', ...request });
    if (!answer.ok) throw new Refusal(answer.code);
    if (!('drawn' in answer)) throw new Error('the ledger answered something else');
    return answer.drawn;
  }

  /**
   * From now on the log is signed with these keys, soon after a batch; none: it is not signed. What
   * it is now is signed at once. Throws `Refusal` when the disk is full.
   */
  async signLog(keys: readonly LogKey[]): Promise<void> {
    await this.maintain({ kind: 'signLog', keys });
  }

  /** Gives back what was set aside and is not needed. */
  giveBack(draws: Draw[]): Promise<number> {
    return this.maintain({ kind: 'giveBack', draws });
  }

  /** Writes everything that waits, as far as the disk takes it, then closes the database. */
  async close(): Promise<void> {
    this.#isEnding = true;
    while (this.#prompt.length + this.#waiting.length + this.#underWay.length > 0) {
      this.#isPromptDue = this.#prompt.length > 0;
      this.#flush();
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
    await this.feed.settled;
    if (this.#promptTimer) clearTimeout(this.#promptTimer);
    if (this.#lostReads > 0) {
      this.#options.onFailure(`${this.#lostReads} records of reads could not be written`);
    }
    this.#closing = true;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage({ close: true } satisfies ToWorker);
    await exited;
  }

  #send(request: LedgerRequest): Promise<LedgerAnswer> {
    return new Promise((resolve) => {
      this.#waiting.push({ request, resolve });
      if (this.#scheduled) return;
      this.#scheduled = true;
      // Requests that arrive in the same turn of the event loop share a message.
      setImmediate(() => {
        this.#scheduled = false;
        this.#flush();
      });
    });
  }

  #flush(): void {
    if (this.#underWay.length > 0 || (this.#waiting.length === 0 && !this.#isPromptDue)) return;
    this.#underWay = this.#takeBatch();
    this.#underWaySinceMs = monotonicMs();
    const requests: LedgerRequest[] = [];
    const transfer: ArrayBuffer[] = [];
    for (const { request } of this.#underWay) {
      requests.push(request);
      const buffer = inlineBuffer(request);
      if (buffer) transfer.push(buffer);
    }
    this.#worker.postMessage({ requests } satisfies ToWorker, transfer);
  }

  /**
   * Reads that wait to be recorded ride along for free, and before the others: they were done
   * before these were asked for, so who asks what is left of a limit finds them counted.
   */
  #takeBatch(): Waiting[] {
    const room = Math.max(batchRequestsMax - this.#waiting.length, batchReadsMin);
    // Those that could not be written would have each batch fail.
    const isHeld = this.#isUnwritten && !this.#isPromptDue;
    const reads = this.#prompt.splice(0, isHeld ? 0 : room);
    if (this.#prompt.length === 0) this.#isPromptDue = false;
    return [...reads, ...this.#waiting.splice(0, batchRequestsMax - reads.length)];
  }

  #listen(): void {
    this.#worker.on('message', (message: FromWorker) => {
      if ('answers' in message) this.#answer(message);
      else if ('fatal' in message) this.#options.onFatal(message.fatal);
      else if ('checkpoint' in message) this.#takeCheckpoint(message);
      else if ('alarms' in message) this.#options.onAlarms?.(message.alarms);
      else if ('altered' in message) this.#options.onAltered?.(message.altered);
      else if ('failed' in message) this.#options.onFailure(message.failed);
      else if ('touched' in message) this.#options.onTouched?.();
      else if ('unsealed' in message && !('ready' in message)) {
        this.#options.onUnsealed?.(message.unsealed);
      }
    });
    this.#worker.on('error', (error) => this.#options.onFatal(error.stack ?? String(error)));
    this.#worker.on('exit', () => {
      if (!this.#closing) this.#options.onFatal('the ledger stopped');
    });
  }

  #takeCheckpoint({ checkpoint, sinceAppendMs }: NewCheckpoint): void {
    this.meter.countCheckpoint(sinceAppendMs);
    this.#options.onCheckpoint?.(checkpoint);
  }

  #answer({ answers, appliedMs, committedMs }: AnsweredBatch): void {
    this.meter.countBatch(answers.length, appliedMs, committedMs);
    const answered = this.#underWay;
    this.#underWay = [];
    const kept: Waiting[] = [];
    let [isRefused, isTaken] = [false, false];
    for (let i = 0; i < answered.length; i++) {
      const one = answered[i] as Waiting;
      const answer = answers[i] as LedgerAnswer;
      if (!answer.ok && answer.isUnwritten) {
        isRefused = true;
        if (one.isRead && !this.#isEnding) {
          kept.push(one);
          continue;
        }
        if (one.isRead) this.#lostReads++;
      } else if (isWritten(one.request, answer)) isTaken = true;
      if (changesMemory(answer)) this.#resolveApplied(one, answer);
      else one.resolve(answer);
    }
    // A batch in which nothing was to be written says nothing of the disk.
    if (isRefused) this.#isUnwritten = true;
    else if (isTaken) {
      this.#isUnwritten = false;
      this.#writtenMs = monotonicMs();
    }
    if (kept.length > 0) {
      this.#prompt.unshift(...kept);
      this.#isPromptDue = false;
      this.#recordWithin(againMs);
    }
    this.#flush();
    if (this.#underWay.length === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  /**
   * Resolves it when its events are applied. Where memory cannot be what the tables say, requests
   * would be decided by rights that were taken away, or writes that depend on them be refused for
   * ever: only a start reads all of it anew.
   */
  #resolveApplied({ resolve }: Waiting, { events = [], ...answer }: Changing): void {
    const { index, epoch } = answer;
    const applied = this.feed.deliver({ index: index as number, events });
    applied.then(
      () => {
        if (epoch !== undefined) this.rights.reach(epoch);
        resolve(answer);
      },
      (error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        this.#options.onFatal(`memory could not follow what was committed: ${reason}`);
        resolve({ ok: false, code: 'InternalError', index });
      },
    );
  }
}

type Changing = Extract<CommitResult, { ok: true }>;

/** Is there something to be applied or reached before it may be answered? */
function changesMemory(answer: LedgerAnswer): answer is Changing {
  return answer.ok && ('events' in answer || 'epoch' in answer);
}

/** The next message, or why there will be none. */
function nextOf(worker: Worker): Promise<FromWorker> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

/** The buffer of an inline body, to be handed over instead of copied. It must be the body's own. */
function inlineBuffer(request: LedgerRequest): ArrayBuffer | null {
  if (request.kind !== 'commit') return null;
  const { change } = request.commit;
  if (change.kind !== 'putObject' && change.kind !== 'putPart') return null;
  const body = change.inline?.body;
  if (!body || body.byteLength !== body.buffer.byteLength) return null;
  return body.buffer as ArrayBuffer;
}

/** For sure: housekeeping may have found nothing to do. */
function isWritten({ kind }: LedgerRequest, answer: LedgerAnswer): boolean {
  return answer.ok && (kind === 'tryWriting' || 'timeMs' in answer);
}

function ignore(): void {}
