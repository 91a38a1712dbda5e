// Where backups are, as commands and settings name it: a folder, or s3://BUCKET/PREFIX.
import { openFolderPlace } from '../../backup/folder-place.ts';
import type { BackupPlace } from '../../backup/place.ts';
import { openStorePlace } from '../../backup/store-place.ts';
import { CommandFailure, messageOfFailure, orFail } from '../../core/command-failure.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { StoreTally } from '../../tiering/stores/store-tally.ts';
import { parseStoreUrl } from '../settings/store-settings.ts';
import { openStore } from './opened-store.ts';

export interface PlaceFlags {
  s3Endpoint?: string;
  s3Region?: string;
  s3PathStyle?: boolean;
  s3Profile?: string;
}

/** Throws `CommandFailure`. `mayMake`: an empty place becomes a place of backups. */
export async function openBackupPlace(
  place: string,
  flags: PlaceFlags,
  { mayMake }: { mayMake: boolean },
): Promise<BackupPlace> {
  const { s3Endpoint: endpoint, s3Region: region, s3PathStyle: pathStyle, s3Profile } = flags;
  if (!place.startsWith('s3://')) {
    if ([endpoint, region, pathStyle, s3Profile].some((one) => one !== undefined)) {
      throw new CommandFailure('usage', 'the flags --s3-… go with s3://BUCKET/PREFIX');
    }
    return explained(place, async () => openFolderPlace(place, { mayMake }));
  }
  const url = orFail('usage', `${place} `, () => parseStoreUrl(place));
  const store = await openStore({
    ...{ name: 'backup', number: 0, url, tally: new StoreTally(0) },
    ...{ endpoint, region, pathStyle, profile: s3Profile },
  });
  try {
    return await explained(place, () => openStorePlace(store, { url, mayMake }));
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Turns the failures that can be expected of backups into a `CommandFailure`. */
export async function explained<T>(place: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof IntegrityError) {
      throw new CommandFailure('failed', error.message, error);
    }
    if (error instanceof Refusal) {
      const reason = messageOfFailure(error.cause ?? error);
      throw new CommandFailure('failed', `${place} failed, run it again: ${reason}`, error);
    }
    // Of the system: a full disk, a right that is missing.
    if (typeof (error as NodeJS.ErrnoException).code === 'string') {
      throw new CommandFailure('failed', `${place}: ${messageOfFailure(error)}`, error);
    }
    throw error;
  }
}
