// `bursar bucket locks`: which versions of a bucket cannot be deleted, and until when; and the
// commands by which those go that can. They are printed as they come, page by page, so that a
// bucket may have as many as it likes.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { awsParameters } from './aws-parameters.ts';
import { findPlace, findTenant, type NamedPlace } from './bucket-names.ts';
import { type CommandFlags, connect } from './command-arguments.ts';
import { chooseForm, print, printPages } from './output.ts';

type Locked = Answers['ListLocks']['locked'][number];

const columns = {
  heading: ['MODE', 'UNTIL', 'LEGAL HOLD', 'SIZE', 'VERSION', 'KEY'],
  row: ({ mode, until, legalHold, size, versionId, key }: Locked) => [
    ...[mode ?? '', until ?? '', legalHold ? 'yes' : '', formatBytes(size), versionId, key],
  ],
  csvRow: ({ mode, until, legalHold, size, versionId, key }: Locked) => [
    ...[mode ?? '', until ?? '', legalHold ? 'yes' : 'no', String(size), versionId, key],
  ],
};

interface LocksFlags extends CommandFlags {
  commands?: true;
  csv?: true;
}

export function addBucketLocks(bucket: Command): void {
  bucket
    .command('locks <bucket>')
    .description('list the versions that object lock keeps from being deleted, and until when')
    .option('--csv', 'answer with CSV')
    .option('--commands', 'print the commands that delete them, where anything does, for a shell')
    .action(listLocks);
}

async function listLocks(written: string, _: object, command: Command): Promise<void> {
  const { connection } = connect(command);
  const flags = command.optsWithGlobals<LocksFlags>();
  chooseForm(flags);
  const place = await findPlace(connection, written);
  if (flags.commands && !flags.json) {
    const own = place.tenant === (await findTenant(connection));
    // The AWS CLI refuses the name that a bucket has elsewhere.
    if (!own) print(`# with a key of an admin of ${place.tenant}:`);
    for await (const page of readLocks(connection, place)) {
      for (const one of page) for (const line of endingOf(place.bucket, one)) print(line);
    }
    return;
  }
  await printPages(columns, readLocks(connection, place));
}

/** By key, and of a key the newest first. */
export async function* readLocks(
  connection: Connection,
  { tenant, bucket }: Pick<NamedPlace, 'tenant' | 'bucket'>,
): AsyncGenerator<Locked[]> {
  const path = ['tenants', tenant, 'buckets', bucket, 'locks'];
  let after: string | undefined;
  do {
    const { json } = await callApi(connection, { method: 'GET', path, query: { after } });
    const { locked, next } = json as Answers['ListLocks'];
    yield locked;
    after = next ?? undefined;
  } while (after !== undefined);
}

/** What has a version go, of a key of who may; a comment where nothing does before its time. */
function endingOf(
  Bucket: string,
  { key: Key, versionId: VersionId, mode, until, legalHold }: Locked,
): string[] {
  const version = { Bucket, Key, VersionId };
  if (mode === 'COMPLIANCE') return [`# nobody can before ${until}: ${awsParameters(version)}`];
  const hold = awsParameters({ ...version, LegalHold: { Status: 'OFF' } });
  const bypass = mode === 'GOVERNANCE' && { BypassGovernanceRetention: true };
  const end = awsParameters({ ...version, ...bypass });
  return [
    ...(legalHold ? [`aws s3api put-object-legal-hold ${hold}`] : []),
    `aws s3api delete-object ${end}`,
  ];
}
