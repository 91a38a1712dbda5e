// `bursar log fork-point` and `bursar log restart`: what to do when the log that is here is not the
// one that was signed, after a restore (docs/admin/restore.md). Both work on the data folder.
// Invariant: the first changes nothing; the second leaves every record where it is, and is one
// itself.
import type { Command } from 'commander';
import { checkpointOf, renderCheckpoint } from '../audit/log/checkpoint.ts';
import { listCosigned } from '../audit/log/cosignatures.ts';
import {
  type ForkReport,
  reportFork,
  type Sighting,
  sightingOf,
} from '../audit/log/fork-report.ts';
import { listLogKeys } from '../audit/log/log-keys.ts';
import { emptyRoot } from '../audit/log/merkle.ts';
import { type NoteKey, signNote } from '../audit/log/note.ts';
import { parseProof } from '../audit/log/proof-text.ts';
import { readLogSize, storedTiles } from '../audit/log/stored-tiles.ts';
import { LogDamage, VerifiedLog } from '../audit/log/verified-log.ts';
import { openLogSource, SourceFailure } from '../audit/verify/log-source.ts';
import { verifyCheckpoint } from '../audit/verify/signed-checkpoint.ts';
import { afterwards } from '../core/closing.ts';
import { CommandFailure, messageOfFailure, orFail } from '../core/command-failure.ts';
import { openDatabase, type Reader } from '../core/database.ts';
import { printable } from '../core/printable.ts';
import { askSeenSize } from '../gateway/log/witnesses.ts';
import { LogKeyFile } from '../ledger/log-key-file.ts';
import { signerOf } from '../ledger/log-signing.ts';
import {
  type DataFolder,
  databaseOf,
  dataFiles,
  openDataFolder,
} from '../server/folder/data-folder.ts';
import { readKeptCheckpoint } from '../server/folder/kept-checkpoint.ts';
import { StorePrices } from '../server/folder/store-prices.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { settings } from '../server/settings/settings.ts';
import { collect } from './command-arguments.ts';
import { readText } from './key-files.ts';
import { openLedger, renameLog } from './log-restart.ts';
import { print, printJson } from './output.ts';
import { formatCount } from './progress.ts';
import { addSettingFlags } from './setting-flags.ts';

interface ForkFlags {
  json?: boolean;
  checkpoint?: string[];
  log?: string;
}

interface RestartFlags {
  json?: true;
  origin: string;
  reason: string;
}

/** Adds them to the group `log`, which is there already. */
export function addLogForkCommands(program: Command): void {
  const log = program.commands.find((command) => command.name() === 'log');
  if (!log) throw new Error('there is no group log');
  const forkPoint = log
    .command('fork-point')
    .description('say how far the log in DIR is the one that others have seen; changes nothing')
    .option('--json', 'answer with JSON')
    .option(
      '--checkpoint <file>',
      'a checkpoint that was kept elsewhere, or a receipt; repeatable',
      collect,
    )
    .option('--log <place>', 'folder or address of an export of the log: then the answer is exact');
  addSettingFlags(forkPoint, ['data', 'config', 'witnesses']).action(
    async ({ json, checkpoint, log: place, ...flags }: ForkFlags & Flags) => {
      const report = await findFork(loadConfig(flags), checkpoint ?? [], place);
      if (json) printJson(report);
      else printReport(report);
    },
  );
  const restart = log
    .command('restart')
    .description('go on with the log in DIR under another name and a new key, from now on')
    .requiredOption('--origin <name>', 'name of the log from now on, which it never had')
    .requiredOption('--reason <text>', 'why; it is recorded')
    .option('--json', 'answer with JSON');
  const wanted = [
    ...(['data', 'config', 'stores', 'prices', 'priceBooks'] as const),
    ...(['kmsKey', 'kmsRegion', 'kmsEndpoint'] as const),
  ];
  addSettingFlags(restart, wanted).action(
    async ({ origin, reason, json, ...flags }: RestartFlags & Flags) => {
      await restartLog(loadConfig(flags), { origin, reason, ...(json && { json }) });
    },
  );
}

async function findFork(
  config: Config,
  files: readonly string[],
  place: string | undefined,
): Promise<ForkReport & { origin: string }> {
  const { keptCheckpointFile, logKeysFile } = dataFiles(config.data);
  using db = openDatabase(databaseOf(config), { readonly: true, cacheKib: 16 * 1024 });
  const read = db.tx;
  const rows = await listLogKeys(read);
  const origin = rows[0]?.key.name;
  if (origin === undefined) throw new CommandFailure('failed', 'this log was never signed');
  const keys = rows.map(({ key }) => key);
  const notes = [
    ...files.map((file) => ({ by: file, note: readText(file) })),
    ...[readKeptCheckpoint(keptCheckpointFile)].flatMap((note) =>
      note === null ? [] : [{ by: keptCheckpointFile, note }],
    ),
  ];
  const sightings: Sighting[] = notes.map(({ by, note }) => readSighting(by, note, keys));
  for (const { witness, checkpoint } of await listCosigned(read)) {
    if (checkpoint.origin === origin) sightings.push(sightingOf(witness, checkpoint));
  }
  sightings.push(...(await askWitnesses(config, { path: logKeysFile, read, origin })));
  const size = await readLogSize(read);
  const other = place === undefined ? null : { by: place, tree: await openCopy(place, keys) };
  return { origin, ...(await reportFork({ size, tiles: storedTiles(read) }, sightings, other)) };
}

/**
 * Only the root is compared: somebody who altered it could pretend that there is a fork. The
 * checkpoint may have a name that the log had before a restart, at which all records stayed.
 */
function readSighting(by: string, note: string, keys: readonly NoteKey[]): Sighting {
  const checkpoint = checkpointOf(parseProof(note)?.checkpoint ?? note);
  if (!checkpoint) throw new CommandFailure('failed', `${by} is no checkpoint, and no receipt`);
  if (!keys.some(({ name }) => name === checkpoint.origin)) {
    const message = `${by} is of log ${checkpoint.origin}, which the database does not know`;
    throw new CommandFailure('failed', message);
  }
  return sightingOf(by, checkpoint);
}

/** Witnesses tell how many records they have seen, and not which. */
async function askWitnesses(
  { witnesses = [] }: Pick<Config, 'witnesses'>,
  { origin, ...log }: { path: string; read: Reader; origin: string },
): Promise<Sighting[]> {
  if (witnesses.length === 0) return [];
  const { keys } = await LogKeyFile.open(log);
  const empty = renderCheckpoint({ origin, size: 0, root: emptyRoot });
  const note = signNote(empty, keys.filter(({ name }) => name === origin).map(signerOf));
  const sightings: Sighting[] = [];
  for (const witness of witnesses) {
    const by = witness.key.name;
    try {
      sightings.push({ by, size: await askSeenSize(witness, note), root: null });
    } catch (error) {
      const message = `witness ${by} was asked, and it is not known what it has seen`;
      throw new CommandFailure('failed', `${message}: ${messageOfFailure(error)}`, error);
    }
  }
  return sightings;
}

async function openCopy(
  place: string,
  keys: readonly NoteKey[],
): Promise<{ size: number; tiles: VerifiedLog }> {
  const source = openLogSource(place);
  try {
    const note = await source.read('checkpoint');
    if (note === undefined) throw new LogDamage('it has no checkpoint');
    const head = verifyCheckpoint(note, { keys });
    if (!head.ok) throw new LogDamage(head.why);
    return { size: head.size, tiles: await VerifiedLog.open(head, source) };
  } catch (error) {
    if (!(error instanceof LogDamage || error instanceof SourceFailure)) throw error;
    throw new CommandFailure('failed', `${place}: ${error.message}`, error);
  }
}

function printReport(report: ForkReport & { origin: string }): void {
  const { origin, size, sightings, agreedSize, isExact, missing, doubtful } = report;
  print(`log ${origin}: ${formatCount(size)} records are here`);
  for (const { by, size: seen, relation } of sightings) {
    print(`  ${printable(by)}: ${formatCount(seen)} records, ${relation}`);
  }
  if (sightings.length === 0) print('  nobody who has seen it was asked');
  const least = isExact ? '' : 'at least ';
  print(`the first ${formatCount(agreedSize)} are ${least}those that were seen`);
  if (missing) {
    const { from, to } = missing;
    print(
      `records ${from} to ${to} were signed and are missing: what they tell of was acknowledged`,
    );
  }
  if (doubtful) {
    const { from, to } = doubtful;
    print(
      `records ${from} to ${to} ${isExact ? 'are' : 'may be'} others than those that were seen`,
    );
  }
  if (!missing && !doubtful) print('nothing that was seen is missing');
}

async function restartLog(config: Config, asked: RestartFlags): Promise<void> {
  const origin = orFail('usage', '--origin ', () => settings.logOrigin.parse(asked.origin));
  // As `serve` does: nothing in the folder is for other users' eyes.
  process.umask(0o077);
  databaseOf(config);
  using folder = await openDataFolder(config);
  const before = await restartIn(folder, config, { ...asked, origin });
  if (asked.json) printJson({ origin, before });
  else {
    print(`the log goes on as ${origin}; it was ${before}`);
    print('tell auditors and witnesses its new name and key: "bursar log key"');
  }
}

/** Gives the name that the log had. */
async function restartIn(
  folder: DataFolder,
  config: Config,
  { origin, reason }: RestartFlags,
): Promise<string> {
  const prices = new StorePrices(config, Date.now());
  const ledger = await openLedger(folder.databaseFile, folder.rootKeys.keys, prices);
  await using _ledger = afterwards(() => ledger.close());
  using db = openDatabase(folder.databaseFile, { readonly: true, cacheKib: 16 * 1024 });
  const parts = { ledger, read: db.tx, ...folder };
  const before = await renameLog(parts, { origin, reason, source: 'bursar log restart' });
  if (before !== null) return before;
  throw new CommandFailure('failed', 'this log was never signed');
}
