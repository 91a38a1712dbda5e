// A gateway whose buckets are in a folder of another disk: that is killed, takes nothing for a
// while, is unmounted, or loses its database. What was acknowledged is there, buckets on the
// gateway's own disk go on, and a damaged file is never sent.
import { execFile, execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { listFiles } from '../tooling/files.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';
import { type Content, KiB, MiB, makeContent } from './content.ts';
import { S3Client } from './s3-client.ts';
import { findStrayObjects } from './stray-objects.ts';

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const main = resolve(import.meta.dirname, '../../app/main.js');
const PATH = process.env.PATH ?? '';
const damaged = 'BursarIntegrityError';
const rounds = process.env.BURSAR_FULL === '1' ? 8 : 2;
const root = mkdtempSync(join(tmpdir(), 'bursar-folder-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describeWithTool(compiler, 'a gateway with a store in a folder', (compilerPath) => {
  const library = join(root, 'fault-at.so');
  const faultFile = join(root, 'fault-at');
  const [dataDir, disk] = [join(root, 'data'), join(root, 'disk')];
  const stored = new Map<string, Content>([
    ['/away/small', makeContent(1, 4 * KiB)],
    ['/away/large', makeContent(2, 9 * MiB)],
    ['/near/large', makeContent(3, 300 * KiB)],
  ]);
  let gateway: ServedGateway;
  let client: S3Client;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    mkdirSync(disk);
    await serve();
    expect(await send('PUT', '/away')).toBe(200);
    const near = { headers: { 'x-bursar-store': 'local' } };
    expect((await client.send('PUT', '/near', near)).status).toBe(200);
    for (const [path, { bytes }] of stored) expect(await send('PUT', path, bytes)).toBe(200);
  });
  afterAll(async () => {
    client.close();
    await gateway.kill();
  });

  async function serve(): Promise<void> {
    const env = { LD_PRELOAD: library, FAULT_AT: faultFile };
    const sweeps = ['--sweep-interval', '200ms', '--sweep-grace', '0ms'];
    const args = ['--store', pathToFileURL(disk).href, ...sweeps];
    gateway = await startServedGateway({ dataDir, args, env });
    client = new S3Client(gateway);
  }

  async function restart(): Promise<void> {
    client.close();
    await gateway.kill();
    await serve();
  }

  async function send(method: string, path: string, body?: Buffer): Promise<number> {
    const { status } = await client.send(method, path, body ? { body } : {});
    return status;
  }

  async function readAll(bucket = ''): Promise<void> {
    for (const [path, { sha256, sizeBytes }] of stored) {
      if (!path.startsWith(bucket)) continue;
      expect([path, await client.digest(path)]).toEqual([path, { status: 200, sha256, sizeBytes }]);
    }
  }

  it('has what it acknowledged when it is killed, and nothing of the rest for long', async () => {
    for (let round = 0; round < rounds; round++) {
      const acknowledged: string[] = [];
      const writer = async (first: number): Promise<void> => {
        for (let seed = first; ; seed += 4) {
          const content = makeContent(seed, (seed % 4 === 0 ? 9 * MiB : 30 * KiB) + seed);
          const path = `/away/${round}-${seed}`;
          if ((await send('PUT', path, content.bytes)) !== 200) continue;
          stored.set(path, content);
          acknowledged.push(path);
        }
      };
      const writers = [0, 1, 2, 3].map((first) => writer(first).catch(() => null));
      await vi.waitFor(() => expect(acknowledged.length).toBeGreaterThan(8), 30_000);
      await restart();
      await Promise.all(writers);
      await readAll();
    }
    expect(await findStrayObjects(disk, dataDir)).toEqual([]);
  });

  it.each(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO'])(
    'for %s refuses writes there, reads what is there, and goes on elsewhere',
    async (error) => {
      const { bytes } = makeContent(5, 300 * KiB);
      writeFileSync(faultFile, `any ${disk} 1+ ${error}`);
      for (let i = 0; i < 3; i++) expect(await send('PUT', '/away/refused', bytes)).toBe(503);
      await readAll('/away/small');
      await readAll('/near');
      expect(await send('PUT', '/near/goes-on', bytes)).toBe(200);
      rmSync(faultFile);
      await expect.poll(() => send('PUT', `/away/${error}`, bytes)).toBe(200);
      expect((await client.send('GET', '/away/refused')).status).toBe(404);
      await readAll();
    },
  );

  it('makes nothing where the disk was unmounted, and serves it when it is back', async () => {
    renameSync(disk, `${disk} away`);
    mkdirSync(disk);
    const { bytes } = makeContent(6, 300 * KiB);
    expect(await send('PUT', '/away/lost', bytes)).toBe(503);
    expect(await send('GET', '/away/large')).toBe(503);
    await readAll('/near');
    expect(readdirSync(disk)).toEqual([]);
    await restart();
    expect(await send('GET', '/away/large')).toBe(503);
    await readAll('/near');
    expect(readdirSync(disk).filter((name) => name !== 'temporary')).toEqual([]);
    rmSync(join(disk, 'temporary'), { recursive: true, force: true });
    rmdirSync(disk);
    renameSync(`${disk} away`, disk);
    await expect.poll(() => send('GET', '/away/small'), { timeout: 60_000 }).toBe(200);
    await readAll();
  });

  it('sends no byte of a file that was changed, cut or lost', async () => {
    const before = new Set(listFiles(join(disk, 'extents')));
    const { bytes } = makeContent(7, 300 * KiB);
    expect(await send('PUT', '/away/changed', bytes)).toBe(200);
    const newest = listFiles(join(disk, 'extents')).find((file) => !before.has(file)) as string;
    appendFileSync(newest, 'x');
    expect((await client.send('GET', '/away/changed')).body.toString()).toContain(damaged);
    const sealed = readFileSync(newest).subarray(0, -1);
    writeFileSync(newest, sealed);
    expect(await send('GET', '/away/changed')).toBe(200);
    sealed[1000] = (sealed[1000] as number) ^ 1;
    writeFileSync(newest, sealed);
    expect((await client.send('GET', '/away/changed')).body.toString()).toContain(damaged);
    rmSync(newest);
    expect((await client.send('GET', '/away/changed')).body.toString()).toContain(damaged);
    await readAll();
    expect(await send('DELETE', '/away/changed')).toBe(204);
  });

  it('is rebuilt from the folder when its database is lost', async () => {
    client.close();
    await gateway.stop();
    for (const name of readdirSync(dataDir)) {
      if (name.startsWith('bursar.db')) rmSync(join(dataDir, name));
    }
    const flags = ['rebuild', '--data', dataDir, '--json', '--store', pathToFileURL(disk).href];
    const report = await new Promise<string>((done, fail) => {
      execFile(process.execPath, [main, ...flags], { env: { PATH } }, (error, stdout) => {
        if (error) fail(new Error(stdout, { cause: error }));
        else done(stdout);
      });
    });
    expect(JSON.parse(report)).toMatchObject({ lost: { count: 0 }, damagedExtents: { count: 0 } });
    await serve();
    await readAll('/away');
  });
});
