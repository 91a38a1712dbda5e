// The S3 stores of a running gateway: each gets its number, is probed and found to be ours, and only
// then its door is opened. Invariants: nothing is written under a prefix before its owner marker
// says that it is this data folder's; a store that cannot be reached keeps its door shut and is
// tried again, without keeping the gateway from its other buckets; a prefix that was taken over, or
// has lost its mark, is left alone with the next journal segment, or within a minute.
import { setTimeout as sleep } from 'node:timers/promises';
import { isStoreUsed, listStores, readInstance, type StoreRow } from '../catalog/stores.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { localStore } from '../core/manifest.ts';
import type { Sealer } from '../core/sealing.ts';
import type { StoreList, StoreView } from '../gateway/store-list.ts';
import type { JournalState } from '../ledger/journal/journal.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { S3Store, S3StoreOptions, StoreEvent } from '../tiering/stores/s3/s3-store.ts';
import type { RemoteStore } from '../tiering/stores/store.ts';
import { StoreGate } from '../tiering/stores/store-gate.ts';
import type { Claim, Owner } from '../tiering/stores/store-owner.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';
import { explainOwner, lookForOwner, ownPlace, StoreProblem } from './store-claims.ts';
import {
  localStoreName,
  locationOf,
  type StoreChoice,
  type StoreSettings,
} from './store-settings.ts';

/** What the gateway needs of a driver. */
export type StoreDriver = RemoteStore & Pick<S3Store, 'state' | 'close'>;

export interface RemoteStoresOptions {
  choice: StoreChoice;
  read: Reader;
  ledger: Pick<Ledger, 'keepHouse'>;
  sealer: Sealer;
  /** `S3Store.open`, in so many words. */
  openDriver: (
    options: StoreSettings & Pick<S3StoreOptions, 'number' | 'onEvent' | 'confirmPlace' | 'signal'>,
  ) => Promise<StoreDriver>;
  localState: () => { ready: boolean; freeBytes: number };
  /** Of the store's journal. */
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

interface Door {
  number: number;
  name: string;
  location: string;
  gate: StoreGate;
  /** Null: the store is not configured. */
  settings: StoreSettings | null;
  /** Null: it was not opened yet. */
  driver: StoreDriver | null;
  /** Its server was taken for down, and the log says so. */
  isDown: boolean;
  /** Why it is not available, as the log says. */
  reported: string | null;
  /** Why it could not say whose it is when it was last asked; null: it could. */
  silence: string | null;
  /** Ends the pause until it is looked after again. */
  wake: () => void;
}

export class RemoteStores implements StoreList {
  readonly defaultName: string;
  readonly #options: RemoteStoresOptions;
  readonly #timing: Timing;
  readonly #doors: Door[] = [];
  readonly #closing = new AbortController();
  readonly #watches: Promise<void>[] = [];

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
      await stores.#makeDoors();
      await stores.#openDoors();
    } catch (error) {
      await stores.close();
      throw error;
    }
    return stores;
  }

  /** All doors, those of stores that are not configured among them. */
  get gates(): RemoteStore[] {
    return this.#doors.map(({ gate }) => gate);
  }

  all(): StoreView[] {
    const { journalState } = this.#options;
    return [this.#viewLocal(), ...this.#doors.map((door) => view(door, journalState(door.number)))];
  }

  numberOf(name: string): number | undefined {
    if (name === localStoreName) return localStore;
    return this.#doors.find((door) => door.name === name && door.settings)?.number;
  }

  nameOf(number: number): string {
    if (number === localStore) return localStoreName;
    return this.#doors.find((door) => door.number === number)?.name ?? String(number);
  }

  /**
   * Resolves when the mark in the store says that it is ours, now. Rejects with Refusal
   * ServiceUnavailable when it does not, and the store's door is shut then, or when the store
   * cannot say. The local store is always ours.
   */
  async confirmOwner(number: number): Promise<void> {
    const door = this.#doors.find((one) => one.number === number);
    if (!door) return;
    await this.#checkOwner(door);
    const { reason } = door.gate;
    if (reason !== null) throw new Refusal('ServiceUnavailable', { cause: new Error(reason) });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#doors.map(({ driver }) => driver?.close()));
    await Promise.all(this.#watches);
  }

  async #makeDoors(): Promise<void> {
    const { read, ledger, choice } = this.#options;
    const known = new Set((await listStores(read)).map(({ name }) => name));
    for (const { name } of choice.stores) {
      if (known.has(name)) continue;
      // Its location is noted when it is found to be ours.
      if ((await ledger.keepHouse({ kind: 'registerStore', name, location: '' })) > 0) continue;
      throw new CommandFailure('failed', `no number is left for the store ${name}`);
    }
    for (const row of await listStores(read)) {
      const { number, name } = row;
      const settings = choice.stores.find((one) => one.name === name) ?? null;
      if (!settings && !(await isStoreUsed(read, number))) continue;
      const reason = settings ? 'it was not reached yet' : 'it is not configured any more';
      this.#doors.push({
        number,
        name,
        location: settings ? locationOf(settings) : row.location,
        gate: new StoreGate({ number, name, reason }),
        settings,
        driver: null,
        isDown: false,
        reported: null,
        silence: null,
        wake: () => {},
      });
      if (!settings) this.#log(name, `is not configured, but buckets are in it (${row.location})`);
    }
  }

  async #openDoors(): Promise<void> {
    const { startMsMax, retryMsMin } = this.#timing;
    await Promise.all(
      this.#doors.map(async (door) => {
        if (!door.settings) return;
        const attempt = this.#tryAdmit(door);
        const late = sleep(startMsMax, null, { signal: this.#closing.signal, ref: false });
        const problem = await Promise.race([attempt, late]);
        if (problem instanceof StoreProblem) {
          throw new CommandFailure('failed', `store ${door.name}: ${problem.message}`, problem);
        }
        this.#watches.push(
          attempt.then((error) => {
            this.#report(door, error);
            return this.#watch(door, retryMsMin);
          }),
        );
      }),
    );
  }

  /** Looks after a store until the end: admits it when it can be, and notices when it is not ours. */
  async #watch(door: Door, firstPauseMs: number): Promise<void> {
    const { watchMs, retryMsMin, retryMsMax } = this.#timing;
    const { signal } = this.#closing;
    for (let pauseMs = firstPauseMs; !signal.aborted; ) {
      const isOpen = door.gate.reason === null;
      await this.#pause(door, isOpen && door.silence === null ? watchMs : pauseMs);
      if (signal.aborted) return;
      // While the store cannot say, its requests are refused by the driver, or by the store.
      if (isOpen) await this.#checkOwner(door).catch(() => {});
      else this.#report(door, await this.#tryAdmit(door));
      const isServed = isOpen && door.silence === null;
      pauseMs = isServed ? retryMsMin : Math.min(pauseMs * 2, retryMsMax);
    }
  }

  async #pause(door: Door, durationMs: number): Promise<void> {
    const woken = new AbortController();
    door.wake = () => woken.abort();
    const signal = AbortSignal.any([this.#closing.signal, woken.signal]);
    await sleep(durationMs, null, { signal, ref: false }).catch(() => null);
  }

  /** Opens the door or says why not. Never rejects. */
  async #tryAdmit(door: Door): Promise<Error | null> {
    try {
      await this.#admit(door);
      return null;
    } catch (error) {
      door.gate.shut(reasonOf(error));
      return error as Error;
    }
  }

  /** Says why a store was not admitted, once for each reason. */
  #report(door: Door, error: Error | null): void {
    const reason = error && reasonOf(error);
    if (reason !== null && reason !== door.reported && !this.#closing.signal.aborted) {
      this.#log(door.name, `is not available: ${reason} (${door.location})`);
    }
    door.reported = reason;
  }

  async #admit(door: Door): Promise<void> {
    const driver = await this.#openDriver(door);
    const { ready, lastFailure } = driver.state();
    if (!ready) throw new Error(lastFailure?.message ?? 'it does not answer');
    await this.#own(door, driver);
    door.gate.open(driver);
    this.#log(door.name, `is ready: ${describeFindings(driver)} (${door.location})`);
  }

  async #openDriver(door: Door): Promise<StoreDriver> {
    if (door.driver) return door.driver;
    const { number, location } = door;
    try {
      door.driver = await this.#options.openDriver({
        ...(door.settings as StoreSettings),
        number,
        onEvent: (event) => this.#hear(door, event),
        confirmPlace: () => this.confirmOwner(number),
        signal: this.#closing.signal,
      });
    } catch (cause) {
      const message = `${location} cannot be used: ${messageOfFailure(cause)}`;
      // One that has our data is waited for, whatever it is: the others are to be served.
      const rows = await listStores(this.#options.read);
      const isOurs = rows.some((row) => row.number === number && row.location === location);
      throw isOurs ? new Error(message, { cause }) : new StoreProblem(message, { cause });
    }
    if (this.#closing.signal.aborted) await door.driver.close();
    return door.driver;
  }

  /** Says once that the server of a store that was in use is down, and once that it is back. */
  #hear(door: Door, event: StoreEvent): void {
    if (event.kind !== 'breaker' || event.state === 'half-open') return;
    const isDown = event.state === 'open' && door.gate.reason === null;
    if (isDown === door.isDown) return;
    door.isDown = isDown;
    const text = isDown ? `is taken for down: ${event.failure?.message}` : 'answers again';
    this.#log(door.name, text);
    if (!isDown && door.silence !== null) door.wake();
  }

  /** Makes sure that the prefix is ours. Throws when it is not to be. */
  async #own(door: Door, driver: StoreDriver): Promise<void> {
    const { read, sealer, ledger } = this.#options;
    const { number, name, location } = door;
    const row = (await listStores(read)).find((one) => one.number === number) as StoreRow;
    const claim = await this.#claimOf(door);
    await ownPlace(driver, { sealer, claim, row, location, read });
    if (row.location === location) return;
    if (row.location !== '') this.#log(name, `has moved from ${row.location} to ${location}`);
    await ledger.keepHouse({ kind: 'registerStore', name, location });
  }

  /**
   * Shuts the door of a prefix that somebody has taken over, or that has lost its mark. Rejects
   * when the store cannot say whose it is.
   */
  async #checkOwner(door: Door): Promise<void> {
    const { driver, gate, name, location } = door;
    if (!driver || gate.reason !== null) return;
    const owner = await this.#lookForOwner(door, driver);
    if (owner === 'us' || gate.reason !== null) return;
    const reason = explainOwner(owner, location);
    gate.shut(reason);
    door.reported = reason;
    this.#log(name, `is not available: ${reason}`);
    door.wake();
  }

  /** A store that answers and refuses is not served either: that is said as well. */
  async #lookForOwner(door: Door, driver: StoreDriver): Promise<Owner> {
    try {
      const owner = await lookForOwner(driver, this.#options.sealer, await this.#claimOf(door));
      if (door.silence !== null && !door.isDown) this.#log(door.name, 'answers again');
      door.silence = null;
      return owner;
    } catch (error) {
      const reason = reasonOf(error);
      const isNew = door.silence === null && !door.isDown && !this.#closing.signal.aborted;
      if (isNew) this.#log(door.name, `does not serve: ${reason}`);
      door.silence = reason;
      // It is asked again sooner than in a minute.
      if (isNew) door.wake();
      throw error;
    }
  }

  async #claimOf({ number }: Door): Promise<Claim> {
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
      health: { freeBytes },
      detail: {},
    };
  }

  #log(name: string, text: string): void {
    this.#options.log(`store ${name} ${text}`);
  }
}

function view(door: Door, journal: JournalState | undefined): StoreView {
  const { number, name, location, gate, settings, driver, silence } = door;
  const state = driver?.state();
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
    health: state ? { breaker, capabilities, journal: journal?.ready && journal.whole } : {},
    detail: state ? { findings, journal, ...detail } : {},
  };
}

/** The driver's own reason, where a refusal only says that there is one. */
export function reasonOf(error: unknown): string {
  const { cause } = error as Error;
  return messageOfFailure(cause instanceof Error ? cause : error);
}

/** What the probe found, and what the store is used without. */
function describeFindings(driver: StoreDriver): string {
  const { findings } = driver.state();
  const found = findings.filter(({ ok }) => ok).map(({ capability }) => capability);
  const lacking = findings
    .filter(({ ok }) => !ok)
    .map(({ capability, detail }) => `; used without ${capability}: ${detail}`);
  return `${found.join(', ')}${lacking.join('')}`;
}
