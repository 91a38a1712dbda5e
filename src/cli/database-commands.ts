// `bursar database`: what schema the database in a data folder has, whether it is whole, and its
// migration without a gateway.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { checkDatabase, type OpenDatabase, openDatabase } from '../core/database.ts';
import { printable } from '../core/printable.ts';
import { readVersion } from '../core/version.ts';
import { acceptRights } from '../ledger/accept-rights.ts';
import { type MigrationReport, rehearse } from '../ledger/migrations/migrate.ts';
import { describeRefusal, readSchemaState } from '../ledger/migrations/schema-state.ts';
import { schemaVersion, stepsFrom } from '../ledger/migrations/steps.ts';
import { verifySealedState } from '../ledger/sealed-state.ts';
import { databaseOf, openDataFolder } from '../server/folder/data-folder.ts';
import { migrateFolder, tellSteps } from '../server/folder/migrated-folder.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { print, printJson } from './output.ts';
import { addSettingFlags } from './setting-flags.ts';

interface DatabaseCheck {
  file: string;
  schema: number;
  /** Of this Bursar. */
  ownSchema: number;
  version: string;
  /** The Bursar that last changed the schema; null: unknown. */
  madeBy: string | null;
  /** Steps that `serve` and `migrate` would take. */
  steps: { to: number; what: string }[];
  /** Why this Bursar cannot serve it; null: it can. */
  refusal: string | null;
  /** What SQLite finds wrong with the file. */
  damage: string[];
  /**
   * Rows of identities, rights and limits that are not what a gateway stored. Of an older schema
   * none is known.
   */
  unsealed: string[];
}

const keySettings = ['kmsKey', 'kmsRegion', 'kmsEndpoint'] as const;

export function addDatabaseCommands(program: Command): void {
  const database = program
    .command('database')
    .description('the database in a data folder: its schema, and whether it is whole');
  const check = database
    .command('check')
    .description(
      'read and verify all of the database, and tell its schema; a gateway may run meanwhile',
    )
    .option('--json', 'answer with JSON');
  addSettingFlags(check, ['data', 'config', ...keySettings]).action(
    async (flags: { json?: boolean } & Flags) => {
      const found = await checkFile(loadConfig(flags));
      if (flags.json) printJson(found);
      else printCheck(found);
      const { refusal, damage, unsealed } = found;
      if (refusal !== null) throw new CommandFailure('failed', refusal);
      if (damage.length > 0) throw new CommandFailure('failed', 'the database is damaged');
      if (unsealed.length > 0) {
        throw new CommandFailure('failed', 'the database was changed by somebody else');
      }
    },
  );
  addAccept(database);
  const migrate = database
    .command('migrate')
    .description("bring an older release's database to this one's schema, as `serve` does")
    .option('--dry-run', 'try it on a copy, which is removed again')
    .option('--json', 'answer with JSON');
  const wanted = ['data', 'config', 'migrateWithoutCopy', ...keySettings] as const;
  addSettingFlags(migrate, wanted).action(
    async (flags: { json?: boolean; dryRun?: boolean } & Flags) => {
      const { json, dryRun } = flags;
      const report = await runMigration(loadConfig(flags), dryRun === true);
      if (json) printJson({ ...report, dryRun: dryRun === true });
      else printMigration(report, dryRun === true);
    },
  );
}

function addAccept(database: Command): void {
  const accept = database
    .command('accept')
    .description('take what is stored of who may what for authentic, when you have looked at it')
    .option('--yes', 'do it; without it, what is not authentic is only listed')
    .option('--json', 'answer with JSON');
  addSettingFlags(accept, ['data', 'config', ...keySettings]).action(
    async (flags: { json?: boolean; yes?: boolean } & Flags) => {
      const { json, yes } = flags;
      const accepted = await acceptStored(loadConfig(flags), yes === true);
      if (json) printJson({ accepted: yes === true, unsealed: accepted });
      else
        for (const what of accepted)
          print(`${yes ? 'accepted' : 'not authentic'}: ${printable(what)}`);
      if (accepted.length === 0 && !json) print('nothing to do: all of it is authentic');
      if (accepted.length > 0 && !yes) {
        throw new CommandFailure('failed', 'nothing was changed; with --yes all of it is accepted');
      }
    },
  );
}

/** Gives the rows that are not authentic, or were not until they were accepted here. */
async function acceptStored(config: Config, isMeant: boolean): Promise<string[]> {
  const path = databaseOf(config);
  using folder = await openDataFolder(config);
  using db = openDatabase(path, { readonly: false, cacheKib: 64 * 1024 });
  const { relation } = await readSchemaState(db);
  if (relation !== 'same') {
    throw new CommandFailure('failed', 'the database has another schema: see `database check`');
  }
  if (isMeant) return await acceptRights(db, folder.keyring);
  return (await verifySealedState(db, folder.keyring)).unsealed.map(({ what }) => what);
}

async function checkFile(config: Config): Promise<DatabaseCheck> {
  const file = databaseOf(config);
  try {
    using db = openDatabase(file, { readonly: true, cacheKib: 1024 });
    const state = await readSchemaState(db);
    const steps = state.relation === 'older' ? stepsFrom(state.schema) : [];
    return {
      file,
      schema: state.schema,
      ownSchema: schemaVersion,
      version: readVersion(),
      madeBy: state.madeBy,
      steps: steps.map(({ to, what }) => ({ to, what })),
      refusal: describeRefusal(state),
      damage: checkDatabase(file),
      unsealed: state.relation === 'same' ? await findUnsealed(db, config) : [],
    };
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    // SQLite's own words: that it is no database, or which page it cannot read.
    throw new CommandFailure('failed', `${file}: ${messageOf(error)}`, error);
  }
}

/** Reads one moment's state: a gateway may write meanwhile. */
async function findUnsealed(db: OpenDatabase, config: Config): Promise<string[]> {
  using folder = await openDataFolder(config, { isShared: true });
  db.exec('BEGIN');
  const { unsealed } = await verifySealedState(db, folder.keyring);
  db.exec('COMMIT');
  return unsealed.map(({ what }) => what);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function runMigration(config: Config, isRehearsal: boolean): Promise<MigrationReport> {
  databaseOf(config);
  // As `serve` does: nothing in the folder is for other users' eyes.
  process.umask(0o077);
  using folder = await openDataFolder(config);
  if (!isRehearsal) return (await migrateFolder(config, folder, tell)) as MigrationReport;
  const { databaseFile: path, rootKeys } = folder;
  return await rehearse({ path, rootKeys: rootKeys.keys, onProgress: tellSteps(tell) });
}

function printCheck(found: DatabaseCheck) {
  const { file, schema, ownSchema, version, madeBy, steps, damage, unsealed } = found;
  const by = madeBy === null ? '' : `, by Bursar ${madeBy}`;
  print(`${file}: schema ${schema}${by}; this is Bursar ${version} with schema ${ownSchema}`);
  printSteps('to be done at the next start', steps);
  for (const what of damage) print(`DAMAGED: ${printable(what)}`);
  if (damage.length === 0) print('every page, index and reference is in order');
  for (const what of unsealed) print(`NOT AUTHENTIC: ${printable(what)}`);
  if (schema !== ownSchema || unsealed.length > 0) return;
  print('who there is, who may what and how much is what the gateway stored');
}

function printMigration({ from, to, steps, copy }: MigrationReport, isRehearsal: boolean): void {
  if (steps.length === 0) {
    print(`nothing to do: the database has schema ${to}`);
    return;
  }
  print(`schema ${from} to ${to}${isRehearsal ? ', tried on a copy: it would work' : ''}`);
  printSteps(isRehearsal ? 'to be done' : 'done', steps);
  if (copy !== null) print(`the database as it was: ${copy}`);
}

function printSteps(title: string, steps: DatabaseCheck['steps']): void {
  for (const { to, what } of steps) print(`  ${title}: schema ${to}, ${what}`);
}

function tell(line: string): void {
  process.stderr.write(`bursar: ${line}\n`);
}
