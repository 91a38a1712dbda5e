// Rows of accounts are written a moment after what they charge was recorded (decision 93): who
// reads them in a gateway's database waits for that.
import { setTimeout } from 'node:timers/promises';
import { readLogSize } from '#bursar/audit/log/stored-tiles.js';
import { openDatabase } from '#bursar/core/database.js';
import { readCharged } from '#bursar/ledger/seal-roots.js';

/**
 * Resolves when the rows of accounts have what all records of the database charged, which a gateway
 * has to be serving for.
 */
export async function accountsWritten(path: string): Promise<void> {
  using db = openDatabase(path, { readonly: true, cacheKib: 1024 });
  const isBehind = async () => {
    db.exec('BEGIN');
    const size = await readLogSize(db.tx);
    const charged = await readCharged(db.tx, size);
    db.exec('ROLLBACK');
    return charged < size;
  };
  while (await isBehind()) await setTimeout(5);
}
