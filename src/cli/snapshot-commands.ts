// `bursar snapshot`: snapshots of a bucket, what is different since, and bringing it back. Buckets
// are written TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi, listAll } from './api-client.ts';
import { type Columns, calling, pathIn, printEntries } from './api-command.ts';
import { findPlace } from './bucket-names.ts';
import { choice, connect, duration } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { formatBytes } from './progress.ts';
import { differences, diffPath, restore } from './snapshot-restore.ts';
import { timeOrSnapshot } from './times.ts';

type Shown = Answers['GetSnapshot'];
type Difference = Answers['DiffSnapshot']['differences'][number];

const snapshots: Columns<Shown> = {
  heading: ['SNAPSHOT', 'PREFIX', 'CREATED', 'EXPIRES', 'LOCK', 'HOLDS'],
  row: ({ name, prefix, createdAt, expiresAt, lock, heldBytes }) => [
    ...[name, prefix, createdAt, expiresAt ?? 'never', lock ?? '', formatBytes(heldBytes)],
  ],
};

export function addSnapshotCommands(program: Command): void {
  const snapshot = program
    .command('snapshot')
    .description('snapshots: a bucket as it was, without copying it');
  snapshot
    .command('create <tenant/bucket> [name]')
    .description('make a snapshot of a bucket as it is now; without a name, by the time')
    .option('--prefix <prefix>', 'of the keys that begin with it alone')
    .option('--expires <duration>', 'delete it by itself after this time, such as 90d', duration)
    .option('--lock <mode>', 'until it expires: governance or compliance', lock)
    .action(
      calling((id: string, name: string | undefined, given: CreateFlags) => {
        const { prefix, expires, lock } = given;
        const expiresAt =
          expires === undefined ? undefined : new Date(Date.now() + expires).toISOString();
        const path = [...pathIn('buckets', id), 'snapshots', name ?? nameOfNow()];
        return { method: 'PUT', path, body: { prefix, expiresAt, lock } };
      }, snapshots),
    );
  snapshot
    .command('list <tenant/bucket>')
    .description("list a bucket's snapshots, and what they hold")
    .option('--prefix <prefix>', 'only those of keys that begin with it')
    .action(list);
  snapshot
    .command('show <tenant/bucket> <name>')
    .description('show a snapshot')
    .action(
      calling((id: string, name: string) => ({ method: 'GET', path: at(id, name) }), snapshots),
    );
  snapshot
    .command('diff')
    .description('list what is different since a snapshot, or a time: in another one, or now')
    .argument('<tenant/bucket>')
    .argument('<name>', 'the snapshot, or a time: 2026-11-23T16:30:00Z or 2h ago', timeOrSnapshot)
    .argument('[other]', 'another one, or a later time', timeOrSnapshot)
    .option('--prefix <prefix>', 'of the keys that begin with it alone')
    .action(diff);
  snapshot
    .command('restore <tenant/bucket>')
    .description('bring back what was overwritten or deleted since a snapshot, without moving data')
    .requiredOption(
      '--from <name>',
      'the snapshot, or a time: 2026-11-23T16:30:00Z or 2h ago',
      timeOrSnapshot,
    )
    .option('--prefix <prefix>', 'of the keys that begin with it alone')
    .option('--dry-run', 'only list what would be done')
    .option('--delete-new', 'delete what came since under other keys, too')
    .action(restore);
  snapshot
    .command('purge <s3-url>')
    .description(
      'erasure by law: let go at once of what all snapshots and the window hold of a key',
    )
    .requiredOption('--reason <text>', 'why; it stays in the records for good, and so does the key')
    .option('--prefix <prefix>', 'of all keys that begin with it')
    .action(purge);
  snapshot
    .command('delete <tenant/bucket> <name>')
    .description('delete a snapshot, and let go of what it alone holds')
    .option('--bypass-governance', 'although it is locked by governance; only administrators may')
    .action(
      calling((id: string, name: string, { bypassGovernance }: { bypassGovernance?: true }) => ({
        ...{ method: 'DELETE', path: at(id, name) },
        query: bypassGovernance ? { bypassGovernance: 'true' } : {},
      })),
    );
}

interface CreateFlags {
  prefix?: string;
  expires?: number;
  lock?: string;
}

const lock = choice(['governance', 'compliance']);

function at(id: string, name: string): string[] {
  return [...pathIn('buckets', id), 'snapshots', name];
}

/** `20261123t163000z` */
function nameOfNow(): string {
  return new Date()
    .toISOString()
    .replace(/[-:]|\.\d+/g, '')
    .toLowerCase();
}

async function purge(
  url: string,
  { prefix, reason }: { prefix?: string; reason: string },
  command: Command,
): Promise<void> {
  const { connection, flags } = connect(command);
  const { tenant, bucket, key } = await findPlace(connection, url);
  if ((key === '') === (prefix === undefined)) {
    throw new CommandFailure('usage', 'give either a key, s3://BUCKET/KEY, or --prefix');
  }
  const path = ['tenants', tenant, 'buckets', bucket, 'purges'];
  const body = prefix === undefined ? { key, reason } : { prefix, reason };
  let answer: Answers['PurgeHeld'];
  do {
    const { json } = await callApi(connection, { method: 'POST', path, body });
    answer = json as Answers['PurgeHeld'];
  } while (!answer.isDone);
  if (flags.json) printJson(answer);
  else print('nothing of it is held any more; its bytes go with the next sweep');
}

async function list(id: string, { prefix }: { prefix?: string }, command: Command): Promise<void> {
  const { connection, flags } = connect(command);
  const path = [...pathIn('buckets', id), 'snapshots'];
  let held: Pick<Answers['ListSnapshots'], 'heldVersions' | 'heldBytes'> | undefined;
  const all = await listAll<Shown>(connection, path, 'snapshots', { prefix }, (page) => {
    held = page as Answers['ListSnapshots'];
  });
  const { heldVersions = 0, heldBytes = 0 } = held ?? {};
  printEntries(flags.json, snapshots, { snapshots: all, heldVersions, heldBytes }, all);
  if (flags.json) return;
  process.stdout.write(`${heldVersions} versions held, ${formatBytes(heldBytes)}\n`);
}

async function diff(
  id: string,
  name: string,
  other: string | undefined,
  { prefix }: { prefix?: string },
  command: Command,
): Promise<void> {
  const { connection, flags } = connect(command);
  const filters = { prefix, to: other };
  const all = await listAll<Difference>(
    ...[connection, diffPath(id, name), 'differences', filters],
  );
  printEntries(flags.json, differences, all, all);
}
