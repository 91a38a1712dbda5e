// What the journal in an S3 store consists of, as far as its database has written it
// (docs/formats/journal.md). Invariant: a segment is listed in the transaction that takes its
// changes out of the outbox, and a snapshot before anything that it makes superfluous is removed:
// so an object that is listed here and not in the store was lost there.
import type { Reader, Tx } from '../core/database.ts';

export const journalObjectSchema = `
CREATE TABLE journal_objects (     -- what the journal in a store consists of
  store INTEGER NOT NULL,
  name TEXT NOT NULL,              -- in its generation
  last_seq INTEGER,                -- of a segment; null: it is none
  size INTEGER NOT NULL,           -- bytes, as it is stored
  digest BLOB NOT NULL,            -- SHA-256 of that
  PRIMARY KEY (store, name)
) WITHOUT ROWID;
`;

export interface JournalObjectRow {
  name: string;
  /** Null: it is no segment. */
  lastSeq: number | null;
  sizeBytes: number;
  digest: Uint8Array;
}

/**
 * The objects in the order of their names. A journal that release 0.1.0 wrote did not list them, so
 * it has none.
 */
export async function listJournalObjects(read: Reader, store: number): Promise<JournalObjectRow[]> {
  return read.all<JournalObjectRow>(
    `SELECT name, last_seq AS lastSeq, size AS sizeBytes, digest FROM journal_objects
       WHERE store = ? ORDER BY name`,
    store,
  );
}

export async function noteJournalObject(
  tx: Tx,
  store: number,
  { name, lastSeq, sizeBytes, digest }: JournalObjectRow,
): Promise<void> {
  const sql = 'INSERT OR REPLACE INTO journal_objects VALUES (?, ?, ?, ?, ?)';
  await tx.run(sql, store, name, lastSeq, sizeBytes, digest);
}

/** A journal's snapshot: what it consists of, and the change from which on segments add to it. */
export interface NotedSnapshot {
  store: number;
  beginSeq: number;
  /** The marker of the generation among them. */
  objects: readonly JournalObjectRow[];
}

/**
 * Lists a complete snapshot in the place of the one before, and of segments that it makes
 * superfluous.
 */
export async function noteSnapshot(tx: Tx, snapshot: NotedSnapshot): Promise<number> {
  const { store, beginSeq, objects } = snapshot;
  const { changes } = await tx.run(
    'DELETE FROM journal_objects WHERE store = ? AND (last_seq IS NULL OR last_seq < ?)',
    ...[store, beginSeq],
  );
  for (const object of objects) await noteJournalObject(tx, store, object);
  return changes;
}

/** The store gets a new journal. */
export async function forgetJournalObjects(tx: Tx, store: number): Promise<void> {
  await tx.run('DELETE FROM journal_objects WHERE store = ?', store);
}
