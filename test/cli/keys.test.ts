// `bursar keys`: rotation of the root keys, served, killed and started again. BURSAR_FULL=1 kills
// at more moments, and rotates more often.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { makeContent } from '../fault/content.ts';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import { type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const inline = 3000;
const stored = 300 * 1024;
/** After a rotation was asked for. */
const rotationsMin = process.env.BURSAR_FULL === '1' ? 200 : 15;
const killsAfterMs = process.env.BURSAR_FULL === '1' ? [0, 1, 2, 4, 8, 16] : [0, 2, 16];

let place: Workplace;
let served: Served;

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
  const client = open();
  await client.send('PUT', '/data');
  client.close();
});

afterAll(() => place.remove());

interface RootKey {
  epoch: number;
  createdAt: string;
  isCurrent: boolean;
  wrappedBy: string | null;
}

const keyFile = () => join(place.data, 'keys', 'root-keys.json');

async function json<T>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await place.run([...args, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as T;
}

/** A client with the operator's keys, as the credentials file has them. */
function open(): S3Client {
  const text = readFileSync(join(place.data, 'credentials'), 'utf8');
  const value = (name: string) => new RegExp(`^${name} = (.*)$`, 'm').exec(text)?.[1] ?? '';
  return new S3Client({
    endpoint: served.endpoint,
    accessKeyId: value('aws_access_key_id'),
    secretAccessKey: value('aws_secret_access_key'),
  });
}

/** Puts a small and a large object for an epoch. */
async function put(client: S3Client, epoch: number): Promise<void> {
  for (const sizeBytes of [inline, stored]) {
    const { bytes: body } = makeContent(epoch, sizeBytes);
    const { status } = await client.send('PUT', `/data/${epoch}-${sizeBytes}`, { body });
    expect(status).toBe(200);
  }
}

async function expectReadable(client: S3Client, epoch: number): Promise<void> {
  for (const sizeBytes of [inline, stored]) {
    const { status, body } = await client.send('GET', `/data/${epoch}-${sizeBytes}`);
    expect([epoch, sizeBytes, status]).toEqual([epoch, sizeBytes, 200]);
    expect(body.equals(makeContent(epoch, sizeBytes).bytes)).toBe(true);
  }
}

describe('keys list', () => {
  test('marks the current one and shows no key', async () => {
    const before = await json<RootKey[]>('keys', 'list');
    expect(before).toMatchObject([{ epoch: 1, isCurrent: true, wrappedBy: null }]);
    const rotated = await place.run(['keys', 'rotate']);
    expect(rotated.stdout).toMatch(/^EPOCH +CREATED +WRAPPED BY\n2 \* +\S+Z\n$/);
    const { stdout } = await place.run(['keys', 'list']);
    expect(stdout).toMatch(/^EPOCH +CREATED +WRAPPED BY\n1 +\S+Z\n2 \* +\S+Z\n$/);
    const { keys } = JSON.parse(readFileSync(keyFile(), 'utf8')) as { keys: { key: string }[] };
    for (const { key } of keys) expect(stdout).not.toContain(key);
  });

  test('and rotate are for operators, and say so in their help', async () => {
    for (const words of [
      ['keys', '--help'],
      ['keys', 'rotate', '--help'],
      ['keys', 'list', '--help'],
    ]) {
      const { code, stdout } = await place.run(words);
      expect([code, stdout.includes('root key')]).toEqual([0, true]);
    }
    await json('principal', 'create', 'default/alice', '--role', 'admin');
    const key = await json<Record<string, string>>('key', 'create', 'default/alice');
    const environment = {
      BURSAR_ENDPOINT: served.endpoint,
      BURSAR_ACCESS_KEY_ID: String(key.accessKeyId),
      BURSAR_SECRET_ACCESS_KEY: String(key.secretAccessKey),
    };
    for (const words of [
      ['keys', 'list'],
      ['keys', 'rotate'],
    ]) {
      const refused = await place.run(words, environment);
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toContain('(AccessDenied)');
    }
  });
});

describe('keys rotate', () => {
  test('begins epochs; data of all of them is read, also after a start', async () => {
    let client = open();
    const first = (await json<RootKey[]>('keys', 'list')).length;
    const epochs = [first, first + 1, first + 2, first + 3];
    await put(client, first);
    for (const epoch of epochs.slice(1)) {
      const made = await json<RootKey>('keys', 'rotate');
      expect(made).toMatchObject({ epoch, isCurrent: true, wrappedBy: null });
      await put(client, epoch);
    }
    for (const epoch of epochs) await expectReadable(client, epoch);
    client.close();
    expect(await served.stop()).toBe(0);
    served = await place.serve();
    client = open();
    for (const epoch of epochs) await expectReadable(client, epoch);
    const catalog = new CatalogEditor(place.data);
    for (const epoch of epochs) {
      const row = await catalog.get(
        'SELECT count(*) AS n FROM versions WHERE epoch = ? AND key LIKE ?',
        epoch,
        `${epoch}-%`,
      );
      expect(row).toEqual({ n: 2 });
    }
    catalog.close();
    client.close();
  });

  test('lets an upload that was begun before it end after it', async () => {
    const client = open();
    const begun = await client.send('POST', '/data/parts', { query: [['uploads', '']] });
    const uploadId = /<UploadId>([^<]+)</.exec(begun.body.toString())?.[1] ?? '';
    const bodies = [makeContent(1, 5 * 1024 * 1024).bytes, makeContent(2, stored).bytes];
    const etags: string[] = [];
    for (const [i, body] of bodies.entries()) {
      const query: [string, string][] = [
        ['partNumber', String(i + 1)],
        ['uploadId', uploadId],
      ];
      const { headers } = await client.send('PUT', '/data/parts', { query, body });
      etags.push(String(headers.etag));
      await json('keys', 'rotate');
    }
    const parts = etags.map(
      (etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
    );
    const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
    const query: [string, string][] = [['uploadId', uploadId]];
    const done = await client.send('POST', '/data/parts', { query, body: Buffer.from(body) });
    expect(done.status).toBe(200);
    const read = await client.send('GET', '/data/parts');
    expect(read.body.equals(Buffer.concat(bodies))).toBe(true);
    client.close();
  });

  test('is noticed by nobody who reads and writes meanwhile', async () => {
    const client = open();
    const answers = new Map<number, number>();
    const send = async (method: string, path: string, more: object = {}): Promise<void> => {
      const { status } = await client.send(method, path, more);
      answers.set(status, (answers.get(status) ?? 0) + 1);
    };
    const query: [string, string][] = [['tagging', '']];
    const tags = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
    let rotations = 0;
    const use = async (key: string): Promise<void> => {
      for (let i = 0; rotations < rotationsMin; i += 1) {
        await send('PUT', key, { body: Buffer.from(String(i)) });
        // A row that is there is sealed again, under the ledger's own newest key.
        await send('PUT', key, { query, body: Buffer.from(tags) });
        await send('GET', key);
      }
    };
    const users = Array.from({ length: 12 }, (_, i) => use(`/data/meanwhile-${i % 4}`));
    for (; rotations < rotationsMin; rotations += 1) {
      await send('POST', '/_/v1/keys/rotations');
    }
    await Promise.all(users);
    expect([...answers.keys()].sort()).toEqual([200, 201]);
    client.close();
  });

  test('is recorded with its epoch, and no record has a key', async () => {
    const { epoch } = await json<RootKey>('keys', 'rotate');
    const { stdout: records } = await place.run(['records', '--json']);
    const lines = records.split('\n').filter((line) => line.includes('bursar:RotateKeys'));
    const rotations = lines.map((line) => JSON.parse(line));
    // Whoever was refused is recorded, too.
    const done = rotations.filter(({ status }) => status === 201);
    expect(done.map(({ target }) => target)).toEqual(
      Array.from({ length: epoch - 1 }, (_, i) => `keys/${i + 2}`),
    );
    const { keys } = JSON.parse(readFileSync(keyFile(), 'utf8')) as { keys: { key: string }[] };
    for (const { key } of keys) expect(records).not.toContain(key);
  });

  test('killed at any moment, leaves a gateway that starts with all that was stored', async () => {
    let client = open();
    await put(client, 0);
    for (const [i, delayMs] of killsAfterMs.entries()) {
      const rotation = client.send('POST', '/_/v1/keys/rotations').catch(() => null);
      const written = put(client, i + 1).catch(() => null);
      await new Promise((done) => setTimeout(done, delayMs));
      await served.stop('SIGKILL');
      const answer = await rotation;
      await written;
      client.close();
      served = await place.serve();
      client = open();
      const listed = await client.send('GET', '/_/v1/keys');
      const { keys } = JSON.parse(listed.body.toString()) as { keys: RootKey[] };
      expect(keys.map(({ epoch }) => epoch)).toEqual(keys.map((_, at) => at + 1));
      expect(keys.filter(({ isCurrent }) => isCurrent)).toEqual([keys.at(-1)]);
      if (answer?.status === 201) {
        const made = JSON.parse(answer.body.toString()) as RootKey;
        expect(keys).toContainEqual({ ...made, isCurrent: true });
      }
      await put(client, i + 1);
      for (let epoch = 0; epoch <= i + 1; epoch++) await expectReadable(client, epoch);
    }
    client.close();
  });
});

describe('a start is refused', () => {
  let older: Buffer;
  let newest: number;
  beforeAll(async () => {
    older = readFileSync(keyFile());
    newest = (await json<RootKey>('keys', 'rotate')).epoch;
    await served.stop();
  });

  test('with a key file that is damaged, which is named and left alone', async () => {
    const whole = readFileSync(keyFile(), 'utf8');
    writeFileSync(keyFile(), whole.slice(0, 60));
    const refused = await place.run(['serve', '--listen', '127.0.0.1:0']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^bursar: [^\n]*root-keys\.json is not JSON\n$/);
    expect(readFileSync(keyFile(), 'utf8')).toBe(whole.slice(0, 60));
    renameSync(keyFile(), join(place.folder, 'aside'));
    const missing = await place.run(['serve', '--listen', '127.0.0.1:0']);
    expect(missing.stderr).toContain('root-keys.json is missing');
    renameSync(join(place.folder, 'aside'), keyFile());
    writeFileSync(keyFile(), whole);
  });

  test('with an older copy of the key file', async () => {
    const newer = readFileSync(keyFile());
    writeFileSync(keyFile(), older);
    const refused = await place.run(['serve', '--listen', '127.0.0.1:0']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      new RegExp(`^bursar: cannot start: [^\\n]*lacks the root key of epoch ${newest}[^\\n]*\\n$`),
    );
    writeFileSync(keyFile(), newer);
    await place.serve();
  });
});
