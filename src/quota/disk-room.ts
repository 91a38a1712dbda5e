// The one limit that every gateway has: what its own disk can still take. An upload is promised the
// room that its body needs before the body moves, so one that cannot fit is refused before it is
// sent. One thread decides (`DiskRoom`); what of a promise has not come is a number that it shares
// with the thread to which the body comes (`BodyRoom`), so that bytes arrive without a question as
// long as they are promised, and a promise is taken back without one. Invariants: a promise is only
// as good as the pace at which the body comes, and never keeps room from a tenant or principal that
// holds less (`FairShare`); who lost a promise goes on as long as there is room for what has come;
// and a disk that is full refuses, whatever was promised.
import { statfsSync } from 'node:fs';
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { type Claim, type ClaimOutcome, FairShare, type Reclaim } from '../core/fair-share.ts';
import { SharedCount } from '../core/shared-count.ts';

/** For how long a body is trusted to come whole, in milliseconds. */
const believedMs = 10_000;
/** After that it is promised what it can send in this time at the pace that it has shown. */
const horizonMs = 3_600_000;
/** Paces are looked at again at most this often. */
const paceMs = 1000;
/** What has come without a promise takes room by steps of this, bytes. */
const stepBytes = 1024 * 1024;

/** Where bodies are promised room. */
export interface BodyRooms {
  /**
   * Promises room for a body; it is to be closed. Null: a body of nothing needs none. Throws, or
   * rejects with, `Refusal` ServiceUnavailable when there is no room for it; SlowDown when there
   * would be without the principal's other open uploads.
   */
  open(wanted: WantedRoom): Promise<BodyRoom | null> | BodyRoom | null;
}

/**
 * Writes so many bytes at once, where there is room for them. Rejects with `Refusal` where there is
 * none, and nothing was written.
 */
export async function writeWithRoom(
  rooms: BodyRooms,
  wanted: WantedRoom,
  write: () => Promise<void>,
): Promise<void> {
  const room = await rooms.open(wanted);
  try {
    await room?.arrive(wanted.bytes);
    await write();
  } finally {
    room?.close();
  }
}

/** What is asked for, and for whom. */
export interface WantedRoom {
  tenant: string;
  /** `cms/alice` */
  principal: string;
  bytes: number;
}

export class DiskRoom implements BodyRooms {
  readonly #share: FairShare;
  readonly #freeBytes: (isFresh: boolean) => number;
  readonly #clock: () => number;
  readonly #open = new Set<DiskPromise>();
  /** What has come of all bodies, whichever thread they came to. */
  readonly #cameBytes: SharedCount;
  /** Of that, what bodies had that are closed. */
  #closedBytes = 0;
  /** What had come when the disk was last asked because much had. */
  #askedBytes = 0;
  /** What the disk said last, and which part of the open bodies is in that number. */
  #lastFreeBytes = Number.NaN;
  #shownBytes = 0;
  #pacedMs = Number.NEGATIVE_INFINITY;

  /**
   * The capacity that is shared: what has come of open bodies counts as held by them, and is on the
   * disk already.
   */
  readonly #capacityBytes = (): number => {
    // Bodies that came whole since then are on the disk, and open no more.
    const cameBytes = this.#cameBytes.value;
    const isFresh = cameBytes - this.#askedBytes >= stepBytes;
    if (isFresh) this.#askedBytes = cameBytes;
    const freeBytes = this.#freeBytes(isFresh);
    if (freeBytes !== this.#lastFreeBytes) {
      this.#lastFreeBytes = freeBytes;
      this.#shownBytes = this.#arrivedBytes;
    }
    return freeBytes + this.#shownBytes;
  };

  /**
   * `freeBytes` tells what the disk can still take, not counting what is promised; it may be late
   * unless it is to be fresh. `clock`: monotonic milliseconds. `cameBytes`: a `SharedCount` for
   * the bodies of all threads.
   */
  constructor(
    freeBytes: (isFresh: boolean) => number,
    clock: () => number = monotonicMs,
    cameBytes?: SharedArrayBuffer,
  ) {
    this.#freeBytes = freeBytes;
    this.#clock = clock;
    this.#cameBytes = new SharedCount(cameBytes);
    this.#share = new FairShare(this.#capacityBytes);
  }

  /** The room that the disk still has, including what is promised of it. */
  get freeBytes(): number {
    return this.#freeBytes(false);
  }

  /** The bytes that are promised and have not come. */
  get heldBytes(): number {
    return Math.max(this.#share.heldBytes - this.#arrivedBytes, 0);
  }

  /** What has come of open bodies. */
  get #arrivedBytes(): number {
    return this.#cameBytes.value - this.#closedBytes;
  }

  open(wanted: WantedRoom): BodyRoom | null {
    if (wanted.bytes === 0) return null;
    const spare = new SharedCount();
    const promised = this.promise(wanted, spare);
    if (typeof promised === 'string') throw refusalOf(promised);
    return new BodyRoom(spare, this.#cameBytes, promised);
  }

  /** Promises a body its bytes, which are added to `spare`; or says why not. */
  promise(wanted: WantedRoom, spare: SharedCount): DiskPromise | RefusedClaim {
    const { tenant, principal, bytes } = wanted;
    const promised = new DiskPromise(this, bytes, { spare, sinceMs: this.#clock() });
    promised.claim = this.#share.open(tenant, principal, promised);
    const outcome = this.take(promised.claim, bytes, false);
    if (outcome !== 'taken') return outcome;
    spare.add(bytes);
    this.#open.add(promised);
    return promised;
  }

  /** For `DiskPromise` only. */
  take(claim: Claim, bytes: number, isHere: boolean): ClaimOutcome {
    if (this.#share.lackingBytes(bytes) > 0) this.#pace();
    return claim.take(bytes, isHere);
  }

  /** For `DiskPromise` only. */
  close(promised: DiskPromise): void {
    if (!this.#open.delete(promised)) return;
    const { arrivedBytes } = promised;
    this.#closedBytes += arrivedBytes;
    // How much of it the disk has shown is not known. Until it says something new, what a body that
    // failed gives back is not counted on.
    this.#shownBytes = Math.max(this.#shownBytes - arrivedBytes, 0);
  }

  /** Takes back promises that bodies are too slow to need. */
  #pace(): void {
    const nowMs = this.#clock();
    if (nowMs - this.#pacedMs < paceMs) return;
    this.#pacedMs = nowMs;
    for (const promised of this.#open) promised.keepPace(nowMs);
  }
}

/** The deciding thread's end of one body's room. */
export class DiskPromise implements Reclaim {
  readonly #disk: DiskRoom;
  readonly #declaredBytes: number;
  /** What is promised and has not come. */
  readonly #spare: SharedCount;
  readonly #sinceMs: number;
  claim!: Claim;

  /** Use `DiskRoom.promise`. */
  constructor(
    disk: DiskRoom,
    declaredBytes: number,
    { spare, sinceMs }: { spare: SharedCount; sinceMs: number },
  ) {
    this.#disk = disk;
    this.#declaredBytes = declaredBytes;
    this.#spare = spare;
    this.#sinceMs = sinceMs;
  }

  get arrivedBytes(): number {
    return this.claim.bytes - this.spareBytes;
  }

  get spareBytes(): number {
    return this.#spare.value;
  }

  reclaim(bytes: number): void {
    this.claim.give(this.#spare.take(bytes));
  }

  /** So many bytes have come that are not promised. */
  cover(bytes: number): ClaimOutcome {
    const step = Math.min(stepBytes, this.#declaredBytes - this.claim.bytes);
    if (step > bytes && this.#disk.take(this.claim, step, true) === 'taken') {
      this.#spare.add(step - bytes);
      return 'taken';
    }
    return this.#disk.take(this.claim, bytes, true);
  }

  /** Gives back the room that the body will not need for long at the pace at which it comes. */
  keepPace(nowMs: number): void {
    const ms = nowMs - this.#sinceMs;
    if (ms < believedMs) return;
    const soonBytes = Math.ceil((this.arrivedBytes / ms) * horizonMs);
    const excess = this.spareBytes - soonBytes;
    if (excess > 0) this.reclaim(excess);
  }

  /** The body has come, or will not. Calling it twice is harmless. */
  close(): void {
    this.#disk.close(this);
    this.claim.close();
  }
}

/** Who decides of a body's room, on the same thread or another. */
export interface RoomDecider {
  /** So many bytes have come that are not promised: may they stay? */
  cover(bytes: number): Promise<ClaimOutcome> | ClaimOutcome;
  close(): void;
}

/** The room of one body, on the thread to which it comes. */
export class BodyRoom {
  readonly #spare: SharedCount;
  readonly #cameBytes: SharedCount;
  readonly #decider: RoomDecider;

  /** Use `BodyRooms.open`. */
  constructor(spare: SharedCount, cameBytes: SharedCount, decider: RoomDecider) {
    this.#spare = spare;
    this.#cameBytes = cameBytes;
    this.#decider = decider;
  }

  /**
   * So many bytes of the body have come. Null: they have room; a promise: that is being decided,
   * and they must not be stored before it is. Throws, or rejects with, `Refusal` ServiceUnavailable
   * or SlowDown when they are not promised any more and have no room.
   */
  arrive(bytes: number): Promise<void> | null {
    const promised = this.#spare.take(bytes);
    this.#cameBytes.add(promised);
    const lacking = bytes - promised;
    if (lacking === 0) return null;
    const covering = this.#decider.cover(lacking);
    if (covering instanceof Promise) return covering.then((outcome) => this.#end(outcome, lacking));
    this.#end(covering, lacking);
    return null;
  }

  /** The body has come, or will not. Calling it twice is harmless. */
  close(): void {
    this.#decider.close();
  }

  #end(outcome: ClaimOutcome, bytes: number): void {
    if (outcome !== 'taken') throw refusalOf(outcome);
    this.#cameBytes.add(bytes);
  }
}

export type RefusedClaim = Exclude<ClaimOutcome, 'taken'>;

export function refusalOf(outcome: RefusedClaim): Refusal {
  if (outcome === 'noRoom') {
    return new Refusal('ServiceUnavailable', { message: 'The store has no room for this body.' });
  }
  const message = 'Your open uploads take too much of the room that is left. Finish them first.';
  return new Refusal('SlowDown', { message });
}

/**
 * How many bytes the disk of a folder can still take, measured at most once a second unless
 * `isFresh`.
 */
export function freeBytesOf(path: string): (isFresh?: boolean) => number {
  let askedMs = Number.NEGATIVE_INFINITY;
  let freeBytes = 0;
  return (isFresh = false) => {
    const now = monotonicMs();
    if (isFresh || now - askedMs > 1000) {
      freeBytes = freeBytesIn(path);
      askedMs = now;
    }
    return freeBytes;
  };
}

/** A folder that does not exist has none. */
export function freeBytesIn(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
