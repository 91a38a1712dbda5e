// Tells alarms to webhooks, each at least once, until it is taken or was tried too often.
// Invariants: what is waiting is bounded for each webhook, so one that is down takes neither memory
// nor turns from others; there is one request at a time to each; and an alarm is forgotten by the
// ledger only when nobody is to be told of it any more, so it outlives the process.
import { type AddressPolicy, everywhere } from '../../authz/oidc/address-policy.ts';
import { failLate } from '../../authz/oidc/guarded-request.ts';
import { isoTime, monotonicMs, nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import type { Sealer } from '../../core/sealing.ts';
import { UnsealedRow } from '../../core/seals/row-seal.ts';
import {
  type AlarmHook,
  hookContext,
  readAlarmHook,
  scopeOf,
} from '../../quota/limits/alarm-hooks.ts';
import { type Alarm, listUntoldAlarms } from '../../quota/limits/alarms.ts';
import { type Message, messageOf, sendMessage, testMessage } from './webhook.ts';

export interface AlarmNotifierOptions {
  read: Reader;
  sealer: Sealer;
  ledger: {
    maintain(work: { kind: 'noteToldAlarms'; ids: number[] }): Promise<number>;
  };
  /** Where tenants' webhooks may be; the operator's own may be in private networks too. */
  policy: AddressPolicy;
  /** Told, for the operator, why a webhook did not get a message. */
  onProblem?: (reason: string) => void;
  onError: (error: unknown) => void;
  /** Pauses after the first failure, the second and so on, milliseconds. */
  pausesMs?: readonly number[];
  /** What one attempt may take, milliseconds. */
  attemptMs?: number;
}

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/** After as many failures an alarm is given up: after about 16 hours. */
const pausesMsDefault: readonly number[] = [
  ...[5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs],
  ...[hourMs, 2 * hourMs, 4 * hourMs, 8 * hourMs],
];
const attemptMsDefault = 10 * secondMs;
/** Why a webhook is told nothing whose row somebody else has written. */
const edited = 'it is not what was stored';
/** Waiting for one webhook. */
const waitingMax = 100;
/** Read at the start; what is behind them, at a later one. */
const loadedMax = 10_000;

interface Delivery {
  alarm: Alarm;
  failures: number;
}

/** What waits for one webhook, and how it goes. */
interface Line {
  tenant: string | null;
  waiting: Delivery[];
  isSending: boolean;
  /** Runs while it pauses after a failure. */
  timer: NodeJS.Timeout | null;
  /** When the pause ends. */
  resumeMs: number;
  problem: string | null;
  toldMs: number | null;
}

/** What its owner sees of a webhook. */
export interface HookState {
  waiting: number;
  /** Why the last attempt failed; null: it did not. */
  problem: string | null;
  toldAt: string | null;
}

export class AlarmNotifier {
  readonly #options: AlarmNotifierOptions;
  readonly #instance: string;
  readonly #pausesMs: readonly number[];
  readonly #lines = new Map<string, Line>();
  /** By id: how many webhooks are yet to be told. */
  readonly #open = new Map<number, number>();
  #told: number[] = [];
  #noting: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  private constructor(options: AlarmNotifierOptions, instance: string) {
    this.#options = options;
    this.#instance = instance;
    this.#pausesMs = options.pausesMs ?? pausesMsDefault;
  }

  /** Goes on with what an earlier run was not done with. */
  static async open(options: AlarmNotifierOptions): Promise<AlarmNotifier> {
    const { read } = options;
    const row = await read.get<{ instance: string }>('SELECT instance FROM gateway');
    const notifier = new AlarmNotifier(options, row?.instance ?? '');
    await notifier.#take(await listUntoldAlarms(read, loadedMax));
    return notifier;
  }

  /** Of alarms that have become durable. */
  tell(alarms: readonly Alarm[]): void {
    this.#take(alarms).catch(this.#options.onError);
  }

  async #take(alarms: readonly Alarm[]): Promise<void> {
    for (const alarm of alarms) {
      // It became durable while the others were read.
      if (this.#open.has(alarm.id)) continue;
      const told: (string | null)[] = [];
      for (const tenant of [alarm.tenant, null])
        if (await this.#findHook(tenant)) told.push(tenant);
      this.#open.set(alarm.id, told.length);
      if (told.length === 0) this.#settle(alarm);
      for (const tenant of told) this.#enter(tenant, alarm);
    }
  }

  /** `'edited'`: it is not the one that was set; undefined: there is none. */
  async #findHook(tenant: string | null): Promise<AlarmHook | 'edited' | undefined> {
    try {
      return await readAlarmHook(this.#options.read, tenant);
    } catch (error) {
      if (error instanceof UnsealedRow) return 'edited';
      throw error;
    }
  }

  /** Sends a webhook a message that is no alarm, once; says why it was not taken, null: it was. */
  async test(hook: AlarmHook): Promise<string | null> {
    try {
      await this.#send(hook, testMessage(nowMs(), this.#instance));
      return null;
    } catch (error) {
      return this.#explain(hook.tenant, error);
    }
  }

  /** How it goes with a webhook, since the start. */
  stateOf(tenant: string | null): HookState {
    const line = this.#lines.get(scopeOf(tenant));
    if (!line) return { waiting: 0, problem: null, toldAt: null };
    const { waiting, problem, toldMs } = line;
    return { waiting: waiting.length, problem, toldAt: toldMs === null ? null : isoTime(toldMs) };
  }

  /** Ends what is under way; what was not taken is told after the next start. */
  async close(): Promise<void> {
    this.#stopping.abort();
    for (const { timer } of this.#lines.values()) if (timer) clearTimeout(timer);
    await this.#noting;
  }

  #enter(tenant: string | null, alarm: Alarm): void {
    const scope = scopeOf(tenant);
    let line = this.#lines.get(scope);
    if (!line) {
      line = {
        ...{ tenant, waiting: [], isSending: false, timer: null, resumeMs: 0 },
        ...{ problem: null, toldMs: null },
      };
      this.#lines.set(scope, line);
    }
    if (line.waiting.length >= waitingMax) this.#giveWay(line);
    line.waiting.push({ alarm, failures: 0 });
    // It does not wait for as long as one that failed again and again.
    if (line.timer) this.#pause(line);
    else this.#advance(line);
  }

  /** The oldest goes; one of a token before others, since anybody can make any number of those. */
  #giveWay({ waiting }: Line): void {
    const place = waiting.findIndex(({ alarm }) => alarm.account.startsWith('token:'));
    const [dropped] = waiting.splice(Math.max(place, 0), 1);
    if (dropped) this.#settle(dropped.alarm);
  }

  #advance(line: Line): void {
    if (line.isSending || this.#stopping.signal.aborted) return;
    const delivery = nextOf(line);
    if (!delivery) return;
    line.waiting.splice(line.waiting.indexOf(delivery), 1);
    line.isSending = true;
    this.#attempt(line, delivery)
      .catch(this.#options.onError)
      .finally(() => {
        line.isSending = false;
        if (!line.timer) this.#advance(line);
      });
  }

  async #attempt(line: Line, delivery: Delivery): Promise<void> {
    const hook = await this.#findHook(line.tenant);
    // Removed meanwhile: there is nobody to tell.
    if (!hook) return this.#settle(delivery.alarm);
    if (hook === 'edited') return this.#hold(line, delivery);
    try {
      await this.#send(hook, messageOf(delivery.alarm, this.#instance));
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#fail(line, delivery, error);
      return;
    }
    line.problem = null;
    line.toldMs = nowMs();
    this.#settle(delivery.alarm);
  }

  async #send({ tenant, url, sealedSecret }: AlarmHook, message: Message): Promise<void> {
    const { sealer, policy, attemptMs = attemptMsDefault } = this.#options;
    const secret = sealer.open(sealedSecret, hookContext(tenant));
    const own = tenant === null ? everywhere : policy;
    const send = (signal: AbortSignal) =>
      sendMessage({ url, secret }, message, { policy: own, nowMs: nowMs(), signal });
    await failLate(attemptMs, send, this.#stopping.signal);
  }

  /**
   * Of a tenant's webhook its admin is told no more: it would show what is in the gateway's
   * network.
   */
  #explain(tenant: string | null, error: unknown): string {
    const reason = reasonOf(error);
    if (tenant === null) return reason;
    this.#options.onProblem?.(`the webhook of tenant ${tenant}: ${reason}`);
    return 'it was not taken';
  }

  /** Until somebody has put the webhook right, however long that takes: nobody was asked. */
  #hold(line: Line, delivery: Delivery): void {
    if (line.problem !== edited) {
      const whose = line.tenant === null ? 'the gateway' : `tenant ${line.tenant}`;
      this.#options.onProblem?.(`the webhook of ${whose}: ${edited}; its alarms wait`);
    }
    line.problem = edited;
    line.waiting.push(delivery);
    this.#pause(line);
  }

  /** Those that failed less go first, so one that is always refused stops none. */
  #fail(line: Line, delivery: Delivery, error: unknown): void {
    line.problem = this.#explain(line.tenant, error);
    delivery.failures += 1;
    if (delivery.failures > this.#pausesMs.length) this.#settle(delivery.alarm);
    else line.waiting.push(delivery);
    this.#pause(line);
  }

  /** Until the next attempt; a pause that ends sooner stays. */
  #pause(line: Line): void {
    const failures = Math.max(1, nextOf(line)?.failures ?? 1);
    // Between half of it and all, so that gateways do not come together.
    const pauseMs = (this.#pausesMs[failures - 1] ?? 0) * (0.5 + Math.random() / 2);
    const resumeMs = monotonicMs() + pauseMs;
    if (line.timer && line.resumeMs <= resumeMs) return;
    if (line.timer) clearTimeout(line.timer);
    line.resumeMs = resumeMs;
    line.timer = setTimeout(() => {
      line.timer = null;
      this.#advance(line);
    }, pauseMs);
    line.timer.unref();
  }

  /** One webhook less is to be told. */
  #settle({ id }: Alarm): void {
    const left = (this.#open.get(id) ?? 0) - 1;
    if (left > 0) {
      this.#open.set(id, left);
      return;
    }
    this.#open.delete(id);
    this.#told.push(id);
    if (this.#told.length === 1) this.#noting = this.#noting.then(() => this.#note());
  }

  async #note(): Promise<void> {
    const ids = this.#told;
    this.#told = [];
    try {
      await this.#options.ledger.maintain({ kind: 'noteToldAlarms', ids });
    } catch (error) {
      // They are told again after the next start.
      this.#options.onError(error);
    }
  }
}

/** The oldest of those that failed least. */
function nextOf({ waiting }: Line): Delivery | undefined {
  const [first, ...others] = waiting;
  return others.reduce((next, one) => (next && one.failures < next.failures ? one : next), first);
}

/** Where several addresses were tried there is a code, and no message. */
function reasonOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || name === 'AbortError') return 'it did not answer in time';
  return message || String(code);
}
