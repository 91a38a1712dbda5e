// How records are found: the search index beside the database, and the thread that makes it.
// Neither is begun before there is a whole block to index, as small logs are searched as fast
// without; an index that is there already is opened at once, since it may be another log's.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readLogSize } from '../audit/log/stored-tiles.ts';
import type { ReadPart, RecordStore } from '../audit/record-store.ts';
import { Indexer } from '../audit/search/indexer.ts';
import { blockWidth } from '../audit/search/positions.ts';
import { RecordSearch } from '../audit/search/record-search.ts';
import type { Reader } from '../core/database.ts';
import type { OperatorLog } from '../instruments/operator-log.ts';
import type { DataFolder } from './folder/data-folder.ts';

/** How far the index may be behind the log, besides a block that is not complete yet. */
const intervalMs = 1000;
/** A block of records takes some 50 ms of the index's thread to compare. */
const comparingMs = 60_000;

export interface SearchParts {
  folder: Pick<DataFolder, 'path' | 'databaseFile'>;
  read: Reader;
  records: RecordStore;
  readPart: ReadPart;
  log: Pick<OperatorLog, 'warn'>;
  /** Told of each record that turns out not to be what was recorded. */
  onAltered?: (index: number) => void;
}

export interface OpenedSearch {
  search: RecordSearch;
  /** How many blocks of the index were not what the log says, and were made anew. */
  countMended: () => number;
  /** Ends the thread. */
  close(): Promise<void>;
}

export async function openSearch({
  folder,
  read,
  records,
  readPart,
  log,
  onAltered = () => {},
}: SearchParts): Promise<OpenedSearch> {
  const indexPath = join(folder.path, 'search.db');
  const search = new RecordSearch({ read, store: records, index: null, onAltered });
  const onError = (reason: unknown): void => {
    log.warn('records were not indexed', reason);
  };
  let mended = 0;
  const onMended = (block: number): void => {
    mended += 1;
    const what = `block ${block} of search.db was not what the log says, and is made anew`;
    log.warn(`${what}: somebody may have changed it`);
  };
  let indexer: Indexer | null = null;
  const look = async (): Promise<void> => {
    if (!existsSync(indexPath) && (await readLogSize(read)) < blockWidth) return;
    const logPath = folder.databaseFile;
    const times = { intervalMs, comparingMs };
    const events = { readPart, onError, onMended, onAltered };
    const opened = await Indexer.open({ logPath, indexPath, ...times, ...events });
    indexer = opened;
    search.use({ index: opened.index, onFalse: (block) => opened.doubt(block) });
  };
  await look();
  let looking: Promise<void> | null = null;
  const timer = setInterval(() => {
    if (indexer) clearInterval(timer);
    else looking ??= look().catch(onError).finally(done);
  }, intervalMs).unref();
  const done = (): void => {
    looking = null;
  };
  const close = async (): Promise<void> => {
    clearInterval(timer);
    await looking;
    await indexer?.close();
  };
  return { search, countMended: () => mended, close };
}
