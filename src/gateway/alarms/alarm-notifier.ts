// Sends alarms to webhooks, of which some are addresses of mail. An alarm is sent at least once,
// and again until the webhook, or the mail server, has accepted it or the attempts are used up.
// What waits for an address goes in one mail, and the next one a minute later at the soonest.
// Invariants: the number of alarms that wait for one webhook is bounded, so a webhook that is down
// takes neither memory nor turns from the others; no webhook gets two requests at a time; and the
// ledger forgets an alarm only when no webhook is still to be told of it, so that alarms outlive
// the process. That a target of notifications is stuck goes the same way, and is no entry of the
// ledger.

import { type AddressPolicy, everywhere } from '../../authz/oidc/address-policy.ts';
import { failLate } from '../../authz/oidc/guarded-request.ts';
import { listHeldShares } from '../../catalog/held-totals.ts';
import { isoTime, monotonicMs, nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { getOrMake } from '../../core/maps.ts';
import type { Sealer } from '../../core/sealing.ts';
import { UnsealedRow } from '../../core/seals/row-seal.ts';
import {
  type AlarmHook,
  type HookOf,
  hookContext,
  readAlarmHook,
  scopeOf,
} from '../../quota/limits/alarm-hooks.ts';
import { type Alarm, listUntoldAlarms } from '../../quota/limits/alarms.ts';
import { addressOf, type Mail, type Mailer, mailOf, testMail } from './mail.ts';
import { isStuckTarget, type StuckTarget, stuckMessage, type Told } from './stuck-target.ts';
import { type Message, messageOf, sendMessage, testMessage } from './webhook.ts';

export interface AlarmNotifierOptions {
  read: Reader;
  sealer: Sealer;
  ledger: {
    maintain(work: { kind: 'noteToldAlarms'; ids: number[] }): Promise<number>;
  };
  /** To which addresses tenants' webhooks may lead. The operator's own may lead anywhere. */
  policy: AddressPolicy;
  /** null: no mail server is set. */
  mailer?: Mailer | null;
  /** How long an address gets no other mail, in milliseconds. */
  mailPauseMs?: number;
  /** Is told why a webhook did not get a message, for the operator to read. */
  onProblem?: (reason: string) => void;
  onError: (error: unknown) => void;
  /** The pauses after the first failure, the second and so on, in milliseconds. */
  pausesMs?: readonly number[];
  /** How long one attempt may take, in milliseconds. */
  attemptMs?: number;
}

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/** An alarm is given up when it fails once more after the last pause, about 16 hours in. */
const pausesMsDefault: readonly number[] = [
  ...[5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs],
  ...[hourMs, 2 * hourMs, 4 * hourMs, 8 * hourMs],
];
export const attemptMsDefault = 10 * secondMs;
const mailPauseMsDefault = minuteMs;
/** The problem of a webhook whose row is not what the gateway wrote: it is sent nothing. */
const edited = 'it is not what was stored';
/** At most so many alarms wait for one webhook. */
const waitingMax = 100;
/** At most so many alarms of earlier runs are read at a start; a later start reads the others. */
const loadedMax = 10_000;

interface Delivery {
  alarm: Told;
  failures: number;
}

/** The alarms that wait for one webhook, and the state of its deliveries. */
interface Line {
  of: HookOf;
  waiting: Delivery[];
  isSending: boolean;
  /** It runs during the pause after a failure. */
  timer: NodeJS.Timeout | null;
  /** When the pause ends. */
  resumeMs: number;
  /** An address gets no mail before then. */
  quietUntilMs: number;
  problem: string | null;
  toldMs: number | null;
}

/** What the owner of a webhook is shown of its deliveries. */
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
  /** By the id of an alarm: how many webhooks are still to be told of it. */
  readonly #open = new Map<number, number>();
  #told: number[] = [];
  #noting: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  private constructor(options: AlarmNotifierOptions, instance: string) {
    this.#options = options;
    this.#instance = instance;
    this.#pausesMs = options.pausesMs ?? pausesMsDefault;
  }

  /** Goes on with the alarms that an earlier run did not finish. */
  static async open(options: AlarmNotifierOptions): Promise<AlarmNotifier> {
    const { read } = options;
    const row = await read.get<{ instance: string }>('SELECT instance FROM gateway');
    const notifier = new AlarmNotifier(options, row?.instance ?? '');
    await notifier.#take(await listUntoldAlarms(read, loadedMax));
    return notifier;
  }

  /** null: no mail server is set. */
  get mailer(): Mailer | null {
    return this.#options.mailer ?? null;
  }

  /** Takes alarms once they are durable. */
  tell(alarms: readonly Alarm[]): void {
    this.#take(alarms).catch(this.#options.onError);
  }

  /** Tells its tenant, and the operator, that a target takes nothing. */
  tellStuck(stuck: StuckTarget): void {
    const enter = async () => {
      for (const of of hooksFor(stuck)) if (await this.#findHook(of)) this.#enter(of, stuck);
    };
    enter().catch(this.#options.onError);
  }

  async #take(alarms: readonly Alarm[]): Promise<void> {
    for (const alarm of alarms) {
      // An alarm can become durable while those of earlier runs are read, and then comes twice.
      if (this.#open.has(alarm.id)) continue;
      const told: HookOf[] = [];
      for (const of of hooksFor(alarm)) if (await this.#findHook(of)) told.push(of);
      this.#open.set(alarm.id, told.length);
      if (told.length === 0) this.#settle(alarm);
      for (const of of told) this.#enter(of, alarm);
    }
  }

  /**
   * Gives `'edited'` where the row is not what the gateway wrote, undefined where none is set, or
   * where it is of a principal who may do nothing now.
   */
  async #findHook(of: HookOf): Promise<AlarmHook | 'edited' | undefined> {
    const { read } = this.#options;
    try {
      const hook = await readAlarmHook(read, of);
      if (!hook || of.principal === null) return hook;
      const sql = 'SELECT active FROM principals WHERE tenant = ? AND name = ?';
      const person = await read.get<{ active: number }>(sql, of.tenant, of.principal);
      return person?.active === 1 ? hook : undefined;
    } catch (error) {
      if (error instanceof UnsealedRow) return 'edited';
      throw error;
    }
  }

  /**
   * Sends a webhook one message that is no alarm. Gives why it was not accepted, or null. What a
   * principal has sent to an address counts as its mail of that minute.
   */
  async test(hook: AlarmHook): Promise<string | null> {
    const address = addressOf(hook.url);
    const line = hook.principal === null ? null : this.#lineOf(hook);
    if (line && monotonicMs() < line.quietUntilMs) {
      return 'a message was sent, or tried, within the last minute; nothing was sent now';
    }
    try {
      if (line) this.#rest(line);
      if (address === undefined) await this.#send(hook, testMessage(nowMs(), this.#instance));
      else await this.#sendMail(hook, address, testMail(nowMs(), this.#instance));
      return null;
    } catch (error) {
      return this.#explain(hook, error);
    }
  }

  /** The state of a webhook's deliveries since the start. */
  stateOf(of: HookOf): HookState {
    const line = this.#lines.get(scopeOf(of));
    if (!line) return { waiting: 0, problem: null, toldAt: null };
    const { waiting, problem, toldMs } = line;
    return { waiting: waiting.length, problem, toldAt: toldMs === null ? null : isoTime(toldMs) };
  }

  /** Ends the requests under way. Alarms that were not accepted are sent after the next start. */
  async close(): Promise<void> {
    this.#stopping.abort();
    for (const { timer } of this.#lines.values()) if (timer) clearTimeout(timer);
    await this.#noting;
  }

  #lineOf({ tenant, principal }: HookOf): Line {
    const of = { tenant, principal };
    return getOrMake(this.#lines, scopeOf(of), () => ({
      ...{ of, waiting: [], isSending: false, timer: null, resumeMs: 0 },
      quietUntilMs: 0,
      ...{ problem: null, toldMs: null },
    }));
  }

  /** Nothing goes to its address for a while. */
  #rest(line: Line): void {
    line.quietUntilMs = monotonicMs() + (this.#options.mailPauseMs ?? mailPauseMsDefault);
  }

  #enter(of: HookOf, alarm: Told): void {
    const line = this.#lineOf(of);
    if (line.waiting.length >= waitingMax) this.#giveWay(line);
    line.waiting.push({ alarm, failures: 0 });
    // A new alarm does not wait out the long pause of one that failed again and again.
    if (line.timer) this.#pause(line);
    else this.#advance(line);
  }

  /**
   * Drops the oldest alarm, to make room. An alarm of a token, or of a target, goes before all
   * others, because anybody can make any number of tokens, and an admin can stop any target.
   */
  #giveWay({ waiting }: Line): void {
    const place = waiting.findIndex(({ alarm }) => givesWay(alarm));
    const [dropped] = waiting.splice(Math.max(place, 0), 1);
    if (dropped) this.#settle(dropped.alarm);
  }

  #advance(line: Line): void {
    if (line.isSending || this.#stopping.signal.aborted) return;
    const delivery = nextOf(line);
    if (!delivery) return;
    if (monotonicMs() < line.quietUntilMs) {
      this.#pause(line);
      return;
    }
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
    const hook = await this.#findHook(line.of);
    // The webhook was removed meanwhile, so there is nobody to tell.
    if (!hook) return this.#settle(delivery.alarm);
    if (hook === 'edited') return this.#hold(line, delivery);
    const address = addressOf(hook.url);
    // What waits goes in the same mail.
    const deliveries = [delivery, ...(address === undefined ? [] : line.waiting.splice(0))];
    try {
      if (address === undefined) await this.#send(hook, await this.#messageOf(delivery.alarm));
      else await this.#sendMail(hook, address, this.#mailOf(deliveries));
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#fail(line, deliveries, error);
      return;
    }
    line.problem = null;
    line.toldMs = nowMs();
    if (address !== undefined) this.#rest(line);
    for (const { alarm } of deliveries) this.#settle(alarm);
  }

  async #messageOf(alarm: Told): Promise<Message> {
    if (isStuckTarget(alarm)) return stuckMessage(alarm, this.#instance);
    const isStored = alarm.meter === 'storedBytes';
    const shares = isStored ? await listHeldShares(this.#options.read, alarm.tenant) : [];
    return messageOf(alarm, this.#instance, shares);
  }

  #mailOf(deliveries: readonly Delivery[]): Mail {
    const alarms = deliveries.map(({ alarm }) => alarm).sort((a, b) => a.timeMs - b.timeMs);
    return mailOf(alarms, this.#instance);
  }

  /** The operator's address may be any. */
  async #sendMail({ tenant }: HookOf, address: string, mail: Mail): Promise<void> {
    const { attemptMs = attemptMsDefault } = this.#options;
    const { mailer } = this;
    const send = async (signal: AbortSignal) => {
      if (!mailer) throw new Error('no mail server is set');
      if (tenant !== null && !mailer.allows(address)) throw new Error('its domain is not allowed');
      await mailer.send(address, mail, signal);
    };
    await failLate(attemptMs, send, this.#stopping.signal);
  }

  /** To which addresses a webhook may lead. */
  policyOf({ tenant }: Pick<HookOf, 'tenant'>): AddressPolicy {
    return tenant === null ? everywhere : this.#options.policy;
  }

  async #send(hook: AlarmHook, message: Message): Promise<void> {
    const { url, sealedSecret } = hook;
    const { sealer, attemptMs = attemptMsDefault } = this.#options;
    const secret = sealer.open(sealedSecret, hookContext(hook));
    const policy = this.policyOf(hook);
    const send = (signal: AbortSignal) =>
      sendMessage({ url, secret }, message, { policy, nowMs: nowMs(), signal });
    await failLate(attemptMs, send, this.#stopping.signal);
  }

  /**
   * Gives the reason to show to the owner of a webhook. Who is of a tenant is not told the details,
   * which would show what is in the gateway's network; the operator is.
   */
  #explain(of: HookOf, error: unknown): string {
    const reason = reasonOf(error);
    if (of.tenant === null) return reason;
    this.#options.onProblem?.(`the webhook of ${ownerText(of)}: ${reason}`);
    return 'it was not taken';
  }

  /**
   * Keeps an alarm until somebody has set the webhook anew, however long that takes. It does not
   * count as a failure, since no request was sent.
   */
  #hold(line: Line, delivery: Delivery): void {
    if (line.problem !== edited) {
      this.#options.onProblem?.(`the webhook of ${ownerText(line.of)}: ${edited}; its alarms wait`);
    }
    line.problem = edited;
    line.waiting.push(delivery);
    this.#pause(line);
  }

  /** Alarms that failed less often go first, so one that is always refused stops no other. */
  #fail(line: Line, deliveries: readonly Delivery[], error: unknown): void {
    line.problem = this.#explain(line.of, error);
    for (const delivery of deliveries) {
      delivery.failures += 1;
      if (delivery.failures > this.#pausesMs.length) this.#settle(delivery.alarm);
      else line.waiting.push(delivery);
    }
    this.#pause(line);
  }

  /** Pauses until the next attempt. A pause under way that ends sooner is kept. */
  #pause(line: Line): void {
    const failures = Math.max(1, nextOf(line)?.failures ?? 1);
    // A random part of the pause is left out, so that many gateways do not retry at the same time.
    const shortMs = (this.#pausesMs[failures - 1] ?? 0) * (0.5 + Math.random() / 2);
    const pauseMs = Math.max(shortMs, line.quietUntilMs - monotonicMs());
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

  /** Notes that one webhook less is to be told of this alarm. */
  #settle(alarm: Told): void {
    if (isStuckTarget(alarm)) return;
    const { id } = alarm;
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
      // The ledger still has these alarms, so they are sent again after the next start.
      this.#options.onError(error);
    }
  }
}

/** Whose webhooks are told of an alarm, where they are set. */
function hooksFor(alarm: Told): HookOf[] {
  const { tenant } = alarm;
  const principal = isStuckTarget(alarm) ? '' : alarm.principal;
  const own = principal === '' ? [] : [{ tenant, principal }];
  return [...own, { tenant, principal: null }, { tenant: null, principal: null }];
}

function givesWay(alarm: Told): boolean {
  return isStuckTarget(alarm) || alarm.account.startsWith('token:');
}

function ownerText({ tenant, principal }: HookOf): string {
  if (tenant === null) return 'the gateway';
  return principal === null ? `tenant ${tenant}` : `principal ${tenant}/${principal}`;
}

/** The oldest of the alarms that failed least often. */
function nextOf({ waiting }: Line): Delivery | undefined {
  const [first, ...others] = waiting;
  return others.reduce((next, one) => (next && one.failures < next.failures ? one : next), first);
}

/** An error of several addresses that were tried has a code and no message. */
export function reasonOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || name === 'AbortError') return 'it did not answer in time';
  return message || String(code);
}
