// `bursar bucket`: settings of a bucket for which S3 has no request. Buckets are written
// TENANT/NAME.
import type { Command } from 'commander';
import { recordReadsModes } from '../core/record-reads.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { type CommandFlags, choice, connect, splitId } from './command-arguments.ts';
import { printTable } from './output.ts';

type Bucket = Answers['GetBucket'];

const asTenant = 'tenant';

export function addBucketCommands(program: Command): void {
  const bucket = program
    .command('bucket')
    .description('buckets: settings that S3 has no words for');
  bucket
    .command('show <tenant/bucket>')
    .description('show a bucket')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: bucketPath(id) });
      showBucket(flags, json as Bucket);
    });
  bucket
    .command('update <tenant/bucket>')
    .description("change a bucket's settings")
    .requiredOption(
      '--record-reads <mode>',
      `when reads are recorded: ${recordReadsModes.join(', ')}, or ${asTenant}: as its tenant says`,
      choice([...recordReadsModes, asTenant]),
    )
    .action(async (id: string, given: { recordReads: string }, command: Command) => {
      const { connection, flags } = connect(command);
      const recordReads = given.recordReads === asTenant ? null : given.recordReads;
      const call = { method: 'PATCH', path: bucketPath(id), body: { recordReads } } as const;
      const { json } = await callApi(connection, call);
      showBucket(flags, json as Bucket);
    });
}

function bucketPath(id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, 'buckets', name];
}

function showBucket(flags: CommandFlags, one: Bucket): void {
  printTable(flags.json, {
    json: one,
    heading: ['BUCKET', 'OWNER', 'STORE', 'READS', 'CREATED'],
    rows: [
      [
        `${one.tenant}/${one.name}`,
        one.owner,
        one.store,
        one.recordReads ?? asTenant,
        one.createdAt,
      ],
    ],
  });
}
