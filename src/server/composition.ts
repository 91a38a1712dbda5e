// The server, put together. What is opened is closed in reverse order, whether the start fails
// half-way or the gateway stops: requests end first, then what they write to.
import { setTimeout as sleep } from 'node:timers/promises';
import { ChangeLog } from '../audit/changes/change-log.ts';
import { monotonicMs } from '../core/clock.ts';
import { CommandFailure, messageOfFailure, WorkFailure } from '../core/command-failure.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { Turns } from '../core/turns.ts';
import type { Services } from '../gateway/services.ts';
import { type DrillServices, StoreDrills } from '../gateway/store-drills.ts';
import type { Operator, OperatorLog } from '../instruments/operator-log.ts';
import { catchUpUsage } from '../ledger/timers.ts';
import { CopyMemory } from '../quota/copy-memory.ts';
import { DiskRoom, freeBytesOf } from '../quota/disk-room.ts';
import { Recalls } from '../quota/leases/recalls.ts';
import { startProbe } from './background-probe.ts';
import { endBackups, scheduleBackups, startBackups } from './backups.ts';
import type { Base } from './base.ts';
import { announceSteps } from './clock-steps.ts';
import { type Closers, closeAll, opened } from './closers.ts';
import { FolderDeepRuns } from './deep-run.ts';
import type { DataFolder } from './folder/data-folder.ts';
import { migrateFolder } from './folder/migrated-folder.ts';
import { HealthWatch } from './health-watch.ts';
import { makeInstruments } from './instruments.ts';
import { openInventories } from './inventories.ts';
import { Addresses } from './listening.ts';
import { beginSigning } from './log-signing.ts';
import { startNotifier } from './notifier.ts';
import { keepObjectIndex } from './objects.ts';
import { openLedger, recordUnsealed } from './opened-ledger.ts';
import { openRecords } from './records.ts';
import { openRequestServices } from './request-services.ts';
import {
  announceEndpoint,
  ensureRootKey,
  ensureTenantKeys,
  type RootKeyOptions,
} from './root-key.ts';
import { watchDrills, watchServices } from './service-metrics.ts';
import type { Config } from './settings/config.ts';
import { endSoon, type OpenStores, openStores } from './stores.ts';
import { makeSharedMemory, type ThreadLinks } from './threads/links.ts';
import { listenOnThreads } from './threads/listen.ts';
import { shareOf } from './threads/share.ts';
import { startUpkeep } from './upkeep.ts';

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
    const instruments = await makeInstruments(config, { operator, closers });
    return await start({ config, folder, closers, ...instruments });
  } catch (error) {
    await closeAll(closers);
    if (error instanceof CommandFailure && !(error instanceof WorkFailure)) throw error;
    const reason = `${messageOfFailure(error)}${adviceOn(error)}`;
    throw new CommandFailure('failed', `cannot start: ${reason}`, error);
  }
}

/** What to do about a row that is not what was stored, and that no gateway starts without. */
function adviceOn(error: unknown): string {
  if (!(error instanceof UnsealedRow)) return '';
  return ': the database was edited: see "bursar database check" and docs/admin/edited-rights.md';
}

async function start(base: Base): Promise<RunningServer> {
  const { config, folder, closers, log, metrics } = base;
  await migrateFolder(config, folder, (line) => log.note(line));
  const data = await openLedger(base);
  const { ledger, state, head, backups, sealWatch, altered } = data;
  const shared = makeSharedMemory();
  const stores = await openStores(base, data, shared);
  const { logKeys, witnesses } = await beginSigning(base, data);
  const { journals, storeList, local } = stores;
  const rootKey: RootKeyOptions = {
    ...{ config, folder, directory: state.directory, ledger, journals },
  };
  await ensureRootKey(rootKey);
  // Where the database is an older copy, or was edited, the secret that is missing may be told
  // elsewhere, and another would take its place there.
  const isWhole = head.refusal === null && data.sealFaults.found.length === 0;
  if (isWhole) await ensureTenantKeys({ folder, ledger, journals, read: data.read });

  const addresses = new Addresses(config);
  const recalls = new Recalls();
  const links: ThreadLinks = {
    ...{ thread: 0, count: config.httpThreads, shared },
    recall: (accounts) => recalls.recall(0, accounts),
  };
  const free = freeBytesOf(folder.storeFolder);
  const diskRoom = new DiskRoom(free, monotonicMs, shared.cameBytes);
  const rooms = { diskRoom, copyMemory: new CopyMemory() };
  const bulkTurns = new Turns();
  // Before what asks it: who closes the index last folds its log into it, and only a writer can.
  const objectIndex = keepObjectIndex(base, data.read);
  const opening = { ...data, ...stores, ...rooms, bulkTurns, links, witnesses, addresses };
  const { services: requestServices, memory } = openRequestServices(
    { ...base, config: shareOf(config, config.httpThreads) },
    opening,
  );
  recordUnsealed(data);
  metrics.watchLog(head, witnesses);
  metrics.watchClock(steadyClock);
  metrics.watchRights(sealWatch);
  closers.push(announceSteps((text) => log.warn(text)));
  stores.upkeep.start({ stores: storeList, bookOf: requestServices.bookOf });
  recalls.add(0, (accounts) => requestServices.leaseHolder.giveUpFree(accounts));
  startUpkeep(base, requestServices, { ...stores, recalls });
  const { records, search, ...counted } = await openRecords(base, requestServices, altered.found);
  const changes = new ChangeLog({
    ...{ read: requestServices.read, records, search, onAltered: altered.found },
  });
  ledger.rights.onTaken = (from) => changes.wakeOf(from);
  watchServices(base, {
    ...{ services: requestServices, diskRoom, search, objectIndex, ...memory, ...counted },
  });
  const alarms = await data.startAlarms();
  const notifier = await startNotifier(base, { services: requestServices, changes, alarms });
  closers.push(() => endSoon(storeList));
  backups.schedule = scheduleBackups(base, backups.shipping);
  if (head.refusal !== null) endBackups(backups);

  const health = new HealthWatch({
    ...{ services: requestServices, diskRoom, folder, local, backups, sealWatch },
    freeBytesMin: config.freeBytesMin,
  });
  const inventories = openInventories(base, requestServices, addresses);
  const services: Services = {
    ...requestServices,
    ...{
      logKeys,
      records,
      altered,
      search,
      changes,
      alarms,
      notifier,
      inventories,
      metrics,
      journals,
    },
    usageRollUp: { catchUp: () => catchUpUsage(requestServices.ledger) },
    sealer: folder.sealer,
    rootKeys: folder.rootKeys,
    instruments: base.instruments,
    recentRequests: base.recentRequests,
    logger: base.logger,
    drills: watchDrills(base, openDrills(requestServices, stores), stores),
    deepRuns: opened(closers, new FolderDeepRuns(config)),
    metricsToken: config.metricsToken,
    lookAtHealth: () => health.look(),
  };
  await listenOnThreads(base, services, {
    ...{ addresses, shared, recalls, rooms, stores, bulkTurns },
  });
  const { publicUrl: endpoint, adminUrl } = addresses;
  await announceEndpoint(rootKey, { endpoint, adminUrl });
  inventories.start();
  startProbe(base, requestServices, addresses.listenedUrl);
  startBackups(backups);

  const close = async () => {
    health.stop();
    await sleep(config.drainMs);
    changes.close();
    await closeAll(closers);
  };
  return { endpoint, adminUrl, log, close };
}

function openDrills(
  services: Pick<DrillServices, 'read' | 'ledger'>,
  { stores, storeList }: OpenStores,
): StoreDrills {
  const confirmPlace = (store: number) => storeList.confirmOwner(store);
  return new StoreDrills({ ...services, stores, confirmPlace });
}
