// What the main thread does of stores over a network for the other HTTP threads, which each have
// connections of their own to them: it has the owner's mark looked at and credentials loaded, tells
// the journals of what they have committed, tries servers that they have found down, and gathers
// what they have counted.
import { messageOfFailure } from '../../core/command-failure.ts';
import type { BackendUpkeep } from '../../ledger/backend-upkeep.ts';
import type { Journals } from '../../ledger/journal/journals.ts';
import { AttemptFailure, type FailureCause } from '../../tiering/stores/attempt-failure.ts';
import type { StoreState } from '../../tiering/stores/driver.ts';
import type { Credentials } from '../../tiering/stores/s3/credentials.ts';
import type { TakenUse } from '../../tiering/stores/store-tally.ts';
import type { RemoteStores } from '../remote-stores.ts';

/** By number of the store. */
export type StoreQuestion = { store: number } & (
  | { about: 'owner' }
  | { about: 'credentials'; again: boolean }
  /** Of its journal: see `Journal`. */
  | { about: 'owned' | 'settled' }
  | { about: 'flushed'; seq: number }
);

/** `failure`: why it could not be done; null: it was. */
export interface StoreAnswer {
  failure: string | null;
  credentials?: Credentials;
}

export interface StoreFailure {
  reason: FailureCause;
  message: string;
  slowDown: boolean;
}

/** What a thread tells without a question. */
export type StoreNews =
  /** A change was committed that the journal is to tell of soon. */
  | { store: number; noted: number }
  /** It has opened the breaker. */
  | { store: number; down: StoreFailure }
  /** What was asked of stores for no operation, and how its connections to them are. */
  | { uses: TakenUse[]; states: [number, StoreState][] };

export interface StoreDeskParts {
  storeList: RemoteStores;
  journals: Journals;
  upkeep: Pick<BackendUpkeep, 'add'>;
}

export class StoreDesk {
  readonly #parts: StoreDeskParts;

  constructor(parts: StoreDeskParts) {
    this.#parts = parts;
  }

  /** Does not reject. */
  async answer(question: StoreQuestion): Promise<StoreAnswer> {
    try {
      return { failure: null, ...(await this.#do(question)) };
    } catch (error) {
      const { cause } = error as Error;
      return { failure: messageOfFailure(cause instanceof Error ? cause : error) };
    }
  }

  /** `thread`: whose news it is. */
  hear(news: StoreNews, thread: number): void {
    const { storeList, journals, upkeep } = this.#parts;
    if ('uses' in news) {
      upkeep.add(news.uses);
      for (const [store, state] of news.states) storeList.noteState(store, thread, state);
    } else if ('noted' in news) journals.of(news.store)?.note(news.noted);
    else {
      const { reason, message, ...detail } = news.down;
      const failure = new AttemptFailure(reason, message, detail);
      storeList.driverOf(news.store)?.followBreaker(failure);
    }
  }

  async #do(question: StoreQuestion): Promise<Pick<StoreAnswer, 'credentials'>> {
    const { storeList, journals } = this.#parts;
    const { store, about } = question;
    const journal = journals.of(store);
    if (about === 'credentials') {
      const credentials = await storeList.driverOf(store)?.loadCredentials?.(question.again);
      if (!credentials) throw new Error('the store is not open');
      return { credentials };
    }
    if (about === 'owner') await storeList.confirmOwner(store);
    else if (about === 'flushed') await journal?.flushed(question.seq);
    else await journal?.[about]();
    return {};
  }
}
