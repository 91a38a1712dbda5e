// Makes the copies of extents that are due, and makes suspect ones again: of a good copy all bytes
// are read and verified, put into the other store, read back and compared; then the ledger calls it
// good. Invariants: what is put was verified chunk by chunk, so no copy is made of damage, and a
// suspect one is touched only then; each step can be done again, so what a crash leaves is due at
// the next start; the sweeper spares an extent that is copied; and few are in memory at once.
import {
  type CopyWork,
  copyState,
  isInUse,
  listCopyWork,
  listReadable,
} from '../catalog/extent-copies.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { inParallel } from '../core/in-parallel.ts';
import type { Keyring } from '../core/keyring.ts';
import { localStore } from '../core/manifest.ts';
import { defaultTenant } from '../core/principal.ts';
import { Repeated } from '../core/repeated.ts';
import { type BodyRooms, writeWithRoom } from '../quota/disk-room.ts';
import type { ExtentCopies } from '../tiering/extent-copies.ts';
import type { ReadLeases } from '../tiering/read-leases.ts';
import {
  joinCopies,
  readStored,
  readVerified,
  storedBytesMax,
  verifyStored,
} from '../tiering/stored-extent.ts';
import type { LegStore } from '../tiering/stores/store.ts';
import type { Ledger } from './ledger.ts';
import { copyCommit } from './suspect-copies.ts';

export interface CopyWorkerOptions {
  read: Reader;
  ledger: Pick<Ledger, 'commit' | 'maintain'>;
  keyring: Keyring;
  stores: { leg(number: number): LegStore };
  copies: ExtentCopies;
  leases: ReadLeases;
  nameOf(store: number): string;
  /** How long an archive takes until what is asked for is there, ms; null: nothing is said. */
  recallDelayOf(store: number): number | null;
  /** Where what goes to the data folder is promised room. */
  diskRoom: BodyRooms;
  /** Whether anything may be written now. */
  mayWrite: () => boolean;
  /** Rejects when the store's place is not ours. */
  confirmPlace: (store: number) => Promise<void>;
  onError: (error: unknown) => void;
}

export interface CopyCounts {
  /** Copies that were made, those that were made again, and those that could not be. */
  made: number;
  repaired: number;
  failed: number;
}

const pauseMs = 1000;
/** One look at what is due. */
const batch = 100;
/** How many extents are in memory at once, of at most 16 MiB each. */
const window = 2;
/** A store that has failed so often in a row is left alone until the next look. */
const failuresMax = 8;
const retryMsMin = 2000;
const retryMsMax = 10 * 60_000;
/** Archives are asked for no more than one extent in this time, at most 56 GiB an hour. */
const recallPaceMs = 1000;
/** How long, and how fast: the cheapest way. */
const recallTerms = { days: 2, tier: 'Bulk' };
/** When an archive that says nothing of how long it takes is looked at again. */
const recallMs = 60_000;
/** What nobody uses any more is the sweeper's, which may have to wait for a store. */
const sweptMsMax = 24 * 60 * 60_000;

/** No store gives the extent as it was written. */
class NoGoodCopy extends Error {
  constructor(id: Buffer, cause: unknown) {
    super(`extent ${id.toString('hex')} has no good copy that can be read`, { cause });
  }
}

/** An archive alone has it, and is asked for it, or was. */
class Recalled extends Error {
  /** When it is looked at again; undefined: it was not asked for yet. */
  readonly waitMs: number | undefined;

  constructor(waitMs?: number) {
    super('an archive is asked for a copy');
    this.waitMs = waitMs;
  }
}

export class CopyWorker {
  readonly counts: CopyCounts = { made: 0, repaired: 0, failed: 0 };
  readonly #options: CopyWorkerOptions;
  #nextRecallMs = Number.NEGATIVE_INFINITY;

  constructor(options: CopyWorkerOptions) {
    this.#options = options;
  }

  /** Works on what is due, again and again. */
  repeated(): Repeated {
    const { onError } = this.#options;
    return new Repeated({
      work: (stopping) => this.run(stopping),
      pauseMs: () => pauseMs,
      onError,
    });
  }

  /** Makes what is due by now, until nothing is. Rejects with what the first one failed with. */
  async run(stopping?: AbortSignal): Promise<void> {
    let failure: unknown = null;
    /** By store how many have failed since one was made. */
    const inARow = new Map<number, number>();
    for (let isMore = true; isMore && !stopping?.aborted; ) {
      const work = await listCopyWork(this.#options.read, Date.now(), batch);
      isMore = work.length === batch;
      const failed: Failed[] = work.filter(({ isAlive }) => !isAlive);
      await inParallel(work, window, async (one) => {
        if (stopping?.aborted || !one.isAlive) return;
        const before = inARow.get(one.store) ?? 0;
        const error = before < failuresMax ? await this.#make(one) : failure;
        // What has no good copy says nothing of the store in which it is wanted, and must not keep
        // others' copies from it.
        if (error instanceof Recalled) {
          failed.push({ ...one, waitMs: error.waitMs });
          return;
        }
        if (!(error instanceof NoGoodCopy)) inARow.set(one.store, error === null ? 0 : before + 1);
        if (error === null) return;
        failure ??= error;
        failed.push(one);
      });
      await this.#defer(failed);
    }
    if (failure !== null) throw failure;
  }

  /** Gives why it could not be made; null: it was. */
  async #make(work: CopyWork): Promise<unknown> {
    const release = this.#options.leases.hold([runOf(work.id, work.store)]);
    try {
      // The sweeper spares it from here on, unless it had it already.
      if (!(await isInUse(this.#options.read, work.id))) return null;
      await this.#copy(work);
      await this.#noteMade(work);
      if (work.state === copyState.suspect) this.counts.repaired++;
      else this.counts.made++;
      return null;
    } catch (error) {
      if (!(error instanceof Recalled)) this.counts.failed++;
      return error ?? new Error('a copy failed');
    } finally {
      release();
    }
  }

  /** Each waits longer than the time before. */
  async #defer(failed: readonly Failed[]): Promise<void> {
    const copies = failed.map(({ id, store, tries, isAlive, waitMs }) => {
      const retryMs = Math.min(retryMsMin * 2 ** Math.min(tries, 20), retryMsMax);
      return { id, store, dueMs: Date.now() + (isAlive ? (waitMs ?? retryMs) : sweptMsMax) };
    });
    if (copies.length > 0) await this.#options.ledger.maintain({ kind: 'deferCopies', copies });
  }

  async #copy({ id, store, state, tenant }: CopyWork): Promise<void> {
    const { stores, mayWrite, confirmPlace, diskRoom } = this.#options;
    // What was found once may have been the way, and not what is stored.
    if (state === copyState.suspect && (await this.#isWhole(id, store))) return;
    if (!mayWrite()) throw new Error('nothing may be written now');
    const target = stores.leg(store);
    // Before all of an extent is read in vain.
    await confirmPlace(store);
    const bytes = await this.#readGood(id, store);
    await confirmPlace(store);
    // There may be what is false, of which `bytes` may have the good part: it goes only when the
    // whole is there.
    const roomBytes = store === localStore ? bytes.length : 0;
    const who = { tenant: tenant ?? defaultTenant, principal: `${tenant ?? ''}/copies` };
    await writeWithRoom(diskRoom, { ...who, bytes: roomBytes }, () => target.replace(id, [bytes]));
    if (!(await hasAll(target, id, bytes))) {
      throw new Error(`store ${store} does not give back extent ${id.toString('hex')}`);
    }
    await confirmPlace(store);
  }

  /**
   * A whole extent as it is stored: of the first store that has what was written, or of several
   * that are damaged in different places, `target` among them. Archives are asked for one that all
   * others have lost, and what cannot be read now may be there after all.
   */
  async #readGood(id: Buffer, target: number): Promise<Buffer> {
    const { read, keyring, copies } = this.#options;
    let failure: unknown = null;
    const damaged: Buffer[] = [];
    const shut: LegStore[] = [];
    for (const store of await listReadable(read, id)) {
      try {
        const leg = this.#options.stores.leg(store);
        if (leg.archive && (await leg.archive.look(id))?.state !== 'there') {
          if (store !== target) shut.push(leg);
          continue;
        }
        const stored = await readStored(leg, id);
        damaged.push(stored);
        if (store === target) continue;
        await verifyStored(keyring, id, stored);
        return stored;
      } catch (error) {
        if (store === target) continue;
        if (failure === null || !(error instanceof IntegrityError)) failure = error;
        if (error instanceof IntegrityError) copies.suspect(id, store, error);
      }
    }
    if (damaged.length >= 2) {
      try {
        return await joinCopies(keyring, id, damaged);
      } catch (error) {
        failure ??= error;
      }
    }
    const mayBeRead = failure !== null && !(failure instanceof IntegrityError);
    if (!mayBeRead) await this.#recall(id, shut);
    throw new NoGoodCopy(id, failure);
  }

  /** Asks the first archive that has the extent for it. Throws Recalled; else there is none. */
  async #recall(id: Buffer, legs: readonly LegStore[]): Promise<void> {
    const { copies, recallDelayOf } = this.#options;
    let asked: LegStore | null = null;
    for (const leg of legs) {
      const state = (await leg.archive?.look(id))?.state;
      const waitMs = recallDelayOf(leg.number) || recallMs;
      if (state === 'coming') throw new Recalled(waitMs);
      if (state) asked ??= leg;
      else copies.suspect(id, leg.number, missing(id, leg.number));
    }
    if (!asked) return;
    const nowMs = monotonicMs();
    if (nowMs < this.#nextRecallMs) throw new Recalled();
    this.#nextRecallMs = nowMs + recallPaceMs;
    await asked.archive?.recall(id, recallTerms);
    throw new Recalled(recallDelayOf(asked.number) || recallMs);
  }

  async #isWhole(id: Buffer, store: number): Promise<boolean> {
    const leg = this.#options.stores.leg(store);
    // What was found false, and cannot be read any more, is made again.
    if (leg.archive && (await leg.archive.look(id))?.state !== 'there') return false;
    try {
      await readVerified(leg, this.#options.keyring, id);
      return true;
    } catch (error) {
      if (error instanceof IntegrityError) return false;
      throw error;
    }
  }

  /** A repair is recorded, as what it repairs was. */
  async #noteMade({ id, store, state }: CopyWork): Promise<void> {
    const { ledger, nameOf } = this.#options;
    if (state !== copyState.suspect) {
      await ledger.maintain({ kind: 'noteCopies', made: [{ id, store }] });
      return;
    }
    const change = { kind: 'repairCopies', copies: [{ id, store }] } as const;
    const told = { extents: [{ id: id.toString('hex') }] };
    const about = { action: 'bursar:RepairCopy', store: nameOf(store), told };
    const result = await ledger.commit(copyCommit(change, about));
    if (!result.ok) throw new Error(`a repair was not recorded: ${result.code}`);
  }
}

interface Failed extends CopyWork {
  /** Until it is tried again; absent: longer than the time before. */
  waitMs?: number | undefined;
}

/** Whether a store gives back what was put; an archive has proved that, and tells its length. */
async function hasAll(store: LegStore, id: Buffer, bytes: Buffer): Promise<boolean> {
  if (store.archive) return (await store.archive.look(id))?.sizeBytes === bytes.length;
  return (await store.readEnd(id, storedBytesMax))?.bytes.equals(bytes) ?? false;
}

function missing(id: Buffer, store: number): IntegrityError {
  const message = `extent ${id.toString('hex')} is missing`;
  return new IntegrityError(message, { kind: 'missing', store });
}

function runOf(id: Buffer, store: number) {
  return {
    ...{ id, store, algorithm: 0, epoch: 0, extentBytes: 0, offset: 0, length: 0 },
    trailerBytes: 0,
  };
}
