// Encryption at rest as an operator sees it: what lies in the data folder, with it and without it,
// and what is left of a tenant that was deleted.
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetBucketEncryptionCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const marker = 'a text that nobody is to find in a stolen disk ';
const sizes = { inline: 4096, large: 1_000_000 };

let place: Workplace;
let served: Served;
const clients: S3Client[] = [];

beforeAll(() => {
  place = new Workplace();
});
afterAll(async () => {
  for (const client of clients) client.destroy();
  await place.remove();
});

function clientWith(credentials: { accessKeyId: string; secretAccessKey: string }): S3Client {
  const { endpoint } = served;
  const options = { region: 'us-east-1', forcePathStyle: true, maxAttempts: 1 };
  const client = new S3Client({ endpoint, credentials, ...options });
  clients.push(client);
  return client;
}

function operator(): S3Client {
  const text = readFileSync(join(place.data, 'credentials'), 'utf8');
  const settingOf = (name: string) => new RegExp(`${name} *= *(\\S+)`).exec(text)?.[1] ?? '';
  return clientWith({
    accessKeyId: settingOf('aws_access_key_id'),
    secretAccessKey: settingOf('aws_secret_access_key'),
  });
}

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args);
  expect(`${code} ${stderr}`).toMatch(/^0 /);
  return stdout;
}

/** Files of the data folder that have these bytes. */
function filesWith(bytes: Buffer | string): string[] {
  const names = readdirSync(place.data, { recursive: true, withFileTypes: true });
  const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  return files.filter((file) => readFileSync(file).includes(bytes));
}

async function fill(client: S3Client, Bucket: string): Promise<void> {
  await client.send(new CreateBucketCommand({ Bucket }));
  for (const [Key, size] of Object.entries(sizes)) {
    await client.send(new PutObjectCommand({ Bucket, Key, Body: Buffer.alloc(size, marker) }));
  }
}

async function readAll(client: S3Client, Bucket: string): Promise<(string | undefined)[]> {
  const said: (string | undefined)[] = [];
  for (const [Key, size] of Object.entries(sizes)) {
    const got = await client.send(new GetObjectCommand({ Bucket, Key }));
    const bytes = Buffer.from((await got.Body?.transformToByteArray()) ?? []);
    expect(bytes.equals(Buffer.alloc(size, marker)), `${Bucket}/${Key}`).toBe(true);
    said.push(got.ServerSideEncryption);
  }
  return said;
}

describe('a gateway as it is by default', () => {
  it('leaves nothing in its folder that can be read', async () => {
    served = await place.serve();
    const client = operator();
    await fill(client, 'encrypted');
    expect(await readAll(client, 'encrypted')).toEqual(['AES256', 'AES256']);
    await served.stop();
    expect(filesWith(marker)).toEqual([]);
  });

  it('reads it after a start, after a rotation of the root key, and says it is sound', async () => {
    served = await place.serve();
    await run('keys', 'rotate');
    const client = operator();
    await fill(client, 'rotated');
    await served.stop();
    served = await place.serve();
    const again = operator();
    for (const bucket of ['encrypted', 'rotated']) {
      expect(await readAll(again, bucket)).toEqual(['AES256', 'AES256']);
    }
    expect(await run('verify', 'data')).toMatch(/^verified 4 versions/);
    await served.stop();
  });
});

describe("a key of a customer's", () => {
  const key = randomBytes(32);
  const text = key.toString('base64');
  const md5 = createHash('md5').update(key).digest('base64');
  const withKey = { SSECustomerAlgorithm: 'AES256', SSECustomerKey: text, SSECustomerKeyMD5: md5 };
  const words = 'what only its customer reads ';
  const Bucket = 'customers';

  async function write(prefix: string): Promise<void> {
    const client = operator();
    for (const [name, size] of Object.entries(sizes)) {
      const of = { Bucket, Key: prefix + name, ...withKey };
      await client.send(new PutObjectCommand({ ...of, Body: Buffer.alloc(size, words) }));
    }
  }
  async function read(prefix: string): Promise<void> {
    const client = operator();
    for (const [name, size] of Object.entries(sizes)) {
      const got = await client.send(
        new GetObjectCommand({ Bucket, Key: prefix + name, ...withKey }),
      );
      const bytes = Buffer.from((await got.Body?.transformToByteArray()) ?? []);
      expect(bytes.equals(Buffer.alloc(size, words)), prefix + name).toBe(true);
      const bare = client.send(new GetObjectCommand({ Bucket, Key: prefix + name }));
      await expect(bare).rejects.toMatchObject({ name: 'InvalidRequest' });
    }
  }

  it('is in nothing that is kept or said, and outlives kills and rotations', async () => {
    served = await place.serve();
    await operator().send(new CreateBucketCommand({ Bucket }));
    await write('a/');
    const begun = { Bucket, Key: 'begun', ...withKey };
    const { UploadId } = await operator().send(new CreateMultipartUploadCommand(begun));
    const first = Buffer.alloc(5 * 1024 * 1024, words);
    const part = { ...begun, UploadId, PartNumber: 1, Body: first };
    const { ETag } = await operator().send(new UploadPartCommand(part));
    const other = randomBytes(32).toString('base64');
    const wrong = { Bucket, Key: 'a/inline', SSECustomerAlgorithm: 'AES256' };
    const asked = new GetObjectCommand({ ...wrong, SSECustomerKey: other });
    await expect(operator().send(asked)).rejects.toMatchObject({ name: 'AccessDenied' });
    await run('keys', 'rotate');
    await served.stop('SIGKILL');
    const said = served.stdout() + served.stderr();
    expect(said).toContain('PutObject');
    served = await place.serve();
    await read('a/');
    // The upload goes on, with a part under the root key of before and one under that of now.
    const next = { ...part, PartNumber: 2, Body: words };
    const keyless = { Bucket, Key: 'begun', UploadId, PartNumber: 2, Body: words };
    const missing = operator().send(new UploadPartCommand(keyless));
    await expect(missing).rejects.toMatchObject({ name: 'InvalidRequest' });
    const later = await operator().send(new UploadPartCommand(next));
    const Parts = [ETag, later.ETag].map((tag, i) => ({ ETag: tag, PartNumber: i + 1 }));
    const completing = { Bucket, Key: 'begun', UploadId, MultipartUpload: { Parts } };
    await operator().send(new CompleteMultipartUploadCommand(completing));
    const got = await operator().send(new GetObjectCommand(begun));
    expect(await got.Body?.transformToString()).toBe(`${first}${words}`);
    const records = await run('records', '--json', '--last', '100');
    expect(records).toContain('a/inline');
    for (const form of [text, other, key.toString('hex'), md5, words]) {
      expect([said.includes(form), records.includes(form)]).toEqual([false, false]);
      expect(filesWith(form)).toEqual([]);
    }
    expect(filesWith(key)).toEqual([]);
    // All of it is verified by who has no key.
    expect(await run('verify', 'data', '--bucket', Bucket)).toMatch(/^verified 3 versions/);
    await served.stop();
    await run('verify', 'deep');
  });

  it('is taken where nothing else is encrypted', async () => {
    served = await place.serve(['--encryption', 'off']);
    await write('b/');
    await read('a/');
    await read('b/');
    expect(filesWith(words)).toEqual([]);
    await served.stop();
  });
});

describe('with --encryption off', () => {
  beforeAll(async () => {
    served = await place.serve(['--encryption', 'off']);
  });

  it('what is written can be found on the disk, and never says that it is encrypted', async () => {
    const client = operator();
    await fill(client, 'plain');
    expect(await readAll(client, 'plain')).toEqual([undefined, undefined]);
    expect(filesWith(marker).length).toBeGreaterThan(1);
    const asked = { Bucket: 'plain', Key: 'k', ServerSideEncryption: 'AES256' as const };
    const refused = client.send(new PutObjectCommand({ ...asked, Body: 'x' }));
    await expect(refused).rejects.toMatchObject({ name: 'NotImplemented' });
    const setting = client.send(new GetBucketEncryptionCommand({ Bucket: 'plain' }));
    await expect(setting).rejects.toMatchObject({
      name: 'ServerSideEncryptionConfigurationNotFoundError',
    });
  });

  it('what was encrypted before is read as before, and still says so', async () => {
    expect(await readAll(operator(), 'encrypted')).toEqual(['AES256', 'AES256']);
    await served.stop();
  });
});

describe('with encryption on again', () => {
  it('what was written without it does not say that it is encrypted', async () => {
    served = await place.serve();
    expect(await readAll(operator(), 'plain')).toEqual([undefined, undefined]);
  });
});

describe('a tenant that is deleted', () => {
  it('takes its key along, out of the whole folder, and the record says so', async () => {
    await run('tenant', 'create', 'gone');
    await run('principal', 'create', 'gone/head', '--role', 'admin');
    const key = await run('key', 'create', 'gone/head', '--json');
    const head = clientWith(JSON.parse(key));
    await fill(head, 'secret');
    const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
    const sql = 'SELECT sealed_key AS sealed FROM tenant_keys WHERE tenant = ?';
    const row = await db.tx.get<{ sealed: Buffer }>(sql, 'gone');
    db.close();
    const sealed = Buffer.from(row?.sealed ?? '');
    expect(sealed.length).toBe(3 + 12 + 16 + 32);
    expect(filesWith(sealed).length).toBeGreaterThan(0);
    for (const Key of Object.keys(sizes)) {
      await head.send(new DeleteObjectCommand({ Bucket: 'secret', Key }));
    }
    await head.send(new DeleteBucketCommand({ Bucket: 'secret' }));
    await run('tenant', 'delete', 'gone', '--yes');
    const records = await run('records', '--json', '--action', 'bursar:DeleteTenant');
    expect(JSON.parse(records.trim().split('\n').at(-1) ?? '')).toMatchObject({
      ...{ target: 'tenants/gone', change: { destroysKey: true } },
    });
    await vi.waitFor(() => expect(filesWith(sealed)).toEqual([]), { timeout: 20_000 });
    // Others are as they were.
    const own = await operator().send(new HeadObjectCommand({ Bucket: 'encrypted', Key: 'large' }));
    expect(own.ServerSideEncryption).toBe('AES256');
  });
});
