// `bursar standby`: a second machine that has what is shipped of a gateway (`follow`), says how far
// it is (`status`), and takes its place when that is gone (`promote`). Progress goes to stderr,
// what was found to stdout.
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { readFollowed } from '../backup/shipping/follower.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { explained, openBackupPlace, type PlaceFlags } from '../server/folder/backup-place.ts';
import { dataFiles, openDataFolder } from '../server/folder/data-folder.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { parseDuration } from '../server/settings/quantities.ts';
import { addPlaceFlags, collect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { formatCount, StepProgress } from './progress.ts';
import { printRestored, type RestoreFlags } from './restore-command.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';
import { promote } from './standby-promotion.ts';
import { readLook, StandbyRun } from './standby-run.ts';

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
  addStatus(standby);
  addPromote(standby);
}

function addFollow(standby: Command): void {
  const follow = standby
    .command('follow')
    .description('keep what a gateway ships in --data, until it is stopped or promoted')
    .argument('<place>', "the gateway's --backup-to: folder, or s3://BUCKET/PREFIX")
    .option('--every <duration>', 'between two looks', '1s');
  addPlaceFlags(follow);
  addSettingFlags(follow, [...keySettings]).action(
    async (place: string, given: PlaceFlags & { every: string } & Flags) => {
      const { every, s3Endpoint, s3Region, s3PathStyle, s3Profile, ...flags } = given;
      const placeFlags = { s3Endpoint, s3Region, s3PathStyle, s3Profile } as PlaceFlags;
      const everyMs = parseEvery(every);
      const config = loadConfig(flags as Flags);
      // Nothing in the folder is for other users' eyes.
      process.umask(0o077);
      requireRoom(config);
      await explained(place, () => followUntilStopped(config, { place, placeFlags, everyMs }));
    },
  );
}

async function followUntilStopped(
  config: Config,
  { place, placeFlags, everyMs }: { place: string; placeFlags: PlaceFlags; everyMs: number },
): Promise<void> {
  const folder = await openDataFolder(config);
  const progress = new StepProgress();
  try {
    const opened = await openBackupPlace(place, placeFlags, { mayMake: false });
    try {
      const run = new StandbyRun({
        ...{ folder, place: opened, placeFlags, everyMs },
        onProgress: progress.show.bind(progress),
        tell: (text) => {
          progress.clear();
          process.stderr.write(`bursar: ${printable(text)}\n`);
        },
      });
      await run.untilStopped();
    } finally {
      await opened.close();
    }
  } finally {
    progress.clear();
    folder.release();
  }
}

function parseEvery(text: string): number {
  try {
    const parsed = parseDuration(text);
    if (parsed >= 100 && parsed <= 3_600_000) return parsed;
    throw new Error('must be 100ms to 1h');
  } catch (error) {
    throw new CommandFailure('usage', `--every ${messageOfFailure(error)}`, error);
  }
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

function addStatus(standby: Command): void {
  const status = standby
    .command('status')
    .description('say how far a standby is')
    .option('--json', 'answer with JSON');
  addSettingFlags(status, ['data', 'config']).action(
    async ({ json, ...flags }: { json?: boolean } & Flags) => {
      const { data } = loadConfig(flags as Flags);
      await explained(data, async () => {
        const told = statusOf(data);
        if (json) printJson(told);
        else printStatus(told);
      });
    },
  );
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
  addSettingFlags(command, promoteSettings).action(
    async ({ json, withoutStore, discard, ...flags }: RestoreFlags & Flags) => {
      const config = loadConfig(flags as Flags);
      process.umask(0o077);
      const asked = { withoutStore, discard } as RestoreFlags;
      const promoted = await explained(config.data, () => promote(config, asked));
      if (json) printJson(promoted);
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
    },
  );
}
