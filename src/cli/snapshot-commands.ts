// `bursar snapshot`: snapshots of a bucket, what is different since, and bringing it back.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, type ApiRequest, type Connection, callApi, listAll } from './api-client.ts';
import { type Columns, calling, printEntries } from './api-command.ts';
import { findPlace, findSnapshots } from './bucket-names.ts';
import { choice, connect, duration, durationText } from './command-arguments.ts';
import { mounts } from './mount-commands.ts';
import { print, printJson, printNote } from './output.ts';
import { formatCount } from './progress.ts';
import { differences, restore } from './snapshot-restore.ts';
import { isSnapshotName, timeOrSnapshot } from './times.ts';

type Shown = Answers['GetSnapshot'];
type Difference = Answers['DiffSnapshot']['differences'][number];

const snapshots: Columns<Shown> = {
  heading: ['SNAPSHOT', 'PREFIX', 'CREATED', 'EXPIRES', 'LOCK', 'HOLDS'],
  row: ({ name, prefix, createdAt, expiresAt, lock, heldBytes }) => [
    ...[name, prefix, createdAt, expiresAt ?? 'never', lock ?? '', formatBytes(heldBytes)],
  ],
  csvRow: ({ name, prefix, createdAt, expiresAt, lock, heldBytes }) => [
    ...[name, prefix, createdAt, expiresAt ?? '', lock ?? '', String(heldBytes)],
  ],
};

const bucketHelp = "s3://raw of one's own tenant, s3://cms:raw, or cms/raw";
const prefixHelp = 'of the keys that begin with it alone; also s3://raw/PREFIX';

export function addSnapshotCommands(program: Command): void {
  const snapshot = program
    .command('snapshot')
    .description('snapshots: a bucket as it was, without copying it');
  const ofBucket = (name: string) => snapshot.command(name).argument('<bucket>', bucketHelp);
  ofBucket('create')
    .argument('[name]')
    .description('make a snapshot of a bucket as it is now; without a name, by the time')
    .option('--prefix <prefix>', prefixHelp)
    .option('--expires <duration>', 'delete it by itself after this time, such as 90d', duration)
    .option('--lock <mode>', 'until it expires: governance or compliance', lock)
    .action(calling(create, snapshots));
  ofBucket('list')
    .description("list a bucket's snapshots, and what they hold")
    .option('--prefix <prefix>', 'only those of keys that begin with it; also s3://raw/PREFIX')
    .action(list);
  ofBucket('show')
    .argument('<name>')
    .description('show a snapshot')
    .action(
      calling(
        (text: string, name: string) => async (connection: Connection) => ({
          method: 'GET',
          path: await pathOf(connection, text, name),
        }),
        snapshots,
      ),
    );
  ofBucket('diff')
    .description('list what is different since a snapshot, or a time: in another one, or now')
    .argument('<name>', 'the snapshot, or a time: 2026-11-23T16:30:00Z or 2h ago', timeOrSnapshot)
    .argument('[other]', 'another one, or a later time', timeOrSnapshot)
    .option('--prefix <prefix>', prefixHelp)
    .action(diff);
  ofBucket('mount')
    .argument('<name>', 'the snapshot, or a time: 2026-11-23T16:30:00Z or 2h ago', timeOrSnapshot)
    .argument('[as]', "the mount's name; absent: BUCKET-NAME")
    .description(
      "give a snapshot a bucket's name, by which all S3 clients can read it: an administrator to " +
        "all of the bucket's tenant, others to themselves",
    )
    .action(calling(mount, mounts));
  ofBucket('restore')
    .argument('<name>', 'the snapshot, or a time: 2026-11-23T16:30:00Z or 2h ago', timeOrSnapshot)
    .description('bring back what was overwritten or deleted since a snapshot, without moving data')
    .option('--prefix <prefix>', prefixHelp)
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
  ofBucket('delete')
    .argument('<name>')
    .description('delete a snapshot, and let go of what it alone holds')
    .option('--bypass-governance', 'although it is locked by governance; only administrators may')
    .action(
      calling(
        (text: string, name: string, { bypassGovernance }: { bypassGovernance?: true }) =>
          async (connection: Connection) => ({
            ...{ method: 'DELETE', path: await pathOf(connection, text, name) },
            query: bypassGovernance ? { bypassGovernance: 'true' } : {},
          }),
      ),
    );
}

interface CreateFlags {
  prefix?: string;
  expires?: number;
  lock?: string;
}

const lock = choice(['governance', 'compliance']);

function create(text: string, given: string | undefined, flags: CreateFlags) {
  const { expires, lock } = flags;
  const name = given ?? nameOfNow();
  const expiresAt =
    expires === undefined ? undefined : new Date(Date.now() + expires).toISOString();
  return async (connection: Connection): Promise<ApiRequest> => {
    const { path, prefix } = await findSnapshots(connection, text, flags.prefix);
    return { method: 'PUT', path: [...path, name], body: { prefix, expiresAt, lock } };
  };
}

/** Refused where there is no such snapshot: a mount of it would show nothing to anybody. */
function mount(text: string, at: string, as: string | undefined) {
  return async (connection: Connection): Promise<ApiRequest> => {
    const { tenant, bucket, path, prefix } = await findSnapshots(connection, text);
    requireBucket(text, prefix);
    if (isSnapshotName(at)) await lookFor(connection, [...path, at]);
    else if (as === undefined) {
      throw new CommandFailure('usage', 'of a time say what the mount is to be called');
    }
    const name = as ?? `${bucket}-${at}`;
    const body = { bucketTenant: tenant, bucket, at };
    return { method: 'PUT', path: [...(await namesOf(connection, tenant)), name], body };
  };
}

/** Who may read versions mounts them, and need not have the right to be told of snapshots. */
async function lookFor(connection: Connection, path: string[]): Promise<void> {
  try {
    await callApi(connection, { method: 'GET', path });
  } catch (error) {
    if (!(error instanceof ApiRefusal) || error.code === 'NoSuchSnapshot') throw error;
  }
}

/** Administrators name a snapshot for all of its tenant, others for themselves alone. */
async function namesOf(connection: Connection, tenant: string): Promise<string[]> {
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  const { role, ...own } = json as Answers['WhoAmI'];
  const isAdmin = role === 'operator' || (role === 'admin' && own.tenant === tenant);
  const of = isAdmin ? [tenant] : [own.tenant, 'principals', own.principal];
  return ['tenants', ...of, 'mounts'];
}

/** Of a snapshot. */
async function pathOf(connection: Connection, text: string, name: string): Promise<string[]> {
  const { path, prefix } = await findSnapshots(connection, text);
  requireBucket(text, prefix);
  return [...path, name];
}

/** A snapshot has its prefix: a key beside its name would be a mistake. */
function requireBucket(text: string, prefix: string | undefined): void {
  if (prefix !== undefined) throw new CommandFailure('usage', `${text} must name a bucket alone`);
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
  let [versions, bytes, isDone] = [0, 0, false];
  while (!isDone) {
    const { json } = await callApi(connection, { method: 'POST', path, body });
    const answer = json as Answers['PurgeHeld'];
    versions += answer.versions;
    bytes += answer.bytes;
    isDone = answer.isDone;
  }
  if (flags.json) return printJson({ versions, bytes, isDone });
  const gone =
    versions === 1
      ? `1 version, ${formatBytes(bytes)}, was let go of`
      : `${formatCount(versions)} versions, ${formatBytes(bytes)}, were let go of`;
  print(`${gone}: nothing of it is held any more; the bytes go with the next sweep`);
}

async function list(text: string, given: { prefix?: string }, command: Command): Promise<void> {
  const { connection, flags } = connect(command);
  const { path, prefix } = await findSnapshots(connection, text, given.prefix);
  let held: Omit<Answers['ListSnapshots'], 'snapshots' | 'next'> | undefined;
  const all = await listAll<Shown>(connection, path, 'snapshots', { prefix }, (page) => {
    held = page as Answers['ListSnapshots'];
  });
  const { heldVersions = 0, heldBytes = 0, undelete = null } = held ?? {};
  printEntries(flags.json, snapshots, { snapshots: all, heldVersions, heldBytes, undelete }, all);
  if (flags.json) return;
  printNote(`${heldVersions} versions held, ${formatBytes(heldBytes)}`);
  if (undelete === null) return;
  const window = `the undelete window of ${durationText(undelete.seconds * 1000)}`;
  printNote(`${window} holds ${undelete.heldVersions} of the bucket, since ${undelete.since}`);
}

async function diff(
  text: string,
  name: string,
  other: string | undefined,
  given: { prefix?: string },
  command: Command,
): Promise<void> {
  const { connection, flags } = connect(command);
  const { path, prefix } = await findSnapshots(connection, text, given.prefix);
  const filters = { prefix, to: other };
  const all = await listAll<Difference>(
    ...[connection, [...path, name, 'diff'], 'differences', filters],
  );
  printEntries(flags.json, differences, all, all);
}
