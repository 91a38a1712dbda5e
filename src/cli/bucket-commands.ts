// `bursar bucket`: settings of a bucket for which S3 has no request. Buckets are written
// TENANT/NAME.
import { type Command, InvalidArgumentError } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { readPayers } from '../core/read-payer.ts';
import { recordReadsModes } from '../core/record-reads.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { type Columns, calling, printEntries } from './api-command.ts';
import { addBucketCopy } from './bucket-copy.ts';
import { addBucketDeletion } from './bucket-deletion.ts';
import { addBucketLocks } from './bucket-locks.ts';
import { findPlace } from './bucket-names.ts';
import { choice, connect, duration, durationForm, durationText } from './command-arguments.ts';
import { print } from './output.ts';

const asTenant = 'tenant';

const buckets: Columns<Answers['GetBucket']> = {
  heading: [
    ...['BUCKET', 'OWNER', 'STORE', 'READS', 'READS PAID BY', 'UNDELETE', 'SINCE', 'HOLDS'],
    'CREATED',
  ],
  row: ({ tenant, name, owner, store, recordReads, readsPaidBy, undelete, createdAt }) => [
    ...[`${tenant}/${name}`, owner, store, recordReads ?? asTenant, readsPaidBy],
    undelete ? durationText(undelete.seconds * 1000) : 'off',
    ...[undelete?.since ?? '', undelete ? formatBytes(undelete.heldBytes) : '', createdAt],
  ],
};

export function addBucketCommands(program: Command): void {
  const bucket = program
    .command('bucket')
    .description('buckets: settings that S3 has no words for');
  bucket
    .command('show <bucket>')
    .description('show a bucket (s3://raw or cms/raw)')
    .action(
      calling(
        (written: string) => async (connection: Connection) => {
          const { tenant, bucket: name } = await findPlace(connection, written);
          return { method: 'GET', path: ['tenants', tenant, 'buckets', name] };
        },
        buckets,
      ),
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
  addBucketLocks(bucket);
  bucket
    .command('set <bucket>')
    .description('change settings of a bucket (s3://raw or cms/raw)')
    .option(
      '--record-reads <mode>',
      `when reads are recorded: ${recordReadsModes.join(', ')}, or ${asTenant}: as its tenant says`,
      choice([...recordReadsModes, asTenant]),
    )
    .option(
      '--reads-paid-by <payer>',
      'who pays for reads besides who reads: owner, requester (those of other tenants pay alone) ' +
        'or tenant',
      choice(readPayers),
    )
    .option(
      '--undelete <duration>',
      'for how long what is overwritten or deleted can be brought back, such as 7d; or off',
      windowOf,
    )
    .action(set);
  addBucketDeletion(bucket);
}

const windowMsMin = duration('1m');
const windowMsMax = duration('366d');

/** Milliseconds; 0: off. */
function windowOf(written: string): number {
  if (written === 'off') return 0;
  const ms = durationForm.test(written) ? duration(written) : Number.NaN;
  if (ms >= windowMsMin && ms <= windowMsMax) return ms;
  const bounds = `${durationText(windowMsMin)} to ${durationText(windowMsMax)}`;
  throw new InvalidArgumentError(`Must be off, or a time with its unit (7d, 12h, 30m), ${bounds}.`);
}

type Undelete = Answers['PutUndelete'];

interface SetFlags {
  recordReads?: string;
  readsPaidBy?: string;
  /** Milliseconds; 0: off. */
  undelete?: number;
}

async function set(given: string, settings: SetFlags, command: Command): Promise<void> {
  const { recordReads, readsPaidBy, undelete } = settings;
  if (recordReads === undefined && readsPaidBy === undefined && undelete === undefined) {
    const choices = '--record-reads, --reads-paid-by or --undelete';
    throw new CommandFailure('usage', `say what to set: ${choices}`);
  }
  const { connection, flags } = connect(command);
  const { tenant, bucket } = await findPlace(connection, given);
  const path = ['tenants', tenant, 'buckets', bucket];
  if (recordReads !== undefined) {
    const body = { recordReads: recordReads === asTenant ? null : recordReads };
    await callApi(connection, { method: 'PATCH', path, body });
  }
  if (readsPaidBy !== undefined) {
    await callApi(connection, { method: 'PATCH', path, body: { readsPaidBy } });
  }
  const held = undelete === undefined ? null : await setUndelete(connection, path, undelete);
  const { json } = await callApi(connection, { method: 'GET', path });
  if (held === null || flags.json) {
    const shown = { ...(json as Answers['GetBucket']), ...held };
    printEntries(flags.json, buckets, shown, [shown]);
  } else {
    printEntries(false, windows, held, [held]);
    print(held.notice);
  }
}

/** null: the window was ended. */
async function setUndelete(
  connection: Connection,
  ofBucket: readonly string[],
  windowMs: number,
): Promise<Undelete | null> {
  const path = [...ofBucket, 'undelete'];
  if (windowMs === 0) {
    await callApi(connection, { method: 'DELETE', path });
    return null;
  }
  const body = { seconds: windowMs / 1000 };
  return (await callApi(connection, { method: 'PUT', path, body })).json as Undelete;
}

const windows: Columns<Undelete> = {
  heading: ['BUCKET', 'UNDELETE', 'SINCE', 'HOLDS'],
  row: ({ tenant, name, undelete }) => [
    ...[`${tenant}/${name}`, undelete ? durationText(undelete.seconds * 1000) : 'off'],
    ...[undelete?.since ?? '', formatBytes(undelete?.heldBytes ?? 0)],
  ],
};
