// The newest checkpoint that each witness has cosigned, kept in the database so that receipts carry
// it after a restart as well. Invariant: what is here was verified when it came.
import type { Reader, Tx } from '../../core/database.ts';
import { type Checkpoint, checkpointOf } from './checkpoint.ts';

export const cosignatureSchema = `
CREATE TABLE log_cosignatures (    -- the newest of each witness
  witness TEXT PRIMARY KEY,        -- NAME+ID of its key
  size INTEGER NOT NULL,           -- of the checkpoint
  note TEXT NOT NULL               -- with the log's signatures, and what witnesses had added so far
) WITHOUT ROWID;
`;

export interface CosignedNote {
  /** `NAME+ID` of the witness's key. */
  witness: string;
  note: string;
  checkpoint: Checkpoint;
}

/** Takes the place of what the witness had cosigned before. */
export async function noteCosigned(tx: Tx, witness: string, note: string): Promise<void> {
  const { size } = readCheckpoint(note);
  const sql = `INSERT INTO log_cosignatures VALUES (?, ?, ?)
    ON CONFLICT (witness) DO UPDATE SET size = excluded.size, note = excluded.note`;
  await tx.run(sql, witness, size, note);
}

/** All, the newest last. */
export async function listCosigned(read: Reader): Promise<CosignedNote[]> {
  const sql = 'SELECT witness, note FROM log_cosignatures ORDER BY size, length(note)';
  const rows = await read.all<{ witness: string; note: string }>(sql);
  return rows.map((row) => ({ ...row, checkpoint: readCheckpoint(row.note) }));
}

function readCheckpoint(note: string): Checkpoint {
  const checkpoint = checkpointOf(note);
  if (!checkpoint) throw new Error('a cosigned note that is no checkpoint');
  return checkpoint;
}
