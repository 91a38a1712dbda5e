// The folder that a gateway keeps everything in, taken by one process at a time. Invariants: two
// processes never have it open together; a killed one leaves no lock behind; and a database is
// never served with another key file than its own, under which none of its secrets would open.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import { acquireLock } from '../../core/database.ts';
import { makeFolderDurably } from '../../core/durable-file.ts';
import { Keyring } from '../../core/keyring.ts';
import { wrapByKms } from '../../core/kms.ts';
import { RootKeyFile } from '../../core/root-keys.ts';
import { Sealer } from '../../core/sealing.ts';
import type { Config } from '../settings/config.ts';

/** Where things are in a folder, whether it is open or not. */
export interface DataFiles {
  databaseFile: string;
  /** The index of objects, which is made of the database. */
  objectsFile: string;
  /** What all keys are derived from. */
  keyFile: string;
  /** The folder of the local store. */
  storeFolder: string;
  credentialsFile: string;
  /** Private keys that sign the log. */
  logKeysFile: string;
  /** The newest checkpoint that was signed, outside the database. */
  keptCheckpointFile: string;
  /** Measurements of probes and of clients' transfers. */
  samplesFolder: string;
}

export interface DataFolder extends DataFiles, Disposable {
  path: string;
  rootKeys: RootKeyFile;
  keyring: Keyring;
  sealer: Sealer;
  /** Lets another process open the folder. */
  release(): void;
}

/** The settings that say where the folder is and what protects its keys. */
export type DataSettings = Pick<Config, 'data' | 'kmsKey' | 'kmsRegion' | 'kmsEndpoint'>;

export function dataFiles(path: string): DataFiles {
  return {
    databaseFile: join(path, 'bursar.db'),
    objectsFile: join(path, 'objects.db'),
    keyFile: join(path, 'keys', 'root-keys.json'),
    storeFolder: join(path, 'extents'),
    credentialsFile: join(path, 'credentials'),
    logKeysFile: join(path, 'log-keys.json'),
    keptCheckpointFile: join(path, 'log-checkpoint'),
    samplesFolder: join(path, 'samples'),
  };
}

/** The database file of a data folder. Throws `CommandFailure` where there is none. */
export function databaseOf({ data }: Pick<Config, 'data'>): string {
  const { databaseFile } = dataFiles(data);
  if (!existsSync(databaseFile)) throw new CommandFailure('failed', `there is no ${databaseFile}`);
  return databaseFile;
}

/**
 * Opens or makes the folder. Throws `CommandFailure` when it cannot be used, or when another
 * process has it; the latter not for readers (`isShared`).
 */
export async function openDataFolder(
  config: DataSettings,
  { isShared = false } = {},
): Promise<DataFolder> {
  const path = config.data;
  const release = lock(path, isShared);
  try {
    const files = dataFiles(path);
    const rootKeys = await openRootKeys(config, files.keyFile, files.databaseFile);
    const keyring = new Keyring(rootKeys.keys);
    return {
      ...files,
      path,
      rootKeys,
      keyring,
      sealer: new Sealer(keyring),
      release,
      [Symbol.dispose]: release,
    };
  } catch (error) {
    release();
    throw new CommandFailure('failed', messageOfFailure(error), error);
  }
}

function lock(path: string, isShared: boolean): () => void {
  let release: (() => void) | undefined;
  try {
    makeFolderDurably(path);
    release = acquireLock(join(path, 'lock.db'));
  } catch (error) {
    throw new CommandFailure('failed', `cannot use ${path}: ${messageOfFailure(error)}`, error);
  }
  if (release) return release;
  if (isShared) return () => {};
  throw new CommandFailure('failed', `${path} is in use by another bursar process`);
}

function openRootKeys(
  { kmsKey, kmsRegion, kmsEndpoint }: DataSettings,
  keyFile: string,
  databaseFile: string,
): Promise<RootKeyFile> {
  // The key file is durable before the database is made, so a start that was cut short never leaves
  // the second without the first.
  if (existsSync(databaseFile) && !existsSync(keyFile)) {
    throw new Error(`${keyFile} is missing, and without it ${databaseFile} cannot be read`);
  }
  const kms = { keyId: kmsKey ?? '', region: kmsRegion, endpoint: kmsEndpoint };
  return RootKeyFile.open(keyFile, kmsKey === undefined ? null : wrapByKms(kms));
}
