// Whether the folder of the local store is the one that the database speaks of. Where DIR/extents
// is a disk of its own, an unmounted one leaves an empty folder there, which must not be taken for
// the store: what is written would be hidden when the disk is back. Every folder that a gateway has
// served holds the folder for temporary files, so that one without it was never served.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { holdsLiveExtents } from '../../catalog/extents.ts';
import { CommandFailure } from '../../core/command-failure.ts';
import type { Reader } from '../../core/database.ts';
import { localStore } from '../../core/manifest.ts';
import { temporaryFolder } from '../../tiering/stores/local-store.ts';

/** To be called before the store is opened, which makes the folders. Throws `CommandFailure`. */
export async function checkLocalPlace(read: Reader, storeFolder: string): Promise<void> {
  const temporary = join(storeFolder, temporaryFolder);
  if (existsSync(temporary) || !(await holdsLiveExtents(read, localStore))) return;
  throw new CommandFailure(
    'failed',
    `${storeFolder} has nothing of the extents that the database names: mount its disk; if they ` +
      `are lost for good, make the folder ${temporary} and start again`,
  );
}
