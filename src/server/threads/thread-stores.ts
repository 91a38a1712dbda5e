// The stores over a network, in an HTTP thread besides the main one: each has a driver of its own
// here, with its part of the connections, behind a gate that the main thread opens and shuts, which
// has probed the store and watches its owner's mark. What there is but once, the store's journal
// above all, is asked of that thread (store-desk.ts). Invariant: the store is taken for down by all
// threads or by none, and nothing is answered for here that the main thread would not answer for.
import { isArchiveClass } from '../../core/aws-classes.ts';
import { Refusal } from '../../core/errors.ts';
import { localStore, localStoreName } from '../../core/manifest.ts';
import type { StoreList } from '../../gateway/store-list.ts';
import type { StoreMeters } from '../../instruments/store-meter.ts';
import { type AskedJournal, RequestJournals } from '../../ledger/journal/journals.ts';
import { admitByWord, unsafe } from '../../ledger/journal/refusals.ts';
import type { DeclaredPlace } from '../../tiering/classes/declared-place.ts';
import type { AttemptFailure } from '../../tiering/stores/attempt-failure.ts';
import type {
  OpenedStore,
  StoreDriver,
  StoreEvent,
  StoreState,
} from '../../tiering/stores/driver.ts';
import type { joinDriver } from '../../tiering/stores/drivers.ts';
import { StoreGate } from '../../tiering/stores/store-gate.ts';
import { StoreTallies, type TakenUse } from '../../tiering/stores/store-tally.ts';
import { declaredBy, type StoreSettings } from '../settings/store-settings.ts';
import { connectionsOf } from './share.ts';
import type { StoreAnswer, StoreNews, StoreQuestion } from './store-desk.ts';
import { storeWordsOf } from './store-words.ts';

/** How a store is, as the main thread has found it. Plain data. */
export interface StoreDoor {
  number: number;
  name: string;
  /** Null: it is not configured. */
  settings: StoreSettings | null;
  /** Null: its gate is shut. */
  opened: OpenedStore | null;
  /** Why it is shut. */
  reason: string;
}

export interface ThreadStoresOptions {
  doors: readonly StoreDoor[];
  defaultName: string;
  /** How many threads share the connections. */
  count: number;
  words: SharedArrayBuffer;
  meters: StoreMeters;
  /** Null: there are no such stores. */
  join: typeof joinDriver | null;
  ask: (question: StoreQuestion) => Promise<StoreAnswer>;
  tell: (news: StoreNews) => void;
}

interface JoinedStore {
  door: StoreDoor;
  gate: StoreGate;
  driver: StoreDriver | null;
}

/** How long what was counted waits for more. */
const tellMs = 1000;

export class ThreadStores implements StoreList {
  readonly defaultName: string;
  readonly journals: RequestJournals;
  readonly #options: ThreadStoresOptions;
  readonly #stores = new Map<number, JoinedStore>();
  readonly #tallies = new StoreTallies();
  readonly #timer: NodeJS.Timeout;
  #toldStates = '[]';

  constructor(options: ThreadStoresOptions) {
    this.#options = options;
    this.defaultName = options.defaultName;
    const journals = new Map<number, AskedJournal>();
    for (const door of options.doors) {
      const { number, name, reason } = door;
      this.#stores.set(number, {
        door,
        gate: new StoreGate({ number, name, reason }),
        driver: null,
      });
      journals.set(number, this.#journalOf(number));
      this.take(door);
    }
    this.journals = new RequestJournals(journals);
    this.#timer = setInterval(() => this.#tell(), tellMs).unref();
  }

  get gates(): StoreGate[] {
    return [...this.#stores.values()].map(({ gate }) => gate);
  }

  /** The main thread has opened or shut a gate. */
  take(door: StoreDoor): void {
    const store = this.#stores.get(door.number);
    if (!store) return;
    store.door = door;
    const { opened, reason } = door;
    if (!opened) {
      store.gate.shut(reason);
      return;
    }
    store.driver ??= this.#join(door, opened);
    if (store.driver) store.gate.open(store.driver);
  }

  /** The main thread shows how they are. */
  all(): [] {
    return [];
  }

  numberOf(name: string): number | undefined {
    if (name === localStoreName) return localStore;
    for (const { door } of this.#stores.values()) {
      if (door.name === name && door.settings) return door.number;
    }
    return undefined;
  }

  nameOf(number: number): string {
    if (number === localStore) return localStoreName;
    return this.#stores.get(number)?.door.name ?? String(number);
  }

  isArchive(number: number): boolean {
    return isArchiveClass(this.declaredOf(number).storageClass);
  }

  declaredOf(number: number): DeclaredPlace {
    return declaredBy(this.#stores.get(number)?.door.settings ?? null);
  }

  /** What an operation asked after it was recorded. */
  add(uses: readonly TakenUse[]): void {
    this.#tallies.add(uses);
  }

  /** Ends what is under way, as failed. To be called when all requests have ended. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#stores.values()].map(({ driver }) => driver?.close()));
    this.#tell();
  }

  #join({ number, name, settings }: StoreDoor, opened: OpenedStore): StoreDriver | null {
    const { meters, words, count, join } = this.#options;
    const options = {
      ...(settings as StoreSettings),
      number,
      connectionsMax: connectionsOf(settings as StoreSettings, count),
      breakerState: storeWordsOf(words, number).breaker,
      tally: this.#tallies.tallyOf(number),
      meter: meters.ofRemote(name),
      loadCredentials: async (again: boolean) => {
        const { ask } = this.#options;
        const { failure, credentials } = await ask({ store: number, about: 'credentials', again });
        if (!credentials) throw new Error(failure ?? 'there are none');
        return credentials;
      },
      confirmPlace: async () => {
        const { failure } = await this.#options.ask({ store: number, about: 'owner' });
        if (failure === null) return;
        throw new Refusal('ServiceUnavailable', { cause: new Error(failure) });
      },
      onEvent: (event: StoreEvent) => {
        if (event.kind === 'breaker' && event.failure) this.#tellDown(number, event.failure);
      },
    };
    return join?.(options, opened) ?? null;
  }

  #journalOf(store: number): AskedJournal {
    const { words, ask, tell } = this.#options;
    const { refusals } = storeWordsOf(words, store);
    const asked = async (question: StoreQuestion): Promise<void> => {
      const { failure } = await ask(question);
      if (failure !== null) throw unsafe(new Error(failure));
    };
    return {
      admit: (what) => admitByWord(refusals, what),
      note: (noted) => tell({ store, noted }),
      owned: () => asked({ store, about: 'owned' }),
      flushed: (seq) => asked({ store, about: 'flushed', seq }),
      settled: () => asked({ store, about: 'settled' }),
    };
  }

  #tellDown(store: number, { reason, message, slowDown }: AttemptFailure): void {
    this.#options.tell({ store, down: { reason, message, slowDown } });
  }

  #tell(): void {
    const uses = this.#tallies.take();
    const states = [...this.#stores].flatMap(([number, { driver }]) =>
      driver ? [[number, driver.state()] as [number, StoreState]] : [],
    );
    const told = JSON.stringify(states);
    if (uses.length === 0 && told === this.#toldStates) return;
    this.#toldStates = told;
    this.#options.tell({ uses, states });
  }
}
