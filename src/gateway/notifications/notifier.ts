// Tells targets of changes of objects, as buckets' notifications say. Each target has a line of its
// own, which reads the feed of changes from its cursor on. Invariants: what is told is read from
// the log, so that a target that is away, or a gateway that is killed, loses nothing the log still
// has; a target gets one message at a time, in the order of the log, and the next only when it has
// taken that one, or has refused it for good, which is noted; and nothing is told that who
// configured it may not read then.
import type { ChangeLog } from '../../audit/changes/change-log.ts';
import {
  countDeadLetters,
  deadLettersMax,
  listTargetIds,
  type NotificationTarget,
  readCursor,
  readTarget,
  type TargetId,
  type ToldProgress,
} from '../../audit/changes/targets.ts';
import { isoTime, monotonicMs, nowMs } from '../../core/clock.ts';
import { UnsealedRow } from '../../core/seals/row-seal.ts';
import type { FeedEntry } from '../../ledger/feed.ts';
import { reasonOf } from '../alarms/alarm-notifier.ts';
import type { StuckTarget } from '../alarms/stuck-target.ts';
import { mayKnowWho } from '../changes/readable.ts';
import type { RequestServices } from '../services.ts';
import { beginOf, readRules } from './bucket-rules.ts';
import { type Configurer, findConfigurer } from './configurer.ts';
import { type Telling, type TellingTerms, tellingsOf, testBody } from './messages.ts';
import { isRefusedForGood, type Sender } from './sending.ts';

type Parts = Pick<
  RequestServices,
  'buckets' | 'directory' | 'grants' | 'keyring' | 'read' | 'region' | 'sealFaults'
>;

export interface NotifierOptions extends Parts {
  ledger: { maintain(work: { kind: 'noteTold' } & ToldProgress): Promise<number> };
  changes: Pick<ChangeLog, 'read' | 'waitPast' | 'newest'>;
  sender: Pick<Sender, 'send' | 'close'>;
  /** Absent: always. */
  maySend?: () => boolean;
  /** Is told what an operator should know of a target. */
  onProblem: (text: string) => void;
  /** Is told that a target is stuck; again only when it has taken something, or hours later. */
  onStuck?: (stuck: StuckTarget) => void;
  /** A target that has failed for so long, in milliseconds, is stuck. */
  stuckMs?: number;
  onError: (error: unknown) => void;
  /** The first pause after a failure, in milliseconds; each is twice the one before. */
  pauseMsMin?: number;
}

const pageMax = 1000;
const recordsMax = 100;
const waitMs = 30_000;
const pauseMsMinDefault = 1000;
const pauseMsMax = 5 * 60_000;
/** A message that is refused for good is tried so often, in case the target was mistaken. */
const refusalsMax = 3;
const stuckMsDefault = 10 * 60_000;
/** Whoever sets a target anew, again and again, cannot have it told more often than this. */
const stuckAgainMs = 6 * 3_600_000;
/** A cursor that nothing was told by is noted when it has moved so far. */
const idleRecords = 10_000;

/** What its admins are shown of a target. */
export interface TargetState {
  /** All up to and with this record was told; null: as far as the database says. */
  cursor: number | null;
  /** Why the last attempt failed; null: it did not. */
  problem: string | null;
  /** Since when it has failed; null: it does not. */
  failingSince: string | null;
  toldAt: string | null;
  /** It has failed for ten minutes, or has too many dead letters. */
  isStuck: boolean;
}

interface Line extends TargetId {
  /** All up to here is told; null: it is to be read. */
  cursor: number | null;
  /** The same as the database has it. */
  noted: number;
  /** Refused for good, and not noted yet. */
  dead: { index: number; reason: string }[];
  isNoting: boolean;
  problem: string | null;
  failingSinceMs: number | null;
  isStuck: boolean;
  /** It was told that it is stuck, since it was set and since it took something. */
  isStuckTold: boolean;
  toldMs: number | null;
  /** Failures, and refusals of one message, in a row. */
  failures: number;
  refusals: number;
  /** Up to this record messages have one change each, to find out which is refused. */
  singlyUpTo: number;
  sent: number;
  failed: number;
  /** Ends a wait, and a pause. */
  wake: AbortController;
  running: Promise<void> | null;
}

export class Notifier {
  readonly #options: NotifierOptions;
  readonly #instance: string;
  readonly #lines = new Map<string, Line>();
  /** When it was told that a target is stuck, also of one that is gone, by its name. */
  readonly #stuckToldMs = new Map<string, number>();
  readonly #stopping = new AbortController();

  private constructor(options: NotifierOptions, instance: string) {
    this.#options = options;
    this.#instance = instance;
  }

  /** Goes on with what earlier runs did not tell. */
  static async open(options: NotifierOptions): Promise<Notifier> {
    const row = await options.read.get<{ instance: string }>('SELECT instance FROM gateway');
    const notifier = new Notifier(options, row?.instance ?? '');
    for (const id of await listTargetIds(options.read)) notifier.#begin(id);
    return notifier;
  }

  /** Of the ledger's feed. */
  apply({ events }: FeedEntry): void {
    for (const event of events) {
      // The rules themselves are read when there is something to tell.
      const isOfRules = event.kind === 'setting' && event.name === 'notification';
      if (isOfRules) for (const line of this.#lines.values()) this.#begin(line);
    }
  }

  /** What there is to say of a target since the start. */
  stateOf(id: TargetId): TargetState | undefined {
    const line = this.#lines.get(keyOf(id));
    if (!line) return undefined;
    const { cursor, problem, failingSinceMs, toldMs, isStuck } = line;
    return {
      ...{ cursor, problem, isStuck },
      failingSince: failingSinceMs === null ? null : isoTime(failingSinceMs),
      toldAt: toldMs === null ? null : isoTime(toldMs),
    };
  }

  /** For metrics: each target that is told something. */
  *list(): Generator<TargetId & Pick<Line, 'sent' | 'failed' | 'isStuck' | 'cursor'>> {
    yield* this.#lines.values();
  }

  /** Sends one message that is no event. Gives why it was not taken, or null. */
  async test(target: NotificationTarget): Promise<string | null> {
    try {
      const id = `msg_${this.#instance}_test_${Date.now()}`;
      const body = testBody('', id);
      await this.#options.sender.send(target, { id, body }, this.#stopping.signal);
      return null;
    } catch (error) {
      return this.#explain(target, error);
    }
  }

  /** Ends what is under way: it is told again after the next start. */
  async close(): Promise<void> {
    this.#stopping.abort();
    for (const { wake } of this.#lines.values()) wake.abort();
    await Promise.all([...this.#lines.values()].map(({ running }) => running));
    await this.#options.sender.close();
  }

  #begin({ tenant, name }: TargetId): void {
    if (this.#stopping.signal.aborted) return;
    const key = keyOf({ tenant, name });
    const line = this.#lines.get(key) ?? newLine({ tenant, name });
    this.#lines.set(key, line);
    line.wake.abort();
    line.wake = new AbortController();
    line.running ??= this.#run(line)
      .catch(this.#options.onError)
      .finally(() => {
        line.running = null;
      });
  }

  /** There is a target, another one of its name, or it is to be told anew from elsewhere. */
  renew(id: TargetId): void {
    const line = this.#lines.get(keyOf(id));
    if (line) {
      line.cursor = null;
      Object.assign(line, { failures: 0, refusals: 0, failingSinceMs: null, isStuck: false });
      Object.assign(line, { singlyUpTo: -1, dead: [], isStuckTold: false });
    }
    this.#begin(id);
  }

  async #run(line: Line): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const { wake } = line;
        const rest = await this.#advance(line);
        if (rest === 'gone') return this.#forget(line);
        if (rest === 'none') await this.#pause(waitMs, wake.signal);
        if (rest === 'stuck') await this.#pause(pauseMsMax, wake.signal);
        if (rest === 'failed') await this.#pause(this.#pauseMs(line), wake.signal);
        if (rest === 'end') await this.#wait(line, wake.signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#fail(line, error instanceof UnsealedRow ? 'it is not what was stored' : null, error);
        await this.#pause(this.#pauseMs(line), line.wake.signal);
      }
    }
  }

  /** Tells one page. Gives what to do before the next. */
  async #advance(line: Line): Promise<'gone' | 'none' | 'stuck' | 'failed' | 'end' | 'more'> {
    const { read, changes, maySend } = this.#options;
    if (maySend && !maySend()) return 'none';
    const target = await readTarget(read, line.tenant, line.name);
    if (!target) return 'gone';
    if (line.cursor === null) {
      line.noted = (await readCursor(read, line)) ?? -1;
      line.cursor = line.noted;
    }
    if ((await countDeadLetters(read, line)) >= deadLettersMax) {
      this.#stick(line, `${deadLettersMax} changes were refused by it`);
      return 'stuck';
    }
    // Read before the rules: whatever comes behind it is told by those that come later.
    const newest = await changes.newest();
    const before = await readRules(read, line);
    if (before.length === 0) {
      if (line.cursor !== null) line.cursor = Math.max(line.cursor, newest);
      return 'none';
    }
    const after = Math.max(line.cursor, beginOf(before));
    const page = await changes.read({
      ...{ tenant: line.tenant, bucket: undefined, prefix: '', after, limit: pageMax },
    });
    // Read behind the page, so that no rule is missing that was there before its changes.
    const rules = await readRules(read, line);
    if (line.cursor === null) return 'more';
    const { region } = this.#options;
    const tellings = await tellingsOf(page, after, rules, {
      ...{ region, judge: this.#judge(line.tenant) },
      recordsMax: after < line.singlyUpTo ? 1 : recordsMax,
    });
    for (const telling of tellings) {
      const isDone = await this.#tell(line, target, telling);
      if (this.#stopping.signal.aborted || line.cursor === null) return 'more';
      if (!isDone) return 'failed';
      line.cursor = telling.indices.at(-1) as number;
      this.#note(line);
    }
    line.cursor = Math.max(page.through, line.cursor);
    if (line.cursor - line.noted >= idleRecords) this.#note(line);
    return page.isEnd ? 'end' : 'more';
  }

  /** Whether a change may be told by the rules of a bucket: decided once more for each page. */
  #judge(tenant: string): TellingTerms['judge'] {
    const known = new Map<string, Promise<Configurer | undefined>>();
    return async ({ bucket, by }, change) => {
      const finding = known.get(bucket) ?? findConfigurer(this.#options, { tenant, bucket, by });
      known.set(bucket, finding);
      const configurer = await finding;
      if (!configurer || !(await configurer.mayRead(change.key))) return undefined;
      return { tellsWho: mayKnowWho(configurer.who, change) };
    };
  }

  /** Gives whether it is done: taken, or refused for good. */
  async #tell(
    line: Line,
    target: NotificationTarget,
    { indices, body }: Telling,
  ): Promise<boolean> {
    const [first = 0] = indices;
    const last = indices.at(-1) ?? first;
    const id = `msg_${this.#instance}_${line.tenant}_${line.name}_${first}_${last}`;
    try {
      await this.#options.sender.send(target, { id, body }, this.#stopping.signal);
    } catch (error) {
      if (this.#stopping.signal.aborted) return false;
      line.failed += 1;
      return this.#refused(line, target, indices, error);
    }
    line.sent += 1;
    line.toldMs = nowMs();
    Object.assign(line, { failures: 0, refusals: 0, problem: null, failingSinceMs: null });
    Object.assign(line, { isStuck: false, isStuckTold: false });
    this.#stuckToldMs.delete(keyOf(line));
    return true;
  }

  #refused(
    line: Line,
    target: NotificationTarget,
    indices: readonly number[],
    error: unknown,
  ): boolean {
    const reason = this.#explain(target, error);
    this.#fail(line, reason, error);
    if (!isRefusedForGood(error)) return false;
    if (indices.length > 1) {
      line.singlyUpTo = indices.at(-1) as number;
      return false;
    }
    line.refusals += 1;
    if (line.refusals < refusalsMax) return false;
    line.refusals = 0;
    line.dead.push({ index: indices[0] as number, reason });
    const change = `the change of record ${indices[0]}`;
    this.#options.onProblem(`${nounOf(line)} refused ${change}, which is a dead letter: ${reason}`);
    return true;
  }

  #fail(line: Line, reason: string | null, error: unknown): void {
    line.failures += 1;
    // What is wrong in the gateway itself is in its log, and no tenant's to read.
    line.problem = reason ?? 'the gateway could not read what to tell';
    line.failingSinceMs ??= nowMs();
    if (reason === null) this.#options.onError(error);
    const { stuckMs = stuckMsDefault } = this.#options;
    if (nowMs() - line.failingSinceMs < stuckMs) return;
    this.#stick(line, line.problem);
  }

  #stick(line: Line, reason: string): void {
    if (!line.isStuck) {
      this.#options.onProblem(`${nounOf(line)} is stuck: ${reason}; what it is told waits`);
    }
    line.isStuck = true;
    line.problem = reason;
    if (line.isStuckTold) return;
    const { tenant, name: target } = line;
    const timeMs = nowMs();
    for (const [key, toldMs] of this.#stuckToldMs) {
      if (timeMs - toldMs >= stuckAgainMs) this.#stuckToldMs.delete(key);
    }
    if (this.#stuckToldMs.has(keyOf(line))) return;
    this.#stuckToldMs.set(keyOf(line), timeMs);
    line.isStuckTold = true;
    this.#options.onStuck?.({ tenant, target, reason, timeMs });
  }

  /** As of webhooks of alarms, a tenant's admins are not told what is in the gateway's network. */
  #explain(target: NotificationTarget, error: unknown): string {
    const reason = reasonOf(error);
    if (target.kind === 'sqs') return reason;
    this.#options.onProblem(`${nounOf(target)} did not take a message: ${reason}`);
    return isRefusedForGood(error) ? reason : 'it was not taken';
  }

  #pauseMs({ failures }: Line): number {
    const { pauseMsMin = pauseMsMinDefault } = this.#options;
    const pauseMs = Math.min(pauseMsMin * 2 ** Math.min(failures - 1, 20), pauseMsMax);
    // A random part is left out, so that many targets are not asked at the same time.
    return pauseMs * (0.5 + Math.random() / 2);
  }

  async #pause(ms: number, wake: AbortSignal): Promise<void> {
    if (wake.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  async #wait(line: Line, wake: AbortSignal): Promise<void> {
    const { cursor: after, tenant } = line;
    if (after === null || wake.aborted) return;
    const begunMs = monotonicMs();
    const all = { tenant, bucket: undefined, prefix: '', after };
    const through = await this.#options.changes.waitPast(all, [], waitMs, wake);
    if (through !== null && line.cursor === after) line.cursor = through;
    // The feed has ended, and the gateway is about to.
    if (through === null && !wake.aborted && monotonicMs() - begunMs < waitMs)
      await this.#pause(waitMs, wake);
  }

  /** Makes its cursor durable, beside what goes on: what a crash loses of that is told again. */
  #note(line: Line): void {
    if (line.isNoting || line.cursor === null) return;
    line.isNoting = true;
    const { tenant, name, noted: from, cursor: to, dead } = line;
    line.dead = [];
    const noting = this.#options.ledger
      .maintain({ kind: 'noteTold', tenant, name, from, to, dead })
      .then((count) => {
        if (count === 0) return this.renew(line);
        line.noted = to;
      })
      .catch((error) => {
        line.dead = [...dead, ...line.dead];
        this.#options.onError(error);
      })
      .finally(() => {
        line.isNoting = false;
        const isBehind = line.cursor !== null && line.cursor > to && line.noted === to;
        if (isBehind && !this.#stopping.signal.aborted) this.#note(line);
      });
    void noting;
  }

  #forget(line: Line): void {
    this.#lines.delete(keyOf(line));
  }
}

function keyOf({ tenant, name }: TargetId): string {
  return `${tenant}/${name}`;
}

function nounOf({ tenant, name }: TargetId): string {
  return `the target ${name} of tenant ${tenant}`;
}

function newLine({ tenant, name }: TargetId): Line {
  return {
    ...{ tenant, name, cursor: null, noted: -1, dead: [], isNoting: false, problem: null },
    ...{ failingSinceMs: null, isStuck: false, isStuckTold: false, toldMs: null, failures: 0 },
    ...{
      refusals: 0,
      singlyUpTo: -1,
      sent: 0,
      failed: 0,
      wake: new AbortController(),
      running: null,
    },
  };
}
