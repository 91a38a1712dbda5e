// How old records go to the archive.
import type { ReadPart } from '../audit/record-store.ts';
import type { Rooms } from '../gateway/rooms.ts';
import { Archiver } from '../ledger/archive/archiver.ts';
import type { Config } from './config.ts';
import type { DataFolder } from './data-folder.ts';
import { CommandFailure } from './failure.ts';

/** Between two looks for records that have become old enough. */
const intervalMs = 60_000;

/** `stop` it before what it writes to is closed. Throws `CommandFailure` for an unknown store. */
export function startArchiver(
  config: Pick<Config, 'archiveAfterMs' | 'archiveStore'>,
  rooms: Pick<Rooms, 'read' | 'ledger' | 'intents' | 'writer' | 'stores'>,
  { folder, readPart }: { folder: Pick<DataFolder, 'databaseFile'>; readPart: ReadPart },
): Archiver {
  const { read, ledger, intents, writer, stores } = rooms;
  const name = config.archiveStore ?? stores.defaultName;
  const store = stores.numberOf(name);
  if (store === undefined) {
    throw new CommandFailure('usage', `--archive-store ${name} is not among the configured stores`);
  }
  const archiver = new Archiver({
    ...{ path: folder.databaseFile, read, ledger, intents, writer, readPart, store, intervalMs },
    afterMs: config.archiveAfterMs,
    onError: (error) =>
      process.stderr.write(`bursar: records were not archived: ${String(error)}\n`),
  });
  if (Number.isFinite(config.archiveAfterMs)) archiver.start();
  return archiver;
}
