// `bursar backup`: makes backups of a data folder while its gateway serves, lists, verifies and
// prunes them. Progress goes to stderr, what was found to stdout.
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { type CreateReport, createBackup } from '../backup/create.ts';
import { listBackupIds, type Manifest, manifestName, openManifest } from '../backup/manifest.ts';
import { PieceSealer } from '../backup/pieces.ts';
import type { BackupPlace } from '../backup/place.ts';
import { pruneBackups } from '../backup/prune.ts';
import { isKeyFileWrapped, type SealedKeys, sealKeys } from '../backup/sealed-keys.ts';
import { type VerifyReport, verifyBackup } from '../backup/verify.ts';
import { formatBytes } from '../core/bytes-text.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { afterwards, atEnd } from '../core/closing.ts';
import { CommandFailure, orFail, WorkFailure } from '../core/command-failure.ts';
import { acquireLock } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { printable } from '../core/printable.ts';
import { explained, openBackupPlace, type PlaceFlags } from '../server/folder/backup-place.ts';
import { type DataFolder, dataFiles, openDataFolder } from '../server/folder/data-folder.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { parseCount, parseDuration, parseSize } from '../server/settings/quantities.ts';
import { addPlaceFlags } from './command-arguments.ts';
import { readText } from './key-files.ts';
import { print, printJson, printTable } from './output.ts';
import { formatCount, StepProgress } from './progress.ts';
import { addSettingFlags } from './setting-flags.ts';

interface BackupFlags extends PlaceFlags {
  json?: boolean;
}

interface CreateFlags extends BackupFlags {
  withKeys?: boolean;
  passphraseFile?: string;
  catalogOnly?: boolean;
  copy?: boolean;
  rate?: string;
  keep?: string;
}

const keySettings = ['data', 'config', 'kmsKey', 'kmsRegion', 'kmsEndpoint'] as const;
/** How fast the database is copied: slowly enough that clients of the gateway hardly notice. */
export const backupRateDefault = '32MiB';
/** A lower priority than that of the process that serves. */
const niceness = 10;

export function addBackupCommands(program: Command): void {
  const backup = program
    .command('backup')
    .description('backups of a data folder, in another folder or an S3 bucket');
  addCreate(backup);
  addList(backup);
  addVerify(backup);
  addPrune(backup);
}

function addCreate(backup: Command): void {
  const create = backup
    .command('create')
    .description('make a backup of --data, while its gateway serves or not')
    .argument('<place>', 'folder, or s3://BUCKET/PREFIX, for backups alone')
    .option('--json', 'answer with JSON')
    .option('--with-keys', 'put the root keys in it, sealed by the passphrase, or as KMS has them')
    .option('--passphrase-file <file>', 'file whose first line is the passphrase')
    .option('--catalog-only', 'leave out the bytes of the objects of the local store')
    .option('--copy', 'copy them also where the file system could link them')
    .option('--rate <size>', 'of the copy of the database, a second', backupRateDefault)
    .option('--keep <count>', 'prune then, and keep so many backups');
  addPlaceFlags(create);
  addSettingFlags(create, [...keySettings]).action(
    async (place: string, given: CreateFlags & Flags) => {
      const report = await makeBackup(place, given);
      const { manifest, written, copiedExtents, copiedBytes, missing } = report;
      if (given.json) {
        printJson({ ...summaryOf(manifest), written, copiedExtents, copiedBytes, missing });
      } else printCreated(report, place);
      if (missing.length === 0) return;
      const [first] = missing;
      const what = `${formatCount(missing.length)} extents are not in the data folder (${first})`;
      throw new CommandFailure('failed', `the backup was made, but ${what}: bursar verify data`);
    },
  );
}

async function makeBackup(place: string, flags: CreateFlags & Flags): Promise<CreateReport> {
  const { withKeys, passphraseFile, catalogOnly, copy, rate, keep } = flags;
  const bytesPerSecond = orFail('usage', '--rate ', () => parseSize(rate ?? backupRateDefault));
  if (bytesPerSecond === 0) throw new CommandFailure('usage', '--rate must be more than 0');
  if (catalogOnly && copy) throw new CommandFailure('usage', '--copy goes without --catalog-only');
  const kept = keep === undefined ? undefined : parseKeep(keep);
  // Other users may read nothing of it.
  process.umask(0o077);
  os.setPriority(niceness);
  const folder = await openFolder(loadConfig(flags));
  const seal = withKeys ? keySealer(folder, passphraseFile) : null;
  if (!withKeys && passphraseFile !== undefined) {
    throw new CommandFailure('usage', '--passphrase-file goes with --with-keys');
  }
  const opened = await openBackupPlace(place, flags, { mayMake: true });
  await using _place = afterwards(() => opened.close());
  using progress = new StepProgress();
  const onProgress = progress.show.bind(progress);
  return await explained(place, async () => {
    const work = takeWorkFolder(folder.path);
    using _work = atEnd(work.release);
    const report = await createBackup({
      ...{ folder, keyring: folder.keyring, place: opened, workFolder: work.path },
      extents: catalogOnly ? 'none' : copy ? 'copy' : 'link',
      ...{ bytesPerSecond, sealKeys: seal, onProgress },
    });
    const sealer = new PieceSealer(folder.keyring);
    const keepSinceMs = Number.POSITIVE_INFINITY;
    if (kept !== undefined) {
      await pruneBackups({ place: opened, sealer, keep: kept, keepSinceMs, onProgress });
    }
    return report;
  });
}

/** A folder for unfinished files. One backup of a data folder is made at a time. */
function takeWorkFolder(data: string): { path: string; release: () => void } {
  const path = join(data, 'backup-work');
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const unlock = acquireLock(join(data, 'backup-lock.db'));
  if (!unlock) throw new WorkFailure(`another backup of ${data} is being made`);
  const clear = () => rmSync(path, { recursive: true, force: true });
  // What a killed run has left is removed.
  clear();
  mkdirSync(path, { mode: 0o700 });
  return {
    path,
    release: () => {
      clear();
      unlock();
    },
  };
}

function keySealer(folder: DataFolder, passphraseFile: string | undefined) {
  const file = readFileSync(folder.keyFile, 'utf8');
  const isWrapped = isKeyFileWrapped(file);
  if (passphraseFile === undefined) {
    if (isWrapped) return (): SealedKeys => ({ form: 'kms', file });
    throw new CommandFailure(
      'usage',
      '--with-keys needs --passphrase-file: KMS does not have them',
    );
  }
  const passphrase = readPassphrase(passphraseFile);
  return (id: string): SealedKeys => sealKeys(file, passphrase, id);
}

const passphraseCharactersMin = 12;

export function readPassphrase(file: string): string {
  const [line = ''] = readText(file).split(/\r?\n/);
  if (line.length >= passphraseCharactersMin) return line;
  const least = `at least ${passphraseCharactersMin} characters`;
  throw new CommandFailure('usage', `the first line of ${file} must have ${least}`);
}

/** What a backup is of, for people and programs. */
export function summaryOf(manifest: Manifest) {
  const { id, timeMs, finishedMs, madeBy, schema, records, database, extents, keys } = manifest;
  return {
    id,
    time: isoTime(timeMs),
    seconds: (finishedMs - timeMs) / 1000,
    madeBy,
    schema,
    records,
    databaseBytes: database.sizeBytes,
    extents: extents && { count: extents.count, bytes: extents.bytes, missing: extents.missing },
    keys: keys?.form ?? null,
  };
}

function printCreated(
  { manifest, written, copiedExtents, copiedBytes }: CreateReport,
  place: string,
) {
  const { id, database, records, extents, keys } = manifest;
  print(`backup ${id} in ${printable(place)}`);
  print(`  database: ${formatBytes(database.sizeBytes)}, ${formatCount(records)} records`);
  if (extents) {
    print(`  extents: ${formatCount(extents.count)}, ${formatBytes(extents.bytes)}`);
  } else print('  without the bytes of the local store');
  const more = `${formatCount(copiedExtents)} extents (${formatBytes(copiedBytes)})`;
  print(`  new in the place: ${formatBytes(written.bytes)} of pieces, ${more}`);
  print(keys ? `  root keys: sealed by ${keys.form === 'kms' ? 'KMS' : 'the passphrase'}` : noKeys);
}

const noKeys = '  without the root keys: keep a copy of DIR/keys elsewhere';

function addList(backup: Command): void {
  const list = backup
    .command('list')
    .description('list the backups in a place, the oldest first')
    .argument('<place>', 'folder, or s3://BUCKET/PREFIX')
    .option('--json', 'answer with JSON');
  addPlaceFlags(list);
  addSettingFlags(list, [...keySettings]).action(
    async (place: string, flags: BackupFlags & Flags) => {
      const rows = await withPlace(place, flags, async (opened, sealer) => {
        const found = [];
        for (const id of await listBackupIds(opened)) found.push(await look(opened, sealer, id));
        return found;
      });
      printTable(flags.json, {
        json: rows.map(({ manifest, id, problem }) => {
          return manifest ? summaryOf(manifest) : { id, problem };
        }),
        heading: ['ID', 'TIME', 'DATABASE', 'RECORDS', 'EXTENTS', 'KEYS'],
        rows: rows.map(({ id, manifest, problem }) => {
          if (!manifest) return [id, `DAMAGED: ${problem}`, '', '', '', ''];
          const { timeMs, database, records, extents, keys } = manifest;
          return [
            ...[id, isoTime(timeMs), formatBytes(database.sizeBytes), formatCount(records)],
            extents ? `${formatCount(extents.count)} (${formatBytes(extents.bytes)})` : '-',
            keys?.form ?? '-',
          ];
        }),
        csv: rows.map(({ id, manifest }) => {
          if (!manifest) return [id, 'DAMAGED', '', '', '', ''];
          const { timeMs, database, records, extents, keys } = manifest;
          const amounts = [database.sizeBytes, records, extents?.count ?? ''].map(String);
          return [id, isoTime(timeMs), ...amounts, keys?.form ?? ''];
        }),
      });
    },
  );
}

async function look(place: BackupPlace, sealer: PieceSealer, id: string) {
  try {
    const bytes = await place.read(manifestName(id));
    if (!bytes) throw new IntegrityError(`the manifest of backup ${id} is missing`);
    return { id, manifest: openManifest(sealer, id, bytes), problem: null };
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    return { id, manifest: null, problem: error.message };
  }
}

function addVerify(backup: Command): void {
  const verify = backup
    .command('verify')
    .description('read all of a backup and say what is missing, cut or altered')
    .argument('<place>', 'folder, or s3://BUCKET/PREFIX')
    .argument('[id]', 'the backup (default: the newest)')
    .option('--all', 'each backup in the place')
    .option('--json', 'answer with JSON');
  addPlaceFlags(verify);
  addSettingFlags(verify, [...keySettings]).action(
    async (
      place: string,
      id: string | undefined,
      flags: BackupFlags & { all?: boolean } & Flags,
    ) => {
      const { all } = flags;
      if (all && id !== undefined) throw new CommandFailure('usage', '--all goes without an id');
      const reports = await withPlace(place, flags, async (opened, sealer, onProgress) => {
        const ids = all ? await listBackupIds(opened) : [await chooseBackup(opened, id)];
        const found: VerifyReport[] = [];
        for (const one of ids) {
          const { manifest, problem } = await look(opened, sealer, one);
          found.push(
            manifest
              ? await verifyBackup(opened, sealer, manifest, onProgress)
              : unreadable(one, problem),
          );
        }
        return found;
      });
      if (flags.json) printJson(reports);
      else for (const report of reports) printVerified(report);
      if (reports.some(({ faultCount }) => faultCount > 0)) {
        throw new CommandFailure('failed', 'a backup is not what was written');
      }
    },
  );
}

function unreadable(id: string, _problem: string | null): VerifyReport {
  const none = { pieces: 0, bytes: 0, extents: 0, extentBytes: 0 };
  const fault = { name: manifestName(id), what: 'altered', of: 'the manifest' } as const;
  return { id, ...none, faults: [fault], faultCount: 1 };
}

/** Throws `WorkFailure` when there is none. */
export async function chooseBackup(place: BackupPlace, id: string | undefined): Promise<string> {
  const ids = await listBackupIds(place);
  const chosen = id === undefined ? ids.at(-1) : ids.find((one) => one === id);
  if (chosen !== undefined) return chosen;
  throw new WorkFailure(
    id === undefined ? `${place.name} has no backups` : `${place.name} has no backup ${id}`,
  );
}

function printVerified({
  id,
  pieces,
  bytes,
  extents,
  extentBytes,
  faults,
  faultCount,
}: VerifyReport) {
  const read =
    `${formatCount(pieces)} pieces (${formatBytes(bytes)}), ${formatCount(extents)} extents ` +
    `(${formatBytes(extentBytes)})`;
  print(`backup ${id}: ${read} read${faultCount === 0 ? ', all as written' : ''}`);
  for (const { name, what, of } of faults) print(`  ${what}: ${printable(name)}, of ${of}`);
  if (faultCount > faults.length) print(`  … ${formatCount(faultCount)} in all`);
}

function addPrune(backup: Command): void {
  const prune = backup
    .command('prune')
    .description('remove old backups, and what no backup needs')
    .argument('<place>', 'folder, or s3://BUCKET/PREFIX')
    .requiredOption('--keep <count>', 'so many of the newest are kept, at least 1')
    .option('--keep-for <duration>', 'and all that are younger, such as 30d')
    .option('--json', 'answer with JSON');
  addPlaceFlags(prune);
  addSettingFlags(prune, [...keySettings]).action(
    async (place: string, flags: BackupFlags & { keep: string; keepFor?: string } & Flags) => {
      const { keep, keepFor } = flags;
      const kept = parseKeep(keep);
      const forMs =
        keepFor === undefined ? 0 : orFail('usage', '--keep-for ', () => parseDuration(keepFor));
      const keepSinceMs = forMs === 0 ? Number.POSITIVE_INFINITY : nowMs() - forMs;
      const report = await withPlace(place, flags, (opened, sealer, onProgress) =>
        pruneBackups({ place: opened, sealer, keep: kept, keepSinceMs, onProgress }),
      );
      if (flags.json) {
        printJson(report);
        return;
      }
      const { removed, files, bytes } = report;
      print(
        `kept ${formatCount(report.kept.length)} backups, removed ${formatCount(removed.length)}`,
      );
      for (const id of removed) print(`  ${id}`);
      print(`${formatCount(files)} files (${formatBytes(bytes)}) that none needs were removed`);
    },
  );
}

function parseKeep(text: string): number {
  const count = orFail('usage', '--keep ', () => parseCount(text));
  if (count >= 1) return count;
  throw new CommandFailure('usage', '--keep must be at least 1');
}

async function withPlace<T>(
  place: string,
  flags: PlaceFlags & Flags,
  work: (
    opened: BackupPlace,
    sealer: PieceSealer,
    onProgress: (step: string, done: number) => void,
  ) => Promise<T>,
): Promise<T> {
  const { keyring } = await openFolder(loadConfig(flags));
  const opened = await openBackupPlace(place, flags, { mayMake: false });
  await using _place = afterwards(() => opened.close());
  using progress = new StepProgress();
  const onProgress = progress.show.bind(progress);
  return await explained(place, () => work(opened, new PieceSealer(keyring), onProgress));
}

/** The keys of a data folder. The gateway that serves it may have the folder open. */
async function openFolder(config: Config): Promise<DataFolder> {
  const { keyFile } = dataFiles(config.data);
  if (!existsSync(keyFile)) {
    const reason = 'is missing: backups are sealed with the root keys of their data folder';
    throw new CommandFailure('failed', `${keyFile} ${reason}`);
  }
  const folder = await openDataFolder(config, { isShared: true });
  // Its gateway may start while this works.
  folder.release();
  return folder;
}
