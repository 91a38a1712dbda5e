// The folder that a gateway keeps everything in, taken by one process at a time. Invariants: two
// processes never have it open together; a killed one leaves no lock behind; and a database is
// never served with another key file than its own, under which none of its secrets would open.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { acquireLock } from '../core/database.ts';
import { makeFolderDurably } from '../core/durable-file.ts';
import { Keyring, type RootKey } from '../core/keyring.ts';
import { openRootKeys } from '../core/root-keys.ts';
import { Sealer } from '../core/sealing.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';

export interface DataFolder {
  path: string;
  databaseFile: string;
  /** What all keys are derived from. */
  keyFile: string;
  /** Of the local store. */
  storeFolder: string;
  credentialsFile: string;
  rootKeys: RootKey[];
  keyring: Keyring;
  sealer: Sealer;
  /** Lets another process in. */
  release(): void;
}

/** Opens or makes the folder. Throws `CommandFailure` when it is in use or cannot be used. */
export function openDataFolder(path: string): DataFolder {
  const release = lock(path);
  try {
    const databaseFile = join(path, 'bursar.db');
    const keyFile = join(path, 'keys', 'root-keys.json');
    const rootKeys = readRootKeys(keyFile, databaseFile);
    const keyring = new Keyring(rootKeys);
    return {
      path,
      databaseFile,
      keyFile,
      storeFolder: join(path, 'extents'),
      credentialsFile: join(path, 'credentials'),
      rootKeys,
      keyring,
      sealer: new Sealer(keyring),
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

function readRootKeys(keyFile: string, databaseFile: string): RootKey[] {
  // The key file is durable before the database is made, so a start that was cut short never leaves
  // the second without the first.
  if (existsSync(databaseFile) && !existsSync(keyFile)) {
    throw new Error(`${keyFile} is missing, and without it ${databaseFile} cannot be read`);
  }
  return openRootKeys(keyFile);
}
