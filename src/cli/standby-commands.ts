// `bursar standby`: a second machine that has what is shipped of a gateway (`follow`), says how far
// it is (`status`), and takes its place when that is gone (`promote`). Progress goes to stderr,
// what was found to stdout.
import { constants, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { keptFiles } from '../backup/manifest.ts';
import { PieceSealer } from '../backup/pieces.ts';
import type { BackupPlace } from '../backup/place.ts';
import {
  copyFile as copyOf,
  type Followed,
  Follower,
  readFollowed,
  standbyFolder,
} from '../backup/shipping/follower.ts';
import { isoTime, monotonicMs, nowMs } from '../core/clock.ts';
import { afterwards } from '../core/closing.ts';
import { CommandFailure, messageOfFailure, orFail, WorkFailure } from '../core/command-failure.ts';
import { acquireLock, removeDatabase } from '../core/database.ts';
import { renameDurably, replaceFileDurably, syncPath } from '../core/durable-file.ts';
import { IntegrityError } from '../core/errors.ts';
import { printable } from '../core/printable.ts';
import { explained, openBackupPlace, type PlaceFlags } from '../server/folder/backup-place.ts';
import { type DataFolder, dataFiles, openDataFolder } from '../server/folder/data-folder.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { parseDuration } from '../server/settings/quantities.ts';
import { addPlaceFlags, collect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { formatCount, StepProgress } from './progress.ts';
import { printRestored, type RestoreFlags } from './restore-command.ts';
import { complete, type Restored } from './restored-folder.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';

const keySettings = ['data', 'config', 'kmsKey', 'kmsRegion', 'kmsEndpoint'] as const;
const promoteSettings = [
  ...placeSettings,
  ...(['logOrigin', 'prices', 'priceBooks'] as const),
] satisfies (keyof Config)[];

export function addStandbyCommands(program: Command): void {
  const standby = program
    .command('standby')
    .description('a second machine that follows a gateway, and can take its place');
  addFollow(standby);
  addShow(standby);
  addPromote(standby);
}

function addFollow(standby: Command): void {
  const follow = standby
    .command('follow')
    .description('keep what a gateway ships in --data, until it is stopped or promoted')
    .argument('<place>', "the gateway's --backup-to: folder, or s3://BUCKET/PREFIX")
    .option('--every <duration>', 'between two looks', '1s')
    .option('--json', 'when it ends, answer as "bursar standby show --json" does');
  addPlaceFlags(follow);
  addSettingFlags(follow, [...keySettings]).action(
    async (place: string, given: PlaceFlags & { every: string; json?: boolean } & Flags) => {
      const { every, s3Endpoint, s3Region, s3PathStyle, s3Profile } = given;
      const placeFlags = { s3Endpoint, s3Region, s3PathStyle, s3Profile };
      const everyMs = parseEvery(every);
      const config = loadConfig(given);
      // Nothing in the folder is for other users' eyes.
      process.umask(0o077);
      requireRoom(config);
      await explained(place, () => followUntilStopped(config, { place, placeFlags, everyMs }));
      // A copy that was promoted is no standby any more.
      if (given.json) printJson(readFollowed(config.data) ? statusOf(config.data) : {});
    },
  );
}

async function followUntilStopped(
  config: Config,
  { place, placeFlags, everyMs }: { place: string; placeFlags: PlaceFlags; everyMs: number },
): Promise<void> {
  using folder = await openDataFolder(config);
  using progress = new StepProgress();
  const opened = await openBackupPlace(place, placeFlags, { mayMake: false });
  await using _place = afterwards(() => opened.close());
  const run = new StandbyRun({
    ...{ folder, place: opened, placeFlags, everyMs },
    onProgress: progress.show.bind(progress),
    tell: (text) => {
      progress.clear();
      process.stderr.write(`bursar: ${printable(text)}\n`);
    },
  });
  await run.untilStopped();
}

function parseEvery(text: string): number {
  const parsed = orFail('usage', '--every ', () => parseDuration(text));
  if (parsed >= 100 && parsed <= 3_600_000) return parsed;
  throw new CommandFailure('usage', '--every must be 100ms to 1h');
}

/** The folder must be a standby's, or hold nothing but keys. */
function requireRoom({ data }: Config): void {
  const { databaseFile, keyFile } = dataFiles(data);
  if (existsSync(databaseFile)) {
    throw new CommandFailure('failed', `${data} has a database: it is a gateway's, or promoted`);
  }
  if (existsSync(keyFile)) return;
  const reason = 'is missing: put a copy of the root keys of the gateway there first';
  throw new CommandFailure('failed', `${keyFile} ${reason}`);
}

function addShow(standby: Command): void {
  const status = standby
    .command('show')
    .description('say how far a standby is')
    .option('--json', 'answer with JSON');
  addSettingFlags(status, ['data', 'config']).action(async (given: { json?: boolean } & Flags) => {
    const { data } = loadConfig(given);
    await explained(data, async () => {
      const told = statusOf(data);
      if (given.json) printJson(told);
      else printStatus(told);
    });
  });
}

function statusOf(data: string) {
  const followed = readFollowed(data);
  const look = readLook(data);
  if (!followed || !look) {
    throw new CommandFailure(
      'failed',
      `${data} follows nothing${look?.problem ? `: ${look.problem}` : ' yet'}`,
    );
  }
  const { backup, position, timeMs, records } = followed;
  // What the gateway has not shipped yet cannot be seen from here.
  const seenMs = Math.max(timeMs, look.seenMs ?? 0);
  return {
    ...{ place: look.place, backup, stream: position?.stream ?? null },
    ...{ segment: position?.seq ?? null, time: isoTime(timeMs), records },
    secondsBehind: Math.max(0, nowMs() - seenMs) / 1000,
    problem: look.problem,
  };
}

function printStatus(told: ReturnType<typeof statusOf>): void {
  const { place, time, records, secondsBehind, problem, segment } = told;
  print(`follows ${printable(place)}: as of ${time}, ${formatCount(records)} records`);
  print(`  all that was shipped ${secondsBehind.toFixed(1)} seconds ago is here`);
  if (segment === null) print('  nothing was shipped on top of the newest backup');
  if (problem !== null) print(`  the last look failed: ${printable(problem)}`);
}

const promoteHelp = `
Give the settings of stores that bursar serve has: each S3 store is read, becomes this folder's own,
and ends ready. A gateway that still serves them loses them. A process that follows in --data
is ended first.

Example:
  bursar standby promote --data /srv/bursar --config /etc/bursar.yaml`;

function addPromote(standby: Command): void {
  const command = standby
    .command('promote')
    .description('make the copy in --data a gateway: then bursar serve')
    .option('--without-store <name>', 'leave this store as it is; repeatable', collect)
    .option('--discard', 'let extents that nothing names be swept even if something is lost')
    .option('--json', 'report as JSON')
    .addHelpText('after', promoteHelp);
  addSettingFlags(command, promoteSettings).action(async (given: RestoreFlags & Flags) => {
    const config = loadConfig(given);
    process.umask(0o077);
    const promoted = await explained(config.data, () => promote(config, given));
    if (given.json) printJson(promoted);
    else {
      const { time, records } = promoted.followed;
      print(`promoted, with what was shipped up to ${time}: ${formatCount(records)} records`);
      if (promoted.placeProblem !== null) {
        print(`  without a last look: ${printable(promoted.placeProblem)}`);
      }
      printRestored({ ...promoted, backup: null, shipped: null });
    }
    if (!promoted.stores.isWhole) {
      throw new CommandFailure('failed', 'not everything could be restored: see the report');
    }
  });
}

// The life of `bursar standby follow`: looks again and again, says what changes, and ends on a
// signal or when another command asks it to. Invariant: whatever fails it goes on, and `look.json`
// says since when.

export interface StandbyOptions {
  folder: DataFolder;
  place: BackupPlace;
  placeFlags: PlaceFlags;
  everyMs: number;
  onProgress: (step: string, done: number, total?: number) => void;
  /** What an operator should know, once. */
  tell: (text: string) => void;
}

/** `DIR/standby/look.json`: what a look found, for `status` and `promote`. */
export interface Look {
  place: string;
  placeFlags: PlaceFlags;
  /** When the copy was last seen to be complete, milliseconds; null: it never was. */
  seenMs: number | null;
  /** Why the last look failed; null: it did not. */
  problem: string | null;
}

const backupsEveryMs = 30_000;
const stopLookMs = 200;
const lookName = 'look.json';
const stopName = 'stop';

export function readLook(folder: string): Look | null {
  try {
    return JSON.parse(readFileSync(join(folder, standbyFolder, lookName), 'utf8'));
  } catch {
    return null;
  }
}

/** Asks the process that follows in this folder to end. */
export function askToStop(folder: string): void {
  writeFileSync(join(folder, standbyFolder, stopName), '', { mode: 0o600 });
}

export class StandbyRun {
  readonly #options: StandbyOptions;
  readonly #stopping = new AbortController();
  #look: Look;

  constructor(options: StandbyOptions) {
    this.#options = options;
    const { place, placeFlags } = options;
    this.#look = { place: place.name, placeFlags, seenMs: null, problem: null };
  }

  async untilStopped(): Promise<void> {
    const { folder, place, everyMs, onProgress, tell } = this.#options;
    const { path, storeFolder, keyring } = folder;
    const sealer = new PieceSealer(keyring);
    const follower = await Follower.open({ folder: path, storeFolder, place, sealer, onProgress });
    const stopFile = join(path, standbyFolder, stopName);
    rmSync(stopFile, { force: true });
    const { signal } = this.#stopping;
    for (const name of ['SIGINT', 'SIGTERM'] as const) {
      process.once(name, () => this.#stopping.abort());
    }
    const watch = setInterval(() => {
      if (existsSync(stopFile)) this.#stopping.abort();
    }, stopLookMs);
    let lookedMs = Number.NEGATIVE_INFINITY;
    let isLost = false;
    try {
      while (!signal.aborted) {
        try {
          if (isLost || !follower.state?.position || nowMs() - lookedMs > backupsEveryMs) {
            await follower.lookForBackups({ isLost });
            lookedMs = nowMs();
            isLost = false;
          }
          const seenMs = nowMs();
          await follower.follow();
          if (this.#look.seenMs === null && follower.state) {
            tell(`follows ${place.name}, now as of ${isoTime(follower.state.timeMs)}`);
          }
          await this.#note({ seenMs, problem: null });
        } catch (error) {
          isLost = error instanceof IntegrityError;
          const problem = messageOfFailure(error instanceof Error ? (error.cause ?? error) : error);
          if (this.#look.problem !== problem) tell(problem);
          // Where even this cannot be written, the time of the last look shows that something is
          // wrong.
          await this.#note({ problem }).catch(() => null);
        }
        await sleep(everyMs, null, { signal }).catch(() => null);
      }
    } finally {
      clearInterval(watch);
      rmSync(stopFile, { force: true });
    }
  }

  async #note(found: Partial<Look>): Promise<void> {
    this.#look = { ...this.#look, ...found };
    const path = join(this.#options.folder.path, standbyFolder, lookName);
    await replaceFileDurably(path, `${JSON.stringify(this.#look)}\n`, { mode: 0o600 });
  }
}

// Makes a standby the gateway. Invariants: the copy that was followed stays as it is until the
// database has its name, so a promotion that dies is run again from the same state; and the S3
// stores belong to this folder before anything is read of them, so what the other one acknowledges
// is there, or is not acknowledged (`backup/forward/stores.ts`).

export interface Promoted extends Omit<Restored, 'backup'> {
  /** The state that was followed last. */
  followed: { backup: string; segment: number | null; time: string; records: number };
  /** Why the newest segments were not looked for; null: they were. */
  placeProblem: string | null;
}

const stopMsMax = 60_000;
const askMs = 100;

/** Throws `CommandFailure`, `WorkFailure`, or what a store throws that does not answer. */
export async function promote(config: Config, asked: RestoreFlags): Promise<Promoted> {
  if (existsSync(dataFiles(config.data).databaseFile)) {
    // A run was killed when only this was left to do.
    rmSync(join(config.data, standbyFolder), { recursive: true, force: true });
    throw new WorkFailure(`${config.data} has a database: it is promoted, or a gateway's`);
  }
  if (!readFollowed(config.data)) {
    throw new WorkFailure(`${config.data} has followed nothing yet`);
  }
  using folder = await openWhenFree(config);
  using progress = new StepProgress();
  const { followed, placeProblem } = await catchUp(folder, progress);
  const databaseFile = `${folder.databaseFile}.restoring`;
  removeDatabase(databaseFile);
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
      throw new WorkFailure(`another process has ${config.data}, and does not end: stop it`);
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
    await using _place = afterwards(() => place.close());
    const follower = await Follower.open({ ...options, place, onProgress });
    await follower.follow();
  } catch (error) {
    placeProblem = messageOfFailure(error instanceof Error ? (error.cause ?? error) : error);
  }
  await Follower.finish(path);
  const followed = readFollowed(path);
  if (!followed) throw new WorkFailure(`${path} has followed nothing yet`);
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
  await syncPath(databaseFile);
  const beside = join(from, '..');
  for (const name of readdirSync(beside)) {
    const isKept = (keptFiles as readonly string[]).includes(name);
    if (isKept) await copyFile(join(beside, name), join(folder.path, name));
  }
}
