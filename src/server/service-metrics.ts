// The gauges of queues, caches, backlogs and files, and what they are read from.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { countArchivedTiles } from '../audit/archive/archived-tiles.ts';
import { tileWidth } from '../audit/log/merkle.ts';
import { readLogSize } from '../audit/log/stored-tiles.ts';
import type { RecordSearch } from '../audit/search/record-search.ts';
import { countEnded, readCondemned, readIntents, readUntold } from '../catalog/backlog.ts';
import { countCopyWork, oldestCopyMs } from '../catalog/extent-copies.ts';
import { listHeldShares } from '../catalog/held-totals.ts';
import { countLost } from '../catalog/lost-versions.ts';
import { countRestores } from '../catalog/restore-rows.ts';
import { countJobs, oldestJobMs } from '../catalog/work.ts';
import type { Reader } from '../core/database.ts';
import { inlineStore, localStore } from '../core/manifest.ts';
import { Repeated } from '../core/repeated.ts';
import type { RequestServices } from '../gateway/services.ts';
import type { StoreDrills } from '../gateway/store-drills.ts';
import {
  type Backlog,
  type Gauges,
  watchBacklogs,
  watchBudgets,
  watchFiles,
  watchLedger,
  watchNumbers,
  watchStores,
} from '../instruments/state-metrics.ts';
import type { Archiver } from '../ledger/archive/archiver.ts';
import type { CopyWorker } from '../ledger/copy-worker.ts';
import { BudgetShares } from '../quota/budget-shares.ts';
import type { DiskRoom } from '../quota/disk-room.ts';
import { nextUnsummed } from '../quota/roll-up/usage-days.ts';
import type { Base } from './base.ts';
import type { WatchedIndex } from './objects.ts';
import type { Memory } from './request-services.ts';
import type { OpenStores } from './stores.ts';
import { watchThread } from './thread-metrics.ts';

export interface WatchedParts extends Memory {
  services: RequestServices;
  diskRoom: Pick<DiskRoom, 'freeBytes' | 'heldBytes'>;
  archiver: Pick<Archiver, 'lateMs'>;
  search: Pick<RecordSearch, 'countBehind'>;
  /** Blocks of the search index that were not what the log says. */
  countMended: () => number;
  objectIndex: WatchedIndex;
}

/** Backlogs are counted up to here: beyond it the numbers say only that there is more. */
const countedMax = 10_000;
/** Fewer, since the rows of ended versions are large. */
const endedCountedMax = 1000;

export function watchServices({ folder, metrics: { registry } }: Base, parts: WatchedParts): void {
  const { services } = parts;
  const { ledger, read, leaseHolder, stores } = services;
  watchLedger(registry, ledger);
  watchThread(registry, parts);
  watchStores(registry, () => stores.all());
  watchBacklogs(registry, () => readBacklogs(read, stores.all()));
  const shares = new BudgetShares({ read, leaseHolder });
  watchBudgets(registry, () => shares.list());
  watchFiles(registry, () => ({
    catalog: sizeOf(folder.databaseFile),
    catalog_wal: sizeOf(`${folder.databaseFile}-wal`),
    search: sizeOf(join(folder.path, 'search.db')),
    objects: sizeOf(folder.objectsFile),
  }));
  registry.counter({
    name: 'bursar_search_mended_blocks_total',
    help: 'Blocks of the search index that were not what the log says, and were made anew.',
    collect: parts.countMended,
  });
  registry.counter({
    name: 'bursar_object_index_mended_total',
    help: 'Objects that were not in the index of objects as they are stored.',
    collect: parts.objectIndex.countMended,
  });
  watchNumbers(registry, { ...numbersOfMemory(parts), ...numbersOfRecords(parts) });
}

/** Copies of extents, of classes of several legs. */
export function watchCopies(
  { metrics: { registry } }: Pick<Base, 'metrics'>,
  read: Reader,
  { counts }: Pick<CopyWorker, 'counts'>,
): void {
  registry.gauge({
    name: 'bursar_copies_waiting',
    help: 'Copies of extents that are to be made (due), or to be made again (suspect).',
    collect: async () => {
      const waiting = await countCopyWork(read);
      return copyStates.map((labels) => [labels, waiting[labels.state]] as const);
    },
  });
  registry.gauge({
    name: 'bursar_copies_oldest_seconds',
    help: 'For how long the copy of an extent is missing, or false, that has waited longest.',
    collect: async () => secondsSince(await oldestCopyMs(read)),
  });
  registry.gauge({
    name: 'bursar_objects_lost',
    help: 'Versions of objects that no store has any more, as their classes allow.',
    collect: () => countLost(read),
  });
  registry.gauge({
    name: 'bursar_restores',
    help: 'Versions that are on their way from archives (running), or were restored (readable).',
    collect: async () => {
      const restores = await countRestores(read);
      return Object.entries(restores).map(([state, n]) => [{ state }, n] as const);
    },
  });
  registry.gauge({
    name: 'bursar_work',
    help: 'Jobs that make lost objects again.',
    collect: async () => {
      const jobs = await countJobs(read, Date.now());
      return Object.entries(jobs).map(([state, n]) => [{ kind: 'recipe', state }, n] as const);
    },
  });
  registry.gauge({
    name: 'bursar_work_oldest_seconds',
    help: 'How long ago the oldest job was made that is neither done nor dead; 0: there is none.',
    collect: async () => {
      const seconds = secondsSince(await oldestJobMs(read));
      return [[{ kind: 'recipe' }, seconds] as const];
    },
  });
  registry.counter({
    name: 'bursar_copies_made_total',
    help: 'Copies of extents that were made.',
    collect: () => counts.made,
  });
  registry.counter({
    name: 'bursar_copies_repaired_total',
    help: 'Copies of extents that were not what was written, and were put right.',
    collect: () => counts.repaired,
  });
  registry.counter({
    name: 'bursar_copies_failed_total',
    help: 'Tries to make a copy of an extent that failed, and are tried again.',
    collect: () => counts.failed,
  });
}

/** How often stores of which that is not known are looked at for drills. */
const lookEveryMs = 60_000;

/** Which stores a drill hides something in; gives the drills. */
export function watchDrills(
  { metrics: { registry }, closers, log }: Pick<Base, 'metrics' | 'closers' | 'log'>,
  drills: StoreDrills,
  { storeList }: Pick<OpenStores, 'storeList'>,
): StoreDrills {
  const remote = () =>
    storeList.all().filter(({ number, isConfigured }) => isConfigured && number !== localStore);
  registry.gauge({
    name: 'bursar_store_drill',
    help: 'Whether a drill hides something in the store, as it was last seen.',
    collect: () =>
      remote().flatMap(({ number, name }) => {
        const isHiding = drills.isHiding(number);
        return isHiding === null ? [] : [[{ store: name }, Number(isHiding)] as const];
      }),
  });
  const looking = new Repeated({
    work: async () => {
      for (const { number } of remote()) {
        if (drills.isHiding(number) === null) await drills.look(number);
      }
    },
    pauseMs: () => lookEveryMs,
    onError: (error) => log.warn('stores were not looked at for drills', error),
  });
  closers.push(() => looking.stop());
  looking.start();
  return drills;
}

/** 0 where there is nothing. */
function secondsSince(timeMs: number | null): number {
  return timeMs === null ? 0 : Math.max(0, (Date.now() - timeMs) / 1000);
}

const copyStates = [{ state: 'due' }, { state: 'suspect' }] as const;

function numbersOfMemory({ services, diskRoom }: WatchedParts): Gauges {
  const { leaseHolder, grants } = services;
  return {
    bursar_grants: ['Grants, all in memory.', () => grants.index.count],
    bursar_disk_free_bytes: ["What the local store's disk can take.", () => diskRoom.freeBytes],
    bursar_disk_reserved_bytes: ['Of that, set aside for uploads.', () => diskRoom.heldBytes],
    bursar_leased_accounts: [
      'Accounts of whose limits a part is leased to memory.',
      () => leaseHolder.leased.size,
    ],
    bursar_limited_accounts: [
      'Accounts with limits, tokens not among them.',
      () => leaseHolder.limited.size,
    ],
  };
}

function numbersOfRecords(parts: WatchedParts): Gauges {
  const { archiver, search, objectIndex } = parts;
  const { read } = parts.services;
  return {
    bursar_archived_records: [
      'Records that have left the database for the archive.',
      async () => (await countArchivedTiles(read)) * tileWidth,
    ],
    bursar_archive_late_seconds: [
      'For how long records could have gone to the archive and have not.',
      async () => (await archiver.lateMs()) / 1000,
    ],
    bursar_search_behind_records: [
      'Records that the search index lacks: up to 4,095 always are.',
      () => search.countBehind(),
    ],
    bursar_object_index_behind_records: [
      'Records that the index of objects has not followed yet.',
      () => objectIndex.countBehind(),
    ],
    bursar_object_index_lag_seconds: [
      'Age of the first record that the index of objects has not followed yet.',
      async () => (await objectIndex.lagMs()) / 1000,
    ],
    bursar_object_index_complete: [
      'Whether queries use the index of objects: 0 while it is made, and where there is none.',
      () => (objectIndex.isComplete() === true ? 1 : 0),
    ],
    bursar_held_bytes: [
      'What was overwritten or deleted, and is held by snapshots and undelete windows.',
      async () => (await listHeldShares(read, null)).reduce((sum, { bytes }) => sum + bytes, 0),
    ],
    bursar_usage_behind_records: [
      'Records that are not yet in the usage by day.',
      async () => Math.max((await readLogSize(read)) - (await nextUnsummed(read)), 0),
    ],
  };
}

async function readBacklogs(
  read: Reader,
  stores: readonly { number: number; name: string }[],
): Promise<Backlog[]> {
  const catalog = { number: inlineStore, name: 'catalog' };
  const all: Backlog[] = [];
  for (const { number, name: store } of [catalog, ...stores]) {
    const condemned = await readCondemned(read, number, countedMax);
    all.push({ store, work: 'sweep', ...condemned });
    if (number !== inlineStore) {
      all.push({ store, work: 'intents', ...(await readIntents(read, number, countedMax)) });
    }
    if (number > localStore) {
      all.push({ store, work: 'journal', ...(await readUntold(read, number, countedMax)) });
    }
  }
  const count = await countEnded(read, endedCountedMax);
  all.push({ store: 'catalog', work: 'purge', count });
  return all;
}

/** Bytes; 0: there is no such file now. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
