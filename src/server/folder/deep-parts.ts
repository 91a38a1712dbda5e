// What `bursar verify deep` reads: one state of a database, the stores beside it, and what was
// signed of its log. Invariant: nothing is written, so that a gateway may run meanwhile.
import type { Checkpoint } from '../../audit/log/checkpoint.ts';
import { listCosigned } from '../../audit/log/cosignatures.ts';
import { listLogKeys } from '../../audit/log/log-keys.ts';
import type { NoteKey } from '../../audit/log/note.ts';
import { RecordStore } from '../../audit/record-store.ts';
import { guarded, tellingReader } from '../../audit/verify/guard.ts';
import type { Difference } from '../../audit/verify/record-fields.ts';
import { verifyCheckpoint } from '../../audit/verify/signed-checkpoint.ts';
import { TenantSecrets } from '../../authz/tenant-keys.ts';
import { listReadable as listCopies } from '../../catalog/extent-copies.ts';
import { isLost } from '../../catalog/lost-versions.ts';
import { listClassStores, listPackStores, listStores } from '../../catalog/stores.ts';
import { CommandFailure } from '../../core/command-failure.ts';
import { type OpenDatabase, openDatabase, type Reader } from '../../core/database.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { localStore } from '../../core/manifest.ts';
import type { VerifierServices } from '../../gateway/data-verifier.ts';
import { partReader, readingOnce } from '../../ledger/archive/part-reader.ts';
import { schemaVersion } from '../../ledger/migrations/steps.ts';
import { BufferPool } from '../../tiering/buffer-pool.ts';
import { DigestPool } from '../../tiering/digest-pool.ts';
import { ObjectReader } from '../../tiering/object-reader.ts';
import { ReadLeases } from '../../tiering/read-leases.ts';
import type { StoreDriver } from '../../tiering/stores/driver.ts';
import { LocalStore } from '../../tiering/stores/local-store.ts';
import { Stores } from '../../tiering/stores/stores.ts';
import { chooseStores } from '../settings/store-settings.ts';
import { type DataFolder, type DataSettings, openDataFolder } from './data-folder.ts';
import { readGivenFile, readTrust } from './given-trust.ts';
import { readKeptCheckpoint } from './kept-checkpoint.ts';
import { checkLocalPlace } from './local-place.ts';
import { openStore } from './opened-store.ts';

export interface DeepParts {
  folder: DataFolder;
  /** A connection for the comparison alone. */
  database: OpenDatabase;
  /**
   * The checkpoint that was kept beside the database, read before the database was; null: none was.
   */
  kept: string | null;
  /** Reads records through a connection of this database. */
  openStore: (read: Reader) => RecordStore;
  /** The database as it is now, and the stores. */
  services: VerifierServices;
  /** The buckets in stores that can be read. */
  buckets: { tenant: string; name: string }[];
  /** Of the stores that can be read. */
  openNumbers: readonly number[];
  /** Names of stores that are not configured and have buckets, classes or old records. */
  storesSkipped: string[];
  close(): Promise<void>;
}

type StoreConfig = Parameters<typeof chooseStores>[0];

const cacheKib = 64 * 1024;
const buffersBytes = 32 * 1024 * 1024;

/** Throws `CommandFailure`. */
export async function openDeepParts(config: DataSettings & StoreConfig): Promise<DeepParts> {
  const folder = await openDataFolder(config, { isShared: true });
  const closers: (() => unknown)[] = [() => folder.release()];
  const close = async (): Promise<void> => {
    for (let next = closers.pop(); next; next = closers.pop()) await next();
  };
  try {
    const open = () => {
      const db = openDatabase(folder.databaseFile, { readonly: true, cacheKib });
      closers.push(() => db.close());
      return db;
    };
    const now = open();
    checkSchema(now);
    const remotes = await openRemotes(config, now.tx, closers);
    // A gateway may sign more while this runs.
    const kept = readKeptCheckpoint(folder.keptCheckpointFile);
    const database = open();
    const buffers = new BufferPool({ bytesMax: buffersBytes });
    const digests = new DigestPool({ buffers });
    closers.push(() => digests.close());
    await checkLocalPlace(now.tx, folder.storeFolder);
    const stores = new Stores(await LocalStore.open(folder.storeFolder), remotes);
    const { keyring, sealer } = folder;
    keyring.useSecrets((await TenantSecrets.read(now.tx, sealer)).find);
    // What is found of a copy here is the gateway's to find, too, and to put right.
    const list = (id: Buffer) => listCopies(now.tx, id);
    const copies = { list, good: list, suspect: () => {} };
    const reader = new ObjectReader({ keyring, stores, digests, buffers, copies });
    const losses = knownLosses(now.tx);
    const services = { read: now.tx, keyring, reader, copies, losses, leases: new ReadLeases() };
    const names = new Map((await listStores(now.tx)).map(({ number, name }) => [number, name]));
    const readPart = partReader(reader, (number) => names.get(number) ?? stores.local.name);
    const isOpen = (number: number): boolean => numbersOf(remotes).includes(number);
    const readPartOnce = readingOnce(readPart, isOpen);
    const openStore = (read: Reader) => new RecordStore(read, readPartOnce);
    const readable = await listReadable(now.tx, remotes);
    return { folder, database, kept, openStore, services, ...readable, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Bytes that the gateway has found lost are known; those that it has not yet are a difference, and
 * so is a row that is not authentic, whatever is said to be lost.
 */
function knownLosses(read: Reader): VerifierServices['losses'] {
  return {
    explainPlace: async ({ seq }, error) => {
      const isOfBytes = error instanceof IntegrityError && error.extentId !== null;
      return isOfBytes && (await isLost(read, seq)) ? new Refusal('BursarObjectLost') : error;
    },
    noteWhole: async () => {},
  };
}

/** Throws `CommandFailure` for a database that has other tables than this Bursar's. */
function checkSchema(database: OpenDatabase): void {
  const schema = database.userVersion();
  if (schema === schemaVersion) return;
  const what =
    schema < schemaVersion
      ? 'bring it up to date first, by a start or by bursar database migrate'
      : 'it needs a newer Bursar';
  const found = `the database has schema ${schema}, and this Bursar's is ${schemaVersion}`;
  const message = `${found}: ${what}`;
  throw new CommandFailure('failed', message);
}

/** By the numbers that the database gave their names. */
async function openRemotes(
  config: StoreConfig,
  read: Reader,
  closers: (() => unknown)[],
): Promise<StoreDriver[]> {
  const known = await listStores(read);
  const opened: StoreDriver[] = [];
  for (const settings of chooseStores(config).stores) {
    const number = known.find(({ name }) => name === settings.name)?.number;
    if (number === undefined) continue;
    const store = await openStore({ ...settings, number });
    closers.push(() => store.close());
    opened.push(store);
  }
  return opened;
}

function numbersOf(remotes: readonly StoreDriver[]): number[] {
  return [localStore, ...remotes.map(({ number }) => number)];
}

async function listReadable(
  read: Reader,
  remotes: readonly StoreDriver[],
): Promise<Pick<DeepParts, 'buckets' | 'storesSkipped' | 'openNumbers'>> {
  const numbers = numbersOf(remotes);
  const buckets = await read.all<{ tenant: string; name: string; store: number }>(
    'SELECT tenant, name, store FROM buckets ORDER BY id',
  );
  const used = [
    ...buckets.map(({ store }) => store),
    ...(await listPackStores(read)),
    ...(await listClassStores(read)),
  ];
  const skipped = new Set(used.filter((one) => !numbers.includes(one)));
  const names = (await listStores(read)).filter(({ number }) => skipped.has(number));
  return {
    buckets: buckets.filter(({ store }) => !skipped.has(store)),
    storesSkipped: names.map(({ name }) => name),
    openNumbers: numbers,
  };
}

export interface Signed {
  checkpoints: (Checkpoint & { from: string })[];
  /** What claims to be signed but is not. */
  refused: Difference[];
}

/**
 * What was signed of the log: the checkpoint that is kept beside the database, those that witnesses
 * have cosigned, and those that the caller kept.
 */
export async function readSigned(
  {
    folder,
    services,
    kept,
    openStore,
  }: Pick<DeepParts, 'folder' | 'services' | 'kept' | 'openStore'>,
  given: { files: readonly string[]; keys: readonly string[] },
): Promise<Signed> {
  const signed: Signed = { checkpoints: [], refused: [] };
  const tell = (difference: Difference) => signed.refused.push(difference);
  const read = tellingReader(services.read, tell);
  const own: NoteKey[] = [];
  await guarded(tell, 'keys of the log', async () => {
    for (const { key } of await listLogKeys(read)) own.push(key);
  });
  const keys = given.keys.length > 0 ? [...readTrust({ key: [...given.keys] }).keys] : own;
  // What was signed before the log was renamed on purpose says nothing of this log.
  const origin = own[0]?.name;
  await guarded(tell, folder.keptCheckpointFile, async () => {
    const isOfOther = own.length === 0 && (await isRebuilt(openStore(read)));
    if (kept === null || isOfOther) return;
    enter(signed, keys, { from: folder.keptCheckpointFile, note: kept, origin });
  });
  await guarded(tell, 'cosigned checkpoints', async () => {
    for (const { witness, note } of await listCosigned(read)) {
      enter(signed, keys, { from: `the checkpoint that ${witness} cosigned`, note, origin });
    }
  });
  for (const file of given.files) {
    enter(signed, keys, { from: file, note: readGivenFile(file).toString() });
  }
  return signed;
}

/**
 * The log of a rebuilt database began anew and is signed once it is served. What was signed before
 * is of another log.
 */
async function isRebuilt(store: RecordStore): Promise<boolean> {
  const first = await store.readRecord(0);
  return first?.opened != null && JSON.parse(first.opened.record).action === 'bursar:Rebuild';
}

function enter(
  signed: Signed,
  keys: readonly NoteKey[],
  { from, note, origin }: { from: string; note: string; origin?: string | undefined },
): void {
  const found = verifyCheckpoint(note, { keys });
  if (!found.ok) signed.refused.push({ where: from, what: found.why });
  else if (origin === undefined || found.origin === origin) {
    const { size, root } = found;
    signed.checkpoints.push({ origin: found.origin, size, root, from });
  }
}
