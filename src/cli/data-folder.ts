// The folder that a gateway keeps everything in, taken by one process at a time. Invariants: two
// processes never have it open together; a killed one leaves no lock behind; and a database is
// never served with another key file than its own, under which none of its secrets would open.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { accessKeyContext } from '../authz/directory.ts';
import { acquireLock, type Reader } from '../core/database.ts';
import { makeFolderDurably } from '../core/durable-file.ts';
import { Keyring } from '../core/keyring.ts';
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
    const keyring = openKeyring(keyFile, databaseFile);
    return {
      path,
      databaseFile,
      keyFile,
      storeFolder: join(path, 'extents'),
      credentialsFile: join(path, 'credentials'),
      keyring,
      sealer: new Sealer(keyring),
      release,
    };
  } catch (error) {
    release();
    throw new CommandFailure('failed', messageOfFailure(error), error);
  }
}

/**
 * Opens one of the database's secrets, if it has any yet. Throws `CommandFailure` when the key file
 * is not the one that it was sealed under: every request would fail.
 */
export async function checkKeyFile(folder: DataFolder, read: Reader): Promise<void> {
  const row = await read.get<{ id: string; tenant: string; principal: string; sealed: Uint8Array }>(
    'SELECT id, tenant, principal, sealed_secret AS sealed FROM access_keys LIMIT 1',
  );
  if (!row) return;
  try {
    folder.sealer.open(row.sealed, accessKeyContext(row.tenant, row.principal, row.id));
  } catch (error) {
    const { keyFile, databaseFile } = folder;
    const message = `${keyFile} is not the key that the secrets in ${databaseFile} are sealed under`;
    throw new CommandFailure('failed', message, error);
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

function openKeyring(keyFile: string, databaseFile: string): Keyring {
  // The key file is durable before the database is made, so a start that was cut short never leaves
  // the second without the first.
  if (existsSync(databaseFile) && !existsSync(keyFile)) {
    throw new Error(`${keyFile} is missing, and without it ${databaseFile} cannot be read`);
  }
  return new Keyring(openRootKeys(keyFile));
}
