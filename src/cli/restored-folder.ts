// A data folder that is restored, from a backup or from an older copy of its database. Invariants:
// the database lies under another name until it is complete, and takes its own in one step; so a
// restore that dies leaves a folder that nobody serves, and can be run again; and nothing that was
// signed is signed again in another place: the log goes on under another name, unless the operator
// knows better.
import { existsSync, linkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listLogKeys } from '../audit/log/log-keys.ts';
import { rollForward } from '../backup/forward/forward.ts';
import type { ForwardReport } from '../backup/forward/report.ts';
import { type Manifest, manifestName, openManifest, parseManifest } from '../backup/manifest.ts';
import { PieceSealer } from '../backup/pieces.ts';
import type { BackupPlace } from '../backup/place.ts';
import { beginIn, putBackBeside, putDatabaseBack, unfinishedMark } from '../backup/put-back.ts';
import { isKeyFileWrapped, openKeys } from '../backup/sealed-keys.ts';
import { type Forwarded, putNewestBack } from '../backup/shipping/stream-reader.ts';
import { listWholeExtents } from '../catalog/extents.ts';
import { isStoreUsed, listStores, readInstance, renewInstance } from '../catalog/stores.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { afterwards } from '../core/closing.ts';
import { CommandFailure, WorkFailure } from '../core/command-failure.ts';
import {
  checkDatabase,
  copyDatabase,
  openDatabase,
  type Reader,
  removeDatabase,
} from '../core/database.ts';
import { makeFolderDurably, renameDurably, writeFileDurably } from '../core/durable-file.ts';
import { IntegrityError } from '../core/errors.ts';
import { localStore } from '../core/manifest.ts';
import { verifyReads } from '../core/seals/sealed-views.ts';
import { acceptRights } from '../ledger/accept-rights.ts';
import { migrate } from '../ledger/migrations/migrate.ts';
import { verifySealedState } from '../ledger/sealed-state.ts';
import { explained, openBackupPlace } from '../server/folder/backup-place.ts';
import {
  type DataFolder,
  databaseOf,
  dataFiles,
  openDataFolder,
} from '../server/folder/data-folder.ts';
import { openStore } from '../server/folder/opened-store.ts';
import { StorePrices } from '../server/folder/store-prices.ts';
import type { Config } from '../server/settings/config.ts';
import { chooseStores } from '../server/settings/store-settings.ts';
import type { StoreDriver } from '../tiering/stores/driver.ts';
import { extentFile } from '../tiering/stores/local-store.ts';
import { StoreTallies } from '../tiering/stores/store-tally.ts';
import { chooseBackup, readPassphrase, summaryOf } from './backup-commands.ts';
import { openLedger, renameLog } from './log-restart.ts';
import { StepProgress } from './progress.ts';
import type { RestoreFlags } from './restore-command.ts';

/** A refusal names at most so many. */
const unsealedTold = 20;

export interface Restored {
  /** The backup that was put back; null: the database was there already. */
  backup: ReturnType<typeof summaryOf> | null;
  /** What was shipped on top of the backup; null: nothing. */
  shipped: { segments: number; time: string; records: number } | null;
  /** The name of the log before and after; null: it was never signed. */
  log: { before: string; now: string } | null;
  stores: ForwardReport;
  /** Stores that were left as they are. */
  left: string[];
  /** Extents of the local store that the catalog names and that are not there. */
  localMissing: number;
  /** What no copy has, for people to read. */
  unknown: string[];
  /**
   * Rows of identities, rights and limits that are not what a gateway stored, and were accepted.
   */
  accepted: string[];
}

/** Throws `CommandFailure`. */
export async function restoreBackup(
  config: Config,
  name: string,
  asked: RestoreFlags,
): Promise<Restored> {
  const place = await openBackupPlace(name, asked, { mayMake: false });
  await using _place = afterwards(() => place.close());
  using progress = new StepProgress();
  return await explained(name, async () => {
    const id = await chooseBackup(place, asked.backup);
    const bytes = await place.read(manifestName(id));
    if (!bytes) throw new IntegrityError(`the manifest of backup ${id} is missing`);
    beginIn(config.data);
    putKeysBack(config, parseManifest(id, bytes), asked.passphraseFile);
    using folder = await openDataFolder(config);
    const sealer = new PieceSealer(folder.keyring);
    const manifest = openManifest(sealer, id, bytes);
    return await restoreInto(config, folder, asked, { place, sealer, manifest, progress });
  });
}

/** Writes the keys, unless they are there. */
function putKeysBack(
  { data }: Config,
  { id, keys }: Manifest,
  passphraseFile: string | undefined,
): void {
  const { keyFile } = dataFiles(data);
  if (existsSync(keyFile)) return;
  if (!keys) {
    throw new WorkFailure(`backup ${id} has no root keys: put a copy of them at ${keyFile} first`);
  }
  let file: string;
  if (keys.form === 'kms') {
    // Otherwise anybody who can write to the place could put keys, and a database, of their own
    // there.
    if (!isKeyFileWrapped(keys.file)) {
      throw new IntegrityError(`the root keys in backup ${id} are not wrapped by KMS`);
    }
    file = keys.file;
  } else if (passphraseFile === undefined) {
    const reason = `the root keys in backup ${id} are sealed: give --passphrase-file`;
    throw new CommandFailure('usage', reason);
  } else file = openKeys(keys, readPassphrase(passphraseFile), id);
  makeFolderDurably(join(data, 'keys'));
  writeFileDurably(keyFile, file, { mode: 0o600, ifExists: 'keep' });
}

interface Source {
  place: BackupPlace;
  sealer: PieceSealer;
  manifest: Manifest;
  progress: StepProgress;
}

async function restoreInto(
  config: Config,
  folder: DataFolder,
  asked: RestoreFlags,
  { place, sealer, manifest, progress }: Source,
): Promise<Restored> {
  const { path, storeFolder, databaseFile: final, keptCheckpointFile } = folder;
  const databaseFile = `${final}.restoring`;
  const onProgress = progress.show.bind(progress);
  const source = { place, sealer, manifest, databaseFile, onProgress };
  await putBackBeside({ ...source, folder: path, storeFolder });
  // Whoever names a backup wants exactly its state.
  let shipped: Forwarded | null = null;
  if (asked.backup === undefined) shipped = await putNewestBack(source);
  else await putDatabaseBack(source);
  if (manifest.checkpoint !== null) {
    writeFileSync(keptCheckpointFile, manifest.checkpoint, { mode: 0o600 });
  }
  const since = isoTime(shipped?.timeMs ?? manifest.timeMs);
  const parts = { databaseFile, progress, backup: manifest.id, since };
  const publish = () => renameDurably(databaseFile, final);
  const restored = await complete(config, folder, asked, { ...parts, publish });
  rmSync(join(path, unfinishedMark));
  return { ...restored, backup: summaryOf(manifest), shipped: describeShipped(shipped) };
}

function describeShipped(shipped: Forwarded | null): Restored['shipped'] {
  if (!shipped) return null;
  const { seq: segments, timeMs, records } = shipped;
  return { segments, time: isoTime(timeMs), records };
}

/**
 * Rolls an older copy of the database forward that somebody has put in its place. Throws
 * `CommandFailure`.
 */
export async function restoreHere(config: Config, asked: RestoreFlags): Promise<Restored> {
  const final = databaseOf(config);
  using folder = await openDataFolder(config);
  using progress = new StepProgress();
  return await explained(config.data, async () => {
    const databaseFile = `${final}.restoring`;
    removeDatabase(databaseFile);
    emptyLog(final);
    await copyDatabase(final, databaseFile, (done, total) =>
      progress.show('copying the database', done, total),
    );
    const parts = { databaseFile, progress, backup: null, since: 'that copy was made' };
    const publish = () => {
      linkSync(final, `${final}.before-restore-${nowMs()}`);
      renameDurably(databaseFile, final);
    };
    const restored = await complete(config, folder, asked, { ...parts, publish });
    return { ...restored, backup: null, shipped: null };
  });
}

/** What is in SQLite's log belongs to the database file that is about to be replaced. */
function emptyLog(path: string): void {
  using db = openDatabase(path, { readonly: false, cacheKib: 1024 });
  db.emptyLog(0);
}

interface Parts {
  databaseFile: string;
  progress: StepProgress;
  /** The id of the backup; null: there was none. */
  backup: string | null;
  since: string;
  /** Gives the database its name. */
  publish: () => void;
}

/** Completes a database that was put back, so that it can be served. */
export async function complete(
  config: Config,
  folder: DataFolder,
  asked: RestoreFlags,
  parts: Parts,
): Promise<Omit<Restored, 'backup' | 'shipped'>> {
  const { databaseFile, progress } = parts;
  progress.show('checking the database', 0);
  const [damage] = checkDatabase(databaseFile);
  if (damage !== undefined) throw new WorkFailure(`the database is damaged: ${damage}`);
  const instance = await bringUp(databaseFile, folder, progress);
  const accepted = await requireAuthentic(databaseFile, folder, asked);
  const used = await withDatabase(databaseFile, listUsed);
  const left = asked.withoutStore ?? [];
  const configured = chooseStores(config).stores.filter(({ name }) => !left.includes(name));
  const names = [...left, ...configured.map(({ name }) => name)];
  const lacking = used.find((name) => !names.includes(name));
  if (lacking !== undefined) {
    const advice = 'give its settings, or --without-store to leave it as it is';
    throw new WorkFailure(`buckets are in store ${lacking}, which is not configured: ${advice}`);
  }
  const stores: StoreDriver[] = [];
  const tallies = new StoreTallies();
  try {
    for (const settings of configured) {
      const number = stores.length;
      stores.push(await openStore({ ...settings, number, tally: tallies.tallyOf(number) }));
    }
    const { settle, ...told } = await joinStores(config, folder, asked, {
      ...parts,
      instance,
      stores,
      tallies,
    });
    parts.publish();
    await settle();
    return { ...told, left, accepted };
  } finally {
    for (const store of stores) await store.close();
  }
}

/** Rolls it forward by the stores and begins its log anew. Afterwards nothing has it open. */
async function joinStores(
  config: Config,
  { rootKeys, sealer, storeFolder, ...folder }: DataFolder,
  asked: RestoreFlags,
  {
    databaseFile,
    progress,
    backup,
    since,
    instance,
    stores,
    tallies,
  }: Parts & { instance: string; stores: StoreDriver[]; tallies: StoreTallies },
): Promise<
  Omit<Restored, 'backup' | 'shipped' | 'left' | 'accepted'> & { settle: () => Promise<void> }
> {
  const prices = new StorePrices(config, nowMs());
  const { keys } = rootKeys;
  const ledger = await openLedger(databaseFile, keys, prices);
  await using _ledger = afterwards(() => ledger.close());
  using db = openDatabase(databaseFile, { readonly: true, cacheKib: 64 * 1024 });
  // What the stores' new journals are told is read through this connection.
  verifyReads(db, folder.keyring);
  const { report, settle } = await rollForward({
    ...{ ledger, read: db.tx, stores, tallies, rootKeys: keys, sealer, databaseFile },
    ...{ discard: asked.discard === true, withKeys: config.journalWithKeys, prices, instance },
    onProgress: progress.show.bind(progress),
  });
  const named = { ledger, read: db.tx, ...folder };
  const log = await nameLog(named, config, { sameLog: asked.sameLog === true, backup });
  const localMissing = await countMissing(db.tx, storeFolder);
  return { log, stores: report, localMissing, unknown: listUnknown(since, report), settle };
}

/**
 * Migrates the database and gives it a new instance id, since it is a copy of another gateway's.
 * Gives the id of that gateway.
 */
async function bringUp(path: string, folder: DataFolder, progress: StepProgress): Promise<string> {
  // No copy is needed, since there is the backup.
  await migrate({
    path,
    rootKeys: folder.rootKeys.keys,
    withoutCopy: true,
    onProgress: (step, done) => progress.show(step, done),
  });
  using db = openDatabase(path, { readonly: false, cacheKib: 1024 });
  const instance = await readInstance(db.tx);
  await renewInstance(db.tx);
  return instance;
}

/**
 * Refuses rows that are not authentic, before the stores' journals could be told of them. Gives
 * those that were accepted.
 */
async function requireAuthentic(
  path: string,
  { keyring }: DataFolder,
  { acceptEdited }: RestoreFlags,
): Promise<string[]> {
  using db = openDatabase(path, { readonly: false, cacheKib: 64 * 1024 });
  if (acceptEdited) return await acceptRights(db, keyring);
  const { unsealed } = await verifySealedState(db, keyring);
  if (unsealed.length === 0) return [];
  const told = unsealed.slice(0, unsealedTold).map(({ what }) => what);
  const more = unsealed.length - told.length;
  const rest = more > 0 ? `; and ${more} more` : '';
  const advice = 'take another backup, or --accept-edited when you have looked at it';
  throw new WorkFailure(`it was changed by somebody else: ${told.join('; ')}${rest}: ${advice}`);
}

async function withDatabase<T>(path: string, work: (read: Reader) => Promise<T>): Promise<T> {
  using db = openDatabase(path, { readonly: true, cacheKib: 1024 });
  return await work(db.tx);
}

async function listUsed(read: Reader): Promise<string[]> {
  const names: string[] = [];
  for (const { number, name } of await listStores(read)) {
    if (await isStoreUsed(read, number)) names.push(name);
  }
  return names;
}

const suffix = /\/restored-\d{8}T\d{6}Z$/;
const originLengthMax = 128;

/** Gives the log another name, unless it is known to be the newest. */
async function nameLog(
  parts: Parameters<typeof renameLog>[0],
  { logOrigin }: Pick<Config, 'logOrigin'>,
  { sameLog, backup }: { sameLog: boolean; backup: string | null },
): Promise<Restored['log']> {
  const before = (await listLogKeys(parts.read))[0]?.key.name;
  if (before === undefined) return null;
  if (sameLog) return { before, now: before };
  const time = isoTime(nowMs()).replaceAll(/[-:]|\.\d+/g, '');
  const made = `/restored-${time}`;
  const base = before.replace(suffix, '').slice(0, originLengthMax - made.length);
  const now = logOrigin ?? `${base}${made}`;
  const reason =
    backup === null ? 'an older copy of the database' : `restored from backup ${backup}`;
  await renameLog(parts, { origin: now, reason, source: 'bursar restore' });
  return { before, now };
}

/**
 * Extents are missing where only the catalog was backed up, or where a disk is not mounted; not
 * where another store has them too.
 */
async function countMissing(read: Reader, storeFolder: string): Promise<number> {
  let missing = 0;
  for await (const extents of listWholeExtents(read, localStore)) {
    missing += extents.filter(
      ({ id, isElsewhere }) => !isElsewhere && !existsSync(extentFile(storeFolder, id)),
    ).length;
  }
  return missing;
}

function listUnknown(since: string, report: ForwardReport): string[] {
  const { uploads, journals, identities } = report;
  const isTold = identities.stores.length > 0 && !identities.doubtful;
  const what = 'principals, keys, grants and limits that were made, changed or taken away since';
  const lines = [
    ...(isTold ? [] : [`${what} ${since}${identities.stores.length > 0 ? ', in part' : ''}`]),
    `records, and what was read and spent, since ${since}: what was leased then counts as spent`,
    `objects that were written to the local store since ${since}`,
  ];
  if (uploads.count > 0) lines.push(`parts of ${uploads.count} multipart uploads in S3 stores`);
  for (const { store, lastTime } of journals) {
    lines.push(`what store ${store} was told after ${lastTime} and has lost, if anything`);
  }
  return lines;
}
