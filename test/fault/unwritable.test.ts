// A disk that takes nothing any more, for a while: full, over a quota, made read-only by the system
// after an error, or refusing to write. Writes are refused, what is stored is read, no read goes
// without its record, and all is well when the disk takes bytes again, without a restart.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';
import { KiB, makeContent } from './content.ts';
import { findStrayExtents } from './extents-on-disk.ts';
import { serveArguments } from './kill-run.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-unwritable-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describeWithTool(compiler, 'a gateway whose disk takes nothing', (compilerPath) => {
  const library = join(root, 'fault-at.so');
  const faultFile = join(root, 'fault-at');
  const dataDir = join(root, 'data');
  const stored = new Map([
    ['small', makeContent(1, 4 * KiB)],
    ['large', makeContent(2, 300 * KiB)],
  ]);
  let gateway: ServedGateway;
  let client: S3Client;
  let readsCount = 0;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    await serve();
    expect(await send('PUT', '/bucket')).toBe(200);
    for (const [key, { bytes }] of stored) {
      expect(await send('PUT', `/bucket/${key}`, bytes)).toBe(200);
    }
  });
  afterAll(async () => {
    client.close();
    await gateway.kill();
  });

  async function serve(): Promise<void> {
    const env = { LD_PRELOAD: library, FAULT_AT: faultFile };
    gateway = await startServedGateway({ dataDir, args: serveArguments, env });
    client = new S3Client(gateway);
  }

  async function send(method: string, path: string, body?: Buffer): Promise<number> {
    const { status } = await client.send(method, path, body ? { body } : {});
    return status;
  }

  async function readAll(): Promise<void> {
    for (const [key, { sha256, sizeBytes }] of stored) {
      readsCount++;
      const found = await client.digest(`/bucket/${key}`);
      expect(found).toEqual({ status: 200, sha256, sizeBytes });
    }
  }

  async function countReads(): Promise<number> {
    const query: [string, string][] = [
      ['action', 's3:GetObject'],
      ['limit', '1000'],
    ];
    const { body } = await client.send('GET', '/_/v1/records', { query });
    return (JSON.parse(body.toString()) as { records: unknown[] }).records.length;
  }

  /** What balancers are told, for writes and for reads. */
  async function health(): Promise<unknown[]> {
    const ask = (path: string) => fetch(`${gateway.endpoint}/_/health${path}`);
    const [both, read] = [await ask(''), await ask('/read')];
    const { problems } = (await both.json()) as { problems: string[] };
    return [both.status, read.status, problems];
  }

  it.each(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO'])(
    'for %s goes on with what it can',
    async (error) => {
      const [small, large] = [...stored.values()].map(({ bytes }) => bytes);
      writeFileSync(faultFile, `any ${dataDir} 1+ ${error}`);
      // Nothing was refused yet: health has tried by itself.
      const problems = ['The database cannot be written.', 'The store local cannot be written.'];
      await expect.poll(health).toEqual([503, 200, [...problems, 'No store can be written.']]);
      expect(await send('PUT', '/bucket/refused', small)).toBe(503);
      expect(await send('PUT', '/bucket/refused', large)).toBe(503);
      expect(await send('DELETE', '/bucket/small')).toBe(503);
      expect(await send('PUT', '/other')).toBe(503);
      for (let i = 0; i < 3; i++) await readAll();

      rmSync(faultFile);
      await expect.poll(countReads).toBe(readsCount);
      expect(await send('PUT', `/bucket/${error}`, large)).toBe(200);
      await expect.poll(health).toEqual([200, 200, []]);
      stored.set(error, makeContent(2, 300 * KiB));
      await readAll();
      expect((await client.send('GET', '/bucket/refused')).status).toBe(404);
      readsCount++;
    },
  );

  // Rotations write key files, beside the database.
  it.each([
    ['a PUT', 'ENOSPC', 'PUT', '/bucket/large'],
    ['a PUT', 'EDQUOT', 'PUT', '/bucket/large'],
    ['a rotation of root keys', 'EDQUOT', 'POST', '/_/v1/keys/rotations'],
  ])('has 503 for each single write of %s that meets %s', async (_, error, method, path) => {
    const body = method === 'PUT' ? makeContent(3, 300 * KiB) : undefined;
    let count = 0;
    for (let isStruck = true; isStruck && count < 100; count++) {
      writeFileSync(faultFile, `any ${dataDir} ${count + 1} ${error}`);
      const status = await send(method, path, body?.bytes);
      isStruck = !existsSync(faultFile);
      rmSync(faultFile, { force: true });
      // It may have been another write, such as of a sample.
      if (!isStruck || status < 300) expect(status).toBe(body ? 200 : 201);
      else expect(status).toBe(503);
      if (body && status === 200) stored.set('large', body);
      await readAll();
    }
    expect(count).toBeGreaterThan(3);
    expect(count).toBeLessThan(100);
  });

  it('has all that it acknowledged when it is served again', async () => {
    client.close();
    await gateway.stop();
    await serve();
    await readAll();
    await expect.poll(countReads).toBe(readsCount);
    expect(await findStrayExtents(dataDir)).toEqual([]);
  });
});
