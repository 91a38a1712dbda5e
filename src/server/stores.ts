// The stores and their journals, put together.
import { listStores } from '../catalog/stores.ts';
import type { StoreList } from '../gateway/store-list.ts';
import { BackendUpkeep } from '../ledger/backend-upkeep.ts';
import { Journal } from '../ledger/journal/journal.ts';
import { Journals } from '../ledger/journal/journals.ts';
import { freeBytesIn } from '../quota/disk-room.ts';
import { LocalStore } from '../tiering/stores/local-store.ts';
import { MadeFolders } from '../tiering/stores/made-folders.ts';
import { Stores } from '../tiering/stores/stores.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import type { DataFolder } from './folder/data-folder.ts';
import { checkLocalPlace } from './folder/local-place.ts';
import type { OpenLedger } from './opened-ledger.ts';
import { RemoteStores, reasonOf } from './remote-stores.ts';
import { chooseStores } from './settings/store-settings.ts';
import type { SharedMemory } from './threads/links.ts';
import { connectionsOf } from './threads/share.ts';
import { storeWordsOf } from './threads/store-words.ts';

/** How long a start waits for the journals in S3 stores. The log is not served meanwhile. */
const firstLookMs = 3000;
/** How long the stores may take to end once all requests have ended: as long as a journal waits. */
const storeEndMsMax = 10_000;

export interface OpenStores {
  local: LocalStore;
  stores: Stores;
  storeList: RemoteStores;
  journals: Journals;
  /** Not started yet: it commits, which must wait until the log is signed. */
  upkeep: BackendUpkeep;
}

/** Opens the local store, those that are configured, and their journals. */
export async function openStores(
  { config, folder, closers, meters, log }: Base,
  { ledger, read, prices, head }: OpenLedger,
  { madeFolders, storeWords }: Pick<SharedMemory, 'madeFolders' | 'storeWords'>,
): Promise<OpenStores> {
  // Closed after the stores and the journals in them, which it counts for.
  const upkeep = opened(closers, new BackendUpkeep(ledger));
  await checkLocalPlace(read, folder.storeFolder);
  const local = await LocalStore.open(folder.storeFolder, {
    meter: meters.local,
    made: new MadeFolders(madeFolders),
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
      const { openDriver } = await import('../tiering/stores/drivers.ts');
      const { number, name } = options;
      return openDriver({
        ...options,
        tally: upkeep.tallyOf(number),
        meter: meters.ofRemote(name),
        breakerState: storeWordsOf(storeWords, number).breaker,
        connectionsMax: connectionsOf(options, config.httpThreads),
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
    // Changes of identities meanwhile are told by a snapshot when the store is back.
    if (inUse.has(name)) numbersInUse.add(number);
    else await ledger.maintain({ kind: 'endTelling', store: number });
  }
  const onOlderCopy = (reason: string) => head.refuse(reason);
  const newestNote = () => head.note;
  const byNumber = new Map<number, Journal>();
  for (const store of storeList.gates) {
    const named = `the journal of store ${store.name}`;
    const onError = (error: unknown) => log.warn(named, reasonOf(error));
    const onRepaired = () => log.note(`${named} is whole again, by a snapshot`);
    const confirmOwner = () => storeList.confirmOwner(store.number);
    const { keyring } = folder;
    const { journalWithKeys: withKeys } = config;
    const told = { onError, onRepaired, onOlderCopy, newestNote };
    const { refusals } = storeWordsOf(storeWords, store.number);
    const options = { store, read, ledger, keyring, confirmOwner, ...told, withKeys, refusals };
    byNumber.set(store.number, await Journal.open(options));
  }
  journals = opened(closers, new Journals(byNumber, (store) => numbersInUse.has(store)));
  prices.enter(storeList.gates);
  // Before anything is signed: a journal may show that the database is an older copy.
  await journals.looked(firstLookMs);
  return { local, stores: new Stores(local, storeList.gates), storeList, journals, upkeep };
}

/** A sweep that hangs in a store must not keep a gateway from stopping. The next start goes on. */
export function endSoon(storeList: RemoteStores): void {
  setTimeout(() => void storeList.close(), storeEndMsMax).unref();
}

/** Leaves out places and reasons, which `bursar store list` shows. */
export function healthOf(stores: StoreList): Record<string, object> {
  return Object.fromEntries(
    stores.all().map(({ name, ready, health }) => [name, { ready, ...health }]),
  );
}

function storeState(folder: DataFolder, local: LocalStore): { ready: boolean; freeBytes: number } {
  return { ready: local.isThere(), freeBytes: freeBytesIn(folder.storeFolder) };
}
