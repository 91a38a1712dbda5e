// Changes of identities that the journals of S3 stores do not have yet. A row of `outbox` whose
// bucket is `identitiesBucket` says that there was one; this table, of what. Invariants: both are
// written in the transaction of the change, for each store whose journal tells of identities; of a
// store that is not in use nothing is kept: its journal is told all by a snapshot when it is again.
import type { Reader, Tx } from '../../core/database.ts';
import type { Tells, Thing } from './identity-format.ts';

export const identityOutboxSchema = `
CREATE TABLE identity_outbox (     -- identities whose change a journal does not have yet
  store INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,              -- as docs/formats/journal.md has them
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (store, seq, kind, tenant, name)
) WITHOUT ROWID;
CREATE TABLE journal_identities (  -- what journals in S3 stores tell of identities; no row: nothing
  store INTEGER PRIMARY KEY,
  state INTEGER NOT NULL           -- 1 changes from now on, 2 all, 3 all with the secrets of keys
);
`;

/** No bucket has it. */
export const identitiesBucket = 0;

const stateOf: Record<Tells, number> = { identities: 2, identitiesAndKeys: 3 };

/** What the journal in a store tells of identities; `changes`: but not yet all. */
export async function readTells(read: Reader, store: number): Promise<Tells | 'changes' | null> {
  const sql = 'SELECT state FROM journal_identities WHERE store = ?';
  const state = (await read.get<{ state: number }>(sql, store))?.state ?? 0;
  if (state === 0) return null;
  return state === 1 ? 'changes' : state === 2 ? 'identities' : 'identitiesAndKeys';
}

/** From now on changes are kept for the journal in a store. */
export async function beginTelling(tx: Tx, store: number): Promise<number> {
  const sql = 'INSERT INTO journal_identities VALUES (?, 1) ON CONFLICT (store) DO NOTHING';
  return (await tx.run(sql, store)).changes;
}

/** A complete snapshot tells all of them. */
export async function noteTold(tx: Tx, store: number, tells: Tells): Promise<void> {
  await tx.run(
    'INSERT INTO journal_identities VALUES (?, ?) ON CONFLICT DO UPDATE SET state = excluded.state',
    store,
    stateOf[tells],
  );
}

/** No more changes are kept for the journal in a store, which is not in use. */
export async function endTelling(tx: Tx, store: number): Promise<number> {
  await tx.run('DELETE FROM identity_outbox WHERE store = ?', store);
  return (await tx.run('DELETE FROM journal_identities WHERE store = ?', store)).changes;
}

/** Notes that these were changed. `revoked`: in whose name tokens may have been revoked with it. */
export async function noteThings(
  tx: Tx,
  things: readonly Thing[],
  revoked: { tenant: string; principal: string } | null,
  { seq, timeMs }: { seq: number; timeMs: number },
): Promise<void> {
  if (things.length === 0) return;
  const stores = await tx.all<{ store: number }>('SELECT store FROM journal_identities');
  for (const { store } of stores) {
    await tx.run(
      'INSERT INTO outbox VALUES (?, ?, ?, ?, NULL, NULL)',
      ...[store, seq, timeMs, identitiesBucket],
    );
    for (const { kind, tenant, name } of things) {
      const sql = 'INSERT OR IGNORE INTO identity_outbox VALUES (?, ?, ?, ?, ?)';
      await tx.run(sql, store, seq, kind, tenant, name);
    }
    if (!revoked) continue;
    await tx.run(
      `INSERT OR IGNORE INTO identity_outbox SELECT ?, ?, 'revocation', tenant, id
         FROM revocations WHERE tenant = ? AND principal = ? AND revoked_ms = ?`,
      ...[store, seq, revoked.tenant, revoked.principal, timeMs],
    );
  }
}

/** What was changed in one change, as far as the store's journal does not have it. */
export function listThings(read: Reader, store: number, seq: number): Promise<Thing[]> {
  const sql = 'SELECT kind, tenant, name FROM identity_outbox WHERE store = ? AND seq = ?';
  return read.all<Thing>(sql, store, seq);
}

/** Forgets what the journal has. */
export async function forgetThings(tx: Tx, store: number, lastSeq: number): Promise<void> {
  await tx.run('DELETE FROM identity_outbox WHERE store = ? AND seq <= ?', store, lastSeq);
}
