// The stores of a running gateway besides its data folder's: each gets its number, is probed and
// found to be ours, and only then its gate is opened. Invariants: nothing is written under a prefix
// before its owner marker says that it is this data folder's; a store that cannot be reached keeps
// its gate shut and is tried again, without keeping the gateway from its other buckets; a prefix
// that was taken over, or has lost its mark, is left alone with the next journal segment, or within
// a minute.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  isStoreUsed,
  listBucketsIn,
  listStores,
  readInstance,
  type StoreRow,
} from '../catalog/stores.ts';
import { isArchiveClass } from '../core/aws-classes.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { localStore, localStoreName } from '../core/manifest.ts';
import type { Sealer } from '../core/sealing.ts';
import type { StoreList, StoreView } from '../gateway/store-list.ts';
import type { JournalState } from '../ledger/journal/journal.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type DeclaredPlace, undeclaredPlace } from '../tiering/classes/declared-place.ts';
import type {
  DriverOptions,
  StoreDriver,
  StoreEvent,
  StoreState,
} from '../tiering/stores/driver.ts';
import type { RemoteStore } from '../tiering/stores/store.ts';
import { StoreGate } from '../tiering/stores/store-gate.ts';
import type { Claim, Owner } from '../tiering/stores/store-owner.ts';
import { explainOwner, lookForOwner, ownPlace, StoreProblem } from './folder/store-claims.ts';
import {
  declaredBy,
  locationOf,
  type StoreChoice,
  type StoreSettings,
} from './settings/store-settings.ts';
import type { StoreDoor } from './threads/thread-stores.ts';

export interface RemoteStoresOptions {
  choice: StoreChoice;
  read: Reader;
  ledger: Pick<Ledger, 'maintain'>;
  sealer: Sealer;
  /** `openDriver`, or what stands for it in tests. */
  openDriver: (
    options: StoreSettings & Pick<DriverOptions, 'number' | 'onEvent' | 'confirmPlace' | 'signal'>,
  ) => Promise<StoreDriver>;
  localState: () => { ready: boolean; freeBytes: number };
  /** The state of the store's journal. */
  journalState: (number: number) => JournalState | undefined;
  log: (line: string) => void;
  /** How long a start waits for the stores, and the pauses between later looks. Milliseconds. */
  timing?: Partial<Timing>;
}

interface Timing {
  startMsMax: number;
  retryMsMin: number;
  retryMsMax: number;
  watchMs: number;
}

const defaultTiming: Timing = {
  startMsMax: 15_000,
  retryMsMin: 1000,
  retryMsMax: 30_000,
  watchMs: 60_000,
};

interface ManagedStore {
  number: number;
  name: string;
  location: string;
  gate: StoreGate;
  /** Null: the store is not configured. */
  settings: StoreSettings | null;
  /** Null: it was not opened yet. */
  driver: StoreDriver | null;
  /** Whether its server was found to be down, and the log says so. */
  isDown: boolean;
  /** Why it is not available, as the log was told. */
  reported: string | null;
  /** Why it could not tell its owner when it was last asked; null: it could. */
  silence: string | null;
  /** What drivers of other threads last told of themselves, by thread. */
  states: Map<number, StoreState>;
  /** Ends the pause before it is looked at again. */
  wake: () => void;
}

/** How many buckets a refusal names. */
const namedMax = 3;

/** Throws `CommandFailure` (usage) for an archive of S3 in which there are buckets already. */
async function checkFree(
  read: Reader,
  number: number,
  { name, storageClass }: StoreSettings,
): Promise<void> {
  if (!isArchiveClass(storageClass)) return;
  const found = await listBucketsIn(read, number, namedMax + 1);
  if (found.length === 0) return;
  const some = found.slice(0, namedMax).join(', ');
  const message =
    `stores.${name}.storageClass: ${storageClass} is an archive, and what is written to the ` +
    `buckets in ${name} (${some}${found.length > namedMax ? ' and more' : ''}) could not be read ` +
    'there: give that class to a store of another name and place, and let a class lie in it';
  throw new CommandFailure('usage', message);
}

export class RemoteStores implements StoreList {
  readonly defaultName: string;
  readonly #options: RemoteStoresOptions;
  readonly #timing: Timing;
  readonly #stores: ManagedStore[] = [];
  readonly #closing = new AbortController();
  readonly #watches: Promise<void>[] = [];
  #onDoor: (door: StoreDoor) => void = () => {};

  private constructor(options: RemoteStoresOptions) {
    this.#options = options;
    this.#timing = { ...defaultTiming, ...options.timing };
    this.defaultName = options.choice.defaultStore;
  }

  /**
   * Opens what is configured. Throws `CommandFailure` when a store is not to be used as configured;
   * one that only cannot be reached is tried again later.
   */
  static async open(options: RemoteStoresOptions): Promise<RemoteStores> {
    const stores = new RemoteStores(options);
    try {
      await stores.#makeStores();
      await stores.#openStores();
    } catch (error) {
      await stores.close();
      throw error;
    }
    return stores;
  }

  /** The gates of all stores, including those that are not configured. */
  get gates(): RemoteStore[] {
    return this.#stores.map(({ gate }) => gate);
  }

  /** How all of them are, for other threads. */
  get doors(): StoreDoor[] {
    return this.#stores.map(doorOf);
  }

  /** Is told of each from now on when its gate was opened or shut. */
  onDoor(listener: (door: StoreDoor) => void): void {
    this.#onDoor = listener;
  }

  /** The driver of a store; undefined: it was not opened. */
  driverOf(number: number): StoreDriver | undefined {
    return this.#stores.find((one) => one.number === number)?.driver ?? undefined;
  }

  /** What another thread's driver of the store tells of itself now. */
  noteState(number: number, thread: number, state: StoreState): void {
    this.#stores.find((one) => one.number === number)?.states.set(thread, state);
  }

  all(): StoreView[] {
    const { journalState } = this.#options;
    return [
      this.#viewLocal(),
      ...this.#stores.map((managed) => view(managed, journalState(managed.number))),
    ];
  }

  numberOf(name: string): number | undefined {
    if (name === localStoreName) return localStore;
    return this.#stores.find((managed) => managed.name === name && managed.settings)?.number;
  }

  nameOf(number: number): string {
    if (number === localStore) return localStoreName;
    return this.#stores.find((managed) => managed.number === number)?.name ?? String(number);
  }

  /** Whether what is in it is read only after its server has restored it. */
  isArchive(number: number): boolean {
    return isArchiveClass(this.declaredOf(number).storageClass);
  }

  declaredOf(number: number): DeclaredPlace {
    if (number === localStore) return undeclaredPlace;
    return declaredBy(this.#stores.find((one) => one.number === number)?.settings ?? null);
  }

  /**
   * Resolves when the mark in the store says that it is ours, now. Rejects with Refusal
   * ServiceUnavailable when it does not, and the store's gate is shut then, or when the store
   * cannot say. The local store is always ours.
   */
  async confirmOwner(number: number): Promise<void> {
    const managed = this.#stores.find((one) => one.number === number);
    if (!managed) return;
    await this.#checkOwner(managed);
    const { reason } = managed.gate;
    if (reason !== null) throw new Refusal('ServiceUnavailable', { cause: new Error(reason) });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#stores.map(({ driver }) => driver?.close()));
    await Promise.all(this.#watches);
  }

  async #makeStores(): Promise<void> {
    const { read, ledger, choice } = this.#options;
    const known = new Set((await listStores(read)).map(({ name }) => name));
    for (const { name } of choice.stores) {
      if (known.has(name)) continue;
      // Its location is stored once the place is found to be ours.
      if ((await ledger.maintain({ kind: 'registerStore', name, location: '' })) > 0) continue;
      throw new CommandFailure('failed', `no number is left for the store ${name}`);
    }
    for (const row of await listStores(read)) {
      const { number, name } = row;
      const settings = choice.stores.find((one) => one.name === name) ?? null;
      if (!settings && !(await isStoreUsed(read, number))) continue;
      if (settings) await checkFree(read, number, settings);
      const reason = settings ? 'it was not reached yet' : 'it is not configured any more';
      const onMoved = () => this.#onDoor(doorOf(managed));
      const managed: ManagedStore = {
        number,
        name,
        location: settings ? locationOf(settings) : row.location,
        gate: new StoreGate({ number, name, reason, onMoved }),
        settings,
        driver: null,
        isDown: false,
        reported: null,
        silence: null,
        states: new Map(),
        wake: () => {},
      };
      this.#stores.push(managed);
      if (!settings) this.#log(name, `is not configured, but buckets are in it (${row.location})`);
    }
  }

  async #openStores(): Promise<void> {
    const { startMsMax, retryMsMin } = this.#timing;
    await Promise.all(
      this.#stores.map(async (managed) => {
        if (!managed.settings) return;
        const attempt = this.#tryAdmit(managed);
        const late = sleep(startMsMax, null, { signal: this.#closing.signal, ref: false });
        const problem = await Promise.race([attempt, late]);
        if (problem instanceof StoreProblem) {
          throw new CommandFailure('failed', `store ${managed.name}: ${problem.message}`, problem);
        }
        this.#watches.push(
          attempt.then((error) => {
            this.#report(managed, error);
            return this.#watch(managed, retryMsMin);
          }),
        );
      }),
    );
  }

  /**
   * Looks after a store until the end: opens its gate when it can be used, and notices when it is
   * not ours any more.
   */
  async #watch(managed: ManagedStore, firstPauseMs: number): Promise<void> {
    const { watchMs, retryMsMin, retryMsMax } = this.#timing;
    const { signal } = this.#closing;
    for (let pauseMs = firstPauseMs; !signal.aborted; ) {
      const isOpen = managed.gate.reason === null;
      await this.#pause(managed, isOpen && managed.silence === null ? watchMs : pauseMs);
      if (signal.aborted) return;
      // While the store cannot say, its requests are refused by the driver, or by the store.
      if (isOpen) await this.#checkOwner(managed).catch(() => {});
      else this.#report(managed, await this.#tryAdmit(managed));
      const isServed = isOpen && managed.silence === null;
      pauseMs = isServed ? retryMsMin : Math.min(pauseMs * 2, retryMsMax);
    }
  }

  async #pause(managed: ManagedStore, durationMs: number): Promise<void> {
    const woken = new AbortController();
    managed.wake = () => woken.abort();
    const signal = AbortSignal.any([this.#closing.signal, woken.signal]);
    await sleep(durationMs, null, { signal, ref: false }).catch(() => null);
  }

  /** Opens the store's gate, or gives the reason why it stays shut. Never rejects. */
  async #tryAdmit(managed: ManagedStore): Promise<Error | null> {
    try {
      await this.#admit(managed);
      return null;
    } catch (error) {
      managed.gate.shut(reasonOf(error));
      return error as Error;
    }
  }

  /** Says why a store was not admitted, once for each reason. */
  #report(managed: ManagedStore, error: Error | null): void {
    const reason = error && reasonOf(error);
    if (reason !== null && reason !== managed.reported && !this.#closing.signal.aborted) {
      this.#log(managed.name, `is not available: ${reason} (${managed.location})`);
    }
    managed.reported = reason;
  }

  async #admit(managed: ManagedStore): Promise<void> {
    const driver = await this.#openDriver(managed);
    const { ready, lastFailure } = driver.state();
    if (!ready) throw new Error(lastFailure?.message ?? 'it does not answer');
    await this.#own(managed, driver);
    managed.gate.open(driver);
    this.#log(managed.name, `is ready: ${describeFindings(driver)} (${managed.location})`);
  }

  async #openDriver(managed: ManagedStore): Promise<StoreDriver> {
    if (managed.driver) return managed.driver;
    const { number, location } = managed;
    try {
      managed.driver = await this.#options.openDriver({
        ...(managed.settings as StoreSettings),
        number,
        onEvent: (event) => this.#hear(managed, event),
        confirmPlace: () => this.confirmOwner(number),
        signal: this.#closing.signal,
      });
    } catch (cause) {
      const message = `${location} cannot be used: ${messageOfFailure(cause)}`;
      // A store that has our data is waited for, whatever is wrong with it: the other buckets are
      // to be served.
      const rows = await listStores(this.#options.read);
      const isOurs = rows.some((row) => row.number === number && row.location === location);
      throw isOurs ? new Error(message, { cause }) : new StoreProblem(message, { cause });
    }
    if (this.#closing.signal.aborted) await managed.driver.close();
    return managed.driver;
  }

  /** Says once that the server of a store that was in use is down, and once that it is back. */
  #hear(managed: ManagedStore, event: StoreEvent): void {
    if (event.kind !== 'breaker' || event.state === 'half-open') return;
    const isDown = event.state === 'open' && managed.gate.reason === null;
    if (isDown === managed.isDown) return;
    managed.isDown = isDown;
    const text = isDown ? `is taken for down: ${event.failure?.message}` : 'answers again';
    this.#log(managed.name, text);
    if (!isDown && managed.silence !== null) managed.wake();
  }

  /** Makes sure that the prefix is ours. Throws when it cannot become ours. */
  async #own(managed: ManagedStore, driver: StoreDriver): Promise<void> {
    const { read, sealer, ledger } = this.#options;
    const { number, name, location } = managed;
    const row = (await listStores(read)).find((one) => one.number === number) as StoreRow;
    const claim = await this.#claimOf(managed);
    await ownPlace(driver, { sealer, claim, row, location, read });
    if (row.location === location) return;
    if (row.location !== '') this.#log(name, `has moved from ${row.location} to ${location}`);
    await ledger.maintain({ kind: 'registerStore', name, location });
  }

  /**
   * Shuts the gate of a store whose prefix somebody has taken over, or that has lost its owner
   * mark. Rejects when the store cannot say whose it is.
   */
  async #checkOwner(managed: ManagedStore): Promise<void> {
    const { driver, gate, name, location } = managed;
    if (!driver || gate.reason !== null) return;
    const owner = await this.#lookForOwner(managed, driver);
    if (owner === 'us' || gate.reason !== null) return;
    const reason = explainOwner(owner, location);
    gate.shut(reason);
    managed.reported = reason;
    this.#log(name, `is not available: ${reason}`);
    managed.wake();
  }

  /** A store that answers with a refusal is not served either, and that is logged as well. */
  async #lookForOwner(managed: ManagedStore, driver: StoreDriver): Promise<Owner> {
    try {
      const owner = await lookForOwner(driver, this.#options.sealer, await this.#claimOf(managed));
      if (managed.silence !== null && !managed.isDown) this.#log(managed.name, 'answers again');
      managed.silence = null;
      return owner;
    } catch (error) {
      const reason = reasonOf(error);
      const isNew = managed.silence === null && !managed.isDown && !this.#closing.signal.aborted;
      if (isNew) this.#log(managed.name, `does not serve: ${reason}`);
      managed.silence = reason;
      // So it is asked again sooner than in a minute.
      if (isNew) managed.wake();
      throw error;
    }
  }

  async #claimOf({ number }: ManagedStore): Promise<Claim> {
    return { instance: await readInstance(this.#options.read), store: number };
  }

  #viewLocal(): StoreView {
    const { ready, freeBytes } = this.#options.localState();
    return {
      number: localStore,
      name: localStoreName,
      location: localStoreName,
      isConfigured: true,
      ready,
      canRead: ready,
      reason: ready ? null : 'its folder is not there: is its disk mounted?',
      declared: undeclaredPlace,
      health: { freeBytes },
      detail: {},
    };
  }

  #log(name: string, text: string): void {
    this.#options.log(`store ${name} ${text}`);
  }
}

function view(managed: ManagedStore, journal: JournalState | undefined): StoreView {
  const { number, name, location, gate, settings, driver, silence } = managed;
  const state = driver && joined([driver.state(), ...managed.states.values()]);
  const failure = state?.ready ? null : (state?.lastFailure?.message ?? 'it does not answer');
  const away = gate.reason ?? failure ?? silence;
  const reason = away ?? journal?.reason ?? null;
  const { ready: _, breaker, findings = [], ...detail } = state ?? {};
  const capabilities = Object.fromEntries(findings.map((one) => [one.capability, one.ok]));
  return {
    number,
    name,
    location,
    isConfigured: settings !== null,
    ready: reason === null,
    canRead: away === null,
    reason,
    declared: declaredBy(settings),
    health: state ? { breaker, capabilities, journal: journal?.ready && journal.whole } : {},
    detail: state ? { findings, journal, ...detail } : {},
  };
}

function doorOf({ number, name, settings, gate, driver }: ManagedStore): StoreDoor {
  const opened = gate.reason === null && driver ? driver.opened : null;
  return { number, name, settings, opened, reason: gate.reason ?? '' };
}

/** The driver of this thread says how the store is; what they count and have under way is added. */
function joined([own, ...others]: [StoreState, ...StoreState[]]): StoreState {
  const all = structuredClone(own);
  for (const { requests, inFlight, waiting, hedges, lastFailure, ...counts } of others) {
    all.requests += requests;
    all.inFlight += inFlight;
    all.waiting += waiting;
    for (const end of ['sent', 'won', 'lost'] as const) all.hedges[end] += hedges[end];
    for (const which of ['retries', 'failures'] as const) {
      const sums: Record<string, number> = all[which];
      for (const [cause, n] of Object.entries(counts[which])) sums[cause] = (sums[cause] ?? 0) + n;
    }
    if ((lastFailure?.timeMs ?? 0) > (all.lastFailure?.timeMs ?? 0)) all.lastFailure = lastFailure;
  }
  return all;
}

/** The driver's own reason, where the refusal says only that there is one. */
export function reasonOf(error: unknown): string {
  const { cause } = error as Error;
  return messageOfFailure(cause instanceof Error ? cause : error);
}

/** What the probe of the store found, and which abilities it lacks. */
function describeFindings(driver: StoreDriver): string {
  const { findings } = driver.state();
  const found = findings.filter(({ ok }) => ok).map(({ capability }) => capability);
  const lacking = findings
    .filter(({ ok }) => !ok)
    .map(({ capability, detail }) => `; used without ${capability}: ${detail}`);
  return `${found.join(', ')}${lacking.join('')}`;
}
