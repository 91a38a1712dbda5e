// Keeps the journal in a store short and whole: looks now and then whether the store still has it,
// and puts a snapshot in the place of old segments, or of what was lost. Invariants: nothing is
// removed before a complete snapshot tells of it and the database has listed that; one look or
// snapshot is under way at a time.
import { listJournalObjects } from '../../catalog/journal-objects.ts';
import { readInstance } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import type { Ledger } from '../ledger.ts';
import { objectName } from './format.ts';
import { listGeneration, removalsAtOnce } from './generation.ts';
import type { Tells } from './identity-format.ts';
import { findLost } from './inventory.ts';
import { findOrMakeBegin, type OpenedJournal, putBegin } from './opened-journal.ts';
import { writeSnapshot } from './snapshot.ts';

export interface UpkeepOptions {
  store: RemoteStore;
  read: Reader;
  ledger: Ledger;
  keyring: Keyring;
  /**
   * Rejects unless the store's place is this database's at this moment. Asked with each segment,
   * and before old ones are removed: a place that was emptied or exchanged takes segments too.
   */
  confirmOwner: () => Promise<void>;
  /** Called with the first of several failures, and with what the store has lost. */
  onError: (error: unknown) => void;
  /** Called when a snapshot has taken the place of what was lost. */
  onRepaired?: () => void;
  /** The journal tells the secrets of access keys and webhooks, too. */
  withKeys?: boolean;
  /** The least that segments hold before a snapshot takes their place, bytes. */
  compactionBytes?: number;
}

const compactionBytesDefault = 16 * 1024 * 1024;
/** What a segment counts at least: many small ones are slow to list and to read. Bytes. */
const segmentBytesCounted = 16 * 1024;
const pauseMs = 60_000;
/** Of what is lost, in log lines and states. */
export const namesShown = 5;

export class JournalUpkeep {
  /** Objects that were found to be lost or altered. */
  lostObjects = 0;
  /** Why the last look or snapshot failed; null: it did not. */
  failure: unknown = null;
  /** What is under way. Does not reject. */
  running: Promise<void> | null = null;
  readonly #options: UpkeepOptions;
  #afterMs = 0;
  #isStopped = false;
  /** What old objects tell is not to stay, whatever they take. */
  #isWanted = false;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** Begins nothing any more, and ends a snapshot at its next page. */
  stop(): void {
    this.#isStopped = true;
  }

  /** A snapshot is due: segments and the snapshot before tell a secret that was destroyed. */
  want(): void {
    this.#isWanted = true;
  }

  /** Writes a snapshot when one is due, and looks before that; or looks because it must. */
  keepUp(opened: OpenedJournal, { mustLook }: { mustLook: boolean }): void {
    if (this.running || this.#isStopped) return;
    const isPaused = Date.now() < this.#afterMs;
    if (!mustLook && (isPaused || !this.#isSnapshotDue(opened))) return;
    this.running = this.#look(opened)
      .then(async () => {
        if (!isPaused && this.#isSnapshotDue(opened)) await this.#compact(opened);
        this.failure = null;
      })
      .catch((error: unknown) => {
        // The segments stay, which is safe; they only get more.
        this.#afterMs = Date.now() + pauseMs;
        if (this.failure === null) this.#options.onError(error);
        this.failure = error;
      })
      .finally(() => {
        this.running = null;
      });
  }

  /** Says what was lost, once; a snapshot is due then. */
  alarm(opened: OpenedJournal, lost: readonly string[]): void {
    const known = new Set(opened.lost);
    const others = lost.filter((name) => !known.has(name));
    if (others.length === 0) return;
    opened.lost.push(...others);
    this.lostObjects += others.length;
    const names = others.slice(0, namesShown).join(', ');
    const more = others.length > namesShown ? ` and ${others.length - namesShown} more` : '';
    this.#options.onError(
      new Error(
        `${names}${more} of ${opened.generation} is not there any more as it was written: ` +
          'a snapshot is written in its place, and until then a rebuild would not be whole',
      ),
    );
  }

  #isSnapshotDue({ segments, snapshot, lost, isListed, tells }: OpenedJournal): boolean {
    if (this.#isWanted || lost.length > 0 || !isListed) return true;
    if (tells !== tellsOf(this.#options)) return true;
    const least = this.#options.compactionBytes ?? compactionBytesDefault;
    let bytes = 0;
    for (const { sizeBytes } of segments) bytes += Math.max(sizeBytes, segmentBytesCounted);
    return bytes > Math.max(least, 2 * (snapshot?.sizeBytes ?? 0));
  }

  async #look(opened: OpenedJournal): Promise<void> {
    const { store, read, keyring, ledger, confirmOwner } = this.#options;
    // What is not there in a place that is not ours was not lost, and nothing is written there.
    await confirmOwner();
    const place = { store, keyring, generation: opened.generation };
    const rows = await listJournalObjects(read, store.number);
    const files = await listGeneration(store, opened.generation);
    const begin = await findOrMakeBegin(place, { rows, read, ledger, isNew: false });
    this.alarm(opened, [...begin.lost, ...(await findLost(place, rows, files))]);
  }

  async #compact(opened: OpenedJournal): Promise<void> {
    const { read, ledger, keyring, store, onRepaired, confirmOwner } = this.#options;
    const { generation, losses } = opened;
    const wasWanted = this.#isWanted;
    const beginSeq = (await readNewestSeq(read)) + 1;
    await ledger.maintain({ kind: 'noteJournaled', store: store.number, seq: beginSeq - 1 });
    const isStopped = (): boolean => this.#isStopped;
    const tells = tellsOf(this.#options);
    const place = { store, keyring, generation };
    const pages = await writeSnapshot({ ...place, read, beginSeq, tells, isStopped });
    if (pages === null) return;
    await confirmOwner();
    const instance = await readInstance(read);
    const marker = await putBegin(place, { losses, snapshot: beginSeq, instance });
    const objects = [...pages, marker];
    const noted = { store: store.number, beginSeq, objects, tells };
    await ledger.maintain({ kind: 'noteSnapshot', ...noted });
    const sizeBytes = pages.reduce((sum, one) => sum + one.sizeBytes, 0);
    opened.snapshot = { beginSeq, sizeBytes };
    opened.segments = opened.segments.filter(({ lastSeq }) => lastSeq >= beginSeq);
    opened.isListed = true;
    opened.tells = tells;
    if (opened.lost.length > 0) onRepaired?.();
    opened.lost = [];
    await this.#removeOld(generation, beginSeq);
    if (wasWanted) this.#isWanted = false;
  }

  /** Those before a snapshot, and what a crash has left. What does not go is in nobody's way. */
  async #removeOld(generation: string, beginSeq: number): Promise<void> {
    const { store, onError } = this.#options;
    const { segments, snapshots } = await listGeneration(store, generation);
    const names = [
      ...snapshots.filter((one) => one.beginSeq < beginSeq).flatMap((one) => one.names),
      ...segments.filter(({ lastSeq }) => lastSeq < beginSeq).map(({ name }) => name),
    ];
    let failures = 0;
    await inParallel(names, removalsAtOnce, (name) =>
      store.removeObject(objectName({ generation, name })).catch((error: unknown) => {
        if (failures++ === 0) onError(error);
      }),
    );
  }
}

/** What a journal is to tell of identities. */
export function tellsOf({ withKeys = false }: Pick<UpkeepOptions, 'withKeys'>): Tells {
  return withKeys ? 'identitiesAndKeys' : 'identities';
}

export async function readNewestSeq(read: Reader): Promise<number> {
  const row = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM records');
  return row?.idx ?? -1;
}
