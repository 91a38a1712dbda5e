// The changes of objects, in the order of the log, for whoever follows it. Invariants: the log is
// the only source, and each record is compared with its commitment, so that a page says all that
// happened between its cursor and its end; what is kept in memory is the end of the log, which
// followers share, and is bounded; nothing is read while nobody follows; and who waits is woken by
// nothing that is not theirs, but by each of their rights that is taken away.
import type { Reader } from '../../core/database.ts';
import { Pace } from '../../core/pace.ts';
import { PackFailure } from '../archive/pack-failure.ts';
import { readLogSize } from '../log/stored-tiles.ts';
import type { RecordStore } from '../record-store.ts';
import type { RecordSearch } from '../search/record-search.ts';
import { changeOf, type ObjectChange } from './object-change.ts';

/** What of the log is followed. */
export interface Followed {
  /** Of its buckets. */
  tenant: string;
  /** undefined: of all of them. */
  bucket: string | undefined;
  /** Of keys that begin so. */
  prefix: string;
  /** The last index that is known already; -1: none. */
  after: number;
}

export interface ChangeQuery extends Followed {
  limit: number;
}

export interface ChangePage {
  changes: ObjectChange[];
  /** Records that are not what was recorded, so that what they said cannot be told. */
  altered: number[];
  /** Up to and with this index all was looked at. */
  through: number;
  /** There was no more in the log. */
  isEnd: boolean;
}

/** An altered record, and whose it is. */
interface Altered {
  index: number;
  tenants: readonly (string | null)[];
}

/** Records that the shared end spans. A change takes some 500 bytes, and a long key. */
const tailMax = 4096;
const readAtOnce = 256;

/** Who waits. */
interface Waiter {
  of: Followed;
  /** Up to and with this index there is nothing for it. */
  through: number;
  /** The scopes of rights by which it waits: where some are taken away there, it is woken. */
  rests: readonly string[];
  wake: () => void;
}

/** How long after a commit followers are woken at most, besides the work itself. */
const lookMs = 40;
/**
 * For so long an answer to who waits gathers what comes: who follows a busy bucket asks again at
 * once, and each call costs as much as many changes. Longer where many of a tenant do, so that they
 * ask seldomer the more they are; others neither wait for that nor learn of it.
 */
const gatherMsMin = 70;
const gatherMsEach = 0.9;
const gatherMsMax = 1000;
const nobodys = () => false;

export interface ChangeLogOptions {
  read: Reader;
  records: Pick<RecordStore, 'readTexts' | 'readRecord'>;
  search: Pick<RecordSearch, 'find'>;
  /** Told of each record that is not what was recorded. */
  onAltered: (index: number) => void;
}

export class ChangeLog {
  readonly #options: ChangeLogOptions;
  /** What records from `#from` to before `#to` say. */
  #from = 0;
  #to = 0;
  #changes: ObjectChange[] = [];
  #altered: Altered[] = [];
  #advancing: Promise<void> | null = null;
  /** Behind that, for all who have asked since it began. */
  #next: Promise<void> | null = null;
  readonly #waiting = new Set<Waiter>();
  /** By tenant of those who ask. */
  readonly #gathering = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(options: ChangeLogOptions) {
    this.#options = options;
  }

  /** Who waits now, for something to tell or for more of it. */
  get followers(): number {
    let many = this.#waiting.size;
    for (const those of this.#gathering.values()) many += those.size;
    return many;
  }

  /** The index of the newest record; -1: there is none. */
  async newest(): Promise<number> {
    return (await readLogSize(this.#options.read)) - 1;
  }

  /** Throws as `RecordStore.readRecord` does. */
  async read(query: ChangeQuery): Promise<ChangePage> {
    await this.#advance();
    return query.after + 1 < this.#from ? this.#readOld(query) : this.#readTail(query);
  }

  /**
   * Resolves when there is something for who follows, or they are to ask again, or after `ms`, or
   * when `signal` ends it. Gives the index up to which there is nothing for them; null: there will
   * be no more, since the gateway stops. `rests`: the scopes of rights by which they may wait.
   */
  async waitPast(
    of: Followed,
    rests: readonly string[],
    ms: number,
    signal: AbortSignal,
  ): Promise<number | null> {
    if (this.#isClosed || signal.aborted) return null;
    const waiter: Waiter = { of, through: of.after, rests, wake: () => {} };
    if (this.#hasFor(waiter)) return waiter.through;
    const woken = new Promise<void>((resolve) => {
      waiter.wake = resolve;
    });
    this.#waiting.add(waiter);
    this.#timer ??= setTimeout(() => this.#look(), lookMs);
    await pause(woken, waiter.wake, ms, signal);
    this.#waiting.delete(waiter);
    return this.#isClosed ? null : waiter.through;
  }

  /** Rights were taken away there: whoever waits by them is to be decided about again. */
  wakeOf(scope: string): void {
    for (const { rests, wake } of this.#waiting) if (rests.includes(scope)) wake();
  }

  /**
   * Resolves when an answer that has something to tell need not wait for more, after `ms` at most.
   * `tenant`: of who asks.
   */
  async gather(tenant: string, ms: number, signal: AbortSignal): Promise<void> {
    if (this.#isClosed || signal.aborted) return;
    const those = this.#gathering.get(tenant) ?? new Set();
    this.#gathering.set(tenant, those);
    const enoughMs = Math.min(gatherMsMin + gatherMsEach * those.size, gatherMsMax, ms);
    let wake = (): void => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    those.add(wake);
    await pause(woken, wake, enoughMs, signal);
    those.delete(wake);
    if (those.size === 0) this.#gathering.delete(tenant);
  }

  /** Nobody waits any longer. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer) clearTimeout(this.#timer);
    for (const { wake } of this.#waiting) wake();
    for (const those of this.#gathering.values()) for (const wake of those) wake();
  }

  /** One look for all who wait. */
  async #look(): Promise<void> {
    const isKnown = await this.#advance().then(
      () => true,
      () => false,
    );
    for (const waiter of this.#waiting) {
      // Where it could not be read, whoever waits asks again, and is told what the matter is.
      if (!isKnown || this.#hasFor(waiter)) waiter.wake();
    }
    const goesOn = !this.#isClosed && this.#waiting.size > 0;
    this.#timer = goesOn ? setTimeout(() => this.#look(), lookMs) : null;
  }

  /**
   * Whether the shared end has something for who waits, or may have had; where it has not, they
   * are behind its end.
   */
  #hasFor(waiter: Waiter): boolean {
    const { tenant, bucket, prefix } = waiter.of;
    const begin = waiter.through + 1;
    if (begin < this.#from) return true;
    for (let at = firstFrom(this.#changes, begin); at < this.#changes.length; at++) {
      const change = this.#changes[at] as ObjectChange;
      if (change.tenant === tenant && fits(change, bucket, prefix)) return true;
    }
    for (let at = firstFrom(this.#altered, begin); at < this.#altered.length; at++) {
      if (this.#altered[at]?.tenants.includes(tenant)) return true;
    }
    waiter.through = Math.max(waiter.through, this.#to - 1);
    return false;
  }

  /** Brings the shared end up to the log's as it is now: one more run for all who ask meanwhile. */
  #advance(): Promise<void> {
    const advancing = this.#advancing;
    if (!advancing) return this.#begin();
    const goOn = (): Promise<void> => {
      this.#next = null;
      return this.#advancing ?? this.#begin();
    };
    this.#next ??= advancing.then(goOn, goOn);
    return this.#next;
  }

  #begin(): Promise<void> {
    const advancing = this.#readOn().finally(() => {
      this.#advancing = null;
    });
    this.#advancing = advancing;
    return advancing;
  }

  async #readOn(): Promise<void> {
    const { read, records } = this.#options;
    const size = await readLogSize(read);
    // Nobody has followed for a while: what lies between is read as old records are.
    if (size - this.#to > tailMax) return this.#beginAt(size);
    const pace = new Pace();
    while (this.#to < size) {
      const count = Math.min(readAtOnce, size - this.#to);
      const texts = await records.readTexts(this.#to, count).catch(absentWithPack);
      if (!texts) return this.#beginAt(size);
      // They are without gaps; what is not there was lost in this moment, and comes again.
      const whole = texts.findIndex(({ index }, i) => index !== this.#to + i);
      const known = whole < 0 ? texts : texts.slice(0, whole);
      if (known.length === 0) break;
      const altered: Altered[] = [];
      for (const { index, isAltered } of known)
        if (isAltered) altered.push(await this.#find(index));
      // At once, so that nobody reads what is behind the end.
      for (const { opened } of known) {
        const change = opened && changeOf(opened.record);
        if (change) this.#changes.push(change);
      }
      this.#altered.push(...altered);
      this.#to += known.length;
      await pace.rest();
    }
    this.#forget();
  }

  #beginAt(size: number): void {
    [this.#from, this.#to, this.#changes, this.#altered] = [size, size, [], []];
  }

  async #find(index: number): Promise<Altered> {
    this.#options.onAltered(index);
    const kept = await this.#options.records.readRecord(index, nobodys);
    return { index, tenants: [kept?.tenant ?? null, kept?.bucketTenant ?? null] };
  }

  #forget(): void {
    // Not with each record: arrays are cut when they have twice as much.
    if (this.#to - this.#from <= 2 * tailMax) return;
    this.#from = this.#to - tailMax;
    this.#changes = this.#changes.slice(firstFrom(this.#changes, this.#from));
    this.#altered = this.#altered.slice(firstFrom(this.#altered, this.#from));
  }

  #readTail({ tenant, bucket, prefix, after, limit }: ChangeQuery): ChangePage {
    const end = this.#to - 1;
    const changes: ObjectChange[] = [];
    let through = end;
    for (let at = firstFrom(this.#changes, after + 1); at < this.#changes.length; at++) {
      const change = this.#changes[at] as ObjectChange;
      if (change.tenant !== tenant || !fits(change, bucket, prefix)) continue;
      if (changes.length === limit) {
        through = change.index - 1;
        break;
      }
      changes.push(change);
    }
    const altered = this.#altered
      .filter(({ index, tenants }) => index > after && index <= through && tenants.includes(tenant))
      .map(({ index }) => index);
    return { changes, altered, through: Math.max(through, after), isEnd: through === end };
  }

  /** A page of what the shared end does not have. */
  async #readOld({ tenant, bucket, prefix, after, limit }: ChangeQuery): Promise<ChangePage> {
    const { read, search } = this.#options;
    const size = await readLogSize(read);
    const about = { tenant, bucket, prefix: prefix === '' ? undefined : prefix };
    const found = await search.find({
      ...about,
      pastIndex: after < 0 ? undefined : after,
      limit,
    });
    const page: ChangePage = { changes: [], altered: [], through: after, isEnd: false };
    for (const { index, text } of found.records) {
      const change = text === null ? undefined : changeOf(text);
      if (text === null) page.altered.push(index);
      else if (change?.tenant === tenant && fits(change, bucket, prefix)) page.changes.push(change);
      page.through = Math.max(page.through, index);
    }
    const { nextIndex } = found;
    page.through = nextIndex ?? Math.max(page.through, size - 1);
    return page;
  }
}

/** Until it is woken, which `wake` does, too, after `ms` or when `signal` ends it. */
async function pause(
  woken: Promise<void>,
  wake: () => void,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  const timer = setTimeout(wake, ms);
  signal.addEventListener('abort', wake);
  await woken;
  clearTimeout(timer);
  signal.removeEventListener('abort', wake);
}

/** The pack of old records that is not there is missed by who wants those. */
function absentWithPack(error: unknown): null {
  if (error instanceof PackFailure) return null;
  throw error;
}

function fits({ bucket, key }: ObjectChange, wanted: string | undefined, prefix: string): boolean {
  return (wanted === undefined || bucket === wanted) && key.startsWith(prefix);
}

/** The place of the first with at least this index. They are in the order of the log. */
function firstFrom(entries: readonly { index: number }[], index: number): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.index ?? 0) < index) low = middle + 1;
    else high = middle;
  }
  return low;
}
