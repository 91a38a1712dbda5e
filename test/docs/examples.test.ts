// The worked examples of the admin's and the auditor's pages, on a served gateway.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as s3 from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { blocksOf, readPage, root, sectionOf } from './markdown.ts';

const timeoutMs = 120_000;
const main = join(root, 'app/main.js');

let gateway: ServedGateway;
let folder: string;

beforeAll(async () => {
  gateway = await startServedGateway();
  folder = mkdtempSync(join(tmpdir(), 'bursar-examples-'));
}, timeoutMs);

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await gateway.stop();
}, timeoutMs);

describe("the admin's pages", () => {
  it.each(['tenants', 'grants'])(
    'have an example from a new tenant to none: %s',
    {
      timeout: timeoutMs,
    },
    async (page) => {
      const { text } = readPage(`docs/admin/${page}.md`);
      const lines = blocksOf(sectionOf(text, 'By CLI')).flatMap(({ code }) =>
        code.trim().split('\n'),
      );
      expect(lines.length).toBeGreaterThan(15);
      for (const line of lines) {
        const words = line.split(' ');
        expect(words.slice(0, 2)).toEqual(['npx', 'bursar']);
        const found = words.at(-1)?.startsWith('BURX') ? await listKeys(String(words[4])) : [];
        await run([main, ...words.slice(2, found.length > 0 ? -1 : undefined), ...found]);
      }
      expect(JSON.parse(await run([main, 'tenant', 'list', '--json']))).toMatchObject([
        { name: 'default' },
      ]);
    },
  );

  async function listKeys(principal: string): Promise<string[]> {
    const keys = JSON.parse(await run([main, 'key', 'list', principal, '--json']));
    return keys.map((key: { accessKeyId: string }) => key.accessKeyId);
  }
});

describe("the auditor's sums", () => {
  const script = join(root, 'docs/audit/sum-records.mjs');
  const usageFile = () => join(folder, 'usage.json');
  const recordsFile = () => join(folder, 'records.jsonl');

  beforeAll(async () => {
    await run([main, 'tenant', 'create', 'lab']);
    await run([main, 'principal', 'create', 'lab/owner']);
    await run([main, 'principal', 'create', 'lab/boss', '--role', 'admin']);
    const owner = await clientOf('lab/owner');
    await owner.send(new s3.CreateBucketCommand({ Bucket: 'sums' }));
    for (const client of [owner, await clientOf('lab/boss')]) await useBucket(client);
    // Reads wait a moment to be recorded; the record of this call takes them along.
    await run([main, 'tenant', 'list']);
    writeFileSync(usageFile(), await run([main, 'usage', '--json']));
    writeFileSync(recordsFile(), await run([main, 'records', '--json']));
  }, timeoutMs);

  it('are the counters', async () => {
    expect(await run([script, usageFile(), recordsFile()])).toMatch(/ 0 differences$/m);
    const usage = JSON.parse(readFileSync(usageFile(), 'utf8')) as Record<string, unknown>[];
    expect(usage.find(({ account }) => account === 'principal:lab/owner')).toMatchObject({
      storedObjects: 3,
    });
    expect(usage.find(({ account }) => account === 'principal:lab/boss')).toMatchObject({
      storedObjects: 0,
    });
  });

  it('show a record that was changed, and one that is missing', async () => {
    const text = readFileSync(recordsFile(), 'utf8');
    const changed = join(folder, 'changed.jsonl');
    writeFileSync(changed, text.replace('"storedBytes":70000', '"storedBytes":69999'));
    await expect(run([script, usageFile(), changed])).rejects.toThrow(/records say/);
    writeFileSync(changed, text.slice(text.indexOf('\n') + 1));
    await expect(run([script, usageFile(), changed])).rejects.toThrow(/record 0 is missing/);
  });

  async function clientOf(principal: string): Promise<s3.S3Client> {
    const key = JSON.parse(await run([main, 'key', 'create', principal, '--json']));
    const { endpoint } = gateway;
    const settings = { endpoint, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1 };
    return new s3.S3Client({ ...settings, credentials: key });
  }
});

/** Writes, overwrites, reads, copies, deletes, and is refused. */
async function useBucket(client: s3.S3Client): Promise<void> {
  const at = (Key: string) => ({ Bucket: 'sums', Key });
  await client.send(new s3.PutObjectCommand({ ...at('large'), Body: Buffer.alloc(70_000) }));
  for (const Key of ['small', 'other', 'third']) {
    await client.send(new s3.PutObjectCommand({ ...at(Key), Body: 'some bytes' }));
  }
  await client.send(new s3.CopyObjectCommand({ ...at('copy'), CopySource: 'sums/large' }));
  const answer = await client.send(
    new s3.GetObjectCommand({ ...at('large'), Range: 'bytes=0-99' }),
  );
  await answer.Body?.transformToByteArray();
  await client.send(new s3.ListObjectsV2Command({ Bucket: 'sums' }));
  const Objects = ['small', 'other', 'never'].map((Key) => ({ Key }));
  await client.send(new s3.DeleteObjectsCommand({ Bucket: 'sums', Delete: { Objects } }));
  for (const refused of [
    new s3.GetObjectCommand(at('never')),
    new s3.GetObjectTorrentCommand(at('large')),
    new s3.HeadBucketCommand({ Bucket: 'no-such-bucket' }),
  ]) {
    await expect(client.send(refused as s3.GetObjectCommand)).rejects.toThrow();
  }
}

/** Runs a script to its end, as the operator. Rejects with all it said when it fails. */
function run(args: string[]): Promise<string> {
  const env = {
    ...bareEnvironment(),
    BURSAR_ENDPOINT: gateway.endpoint,
    BURSAR_ACCESS_KEY_ID: gateway.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: gateway.secretAccessKey,
  };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${args.join(' ')}: ${stdout}${stderr}`));
      else resolve(stdout);
    });
  });
}
