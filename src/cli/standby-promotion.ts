// Makes a standby the gateway. Invariants: the copy that was followed stays as it is until the
// database has its name, so a promotion that dies is run again from the same state; and the S3
// stores belong to this folder before anything is read of them, so what the other one acknowledges
// is there, or is not acknowledged (`backup/forward/stores.ts`).
import { constants, existsSync, readdirSync, rmSync } from 'node:fs';
import { copyFile, open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { keptFiles } from '../backup/manifest.ts';
import { PieceSealer } from '../backup/pieces.ts';
import { BackupFailure } from '../backup/place.ts';
import {
  copyFile as copyOf,
  type Followed,
  Follower,
  readFollowed,
  standbyFolder,
} from '../backup/shipping/follower.ts';
import { isoTime, monotonicMs } from '../core/clock.ts';
import { messageOfFailure } from '../core/command-failure.ts';
import { acquireLock } from '../core/database.ts';
import { renameDurably } from '../core/durable-file.ts';
import { openBackupPlace } from '../server/folder/backup-place.ts';
import { type DataFolder, dataFiles, openDataFolder } from '../server/folder/data-folder.ts';
import type { Config } from '../server/settings/config.ts';
import { StepProgress } from './progress.ts';
import type { RestoreFlags } from './restore-command.ts';
import { complete, type Restored } from './restored-folder.ts';
import { askToStop, readLook } from './standby-run.ts';

export interface Promoted extends Omit<Restored, 'backup'> {
  /** The state that was followed last. */
  followed: { backup: string; segment: number | null; time: string; records: number };
  /** Why the newest segments were not looked for; null: they were. */
  placeProblem: string | null;
}

const stopMsMax = 60_000;
const askMs = 100;

/** Throws `CommandFailure`, `BackupFailure`, or what a store throws that does not answer. */
export async function promote(config: Config, asked: RestoreFlags): Promise<Promoted> {
  if (existsSync(dataFiles(config.data).databaseFile)) {
    // A run was killed when only this was left to do.
    rmSync(join(config.data, standbyFolder), { recursive: true, force: true });
    throw new BackupFailure(`${config.data} has a database: it is promoted, or a gateway's`);
  }
  if (!readFollowed(config.data)) {
    throw new BackupFailure(`${config.data} has followed nothing yet`);
  }
  const folder = await openWhenFree(config);
  const progress = new StepProgress();
  try {
    const { followed, placeProblem } = await catchUp(folder, progress);
    const databaseFile = `${folder.databaseFile}.restoring`;
    for (const end of ['', '-wal', '-shm']) rmSync(databaseFile + end, { force: true });
    progress.show('copying the database', 0);
    await takeCopy(folder, followed, databaseFile);
    const { backup, position, timeMs, records } = followed;
    const since = isoTime(timeMs);
    const publish = () => renameDurably(databaseFile, folder.databaseFile);
    const parts = { databaseFile, progress, backup, since, publish };
    const restored = await complete(config, folder, asked, parts);
    rmSync(join(folder.path, standbyFolder), { recursive: true, force: true });
    const segment = position?.seq ?? null;
    const shipped = position && { segments: position.seq, time: since, records };
    return {
      ...restored,
      ...{ shipped, placeProblem, followed: { backup, segment, time: since, records } },
    };
  } finally {
    progress.clear();
    folder.release();
  }
}

/** Ends the process that follows in this folder, and opens it then. */
async function openWhenFree(config: Config): Promise<DataFolder> {
  const sinceMs = monotonicMs();
  for (;;) {
    const release = acquireLock(join(config.data, 'lock.db'));
    if (release) {
      release();
      return openDataFolder(config);
    }
    if (monotonicMs() - sinceMs > stopMsMax) {
      throw new BackupFailure(`another process has ${config.data}, and does not end: stop it`);
    }
    askToStop(config.data);
    await sleep(askMs);
  }
}

/** Applies what was shipped last, if the place answers. */
async function catchUp(
  folder: DataFolder,
  progress: StepProgress,
): Promise<{ followed: Followed; placeProblem: string | null }> {
  const { path, storeFolder, keyring } = folder;
  const look = readLook(path);
  let placeProblem: string | null = null;
  const options = { folder: path, storeFolder, sealer: new PieceSealer(keyring) };
  const onProgress = progress.show.bind(progress);
  try {
    if (!look) throw new Error('it is not known where it was');
    const place = await openBackupPlace(look.place, look.placeFlags, { mayMake: false });
    try {
      const follower = await Follower.open({ ...options, place, onProgress });
      await follower.follow();
    } finally {
      await place.close();
    }
  } catch (error) {
    placeProblem = messageOfFailure(error instanceof Error ? (error.cause ?? error) : error);
  }
  await Follower.finish(path);
  const followed = readFollowed(path);
  if (!followed) throw new BackupFailure(`${path} has followed nothing yet`);
  return { followed, placeProblem };
}

async function takeCopy(
  folder: DataFolder,
  followed: Followed,
  databaseFile: string,
): Promise<void> {
  const from = copyOf(folder.path, followed);
  // This costs nothing where the file system can share equal blocks.
  await copyFile(from, databaseFile, constants.COPYFILE_FICLONE);
  const file = await open(databaseFile, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
  const beside = join(from, '..');
  for (const name of readdirSync(beside)) {
    const isKept = (keptFiles as readonly string[]).includes(name);
    if (isKept) await copyFile(join(beside, name), join(folder.path, name));
  }
}
