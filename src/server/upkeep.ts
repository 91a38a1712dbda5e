// What goes on beside the requests: sweeping, lifecycle rules, old records on their way to the
// archive, and what the ledger is told as time goes by. Each is ended with the others.
import type { ReadPart } from '../audit/record-store.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { LogHead } from '../gateway/log-head.ts';
import type { RequestServices } from '../gateway/services.ts';
import type { Metrics } from '../instruments/metrics.ts';
import type { OperatorLog } from '../instruments/operator-log.ts';
import { Archiver } from '../ledger/archive/archiver.ts';
import { FoldTimer } from '../ledger/fold-timer.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { LifecycleWorker } from '../ledger/lifecycle-worker.ts';
import { StorageTimer } from '../ledger/storage-timer.ts';
import { Sweeper } from '../ledger/sweeper.ts';
import { UsageRollUp } from '../ledger/usage-roll-up.ts';
import { type Closers, opened } from './closers.ts';
import type { DataFolder } from './folder/data-folder.ts';
import type { Config } from './settings/config.ts';
import type { OpenStores } from './stores.ts';

/** `lifecycle` has not begun. Gives what adds usage up. */
export function startUpkeep(
  config: Config,
  rooms: RequestServices,
  given: OpenStores & { lifecycle: LifecycleWorker; log: OperatorLog; closers: Closers },
): UsageRollUp {
  const { lifecycle, log, closers } = given;
  startSweeper(config, rooms, given);
  closers.push(startStorageTimer(rooms, log), startFoldTimer(rooms.ledger, log));
  closers.push(() => lifecycle.stop());
  lifecycle.start();
  return startRollUp(rooms, log, closers);
}

function startSweeper(
  config: Config,
  { read, ledger, leases, log }: RequestServices,
  given: OpenStores & { log: OperatorLog; closers: Closers },
): void {
  const { stores, storeList, journals, log: operatorLog, closers } = given;
  const sweeper = new Sweeper({
    read,
    ledger,
    stores,
    // An older copy does not know that what it takes for garbage is alive.
    maySweep: (store) => log.refusal === null && journals.maySweep(store),
    confirmPlace: (store) => storeList.confirmOwner(store),
    leases,
    intervalMs: config.sweepIntervalMs,
    graceMs: config.sweepGraceMs,
    onError: (error) => operatorLog.warn('a sweep ended', error),
  });
  closers.push(() => sweeper.stop());
  sweeper.start();
}

const rollUpIntervalMs = 5000;

function startRollUp(
  { ledger }: Pick<RequestServices, 'ledger'>,
  log: OperatorLog,
  closers: Closers,
): UsageRollUp {
  const onError = (error: unknown) => log.warn('usage was not added up', error);
  const options = { ledger, intervalMs: rollUpIntervalMs, onError };
  const rollUp = opened(closers, new UsageRollUp(options));
  rollUp.start();
  return rollUp;
}

const foldIntervalMs = 5000;

function startFoldTimer(ledger: Pick<Ledger, 'maintain'>, log: OperatorLog): () => Promise<void> {
  const timer = new FoldTimer({
    ledger,
    intervalMs: foldIntervalMs,
    onError: (error) => log.warn('public reads were not recorded', error),
  });
  timer.start();
  return () => timer.close();
}

function startStorageTimer(
  { ledger, stores, bookOf }: RequestServices,
  log: OperatorLog,
): () => Promise<void> {
  const timer = new StorageTimer({
    ledger,
    books: () => {
      const configured = stores.all().filter(({ isConfigured }) => isConfigured);
      return new Map(configured.map(({ number }) => [number, bookOf(number).name]));
    },
    onError: (error) => log.warn('storage was not charged', error),
  });
  timer.start();
  return () => timer.stop();
}

export function makeLifecycleWorker(
  { lifecycleDayMs: dayMs }: Config,
  given: Pick<RequestServices, 'read' | 'ledger' | 'journals' | 'bookOf'> & {
    rules: RequestServices['lifecycle'];
    log: LogHead;
    metrics: Metrics;
    operatorLog: OperatorLog;
  },
): LifecycleWorker {
  const { read, ledger, rules, journals, bookOf, log, metrics, operatorLog } = given;
  const worker = new LifecycleWorker({
    ...{ read, ledger, rules, dayMs, bookOf },
    admit: (store) => {
      log.checkWritable();
      journals.admitEnds(store);
    },
    onEnded: ({ store, walk, count }) => {
      metrics.countLifecycleEnds(walk, count);
      journals.noteEnds(store);
    },
    onError: (error) => operatorLog.warn('lifecycle rules wait', error),
  });
  ledger.feed.subscribe(worker);
  return worker;
}

/** Between two looks for records that have become old enough. */
const intervalMs = 60_000;

/** `stop` it before what it writes to is closed. Throws `CommandFailure` for an unknown store. */
export function startArchiver(
  config: Pick<Config, 'archiveAfterMs' | 'archiveStore'>,
  rooms: Pick<RequestServices, 'read' | 'ledger' | 'intents' | 'writer' | 'stores' | 'log'>,
  given: { folder: Pick<DataFolder, 'databaseFile'>; readPart: ReadPart; log: OperatorLog },
): Archiver {
  const { read, ledger, intents, writer, stores, log: head } = rooms;
  const { folder, readPart, log } = given;
  const name = config.archiveStore ?? stores.defaultName;
  const store = stores.numberOf(name);
  if (store === undefined) {
    throw new CommandFailure('usage', `--archive-store ${name} is not among the configured stores`);
  }
  const archiver = new Archiver({
    ...{ path: folder.databaseFile, read, ledger, intents, writer, readPart, store, intervalMs },
    afterMs: config.archiveAfterMs,
    // The newer database, if it comes back, has these records in packs of its own.
    mayArchive: () => head.refusal === null,
    onError: (error) => log.warn('records were not archived', error),
  });
  if (Number.isFinite(config.archiveAfterMs)) archiver.start();
  return archiver;
}
