// What the health of a gateway is judged by (`gateway/health.ts`): its services are asked, and
// where nothing was written lately, writing is tried. Invariant: however many ask, each thing is
// tried at most once a second, and nobody waits for a trial that hangs.
import { setTimeout as sleep } from 'node:timers/promises';
import { isStoreUsed } from '../catalog/stores.ts';
import { isoTime, monotonicMs } from '../core/clock.ts';
import { localStore } from '../core/manifest.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { HealthFacts, StoreFacts } from '../gateway/health.ts';
import type { RequestServices } from '../gateway/services.ts';
import type { StoreView } from '../gateway/store-list.ts';
import type { SealWatch } from '../ledger/seal-watch.ts';
import { type DiskRoom, freeBytesOf } from '../quota/disk-room.ts';
import type { LocalStore } from '../tiering/stores/local-store.ts';
import type { ScheduleState } from './backup-schedule.ts';
import type { Backups } from './backups.ts';
import type { DataFolder } from './folder/data-folder.ts';
import type { ShippingState } from './shipping-supervisor.ts';
import { healthOf } from './stores.ts';

export type GatheredFacts = Omit<HealthFacts, 'isUndamaged'>;

export interface HealthParts {
  services: Pick<RequestServices, 'read' | 'ledger' | 'stores' | 'log'>;
  diskRoom: Pick<DiskRoom, 'freeBytes'>;
  folder: Pick<DataFolder, 'databaseFile'>;
  local: Pick<LocalStore, 'tryWriting'>;
  /** The backups that the gateway makes by itself. */
  backups: Backups;
  sealWatch: Pick<SealWatch, 'failure'>;
  /** Room that is to be kept free on the disks of the database and of the local store. */
  freeBytesMin: number;
}

/** A trial that takes longer counts as unfinished: the last outcome stands. */
const trialMsMax = 1000;
/** An outcome that is no older than this is not tried again. */
const freshMs = 1000;
/** What does not answer for this long is taken to be dead. */
const deadMs = 5000;

export class HealthWatch {
  readonly #parts: HealthParts;
  readonly #databaseFreeBytes: () => number;
  readonly #writing: () => Promise<boolean>;
  readonly #writingLocally: () => Promise<boolean>;
  #isStopping = false;

  constructor(parts: HealthParts) {
    this.#parts = parts;
    const { services, local, folder } = parts;
    this.#databaseFreeBytes = freeBytesOf(folder.databaseFile);
    this.#writing = trial(() => services.ledger.tryWriting());
    this.#writingLocally = trial(() => local.tryWriting());
  }

  /** From now on it says that the gateway stops. */
  stop(): void {
    this.#isStopping = true;
  }

  /** `detail` is for operators. Never rejects, and takes little more than a second at most. */
  async look(): Promise<{ facts: GatheredFacts; detail: Record<string, unknown> }> {
    const { ledger, log, stores } = this.#parts.services;
    const [canRead, isWritten, found] = await Promise.all([
      this.#canRead(),
      this.#writing(),
      this.#lookAtStores(),
    ]);
    const { isWritable, underWayMs, isFull } = ledger.load;
    const freeBytes = this.#databaseFreeBytes();
    const database = {
      canRead,
      canWrite: isWritten && isWritable,
      isNearlyFull: freeBytes < this.#parts.freeBytesMin,
    };
    const { stepMs } = steadyClock;
    const rights = { problem: this.#parts.sealWatch.failure };
    const backups = this.#parts.backups.schedule?.state();
    const shipping = this.#parts.backups.shipping?.state();
    return {
      facts: {
        isStopping: this.#isStopping,
        isLedgerAlive: underWayMs < deadMs,
        areReadsHeld: isFull,
        database,
        isLogSigned: log.refusal === null,
        isClockFollowed: stepMs === 0,
        areBackupsMade: !backups?.isLate,
        areChangesShipped: !shipping?.isLate,
        areRightsVerified: rights.problem === null,
        stores: found,
      },
      detail: {
        stores: healthOf(stores),
        clock: { stepMs },
        database: { isWritable: database.canWrite, freeBytes },
        log: { ready: log.refusal === null, problem: log.refusal },
        rights,
        ...(backups && { backups: describeBackups(backups) }),
        ...(shipping && { shipping: describeShipping(shipping) }),
      },
    };
  }

  async #canRead(): Promise<boolean> {
    try {
      await this.#parts.services.read.get('SELECT 1 FROM gateway LIMIT 1');
      return true;
    } catch {
      return false;
    }
  }

  async #lookAtStores(): Promise<StoreFacts[]> {
    const views = this.#parts.services.stores.all();
    const looks = views.map((view) =>
      view.number === localStore ? this.#lookAtLocal(view) : remoteFacts(view),
    );
    return (await Promise.all(looks)).filter((one) => one !== null);
  }

  /** null: nothing is in the store, and nothing would be written to it. */
  async #lookAtLocal({ name, ready }: StoreView): Promise<StoreFacts | null> {
    const { services, diskRoom } = this.#parts;
    const { read, stores } = services;
    const isUsed = await isStoreUsed(read, localStore).catch(() => true);
    if (!isUsed && stores.defaultName !== name) return null;
    const canWrite = ready && (await this.#writingLocally());
    const isNearlyFull = diskRoom.freeBytes < this.#parts.freeBytesMin;
    return { name, canRead: ready, canWrite, isNearlyFull };
  }
}

function describeBackups({ lastMs, isLate, problem, isRunning }: ScheduleState) {
  return { last: lastMs === null ? null : isoTime(lastMs), isLate, problem, isRunning };
}

function describeShipping({ lagMs, lagBytes, isLate, problem, stream, segment }: ShippingState) {
  return { lagSeconds: lagMs / 1000, lagBytes, isLate, problem, stream, segment };
}

/** There are gates only for stores that are configured or that have buckets. */
function remoteFacts({ name, ready, canRead }: StoreView): StoreFacts {
  return { name, canRead, canWrite: ready, isNearlyFull: false };
}

/**
 * Tries at most once a second, one trial at a time. Gives the outcome of the newest trial that has
 * ended: false also where it rejected, or where one takes too long. Before the first has ended,
 * gives true.
 */
function trial(attempt: () => Promise<unknown>): () => Promise<boolean> {
  let underWay: Promise<void> | null = null;
  let begunMs = 0;
  let endedMs = Number.NEGATIVE_INFINITY;
  let went = true;
  const run = async () => {
    begunMs = monotonicMs();
    try {
      went = (await attempt()) !== false;
    } catch {
      went = false;
    }
    endedMs = monotonicMs();
    underWay = null;
  };
  return async () => {
    if (monotonicMs() - endedMs > freshMs) underWay ??= run();
    if (underWay) await Promise.race([underWay, sleep(trialMsMax, null, { ref: false })]);
    return went && !(underWay && monotonicMs() - begunMs > deadMs);
  };
}
