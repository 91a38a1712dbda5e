// Seals what there is of who may what and how much, whatever it was before: the operator has looked
// at what is not authentic, and takes the responsibility for it. What was accepted is in the audit
// log.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { RecordLog } from '../audit/record-log.ts';
import { noStorage } from '../catalog/outcome.ts';
import type { OpenDatabase } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { DigestBlocks, digestBytes, type SealedValue, sealRow } from '../core/seals/row-seal.ts';
import { SealHeads } from '../core/seals/seal-heads.ts';
import { fieldsOf, type SealedTable, sealedTables, sqlOf } from '../core/seals/sealed-tables.ts';
import { AccountMacs } from '../quota/leases/account-macs.ts';
import { sealAccounts } from '../quota/leases/account-tables.ts';
import { sealLevels } from '../quota/storage/storage-tables.ts';
import { sealRoots, verifySealedState } from './sealed-state.ts';

/** Names that a record has; more are in more records. */
const namesMax = 100;

/** Gives what was not authentic until now. Nobody else has the database open. */
export async function acceptRights(db: OpenDatabase, keyring: Keyring): Promise<string[]> {
  db.exec('BEGIN IMMEDIATE');
  try {
    const all = { toldMax: Number.POSITIVE_INFINITY };
    const { unsealed } = await verifySealedState(db, keyring, all);
    const accepted = unsealed.map(({ what }) => what);
    if (accepted.length > 0) {
      db.exec('DELETE FROM seals; DELETE FROM seal_heads;');
      await sealTables(db, keyring);
      const macs = new AccountMacs(keyring);
      await sealAccounts(db.tx, macs);
      await sealLevels(db.tx, macs);
      await record(db, accepted);
      await sealRoots(db, keyring);
    }
    db.exec('COMMIT');
    return accepted;
  } catch (error) {
    db.exec('ROLLBACK');
    throw error;
  }
}

async function sealTables(db: OpenDatabase, keyring: Keyring): Promise<void> {
  const { currentEpoch: epoch } = keyring;
  const blocks = new DigestBlocks(keyring);
  const digests = new Map<string, Uint8Array>();
  db.define('bursar_accept', (index, tenant, ...values) => {
    const table = sealedTables[index as number] as SealedTable;
    const mac = sealRow(keyring, table, { epoch, values: values as SealedValue[] });
    const digest = digests.get(tenant as string) ?? new Uint8Array(digestBytes);
    digests.set(tenant as string, digest);
    blocks.fold(digest, epoch, mac.subarray(0, digestBytes));
    return mac;
  });
  for (const [i, table] of sealedTables.entries()) {
    const [tenant, row] = [sqlOf(table.tenant, 't'), sqlOf(table.row, 't')];
    await db.tx.run(
      `INSERT INTO seals SELECT '${table.name}', ${tenant}, ${row}, ${epoch},
         bursar_accept(${i}, ${tenant}, ${fieldsOf(table, 't')}) FROM ${table.name} AS t`,
    );
  }
  const heads = await SealHeads.read(db.tx, keyring);
  for (const [tenant, digest] of digests) await heads.change(db.tx, tenant, digest);
}

async function record({ tx }: OpenDatabase, accepted: readonly string[]): Promise<void> {
  const log = await RecordLog.open(tx);
  const sql = 'SELECT time_ms AS timeMs FROM records ORDER BY idx DESC LIMIT 1';
  const last = await tx.get<{ timeMs: number }>(sql);
  const timeMs = Math.max(last?.timeMs ?? 0, Date.now());
  const origin = ownOrigin('bursar database accept');
  for (let from = 0; from < accepted.length; from += namesMax) {
    const draft = draftRecord(unasked(defaultTenant, rootPrincipal), origin, {
      action: 'bursar:AcceptRights',
      target: 'database',
      change: { accepted: accepted.slice(from, from + namesMax), count: accepted.length },
      status: 200,
    });
    await log.append(draft, { index: log.size, timeMs, ...noStorage, cost: null });
  }
  await log.flush();
}
