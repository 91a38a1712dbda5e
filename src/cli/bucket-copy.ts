// `bursar bucket copy`: all objects of a bucket into another, also of another tenant, by copies
// that the gateway makes. Invariants: nothing is deleted, and nothing is replaced unless that was
// asked for; what is there already with the same digest is left alone, so that it can be stopped at
// any moment and run again; and what it says to be the same was compared, object by object, after
// all of it was copied.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { compareText } from '../core/text-order.ts';
import { childOf, escapeXml, parseXml, textOf } from '../gateway/http/xml.ts';
import { type Columns, printEntries } from './api-command.ts';
import { bucketAt, checkAll, type Failed, forEachObject } from './bring-back.ts';
import { findPlace } from './bucket-names.ts';
import type { CommandFlags } from './command-arguments.ts';
import { findConnection } from './find-connection.ts';
import { print, printJson } from './output.ts';
import { formatCount } from './progress.ts';
import { checkDone, type ListedObject, refusedBy, type S3Bucket } from './s3-bucket.ts';

interface CopyFlags {
  prefix?: string;
  dryRun?: true;
  overwrite?: true;
}

/** An object of the source, and what the target has at its key. */
interface Pair {
  key: string;
  from: ListedObject;
  there: ListedObject | undefined;
}

interface Buckets {
  from: S3Bucket;
  to: S3Bucket;
}

interface Done {
  copied: number;
  bytes: number;
  /** Of the source, objects that the target has with the same digest, compared in the end. */
  verified: number;
  /** Objects of the source that the target has not, or not so; the first of their keys. */
  different: number;
  differentKeys: string[];
  failed: Failed[];
}

const keysShownMax = 20;

type Planned = { key: string; change: 'copied' | 'replaced' | 'kept'; size: number };

const planned: Columns<Planned> = {
  heading: ['WOULD BE', 'KEY', 'SIZE'],
  row: ({ change, key, size }) => [change, key, formatBytes(size)],
};

export function addBucketCopy(bucket: Command): void {
  bucket
    .command('copy <bucket> <target>')
    .description('copy all objects into another bucket, also of another tenant, and compare them')
    .option('--prefix <prefix>', 'only those of keys that begin with it')
    .option('--dry-run', 'only list what would be done')
    .option('--overwrite', 'replace what is different in the target')
    .addHelpText('after', help)
    .action(copy);
}

const help = `
Both are s3://BUCKET, s3://TENANT:BUCKET or TENANT/BUCKET, and there. Current versions are copied,
with metadata, tags and storage class; nothing is deleted.`;

async function copy(
  source: string,
  target: string,
  given: CopyFlags,
  command: Command,
): Promise<void> {
  const flags = command.optsWithGlobals<CommandFlags>();
  const connection = findConnection(flags);
  const [fromPlace, toPlace] = [
    await findPlace(connection, source),
    await findPlace(connection, target),
  ];
  if (fromPlace.key !== '' || toPlace.key !== '') {
    throw new CommandFailure('usage', 'both are buckets; --prefix copies a part of one');
  }
  const buckets = { from: bucketAt(connection, fromPlace), to: bucketAt(connection, toPlace) };
  if (buckets.from.name === buckets.to.name) {
    throw new CommandFailure('usage', 'both are the same bucket');
  }
  const { prefix = '', overwrite = false } = given;
  if (given.dryRun) {
    const all: Planned[] = [];
    for await (const pair of pairsOf(buckets, prefix)) {
      const { key, from, there } = pair;
      const change = !there ? 'copied' : overwrite ? 'replaced' : 'kept';
      if (!isSame(pair)) all.push({ key, change, size: from.sizeBytes });
    }
    printEntries(flags.json, planned, all, all);
    return;
  }
  const done = await copyAll(buckets, prefix, overwrite);
  if (flags.json) printJson(done);
  else show(done);
  checkAll(done.failed, flags.json, 'copied');
  if (done.different > 0) process.exitCode = 1;
}

async function copyAll(buckets: Buckets, prefix: string, overwrite: boolean): Promise<Done> {
  let [copied, bytes] = [0, 0];
  const failed = await forEachObject(toCopy(buckets, prefix, overwrite), 'copied', async (pair) => {
    await copyOne(buckets, pair, overwrite);
    copied++;
    bytes += pair.from.sizeBytes;
  });
  const failures = new Map(failed.map((one) => [one.key, one]));
  const done: Done = { copied, bytes, verified: 0, different: 0, differentKeys: [], failed: [] };
  for await (const pair of pairsOf(buckets, prefix)) {
    if (isSame(pair)) {
      done.verified++;
      // It was copied, and only the answer was lost.
      failures.delete(pair.key);
    } else {
      done.different++;
      if (done.differentKeys.length < keysShownMax) done.differentKeys.push(pair.key);
    }
  }
  done.failed = [...failures.values()];
  return done;
}

async function* toCopy(buckets: Buckets, prefix: string, overwrite: boolean): AsyncGenerator<Pair> {
  for await (const pair of pairsOf(buckets, prefix)) {
    if (!isSame(pair) && (overwrite || !pair.there)) yield pair;
  }
}

/** The objects of the source, each with what the target has: both are listed in the same order. */
async function* pairsOf({ from, to }: Buckets, prefix: string): AsyncGenerator<Pair> {
  const targets = to.list(prefix);
  let target = await targets.next();
  for await (const one of from.list(prefix)) {
    while (!target.done && compareText(target.value.key, one.key) < 0) {
      target = await targets.next();
    }
    const there = !target.done && target.value.key === one.key ? target.value : undefined;
    yield { key: one.key, from: one, there };
  }
}

/** An ETag is the MD5 of the bytes or, of an object in parts, that of the MD5s of these. */
function isSame({ from, there }: Pair): boolean {
  return there?.etag === from.etag && there.sizeBytes === from.sizeBytes;
}

async function copyOne(buckets: Buckets, { key, from }: Pair, overwrite: boolean): Promise<void> {
  const source = {
    'x-amz-copy-source': buckets.from.sourceOf(key),
    // What was listed is what is copied.
    'x-amz-copy-source-if-match': from.etag,
  };
  const unlessThere: Record<string, string> = overwrite ? {} : { 'if-none-match': '*' };
  if (from.etag.includes('-')) {
    await copyParts(buckets, from, source, unlessThere);
    return;
  }
  const headers = { ...source, ...unlessThere, 'x-amz-storage-class': from.class };
  checkDone(await buckets.to.ask('PUT', key, { headers }));
}

/** Part by part as it was made, so that it has the same ETag, and can be larger than one copy. */
async function copyParts(
  { from, to }: Buckets,
  { key, class: storageClass }: ListedObject,
  source: Record<string, string>,
  unlessThere: Record<string, string>,
): Promise<void> {
  const first = await headPart(from, key, 1);
  const parts = Number(first['x-amz-mp-parts-count']);
  if (!(parts >= 1)) throw new CommandFailure('failed', 'nobody knows the parts it was made of');
  const headers = { ...(await describe(from, key, first)), 'x-amz-storage-class': storageClass };
  const begun = await to.ask('POST', key, { query: [['uploads', '']], headers });
  checkDone(begun);
  const upload = parseXml(Buffer.from(begun.text), 'InitiateMultipartUploadResult');
  const uploadId: [string, string] = ['uploadId', textOf(upload, 'UploadId') ?? ''];
  try {
    const made: string[] = [];
    let start = 0;
    for (let number = 1; number <= parts; number++) {
      const sizeBytes = Number((await headPart(from, key, number))['content-length']);
      const range = `bytes=${start}-${start + sizeBytes - 1}`;
      const part = await to.ask('PUT', key, {
        query: [['partNumber', String(number)], uploadId],
        headers: { ...source, ...(sizeBytes > 0 && { 'x-amz-copy-source-range': range }) },
      });
      checkDone(part);
      made.push(partElement(number, part.text));
      start += sizeBytes;
    }
    const body = `<CompleteMultipartUpload>${made.join('')}</CompleteMultipartUpload>`;
    checkDone(await to.ask('POST', key, { query: [uploadId], headers: unlessThere, body }));
  } catch (error) {
    await to.ask('DELETE', key, { query: [uploadId] });
    throw error;
  }
}

function partElement(number: number, answer: string): string {
  const { children } = parseXml(Buffer.from(answer), 'CopyPartResult');
  const told = children.filter(({ name }) => name === 'ETag' || name.startsWith('Checksum'));
  const texts = told.map(({ name, text }) => `<${name}>${escapeXml(text)}</${name}>`);
  return `<Part><PartNumber>${number}</PartNumber>${texts.join('')}</Part>`;
}

type Headers = Awaited<ReturnType<S3Bucket['ask']>>['headers'];

async function headPart(from: S3Bucket, key: string, number: number): Promise<Headers> {
  const { status, text, headers } = await from.ask('HEAD', key, {
    query: [['partNumber', String(number)]],
    headers: { 'x-amz-checksum-mode': 'ENABLED' },
  });
  if (status === 200 || status === 206) return headers;
  throw refusedBy(text, status);
}

/** What is said of an object besides its bytes, as headers that make another such one. */
async function describe(
  from: S3Bucket,
  key: string,
  first: Headers,
): Promise<Record<string, string>> {
  const described: Record<string, string> = {};
  for (const [name, value] of Object.entries(first)) {
    if (typeof value !== 'string') continue;
    if (kept.has(name) || name.startsWith('x-amz-meta-')) described[name] = value;
    const [, algorithm] = /^x-amz-checksum-(?!type$)(\w+)$/.exec(name) ?? [];
    if (algorithm) described['x-amz-checksum-algorithm'] = algorithm.toUpperCase();
  }
  if (first['x-amz-tagging-count'] === undefined) return described;
  const { status, text } = await from.ask('GET', key, { query: [['tagging', '']] });
  if (status !== 200) throw refusedBy(text, status);
  const set = childOf(parseXml(Buffer.from(text), 'Tagging'), 'TagSet');
  const tags = (set?.children ?? []).map((tag) => [textOf(tag, 'Key'), textOf(tag, 'Value')]);
  const pairs = tags.map((pair) => pair.map((one) => encodeURIComponent(one ?? '')).join('='));
  return { ...described, 'x-amz-tagging': pairs.join('&') };
}

const kept: ReadonlySet<string> = new Set([
  ...['content-type', 'cache-control', 'content-disposition', 'content-encoding'],
  ...['content-language', 'expires', 'x-amz-website-redirect-location', 'x-amz-checksum-type'],
]);

function show({ copied, bytes, verified, different, differentKeys }: Done): void {
  print(`${formatCount(copied)} copied, ${formatBytes(bytes)}`);
  print(`${formatCount(verified)} are the same in both, compared by their digests`);
  if (different === 0) return;
  const others = different > differentKeys.length ? ', …' : '';
  print(`${formatCount(different)} are not, or not there; --overwrite replaces what is there`);
  print(`  ${differentKeys.map(printable).join(', ')}${others}`);
}
