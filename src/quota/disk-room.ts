// The one limit that every gateway has: what its own disk can still take. An upload is promised the
// room that its body needs before the body moves, so one that cannot fit is refused before it is
// sent. Invariants: a promise is only as good as the pace at which the body comes, and never keeps
// room from a tenant or principal that holds less (`FairShare`); who lost a promise goes on as long
// as there is room for what has come; and a disk that is full refuses, whatever was promised.
import { statfsSync } from 'node:fs';
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { type Claim, type ClaimOutcome, FairShare, type Reclaim } from '../core/fair-share.ts';

/** For how long a body is trusted to come whole, in milliseconds. */
const believedMs = 10_000;
/** After that it is promised what it can send in this time at the pace that it has shown. */
const horizonMs = 3_600_000;
/** Paces are looked at again at most this often. */
const paceMs = 1000;
/** What has come without a promise takes room by steps of this, bytes. */
const stepBytes = 1024 * 1024;

export class DiskRoom {
  readonly #share: FairShare;
  readonly #freeBytes: (isFresh: boolean) => number;
  readonly #clock: () => number;
  readonly #open = new Set<BodyRoom>();
  /** What the disk said last, and which part of the open bodies is in that number. */
  #lastFreeBytes = Number.NaN;
  #shownBytes = 0;
  /** For `BodyRoom` only: what has come of open bodies. */
  arrivedBytes = 0;
  /** For `BodyRoom` only: what has come since the disk was last asked. */
  unaskedBytes = 0;
  #pacedMs = Number.NEGATIVE_INFINITY;

  /**
   * The capacity that is shared: what has come of open bodies counts as held by them, and is on the
   * disk already.
   */
  readonly #capacityBytes = (): number => {
    // Bodies that came whole since then are on the disk, and open no more.
    const isFresh = this.unaskedBytes >= stepBytes;
    if (isFresh) this.unaskedBytes = 0;
    const freeBytes = this.#freeBytes(isFresh);
    if (freeBytes !== this.#lastFreeBytes) {
      this.#lastFreeBytes = freeBytes;
      this.#shownBytes = this.arrivedBytes;
    }
    return freeBytes + this.#shownBytes;
  };

  /**
   * `freeBytes` tells what the disk can still take, not counting what is promised; it may be late
   * unless it is to be fresh.
   * `clock`: monotonic milliseconds.
   */
  constructor(freeBytes: (isFresh: boolean) => number, clock: () => number = monotonicMs) {
    this.#freeBytes = freeBytes;
    this.#clock = clock;
    this.#share = new FairShare(this.#capacityBytes);
  }

  /** The room that the disk still has, including what is promised of it. */
  get freeBytes(): number {
    return this.#freeBytes(false);
  }

  /** The bytes that are promised and have not come. */
  get heldBytes(): number {
    return Math.max(this.#share.heldBytes - this.arrivedBytes, 0);
  }

  /**
   * Promises room for a body of `bytes` of a principal (`cms/alice`) of a tenant; it is to be
   * closed. Null: a body of nothing needs none. Throws `Refusal` ServiceUnavailable when there is
   * no room for it; SlowDown when there would be without the principal's other open uploads.
   */
  open(tenant: string, principal: string, bytes: number): BodyRoom | null {
    if (bytes === 0) return null;
    const room = new BodyRoom(this, bytes, this.#clock());
    room.claim = this.#share.open(tenant, principal, room);
    const outcome = this.take(room.claim, bytes, false);
    if (outcome !== 'taken') throw refusalOf(outcome);
    this.#open.add(room);
    return room;
  }

  /** For `BodyRoom` only. */
  take(claim: Claim, bytes: number, isHere: boolean): ClaimOutcome {
    if (this.#share.lackingBytes(bytes) > 0) this.#pace();
    return claim.take(bytes, isHere);
  }

  /** For `BodyRoom` only. */
  close(room: BodyRoom): void {
    this.#open.delete(room);
    this.arrivedBytes -= room.arrivedBytes;
    // How much of it the disk has shown is not known. Until it says something new, what a body that
    // failed gives back is not counted on.
    this.#shownBytes = Math.max(this.#shownBytes - room.arrivedBytes, 0);
  }

  /** Takes back promises that bodies are too slow to need. */
  #pace(): void {
    const nowMs = this.#clock();
    if (nowMs - this.#pacedMs < paceMs) return;
    this.#pacedMs = nowMs;
    for (const room of this.#open) room.keepPace(nowMs);
  }
}

/** The room of one body. */
export class BodyRoom implements Reclaim {
  readonly #disk: DiskRoom;
  readonly #declaredBytes: number;
  readonly #sinceMs: number;
  claim!: Claim;
  /** The bytes that have come. */
  arrivedBytes = 0;

  /** Use `DiskRoom.open`. */
  constructor(disk: DiskRoom, declaredBytes: number, sinceMs: number) {
    this.#disk = disk;
    this.#declaredBytes = declaredBytes;
    this.#sinceMs = sinceMs;
  }

  get spareBytes(): number {
    return Math.max(this.claim.bytes - this.arrivedBytes, 0);
  }

  reclaim(bytes: number): void {
    this.claim.give(Math.min(bytes, this.spareBytes));
  }

  /**
   * So many bytes of the body have come. Throws `Refusal` ServiceUnavailable or SlowDown when they
   * are not promised any more and have no room.
   */
  arrive(bytes: number): void {
    this.arrivedBytes += bytes;
    this.#disk.arrivedBytes += bytes;
    this.#disk.unaskedBytes += bytes;
    const lacking = this.arrivedBytes - this.claim.bytes;
    if (lacking <= 0) return;
    const step = Math.min(stepBytes, this.#declaredBytes - this.claim.bytes);
    if (step > lacking && this.#disk.take(this.claim, step, true) === 'taken') return;
    const outcome = this.#disk.take(this.claim, lacking, true);
    if (outcome !== 'taken') throw refusalOf(outcome);
  }

  /** Gives back the room that the body will not need for long at the pace at which it comes. */
  keepPace(nowMs: number): void {
    const ms = nowMs - this.#sinceMs;
    if (ms < believedMs) return;
    const soonBytes = Math.ceil((this.arrivedBytes / ms) * horizonMs);
    const excess = this.spareBytes - soonBytes;
    if (excess > 0) this.claim.give(excess);
  }

  /** The body has come, or will not. Calling it twice is harmless. */
  close(): void {
    this.#disk.close(this);
    this.arrivedBytes = 0;
    this.claim.close();
  }
}

function refusalOf(outcome: Exclude<ClaimOutcome, 'taken'>): Refusal {
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
