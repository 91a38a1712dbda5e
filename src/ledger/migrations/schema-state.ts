// What schema a database has, and whether this Bursar can serve it.
import { createHash } from 'node:crypto';
import type { OpenDatabase, Reader, Tx } from '../../core/database.ts';
import type { Keyring } from '../../core/keyring.ts';
import { readVersion } from '../../core/version.ts';
import { schema } from '../schema.ts';
import { sealRoots } from '../sealed-state.ts';
import { oldestSchema, schemaVersion } from './steps.ts';

export interface SchemaState {
  /** Of the database; 0: it is empty. */
  schema: number;
  /** `older`: migrations lead to this one's. `ancient`: none do. */
  relation: 'empty' | 'ancient' | 'older' | 'same' | 'newer';
  /** The version of Bursar that last changed the schema; null: unknown, as before schema 4. */
  madeBy: string | null;
}

/** From which on databases say who made them. */
const historySchema = 4;

export async function readSchemaState(db: OpenDatabase): Promise<SchemaState> {
  const found = db.userVersion();
  const madeBy = found >= historySchema ? await readMaker(db.tx) : null;
  return { schema: found, relation: relationOf(found), madeBy };
}

function relationOf(found: number): SchemaState['relation'] {
  if (found === 0) return 'empty';
  if (found === schemaVersion) return 'same';
  if (found > schemaVersion) return 'newer';
  return found < oldestSchema ? 'ancient' : 'older';
}

async function readMaker(read: Reader): Promise<string | null> {
  const sql = 'SELECT version FROM schema_history ORDER BY schema DESC LIMIT 1';
  const version = (await read.get<{ version: unknown }>(sql))?.version;
  // Who writes into the file writes it into messages, too.
  return typeof version === 'string' && /^[\w.+-]{1,64}$/.test(version) ? version : null;
}

/** Why a database cannot be opened by this Bursar; null: it can, perhaps after a migration. */
export function describeRefusal({ schema: found, relation, madeBy }: SchemaState): string | null {
  const here = `this is Bursar ${readVersion()}, whose schema is ${schemaVersion}`;
  if (relation === 'newer') {
    const needed = madeBy === null ? 'a newer Bursar' : `Bursar ${madeBy} or newer`;
    return `the database has schema ${found} and needs ${needed}; ${here}`;
  }
  if (relation === 'ancient') {
    const reason = `from before release 0.1.0, which no release reads; ${here}`;
    return `the database has schema ${found}, ${reason}`;
  }
  return null;
}

/** Makes the tables where there are none. Throws where the schema is not this Bursar's. */
export async function createSchema(db: OpenDatabase, keyring: Keyring): Promise<void> {
  const state = await readSchemaState(db);
  if (state.relation === 'same') return;
  const refusal = describeRefusal(state);
  if (refusal !== null) throw new Error(refusal);
  if (state.relation === 'older') {
    const way = '"bursar serve" and "bursar database migrate" bring it there';
    throw new Error(`the database has schema ${state.schema}, not ${schemaVersion}; ${way}`);
  }
  db.exec(`BEGIN; ${schema} PRAGMA user_version = ${schemaVersion};`);
  await noteStep(db.tx, {
    ...{ from: 0, to: schemaVersion, timeMs: Date.now() },
    ...{ before: null, after: await digestSchema(db.tx) },
  });
  await sealRoots(db, keyring);
  db.exec('COMMIT');
}

export interface StepTaken {
  from: number;
  to: number;
  timeMs: number;
  /** Digests of the schema. */
  before: string | null;
  after: string;
}

export async function noteStep(
  tx: Tx,
  { from, to, timeMs, before, after }: StepTaken,
): Promise<void> {
  await tx.run(
    `INSERT INTO schema_history
       (schema, from_schema, version, time_ms, digest_before, digest_after)
     VALUES (?, ?, ?, ?, ?, ?)`,
    ...[to, from, readVersion(), timeMs, before, after],
  );
}

/**
 * SHA-256, hex, of all that defines tables and indexes, without comments and line breaks: two
 * databases have the same only if their tables have the same columns in the same order, keys and
 * indexes.
 */
export async function digestSchema(read: Reader): Promise<string> {
  const hash = createHash('sha256');
  for (const line of await listSchema(read)) hash.update(`${line}\n`);
  return hash.digest('hex');
}

/** One line for each table and index. */
export async function listSchema(read: Reader): Promise<string[]> {
  const rows = await read.all<{ type: string; name: string; sql: string | null }>(
    'SELECT type, name, sql FROM sqlite_schema ORDER BY type, name',
  );
  return rows.map(({ type, name, sql }) => `${type} ${name}: ${normalize(sql ?? '')}`);
}

/** Of statements without texts that have comments or spaces in them. */
function normalize(sql: string): string {
  return sql
    .replaceAll(/--[^\n]*/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ?([(),]) ?/g, '$1');
}
