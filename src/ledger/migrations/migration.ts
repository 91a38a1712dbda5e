// What a step from one schema to the next is. A step is never edited once a release has it:
// databases that it made are out there, and the next step must find what it left. So it imports
// nothing that may change: its SQL stands in its own file, not in a room's.
import type { SqlValue, Tx } from '../../core/database.ts';
import type { Keyring } from '../../core/keyring.ts';

export interface Migration {
  /** The schema that it leads to, from the one before. Its file's name begins with it. */
  to: number;
  /** What it changes, for admins; goes on after "schema 4: ". */
  what: string;
  /** Runs in a transaction of its own. Throws where a row is not what it must be, naming it. */
  run(parts: MigrationParts): Promise<void>;
}

export interface MigrationParts {
  tx: Tx;
  /** For statements that define tables. */
  exec(sql: string): void;
  /** A function for statements of this step, of a name that no other has. */
  define(name: string, compute: (...values: SqlValue[]) => SqlValue): void;
  /** To verify what is sealed, and to seal it anew. */
  keyring: Keyring;
  /** To be told now and then by steps that go through rows. */
  onProgress(rowsDone: number): void;
}
