// What is done beside the requests: sweeping, lifecycle rules, and what the ledger has to do as
// time goes by. All of it ends when the server is closed.
import { Repeated } from '../core/repeated.ts';
import { ArchiveRestores } from '../gateway/archive-restores.ts';
import type { RequestServices } from '../gateway/services.ts';
import { Transitions } from '../gateway/transitions.ts';
import { CopyWorker } from '../ledger/copy-worker.ts';
import { releaseHeldSoon } from '../ledger/held-upkeep.ts';
import { LifecycleWorker } from '../ledger/lifecycle-worker.ts';
import { countStoredSoon } from '../ledger/stored-upkeep.ts';
import { Sweeper } from '../ledger/sweeper.ts';
import { chargeStorageHourly, closeFoldsInTime, sumUsageBehind } from '../ledger/timers.ts';
import type { Recalls } from '../quota/leases/recalls.ts';
import type { Base } from './base.ts';
import { watchCopies } from './service-metrics.ts';
import type { OpenStores } from './stores.ts';

export function startUpkeep(
  base: Base,
  services: RequestServices,
  { recalls, ...stores }: OpenStores & { recalls: Recalls },
): void {
  const { closers, log } = base;
  const { ledger } = services;
  const onError = (what: string) => (error: unknown) => log.warn(what, error);
  for (const repeated of [
    sweeping(base, services, stores),
    copying(base, services, stores),
    new ArchiveRestores(services).repeated(onError('restores wait')),
    services.losses.repeated(onError('what is lost was not looked at again')),
    chargeStorageHourly({
      ...{ ledger, books: () => booksInForce(services) },
      onError: onError('storage was not charged'),
    }),
    closeFoldsInTime({ ledger, onError: onError('public reads were not recorded') }),
    releaseHeldSoon({
      ...{ read: services.read, ledger, bookOf: (store) => services.bookOf(store).name },
      onError: onError('what a snapshot held was not let go of'),
    }),
    countStoredSoon({
      ...{ read: services.read, ledger },
      recall: (accounts) => recalls.recall(null, accounts),
      onError: onError('what is stored of an account with limits was not counted'),
    }),
    sumUsageBehind({ ledger, onError: onError('usage was not added up') }),
  ]) {
    closers.push(() => repeated.stop());
    repeated.start();
  }
  startLifecycle(base, services, stores);
}

function sweeping(
  { config, log }: Base,
  services: RequestServices,
  { stores, storeList, journals }: OpenStores,
): Repeated {
  const { read, ledger, leases, log: head } = services;
  const sweeper = new Sweeper({
    ...{ read, ledger, stores, leases },
    // An older copy does not know which extents newer versions use, and would take them for
    // garbage.
    maySweep: (store) => head.refusal === null && journals.maySweep(store),
    isWhole: (store) => journals.isWhole(store),
    // Without classes each journal tells of its own store alone. A store that was taken out of the
    // configuration must not keep others from being swept for ever.
    journaled: () =>
      services.classes.isEmpty ? [] : configuredStores(services).map(({ number }) => number),
    mayLink: (tenant, store) => services.classes.everHadLeg(tenant, storeList.nameOf(store)),
    confirmPlace: (store) => storeList.confirmOwner(store),
    graceMs: config.sweepGraceMs,
  });
  return new Repeated({
    work: (stopping) => sweeper.sweep(stopping),
    pauseMs: () => config.sweepIntervalMs,
    onError: (error) => log.warn('a sweep ended', error),
  });
}

/** What classes of several legs have promised, and what was lost of it. */
function copying(
  { log, folder, metrics }: Base,
  services: RequestServices,
  { stores, storeList }: OpenStores,
): Repeated {
  const { read, ledger, leases, copies, diskRoom, log: head } = services;
  const worker = new CopyWorker({
    ...{ read, ledger, leases, copies, diskRoom, stores, keyring: folder.keyring },
    nameOf: (store) => storeList.nameOf(store),
    recallDelayOf: (store) => storeList.declaredOf(store).recallDelayMs,
    // An older copy does not know which extents newer versions use.
    mayWrite: () => head.refusal === null,
    confirmPlace: (store) => storeList.confirmOwner(store),
    onError: (error) => log.warn('a copy of an extent was not made', error),
  });
  watchCopies({ metrics }, read, worker);
  return worker.repeated();
}

const configuredStores = ({ stores }: Pick<RequestServices, 'stores'>) =>
  stores.all().filter(({ isConfigured }) => isConfigured);

function booksInForce(services: RequestServices): ReadonlyMap<number, string> {
  const { bookOf } = services;
  return new Map(configuredStores(services).map(({ number }) => [number, bookOf(number).name]));
}

function startLifecycle(
  { config, closers, metrics, log }: Base,
  services: RequestServices,
  { journals }: OpenStores,
): void {
  const { read, ledger, lifecycle: rules, bookOf, log: head } = services;
  const transitions = new Transitions(services, {
    dayMs: config.lifecycleDayMs,
    onTooLarge: () => metrics.countTooLargeMove(),
  });
  const options = {
    ...{ read, ledger, rules, dayMs: config.lifecycleDayMs, bookOf },
    tiered: () => services.classes.listTiered(),
    admit: (store: number) => {
      head.checkWritable();
      journals.admitEnds(store);
    },
    onEnded: ({ store, walk, count }: Counted) => {
      metrics.countLifecycleEnds(walk, count);
      journals.noteEnds(store);
    },
    onMoved: ({ store, walk, count }: Counted) => {
      metrics.countLifecycleMoves(walk, count);
      journals.noteEnds(store);
    },
    onError: (error: unknown) => log.warn('lifecycle rules wait', error),
  };
  const move = transitions.move.bind(transitions);
  // Moves take as long as stores do: what is to end does not wait for them.
  for (const worker of [new LifecycleWorker(options), new LifecycleWorker({ ...options, move })]) {
    ledger.feed.subscribe(worker);
    closers.push(() => worker.stop());
    worker.start();
  }
}

interface Counted {
  store: number;
  walk: string;
  count: number;
}
