// `bursar bucket`: settings of a bucket for which S3 has no request. Buckets are written
// TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { recordReadsModes } from '../core/record-reads.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { type Columns, calling, listing, pathIn, printEntries } from './api-command.ts';
import { choice, connect } from './command-arguments.ts';

const asTenant = 'tenant';

const buckets: Columns<Answers['GetBucket']> = {
  heading: ['BUCKET', 'OWNER', 'STORE', 'READS', 'CREATED'],
  row: ({ tenant, name, owner, store, recordReads, createdAt }) => [
    ...[`${tenant}/${name}`, owner, store, recordReads ?? asTenant, createdAt],
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
      const path = [...pathIn('buckets', await bucketId(connection, written)), 'owner'];
      const { json } = await callApi(connection, { method: 'PUT', path, body: { owner } });
      printEntries(flags.json, buckets, json, [json as Answers['ChangeOwner']]);
    });
}

/** TENANT/NAME of a bucket that is written so, or as S3 commands have it: s3://[TENANT:]NAME. */
async function bucketId(connection: Connection, written: string): Promise<string> {
  const [, tenant, name] = /^s3:\/\/(?:([^:/]+):)?([^:/]+)\/?$/.exec(written) ?? [];
  if (name === undefined) return written;
  if (tenant !== undefined) return `${tenant}/${name}`;
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  return `${(json as Answers['WhoAmI']).tenant}/${name}`;
}

// `bursar mount`: names in a tenant's own namespace for other tenants' buckets.

const mounts: Columns<Answers['GetMount']> = {
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
    .option('--at <snapshot>', 'show a snapshot of the bucket, read-only; also of an own bucket')
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
