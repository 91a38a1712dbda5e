// A data folder that release 0.1.0 wrote, served by this one: who could do what can do it still,
// what was stored is there, what was signed verifies, and nothing differs from the records.
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketPolicyCommand,
  DeleteObjectCommand,
  GetBucketCorsCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  GetPublicAccessBlockCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { operator, packed010, publicUrl, type What } from '../fixtures/contents-0.1.0.ts';
import { unpackFolder } from '../fixtures/packed-folder.ts';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
const kept = join(place.folder, 'kept');
const data = join(place.folder, 'data');
let served: Served;
let endpoint = '';
let what: What;
let logKey: string;

beforeAll(async () => {
  unpackFolder(packed010, place.folder);
  // It was empty, and only files are packed.
  mkdirSync(join(data, 'extents/temporary'), { recursive: true });
  what = JSON.parse(readFileSync(join(kept, 'what.json'), 'utf8')) as What;
  logKey = join(kept, 'log.key');
});
afterAll(() => place.remove());

/** Under the name that tokens of before are for. */
async function serve(): Promise<void> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  const listen = `127.0.0.1:${port}`;
  endpoint = `http://${listen}`;
  served = await place.serve(['--data', data, '--public-url', publicUrl, '--listen', listen], {
    BURSAR_ROOT_ACCESS_KEY: operator.accessKeyId,
    BURSAR_ROOT_SECRET_KEY: operator.secretAccessKey,
  });
}

function clientOf(who: keyof What['keys']): S3Client {
  const credentials = what.keys[who];
  return new S3Client({
    ...{ endpoint, region: 'us-east-1', forcePathStyle: true, credentials, maxAttempts: 1 },
  });
}

/** A command as the operator. */
async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args, {
    BURSAR_ENDPOINT: endpoint,
    BURSAR_ACCESS_KEY_ID: operator.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: operator.secretAccessKey,
  });
  expect(`${code} ${stderr}`).toMatch(/^0 /);
  return stdout;
}

const json = async <T>(...args: string[]): Promise<T> =>
  JSON.parse(await run(...args, '--json')) as T;

async function read(client: S3Client, Bucket: string, Key: string, VersionId?: string) {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key, VersionId }));
  return Body?.transformToString('base64');
}

const nameOf = (error: { name: string }) => error.name;

it('is looked at, and rehearsed, before it is touched', async () => {
  const check = await json<{ schema: number; steps: object[] }>(
    'database',
    'check',
    '--data',
    data,
  );
  expect(check).toMatchObject({ schema: 3, refusal: null, damage: [] });
  expect(check.steps.length).toBeGreaterThan(0);
  const rehearsed = await json('database', 'migrate', '--dry-run', '--data', data);
  expect(rehearsed).toMatchObject({ from: 3, steps: check.steps, copy: null, dryRun: true });
  expect(await run('database', 'check', '--data', data)).toContain('schema 3');
});

describe('after the start', () => {
  beforeAll(async () => {
    await serve();
  });

  it('has told what it did', () => {
    expect(served.stderr()).toMatch(/bursar: schema 4: /);
    expect(served.stderr()).toMatch(
      /the database had schema 3 .* it is in \S+\.schema-3\.records-/,
    );
  });

  it('has all objects, versions, tags and locks', async () => {
    const alice = clientOf('alice');
    for (const [place, content] of Object.entries(what.objects)) {
      const [Bucket = '', Key = ''] = [place.split('/')[0], place.split('/').slice(1).join('/')];
      expect(await read(alice, Bucket, Key)).toBe(content);
    }
    const old = await read(alice, 'versions', 'k', what.oldVersion);
    expect(Buffer.from(old ?? '', 'base64').toString()).toBe('the second');
    const versions = await alice.send(new ListObjectVersionsCommand({ Bucket: 'versions' }));
    expect(versions.Versions).toHaveLength(4);
    expect(versions.DeleteMarkers).toHaveLength(1);
    const tagged = { Bucket: 'plain', Key: 'tagged' };
    const { TagSet } = await alice.send(new GetObjectTaggingCommand(tagged));
    expect(TagSet).toEqual([{ Key: 'project', Value: 'fixture' }]);
    const locked = { Bucket: 'locked', Key: 'kept', VersionId: what.lockedVersion };
    const refused = alice.send(new DeleteObjectCommand(locked)).catch(nameOf);
    expect(await refused).toBe('AccessDenied');
    const cors = await alice.send(new GetBucketCorsCommand({ Bucket: 'plain' }));
    expect(cors.CORSRules).toHaveLength(1);
  });

  it('serves a pass of the protocol, and ends the upload that was begun', async () => {
    const alice = clientOf('alice');
    const Bucket = 'plain';
    const parts = { Parts: [{ PartNumber: 1, ETag: what.upload.etag }] };
    const upload = { Bucket, Key: 'unfinished', UploadId: what.upload.id };
    await alice.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: parts }));
    const put = { Bucket, Key: 'new', Body: Buffer.alloc(200_000, 'new') };
    await alice.send(new PutObjectCommand(put));
    await alice.send(new CopyObjectCommand({ Bucket, Key: 'newer', CopySource: 'plain/inline' }));
    await alice.send(new DeleteObjectCommand({ Bucket, Key: 'tagged' }));
    const { Contents } = await alice.send(new ListObjectsV2Command({ Bucket }));
    expect(Contents?.map(({ Key }) => Key)).toEqual(
      ['copy', 'größer/日本', 'inline', 'new', 'newer', 'second-epoch', 'unfinished'].sort(),
    );
    const first = await read(alice, Bucket, 'unfinished');
    expect(Buffer.from(first ?? '', 'base64').toString()).toBe('the first part');
  });

  it('says of nothing old that it is encrypted, and encrypts by a copy onto itself', async () => {
    const alice = clientOf('alice');
    const encryptionOf = async (Key: string) => {
      const head = new HeadObjectCommand({ Bucket: 'plain', Key });
      return (await alice.send(head)).ServerSideEncryption;
    };
    // A copy of old bytes shares them, where nothing else is asked for.
    for (const old of ['inline', 'newer', 'copy', 'second-epoch', 'unfinished']) {
      expect(await encryptionOf(old)).toBeUndefined();
    }
    expect(await encryptionOf('new')).toBe('AES256');
    const again = { Bucket: 'plain', Key: 'copy', CopySource: 'plain/copy' };
    const copied = await alice.send(
      new CopyObjectCommand({ ...again, ServerSideEncryption: 'AES256' }),
    );
    expect(copied.ServerSideEncryption).toBe('AES256');
    expect(await encryptionOf('copy')).toBe('AES256');
    expect(await read(alice, 'plain', 'copy')).toBe(what.objects['plain/inline']);
  });

  it('blocks nothing public in a bucket of before, and says so; in a new one it does', async () => {
    const alice = clientOf('alice');
    const get = async (Bucket: string) =>
      alice
        .send(new GetPublicAccessBlockCommand({ Bucket }))
        .then(({ PublicAccessBlockConfiguration }) => PublicAccessBlockConfiguration, nameOf);
    const open = (Bucket: string) => {
      const statement = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject' };
      const Statement = [{ ...statement, Resource: `arn:aws:s3:::${Bucket}/public/*` }];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      return alice.send(new PutBucketPolicyCommand({ Bucket, Policy })).then(() => 'done', nameOf);
    };
    expect(await get('plain')).toBe('NoSuchPublicAccessBlockConfiguration');
    expect(await open('plain')).toBe('done');
    await alice.send(new DeleteBucketPolicyCommand({ Bucket: 'plain' }));
    await alice.send(new CreateBucketCommand({ Bucket: 'made-since' }));
    expect(Object.values((await get('made-since')) ?? {})).toEqual([true, true, true, true]);
    expect(await open('made-since')).toBe('AccessDenied');
  });

  it('knows who may do what', async () => {
    expect(await read(clientOf('bob'), 'theirs', 'inline')).toBe(what.objects['plain/inline']);
    const denied = read(clientOf('bob'), 'theirs', 'second-epoch').catch(nameOf);
    expect(await denied).toBe('AccessDenied');
    expect(await read(clientOf('off'), 'plain', 'inline').catch(nameOf)).toBe('InvalidAccessKeyId');
    const bear = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(`${endpoint}/plain/inline`, { headers })).status;
    };
    // It ends a year after the folder was made.
    const { exp } = JSON.parse(
      Buffer.from(what.token.split('.')[1] ?? '', 'base64url').toString(),
    ) as { exp: number };
    expect(await bear(what.token)).toBe(exp * 1000 > Date.now() ? 200 : 401);
    expect(await bear(what.revokedToken)).toBe(403);
    const issuers = await json<{ audience: string }[]>('issuer', 'list', 'cms');
    expect(issuers.map(({ audience }) => audience)).toEqual([what.audience]);
    // It was free text, which is an operator's matter now; this one stays the tenant's.
    const asHead = {
      BURSAR_ENDPOINT: endpoint,
      BURSAR_ACCESS_KEY_ID: what.keys.head.accessKeyId,
      BURSAR_SECRET_ACCESS_KEY: what.keys.head.secretAccessKey,
    };
    const put = (audience: string) => {
      const url = ['--url', 'https://sso.example.org/realms/cms', '--audience', audience];
      const args = ['issuer', 'set', 'cms/sso', ...url, '--path-prefix', '/plain'];
      return place.run([...args, '--default-principal', 'alice'], asHead);
    };
    expect((await put('https://s3.example.org/free')).stderr).toContain('InvalidAudience');
    expect((await put(what.audience)).code).toBe(0);
    expect(await run('limit', 'show', 'principal:cms/alice')).toContain('20');
    expect((await json<object[]>('grant', 'list', 'cms')).length).toBe(2);
  });

  it('has a log that extends what was exported, with receipts that verify', async () => {
    for (const name of what.receipts) {
      const file = join(kept, name);
      await run('verify', 'receipt', file, '--key', logKey);
      await run('receipt', 'show', name.replace('receipt-', ''), '--out', `${file}-new`);
      await run('verify', 'receipt', `${file}-new`, '--key', logKey);
    }
    await run('verify', 'bundle', join(kept, 'cms.bundle'), '--key', logKey);
    await run('log', 'export', join(kept, 'log'), '--key', logKey);
    const records = await run('records', '--json', '--tenant', 'default');
    expect(records).toContain('"action":"bursar:MigrateDatabase"');
  });
});

it('differs in nothing from its records', async () => {
  expect(await served.stop()).toBe(0);
  await run('verify', 'deep', '--data', data);
  expect(await run('database', 'migrate', '--data', data)).toMatch(/^nothing to do/);
});
