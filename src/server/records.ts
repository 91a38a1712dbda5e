// Records, wherever they are: in the database, or in the archive, which old ones are moved to.

import { type ReadPart, RecordStore } from '../audit/record-store.ts';
import { isArchiveClass } from '../core/aws-classes.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { RequestServices } from '../gateway/services.ts';
import { Archiver } from '../ledger/archive/archiver.ts';
import { partReader } from '../ledger/archive/part-reader.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import { type OpenedSearch, openSearch } from './search.ts';

export interface OpenRecords extends Pick<OpenedSearch, 'search' | 'countMended'> {
  records: RecordStore;
  archiver: Archiver;
}

/** `onAltered` is told of each record that is not what was recorded. */
export async function openRecords(
  base: Base,
  services: RequestServices,
  onAltered: (index: number) => void,
): Promise<OpenRecords> {
  const { folder, closers, log } = base;
  const { read, reader, stores } = services;
  const readPart = partReader(reader, (store) => stores.nameOf(store));
  const archiver = startArchiver(base, services, readPart);
  const records = new RecordStore(read, readPart);
  const searched = await openSearch({ folder, read, records, readPart, log, onAltered });
  const { search, countMended } = opened(closers, searched);
  return { records, archiver, search, countMended };
}

/** Between two looks for records that have become old enough. */
const intervalMs = 60_000;

/** Throws `CommandFailure` for an unknown store. */
function startArchiver(
  { config, folder, closers, log }: Base,
  { read, ledger, intents, writer, stores, log: head }: RequestServices,
  readPart: ReadPart,
): Archiver {
  const name = config.archiveStore ?? stores.defaultName;
  const store = stores.numberOf(name);
  if (store === undefined) {
    throw new CommandFailure('usage', `--archive-store ${name} is not among the configured stores`);
  }
  if (isArchiveClass(stores.declaredOf(store).storageClass)) {
    const message = `--archive-store ${name} is an archive of S3, and records are read at any time`;
    throw new CommandFailure('usage', message);
  }
  const archiver = new Archiver({
    ...{ path: folder.databaseFile, read, ledger, intents, writer, readPart, store, intervalMs },
    afterMs: config.archiveAfterMs,
    // The newer database, if it comes back, has these records in packs of its own.
    mayArchive: () => head.refusal === null,
    onError: (error) => log.warn('records were not archived', error),
  });
  if (Number.isFinite(config.archiveAfterMs)) archiver.start();
  closers.push(() => archiver.stop());
  return archiver;
}
