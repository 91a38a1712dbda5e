// The thread that verifies all that is sealed once, in one transaction of a reader of its own, and
// ends.
import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from '../core/database.ts';
import { Keyring, type RootKey } from '../core/keyring.ts';
import type { Unsealed } from '../core/seals/row-seal.ts';
import { verifySealedState } from './sealed-state.ts';

export interface SealCheckOptions {
  /** The database file. */
  path: string;
  /** Of all epochs. */
  rootKeys: readonly RootKey[];
}

export interface SealCheck {
  unsealed: Unsealed[];
  /** Rows that were looked at. */
  rows: number;
}

const { path, rootKeys } = workerData as SealCheckOptions;
const db = openDatabase(path, { readonly: true, cacheKib: 16 * 1024 });
db.exec('BEGIN');
const { unsealed, rows } = await verifySealedState(db, new Keyring(rootKeys));
db.exec('COMMIT');
db.close();
parentPort?.postMessage({ unsealed, rows } satisfies SealCheck);
