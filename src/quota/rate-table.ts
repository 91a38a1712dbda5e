// Rates in memory that all threads of a gateway share, so that together they let through no more
// than one would. Of each rate one word is kept: the time at which nothing is left of it. What is
// taken moves that time on by as much as it takes to flow in again, with a compare-and-swap; a time
// more than a second ago counts as a second ago, since one second's worth may come at once. Times
// are 32-bit words in units of 0.1 ms, or 1 ms for bytes, of which a slow stream may owe days'
// worth; they wrap after 119 hours, or 49 days: `refresh` moves on those that are old. Invariants:
// a thread is charged whole units first and takes the rest of them later, so that rounding makes
// nobody faster; and an account has one slot, which no other has while anybody uses it, unless the
// table is full. Then accounts share slots: they are slower, never faster.
import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { monotonicMs } from '../core/clock.ts';

const slotsUsual = 65_536;
/** That accounts share for which there is none of their own. */
const sharedSlots = 256;
const unitsPerMs = { requests: 10, bytes: 1 };
/** The most units that are owed, and after half of them a time that is past is moved on. */
const owedMax = 2 ** 30;
/** Sums of parts of units are as exact as this. */
const inexact = 1e-6;

// The table's words: the header, for each hash where a list of slots begins, and the slots.
const lock = 0;
/** How many slots there are, a power of two, and how many of them were ever used. */
const slotCount = 1;
const slotsUsed = 2;
/** The first slot that is not used any more. Lists end with 0. */
const freeSlot = 3;
/** What names are hashed with, so that nobody can find names that share a slot. */
const seedAt = 8;
const seedWords = 8;
const headsAt = seedAt + seedWords;

// The words of a slot.
const slotWords = 8;
const next = 0;
const hashed = 1;
const hashedToo = 2;
const users = 3;
/** When nothing is left of its rate of requests, and of bytes; behind each, what the rate is. */
const rateWords = { requests: 4, bytes: 6 };

export type RateKind = keyof typeof rateWords;
const kinds = ['requests', 'bytes'] as const;

/** The memory for a table; `slots`, a power of two: how many accounts have one of their own. */
export function makeRateTable(slots = slotsUsual): SharedArrayBuffer {
  const count = headsAt + slots + (slots + sharedSlots) * slotWords;
  const words = new Int32Array(new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT));
  words[slotCount] = slots;
  const seed = randomBytes(seedWords * Int32Array.BYTES_PER_ELEMENT);
  for (let i = 0; i < seedWords; i++) words[seedAt + i] = seed.readInt32LE(4 * i);
  return words.buffer;
}

/** What one thread sees of the table. */
export class RateTable {
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #slots: number;
  readonly #slotsAt: number;
  readonly #seed: KeyObject;
  /** What this thread's clock is behind one that all threads have. */
  readonly #behindMs: number;

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory);
    this.#slots = this.#words[slotCount] as number;
    this.#slotsAt = headsAt + this.#slots;
    this.#seed = createSecretKey(Buffer.from(this.#words.slice(seedAt, seedAt + seedWords).buffer));
    this.#behindMs = findBehindMs();
  }

  /** Now, in units. */
  nowFor(kind: RateKind): number {
    return Math.floor((monotonicMs() + this.#behindMs) * unitsPerMs[kind]) | 0;
  }

  /** The slot of an account, to be left as often as it was entered. It begins with all there is. */
  enter(account: string): number {
    const hash = createHmac('sha256', this.#seed).update(account).digest();
    const [one, other] = [hash.readInt32LE(0), hash.readInt32LE(4)];
    return this.#locked((words) => {
      const headAt = headsAt + (one & (this.#slots - 1));
      for (let slot = words[headAt] as number; slot !== 0; slot = words[slot + next] as number) {
        if (words[slot + hashed] !== one || words[slot + hashedToo] !== other) continue;
        (words[slot + users] as number) += 1;
        return slot;
      }
      const shared = this.#slotAt(this.#slots + (other & (sharedSlots - 1)));
      // While others use that one, this account may be among them, in another thread.
      const slot = (words[shared + users] === 0 && this.#takeFree(words)) || shared;
      if (words[slot + users] === 0) {
        for (const kind of kinds) {
          words[slot + rateWords[kind]] = this.#aSecondAgo(kind);
          words[slot + rateWords[kind] + 1] = 0;
        }
      }
      (words[slot + users] as number) += 1;
      if (slot === shared) return slot;
      words[slot + hashed] = one;
      words[slot + hashedToo] = other;
      words[slot + next] = words[headAt] as number;
      words[headAt] = slot;
      return slot;
    });
  }

  leave(slot: number): void {
    this.#locked((words) => {
      (words[slot + users] as number) -= 1;
      const isShared = slot >= this.#slotAt(this.#slots);
      if (isShared || words[slot + users] !== 0) return;
      let before = headsAt + ((words[slot + hashed] as number) & (this.#slots - 1));
      while (words[before] !== slot) before = (words[before] as number) + next;
      words[before] = words[slot + next] as number;
      words[slot + next] = words[freeSlot] as number;
      words[freeSlot] = slot;
    });
  }

  /** A rate of the account whose slot it is. */
  bucket(slot: number, kind: RateKind, perSecond: number): RateBucket {
    return new RateBucket(this, { words: this.#words, slot, kind, perSecond });
  }

  /** To be called at least once a day while a slot is used: what has rested long stays at rest. */
  refresh(slot: number): void {
    for (const kind of kinds) {
      const at = slot + rateWords[kind];
      const empty = Atomics.load(this.#words, at);
      const then = this.#aSecondAgo(kind);
      if (((then - empty) | 0) < owedMax / 2) continue;
      Atomics.compareExchange(this.#words, at, empty, then);
    }
  }

  #aSecondAgo(kind: RateKind): number {
    return (this.nowFor(kind) - 1000 * unitsPerMs[kind]) | 0;
  }

  #slotAt(index: number): number {
    return this.#slotsAt + index * slotWords;
  }

  /** 0: there is none. */
  #takeFree(words: Int32Array): number {
    const free = words[freeSlot] as number;
    if (free !== 0) {
      words[freeSlot] = words[free + next] as number;
      return free;
    }
    const used = words[slotsUsed] as number;
    if (used === this.#slots) return 0;
    words[slotsUsed] = used + 1;
    return this.#slotAt(used);
  }

  /** `work` is short, and waits for nothing. */
  #locked<T>(work: (words: Int32Array) => T): T {
    const words = this.#words;
    while (Atomics.compareExchange(words, lock, 0, 1) !== 0) Atomics.wait(words, lock, 1, 1);
    try {
      return work(words);
    } finally {
      Atomics.store(words, lock, 0);
      Atomics.notify(words, lock);
    }
  }
}

/**
 * What one thread takes of one rate: so much a second, of which one second's worth may come at once
 * after a pause.
 */
export class RateBucket {
  readonly perSecond: number;
  readonly #table: RateTable;
  readonly #words: Int32Array;
  readonly #at: number;
  readonly #kind: RateKind;
  readonly #unitsPerMs: number;
  readonly #secondUnits: number;
  /** In how many units one flows in. */
  readonly #unitsOfOne: number;
  /** What this thread was charged and has not taken yet, less than a unit. */
  #ahead = 0;
  /** Of the last taking. */
  #takenUnits = 0;
  #aheadBefore = 0;

  /** For `RateTable` only. */
  constructor(
    table: RateTable,
    given: { words: Int32Array; slot: number; kind: RateKind; perSecond: number },
  ) {
    const { words, slot, kind, perSecond } = given;
    this.perSecond = perSecond;
    this.#table = table;
    this.#words = words;
    this.#at = slot + rateWords[kind];
    this.#kind = kind;
    this.#unitsPerMs = unitsPerMs[kind];
    this.#secondUnits = 1000 * this.#unitsPerMs;
    this.#unitsOfOne = this.#secondUnits / perSecond;
    this.#follow();
  }

  /** How much is there; less than 0 where more was taken than there was. */
  level(now: number): number {
    const units = this.#leftAt(this.#words[this.#at] as number, now) + this.#ahead + inexact;
    return Math.min(units / this.#unitsOfOne, this.perSecond);
  }

  isFull(now = this.#now): boolean {
    return this.#leftAt(this.#words[this.#at] as number, now) === this.#secondUnits;
  }

  /** How long until `amount` is there, milliseconds. */
  waitMs(amount: number, now = this.#now): number {
    const left = this.#leftAt(this.#words[this.#at] as number, now);
    return Math.max(0, this.#unitsOf(amount) - left) / this.#unitsPerMs;
  }

  /**
   * Takes an amount that is there within so many milliseconds, and gives in how many; null: it is
   * not, and nothing was taken.
   */
  take(amount: number, waitMsMax: number, now: number): number | null {
    const units = this.#unitsOf(amount);
    const left = this.#move(amount, units - waitMsMax * this.#unitsPerMs, now);
    return left === null ? null : Math.max(0, units - left) / this.#unitsPerMs;
  }

  /** Takes an amount if anything is there, however little, and owes the rest; else false. */
  takeAhead(amount: number): boolean {
    return this.#unitsOf(amount) <= owedMax && this.#move(amount, 1, this.#now) !== null;
  }

  /** Undoes the last taking, in the same turn. */
  untake(): void {
    Atomics.sub(this.#words, this.#at, this.#takenUnits);
    this.#ahead = this.#aheadBefore;
  }

  /** Takes an amount where so many units are left; gives how many were, null: fewer. */
  #move(amount: number, least: number, now: number): number | null {
    const units = this.#unitsOf(amount);
    let empty = this.#words[this.#at] as number;
    for (;;) {
      const left = this.#leftAt(empty, now);
      if (left < least) return null;
      const then = (now - left + units) | 0;
      const found = Atomics.compareExchange(this.#words, this.#at, empty, then);
      if (found !== empty) {
        empty = found;
        continue;
      }
      this.#takenUnits = units;
      this.#aheadBefore = this.#ahead;
      this.#ahead += units - amount * this.#unitsOfOne;
      return left;
    }
  }

  get #now(): number {
    return this.#table.nowFor(this.#kind);
  }

  /** How many units' worth is left at a time. */
  #leftAt(empty: number, now: number): number {
    return Math.min((now - empty) | 0, this.#secondUnits);
  }

  /** The whole units to charge for an amount. */
  #unitsOf(amount: number): number {
    return Math.ceil(amount * this.#unitsOfOne - this.#ahead - inexact);
  }

  /**
   * Where the rate was another one, what is owed by it stays the same amount; a thread that follows
   * later changes nothing.
   */
  #follow(): void {
    const rate = bitsOf(this.perSecond);
    const before = Atomics.exchange(this.#words, this.#at + 1, rate);
    if (before === 0 || before === rate) return;
    const ratio = floatOf(before) / this.perSecond;
    for (;;) {
      const now = this.#now;
      const empty = Atomics.load(this.#words, this.#at);
      const owed = (empty - now) | 0;
      if (owed <= 0) return;
      const then = (now + Math.min(Math.ceil(owed * ratio), owedMax)) | 0;
      if (Atomics.compareExchange(this.#words, this.#at, empty, then) === empty) return;
    }
  }
}

/**
 * What `monotonicMs` of this thread is behind the system's clock. The threads' clocks may differ by
 * as long as the shortest of these readings took: by so much is one second's worth inexact.
 */
function findBehindMs(): number {
  let [behindMs, leastMs] = [0, Number.POSITIVE_INFINITY];
  for (let i = 0; i < 20; i++) {
    const beforeMs = monotonicMs();
    const ms = Number(process.hrtime.bigint()) / 1e6;
    const tookMs = monotonicMs() - beforeMs;
    if (tookMs < leastMs) [behindMs, leastMs] = [ms - beforeMs, tookMs];
  }
  return behindMs;
}

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

function bitsOf(value: number): number {
  float[0] = value;
  return bits[0] as number;
}

function floatOf(value: number): number {
  bits[0] = value;
  return float[0] as number;
}
