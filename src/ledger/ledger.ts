// The requests' end of the ledger. Commits that wait while a batch is being applied go together in
// the next one, so the more requests there are, the more of them share one fsync. The worker has
// one batch at a time: another would wait there, closed to what comes while the first is applied.
// Reads are recorded "promptly": they wait for company, at most `promptMs`, and nobody waits for
// them.
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { VersionMarks } from '../catalog/version-marks.ts';
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { LedgerMeter } from '../instruments/ledger-meter.ts';
import type { DrawAnswer, DrawRequest, GiveBackRequest } from '../quota/leases/requests.ts';
import type { Commit, CommitResult, LedgerAnswer, LedgerRequest, Maintenance } from './commit.ts';
import type { FromEnd, LedgerEnd, RequestBatch, ToldBatch } from './ends.ts';
import { Feed } from './feed.ts';
import { KnownRights } from './known-rights.ts';
import { LedgerThread, type LedgerThreadOptions } from './ledger-thread.ts';
import type { LogKey } from './log-signing.ts';

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

type AnsweredBatch = Extract<FromEnd, { answers: unknown }>;

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

/** What its end of the ledger tells the thread that uses it. */
export interface LedgerHost {
  /** Called once when the gateway cannot go on: the process must stop. */
  onFatal: (reason: string) => void;
  /** Called with what could not be written and never will be. */
  onFailure: (reason: string) => void;
}

export class Ledger {
  /** What its batches took. */
  readonly meter: LedgerMeter;
  /** By what requests are decided, and their commits held to. */
  readonly rights = new KnownRights();
  /** What commits change of what is kept in memory: applied before they resolve. */
  readonly feed = new Feed();
  /** Tells whether a current version may have changed since it was read. */
  readonly versionMarks: VersionMarks;
  readonly #port: MessagePort;
  /** How many batches of events were sent to each end, and how many have come here. */
  readonly #sent: Int32Array;
  #received = Number.NaN;
  readonly #begun: Promise<void>;
  #begin: () => void = () => {};
  readonly #host: LedgerHost;
  /** Null: another thread begins and ends it. */
  readonly #thread: LedgerThread | null;
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
  /** Whether all that was told so far could be applied. */
  #followed: Promise<boolean> = Promise.resolve(true);
  #idle: (() => void)[] = [];
  /** What cannot be written now never is. */
  #isEnding = false;
  #lostReads = 0;

  private constructor(
    end: LedgerEnd,
    host: LedgerHost,
    thread: LedgerThread | null = null,
    meter = new LedgerMeter(),
  ) {
    this.meter = meter;
    this.#port = end.port;
    this.#sent = new Int32Array(end.told);
    this.versionMarks = new VersionMarks(end.marks);
    this.#host = host;
    this.#thread = thread;
    this.#begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    this.#port.on('message', (message: FromEnd) => this.#take(message));
  }

  /** Opens or creates the database. Rejects when it cannot be, or was written under other keys. */
  static async open(options: LedgerThreadOptions): Promise<Ledger> {
    const { onCheckpoint } = options;
    const meter = new LedgerMeter();
    const thread = await LedgerThread.open({
      ...options,
      onCheckpoint: (note, sinceAppendMs) => {
        meter.signedSeconds.record(sinceAppendMs / 1000);
        onCheckpoint?.(note, sinceAppendMs);
      },
    });
    const ledger = new Ledger(thread.addEnd(), options, thread, meter);
    await ledger.#begun;
    return ledger;
  }

  /**
   * The ledger that another thread has opened, by an end that it has made for this thread. Resolves
   * when all that is committed from now on is told here: what memory is made of is to be read then.
   */
  static async join(end: LedgerEnd, host: LedgerHost): Promise<Ledger> {
    const ledger = new Ledger(end, host);
    await ledger.#begun;
    return ledger;
  }

  /** An end of it for another thread. */
  addEnd(): LedgerEnd {
    if (!this.#thread) throw new Error('who has opened the ledger makes its ends');
    return this.#thread.addEnd();
  }

  /** How many batches of events have come: where it is the same, nothing has changed meanwhile. */
  get received(): number {
    return this.#received;
  }

  /**
   * Resolves when each change that was answered for before, to whichever thread, is in this
   * thread's memory; null: it is. To be asked before a request is decided.
   */
  follow(): Promise<void> | null {
    if (Atomics.load(this.#sent, 0) !== this.#received) this.#takeAll();
    return this.feed.settling;
  }

  /** How much it has to do now. */
  get load(): LedgerLoad {
    return {
      waiting: this.#waiting.length,
      readsWaiting: this.#prompt.length,
      isFull: this.#prompt.length >= promptWaitingMax,
      underWay: this.#underWay.length,
      underWayMs: this.#underWay.length > 0 ? monotonicMs() - this.#underWaySinceMs : 0,
      busyMs: this.#thread?.busyMs ?? 0,
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

  /**
   * Has what was charged until now in the rows of accounts, for who reads them; where the disk is
   * full, they have what they had.
   */
  async writeAccounts(): Promise<void> {
    await this.#send({ kind: 'writeAccounts' });
  }

  /** Gives back what was set aside and is not needed. */
  giveBack(request: GiveBackRequest): Promise<number> {
    return this.maintain({ kind: 'giveBack', ...request });
  }

  /**
   * Writes everything that waits, as far as the disk takes it, and lets go of the ledger; who has
   * opened it closes the database, when all other ends are closed.
   */
  async close(): Promise<void> {
    this.#isEnding = true;
    while (this.#prompt.length + this.#waiting.length + this.#underWay.length > 0) {
      this.#isPromptDue = this.#prompt.length > 0;
      this.#flush();
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
    await this.feed.settling;
    if (this.#promptTimer) clearTimeout(this.#promptTimer);
    if (this.#lostReads > 0) {
      this.#host.onFailure(`${this.#lostReads} records of reads could not be written`);
    }
    this.#port.close();
    await this.#thread?.close();
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
    this.#port.postMessage({ requests } satisfies RequestBatch, transfer);
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

  #take(message: FromEnd): void {
    if ('answers' in message) this.#answer(message);
    else if ('begun' in message) {
      this.#received = message.begun.told;
      this.rights.reach(message.begun.epoch);
      this.#begin();
    } else this.#followAll(message);
  }

  /** What is in the port's queue, in the order in which it was sent. */
  #takeAll(): void {
    for (;;) {
      const received = receiveMessageOnPort(this.#port) as { message: FromEnd } | undefined;
      if (!received) return;
      this.#take(received.message);
    }
  }

  #answer({ answers, appliedMs, committedMs }: AnsweredBatch): void {
    const { batchRequests, batchSeconds, commitSeconds } = this.meter;
    batchRequests.record(answers.length);
    batchSeconds.record(appliedMs / 1000);
    commitSeconds.record(committedMs / 1000);
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
      if ('isTold' in answer) this.#resolveFollowed(one, answer);
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
   * Applies what changes have caused, in the order of the log. Where memory cannot be what the
   * tables say, requests would be decided by rights that were taken away, or writes that depend on
   * them be refused for ever: only a start reads all of it anew.
   */
  #followAll({ entries }: ToldBatch): void {
    this.#received += 1;
    const all = entries.map(async (entry) => {
      await this.feed.deliver(entry);
      if (entry.epoch !== undefined) this.rights.reach(entry.epoch, entry.taken);
    });
    this.#followed = Promise.all(all).then(
      () => true,
      (error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        this.#host.onFatal(`memory could not follow what was committed: ${reason}`);
        return false;
      },
    );
  }

  /** Resolves it when its events, which came before it, are applied. */
  #resolveFollowed({ resolve }: Waiting, answer: LedgerAnswer): void {
    const { isTold, ...told } = answer as Told;
    void this.#followed.then((isFollowed) => {
      resolve(isFollowed ? told : { ok: false, code: 'InternalError', index: told.index });
    });
  }
}

type Told = Extract<CommitResult, { ok: true }>;

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
