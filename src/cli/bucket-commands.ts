// `bursar bucket`: settings of a bucket for which S3 has no request. Buckets are written
// TENANT/NAME.
import type { Command } from 'commander';
import { recordReadsModes } from '../core/record-reads.ts';
import { type Columns, calling, pathIn } from './api-command.ts';
import type { Answers } from './api-types.ts';
import { choice } from './command-arguments.ts';

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
}
