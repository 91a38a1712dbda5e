// `bursar bucket`: settings of a bucket for which S3 has no request. Buckets are written
// TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { recordReadsModes } from '../core/record-reads.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, listing, pathIn, printEntries } from './api-command.ts';
import { addBucketCopy } from './bucket-copy.ts';
import { findPlace } from './bucket-names.ts';
import { choice, connect, duration, durationText } from './command-arguments.ts';
import { print } from './output.ts';
import { formatBytes } from './progress.ts';
import { timeOrSnapshot } from './times.ts';

const asTenant = 'tenant';

const buckets: Columns<Answers['GetBucket']> = {
  heading: ['BUCKET', 'OWNER', 'STORE', 'READS', 'UNDELETE', 'CREATED'],
  row: ({ tenant, name, owner, store, recordReads, undelete, createdAt }) => [
    ...[`${tenant}/${name}`, owner, store, recordReads ?? asTenant],
    ...[undelete ? durationText(undelete.seconds * 1000) : 'off', createdAt],
  ],
};

export function addBucketCommands(program: Command): void {
  const bucket = program
    .command('bucket')
    .description('buckets: settings that S3 has no words for');
  bucket
    .command('show <tenant/bucket>')
    .description('show a bucket')
    .action(calling((id: string) => ({ method: 'GET', path: pathIn('buckets', id) }), buckets));
  bucket
    .command('update <tenant/bucket>')
    .description("change a bucket's settings")
    .requiredOption(
      '--record-reads <mode>',
      `when reads are recorded: ${recordReadsModes.join(', ')}, or ${asTenant}: as its tenant says`,
      choice([...recordReadsModes, asTenant]),
    )
    .action(
      calling((id: string, given: { recordReads: string }) => {
        const recordReads = given.recordReads === asTenant ? null : given.recordReads;
        return { method: 'PATCH', path: pathIn('buckets', id), body: { recordReads } };
      }, buckets),
    );
  bucket
    .command('chown <bucket> <principal>')
    .description('give a bucket (s3://raw or cms/raw) to another principal of its tenant')
    .action(async (written: string, owner: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { tenant, bucket: name } = await findPlace(connection, written);
      const path = ['tenants', tenant, 'buckets', name, 'owner'];
      const { json } = await callApi(connection, { method: 'PUT', path, body: { owner } });
      printEntries(flags.json, buckets, json, [json as Answers['ChangeOwner']]);
    });
  addBucketCopy(bucket);
  bucket
    .command('set <bucket>')
    .description('for how long what is overwritten or deleted can be brought back')
    .requiredOption('--undelete <duration>', 'hold it for so long, such as 7d; or off', windowOf)
    .action(setUndelete);
}

/** Milliseconds; 0: off. */
function windowOf(written: string): number {
  return written === 'off' ? 0 : duration(written);
}

type Undelete = Answers['PutUndelete'];

async function setUndelete(
  given: string,
  { undelete: windowMs }: { undelete: number },
  command: Command,
): Promise<void> {
  const { connection, flags } = connect(command);
  const place = await findPlace(connection, given);
  const path = ['tenants', place.tenant, 'buckets', place.bucket, 'undelete'];
  if (windowMs === 0) {
    await callApi(connection, { method: 'DELETE', path });
    return;
  }
  const body = { seconds: windowMs / 1000 };
  const json = (await callApi(connection, { method: 'PUT', path, body })).json as Undelete;
  printEntries(flags.json, windows, json, [json]);
  if (!flags.json) print(json.notice);
}

const windows: Columns<Undelete> = {
  heading: ['BUCKET', 'UNDELETE', 'SINCE', 'HOLDS'],
  row: ({ tenant, name, undelete }) => [
    ...[`${tenant}/${name}`, undelete ? durationText(undelete.seconds * 1000) : 'off'],
    ...[undelete?.since ?? '', formatBytes(undelete?.heldBytes ?? 0)],
  ],
};

// `bursar mount`: names in a tenant's own namespace for other tenants' buckets.

export const mounts: Columns<Answers['GetMount']> = {
  heading: ['MOUNT', 'BUCKET', 'SNAPSHOT', 'CREATED'],
  row: ({ tenant, name, bucketTenant, bucket, at, createdAt }) => [
    ...[`${tenant}/${name}`, `${bucketTenant}:${bucket}`, at ?? '', createdAt],
  ],
};

export function addMountCommands(program: Command): void {
  const mount = program
    .command('mount')
    .description("mounts: other tenants' buckets, and snapshots, under names of one's own");
  mount
    .command('add <tenant/name> <other:bucket>')
    .description('give a bucket of another tenant a name; who may use it is granted there')
    .option(
      '--at <snapshot>',
      'show a snapshot of the bucket, read-only, or what it was at a time in its undelete window ' +
        '(2026-11-23T16:30:00Z, 2h ago); also of an own bucket',
      timeOrSnapshot,
    )
    .action(
      calling((id: string, target: string, { at }: { at?: string }) => {
        const body = { ...bucketOf(target), ...(at !== undefined && { at }) };
        return { method: 'PUT', path: pathIn('mounts', id), body };
      }, mounts),
    );
  mount
    .command('list <tenant>')
    .description("list a tenant's mounts")
    .action(listing(mounts, 'mounts', (tenant: string) => ['tenants', tenant, 'mounts']));
  mount
    .command('remove <tenant/name>')
    .description('take a mount away; the bucket stays as it is')
    .action(calling((id: string) => ({ method: 'DELETE', path: pathIn('mounts', id) })));
}

function bucketOf(target: string): { bucketTenant: string; bucket: string } {
  const [bucketTenant, bucket, ...rest] = target.split(':');
  if (!bucketTenant || !bucket || rest.length > 0) {
    throw new CommandFailure('usage', `${target} must be TENANT:BUCKET, such as cms:raw`);
  }
  return { bucketTenant, bucket };
}
