// Which root keys the database was written under, so that it is never served with others: with a
// key file of another gateway, or with an older copy that lacks an epoch. Invariant: an epoch is
// noted, and durably, before anything is written under it, and nothing is noted beside a key that
// does not fit.
import type { Reader, Tx } from '../core/database.ts';
import type { Keyring, RootKey } from '../core/keyring.ts';
import type { LedgerAnswer, LedgerRequest } from './commit.ts';

/** Throws when the database was written under a key that the keyring has not; else notes all. */
export async function claimEpochs(tx: Tx, keyring: Keyring): Promise<void> {
  await checkEpochs(tx, keyring);
  for (const epoch of keyring.epochs) await noteEpoch(tx, keyring, epoch);
}

/** Throws when the database was written under a key that the keyring has not. */
export async function checkEpochs(read: Reader, keyring: Keyring): Promise<void> {
  const noted = await read.all<{ epoch: number; proof: Buffer }>(
    'SELECT epoch, proof FROM key_epochs',
  );
  for (const { epoch, proof } of noted) {
    if (!keyring.epochs.includes(epoch)) {
      throw new Error(`the key file lacks the root key of epoch ${epoch}, which is in use`);
    }
    if (!keyring.proofKey(epoch).equals(proof)) {
      throw new Error(`the key file has another root key of epoch ${epoch} than the one in use`);
    }
  }
}

/**
 * Notes the root key of another epoch, which is durable in its file already. The epoch begins when
 * the transaction is committed (`beginEpochs`).
 */
export async function noteRootKey(tx: Tx, keyring: Keyring, key: RootKey): Promise<void> {
  keyring.learn(key);
  await noteEpoch(tx, keyring, key.epoch);
}

/** To be called with each batch that was committed, and its answers. */
export function beginEpochs(
  keyring: Keyring,
  requests: readonly LedgerRequest[],
  answers: readonly LedgerAnswer[],
): void {
  for (const [i, request] of requests.entries()) {
    if (request.kind !== 'commit' || request.commit.change.kind !== 'addRootKey') continue;
    if (answers[i]?.ok) keyring.begin(request.commit.change.key.epoch);
  }
}

async function noteEpoch(tx: Tx, keyring: Keyring, epoch: number): Promise<void> {
  const sql = 'INSERT OR IGNORE INTO key_epochs VALUES (?, ?)';
  await tx.run(sql, epoch, keyring.proofKey(epoch));
}
