// A ledger without a database, for tests of leases: requests wait until a test applies a batch of
// them, answers until it delivers them, and a crash may come between any two steps. What is durable
// is copied, and only what is said to have changed is written.

import { AccountBook } from '#bursar/quota/leases/account-book.js';
import type { AccountChanges } from '#bursar/quota/leases/account-entry.js';
import {
  type AccountState,
  type Mark,
  newAccountState,
} from '#bursar/quota/leases/account-state.js';
import { HolderNames } from '#bursar/quota/leases/holder-names.js';
import type { LeaseHolder, LeaseSource } from '#bursar/quota/leases/lease-holder.js';
import { Recalls } from '#bursar/quota/leases/recalls.js';
import type { Reached } from '#bursar/quota/limits/alarms.js';

/** By hand: `structuredClone` takes many times as long. */
export function copyOf(state: AccountState): AccountState {
  const { limits, token, told, used, lost, marks, leases } = state;
  const { minute, hour, day, month } = marks;
  return {
    limits,
    token: token && { ...token },
    told: copyOfMap(told),
    used: { ...used },
    lost: { ...lost },
    marks: {
      minute: copyOfMark(minute),
      hour: copyOfMark(hour),
      day: copyOfMark(day),
      month: copyOfMark(month),
    },
    leases: copyOfMap(leases),
  };
}

function copyOfMark({ beginMs, used, lost }: Mark): Mark {
  return { beginMs, used: { ...used }, lost: { ...lost } };
}

function copyOfMap<T extends object>(map: Map<string, T>): Map<string, T> {
  return new Map(Array.from(map, ([name, value]) => [name, { ...value }]));
}

export class MemoryStorage {
  durable = new Map<string, AccountState>();
  #pending = new Map<string, AccountState>();

  async read(account: string): Promise<AccountState | undefined> {
    const state = this.#pending.get(account) ?? this.durable.get(account);
    return state && copyOf(state);
  }

  async write(account: string, state: AccountState, changes: AccountChanges): Promise<void> {
    const copy = copyOf(state);
    const written = (await this.read(account)) ?? newAccountState();
    written.limits = copy.limits;
    written.token = copy.token;
    written.told = copy.told;
    written.used = copy.used;
    written.lost = copy.lost;
    for (const window of changes.windows) written.marks[window] = copy.marks[window];
    const holders = new Set(written.leases.keys());
    for (const holder of changes.holders) {
      if (copy.leases.has(holder)) holders.add(holder);
      else holders.delete(holder);
    }
    written.leases = new Map();
    for (const holder of holders) {
      const lease = copy.leases.get(holder);
      if (!lease) throw new Error(`nobody was told that ${holder} has no lease any more`);
      written.leases.set(holder, lease);
    }
    this.#pending.set(account, written);
  }

  async remove(account: string): Promise<void> {
    this.durable.delete(account);
  }

  async expiredTokens(beforeMs: number, max: number): Promise<string[]> {
    const found = [...this.durable].filter(
      ([, { token, leases }]) =>
        token !== null && token.expiresAtMs < beforeMs && leases.size === 0,
    );
    return found.slice(0, max).map(([account]) => account);
  }

  async leasedByOthers(run: string, max: number): Promise<string[]> {
    const own = new HolderNames(run);
    const isOthers = ({ leases }: AccountState) => [...leases.keys()].some((one) => !own.has(one));
    const found = [...this.durable].filter(([, state]) => isOthers(state));
    return found.slice(0, max).map(([account]) => account);
  }

  commit(): void {
    for (const [account, state] of this.#pending) this.durable.set(account, state);
    this.#pending.clear();
  }

  rollback(): void {
    this.#pending.clear();
  }
}

type Work = (book: AccountBook, timeMs: number) => Promise<unknown> | null;
interface Waiting {
  work: Work;
  answer: (value: unknown) => void;
  fail: () => void;
  onDurable: () => void;
}

export class LedgerRig {
  readonly storage = new MemoryStorage();
  /** That are durable. */
  readonly alarms: Reached[] = [];
  transactions = 0;
  timeMs: number;
  #run = 0;
  #book = new AccountBook(this.storage, 'run 0');
  #waiting: Waiting[] = [];
  #applied: (() => void)[] = [];
  #recalls = new Recalls();
  /** Recalls on their way to holders. */
  #recalled: (() => void)[] = [];

  constructor(timeMs: number) {
    this.timeMs = timeMs;
  }

  get runName(): string {
    return `run ${this.#run}`;
  }

  /** Requests that wait, answers, and recalls. */
  get busy(): number {
    return this.#waiting.length + this.#applied.length + this.#recalled.length;
  }

  /** What a lease holder asks. Of a run that crashed nothing is heard any more. */
  source(holder = 0): LeaseSource {
    const run = this.#run;
    const send = <T>(work: Work): Promise<T> =>
      run === this.#run ? this.send<T>(work) : new Promise(() => {});
    return {
      draw: (request) => send((book, timeMs) => book.draw(structuredClone(request), timeMs)),
      giveBack: (request) =>
        send((book, timeMs) => book.giveBack(structuredClone(request), timeMs)),
      recall: (accounts) => this.#recalls.recall(holder, accounts),
    };
  }

  /** From now on the holder is recalled: recalls by others wait until they are delivered to it. */
  join(leaseHolder: LeaseHolder): void {
    this.#recalls.add(leaseHolder.holder, (accounts) => {
      return new Promise((resolve) => {
        this.#recalled.push(() => void leaseHolder.giveUpFree(accounts).then(resolve));
      });
    });
  }

  /** Delivers the oldest `max` recalls. */
  async deliverRecalls(max = Number.POSITIVE_INFINITY): Promise<void> {
    for (const deliver of this.#recalled.splice(0, max)) deliver();
    await new Promise(setImmediate);
  }

  /** Rejects when the disk is full. `onDurable` is called with the transaction. */
  send<T>(work: Work, onDurable: () => void = () => {}): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        work,
        answer: (value) => resolve(value as T),
        fail: () => reject(new Error('the disk is full')),
        onDurable,
      });
    });
  }

  /** Applies up to `max` requests in one transaction. */
  async apply(max = Number.POSITIVE_INFINITY): Promise<void> {
    await this.#applyAll(this.#waiting.splice(0, max));
  }

  /** Up to `max` fail together and are applied one by one; of those some fail again. */
  async applyOneByOne(max: number, isFull: () => boolean): Promise<void> {
    await this.applyInVain(max);
    for (const waiting of this.#waiting.splice(0, max)) {
      if (isFull()) {
        await this.#try([waiting]);
        this.#applied.push(waiting.fail);
      } else {
        await this.#applyAll([waiting]);
      }
    }
  }

  /** Applies some requests, and then the disk refuses: the transaction is rolled back. */
  async applyInVain(max: number): Promise<void> {
    await this.#try(this.#waiting.slice(0, max));
  }

  async #applyAll(all: Waiting[]): Promise<void> {
    for (const { work, answer, onDurable } of all) {
      const value = await work(this.#book, this.timeMs);
      this.#applied.push(() => answer(value));
      onDurable();
    }
    this.alarms.push(...this.#book.takeReached());
    await this.#book.flush();
    this.storage.commit();
    this.transactions += 1;
  }

  async #try(all: Waiting[]): Promise<void> {
    for (const { work } of all) await work(this.#book, this.timeMs);
    this.#book.takeReached();
    await this.#book.flush();
    this.storage.rollback();
    this.#book.discard();
  }

  /** Delivers the oldest `max` answers, and lets those who waited go on. */
  async deliver(max = Number.POSITIVE_INFINITY): Promise<void> {
    for (const answer of this.#applied.splice(0, max)) answer();
    await new Promise(setImmediate);
  }

  /** Applies and delivers until nothing waits. */
  async settle(): Promise<void> {
    await new Promise(setImmediate);
    while (this.busy > 0) {
      await this.apply();
      await this.deliver();
      await this.deliverRecalls();
    }
  }

  /** The process dies, and is started again. */
  async crash(): Promise<void> {
    this.#waiting = [];
    this.#applied = [];
    this.#recalled = [];
    this.#recalls = new Recalls();
    this.storage.rollback();
    this.#run += 1;
    this.#book = new AccountBook(this.storage, this.runName);
    while ((await this.#book.writeOffLeases(2, this.timeMs)) > 0) await this.#applyAll([]);
  }
}
