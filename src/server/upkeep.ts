// What is done beside the requests: sweeping, lifecycle rules, and what the ledger has to do as
// time goes by. All of it ends when the server is closed.
import type { RequestServices } from '../gateway/services.ts';
import { FoldTimer } from '../ledger/fold-timer.ts';
import { LifecycleWorker } from '../ledger/lifecycle-worker.ts';
import { StorageTimer } from '../ledger/storage-timer.ts';
import { Sweeper } from '../ledger/sweeper.ts';
import { UsageRollUp } from '../ledger/usage-roll-up.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import type { OpenStores } from './stores.ts';

const foldIntervalMs = 5000;
const rollUpIntervalMs = 5000;

/** Gives the roll-up of usage, which calls may ask to catch up. */
export function startUpkeep(
  base: Base,
  services: RequestServices,
  stores: OpenStores,
): UsageRollUp {
  const { closers, log } = base;
  const { ledger } = services;
  startSweeper(base, services, stores);
  startStorageTimer(base, services);
  const foldTimer = new FoldTimer({
    ...{ ledger, intervalMs: foldIntervalMs },
    onError: (error) => log.warn('public reads were not recorded', error),
  });
  opened(closers, foldTimer).start();
  startLifecycle(base, services);
  const rollUp = new UsageRollUp({
    ...{ ledger, intervalMs: rollUpIntervalMs },
    onError: (error) => log.warn('usage was not added up', error),
  });
  opened(closers, rollUp).start();
  return rollUp;
}

function startSweeper(
  { config, closers, log }: Base,
  services: RequestServices,
  { stores, storeList }: OpenStores,
): void {
  const { read, ledger, leases, journals, log: head } = services;
  const sweeper = new Sweeper({
    ...{ read, ledger, stores, leases },
    // An older copy does not know which extents newer versions use, and would take them for
    // garbage.
    maySweep: (store) => head.refusal === null && journals.maySweep(store),
    confirmPlace: (store) => storeList.confirmOwner(store),
    intervalMs: config.sweepIntervalMs,
    graceMs: config.sweepGraceMs,
    onError: (error) => log.warn('a sweep ended', error),
  });
  closers.push(() => sweeper.stop());
  sweeper.start();
}

function startStorageTimer(
  { closers, log }: Base,
  { ledger, stores, bookOf }: RequestServices,
): void {
  const timer = new StorageTimer({
    ledger,
    books: () => {
      const configured = stores.all().filter(({ isConfigured }) => isConfigured);
      return new Map(configured.map(({ number }) => [number, bookOf(number).name]));
    },
    onError: (error) => log.warn('storage was not charged', error),
  });
  closers.push(() => timer.stop());
  timer.start();
}

function startLifecycle({ config, closers, metrics, log }: Base, services: RequestServices): void {
  const { read, ledger, lifecycle: rules, journals, bookOf, log: head } = services;
  const worker = new LifecycleWorker({
    ...{ read, ledger, rules, dayMs: config.lifecycleDayMs, bookOf },
    admit: (store) => {
      head.checkWritable();
      journals.admitEnds(store);
    },
    onEnded: ({ store, walk, count }) => {
      metrics.countLifecycleEnds(walk, count);
      journals.noteEnds(store);
    },
    onError: (error) => log.warn('lifecycle rules wait', error),
  });
  ledger.feed.subscribe(worker);
  closers.push(() => worker.stop());
  worker.start();
}
