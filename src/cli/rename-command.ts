// `bursar rename`: an object, or all that begin with a prefix, under another name of their bucket.
// Each object is one commit of the gateway's (RenameObject); a prefix is as many of these. So it
// can be stopped at any moment and run again: what was renamed is not at the old prefix any more.
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { inParallel } from '../core/in-parallel.ts';
import type { CommandFlags } from './command-arguments.ts';
import { findConnection } from './find-connection.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';
import { refusedBy, S3Bucket, type S3Connection } from './s3-bucket.ts';

interface RenameFlags extends CommandFlags {
  dryRun?: boolean;
  overwrite?: boolean;
}

/** What was done, or would be. */
interface Renamed {
  dryRun: boolean;
  objects: number;
  bytes: number;
  /** Objects that stay, as there is one at their new key; the first of these keys. */
  kept: number;
  keptKeys: string[];
  /** Objects that somebody else deleted or renamed meanwhile. */
  gone: number;
}

const atOnce = 16;
const keysShownMax = 20;

export function addRenameCommand(program: Command): void {
  program
    .command('rename <s3-url> <new-s3-url>')
    .description('give an object, or all objects of a folder (both end with /), other keys')
    .option('--dry-run', 'only say what would be renamed')
    .option('--overwrite', 'replace what is at the new keys')
    .action(async (from: string, to: string, _given: object, command: Command) => {
      const flags = command.optsWithGlobals<RenameFlags>();
      const places = checkPlaces(splitUrl(from), splitUrl(to));
      const renamed = await rename(findConnection(flags), places, flags);
      if (flags.json) printJson(renamed);
      else show(renamed);
      if (renamed.kept > 0) process.exitCode = 1;
    });
}

interface Place {
  bucket: string;
  key: string;
}

function splitUrl(url: string): Place {
  const [, bucket, key] = /^s3:\/\/([^/]+)\/(.+)$/s.exec(url) ?? [];
  if (bucket !== undefined && key !== undefined) return { bucket, key };
  throw new CommandFailure('usage', `${url} must be s3://BUCKET/KEY or s3://BUCKET/FOLDER/`);
}

interface Places {
  bucket: string;
  from: string;
  to: string;
  isFolder: boolean;
}

function checkPlaces(from: Place, to: Place): Places {
  const isFolder = from.key.endsWith('/');
  const fault = (message: string) => new CommandFailure('usage', message);
  if (from.bucket !== to.bucket) {
    throw fault('both must be in one bucket: between buckets objects are copied');
  }
  if (isFolder !== to.key.endsWith('/')) throw fault('either both end with /, or neither does');
  if (from.key === to.key) throw fault('both are the same');
  // Else objects would come to be listed that were renamed before.
  const isNested = from.key.startsWith(to.key) || to.key.startsWith(from.key);
  if (isFolder && isNested) throw fault('neither folder may be in the other');
  return { bucket: from.bucket, from: from.key, to: to.key, isFolder };
}

async function rename(
  connection: S3Connection,
  places: Places,
  { dryRun = false, overwrite = false }: RenameFlags,
): Promise<Renamed> {
  const { from, to, isFolder } = places;
  const bucket = new S3Bucket(connection, places.bucket);
  const renamed: Renamed = { dryRun, objects: 0, bytes: 0, kept: 0, keptKeys: [], gone: 0 };
  using progress = new CountProgress(process.stderr, dryRun ? 'objects found' : 'objects renamed');
  const keys = isFolder ? bucket.list(from) : [{ key: from, sizeBytes: 0 }];
  await inParallel(keys, atOnce, async ({ key, sizeBytes }) => {
    const target = `${to}${key.slice(from.length)}`;
    const outcome = await (dryRun
      ? look(bucket, target, overwrite)
      : renameOne(bucket, { source: key, target, overwrite }));
    if (outcome === 'gone' && !isFolder)
      throw new CommandFailure('failed', `there is no ${key} (NoSuchKey)`);
    if (outcome === 'gone') renamed.gone++;
    else if (outcome === 'kept') {
      renamed.kept++;
      if (renamed.keptKeys.length < keysShownMax) renamed.keptKeys.push(key);
    } else {
      renamed.objects++;
      renamed.bytes += sizeBytes;
      progress.show(renamed.objects);
    }
  });
  return renamed;
}

type Outcome = 'renamed' | 'kept' | 'gone';

async function renameOne(
  bucket: S3Bucket,
  { source, target, overwrite }: { source: string; target: string; overwrite: boolean },
): Promise<Outcome> {
  const { status, text } = await bucket.ask('PUT', target, {
    query: [['renameObject', '']],
    headers: {
      'x-amz-rename-source': bucket.sourceOf(source),
      // One that was done and whose answer was lost is not taken for one that found nothing.
      'x-amz-client-token': randomUUID(),
      ...(!overwrite && { 'if-none-match': '*' }),
    },
  });
  if (status === 200) return 'renamed';
  if (status === 412) return 'kept';
  if (status === 404 && text.includes('<Code>NoSuchKey</Code>')) return 'gone';
  throw refusedBy(text, status);
}

/** What a rename to this key would come to. */
async function look(bucket: S3Bucket, target: string, overwrite: boolean): Promise<Outcome> {
  if (overwrite) return 'renamed';
  const { status } = await bucket.ask('HEAD', target);
  if (status === 404) return 'renamed';
  if (status === 200) return 'kept';
  throw new CommandFailure('failed', `${target}: the gateway answered ${status}`);
}

function show({ dryRun, objects, bytes, kept, keptKeys, gone }: Renamed): void {
  const size = bytes > 0 ? `, ${formatBytes(bytes)}` : '';
  const noun = objects === 1 ? 'object' : 'objects';
  print(`${dryRun ? 'would rename' : 'renamed'} ${formatCount(objects)} ${noun}${size}`);
  if (gone > 0) print(`${formatCount(gone)} were deleted or renamed by somebody else meanwhile`);
  if (kept === 0) return;
  const others = kept > keptKeys.length ? ', …' : '';
  const stay = dryRun ? 'would stay' : 'stay';
  print(`${formatCount(kept)} ${stay}, as something is at their new keys: --overwrite replaces it`);
  print(`  ${keptKeys.join(', ')}${others}`);
}
