// `bursar dataset`: what a query found, written down with digests, so that others can cite it,
// fetch it, and see that it is what was meant.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { callPatiently, mayPass, pauseAfter, triesMax } from './api-client.ts';
import { findPlace } from './bucket-names.ts';
import { type CommandFlags, connect } from './command-arguments.ts';
import { type CrateObject, type WrittenCrate, writeCrate } from './dataset-crate.ts';
import { findConnection } from './find-connection.ts';
import { type Placed, readObjects } from './found-objects.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';
import { S3Bucket } from './s3-bucket.ts';

interface ManifestFlags {
  out: string;
  name?: string;
  description?: string;
  license?: string;
  digest?: boolean;
  receipts?: boolean;
}

const manifestHelp = `
A data set that stays what it is, and its manifest:

  bursar snapshot create s3://raw paper
  bursar mount create run7 cms:raw --at paper --where 'meta.run = 7'
  bursar dataset manifest s3://run7 --out run7-manifest
  aws s3 cp --recursive s3://run7/ run7/
  bursar verify dataset run7-manifest run7

The folder is an RO-Crate: ro-crate-metadata.json describes the data set, manifest-sha256.txt has
the digest of each file (sha256sum -c), and objects.jsonl all that was known of each.`;

export function addDatasetCommands(program: Command): void {
  program
    .command('dataset')
    .description('write down which objects a data set has, with their digests')
    .command('manifest')
    .description('describe what a bucket, a mount or a query has, as an RO-Crate with digests')
    .argument('<where>', 's3://BUCKET or s3://BUCKET/PREFIX; best a mount with --at and --where')
    .argument('[query]', 'only the objects that fit it')
    .requiredOption('--out <folder>', 'where to write it; it must not be there')
    .option('--name <text>', 'what the data set is called (default: its URL)')
    .option('--description <text>', 'what it is')
    .option('--license <text>', 'under which license it is, best as a URL')
    .option('--digest', 'read what was uploaded in parts, of which no SHA-256 is known')
    .option('--receipts', 'keep the receipt of each object as well, where you may have it')
    .addHelpText('after', manifestHelp)
    .action((url: string, query: string | undefined, given: ManifestFlags, command: Command) =>
      writeManifest({ url, query }, given, command.optsWithGlobals<CommandFlags>(), command),
    );
}

/** All objects fit it; the index, which may lack what was written a moment ago, is not asked. */
const any = 'not size < 0';

async function writeManifest(
  { url, query }: { url: string; query: string | undefined },
  given: ManifestFlags,
  flags: CommandFlags,
  command: Command,
): Promise<void> {
  if (!url.startsWith('s3://')) {
    throw new CommandFailure('usage', `${url} must be s3://BUCKET or s3://BUCKET/PREFIX`);
  }
  if (existsSync(given.out)) throw new CommandFailure('usage', `${given.out} is there already`);
  const { connection } = connect(command);
  const asked = { connection, urls: [url], query: query ?? any };
  const terms = {
    name: given.name ?? url,
    description: given.description ?? describe(url, query),
    ...{ license: given.license, endpoint: connection.endpoint },
    published: new Date().toISOString(),
  };
  const { key } = await findPlace(connection, url);
  const base = key.slice(0, key.lastIndexOf('/') + 1);
  const bucket = new S3Bucket(findConnection(flags), url.split('/')[2] ?? '');
  const objects = described(readObjects(asked), base, given.digest ? bucket : null);
  const receipt = async (index: number) =>
    (await callPatiently(connection, { path: ['receipts', String(index)] })).text;
  const written = await writeCrate(given.out, terms, objects, given.receipts ? receipt : null);
  show(given.out, written, flags.json === true);
}

function describe(url: string, query: string | undefined): string {
  return query === undefined ? `All objects of ${url}.` : `The objects of ${url} that fit ${query}`;
}

/** With the digest of each. `bucket`: to read those that have none; null: they are refused. */
async function* described(
  objects: AsyncIterable<Placed>,
  base: string,
  bucket: S3Bucket | null,
): AsyncGenerator<CrateObject> {
  const progress = new CountProgress(process.stderr, 'objects');
  let [count, lacking, lackingBytes] = [0, 0, 0];
  try {
    for await (const one of objects) {
      // A folder, as some clients mark it: nobody can lay it there as a file.
      if (one.size === 0 && one.key.endsWith('/')) continue;
      count += 1;
      progress.show(count);
      const sha256 = one.sha256 ?? (bucket && (await digestOf(bucket, one)));
      if (sha256 !== null) yield { ...one, path: one.key.slice(base.length), sha256 };
      else {
        lacking += 1;
        lackingBytes += one.size;
      }
    }
  } finally {
    progress.clear();
  }
  if (lacking === 0) return;
  const what = `${formatCount(lacking)} objects (${formatBytes(lackingBytes)})`;
  const why = 'were uploaded in parts, and no SHA-256 of them is known';
  throw new CommandFailure('failed', `${what} ${why}: --digest reads them`);
}

/** An answer that is cut off is read again from its beginning, as patiently as pages are. */
async function digestOf(bucket: S3Bucket, { key, etag }: Placed): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      const hash = createHash('sha256');
      for await (const piece of bucket.read(key, etag)) hash.update(piece);
      return hash.digest('hex');
    } catch (error) {
      const isRefused = error instanceof CommandFailure && !mayPass(error);
      if (isRefused || tries === triesMax) throw error;
      await pauseAfter(tries);
    }
  }
}

function show(out: string, { objects, bytes, digest }: WrittenCrate, asJson: boolean): void {
  if (asJson) printJson({ out, objects, size: bytes, sha256: digest });
  else {
    print(`${out}: ${formatCount(objects)} objects, ${formatBytes(bytes)}`);
    print(`the data set's digest, to cite: sha256:${digest}`);
  }
}
