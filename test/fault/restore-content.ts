// What a gateway is given before and after a backup, and all that its clients see of it: versions
// with their ids and times, tags, locks, settings of buckets.
import { createHash } from 'node:crypto';
import { seededBytes } from '../tooling/files.ts';
import { ask } from './rebuild-content.ts';
import type { S3Client } from './s3-client.ts';

const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

export const buckets = ['plain', 'kept', 'locked', 'near', 'later'];
/** Of snapshots from before the backup, and from after it. */
export const mounts = ['then', 'since'];

/** S3 wants the digest of what is set. */
function set(client: S3Client, path: string, name: string, text: string) {
  const body = Buffer.from(text);
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  return ask(client, 'PUT', path, { query: [[name, '']], headers, body });
}

export function put(
  client: S3Client,
  path: string,
  seed: number,
  more: Record<string, string> = {},
) {
  const headers = { 'x-amz-meta-seed': String(seed), ...more };
  return ask(client, 'PUT', path, {
    headers,
    body: seededBytes(seed, 200 + ((seed * 7919) % 9000)),
  });
}

function tag(client: S3Client, path: string, value: string) {
  const tags = `<TagSet><Tag><Key>a</Key><Value>${value}</Value></Tag></TagSet>`;
  return set(client, path, 'tagging', `<Tagging>${tags}</Tagging>`);
}

function hold(client: S3Client, path: string, status: 'ON' | 'OFF') {
  return set(client, path, 'legal-hold', `<LegalHold><Status>${status}</Status></LegalHold>`);
}

function retain(client: S3Client, path: string, days: number) {
  const until = new Date(Date.now() + days * 86_400_000).toISOString();
  const text = `<Mode>GOVERNANCE</Mode><RetainUntilDate>${until}</RetainUntilDate>`;
  return set(client, path, 'retention', `<Retention>${text}</Retention>`);
}

function copy(client: S3Client, from: string, to: string) {
  return ask(client, 'PUT', to, { headers: { 'x-amz-copy-source': from } });
}

async function parts(client: S3Client, path: string, completes: boolean): Promise<void> {
  const begun = await ask(client, 'POST', path, { query: [['uploads', '']] });
  const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body.toString())?.[1] ?? '';
  const query: [string, string][] = [
    ['partNumber', '1'],
    ['uploadId', id],
  ];
  const { headers } = await ask(client, 'PUT', path, { query, body: seededBytes(9, 300_000) });
  if (!completes) return;
  const part = `<Part><PartNumber>1</PartNumber><ETag>${headers.etag}</ETag></Part>`;
  const body = Buffer.from(`<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`);
  await ask(client, 'POST', path, { query: [['uploadId', id]], body });
}

function native(client: S3Client, method: string, path: string, body: object) {
  const headers = { 'content-type': 'application/json' };
  return ask(client, method, `/_/v1/tenants/default/${path}`, {
    ...{ headers, body: Buffer.from(JSON.stringify(body)) },
  });
}

/** A snapshot of a bucket, and a mount of the same name. */
async function freeze(client: S3Client, bucket: string, name: string): Promise<void> {
  await native(client, 'PUT', `buckets/${bucket}/snapshots/${name}`, {});
  await native(client, 'PUT', `mounts/${name}`, { bucketTenant: 'default', bucket, at: name });
}

/** Before the backup. */
export async function fillBefore(client: S3Client): Promise<void> {
  await native(client, 'POST', 'principals', { name: 'heir' });
  for (const name of ['plain', 'kept', 'gone']) await ask(client, 'PUT', `/${name}`);
  await ask(client, 'PUT', '/near', { headers: { 'x-bursar-store': 'local' } });
  await ask(client, 'PUT', '/locked', { headers: { 'x-amz-bucket-object-lock-enabled': 'true' } });
  await set(client, '/kept', 'versioning', enabled);
  for (let i = 0; i < 20; i++) await put(client, `/plain/${i}`, i);
  for (let i = 0; i < 6; i++) for (const j of [0, 1]) await put(client, `/kept/${i}`, 100 * j + i);
  for (let i = 0; i < 4; i++) await put(client, `/locked/${i}`, i);
  for (let i = 0; i < 5; i++) await put(client, `/near/${i}`, i);
  await ask(client, 'PUT', '/near/large', { body: seededBytes(3, 3_000_000) });
  await put(client, '/gone/one', 1);
  await hold(client, '/locked/1', 'ON');
  await tag(client, '/plain/1', 'before');
  await freeze(client, 'plain', 'then');
  await parts(client, '/plain/open', false);
}

/** After it. */
export async function changeAfter(client: S3Client): Promise<void> {
  // Kept, overwritten, deleted, copied over, made by all the ways that there are.
  for (let i = 5; i < 10; i++) await put(client, `/plain/${i}`, 1000 + i);
  for (let i = 10; i < 13; i++) await ask(client, 'DELETE', `/plain/${i}`);
  await copy(client, '/plain/1', '/plain/13');
  await put(client, '/plain/new', 77);
  await ask(client, 'PUT', '/plain/empty', { body: Buffer.alloc(0) });
  await put(client, '/plain/if', 78, { 'if-none-match': '*' });
  await parts(client, '/plain/joined', true);
  await tag(client, '/plain/1', 'after');
  // Versions: another one, a marker, one that ends, one that is current again.
  await put(client, '/kept/0', 500);
  await freeze(client, 'kept', 'since');
  await ask(client, 'DELETE', '/kept/1');
  const two = await versionsOf(client, 'kept', '2');
  await ask(client, 'DELETE', '/kept/2', { query: [['versionId', two[0] as string]] });
  const three = await versionsOf(client, 'kept', '3');
  await ask(client, 'DELETE', '/kept/3', { query: [['versionId', three[1] as string]] });
  await hold(client, '/locked/1', 'OFF');
  await hold(client, '/locked/2', 'ON');
  await retain(client, '/locked/3', 3);
  // Buckets: one that is made, one that is set up, one that goes.
  await ask(client, 'PUT', '/later');
  await set(client, '/later', 'versioning', enabled);
  for (const seed of [1, 2]) await put(client, '/later/object', seed);
  const statement = {
    Effect: 'Allow',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::plain/public/*',
  };
  const policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
  await ask(client, 'DELETE', '/plain', { query: [['publicAccessBlock', '']] });
  await set(client, '/plain', 'policy', policy);
  await native(client, 'PUT', 'buckets/plain/owner', { owner: 'heir' });
  await ask(client, 'DELETE', '/gone/one');
  await ask(client, 'DELETE', '/gone');
}

/** Ids of a key's versions, the newest first. */
async function versionsOf(client: S3Client, bucket: string, key: string): Promise<string[]> {
  return (await listVersions(client, bucket))
    .filter((one) => one.key === key)
    .map(({ versionId }) => versionId);
}

export interface Listed {
  key: string;
  versionId: string;
  isMarker: boolean;
  text: string;
}

/** All pages; keys have nothing that XML escapes. */
export async function listVersions(client: S3Client, bucket: string): Promise<Listed[]> {
  const listed: Listed[] = [];
  for (let from: [string, string][] = []; ; ) {
    const query: [string, string][] = [['versions', ''], ...from];
    const text = (await ask(client, 'GET', `/${bucket}`, { query })).body.toString();
    for (const [, kind, inner = ''] of text.matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/gs)) {
      listed.push({
        key: fieldOf(inner, 'Key'),
        versionId: fieldOf(inner, 'VersionId'),
        isMarker: kind === 'DeleteMarker',
        text: inner,
      });
    }
    if (fieldOf(text, 'IsTruncated') !== 'true') return listed;
    from = [
      ['key-marker', fieldOf(text, 'NextKeyMarker')],
      ['version-id-marker', fieldOf(text, 'NextVersionIdMarker')],
    ];
  }
}

function fieldOf(text: string, name: string): string {
  return new RegExp(`<${name}>(.*?)</${name}>`).exec(text)?.[1] ?? '';
}

const isKept = /^(etag|last-modified|x-amz-meta-|x-amz-object-lock|x-amz-tagging|content-)/;

/** All that a client sees of a bucket. */
export async function lookAt(client: S3Client, bucket: string): Promise<unknown> {
  const settings: Record<string, string> = {};
  for (const name of ['policy', 'versioning', 'object-lock', 'acl']) {
    const answer = await client.send('GET', `/${bucket}`, { query: [[name, '']] });
    settings[name] = answer.status === 200 ? answer.body.toString() : String(answer.status);
  }
  const versions: unknown[] = [];
  for (const { key, versionId, isMarker, text } of await listVersions(client, bucket)) {
    if (isMarker) {
      versions.push({ text });
      continue;
    }
    const query: [string, string][] = [['versionId', versionId]];
    const got = await ask(client, 'GET', `/${bucket}/${key}`, { query });
    const tags = await ask(client, 'GET', `/${bucket}/${key}`, {
      query: [...query, ['tagging', '']],
    });
    const headers = Object.entries(got.headers).filter(([name]) => isKept.test(name));
    const sha256 = createHash('sha256').update(got.body).digest('hex');
    versions.push({ text, headers, sha256, tags: tags.body.toString() });
  }
  return { settings, versions };
}
