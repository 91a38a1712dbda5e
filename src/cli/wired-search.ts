// How records are found: the search index beside the database, and the thread that makes it.
import { join } from 'node:path';
import type { ReadPart, RecordStore } from '../audit/record-store.ts';
import { Indexer } from '../audit/search/indexer.ts';
import { RecordSearch } from '../audit/search/record-search.ts';
import type { Reader } from '../core/database.ts';
import type { DataFolder } from './data-folder.ts';

/** How far the index is behind the log, besides a block that is not whole yet. */
const intervalMs = 1000;

export interface SearchParts {
  folder: Pick<DataFolder, 'path' | 'databaseFile'>;
  read: Reader;
  records: RecordStore;
  readPart: ReadPart;
}

/** `close` ends the thread. */
export async function openSearch({
  folder,
  read,
  records,
  readPart,
}: SearchParts): Promise<{ search: RecordSearch; close(): Promise<void> }> {
  const indexer = await Indexer.open({
    logPath: folder.databaseFile,
    indexPath: join(folder.path, 'search.db'),
    intervalMs,
    readPart,
    onError: (reason) => process.stderr.write(`bursar: records were not indexed: ${reason}\n`),
  });
  const search = new RecordSearch({ read, store: records, index: indexer.index });
  return { search, close: () => indexer.close() };
}
