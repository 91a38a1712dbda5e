// The journal of one S3 store (docs/formats/journal.md): tells the store itself what the catalog
// says of its buckets, so that they can be restored when the database is lost. Invariants: a row
// leaves the outbox only after a segment that tells of it is durable; segments are written one
// after another; old ones go only when a later snapshot is complete. So a crash at any point
// leaves a journal that replays to the catalog, up to what the outbox still has. And what the store
// has lost of it is noticed, at the start and now and then, and made good by a snapshot.
import { listJournalObjects } from '../../catalog/journal-objects.ts';
import { isInOutbox, listOutbox } from '../../catalog/outbox.ts';
import { readJournal } from '../../catalog/stores.ts';
import { monotonicMs } from '../../core/clock.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { composeSegment } from './entries.ts';
import { type Head, objectName, sealObject, segmentName } from './format.ts';
import {
  compareGenerations,
  findNewestGeneration,
  listGeneration,
  listGenerations,
  newGeneration,
} from './generation.ts';
import { readTells } from './identity-outbox.ts';
import { IdentityRows } from './identity-rows.ts';
import { findLost, findToldElsewhere, type GenerationPlace, objectRow } from './inventory.ts';
import { findOrMakeBegin, type OpenedJournal, openedOf } from './opened-journal.ts';
import { refusesAll, refusesNothing, refusesUnsafe, unsafe } from './refusals.ts';
import { CheckpointWriter, compareWithTold } from './told-checkpoint.ts';
import { JournalUpkeep, namesShown, readNewestSeq, tellsOf, type UpkeepOptions } from './upkeep.ts';

export interface JournalOptions extends UpkeepOptions {
  /** Between looks at what the store still has of it, milliseconds. */
  lookMs?: number;
  /** The newest signed checkpoint of the log; null: there is none, or it is signed no more. */
  newestNote?: () => string | null;
  /** Between two checkpoints that the store is told, milliseconds. */
  checkpointMs?: number;
  /** Where other threads see what is refused: a word. */
  refusals?: Int32Array;
  /** Called once where the store knows more than the database, and why that is so. */
  onOlderCopy?: (reason: string) => void;
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
  /** The store has all of it that was written, as far as the last look saw. */
  whole: boolean;
  /** What it has not, the first names. */
  lost: string[];
  /** Objects that were found to be lost or altered since the start. */
  lostObjects: number;
}

/**
 * How long a look at the mark of the owner counts. Who takes the place waits longer than that
 * before what is there is read (backup/forward/stores.ts): so what was there at the end of this
 * time is read.
 */
const ownedMs = 2000;
/** How long changes that nobody waits for wait for company, milliseconds. */
const lingerMs = 250;
/** How long a request waits for its change to be safe, milliseconds. */
const flushMsMax = 5000;
/** Between looks whether a snapshot is complete, milliseconds. */
const askedAgainMs = 50;
/** How long the end of the process waits for the last segment, milliseconds. */
const closeMsMax = 10_000;
const backOffMs = 100;
const backOffMsMax = 5000;
const rowsPerSegment = 1000;
const lookMsDefault = 3600_000;
const checkpointMsDefault = 60_000;
/** Newer generations that are looked at: others are not by this database's like. */
const newerMax = 1000;

interface Waiter {
  seq: number;
  resolve: () => void;
  reject: (error: unknown) => void;
  timer: NodeJS.Timeout;
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
  #opened: OpenedJournal | null = null;
  #timer: { handle: NodeJS.Timeout; delayMs: number } | null = null;
  #running: Promise<void> | null = null;
  #failure: unknown = null;
  #failures = 0;
  #isUnusable = false;
  readonly #upkeep: JournalUpkeep;
  readonly #identityRows: IdentityRows;
  readonly #checkpointWriter: CheckpointWriter;
  #lookTimer: NodeJS.Timeout | null = null;
  #checkpointTimer: NodeJS.Timeout | null = null;
  #damagedRows = 0;
  /** When the last look began that found the place to be ours. */
  #looked = { monotonicMs: Number.NEGATIVE_INFINITY, wallMs: 0 };
  #looking: Promise<void> | null = null;
  #closing = false;
  /** Resolves when it was opened, or could not be, for the first time. */
  readonly looked: Promise<void>;
  #endLooking: () => void = () => {};

  private constructor(options: JournalOptions, newestSeq: number) {
    this.#options = options;
    this.#triedSeq = newestSeq;
    this.#upkeep = new JournalUpkeep(options);
    const { read, withKeys = false } = options;
    this.#identityRows = new IdentityRows(read, { withKeys });
    const onError = (error: unknown) =>
      options.onError(new Error(`the checkpoint of the log was not written: ${reasonOf(error)}`));
    this.#checkpointWriter = new CheckpointWriter({ newestNote: () => null, ...options, onError });
    this.#notedSeq = newestSeq;
    this.looked = new Promise((resolve) => {
      this.#endLooking = resolve;
    });
  }

  /** Opens it before the first change is made; what an earlier run has left is written now. */
  static async open(options: JournalOptions): Promise<Journal> {
    const journal = new Journal(options, await readNewestSeq(options.read));
    journal.#wake(0);
    const look = (): void => journal.#keepUp({ mustLook: true });
    journal.#lookTimer = setInterval(look, options.lookMs ?? lookMsDefault).unref();
    const tell = (): void => void journal.#tellCheckpoint();
    journal.#checkpointTimer = setInterval(tell, options.checkpointMs ?? checkpointMsDefault);
    journal.#checkpointTimer.unref();
    return journal;
  }

  /**
   * Throws Refusal ServiceUnavailable when a change should not be made now: one that must be safe
   * in the store to be answered for, while that cannot be; any, in an older copy of the database.
   */
  admit(options: { mustBeSafe: boolean }): void {
    const { mustBeSafe } = options;
    if (this.#isUnusable || (mustBeSafe && this.#failure)) throw unsafe(this.#failure);
  }

  /** A change was committed that the journal will tell of soon. */
  note(seq: number): void {
    if (seq > this.#notedSeq) this.#notedSeq = seq;
    if (!this.#failure) this.#wake(lingerMs);
  }

  /**
   * Resolves when the place was ours after what is in the store by now had come there; null: it
   * was. A gateway that was stopped for a while, and whose place was taken meanwhile, answers for
   * nothing more. Rejects with Refusal ServiceUnavailable.
   */
  owned(): Promise<void> | null {
    return this.#isOwned() ? null : this.#lookAtOwner();
  }

  /**
   * Resolves when all changes up to `seq` are safe in the store. Rejects with Refusal
   * ServiceUnavailable when that fails, or takes more than five seconds.
   */
  flushed(seq: number): Promise<void> {
    if (seq <= this.#safeSeq) return Promise.resolve();
    if (this.#isUnusable) return Promise.reject(unsafe(this.#failure));
    if (seq > this.#notedSeq) this.#notedSeq = seq;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((one) => one !== waiter);
        reject(unsafe(new Error(`the journal was not written within ${flushMsMax} ms`)));
      }, flushMsMax);
      const waiter: Waiter = { seq, resolve, reject, timer };
      this.#waiters.push(waiter);
      if (!this.#failure) this.#wake(0);
    });
  }

  /** The same for all changes that it was told of. */
  settled(): Promise<void> {
    return this.flushed(this.#notedSeq);
  }

  /**
   * Resolves when the journal tells of a change of identities; false: it does not yet. Where the
   * store takes nothing it is not waited for, and it is told later; where a snapshot is still to
   * tell of what was there before, at most five seconds.
   */
  async told(seq: number): Promise<boolean> {
    const endMs = monotonicMs() + flushMsMax;
    if (this.#failure) {
      this.note(seq);
      return false;
    }
    try {
      await this.flushed(seq);
    } catch {
      return false;
    }
    while (this.#opened?.tells !== tellsOf(this.#options)) {
      const isHopeless = this.#failure ?? this.#upkeep.failure;
      if (isHopeless || this.#closing || monotonicMs() > endMs) return false;
      await new Promise((resolve) => setTimeout(resolve, askedAgainMs));
    }
    return true;
  }

  state(): JournalState {
    const failure = this.#failure;
    const upkeep = this.#upkeep;
    const { generation = null, lost = [], segments, snapshot } = this.#opened ?? {};
    return {
      ready: failure === null && this.#opened !== null,
      generation,
      safeSeq: this.#safeSeq,
      reason: reasonOf(failure),
      damagedRows: this.#damagedRows,
      compactionReason: reasonOf(upkeep.failure),
      segments: segments?.length ?? 0,
      snapshotBytes: snapshot?.sizeBytes ?? 0,
      whole: lost.length === 0,
      lost: lost.slice(0, namesShown),
      lostObjects: upkeep.lostObjects,
    };
  }

  /** Writes what is still to be written, if the store takes it. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#upkeep.stop();
    if (this.#timer) clearTimeout(this.#timer.handle);
    clearInterval(this.#lookTimer ?? undefined);
    clearInterval(this.#checkpointTimer ?? undefined);
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
    await Promise.all([this.#upkeep.running, this.#tellCheckpoint()]);
  }

  /** Does not reject. */
  async #tellCheckpoint(): Promise<void> {
    if (this.#opened && !this.#failure) await this.#checkpointWriter.write(this.#opened.generation);
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
    this.#keepUp();
  }

  #keepUp({ mustLook = false } = {}): void {
    if (this.#opened && !this.#isUnusable) this.#upkeep.keepUp(this.#opened, { mustLook });
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
      this.#showRefusals();
    } catch (error) {
      this.#fail(error);
    }
    this.#endLooking();
  }

  #fail(error: unknown): void {
    this.#failure = error;
    if (error instanceof Unusable && !this.#isUnusable) this.#options.onOlderCopy?.(error.message);
    this.#isUnusable = error instanceof Unusable;
    this.#showRefusals();
    if (this.#failures++ === 0) this.#options.onError(error);
    for (const { reject, timer } of this.#waiters.splice(0)) {
      clearTimeout(timer);
      reject(unsafe(error));
    }
  }

  #showRefusals(): void {
    const refused = this.#failure ? refusesUnsafe : refusesNothing;
    const { refusals } = this.#options;
    if (refusals) Atomics.store(refusals, 0, this.#isUnusable ? refusesAll : refused);
  }

  async #openGeneration(): Promise<OpenedJournal> {
    const { store, read, ledger, keyring, onError } = this.#options;
    const known = await readJournal(read, store.number);
    const listed = await listGenerations(store, known.generation ?? undefined);
    const newer = listed.generations
      .filter((one) => known.generation === null || compareGenerations(one, known.generation) > 0)
      .slice(-newerMax);
    const newest = await findNewestGeneration(store, keyring, newer, store.number);
    if (newest) throw olderCopy(store, `its journal ${newest.generation} is not of this database`);
    const generation = known.generation ?? newGeneration(Date.now());
    if (known.generation === null) {
      await ledger.maintain({ kind: 'beginGeneration', store: store.number, generation });
    }
    const place: GenerationPlace = { store, keyring, generation };
    const rows = await listJournalObjects(read, store.number);
    const files = await listGeneration(store, generation);
    const { journaledSeq } = known;
    const toldSeq = await findToldElsewhere(place, { rows, files, journaledSeq });
    if (!(await this.#isOurs(toldSeq, journaledSeq))) {
      throw olderCopy(store, `its journal tells of change ${toldSeq}`);
    }
    const onFalse = () =>
      onError(new Error('its checkpoint of the log does not open: it is written anew'));
    const reason = await compareWithTold(place, { read, files, onFalse });
    if (reason !== null) throw olderCopy(store, reason);
    await ledger.maintain({ kind: 'beginTelling', store: store.number });
    const tells = (await readTells(read, store.number)) ?? 'changes';
    const isNew = known.generation === null;
    const begin = await findOrMakeBegin(place, { rows, read, ledger, isNew });
    const opened = await openedOf(place, { rows, files, begin, isNew, tells });
    this.#upkeep.alarm(opened, [...begin.lost, ...(await findLost(place, rows, files))]);
    return opened;
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
  async #writeSegment(opened: OpenedJournal): Promise<boolean> {
    const { read, ledger, keyring, store } = this.#options;
    const notedSeq = this.#notedSeq;
    const rows = await listOutbox(read, store.number, rowsPerSegment);
    const [first] = rows;
    if (!first) {
      this.#settle(notedSeq);
      return false;
    }
    const sources = { read, keyring, store: store.number, identityRows: this.#identityRows };
    const { lines, identities, kept, lastSeq, damaged } = await composeSegment(sources, rows);
    const { generation, previous } = opened;
    const snapshot = opened.snapshot?.beginSeq ?? null;
    const told = {
      ...(identities.length > 0 && { identities }),
      ...(kept.length > 0 && { kept }),
    };
    const head: Head = {
      kind: 'segment',
      previous,
      lastSeq,
      timeMs: Date.now(),
      snapshot,
      ...told,
    };
    const name = segmentName(first.seq, lastSeq);
    const sealed = sealObject(keyring, { generation, name }, [JSON.stringify(head), ...lines]);
    this.#triedSeq = Math.max(this.#triedSeq, lastSeq);
    await this.#putOwned(objectName({ generation, name }), sealed);
    this.#damagedRows += damaged;
    // Rows are committed in order of seq, so those that were not listed are of later changes.
    const isAll = rows.length < rowsPerSegment && rows.at(-1)?.seq === lastSeq;
    this.#settle(isAll ? Math.max(notedSeq, lastSeq) : lastSeq);
    const segment = objectRow(name, lastSeq, sealed);
    await ledger.maintain({ kind: 'forgetJournaled', store: store.number, lastSeq, segment });
    opened.segments.push({ name, lastSeq, sizeBytes: sealed.length });
    // With a tenant its secret goes, which earlier objects tell.
    if (identities.some((one) => one.kind === 'retired' && one.of === 'tenant')) {
      this.#upkeep.want();
    }
    opened.previous = name;
    return !isAll || this.#waiters.length > 0;
  }

  /** A machine that slept has a clock that went on, and maybe another that did not. */
  #isOwned(): boolean {
    const { monotonicMs: monotonic, wallMs } = this.#looked;
    return monotonicMs() - monotonic < ownedMs && Math.abs(Date.now() - wallMs) < ownedMs;
  }

  /** Until one look ends while it still counts. */
  async #lookAtOwner(): Promise<void> {
    const endMs = monotonicMs() + flushMsMax;
    while (!this.#isOwned()) {
      if (monotonicMs() > endMs) throw unsafe(new Error('the mark of its owner came too late'));
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null;
      });
      await this.#looking;
    }
  }

  async #look(): Promise<void> {
    const begun = { monotonicMs: monotonicMs(), wallMs: Date.now() };
    await this.#options.confirmOwner();
    this.#looked = begun;
  }

  /** Both at once; it is stored for us only when the place is ours. */
  async #putOwned(name: string, sealed: Buffer): Promise<void> {
    const { store } = this.#options;
    const [put, looked] = await Promise.allSettled([store.putObject(name, sealed), this.#look()]);
    const late = looked.status === 'fulfilled' ? this.owned() : null;
    const [owned = looked] = late ? await Promise.allSettled([late]) : [];
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
}

function olderCopy({ name }: RemoteStore, reason: string): Unusable {
  return new Unusable(
    `the database is an older copy: store ${name}: ${reason} (bursar restore --here)`,
  );
}

function reasonOf(error: unknown): string | null {
  if (error === null) return null;
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error ? `${error.message} (${cause.message})` : error.message;
}
