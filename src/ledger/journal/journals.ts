// The journals of all S3 stores, as those who commit changes need them. Invariant: a change that no
// extent tells of is answered for only when the journal has it in the store; a plain write need not
// wait, since the metadata of its last extent says all of it (tiering/extent-metadata.ts), but for
// the secret that its bytes are encrypted under, which the journal has to tell first. Nothing is
// answered for unless the store was seen to be ours a moment before.
import type { Versioning } from '../../catalog/buckets.ts';
import { isOwnClass } from '../../core/own-class.ts';
import { type Change, commandOf } from '../commands/index.ts';
import type { CommitResult } from '../commit.ts';
import type { Journal, JournalState } from './journal.ts';

/** What requests ask of a journal, in whichever thread it is. */
export type AskedJournal = Pick<Journal, 'admit' | 'note' | 'owned' | 'flushed' | 'settled'>;

/** As requests need them. */
export class RequestJournals {
  readonly #journals: ReadonlyMap<number, AskedJournal>;

  #keysSeq: () => number = () => -1;
  /** By number of the store: up to where its journal is known to tell of tenants' secrets. */
  readonly #keysTold = new Map<number, number>();

  /** By number of the store. */
  constructor(journals: ReadonlyMap<number, AskedJournal>) {
    this.#journals = journals;
  }

  /**
   * `keysSeq`: log index of the newest secret of a tenant. No extent tells of it, so no write is
   * answered for in a store whose journal does not.
   */
  watchKeys(keysSeq: () => number): void {
    this.#keysSeq = keysSeq;
  }

  /**
   * Throws Refusal ServiceUnavailable for a change in this store that should not be committed.
   * `versioning` is that of its bucket.
   */
  admit(store: number, change: Change, versioning: Versioning): void {
    const makesVersion = versioning !== 'Unversioned' && change.kind === 'putObject';
    const mustBeSafe = makesVersion || needsJournal(change);
    this.#journals.get(store)?.admit({ mustBeSafe });
  }

  /**
   * Tells the store's journal of a committed change. A promise: the change is safe when it
   * resolves; it rejects with Refusal ServiceUnavailable. Null: it is safe already.
   */
  confirm(
    store: number,
    change: Change,
    { index, version }: Extract<CommitResult, { ok: true }>,
  ): Promise<void> | null {
    const journal = this.#journals.get(store);
    // What is recorded with others has changed nothing.
    if (!journal || index === null) return null;
    // No extent knows the id of the version that it became.
    if (version || needsJournal(change)) return journal.flushed(lastIndexOf(change, index));
    if (change.kind !== 'putObject') return null;
    journal.note(index);
    const keysSeq = this.#keysSeq();
    if (keysSeq > (this.#keysTold.get(store) ?? -1)) return this.#tellKeys(store, journal, keysSeq);
    return journal.owned();
  }

  async #tellKeys(store: number, journal: AskedJournal, keysSeq: number): Promise<void> {
    await journal.flushed(keysSeq);
    this.#keysTold.set(store, keysSeq);
    await journal.owned();
  }

  /** Resolves when the store was seen to be ours a moment ago; null: it has no journal. */
  owned(store: number): Promise<void> | null {
    return this.#journals.get(store)?.owned() ?? null;
  }

  /**
   * Resolves when the store's journal tells of all that was committed for it until now; null: it
   * has none. Rejects with Refusal ServiceUnavailable.
   */
  settled(store: number): Promise<void> | null {
    return this.#journals.get(store)?.settled() ?? null;
  }
}

/** As the gateway has them. */
export class Journals extends RequestJournals {
  readonly #journals: ReadonlyMap<number, Journal>;
  /** Of stores that are configured: others are told nothing of identities. */
  readonly #inUse: readonly [number, Journal][];

  /** By number of the store. */
  constructor(
    journals: ReadonlyMap<number, Journal>,
    isInUse: (store: number) => boolean = () => true,
  ) {
    super(journals);
    this.#journals = journals;
    this.#inUse = [...journals].filter(([store]) => isInUse(store));
  }

  /** The journal of a store; undefined: it has none. */
  of(store: number): Journal | undefined {
    return this.#journals.get(store);
  }

  /**
   * Tells all journals of a committed change of identities. Gives the stores whose journals do not
   * have it yet, by number: one that is away keeps nobody from taking a right away, and is told
   * later.
   */
  async confirmEverywhere(change: Change, index: number | null): Promise<number[]> {
    const { told: telling } = commandOf(change);
    if (index === null || !telling) return [];
    const journals = this.#inUse;
    if (!telling.isAwaited) {
      for (const [, journal] of journals) journal.note(index);
      return [];
    }
    const told = await Promise.all(journals.map(([, journal]) => journal.told(index)));
    return journals.flatMap(([store], i) => (told[i] ? [] : [store]));
  }

  /** Throws the same for what the gateway itself ends there. */
  admitEnds(store: number): void {
    this.#journals.get(store)?.admit({ mustBeSafe: true });
  }

  /** Something was committed for which nobody is answered: the journal tells of it soon. */
  noteEnds(store: number): void {
    this.#journals.get(store)?.note(-1);
  }

  /**
   * Whether extents may be removed from a store: not before its journal is known to be this
   * database's, since an older copy would take for garbage what later changes live on; and not
   * while it names what was deleted since, or has lost that it was.
   */
  maySweep(store: number): boolean {
    const state = this.#journals.get(store)?.state();
    return !state || (state.ready && state.whole);
  }

  /** Whether the store's journal has lost nothing, as far as is known. */
  isWhole(store: number): boolean {
    return this.#journals.get(store)?.state().whole ?? true;
  }

  /**
   * Resolves when each was opened, or could not be, for the first time; at the latest after so
   * long.
   */
  async looked(msMax: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, msMax);
    });
    const all = Promise.all([...this.#journals.values()].map(({ looked }) => looked));
    await Promise.race([all, late]);
    clearTimeout(timer);
  }

  /** By number of the store. */
  state(store: number): JournalState | undefined {
    return this.#journals.get(store)?.state();
  }

  /** Writes what is still to be written. */
  async close(): Promise<void> {
    await Promise.all([...this.#journals.values()].map((journal) => journal.close()));
  }
}

/** The index of the last record of a change: a rename has one at each of its keys. */
function lastIndexOf({ kind }: Change, index: number): number {
  return kind === 'renameObject' ? index + 1 : index;
}

/** Whether no extent's metadata tells of a change, or not enough to restore it by that alone. */
function needsJournal(change: Change): boolean {
  switch (change.kind) {
    case 'putObject': {
      const { ifMatch, ifNoneMatch } = change.conditions;
      // The extents of a tenant's class may be in another store than the bucket.
      if (change.extentIds.length === 0 || isOwnClass(change.object.class)) return true;
      return ifMatch !== null || ifNoneMatch !== null;
    }
    case 'copyObject':
    case 'renameObject':
    case 'completeUpload':
    case 'deleteObject':
    case 'amendVersion':
    case 'createBucket':
    case 'deleteBucket':
    case 'putBucketPolicy':
    case 'setVersioning':
    case 'putBucketSetting':
      return true;
    default:
      return false;
  }
}
