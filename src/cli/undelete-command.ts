// `bursar undelete`: brings back an object that was deleted, all that were of a prefix, or all of a
// prefix as of a time. What does it is asked of the gateway, and each object is a request of its
// own. Invariants: an object that is as it was is left alone; and nothing is deleted but delete
// markers.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { type Columns, printEntries } from './api-command.ts';
import { checkAll, copyBack, deleteObject, forEachObject } from './bring-back.ts';
import { findPlace, type NamedPlace } from './bucket-names.ts';
import type { CommandFlags } from './command-arguments.ts';
import { findConnection } from './find-connection.ts';
import { print, printJson } from './output.ts';
import { formatCount } from './progress.ts';
import type { S3Connection } from './s3-bucket.ts';
import { time, timeForms } from './times.ts';

type Undeletion = Answers['Undelete']['objects'][number];

interface UndeleteFlags {
  prefix?: string;
  asOf?: string;
  dryRun?: true;
}

const undeletions: Columns<Undeletion> = {
  heading: ['WAS', 'KEY', 'SIZE'],
  row: ({ was, key, size }) => [was, key, formatBytes(size)],
};

export function addUndeleteCommand(program: Command): void {
  program
    .command('undelete <s3-url>')
    .description('bring back what was deleted, or overwritten, without moving data')
    .option(
      '--prefix <prefix>',
      'all deleted objects that begin with it, or as of a time; empty: of the bucket',
    )
    .option('--as-of <time>', `as it was then, if it was overwritten, too: ${timeForms}`, time)
    .option('--dry-run', 'only list what would be done')
    .action(undelete);
}

async function undelete(url: string, given: UndeleteFlags, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<CommandFlags>();
  const connection = findConnection(flags);
  const place = await findPlace(connection, url);
  check(place, given);
  const objects = readPlan(connection, place, given);
  if (given.dryRun) {
    const all: Undeletion[] = [];
    for await (const one of objects) all.push(one);
    printEntries(flags.json, undeletions, all, all);
    return;
  }
  let restored = 0;
  const failed = await forEachObject(objects, 'objects restored', async (one) => {
    const isGone = one.was === 'deleted';
    // Who has written one of the key meanwhile keeps it.
    if (one.markers.length === 0 && !(await copyBack(connection, place, { ...one, isGone })))
      return;
    for (const versionId of one.markers) {
      await deleteObject(connection, place, { key: one.key, versionId });
    }
    restored++;
  });
  if (flags.json) printJson({ restored, failed });
  else print(`${formatCount(restored)} restored${given.asOf ? `, as of ${given.asOf}` : ''}`);
  checkAll(failed, flags.json);
}

function check({ key }: NamedPlace, { prefix, asOf }: UndeleteFlags): void {
  if (key !== '' && prefix !== undefined) {
    throw new CommandFailure('usage', 'give either a key, s3://BUCKET/KEY, or --prefix');
  }
  if (key.endsWith('/')) {
    const all = `of all below it: bursar undelete s3://BUCKET --prefix ${key}`;
    throw new CommandFailure('usage', all);
  }
  if (key === '' && prefix === undefined && asOf === undefined) {
    const all = "--prefix '' for all that was deleted, or --as-of 2h for all as it was then";
    throw new CommandFailure('usage', `of more than one object give ${all}`);
  }
}

async function* readPlan(
  connection: S3Connection,
  { tenant, bucket, key }: NamedPlace,
  { prefix, asOf }: UndeleteFlags,
): AsyncGenerator<Undeletion> {
  const path = ['tenants', tenant, 'buckets', bucket, 'undelete'];
  const of = key === '' ? { prefix } : { key };
  let after: string | undefined;
  do {
    const { json } = await callApi(connection, {
      ...{ method: 'GET', path, query: { ...of, asOf, after } },
    });
    const { objects, next } = json as Answers['Undelete'];
    yield* objects;
    after = next ?? undefined;
  } while (after !== undefined);
}
