// `bursar bucket delete`: an empty bucket, or one with all that is in it. Invariants: nothing is
// deleted before somebody said yes, nor where something is known to keep the bucket; what object
// lock keeps stays, and is named with its time.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, callApi, listAll, S3Refusal } from './api-client.ts';
import { bucketAt, forEachObject } from './bring-back.ts';
import { readLocks } from './bucket-locks.ts';
import { findPlace, type NamedPlace } from './bucket-names.ts';
import type { CommandFlags } from './command-arguments.ts';
import { confirm } from './confirmation.ts';
import { findConnection } from './find-connection.ts';
import { print, printJson } from './output.ts';
import { formatCount } from './progress.ts';
import { checkDone, type S3Connection } from './s3-bucket.ts';

interface DeletionFlags extends CommandFlags {
  all?: true;
  bypassGovernance?: true;
  yes?: true;
}

export function addBucketDeletion(bucket: Command): void {
  bucket
    .command('delete <bucket>')
    .description('delete a bucket (s3://raw or cms/raw) that is empty, or with all that is in it')
    .option('--all', 'first delete every version of every object in it, for good')
    .option('--bypass-governance', 'those in governance mode, too; needs the right to')
    .option('--yes', 'do not ask')
    .action(deleteBucket);
}

async function deleteBucket(written: string, _: object, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<DeletionFlags>();
  const connection = findConnection(flags);
  const place = await findPlace(connection, written);
  if (place.key !== '') throw new CommandFailure('usage', `${written} is not a bucket`);
  const name = `${place.tenant}/${place.bucket}`;
  await checkDeletable(connection, place, flags.all === true);
  if (!flags.yes) {
    const what = flags.all
      ? 'every version of every object in it'
      : 'unfinished uploads to it, and no object: it has to be empty';
    const lines = [`With bucket ${name} goes, for good: ${what}`];
    await confirm(lines, `Delete bucket ${name}?`, flags);
  }
  const deleted = flags.all ? await empty(connection, place, flags) : 0;
  checkDone(await bucketAt(connection, place).ask('DELETE', ''));
  if (flags.json) printJson({ deleted: name, versions: deleted });
  else print(`bucket ${name} is deleted${flags.all ? `, ${formatCount(deleted)} versions` : ''}`);
}

/**
 * Throws `CommandFailure` for a bucket that is not there, or that something keeps from going: so
 * nobody is asked in vain, and nothing in it goes for nothing. Who may not list it is told when it
 * is deleted.
 */
async function checkDeletable(
  connection: S3Connection,
  place: NamedPlace,
  goesWhole: boolean,
): Promise<void> {
  const isEmpty = await hasNothing(connection, place);
  const name = `${place.tenant}/${place.bucket}`;
  if (!isEmpty && !goesWhole) {
    const how = `bursar bucket delete ${name} --all deletes every version of every object, too`;
    throw new CommandFailure('failed', `bucket ${name} is not empty: ${how}`);
  }
  const commands = await keepersOf(connection, place, isEmpty);
  if (commands.length === 0) return;
  const more =
    commands.length > commandsShown ? `; and ${commands.length - commandsShown} more` : '';
  const first = `${commands.slice(0, commandsShown).join('; ')}${more}`;
  throw new CommandFailure('failed', `something keeps bucket ${name}, so first: ${first}`);
}

const commandsShown = 10;

async function hasNothing(connection: S3Connection, place: NamedPlace): Promise<boolean> {
  try {
    for await (const _ of bucketAt(connection, place).listVersions()) return false;
  } catch (error) {
    if (!(error instanceof S3Refusal) || error.status !== 403) throw error;
  }
  return true;
}

/** What takes snapshots and an undelete window away; nothing where the caller may not see them. */
async function keepersOf(
  connection: S3Connection,
  { tenant, bucket }: NamedPlace,
  isEmpty: boolean,
): Promise<string[]> {
  const path = ['tenants', tenant, 'buckets', bucket];
  try {
    type Snapshot = Answers['ListSnapshots']['snapshots'][number];
    const found = await listAll<Snapshot>(connection, [...path, 'snapshots'], 'snapshots');
    const commands = found.map((one) => `bursar snapshot delete ${tenant}/${bucket} ${one.name}`);
    const { json } = await callApi(connection, { method: 'GET', path });
    const { undelete } = json as Answers['GetBucket'];
    // What is deleted now would be held as well.
    if (!undelete || (isEmpty && undelete.heldVersions === 0)) return commands;
    return [...commands, `bursar bucket set ${tenant}/${bucket} --undelete off`];
  } catch (error) {
    if (error instanceof ApiRefusal && error.status < 500) return [];
    throw error;
  }
}

/** How many versions and delete markers went. Throws `CommandFailure` where some stay. */
async function empty(
  connection: S3Connection,
  place: NamedPlace,
  { bypassGovernance }: DeletionFlags,
): Promise<number> {
  const bucket = bucketAt(connection, place);
  const headers = { 'x-amz-bypass-governance-retention': 'true' };
  let deleted = 0;
  const failed = await forEachObject(bucket.listVersions(), 'versions deleted', async (one) => {
    const query: [string, string][] = [['versionId', one.versionId]];
    const asked = { query, ...(bypassGovernance && { headers }) };
    checkDone(await bucket.ask('DELETE', one.key, asked));
    deleted++;
  });
  const [first] = failed;
  if (first === undefined) return deleted;
  const stayed = `${formatCount(deleted)} versions are deleted, and ${failed.length} stayed`;
  throw new CommandFailure('failed', `${stayed}: ${await explain(connection, place, first.error)}`);
}

/** Why something stayed: object lock, until the last of its times, or what the gateway said. */
async function explain(
  connection: S3Connection,
  place: NamedPlace,
  error: string,
): Promise<string> {
  let [locked, held, last] = [0, 0, ''];
  try {
    for await (const page of readLocks(connection, place)) {
      for (const { until, legalHold } of page) {
        locked++;
        if (legalHold) held++;
        if (until !== null && until > last) last = until;
      }
    }
  } catch (refused) {
    // Who may delete in the bucket need not be allowed to list its locks.
    if (!(refused instanceof CommandFailure)) throw refused;
  }
  if (locked === 0) return error;
  const times = [last && `the last until ${last}`, held > 0 && `${held} by a legal hold`];
  const until = times.filter((one) => one !== '' && one !== false).join(', ');
  const command = `bursar bucket locks ${place.tenant}/${place.bucket}`;
  return `${locked} are locked, ${until}; see ${command}`;
}
