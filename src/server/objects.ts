// How objects are found by what is said of them: the index beside the catalog, the thread that
// keeps it, and, in each thread that serves requests, what asks it.
import { readLagMs } from '../audit/changes/lag.ts';
import { readLogSize } from '../audit/log/stored-tiles.ts';
import type { Reader } from '../core/database.ts';
import { ObjectIndexer } from '../search/object-indexer.ts';
import { ObjectSearch } from '../search/object-search.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';

/** Between two looks at the log: how far the index is behind, besides the work itself. */
const intervalMs = 400;
/** Between two times that some objects are compared with the index. */
const comparingMs = 5000;

/** What finds objects for one thread. */
export function openObjectSearch({
  config: { objectIndex },
  folder: { objectsFile },
  closers,
}: Pick<Base, 'config' | 'closers'> & {
  folder: Pick<Base['folder'], 'objectsFile'>;
}): ObjectSearch {
  const search = objectIndex === 'off' ? null : { indexPath: objectsFile, metadata: objectIndex };
  return opened(closers, new ObjectSearch(search));
}

/** What is known of the index. */
export interface WatchedIndex {
  /** Records that the index has not followed yet; 0 without an index. */
  countBehind(): Promise<number>;
  /** Since when the first of them is in the log, milliseconds; 0: there is none. */
  lagMs(): Promise<number>;
  /** null: there is no index. */
  isComplete(): boolean | null;
  /** Objects that were not in the index as the catalog has them. */
  countMended(): number;
}

/** Keeps the index from now on. */
export function keepObjectIndex(
  { config: { objectIndex: metadata }, folder, closers, log }: Base,
  read: Reader,
): WatchedIndex {
  let mended = 0;
  if (metadata === 'off') {
    return {
      countBehind: async () => 0,
      lagMs: async () => 0,
      isComplete: () => null,
      countMended: () => 0,
    };
  }
  const indexer = opened(
    closers,
    new ObjectIndexer({
      ...{ databasePath: folder.databaseFile, indexPath: folder.objectsFile, metadata },
      ...{ intervalMs, comparingMs },
      onError: (reason) => log.warn('objects were not indexed', reason),
      onBegun: (reason) => log.warn('the index of objects is made anew', reason),
      onMended: (objects) => {
        mended += objects;
        log.warn(`${objects} objects were not in objects.db as they are stored, and are now`);
      },
    }),
  );
  return {
    countBehind: async () => Math.max((await readLogSize(read)) - indexer.progress.through, 0),
    lagMs: () => readLagMs(read, indexer.progress.through - 1),
    isComplete: () => indexer.progress.isComplete,
    countMended: () => mended,
  };
}
