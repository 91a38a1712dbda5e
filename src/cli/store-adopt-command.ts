// `bursar store adopt`: an operator confirms that a place without the mark of its owner is the
// store's, as after a restore of its bucket. It works beside a running gateway, which finds the
// mark within half a minute. Invariants: a mark that is there is never replaced; the database is
// only read; and a place without the data is adopted only when that was asked for.
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { listStores, readInstance, readJournal } from '../catalog/stores.ts';
import { afterwards } from '../core/closing.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { openDatabase, type Reader } from '../core/database.ts';
import { findNewestGeneration, listGenerations } from '../ledger/journal/generation.ts';
import { type DataFolder, dataFiles, openDataFolder } from '../server/folder/data-folder.ts';
import { openStore } from '../server/folder/opened-store.ts';
import { explainOwner } from '../server/folder/store-claims.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { chooseStores, locationOf, type StoreSettings } from '../server/settings/store-settings.ts';
import type { RemoteStore } from '../tiering/stores/store.ts';
import { claimStore, findOwner } from '../tiering/stores/store-owner.ts';
import { print, printJson } from './output.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';

const cacheKib = 4096;

export function addStoreAdoptCommand(program: Command): void {
  const stores = program.commands.find((one) => one.name() === 'store');
  if (!stores) throw new Error('there is no group store');
  const command = stores
    .command('adopt')
    .description('take a place that has lost the mark of its owner for the store NAME again')
    .argument('<name>', 'the store, as it is configured')
    .option('--without-data', "even if the store's journal is not there: its data is lost")
    .option('--json', 'answer with JSON');
  addSettingFlags(command, placeSettings).action(
    async (name: string, given: { withoutData?: boolean; json?: boolean } & Flags) => {
      const { withoutData = false, json, ...flags } = given;
      const adopted = await adopt(loadConfig(flags), name, withoutData);
      if (json) printJson(adopted);
      else printAdopted(adopted);
    },
  );
}

interface Adopted {
  store: string;
  location: string;
  /** False: it had the mark. */
  isMarked: boolean;
  /** The generation of the journal that is there; null: none, or it was not looked for. */
  journal: string | null;
}

function printAdopted({ store, location, isMarked, journal }: Adopted): void {
  if (!isMarked) {
    print(`${location} is the store ${store}: nothing was changed`);
    return;
  }
  if (journal !== null) {
    print(`its journal ${journal} is there; bursar verify data says which objects are`);
  }
  print(`${location} is the store ${store} again`);
}

async function adopt(config: Config, name: string, withoutData: boolean): Promise<Adopted> {
  const settings = chooseStores(config).stores.find((one) => one.name === name);
  if (!settings) throw new CommandFailure('usage', `no S3 store ${name} is configured`);
  const { databaseFile } = dataFiles(config.data);
  if (!existsSync(databaseFile)) throw new CommandFailure('failed', `${databaseFile} is missing`);
  using folder = await openDataFolder(config, { isShared: true });
  using db = openDatabase(databaseFile, { readonly: true, cacheKib });
  return await adoptPlace({ folder, read: db.tx, settings, withoutData });
}

interface Adoption {
  folder: DataFolder;
  read: Reader;
  settings: StoreSettings;
  withoutData: boolean;
}

async function adoptPlace(adoption: Adoption): Promise<Adopted> {
  const { folder, read, settings, withoutData } = adoption;
  const { name } = settings;
  const location = locationOf(settings);
  const row = (await listStores(read)).find((one) => one.name === name);
  if (!row) throw new CommandFailure('failed', `the data folder knows no store ${name}`);
  const claim = { instance: await readInstance(read), store: row.number };
  const store = await openStore({ ...settings, number: row.number });
  await using _store = afterwards(() => store.close());
  const owner = await findOwner(store, folder.sealer, claim);
  if (owner === 'us') return { store: name, location, isMarked: false, journal: null };
  if (owner !== 'nobody') throw new CommandFailure('failed', explainOwner(owner, location));
  const journal = await checkData({ folder, read, withoutData }, store, location);
  const now = await claimStore(store, folder.sealer, claim);
  if (now !== 'us') throw new CommandFailure('failed', explainOwner(now, location));
  return { store: name, location, isMarked: true, journal };
}

/** Gives the journal that the database writes. Throws unless it is there, or need not be. */
async function checkData(
  { folder, read, withoutData }: Omit<Adoption, 'settings'>,
  store: RemoteStore,
  location: string,
): Promise<string | null> {
  const { generation } = await readJournal(read, store.number);
  const { generations } = await listGenerations(store);
  const newest = await findNewestGeneration(store, folder.keyring, generations, store.number);
  const found = newest?.generation;
  if (found !== undefined && found !== generation) {
    const message = `the journal ${found} in ${location} is not of this database`;
    throw new CommandFailure('failed', `${message}, whose journal is ${generation ?? 'not begun'}`);
  }
  if (found !== undefined) return found;
  if (withoutData) return null;
  const message = `${location} has not the store's journal ${generation}`;
  throw new CommandFailure('failed', `${message}: add --without-data if its data is lost`);
}
