// The rooms, put together. What is opened here is closed in reverse order, whether the start fails
// half-way or the gateway stops: requests end first, then what they write to.

import { setTimeout as sleep } from 'node:timers/promises';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { RecordStore } from '../audit/record-store.ts';
import { onlyPrivate } from '../authz/oidc/address-policy.ts';
import { TokenUse, type TokenUses } from '../authz/token-use.ts';
import { monotonicMs } from '../core/clock.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { Turns } from '../core/turns.ts';
import { AlarmNotifier } from '../gateway/alarms/alarm-notifier.ts';
import { AlteredRecords } from '../gateway/altered-records.ts';
import type { CorsRules } from '../gateway/cors.ts';
import { Distrust } from '../gateway/distrust.ts';
import { LogHead } from '../gateway/log-head.ts';
import { RecordFolding } from '../gateway/record-folding.ts';
import { type GatewayOptions, startGateway } from '../gateway/server.ts';
import type { RequestServices, Services } from '../gateway/services.ts';
import type { Operator, OperatorLog } from '../instruments/operator-log.ts';
import { partReader } from '../ledger/archive/part-reader.ts';
import { BackendUpkeep } from '../ledger/backend-upkeep.ts';
import type { IdentityChange } from '../ledger/commands/identities.ts';
import { accountOf } from '../ledger/commands/index.ts';
import { IntentPool } from '../ledger/intent-pool.ts';
import type { Journals } from '../ledger/journal/journals.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { DiskRoom } from '../quota/disk-room.ts';
import { LeaseDesk } from '../quota/leases/lease-desk.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import { Rates } from '../quota/rates.ts';
import type { State } from '../state/state.ts';
import { BufferPool } from '../tiering/buffer-pool.ts';
import { DigestPool } from '../tiering/digest-pool.ts';
import { ObjectReader } from '../tiering/object-reader.ts';
import { ObjectWriter } from '../tiering/object-writer.ts';
import { ReadLeases } from '../tiering/read-leases.ts';
import { startProbe } from './background-probe.ts';
import {
  type Backups,
  endBackups,
  openShipping,
  scheduleBackups,
  startBackups,
} from './backups.ts';
import { announceSteps } from './clock-steps.ts';
import { type Closers, closeAll, opened } from './closers.ts';
import { FolderDeepRuns } from './deep-run.ts';
import type { DataFolder } from './folder/data-folder.ts';
import { CheckpointKeeper } from './folder/kept-checkpoint.ts';
import { migrateFolder } from './folder/migrated-folder.ts';
import { StorePrices } from './folder/store-prices.ts';
import { HealthWatch } from './health-watch.ts';
import { makeInstruments } from './instruments.ts';
import { announceRefusal, beginSigning } from './log-signing.ts';
import { connectionsWithin } from './open-files.ts';
import { openLedger, recordUnsealed } from './opened-ledger.ts';
import { announceEndpoint, ensureRootKey, type RootKeyOptions } from './root-key.ts';
import { openSearch } from './search.ts';
import { watchServices } from './service-metrics.ts';
import type { Config } from './settings/config.ts';
import { endSoon, freeBytesOf, type OpenStores, openStores } from './stores.ts';
import { makeLifecycleWorker, startArchiver, startUpkeep } from './upkeep.ts';

export interface RunningServer {
  /** How clients on this machine reach it, or the public URL. */
  endpoint: string;
  /** Where its administration is, if that has an address of its own. */
  adminUrl: string | null;
  log: OperatorLog;
  /** Lets requests finish, writes what is pending, closes everything. */
  close(): Promise<void>;
}

/** Opens and starts everything. Throws `CommandFailure`, and has then closed what it had opened. */
export async function startServer(
  config: Config,
  { folder, operator }: { folder: DataFolder; operator: Operator },
): Promise<RunningServer> {
  const closers: Closers = [];
  try {
    return await start(config, { folder, operator, closers });
  } catch (error) {
    await closeAll(closers);
    if (error instanceof CommandFailure) throw error;
    const reason = `${messageOfFailure(error)}${adviceOn(error)}`;
    throw new CommandFailure('failed', `cannot start: ${reason}`, error);
  }
}

/** What to do about a row that is not what was stored, and that no gateway starts without. */
function adviceOn(error: unknown): string {
  if (!(error instanceof UnsealedRow)) return '';
  return ': the database was edited: see "bursar database check" and docs/admin/edited-rights.md';
}

/** A start waits so long for the journals in S3 stores, in which the log is not served. */
const firstLookMs = 3000;

interface Ground {
  folder: DataFolder;
  operator: Operator;
  closers: Closers;
}

async function start(
  config: Config,
  { folder, operator, closers }: Ground,
): Promise<RunningServer> {
  const prices = new StorePrices(config, Date.now());
  const backups: Backups = {};
  const log = new LogHead((reason) => {
    announceRefusal(reason, { ledger, operatorLog });
    endBackups(backups);
  });
  // Alarms that come before it is there are in the database.
  let alarms: AlarmNotifier | undefined;
  const made = await makeInstruments(config, { operator, closers });
  const { instruments, metrics, meters, logger, log: operatorLog } = made;
  const onAlarms = (all: readonly Alarm[]): void => {
    for (const { percent } of all) metrics.countAlarm(percent);
    alarms?.tell(all);
  };
  const onCheckpoint = keepCheckpoints(folder, { closers, log, operatorLog });
  await migrateFolder(config, folder, (line) => operatorLog.note(line));
  const altered = new AlteredRecords();
  const distrust = new Distrust();
  const kept = { folder, registry: metrics.registry, log: operatorLog, closers };
  backups.shipping = openShipping(config, {
    ...kept,
    onBackupWanted: () => backups.schedule?.wantNow(),
    // Its failure is told by health.
    onCommitWanted: () => void ledger.tryWriting().catch(() => false),
  });
  const heard = { onAlarms, onCheckpoint, onAltered: altered.found };
  const begun = await openLedger(config, {
    ...{ folder, closers, prices, distrust, log: operatorLog },
    ...heard,
  });
  const { ledger, sealWatch, read, state } = begun;
  const { directory } = state;
  // Closed after the stores and the journals in them, which it counts for.
  const upkeep = opened(closers, new BackendUpkeep(ledger));
  const parts = { folder, ledger, read, state, distrust, closers, upkeep };
  const told = {
    onOlderCopy: (reason: string) => log.refuse(reason),
    newestNote: () => log.note,
  };
  const opening = await openStores(config, { ...parts, meters, log: operatorLog, ...told });
  // Before anything is signed: what a store knows and the database does not was signed already.
  await opening.journals.looked(firstLookMs);
  const { logKeys, witnesses } = await beginSigning({
    ...{ config, folder, ledger, read, head: log, operatorLog },
  });
  closers.push(() => witnesses.close());
  const { sealer, credentialsFile } = folder;
  const { journals } = opening;
  const commit = (change: IdentityChange) => commitRootKey({ ledger, journals }, change);
  const rootKey: RootKeyOptions = { config, directory, sealer, credentialsFile, commit };
  await ensureRootKey(rootKey);

  const write = (uses: TokenUses) => ledger.maintain({ kind: 'noteTokenUse', ...uses });
  const tokenUse = opened(closers, new TokenUse({ write }));
  const { publicUrl, onListening, listenedUrl } = addressOf(config);
  let adminUrl: string | null = null;
  const onAdminListening = (url: string): void => {
    adminUrl = reachable(url);
  };
  const limits = openLimits(parts);
  recordUnsealed(distrust, ledger);
  metrics.watchLog(log, witnesses);
  metrics.watchClock(steadyClock);
  metrics.watchRights(sealWatch);
  closers.push(announceSteps((text) => operatorLog.warn(text)));
  prices.enter(opening.storeList.gates);
  const bookOf: RequestServices['bookOf'] = (store) => prices.bookOf(store);
  upkeep.start({ stores: opening.storeList, bookOf });
  const lifecycle = makeLifecycleWorker(config, {
    ...parts,
    ...{ rules: state.lifecycle, journals, bookOf, log, metrics, operatorLog },
  });
  const memory = openMemory(config, closers);
  const shareUrl = () => config.shareUrl ?? publicUrl();
  const given = { bookOf, publicUrl, shareUrl, log, witnesses, tokenUse, ...limits, ...memory };
  const rooms = furnish(config, { ...parts, ...opening, ...given });
  const usageRollUp = startUpkeep(config, rooms, {
    ...{ ...opening, lifecycle, closers, log: operatorLog },
  });
  const { archiver, records, search, countMended } = await openRecords(config, rooms, {
    ...parts,
    log: operatorLog,
    onAltered: altered.found,
  });
  const recordParts = { archiver, search, countMended };
  watchServices(metrics.registry, { rooms, folder, ...memory, ...recordParts });
  alarms = await openAlarms(config, parts, operatorLog);
  closers.push(() => endSoon(opening.storeList));
  const { local } = opening;
  const { freeBytesMin } = config;
  backups.schedule = scheduleBackups(config, { ...kept, shipping: backups.shipping });
  if (log.refusal !== null) endBackups(backups);
  const health = new HealthWatch({ rooms, folder, local, backups, sealWatch, freeBytesMin });
  const deepRuns = opened(closers, new FolderDeepRuns(config));
  const services: Services = {
    ...rooms,
    ...{ sealer, rootKeys: folder.rootKeys, logKeys, usageRollUp, deepRuns },
    ...{ records, altered, search, alarms, metrics, instruments, logger },
    ...{ metricsToken: config.metricsToken, priceBooks: prices.books },
    lookAtHealth: () => health.look(),
  };
  await listen(config, services, { closers, operatorLog, onListening, onAdminListening });
  await announceEndpoint(rootKey, { endpoint: publicUrl(), adminUrl });
  const measured = { rooms, folder, directory, instruments, closers, endpoint: listenedUrl() };
  startProbe(config, { ...measured, registry: metrics.registry, log: operatorLog });
  startBackups(backups);
  const close = async () => {
    health.stop();
    await sleep(config.drainMs);
    await closeAll(closers);
  };
  return { endpoint: publicUrl(), adminUrl, log: operatorLog, close };
}

/** What is to be done with each checkpoint that was signed. */
function keepCheckpoints(
  { keptCheckpointFile }: DataFolder,
  given: { closers: Closers; log: LogHead; operatorLog: OperatorLog },
): (note: string) => void {
  const { closers, log, operatorLog } = given;
  const onError = (error: unknown) => operatorLog.warn('the checkpoint was not kept', error);
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
  state: State<CorsRules>;
  upkeep: BackendUpkeep;
  closers: Closers;
}

const deskIntervalMs = 1000;

/** Limits that are kept from memory, as the ledger has them. */
function openLimits({
  ledger,
  state,
  closers,
}: Pick<Parts, 'ledger' | 'state' | 'closers'>): Pick<RequestServices, 'desk' | 'rates'> {
  const desk = new LeaseDesk(ledger, monotonicMs);
  const rates = new Rates();
  state.limits.begin(desk, rates);
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
  RequestServices,
  'tokenUse' | 'desk' | 'rates' | 'bookOf' | 'publicUrl' | 'shareUrl' | 'log' | 'witnesses'
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

function furnish(config: Config, parts: Parts & OpenStores & Books & Memory): RequestServices {
  const {
    folder,
    ledger,
    read,
    state,
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
    ...state,
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
  rooms: RequestServices,
  {
    folder,
    read,
    closers,
    log,
    onAltered,
  }: Parts & {
    log: OperatorLog;
    onAltered: (index: number) => void;
  },
) {
  const readPart = partReader(rooms.reader, (store) => rooms.stores.nameOf(store));
  const archiver = startArchiver(config, rooms, { folder, readPart, log });
  closers.push(() => archiver.stop());
  const records = new RecordStore(read, readPart);
  const found = opened(
    closers,
    await openSearch({ folder, read, records, readPart, log, onAltered }),
  );
  const { search, countMended } = found;
  return { archiver, records, search, countMended };
}

async function openAlarms(config: Config, parts: Parts, log: OperatorLog): Promise<AlarmNotifier> {
  const { folder, ledger, read, closers } = parts;
  const policy = onlyPrivate(config.privateWebhooks ?? []);
  const onError = (error: unknown) => log.warn('alarms were not told', error);
  const onProblem = (text: string) => log.warn(text);
  const options = { read, sealer: folder.sealer, ledger, policy, onError, onProblem };
  return opened(closers, await AlarmNotifier.open(options));
}

interface Listening {
  closers: Closers;
  operatorLog: OperatorLog;
  onListening: GatewayOptions['onListening'];
  onAdminListening: GatewayOptions['onListening'];
}

async function listen(
  config: Config,
  services: Services,
  { closers, operatorLog, onListening, onAdminListening }: Listening,
): Promise<void> {
  const { adminListen } = config;
  let place = config.listen;
  try {
    const gateway = await startGateway({
      services,
      ...config.listen,
      onListening: (url) => {
        onListening(url);
        place = adminListen ?? place;
      },
      administration: adminListen ? { ...adminListen, onListening: onAdminListening } : null,
      acceptHosts: config.acceptHosts ?? [],
      stallTimeoutMs: config.stallTimeoutMs,
      connectionsMax: connectionsWithin(config.connectionsMax, operatorLog),
      minRate: config.minRate,
      trustedProxies: config.trustedProxies ?? [],
      serverTiming: config.serverTiming,
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
  change: IdentityChange,
): Promise<void> {
  const result = await ledger.commit({
    change,
    charge: null,
    record: draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(), {
      action: 'bursar:PutRootKey',
      target: `tenants/${defaultTenant}/principals/${rootPrincipal}`,
      change: accountOf(change),
      status: 200,
    }),
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
