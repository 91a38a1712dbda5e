// The stores and their journals, put together.
import { statfsSync } from 'node:fs';
import { listStores } from '../catalog/stores.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import type { StoreList } from '../gateway/store-list.ts';
import type { OperatorLog } from '../instruments/operator-log.ts';
import type { StoreMeters } from '../instruments/store-meter.ts';
import type { BackendUpkeep } from '../ledger/backend-upkeep.ts';
import { Journal } from '../ledger/journal/journal.ts';
import { Journals } from '../ledger/journal/journals.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { LocalStore } from '../tiering/stores/local-store.ts';
import { Stores } from '../tiering/stores/stores.ts';
import { type Closers, opened } from './closers.ts';
import type { DataFolder } from './folder/data-folder.ts';
import { checkLocalPlace } from './folder/local-place.ts';
import { RemoteStores, reasonOf } from './remote-stores.ts';
import type { Config } from './settings/config.ts';
import { chooseStores } from './settings/store-settings.ts';

/** For what stores are still told once all requests have ended: as long as a journal waits. */
const storeEndMsMax = 10_000;

export interface OpenStores {
  local: LocalStore;
  stores: Stores;
  storeList: RemoteStores;
  journals: Journals;
}

/** Opens the local store, those that are configured, and their journals. */
export async function openStores(
  config: Config,
  parts: {
    folder: DataFolder;
    ledger: Ledger;
    read: Reader;
    upkeep: BackendUpkeep;
    meters: StoreMeters;
    log: OperatorLog;
    closers: Closers;
    /** Called where a store knows more than the database, and why that is so. */
    onOlderCopy: (reason: string) => void;
    /** The newest signed checkpoint of the log; null: there is none, or it is signed no more. */
    newestNote: () => string | null;
  },
): Promise<OpenStores> {
  const { folder, ledger, read, closers, upkeep, meters, log } = parts;
  const { onOlderCopy, newestNote } = parts;
  await checkLocalPlace(read, folder.storeFolder);
  const local = await LocalStore.open(folder.storeFolder, {
    meter: meters.local,
    onFatal: (error) => log.stop(`fsync failed, so what is stored is unknown; stopping. ${error}`),
  });
  await local.removeTemporary();
  let journals = new Journals(new Map());
  const storeList = await RemoteStores.open({
    choice: chooseStores(config),
    read,
    ledger,
    sealer: folder.sealer,
    openDriver: async (options) => {
      const { S3Store } = await import('../tiering/stores/s3/s3-store.ts');
      const { number, name } = options;
      return S3Store.open({
        ...options,
        tally: upkeep.tallyOf(number),
        meter: meters.ofRemote(name),
      });
    },
    localState: () => storeState(folder, local),
    journalState: (number) => journals.state(number),
    log: (line) => log.warn(line),
  });
  opened(closers, storeList);
  const inUse = new Set(chooseStores(config).stores.map(({ name }) => name));
  const numbersInUse = new Set<number>();
  for (const { number, name } of await listStores(read)) {
    // What is told of identities meanwhile is told by a snapshot when the store is back.
    if (inUse.has(name)) numbersInUse.add(number);
    else await ledger.maintain({ kind: 'endTelling', store: number });
  }
  const byNumber = new Map<number, Journal>();
  for (const store of storeList.gates) {
    const named = `the journal of store ${store.name}`;
    const onError = (error: unknown) => log.warn(named, reasonOf(error));
    const onRepaired = () => log.note(`${named} is whole again, by a snapshot`);
    const confirmOwner = () => storeList.confirmOwner(store.number);
    const { keyring } = folder;
    const { journalWithKeys: withKeys } = config;
    const told = { onError, onRepaired, onOlderCopy, newestNote };
    const options = { store, read, ledger, keyring, confirmOwner, ...told, withKeys };
    byNumber.set(store.number, await Journal.open(options));
  }
  journals = opened(closers, new Journals(byNumber, (store) => numbersInUse.has(store)));
  return { local, stores: new Stores(local, storeList.gates), storeList, journals };
}

/**
 * What hangs in a store must not keep a gateway that stops: a sweep goes on after the next start.
 */
export function endSoon(storeList: RemoteStores): void {
  setTimeout(() => void storeList.close(), storeEndMsMax).unref();
}

/** What the store can still take, asked at most once a second unless it is to be fresh. */
export function freeBytesOf(path: string): (isFresh?: boolean) => number {
  let askedMs = Number.NEGATIVE_INFINITY;
  let freeBytes = 0;
  return (isFresh = false) => {
    const now = monotonicMs();
    if (isFresh || now - askedMs > 1000) {
      freeBytes = freeBytesIn(path);
      askedMs = now;
    }
    return freeBytes;
  };
}

/** None in a folder that is not there. */
function freeBytesIn(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

/** Without places and reasons, which `bursar store list` has. */
export function healthOf(stores: StoreList): Record<string, object> {
  return Object.fromEntries(
    stores.all().map(({ name, ready, health }) => [name, { ready, ...health }]),
  );
}

function storeState(folder: DataFolder, local: LocalStore): { ready: boolean; freeBytes: number } {
  return { ready: local.isThere(), freeBytes: freeBytesIn(folder.storeFolder) };
}
