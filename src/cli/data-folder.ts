// The folder that a gateway keeps everything in, taken by one process at a time. Invariants: two
// processes never have it open together; a killed one leaves no lock behind; and a database is never
// opened with a new key file, under which none of its secrets would open.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { acquireLock } from '../core/database.ts';
import { makeFolderDurably } from '../core/durable-file.ts';
import { Sealer } from '../core/sealing.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';

export interface DataFolder {
  path: string;
  databaseFile: string;
  /** Of the local store. */
  storeFolder: string;
  credentialsFile: string;
  sealer: Sealer;
  /** Lets another process in. */
  release(): void;
}

/** Opens or makes the folder. Throws `CommandFailure` when it is in use or cannot be used. */
export function openDataFolder(path: string): DataFolder {
  const release = lock(path);
  try {
    const databaseFile = join(path, 'bursar.db');
    return {
      path,
      databaseFile,
      storeFolder: join(path, 'extents'),
      credentialsFile: join(path, 'credentials'),
      sealer: openSealer(join(path, 'keys', 'master.key'), databaseFile),
      release,
    };
  } catch (error) {
    release();
    throw new CommandFailure('failed', messageOfFailure(error), error);
  }
}

function lock(path: string): () => void {
  let release: (() => void) | undefined;
  try {
    makeFolderDurably(path);
    release = acquireLock(join(path, 'lock.db'));
  } catch (error) {
    throw new CommandFailure('failed', `cannot use ${path}: ${messageOfFailure(error)}`, error);
  }
  if (release) return release;
  throw new CommandFailure('failed', `${path} is in use by another bursar process`);
}

function openSealer(keyFile: string, databaseFile: string): Sealer {
  // The key file is durable before the database is made, so a start that was cut short never leaves
  // the second without the first.
  if (existsSync(databaseFile) && !existsSync(keyFile)) {
    throw new Error(`${keyFile} is missing, and without it ${databaseFile} cannot be read`);
  }
  return Sealer.open(keyFile);
}
