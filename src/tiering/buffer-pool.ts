// The chunk buffers of the whole process: one shared arena, cut into slots of a chunk and its tag,
// so that memory for object data is bounded and worker threads see a slot by its number, without a
// copy. Invariants: a slot has one owner at a time; and the next free one goes to the tenant that
// has the fewest, of those that wait, within it to the principal that has the fewest, and to who
// waited longest of that one's. A stream that waits must hold none, or only slots that come free
// without its help (being hashed or written): then the pool cannot lock up. Read-ahead uses
// `tryAcquire`, never waits, and leaves the last slots to those who have none. A slot whose owner
// waits for its client is on loan: it is called back for somebody who has fewer, and in the end for
// anybody who waits, so that clients which crawl or stall cannot keep the rest out.
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { chunkBytes, tagBytes } from '../core/limits.ts';

/** Slots begin on cache lines, so that two threads never write to one line. */
const slotBytes = Math.ceil((chunkBytes + tagBytes) / 64) * 64;

export interface ChunkBuffer {
  /** The slot's number, which names it to worker threads. */
  readonly slot: number;
  /** Room for a chunk and its tag; still holds what its last owner left. */
  readonly bytes: Buffer;
}

/** The tenant and principal that slots are counted for. */
export interface Party {
  tenant: string;
  /** `tenant/name` */
  principal: string;
}

/** The gateway's own reads and writes. */
const ownParty: Party = { tenant: '', principal: '' };

/** The part of the pool that a principal has. */
interface Holder {
  readonly tenant: TenantHolder;
  readonly name: string;
  held: number;
  /** Longest first. */
  readonly waiters: Set<Waiter>;
  /** The loans by slot, the oldest first. */
  readonly loans: Map<number, Loan>;
}

interface TenantHolder {
  readonly name: string;
  held: number;
  readonly principals: Map<string, Holder>;
  readonly waiting: Set<Holder>;
}

interface Waiter {
  sinceMs: number;
  holder: Holder;
  grant(buffer: ChunkBuffer): void;
}

interface Loan {
  sinceMs: number;
  holder: Holder;
  recall: () => void;
  isCheap: boolean;
}

/** A loan is safe for this long: enough for a chunk even at 50 KiB/s. */
const loanMsMin = 5000;
/** How long a loan is safe whose end costs the client nothing. */
const cheapLoanMsMin = 1000;
/** How long a stream waits before loans are called back for it, of whoever has more slots. */
const fairPatienceMs = 100;
/** How long a stream waits before loans are called back for it from any owner. */
const patienceMs = 2000;
const patrolMs = 100;
/** How many slots one patrol calls back from owners that have more than others. */
const fairRecallsMax = 32;
/** The part of the slots that is not used for reading ahead. */
const reservedPart = 1 / 8;

export interface BufferPoolOptions {
  /** Default 128 MiB. Memory is taken from the system when a slot is first used. */
  bytesMax?: number;
  /** How long a stream waits for a slot before it is told to slow down. Default 30,000. */
  waitMsMax?: number;
  /** How long a loan is safe. Default 5,000. */
  loanMsMin?: number;
}

/** The view of one slot in an arena: the same bytes in every thread. */
export function viewSlot(arena: SharedArrayBuffer, slot: number): Buffer {
  return Buffer.from(arena, slot * slotBytes, chunkBytes + tagBytes);
}

export class BufferPool {
  readonly arena: SharedArrayBuffer;
  readonly slots: number;
  readonly #waitMsMax: number;
  /**
   * The slot that was released last is reused first: it is warm in the cache, and cold slots cost
   * no memory.
   */
  readonly #free: ChunkBuffer[] = [];
  /** The party that has each slot. Undefined means that the slot is free. */
  readonly #owners: (Holder | undefined)[];
  readonly #tenants = new Map<string, TenantHolder>();
  /** Tenants with streams that wait. */
  readonly #waitingTenants = new Set<TenantHolder>();
  /** Longest first. */
  readonly #waiters = new Set<Waiter>();
  /** The loans by slot, the oldest first. */
  readonly #loans = new Map<number, Loan>();
  /** Slots that were called back and have not yet come. */
  readonly #recalled = new Set<number>();
  readonly #loanMsMin: number;
  #patrol: NodeJS.Timeout | null = null;
  #touched = 0;

  constructor(options: BufferPoolOptions = {}) {
    this.slots = Math.floor((options.bytesMax ?? 128 * 1024 * 1024) / slotBytes);
    if (this.slots < 1) throw new Error('a buffer pool needs room for one chunk');
    this.#waitMsMax = options.waitMsMax ?? 30_000;
    this.#loanMsMin = options.loanMsMin ?? loanMsMin;
    this.arena = new SharedArrayBuffer(this.slots * slotBytes);
    this.#owners = new Array(this.slots).fill(undefined);
  }

  /** Slots that have an owner now. */
  get inUse(): number {
    return this.#touched - this.#free.length;
  }

  /** Streams that wait for a slot now. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /**
   * A free slot, or null. Never waits, and never overtakes: while others wait no slot is free,
   * since `release` hands it straight on. `isAhead`: it is for what is not wanted yet.
   */
  tryAcquire(party: Party = ownParty, isAhead = false): ChunkBuffer | null {
    if (isAhead && this.slots - this.inUse <= this.slots * reservedPart) return null;
    const buffer = this.#free.pop() ?? this.#touch();
    if (buffer) this.#give(buffer, this.#holderOf(party));
    return buffer;
  }

  /** The next free slot that is this party's. Throws Refusal SlowDown after `waitMsMax`. */
  acquire(party: Party = ownParty): Promise<ChunkBuffer> {
    const buffer = this.tryAcquire(party);
    if (buffer) return Promise.resolve(buffer);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#stopWaiting(waiter);
        forgetIdle(this.#tenants, waiter.holder);
        reject(new Refusal('SlowDown'));
      }, this.#waitMsMax);
      const waiter: Waiter = {
        sinceMs: monotonicMs(),
        holder: this.#holderOf(party),
        grant: (granted) => {
          clearTimeout(timer);
          resolve(granted);
        },
      };
      this.#wait(waiter);
    });
  }

  /**
   * The slot's owner waits for its client from now until it releases the slot or calls `keep`. The
   * owner must release it soon after `recall`, which is called at most once. `isCheap`: that costs
   * the client nothing.
   */
  lend(buffer: ChunkBuffer, recall: () => void, isCheap = false): void {
    const holder = this.#owners[buffer.slot];
    if (!holder) throw new Error(`slot ${buffer.slot} has no owner`);
    const loan = { sinceMs: monotonicMs(), holder, recall, isCheap };
    this.#loans.set(buffer.slot, loan);
    holder.loans.set(buffer.slot, loan);
  }

  /** Ends the slot's loan, if it has one: the client has done its part. */
  keep(buffer: ChunkBuffer): void {
    const loan = this.#loans.get(buffer.slot);
    if (!loan) return;
    this.#loans.delete(buffer.slot);
    loan.holder.loans.delete(buffer.slot);
  }

  /** Gives a slot back. Throws when it was given back before. */
  release(buffer: ChunkBuffer): void {
    const { slot } = buffer;
    const holder = this.#owners[slot];
    if (!holder) throw new Error(`slot ${slot} released twice`);
    this.keep(buffer);
    this.#recalled.delete(slot);
    this.#owners[slot] = undefined;
    holder.held--;
    holder.tenant.held--;
    const next = this.#next();
    if (next) {
      this.#stopWaiting(next);
      this.#give(buffer, next.holder);
      next.grant(buffer);
    } else {
      this.#free.push(buffer);
    }
    forgetIdle(this.#tenants, holder);
  }

  #holderOf({ tenant: tenantName, principal: name }: Party): Holder {
    let tenant = this.#tenants.get(tenantName);
    if (!tenant) {
      tenant = { name: tenantName, held: 0, principals: new Map(), waiting: new Set() };
      this.#tenants.set(tenantName, tenant);
    }
    let holder = tenant.principals.get(name);
    if (!holder) {
      holder = { tenant, name, held: 0, waiters: new Set(), loans: new Map() };
      tenant.principals.set(name, holder);
    }
    return holder;
  }

  #give({ slot }: ChunkBuffer, holder: Holder): void {
    this.#owners[slot] = holder;
    holder.held++;
    holder.tenant.held++;
  }

  #wait(waiter: Waiter): void {
    const { holder } = waiter;
    this.#waiters.add(waiter);
    holder.waiters.add(waiter);
    holder.tenant.waiting.add(holder);
    this.#waitingTenants.add(holder.tenant);
    this.#patrol ??= setInterval(() => this.#callBack(), patrolMs).unref();
  }

  #stopWaiting(waiter: Waiter): void {
    const { holder } = waiter;
    const { tenant } = holder;
    this.#waiters.delete(waiter);
    holder.waiters.delete(waiter);
    if (holder.waiters.size === 0) tenant.waiting.delete(holder);
    if (tenant.waiting.size === 0) this.#waitingTenants.delete(tenant);
  }

  /** Returns the waiter that gets the next slot. Undefined means that nobody waits. */
  #next(): Waiter | undefined {
    if (this.#waitingTenants.size === 0) return undefined;
    const tenant = fewest(this.#waitingTenants);
    return firstOf(fewest(tenant.waiting).waiters);
  }

  #callBack(): void {
    if (this.#waiters.size === 0) {
      clearInterval(this.#patrol ?? undefined);
      this.#patrol = null;
      return;
    }
    const nowMs = monotonicMs();
    this.#callBackOfRichest(nowMs);
    this.#callBackOldest(nowMs);
  }

  /**
   * Calls back one slot for each waiting stream of those that have fewer, from the oldest loans of
   * the one that has most.
   */
  #callBackOfRichest(nowMs: number): void {
    for (let count = 0; count < fairRecallsMax; count++) {
      const richest = this.#richest(nowMs);
      if (!richest || this.#countPoorer(richest.holder, nowMs) <= this.#recalled.size) return;
      this.#recall(richest);
    }
  }

  /** The oldest loan that may be called back of the principal that has most, in such a tenant. */
  #richest(nowMs: number): (Loan & { slot: number }) | null {
    let found: Holder | null = null;
    for (const tenant of this.#tenants.values()) {
      if (found && tenant.held <= found.tenant.held) continue;
      for (const holder of tenant.principals.values()) {
        const isMore = found?.tenant !== tenant || holder.held > found.held;
        if (isMore && this.#oldestOf(holder, nowMs)) found = holder;
      }
    }
    return found && this.#oldestOf(found, nowMs);
  }

  #oldestOf({ loans }: Holder, nowMs: number): (Loan & { slot: number }) | null {
    for (const [slot, loan] of loans) if (this.#isOld(loan, nowMs)) return { ...loan, slot };
    return null;
  }

  /** Returns whether the loan may be called back. */
  #isOld({ sinceMs, isCheap }: Loan, nowMs: number): boolean {
    const safeMs = isCheap ? Math.min(cheapLoanMsMin, this.#loanMsMin) : this.#loanMsMin;
    return nowMs - sinceMs >= safeMs;
  }

  /**
   * Counts the streams that have waited and whose tenant, or within the same tenant whose
   * principal, has fewer slots.
   */
  #countPoorer(richest: Holder, nowMs: number): number {
    let count = 0;
    for (const { sinceMs, holder } of this.#waiters) {
      if (nowMs - sinceMs < fairPatienceMs) break;
      const [has, most] =
        holder.tenant === richest.tenant
          ? [holder.held, richest.held]
          : [holder.tenant.held, richest.tenant.held];
      if (has < most) count++;
    }
    return count;
  }

  /** One slot for each stream that has been patient, from the oldest loans that are old enough. */
  #callBackOldest(nowMs: number): void {
    let wanted = -this.#recalled.size;
    for (const { sinceMs } of this.#waiters) {
      if (nowMs - sinceMs < patienceMs) break;
      wanted++;
    }
    for (const [slot, loan] of this.#loans) {
      if (wanted <= 0) return;
      if (!this.#isOld(loan, nowMs)) continue;
      wanted--;
      this.#recall({ ...loan, slot });
    }
  }

  #recall({ slot, holder, recall }: Loan & { slot: number }): void {
    this.#loans.delete(slot);
    holder.loans.delete(slot);
    this.#recalled.add(slot);
    recall();
  }

  #touch(): ChunkBuffer | null {
    if (this.#touched === this.slots) return null;
    const slot = this.#touched++;
    return { slot, bytes: viewSlot(this.arena, slot) };
  }
}

function firstOf<T>(all: Iterable<T>): T | undefined {
  for (const one of all) return one;
  return undefined;
}

/**
 * The one that has fewest; of several the one that has waited longest. Throws where there is none.
 */
function fewest<T extends { held: number }>(all: Iterable<T>): T {
  let found: T | undefined;
  for (const one of all) if (!found || one.held < found.held) found = one;
  if (!found) throw new Error('nobody waits');
  return found;
}

function forgetIdle(tenants: Map<string, TenantHolder>, holder: Holder): void {
  const { tenant } = holder;
  if (holder.held === 0 && holder.waiters.size === 0) tenant.principals.delete(holder.name);
  if (tenant.principals.size === 0) tenants.delete(tenant.name);
}

/**
 * Copies `bytes`, all of them, to `into` from `at` on, where there must be room. Into memory that
 * threads share V8 copies a byte at a time where source and target are not aligned alike, as what
 * comes from a socket never is: 15 times as long as memcpy, which `Buffer.fill` is when all that it
 * fills with is there.
 */
export function copyIntoShared(into: Buffer, at: number, bytes: Buffer): void {
  if (bytes.length > 0) into.fill(bytes, at, at + bytes.length);
}
