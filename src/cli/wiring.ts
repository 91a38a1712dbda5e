// The rooms, put together. What is opened here is closed in reverse order, whether the start fails
// half-way or the gateway stops: requests end first, then what they write to.
import { setTimeout as sleep } from 'node:timers/promises';
import { RecordStore } from '../audit/record-store.ts';
import { defaultTenant, type IdentityChange, rootPrincipal } from '../authz/identity-changes.ts';
import { onlyPrivate } from '../authz/oidc/address-policy.ts';
import { TokenUse, type TokenUses } from '../authz/token-use.ts';
import { BucketCache } from '../catalog/bucket-cache.ts';
import { SettingCache } from '../catalog/setting-cache.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { Turns } from '../core/turns.ts';
import { AlarmTeller } from '../gateway/alarms/alarm-teller.ts';
import { AlteredRecords } from '../gateway/altered-records.ts';
import { readCorsRules } from '../gateway/cors.ts';
import { Distrust } from '../gateway/distrust.ts';
import { LogHead } from '../gateway/log-head.ts';
import { accountOf } from '../gateway/native/change-account.ts';
import { RecordFolding } from '../gateway/record-folding.ts';
import type { Rooms } from '../gateway/rooms.ts';
import { type GatewayOptions, startGateway } from '../gateway/server.ts';
import { partReader } from '../ledger/archive/part-reader.ts';
import { BackendUpkeep } from '../ledger/backend-upkeep.ts';
import { IntentPool } from '../ledger/intent-pool.ts';
import type { Journals } from '../ledger/journal/journals.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { DiskRoom } from '../quota/disk-room.ts';
import type { readLimited } from '../quota/leases/account-tables.ts';
import { LeaseDesk } from '../quota/leases/lease-desk.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import { Rates } from '../quota/rates.ts';
import { BufferPool } from '../tiering/buffer-pool.ts';
import { DigestPool } from '../tiering/digest-pool.ts';
import { ObjectReader } from '../tiering/object-reader.ts';
import { ObjectWriter } from '../tiering/object-writer.ts';
import { ReadLeases } from '../tiering/read-leases.ts';
import { announceSteps } from './clock-steps.ts';
import { type Closers, closeAll, opened } from './closers.ts';
import type { Config } from './config.ts';
import type { DataFolder } from './data-folder.ts';
import { FolderDeepRuns } from './deep-run.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';
import { CheckpointKeeper } from './kept-checkpoint.ts';
import { migrateFolder } from './migrated-folder.ts';
import { connectionsWithin } from './open-files.ts';
import { openLedger, recordUnsealed, stop, tellOperator } from './opened-ledger.ts';
import { announceEndpoint, ensureRootKey, type RootKeyOptions } from './root-key.ts';
import { StorePrices } from './store-prices.ts';
import { startArchiver } from './wired-archive.ts';
import {
  type Backups,
  endBackups,
  openShipping,
  scheduleBackups,
  startBackups,
} from './wired-backup.ts';
import { HealthWatch } from './wired-health.ts';
import { makeInstruments } from './wired-instruments.ts';
import { makeLifecycleWorker } from './wired-lifecycle.ts';
import { announceRefusal, beginSigning } from './wired-log.ts';
import { startProbe } from './wired-probe.ts';
import { watchRooms } from './wired-room-metrics.ts';
import { openSearch } from './wired-search.ts';
import { endSoon, freeBytesOf, type OpenStores, openStores } from './wired-stores.ts';
import { startUpkeep } from './wired-upkeep.ts';

export interface WiredGateway {
  /** How clients on this machine reach it, or the public URL. */
  endpoint: string;
  /** Where its administration is, if that has an address of its own. */
  adminUrl: string | null;
  /** Lets requests finish, writes what is pending, closes everything. */
  close(): Promise<void>;
}

/** Opens and starts everything. Throws `CommandFailure`, and has then closed what it had opened. */
export async function wire(config: Config, folder: DataFolder): Promise<WiredGateway> {
  const closers: Closers = [];
  try {
    return await start(config, folder, closers);
  } catch (error) {
    await closeAll(closers);
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure('failed', `cannot start: ${messageOfFailure(error)}`, error);
  }
}

/** A start waits so long for the journals in S3 stores, in which the log is not served. */
const firstLookMs = 3000;

async function start(config: Config, folder: DataFolder, closers: Closers): Promise<WiredGateway> {
  const prices = new StorePrices(config, Date.now());
  const backups: Backups = {};
  const log = new LogHead((reason) => {
    announceRefusal(reason, ledger);
    endBackups(backups);
  });
  // Alarms that come before it is there are in the database.
  let alarms: AlarmTeller | undefined;
  const { instruments, metrics, meters, logger } = await makeInstruments(config, closers);
  const onAlarms = (all: readonly Alarm[]): void => {
    for (const { percent } of all) metrics.countAlarm(percent);
    alarms?.tell(all);
  };
  const onCheckpoint = keepCheckpoints(folder, closers, log);
  await migrateFolder(config, folder);
  const altered = new AlteredRecords();
  const distrust = new Distrust();
  const kept = { folder, registry: metrics.registry, closers };
  backups.shipping = openShipping(config, {
    ...kept,
    onBackupWanted: () => backups.schedule?.wantNow(),
    // Its failure is told by health.
    onCommitWanted: () => void ledger.tryWriting().catch(() => false),
  });
  const told = { onAlarms, onCheckpoint, onAltered: altered.found };
  const begun = await openLedger(config, { folder, closers, prices, distrust, ...told });
  const { ledger, sealWatch, read, directory, loaded, limited } = begun;
  // Closed after the stores and the journals in them, which it counts for.
  const upkeep = opened(closers, new BackendUpkeep(ledger));
  const parts = { folder, ledger, read, distrust, closers, upkeep };
  const onOlderCopy = (reason: string) => log.refuse(reason);
  const opening = await openStores(config, { ...parts, meters, onOlderCopy });
  // Before anything is signed: what a journal knows and the database does not was signed already.
  await opening.journals.looked(firstLookMs);
  const { logKeys, witnesses } = await beginSigning({ config, folder, ledger, read, head: log });
  closers.push(() => witnesses.close());
  const { sealer, credentialsFile } = folder;
  const { journals } = opening;
  const commit = (change: IdentityChange) => commitRootKey({ ledger, journals }, change);
  const rootKey: RootKeyOptions = { config, directory, sealer, credentialsFile, commit };
  await ensureRootKey(rootKey);

  const write = (uses: TokenUses) => ledger.keepHouse({ kind: 'noteTokenUse', ...uses });
  const books = { ...loaded, tokenUse: opened(closers, new TokenUse({ write })) };
  const { publicUrl, onListening, listenedUrl } = addressOf(config);
  let adminUrl: string | null = null;
  const onAdminListening = (url: string): void => {
    adminUrl = reachable(url);
  };
  const limits = openLimits(parts, limited);
  recordUnsealed(distrust, ledger);
  metrics.watchLog(log, witnesses);
  metrics.watchClock(steadyClock);
  metrics.watchRights(sealWatch);
  closers.push(announceSteps(tellOperator));
  prices.enter(opening.storeList.gates);
  const bookOf: Rooms['bookOf'] = (store) => prices.bookOf(store);
  upkeep.start({ stores: opening.storeList, bookOf });
  const lifecycle = makeLifecycleWorker(config, { ...parts, journals, bookOf, log, metrics });
  const memory = openMemory(config, closers);
  const shareUrl = () => config.shareUrl ?? publicUrl();
  const given = { distrust, bookOf, publicUrl, shareUrl, log, witnesses, lifecycle, ...memory };
  const rooms = furnish(config, { ...parts, ...opening, ...books, ...limits, ...given });
  const usageRollUp = startUpkeep(config, rooms, { ...opening, lifecycle, closers });
  const { archiver, records, search, countMended } = await openRecords(config, rooms, {
    ...parts,
    onAltered: altered.found,
  });
  const recordParts = { archiver, search, countMended };
  watchRooms(metrics.registry, { rooms, folder, ...memory, ...recordParts });
  alarms = await openAlarms(config, parts);
  closers.push(() => endSoon(opening.storeList));
  const { local } = opening;
  const { freeBytesMin } = config;
  backups.schedule = scheduleBackups(config, { ...kept, shipping: backups.shipping });
  if (log.refusal !== null) endBackups(backups);
  const health = new HealthWatch({ rooms, folder, local, backups, sealWatch, freeBytesMin });
  const served = {
    directory,
    folder,
    health,
    closers,
    onListening,
    onAdminListening,
    usageRollUp,
    records,
    altered,
    search,
    alarms,
    metrics,
    instruments,
    logger,
    priceBooks: prices.books,
    logKeys,
  };
  await listen(config, rooms, served);
  await announceEndpoint(rootKey, { endpoint: publicUrl(), adminUrl });
  const measured = { rooms, folder, directory, instruments, closers, endpoint: listenedUrl() };
  startProbe(config, { ...measured, registry: metrics.registry });
  startBackups(backups);
  const close = async () => {
    health.stop();
    await sleep(config.drainMs);
    await closeAll(closers);
  };
  return { endpoint: publicUrl(), adminUrl, close };
}

/** What is to be done with each checkpoint that was signed. */
function keepCheckpoints(
  { keptCheckpointFile }: DataFolder,
  closers: Closers,
  log: LogHead,
): (note: string) => void {
  const onError = (error: unknown) =>
    process.stderr.write(`bursar: the checkpoint was not kept: ${String(error)}\n`);
  const keeper = opened(closers, new CheckpointKeeper(keptCheckpointFile, onError));
  return (note) => {
    log.receive(note);
    if (log.note === note) keeper.keep(note);
  };
}

interface Parts {
  folder: DataFolder;
  distrust: Distrust;
  ledger: Ledger;
  read: Reader;
  upkeep: BackendUpkeep;
  closers: Closers;
}

const deskIntervalMs = 1000;

/** Limits that are kept from memory, as the ledger has them. */
function openLimits(
  { ledger, closers }: Pick<Parts, 'ledger' | 'closers'>,
  limited: Awaited<ReturnType<typeof readLimited>>,
): Pick<Rooms, 'desk' | 'rates'> {
  const desk = new LeaseDesk(ledger, monotonicMs);
  const rates = new Rates();
  for (const { account, limits } of limited) {
    desk.setLimits(account, limits);
    rates.setLimits(account, limits);
  }
  const timer = setInterval(() => {
    rates.keep();
    void desk.keep();
  }, deskIntervalMs);
  timer.unref();
  closers.push(() => {
    clearInterval(timer);
    return desk.close();
  });
  return { desk, rates };
}

type Books = Pick<
  Rooms,
  | 'distrust'
  | 'grants'
  | 'mounts'
  | 'outside'
  | 'revocations'
  | 'readRecording'
  | 'tokenUse'
  | 'desk'
  | 'rates'
  | 'bookOf'
  | 'publicUrl'
  | 'shareUrl'
  | 'log'
  | 'witnesses'
  | 'lifecycle'
>;

interface Memory {
  buffers: BufferPool;
  digests: DigestPool;
}

/** Where bodies are on their way. */
function openMemory({ bufferMemoryBytes: bytesMax }: Config, closers: Closers): Memory {
  const buffers = new BufferPool({ bytesMax });
  return { buffers, digests: opened(closers, new DigestPool({ buffers })) };
}

function furnish(config: Config, parts: Parts & OpenStores & Books & Memory): Rooms {
  const {
    folder,
    ledger,
    read,
    closers: _,
    local: _2,
    stores,
    storeList,
    journals,
    ...others
  } = parts;
  const { buffers, digests, ...books } = others;
  const { keyring } = folder;
  return {
    read,
    keyring,
    buckets: new BucketCache(read),
    cors: new SettingCache(read, 'cors', readCorsRules),
    folding: new RecordFolding(config.refusalRecords),
    bulkTurns: new Turns(),
    ...books,
    ledger,
    journals,
    intents: new IntentPool(ledger),
    writer: new ObjectWriter({
      keyring,
      stores,
      digests,
      buffers,
      inlineBytesMax: config.inlineBytes,
    }),
    reader: new ObjectReader({ keyring, stores, digests, buffers }),
    leases: new ReadLeases(),
    stores: storeList,
    diskRoom: new DiskRoom(freeBytesOf(folder.storeFolder)),
    cutsRevoked: config.revokedDownloads === 'cut',
    region: config.region,
    domains: config.domains ?? [],
    storedPages: config.storedPages,
  };
}

/** Records as they are read, wherever they are, and what moves old ones. */
async function openRecords(
  config: Config,
  rooms: Rooms,
  { folder, read, closers, onAltered }: Parts & { onAltered: (index: number) => void },
) {
  const readPart = partReader(rooms.reader, (store) => rooms.stores.nameOf(store));
  const archiver = startArchiver(config, rooms, { folder, readPart });
  closers.push(() => archiver.stop());
  const records = new RecordStore(read, readPart);
  const found = opened(closers, await openSearch({ folder, read, records, readPart, onAltered }));
  const { search, countMended } = found;
  return { archiver, records, search, countMended };
}

async function openAlarms(config: Config, parts: Parts): Promise<AlarmTeller> {
  const { folder, ledger, read, closers } = parts;
  const policy = onlyPrivate(config.privateWebhooks ?? []);
  const onError = (error: unknown) =>
    process.stderr.write(`bursar: alarms were not told: ${String(error)}\n`);
  const options = { read, sealer: folder.sealer, ledger, policy, onError, onProblem: tellOperator };
  return opened(closers, await AlarmTeller.open(options));
}

interface Listening
  extends Pick<
    GatewayOptions,
    | 'directory'
    | 'onListening'
    | 'usageRollUp'
    | 'records'
    | 'altered'
    | 'search'
    | 'alarms'
    | 'metrics'
    | 'instruments'
    | 'logger'
    | 'priceBooks'
    | 'logKeys'
  > {
  folder: DataFolder;
  closers: Closers;
  health: HealthWatch;
  onAdminListening: (url: string) => void;
}

async function listen(
  config: Config,
  rooms: Rooms,
  { folder, closers, health, onListening, onAdminListening, ...parts }: Listening,
): Promise<void> {
  const { adminListen } = config;
  let place = config.listen;
  const deepRuns = new FolderDeepRuns(config);
  closers.push(() => deepRuns.close());
  try {
    const gateway = await startGateway({
      ...parts,
      rooms,
      deepRuns,
      sealer: folder.sealer,
      rootKeys: folder.rootKeys,
      ...config.listen,
      onListening: (url) => {
        onListening(url);
        place = adminListen ?? place;
      },
      administration: adminListen ? { ...adminListen, onListening: onAdminListening } : null,
      acceptHosts: config.acceptHosts ?? [],
      stallTimeoutMs: config.stallTimeoutMs,
      connectionsMax: connectionsWithin(config.connectionsMax),
      minRate: config.minRate,
      trustedProxies: config.trustedProxies ?? [],
      metricsToken: config.metricsToken,
      serverTiming: config.serverTiming,
      onFatal: (reason) => stop(`the gateway cannot go on, stopping: ${reason}`),
      health: () => health.look(),
    });
    closers.push(() => gateway.close(config.shutdownTimeoutMs));
  } catch (error) {
    const { host, port } = place;
    const reason = messageOfFailure(error);
    throw new CommandFailure('failed', `cannot listen on ${host} port ${port}: ${reason}`, error);
  }
}

/** The gateway itself commits its operator's key; the record says so by naming no access key. */
async function commitRootKey(
  { ledger, journals }: { ledger: Ledger; journals: Journals },
  identity: IdentityChange,
): Promise<void> {
  const change = { kind: 'identity', identity } as const;
  const result = await ledger.commit({
    change,
    charge: null,
    record: {
      action: 'bursar:PutRootKey',
      tenant: defaultTenant,
      principal: rootPrincipal,
      evidence: 'none',
      target: `tenants/${defaultTenant}/principals/${rootPrincipal}`,
      change: accountOf(identity),
      bytesIn: 0,
      bytesOut: 0,
      requestId: newRequestId(),
      source: 'bursar serve',
      status: 200,
    },
  });
  if (!result.ok) throw new Refusal(result.code);
  // The start does not wait for stores that are away.
  void journals.confirmEverywhere(change, result.index);
}

/** How clients reach the gateway, once that is known. */
function addressOf({ publicUrl: given }: Config): Pick<GatewayOptions, 'onListening'> & {
  publicUrl(): string;
  /** From this machine, past proxies. */
  listenedUrl(): string;
} {
  let url = given;
  let listenedUrl = '';
  return {
    publicUrl: () => {
      if (url === undefined) throw new Error('the gateway does not listen yet');
      return url;
    },
    listenedUrl: () => listenedUrl,
    onListening: (listened) => {
      listenedUrl = reachable(listened);
      url ??= listenedUrl;
    },
  };
}

/** An address that stands for all of the machine's is no address to connect to. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}
