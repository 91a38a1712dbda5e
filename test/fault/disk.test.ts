// Disks that fill up, refuse writes, or fail to sync, under a served gateway. A full disk is a
// small tmpfs, which only root can mount; failing syncs need a C compiler. What is missing is
// skipped loudly, and fails where CI=true.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, type Tool } from '../tooling/tools.ts';
import { type Content, KiB, MiB, makeContent, makePieces } from './content.ts';
import { findStrayExtents, listExtentFiles } from './extents-on-disk.ts';
import { serveArguments } from './kill-run.ts';
import { sleep } from './plain-start.ts';
import { type Answer, S3Client } from './s3-client.ts';
import { addMember } from './tenants.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-disk-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A C compiler that works, and mounts that root may make. */
const compiler = findTool('a C compiler', 'CC', process.env.CC ?? 'cc', ['--version']);
const mount = findTool('mount, as root', 'PATH', 'mount', [
  ...['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', root],
]);
if (mount.path !== undefined) execFileSync('umount', [root]);

function findTool(name: string, variable: string, path: string, trial: string[]): Tool {
  try {
    execFileSync(path, trial, { stdio: 'ignore' });
    return { name, variable, path };
  } catch {
    return { name, variable, path: undefined };
  }
}

let gateway: ServedGateway;
let client: S3Client;
let dataDir: string;

async function serve(env: Record<string, string> = {}): Promise<void> {
  gateway = await startServedGateway({ dataDir, args: serveArguments, env });
  client = new S3Client(gateway);
}

async function restart(env: Record<string, string> = {}): Promise<void> {
  client.close();
  await gateway.kill();
  await serve(env);
}

function put(key: string, { bytes }: Content): Promise<Answer> {
  return client.send('PUT', `/full/${key}`, { body: bytes });
}

/** Null: there is no such object. */
async function read(key: string) {
  const { status, ...found } = await client.digest(`/full/${key}`);
  if (status === 404) return null;
  expect(status).toBe(200);
  return found;
}

function toDigest({ sizeBytes, sha256 }: Content) {
  return { sizeBytes, sha256 };
}

describeWithTool(mount, 'a gateway on a disk that fills up', (mountPath) => {
  const kept = makeContent(1, 300 * KiB);
  const env = { BURSAR_STALL_TIMEOUT: '3s', BURSAR_FREE_MIN: '1MiB' };

  // One disk for all of them: what takes its room for good comes last.
  beforeAll(async () => {
    dataDir = mkdtempSync(join(root, 'full-'));
    execFileSync(mountPath, ['-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', dataDir]);
    await serve(env);
    await client.send('PUT', '/full');
    expect((await put('kept', kept)).status).toBe(200);
  });

  afterEach(empty);

  afterAll(async () => {
    client.close();
    await gateway.kill();
    execFileSync('umount', [dataDir]);
  });

  /** Somebody else's file, which takes all the room but `leftBytes`. */
  function fill(leftBytes: number): void {
    const { bavail, bsize } = statfsSync(dataDir);
    const ballast = Buffer.alloc(Math.max(bavail * bsize - leftBytes, 0));
    try {
      writeFileSync(join(dataDir, 'ballast'), ballast);
    } catch (error) {
      // Files of the gateway's own grew meanwhile: the room is taken all the same.
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }

  function empty(): void {
    rmSync(join(dataDir, 'ballast'), { force: true });
  }

  it('refuses an upload that cannot fit before a byte of it is sent', async () => {
    const sizeBytes = 100 * MiB;
    const headers = { expect: '100-continue' };
    const request = client.begin('PUT', '/full/huge', { headers, body: { sizeBytes, chunks: [] } });
    let continued = false;
    request.on('continue', () => {
      continued = true;
    });
    request.flushHeaders();
    const status = await new Promise((resolve, reject) => {
      request.on('response', (response) => resolve(response.statusCode));
      request.on('error', reject);
    });
    request.destroy();
    expect(status).toBe(503);
    expect(continued).toBe(false);
    expect(await findStrayExtents(dataDir)).toEqual([]);
  });

  it('answers 503 when the disk fills up in the middle of a body, and keeps no part', async () => {
    const sizeBytes = 17 * MiB;
    async function* chunks() {
      let sentBytes = 0;
      for (const piece of makePieces(2, sizeBytes, 256 * KiB)) {
        yield piece;
        sentBytes += piece.length;
        if (sentBytes !== 8 * MiB) continue;
        await sleep(200);
        fill(0);
      }
    }
    const answer = await client.send('PUT', '/full/half', {
      body: { sizeBytes, chunks: chunks() },
    });
    expect(`${answer.status} ${answer.body}`).toMatch(/^503 .*<Code>ServiceUnavailable</s);
    expect(listExtentFiles(dataDir).finished).toHaveLength(1);
    expect(listExtentFiles(dataDir).temporary).toEqual([]);
    empty();
    expect(await read('half')).toBeNull();
    expect(await read('kept')).toEqual(toDigest(kept));
  });

  it('refuses what the database has no room for, serves again when there is room', async () => {
    fill(0);
    const small = makeContent(3, 4 * KiB);
    await expect.poll(async () => (await put('small', small)).status).toBe(503);
    const refused = [];
    for (let i = 0; i < 50; i++) {
      refused.push((await client.send('DELETE', `/full/nothing${i}`)).status);
    }
    expect((await put('small', small)).status).toBe(503);
    expect(refused).toContain(503);
    for (const status of refused) expect([204, 503]).toContain(status);
    expect((await fetch(`${gateway.endpoint}/_/health`)).status).toBe(503);
    expect((await fetch(`${gateway.endpoint}/_/health/read`)).status).toBe(200);
    expect(await read('kept')).toEqual(toDigest(kept));
    empty();
    await expect.poll(async () => (await put('small', small)).status).toBe(200);
    await restart(env);
    expect(await read('small')).toEqual(toDigest(small));
    expect(await read('kept')).toEqual(toDigest(kept));
    expect(await findStrayExtents(dataDir)).toEqual([]);
  });

  it('refuses uploads while its extents are read-only, and takes them again after', async () => {
    const extents = join(dataDir, 'extents');
    execFileSync(mountPath, ['--bind', extents, extents]);
    execFileSync(mountPath, ['-o', 'remount,ro,bind', extents]);
    try {
      expect((await put('refused', makeContent(4, 300 * KiB))).status).toBe(503);
      expect(await read('kept')).toEqual(toDigest(kept));
    } finally {
      execFileSync('umount', ['--lazy', extents]);
    }
    const later = makeContent(5, 300 * KiB);
    expect((await put('later', later)).status).toBe(200);
    expect(await read('refused')).toBeNull();
    expect(await read('later')).toEqual(toDigest(later));
  });

  it('has room again for others once an upload that had stalled is cut', async () => {
    const body = { sizeBytes: 24 * MiB, chunks: [] };
    const stalled = client.begin('PUT', '/full/stalled', { body });
    const cut = new Promise((resolve) => stalled.once('error', resolve));
    await new Promise((resolve) => stalled.write(Buffer.alloc(300 * KiB), resolve));
    await expect.poll(() => listExtentFiles(dataDir).temporary).toHaveLength(1);
    const other = makeContent(8, 24 * MiB);
    expect((await put('other', other)).status).toBe(503);
    await cut;
    await expect.poll(() => listExtentFiles(dataDir).temporary).toEqual([]);
    expect((await put('other', other)).status).toBe(200);
    expect(await read('other')).toEqual(toDigest(other));
  });

  it('has room for another tenant while bodies that were announced trickle', async () => {
    const bob = new S3Client(await addMember(client, gateway.endpoint, 'atlas', 'bob'));
    expect((await bob.send('PUT', '/bobs')).status).toBe(200);
    const { bavail, bsize } = statfsSync(dataDir);
    const count = 4;
    const freeBytes = bavail * bsize;
    // The rest is for what the gateway itself writes meanwhile.
    const sizeBytes = Math.floor((freeBytes * 0.94) / count);
    const open = await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const keys = await addMember(client, gateway.endpoint, 'evil', `mallory${i}`);
        const mallory = new S3Client(keys);
        expect((await mallory.send('PUT', `/evil${i}`)).status).toBe(200);
        return { mallory, i };
      }),
    );
    const trickling = open.map(({ mallory, i }) => {
      const body = { sizeBytes, chunks: [] };
      const request = mallory.begin('PUT', `/evil${i}/trickle`, { body });
      request.on('error', () => undefined);
      request.write(Buffer.alloc(1));
      return request;
    });
    const drip = setInterval(() => {
      for (const request of trickling) request.write('x');
    }, 500);
    const promised = async () => {
      const text = await readMetrics(gateway);
      return Number(/^bursar_disk_reserved_bytes (\S+)/m.exec(text)?.[1] ?? text);
    };
    await expect.poll(promised).toBeGreaterThan(sizeBytes * (count - 1));
    const small = await bob.send('PUT', '/bobs/small', { body: Buffer.alloc(1) });
    const large = await bob.send('PUT', '/bobs/large', { body: Buffer.alloc(0.3 * freeBytes) });
    expect([small, large].map(({ status, body }) => `${status}${body}`)).toEqual(['200', '200']);
    clearInterval(drip);
    for (const request of trickling) request.destroy();
    for (const { mallory } of open) mallory.close();
    await bob.send('DELETE', '/bobs/large');
    bob.close();
  });

  it('keeps each upload of many whole or refuses it with 503', async () => {
    const contents = Array.from({ length: 8 }, (_, i) => makeContent(10 + i, 8 * MiB));
    const statuses = await Promise.all(
      contents.map(async (content, i) => (await put(`many${i}`, content)).status),
    );
    expect(statuses).toContain(200);
    expect(statuses).toContain(503);
    for (const [i, content] of contents.entries()) {
      const expected = statuses[i] === 200 ? toDigest(content) : null;
      expect(statuses[i] === 200 || statuses[i] === 503).toBe(true);
      expect(await read(`many${i}`)).toEqual(expected);
    }
    expect(await read('kept')).toEqual(toDigest(kept));
    await restart(env);
    expect(await findStrayExtents(dataDir)).toEqual([]);
  });
});

const stopped = { status: 0 };

describeWithTool(compiler, 'a gateway whose disk fails to sync', (compilerPath) => {
  const library = join(root, 'faulty-sync.so');
  const faultFile = join(root, 'fault');
  const env = { LD_PRELOAD: library, FAULT_FILE: faultFile };
  const old = makeContent(6, 300 * KiB);

  // One data folder through all of them, served again by each.
  beforeAll(async () => {
    const source = join(import.meta.dirname, 'faulty-sync.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    dataDir = mkdtempSync(join(root, 'sync-'));
    await serve(env);
    await client.send('PUT', '/full');
  });

  beforeEach(async () => {
    expect((await put('old', old)).status).toBe(200);
  });

  afterEach(() => rmSync(faultFile, { force: true }));

  afterAll(async () => {
    client.close();
    await gateway.kill();
    rmSync(dataDir, { recursive: true });
  });

  it.each([
    ['an extent', 'extents/temporary/', 300 * KiB],
    ['a folder of extents', 'extents/', 20 * MiB],
    ["the database's log, for an inline object", 'bursar.db-wal', 4 * KiB],
    ["the database's log, for extents", 'bursar.db-wal', 300 * KiB],
  ])('stops on an fsync error of %s, and acknowledges nothing', async (_, pattern, sizeBytes) => {
    const content = makeContent(7, sizeBytes);
    writeFileSync(faultFile, pattern);
    const answer = await put('old', content).catch(() => stopped);
    expect(answer.status).not.toBe(200);
    await expect(gateway.stop()).rejects.toThrow('ended with 1');
    await expect.poll(() => gateway.output()).toContain('stopping');

    rmSync(faultFile);
    await restart(env);
    const found = await read('old');
    expect([toDigest(old), toDigest(content)]).toContainEqual(found);
    expect((await put('after', content)).status).toBe(200);
    expect(await read('after')).toEqual(toDigest(content));
    expect(await findStrayExtents(dataDir)).toEqual([]);
  });

  it('stops on an fsync error of an extent on whichever of several threads', async () => {
    await restart({ ...env, BURSAR_HTTP_THREADS: '3' });
    const several = Array.from({ length: 12 }, () => new S3Client(gateway));
    // So each has a connection before one of them has the gateway stop.
    await Promise.all(several.map((one) => one.send('HEAD', '/full')));
    writeFileSync(faultFile, 'extents/temporary/');
    const { bytes: body } = makeContent(8, 300 * KiB);
    const answers = several.map((one, i) => one.send('PUT', `/full/${i}`, { body }));
    const statuses = (await Promise.all(answers.map((one) => one.catch(() => stopped)))).map(
      ({ status }) => status,
    );
    expect(statuses).not.toContain(200);
    await expect(gateway.stop()).rejects.toThrow('ended with 1');
    await expect.poll(() => gateway.output()).toContain('fsync failed');
    for (const one of several) one.close();
    rmSync(faultFile);
    await restart(env);
  });

  it('stops when the database cannot be synced for a delete, and the delete is whole', async () => {
    writeFileSync(faultFile, 'bursar.db-wal');
    const answer = await client.send('DELETE', '/full/old').catch(() => stopped);
    expect(answer.status).not.toBe(204);
    await expect(gateway.stop()).rejects.toThrow('ended with 1');
    rmSync(faultFile);
    await restart(env);
    expect([null, toDigest(old)]).toContainEqual(await read('old'));
    expect(await findStrayExtents(dataDir)).toEqual([]);
  });
});
