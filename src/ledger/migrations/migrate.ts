// Brings an older database to the schema of this Bursar. Invariants: before the first step there is
// a verified copy, unless the operator does without; each step is one transaction, so that a
// process which is killed leaves the schema before or after a step, and the next start goes on from
// there; every step that was taken is recorded in the audit log by the transaction of the last one.

import { readLogSize } from '../../audit/log/stored-tiles.ts';
import { draftRecord, ownOrigin, unasked } from '../../audit/record-draft.ts';
import { RecordLog } from '../../audit/record-log.ts';
import { noStorage } from '../../catalog/outcome.ts';
import { atEnd } from '../../core/closing.ts';
import { WorkFailure } from '../../core/command-failure.ts';
import { type OpenDatabase, openDatabase, removeDatabase, type Tx } from '../../core/database.ts';
import { isUnwritable } from '../../core/errors.ts';
import { Keyring, type RootKey } from '../../core/keyring.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';
import { checkEpochs } from '../key-epochs.ts';
import { sealRoots, verifySealedState } from '../sealed-state.ts';
import type { Migration } from './migration.ts';
import {
  describeRefusal,
  digestSchema,
  noteStep,
  readSchemaState,
  type SchemaState,
} from './schema-state.ts';
import { schemaVersion, stepsFrom } from './steps.ts';
import { type CopiedState, copyPathOf, copyVerified } from './verified-copy.ts';

/** From which on who may what is sealed. */
const sealedSchema = 10;

export interface MigrateOptions {
  /** The database file; nobody else has it open. */
  path: string;
  /** Of all epochs. */
  rootKeys: readonly RootKey[];
  /** `total` is null where it is not known. */
  onProgress: (step: string, done: number, total: number | null) => void;
}

export interface MigrationReport {
  /** Schemas. */
  from: number;
  to: number;
  /** What was done, or tried; none: the database has this Bursar's schema. */
  steps: { to: number; what: string }[];
  /** The file that has the database as it was; null: none was made. */
  copy: string | null;
}

/**
 * Does what is needed, and nothing where the database has this schema. Throws `WorkFailure`,
 * or the Error of a step, after which the database is as the step before left it.
 */
export function migrate(
  options: MigrateOptions & { withoutCopy: boolean },
): Promise<MigrationReport> {
  return onItsDisk(() => migrateWhole(options));
}

async function migrateWhole(
  options: MigrateOptions & { withoutCopy: boolean },
): Promise<MigrationReport> {
  const { path, onProgress } = options;
  const state = await examine(options);
  const report = reportOn(state);
  if (report.steps.length === 0) return report;
  if (!options.withoutCopy) {
    report.copy = copyPathOf(path, state);
    await copyVerified(path, report.copy, (done, total) =>
      onProgress('copying the database', done, total),
    );
  }
  await takeSteps(path, options);
  return report;
}

/** The same on a copy, which is removed again. Throws as `migrate` does. */
export function rehearse(options: MigrateOptions): Promise<MigrationReport> {
  return onItsDisk(() => rehearseWhole(options));
}

async function rehearseWhole(options: MigrateOptions): Promise<MigrationReport> {
  const { path, onProgress } = options;
  const report = reportOn(await examine(options));
  if (report.steps.length === 0) return report;
  const copy = `${path}.rehearsal`;
  // A log of one that was killed would be taken for that of this copy.
  removeDatabase(copy);
  using _copy = atEnd(() => removeDatabase(copy));
  await copyVerified(path, copy, (done, total) => onProgress('copying the database', done, total));
  await takeSteps(copy, options);
  return report;
}

/** Throws `WorkFailure` where it was the disk that refused. */
async function onItsDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { message, cause = error } = error as Error;
    const { code = '' } = cause as NodeJS.ErrnoException;
    // A step names itself in front of what it met.
    const isOfDisk = isUnwritable(cause) || code === 'EIO' || sqliteOfDisk.test(code);
    if (!isOfDisk) throw error;
    const what = `the database could not be brought to schema ${schemaVersion}: ${message}`;
    const next = 'nothing of it is lost, and the next start goes on from there';
    throw new WorkFailure(`${what}; ${next}`, { cause: error });
  }
}

const sqliteOfDisk = /^SQLITE_(FULL|IOERR|CANTOPEN|READONLY)/;

/** Before anything is changed: is it ours, and can it be brought here? */
async function examine({ path, rootKeys }: MigrateOptions): Promise<CopiedState & SchemaState> {
  using db = openDatabase(path, { readonly: true, cacheKib: 1024 });
  const state = await readSchemaState(db);
  const refusal = describeRefusal(state);
  if (refusal !== null) throw new WorkFailure(refusal);
  if (state.relation === 'empty') return { ...state, records: 0 };
  await checkEpochs(db.tx, new Keyring(rootKeys));
  return { ...state, records: await readLogSize(db.tx) };
}

function reportOn({ schema, relation }: SchemaState): MigrationReport {
  const needed = relation === 'older' ? stepsFrom(schema) : [];
  const steps = needed.map(({ to, what }) => ({ to, what }));
  return { from: schema, to: schemaVersion, steps, copy: null };
}

async function takeSteps(path: string, options: MigrateOptions): Promise<void> {
  using db = openDatabase(path, { readonly: false, cacheKib: 64 * 1024 });
  // Steps that make a table anew drop the old one, which must not take its children along.
  db.exec('PRAGMA foreign_keys = OFF');
  if (db.userVersion() >= sealedSchema) await requireSealed(db, new Keyring(options.rootKeys));
  for (const step of stepsFrom(db.userVersion())) await takeStep(db, step, options);
  db.emptyLog(0);
}

/** What is not authentic is not carried on: it would be sealed with what is. */
async function requireSealed(db: OpenDatabase, keyring: Keyring): Promise<void> {
  const { unsealed } = await verifySealedState(db, keyring);
  if (unsealed.length === 0) return;
  const told = unsealed.slice(0, 3).map(({ what }) => what);
  throw new WorkFailure(`the database was changed by somebody else: ${told.join('; ')}`);
}

async function takeStep(
  db: OpenDatabase,
  step: Migration,
  { rootKeys, onProgress }: MigrateOptions,
): Promise<void> {
  const { tx } = db;
  const keyring = new Keyring(rootKeys);
  const name = `schema ${step.to}: ${step.what}`;
  onProgress(name, 0, null);
  db.exec('BEGIN IMMEDIATE');
  try {
    const before = await digestSchema(tx);
    await step.run({
      tx,
      exec: (sql) => db.exec(sql),
      define: db.define,
      keyring,
      onProgress: (done) => onProgress(name, done, null),
    });
    const [orphan] = await tx.all<{ table: string }>('PRAGMA foreign_key_check');
    if (orphan) throw new Error(`a row of ${orphan.table} names one that is not there`);
    const [from, after] = [step.to - 1, await digestSchema(tx)];
    await noteStep(tx, { from, to: step.to, timeMs: Date.now(), before, after });
    // The tables of records are this Bursar's only then.
    if (step.to === schemaVersion) await recordMigrations(tx);
    // Whoever goes on from here verifies them first.
    if (step.to >= sealedSchema) await sealRoots(db, keyring);
    db.exec(`PRAGMA user_version = ${step.to}; COMMIT;`);
  } catch (error) {
    db.rollback();
    const reason = error instanceof Error ? error.message : String(error);
    throw new WorkFailure(`${name}: ${reason}`, { cause: error });
  }
}

interface UnrecordedStep {
  schema: number;
  fromSchema: number;
  version: string;
  digestBefore: string;
  digestAfter: string;
}

/**
 * Records the steps that are not in the log yet, in the transaction of the last of them. They are
 * the gateway's own doing: the records name no access key, and are of the tenant that its operators
 * are in.
 */
async function recordMigrations(tx: Tx): Promise<void> {
  const unrecorded = await tx.all<UnrecordedStep>(
    `SELECT schema, from_schema AS fromSchema, version, digest_before AS digestBefore,
       digest_after AS digestAfter
     FROM schema_history WHERE record_idx IS NULL AND from_schema > 0 ORDER BY schema`,
  );
  const log = await RecordLog.open(tx);
  const lastSql = 'SELECT time_ms AS timeMs FROM records ORDER BY idx DESC LIMIT 1';
  const last = await tx.get<{ timeMs: number }>(lastSql);
  const timeMs = Math.max(last?.timeMs ?? 0, Date.now());
  for (const step of unrecorded) {
    const index = log.size;
    await log.append(draftOf(step), { index, timeMs, ...noStorage, cost: null });
    const sql = 'UPDATE schema_history SET record_idx = ? WHERE schema = ?';
    await tx.run(sql, index, step.schema);
  }
  await log.flush();
}

function draftOf({ schema, fromSchema, version, digestBefore, digestAfter }: UnrecordedStep) {
  return draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(), {
    action: 'bursar:MigrateDatabase',
    target: 'database',
    change: {
      from: fromSchema,
      to: schema,
      version,
      schemaBefore: digestBefore,
      schemaAfter: digestAfter,
    },
    status: 200,
  });
}
