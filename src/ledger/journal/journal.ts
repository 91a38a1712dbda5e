// The journal of one S3 store (docs/formats/journal.md): tells the store itself what the catalog
// says of its buckets, so that they can be restored when the database is lost. Invariants: a row
// leaves the outbox only after a segment that tells of it is durable; segments are written one
// after another; old ones go only when a later snapshot is complete. So a crash at any point
// leaves a journal that replays to the catalog, up to what the outbox still has.
import { isInOutbox, listOutbox } from '../../catalog/outbox.ts';
import { readJournal } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import type { Ledger } from '../ledger.ts';
import { composeSegment } from './entries.ts';
import { type Head, objectName, sealObject, segmentName } from './format.ts';
import {
  findNewestGeneration,
  listGeneration,
  markBegin,
  newGeneration,
  removalsAtOnce,
  type SegmentFile,
} from './generation.ts';
import { writeSnapshot } from './snapshot.ts';

export interface JournalOptions {
  store: RemoteStore;
  read: Reader;
  ledger: Ledger;
  keyring: Keyring;
  /**
   * Rejects unless the store's place is this database's at this moment. Asked with each segment,
   * and before old ones are removed: a place that was emptied or exchanged takes segments too.
   */
  confirmOwner: () => Promise<void>;
  /** Called with the first of several failures. */
  onError: (error: unknown) => void;
  /** The least that segments hold before a snapshot takes their place, bytes. */
  compactionBytes?: number;
}

export interface JournalState {
  /** It was opened, and changes get into it. */
  ready: boolean;
  generation: string | null;
  /** Log index up to which changes are safe in the store. */
  safeSeq: number;
  /** Why changes do not get into the journal; null: they do. */
  reason: string | null;
  /** Rows that were not authentic and so were not written. */
  damagedRows: number;
  /** Why no snapshot takes the place of old segments; null: one does when it is due. */
  compactionReason: string | null;
  segments: number;
  snapshotBytes: number;
}

/** How long changes that nobody waits for wait for company, milliseconds. */
const lingerMs = 250;
/** How long a request waits for its change to be safe, milliseconds. */
const flushMsMax = 5000;
/** How long the end of the process waits for the last segment, milliseconds. */
const closeMsMax = 10_000;
const backOffMs = 100;
const backOffMsMax = 5000;
const rowsPerSegment = 1000;
const compactionBytesDefault = 16 * 1024 * 1024;
/** What a segment counts at least: many small ones are slow to list and to read. Bytes. */
const segmentBytesCounted = 16 * 1024;
const compactionPauseMs = 60_000;

interface Waiter {
  seq: number;
  resolve: () => void;
  reject: (error: unknown) => void;
  timer: NodeJS.Timeout;
}

interface Opened {
  generation: string;
  /** In order; those that the newest complete snapshot has not made superfluous. */
  segments: SegmentFile[];
  snapshotBytes: number;
}

/** The store has a journal that this database cannot go on with. Stays until somebody acts. */
class Unusable extends Error {}

export class Journal {
  readonly #options: JournalOptions;
  /**
   * The newest change when the process began, or that it has tried to tell since: nothing in the
   * store can be newer.
   */
  #triedSeq: number;
  #notedSeq: number;
  #safeSeq = -1;
  #waiters: Waiter[] = [];
  #opened: Opened | null = null;
  #timer: { handle: NodeJS.Timeout; delayMs: number } | null = null;
  #running: Promise<void> | null = null;
  #failure: unknown = null;
  #failures = 0;
  #isUnusable = false;
  #compaction: Promise<void> | null = null;
  #compactAfterMs = 0;
  #compactionFailure: unknown = null;
  #damagedRows = 0;
  #closing = false;

  private constructor(options: JournalOptions, newestSeq: number) {
    this.#options = options;
    this.#triedSeq = newestSeq;
    this.#notedSeq = newestSeq;
  }

  /** Opens it before the first change is made; what an earlier run has left is written now. */
  static async open(options: JournalOptions): Promise<Journal> {
    const journal = new Journal(options, await readNewestSeq(options.read));
    journal.#wake(0);
    return journal;
  }

  /**
   * Throws Refusal ServiceUnavailable when a change should not be made now: one that must be safe
   * in the store to be answered for, while that cannot be; any, in an older copy of the database.
   */
  admit(options: { mustBeSafe: boolean }): void {
    const { mustBeSafe } = options;
    if (this.#isUnusable || (mustBeSafe && this.#failure)) throw refusal(this.#failure);
  }

  /** A change was committed that the journal will tell of soon. */
  note(seq: number): void {
    if (seq > this.#notedSeq) this.#notedSeq = seq;
    if (!this.#failure) this.#wake(lingerMs);
  }

  /**
   * Resolves when all changes up to `seq` are safe in the store. Rejects with Refusal
   * ServiceUnavailable when that fails, or takes more than five seconds.
   */
  flushed(seq: number): Promise<void> {
    if (seq <= this.#safeSeq) return Promise.resolve();
    if (this.#isUnusable) return Promise.reject(refusal(this.#failure));
    if (seq > this.#notedSeq) this.#notedSeq = seq;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((one) => one !== waiter);
        reject(refusal(new Error(`the journal was not written within ${flushMsMax} ms`)));
      }, flushMsMax);
      const waiter: Waiter = { seq, resolve, reject, timer };
      this.#waiters.push(waiter);
      if (!this.#failure) this.#wake(0);
    });
  }

  state(): JournalState {
    const failure = this.#failure;
    return {
      ready: failure === null && this.#opened !== null,
      generation: this.#opened?.generation ?? null,
      safeSeq: this.#safeSeq,
      reason: reasonOf(failure),
      damagedRows: this.#damagedRows,
      compactionReason: reasonOf(this.#compactionFailure),
      segments: this.#opened?.segments.length ?? 0,
      snapshotBytes: this.#opened?.snapshotBytes ?? 0,
    };
  }

  /** Writes what is still to be written, if the store takes it. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.#timer) clearTimeout(this.#timer.handle);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, closeMsMax);
    });
    await Promise.race([this.#finish(), late]);
    clearTimeout(timer);
  }

  async #finish(): Promise<void> {
    await this.#running;
    if (this.#safeSeq < this.#notedSeq && !this.#isUnusable) await this.#run();
    await this.#compaction;
  }

  /** Begins to write in so many milliseconds, if not sooner anyway. */
  #wake(delayMs: number): void {
    if (this.#running || this.#closing || this.#isUnusable) return;
    if (this.#timer) {
      if (this.#timer.delayMs <= delayMs) return;
      clearTimeout(this.#timer.handle);
    }
    const handle = setTimeout(() => {
      this.#timer = null;
      this.#running = this.#run().finally(() => {
        this.#running = null;
        this.#goOn();
      });
    }, delayMs);
    this.#timer = { handle, delayMs };
  }

  #goOn(): void {
    if (this.#failure) {
      const backOff = Math.min(backOffMs * 2 ** this.#failures, backOffMsMax);
      this.#wake(backOff * (0.5 + Math.random() / 2));
      return;
    }
    if (this.#safeSeq < this.#notedSeq) this.#wake(this.#waiters.length > 0 ? 0 : lingerMs);
    this.#compactWhenDue();
  }

  /** Does not reject. */
  async #run(): Promise<void> {
    try {
      this.#opened ??= await this.#openGeneration();
      while (await this.#writeSegment(this.#opened)) {
        // What nobody waits for may gather until the next time.
      }
      this.#failure = null;
      this.#failures = 0;
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#failure = error;
    this.#isUnusable = error instanceof Unusable;
    if (this.#failures++ === 0) this.#options.onError(error);
    for (const { reject, timer } of this.#waiters.splice(0)) {
      clearTimeout(timer);
      reject(refusal(error));
    }
  }

  async #openGeneration(): Promise<Opened> {
    const { store, read, ledger, keyring } = this.#options;
    const known = await readJournal(read, store.number);
    const newest = await findNewestGeneration(store, keyring);
    if (newest !== undefined && (known.generation === null || newest > known.generation)) {
      throw olderCopy(store, `its journal ${newest} is not of this database`);
    }
    const generation = known.generation ?? newGeneration(Date.now());
    if (known.generation === null) {
      await ledger.keepHouse({ kind: 'beginGeneration', store: store.number, generation });
    }
    await markBegin({ store, keyring, generation, losses: 0 });
    const { segments, snapshots } = await listGeneration(store, generation);
    const snapshot = snapshots.findLast((one) => one.isComplete);
    const toldSeq = Math.max(segments.at(-1)?.lastSeq ?? -1, (snapshot?.beginSeq ?? 0) - 1);
    if (!(await this.#isOurs(toldSeq, known.journaledSeq))) {
      throw olderCopy(store, `its journal tells of change ${toldSeq}`);
    }
    return {
      generation,
      segments: segments.filter((one) => one.lastSeq >= (snapshot?.beginSeq ?? 0)),
      snapshotBytes: snapshot?.sizeBytes ?? 0,
    };
  }

  /**
   * Whether this database has told the journal of all changes up to `toldSeq`. That its log goes
   * further says nothing: an older copy that is served writes records too.
   */
  async #isOurs(toldSeq: number, journaledSeq: number): Promise<boolean> {
    const { read, store } = this.#options;
    if (toldSeq <= journaledSeq) return true;
    // The last segment may be durable and not known to be: then its last change is still waiting.
    return toldSeq <= this.#triedSeq && (await isInOutbox(read, store.number, toldSeq));
  }

  /** Whether there is more that should not wait. */
  async #writeSegment(opened: Opened): Promise<boolean> {
    const { read, ledger, keyring, store } = this.#options;
    const notedSeq = this.#notedSeq;
    const rows = await listOutbox(read, store.number, rowsPerSegment);
    const [first] = rows;
    if (!first) {
      this.#settle(notedSeq);
      return false;
    }
    const { lines, lastSeq, damaged } = await composeSegment(read, keyring, rows);
    const { generation, segments } = opened;
    const previous = segments.at(-1)?.name ?? null;
    const head: Head = { kind: 'segment', previous, lastSeq, timeMs: Date.now() };
    const name = segmentName(first.seq, lastSeq);
    const sealed = sealObject(keyring, { generation, name }, [JSON.stringify(head), ...lines]);
    this.#triedSeq = Math.max(this.#triedSeq, lastSeq);
    await this.#putOwned(objectName({ generation, name }), sealed);
    segments.push({ name, lastSeq, sizeBytes: sealed.length });
    this.#damagedRows += damaged;
    // Rows are committed in order of seq, so those that were not listed are of later changes.
    const isAll = rows.length < rowsPerSegment && rows.at(-1)?.seq === lastSeq;
    this.#settle(isAll ? Math.max(notedSeq, lastSeq) : lastSeq);
    await ledger.keepHouse({ kind: 'forgetJournaled', store: store.number, lastSeq });
    return !isAll || this.#waiters.length > 0;
  }

  /** Both at once; it is stored for us only when the place is ours. */
  async #putOwned(name: string, sealed: Buffer): Promise<void> {
    const { store, confirmOwner } = this.#options;
    const [put, owned] = await Promise.allSettled([store.putObject(name, sealed), confirmOwner()]);
    if (owned.status === 'rejected') {
      // What comes back may be an older copy of what was there: it is looked at anew.
      this.#opened = null;
      throw owned.reason;
    }
    if (put.status === 'rejected') throw put.reason;
  }

  #settle(safeSeq: number): void {
    this.#safeSeq = Math.max(this.#safeSeq, safeSeq);
    const waiters = this.#waiters;
    this.#waiters = waiters.filter(({ seq }) => seq > this.#safeSeq);
    for (const { seq, resolve, timer } of waiters) {
      if (seq > this.#safeSeq) continue;
      clearTimeout(timer);
      resolve();
    }
  }

  #compactWhenDue(): void {
    const opened = this.#opened;
    if (!opened || this.#compaction || this.#closing || Date.now() < this.#compactAfterMs) return;
    const least = this.#options.compactionBytes ?? compactionBytesDefault;
    let bytes = 0;
    for (const { sizeBytes } of opened.segments) bytes += Math.max(sizeBytes, segmentBytesCounted);
    if (bytes <= Math.max(least, 2 * opened.snapshotBytes)) return;
    this.#compaction = this.#compact(opened)
      .then(() => {
        this.#compactionFailure = null;
      })
      .catch((error: unknown) => {
        // The segments stay, which is safe; they only get more.
        this.#compactAfterMs = Date.now() + compactionPauseMs;
        if (this.#compactionFailure === null) this.#options.onError(error);
        this.#compactionFailure = error;
      })
      .finally(() => {
        this.#compaction = null;
      });
  }

  async #compact(opened: Opened): Promise<void> {
    const { read, ledger, keyring, store, confirmOwner } = this.#options;
    const { generation } = opened;
    const beginSeq = (await readNewestSeq(read)) + 1;
    await ledger.keepHouse({ kind: 'noteJournaled', store: store.number, seq: beginSeq - 1 });
    const isStopped = (): boolean => this.#closing;
    const written = { read, keyring, store, generation, beginSeq, isStopped };
    const snapshotBytes = await writeSnapshot(written);
    if (snapshotBytes === null) return;
    await confirmOwner();
    opened.snapshotBytes = snapshotBytes;
    const isOld = ({ lastSeq }: SegmentFile): boolean => lastSeq < beginSeq;
    const old = opened.segments.filter(isOld);
    opened.segments = opened.segments.filter((one) => !isOld(one));
    const listed = await listGeneration(store, generation);
    const names = listed.snapshots
      .filter((one) => one.beginSeq < beginSeq)
      .flatMap((one) => one.names);
    await inParallel([...names, ...old.map(({ name }) => name)], removalsAtOnce, (name) =>
      store.removeObject(objectName({ generation, name })),
    );
  }
}

async function readNewestSeq(read: Reader): Promise<number> {
  const row = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM records');
  return row?.idx ?? -1;
}

function olderCopy({ name }: RemoteStore, reason: string): Unusable {
  return new Unusable(`the database is an older copy: store ${name}: ${reason} (bursar rebuild)`);
}

function refusal(cause: unknown): Refusal {
  const message = 'The store of this bucket cannot make the change safe.';
  return new Refusal('ServiceUnavailable', { message, cause });
}

function reasonOf(error: unknown): string | null {
  if (error === null) return null;
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error ? `${error.message} (${cause.message})` : error.message;
}
