// A class of four legs, two real S3 servers and two folders, one of them a disk of its own where
// root may mount one: legs that are killed, damaged, drilled, pulled out in the middle of a read,
// full, read-only and unmounted. What was acknowledged is read, and put right.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { listFiles } from '../tooling/files.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { type Content, digestOf, KiB, MiB, makeContent, makePieces } from './content.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 60_000 });

const pulledBytes = process.env.BURSAR_FULL === '1' ? 1024 * MiB : 32 * MiB;
const soon = { timeout: 90_000, interval: 100 };

describeWithTool(versitygw, 'a class of two S3 servers and two folders', (path) => {
  const root = mkdtempSync(join(tmpdir(), 'bursar-legs-'));
  const folders = { disk1: join(root, 'disk1'), disk2: join(root, 'disk2') };
  const servers: Record<string, S3Backend> = {};
  const stored = new Map<string, Content>();
  let isMounted = false;
  let gateway: ServedGateway;
  let client: S3Client;

  beforeAll(async () => {
    for (const folder of Object.values(folders)) mkdirSync(folder);
    isMounted = mayMount();
    for (const name of ['east', 'west']) {
      servers[name] = await startVersitygw(path);
      servers[name].makeBucket('legs');
    }
    const stores: Record<string, object> = {};
    for (const [name, { endpoint }] of Object.entries(servers)) {
      stores[name] = { url: 's3://legs/kept', endpoint, pathStyle: 'yes', drills: 'yes' };
    }
    for (const [name, folder] of Object.entries(folders)) {
      stores[name] = { url: pathToFileURL(folder).href, drills: 'yes' };
    }
    const { accessKeyId, secretAccessKey } = (servers.east as S3Backend).credentials;
    gateway = await startServedGateway({
      dataDir: join(root, 'data'),
      env: {
        BURSAR_STORES: JSON.stringify(stores),
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
        AWS_EC2_METADATA_DISABLED: 'true',
      },
    });
    client = new S3Client(gateway);
    const legs = (...names: string[]) => names.map((store) => ({ store }));
    for (const [name, durability, answer] of [
      ['four', { legs: legs('east', 'disk1', 'west', 'disk2'), ack: 2 }, 'any'],
      ['sites', { legs: legs('east', 'west') }, 'first'],
      ['disks', { legs: legs('disk1', 'disk2'), ack: 1 }, 'first'],
      ['pulled', { legs: legs('disk2', 'west') }, 'first'],
    ] as const) {
      const definition = { name, durability, availability: { answer } };
      await call(client, 'POST', 'tenants/default/classes', definition);
    }
    await send(client, 'PUT', '/legs');
  });

  afterAll(async () => {
    client?.close();
    await gateway?.kill();
    for (const server of Object.values(servers)) await server.stop();
    if (isMounted) execFileSync('umount', [folders.disk1]);
    rmSync(root, { recursive: true, force: true });
  });

  function mayMount(): boolean {
    try {
      const disk = ['-t', 'tmpfs', '-o', 'size=96m', 'tmpfs', folders.disk1];
      execFileSync('mount', disk, { stdio: 'ignore' });
      return true;
    } catch {
      console.warn('SKIPPED: a leg that is full or read-only: a tmpfs cannot be mounted here');
      return false;
    }
  }

  /** Where a store keeps what it has, as plain files. */
  function folderOf(store: string): string {
    const server = servers[store];
    return server ? join(server.dataDir, 'legs', 'kept') : folders[store as 'disk1' | 'disk2'];
  }

  function extentsIn(store: string): Map<string, string> {
    const files = existsSync(join(folderOf(store), 'extents'))
      ? listFiles(join(folderOf(store), 'extents'))
      : [];
    return new Map(files.map((file) => [file.slice(-32), file]));
  }

  async function put(key: string, content: Content, of: string): Promise<number> {
    const headers = { 'x-amz-storage-class': of };
    const { status } = await client.send('PUT', `/legs/${key}`, { headers, body: content.bytes });
    if (status === 200) stored.set(key, content);
    return status;
  }

  async function readAll(): Promise<void> {
    for (const [key, { sha256, sizeBytes }] of stored) {
      const found = await client.digest(`/legs/${key}`);
      expect([key, found]).toEqual([key, { status: 200, sha256, sizeBytes }]);
    }
  }

  const digestAt = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');

  /** Spoils what a store has of extents, and gives what has it put right again. */
  function spoil(store: string, ids: readonly string[], how: (file: string) => void) {
    const files = ids.map((id) => extentsIn(store).get(id) as string);
    const digests = files.map(digestAt);
    files.forEach(how);
    expect(files.map(digestOrNone)).not.toEqual(digests);
    return () => vi.waitFor(() => expect(files.map(digestOrNone)).toEqual(digests), soon);
  }

  function digestOrNone(file: string): string | null {
    try {
      return digestAt(file);
    } catch {
      return null;
    }
  }

  /** No copy is to be made any more, and each extent has so many, all the same. */
  async function becomeMade(): Promise<void> {
    await vi.waitFor(async () => {
      expect(await readMetrics(gateway)).toMatch(/^bursar_copies_waiting\{state="due"\} 0$/m);
    }, soon);
    const all = four.map(extentsIn);
    for (const id of new Set(all.flatMap((extents) => [...extents.keys()]))) {
      const files = all.flatMap((extents) => extents.get(id) ?? []);
      expect(files.length, id).toBeGreaterThan(1);
      expect(new Set(files.map(digestAt)).size, id).toBe(1);
    }
  }

  /** Reads all copies of all that is stored. */
  async function verifyData(): Promise<void> {
    for (let cursor: string | undefined | null; cursor !== null; ) {
      const slice = await call(client, 'POST', 'verifications', { cursor });
      expect(slice.findings).toEqual([]);
      cursor = slice.cursor;
    }
  }

  const four = ['east', 'disk1', 'west', 'disk2'];

  it('has all of an object soon, and two of it when it is acknowledged', async () => {
    const made = new Set(four.flatMap((store) => [...extentsIn(store).keys()]));
    expect(await put('small', makeContent(1, 3 * KiB), 'four')).toBe(200);
    expect(await put('large', makeContent(2, 9 * MiB), 'four')).toBe(200);
    expect(await put('two', makeContent(3, MiB), 'sites')).toBe(200);
    await becomeMade();
    const of = (store: string) => [...extentsIn(store).keys()].filter((id) => !made.has(id));
    expect(of('disk1').sort()).toEqual(of('disk2').sort());
    expect(of('disk1')).toHaveLength(3);
    expect(of('east').sort()).toEqual(of('west').sort());
    expect(of('east')).toHaveLength(4);
    await readAll();
  });

  it('is read, and put right, where one was damaged and another has lost it', async () => {
    const ids = [...extentsIn('disk1').keys()];
    const flip = (file: string) => {
      const bytes = readFileSync(file);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      writeFileSync(file, bytes);
    };
    const right = [
      spoil('east', ids, flip),
      spoil('disk1', ids, (file) => rmSync(file)),
      spoil('west', ids, (file) => truncateSync(file, 100)),
    ];
    await readAll();
    await verifyData();
    for (const become of right) await become();
  });

  it('goes on where a server is killed, and has what it missed when it is back', async () => {
    const { east } = servers as { east: S3Backend };
    await east.kill();
    await readAll();
    expect(await put('meanwhile', makeContent(4, 9 * MiB), 'four')).toBe(200);
    expect(await put('refused', makeContent(5, MiB), 'sites')).toBe(503);
    expect((await client.send('GET', '/legs/refused')).status).toBe(404);
    await east.restart();
    await becomeMade();
    const again = () => put('back', makeContent(6, MiB), 'sites');
    await vi.waitFor(async () => expect(await again()).toBe(200), soon);
    await readAll();
  });

  it('loses nothing in a drill of one, which is found and repaired', async () => {
    const before = extentsIn('west');
    let hidden = 0;
    for (let after: string | null = ''; after !== null; ) {
      const slice = await call(client, 'POST', 'stores/west/drills', {
        ...{ lose: 0.9, seed: 7, after },
      });
      hidden += slice.changed;
      after = slice.next;
    }
    expect(hidden).toBeGreaterThan(0);
    expect(extentsIn('west').size).toBe(before.size - hidden);
    await readAll();
    await verifyData();
    await vi.waitFor(() => expect([...extentsIn('west').keys()]).toEqual([...before.keys()]), soon);
    await call(client, 'POST', 'stores/west/drills', {});
    await becomeMade();
  });

  it('is pulled out in the middle of a read, of which the client sees nothing', async () => {
    const headers = { 'x-amz-storage-class': 'pulled' };
    const body = { sizeBytes: pulledBytes, chunks: makePieces(8, pulledBytes, MiB) };
    expect((await client.send('PUT', '/legs/pulled', { headers, body })).status).toBe(200);
    const { sha256: wanted } = digestOf(8, pulledBytes);
    const answer = await client.open('GET', '/legs/pulled');
    expect(answer.statusCode).toBe(200);
    const sha256 = createHash('sha256');
    let read = 0;
    let become: (() => Promise<unknown>) | null = null;
    for await (const piece of answer) {
      sha256.update(piece as Buffer);
      read += (piece as Buffer).length;
      if (read < MiB || become) continue;
      become = spoil('disk2', [...extentsIn('disk2').keys()], (file) => rmSync(file));
    }
    expect(read).toBe(pulledBytes);
    expect(sha256.digest('hex')).toBe(wanted);
    await verifyData();
    await become?.();
    const query: [string, string][] = [['action', 'bursar:RepairCopy']];
    const { body: records } = await client.send('GET', '/_/v1/records', { query });
    expect(records.toString()).toContain('stores/disk2');
    expect((await client.send('DELETE', '/legs/pulled')).status).toBe(204);
  });

  const faults: [string, () => void, () => void][] = [
    ['is full', fill, () => rmSync(join(folders.disk1, 'ballast'))],
    ['is read-only', () => remount('ro'), () => remount('rw')],
    ['is unmounted', unmount, mountAgain],
  ];
  const aside = join(root, 'aside');

  function fill(): void {
    const { bavail, bsize } = statfsSync(folders.disk1);
    writeFileSync(join(folders.disk1, 'ballast'), Buffer.alloc(bavail * bsize));
  }

  function remount(how: 'ro' | 'rw'): void {
    execFileSync('mount', ['-o', `remount,${how}`, folders.disk1]);
  }

  /** The disk is elsewhere, and an empty folder is left. */
  function unmount(): void {
    mkdirSync(aside, { recursive: true });
    execFileSync('mount', ['--bind', folders.disk1, aside]);
    execFileSync('umount', ['--lazy', folders.disk1]);
  }

  function mountAgain(): void {
    expect(readdirSync(folders.disk1)).toEqual([]);
    execFileSync('mount', ['--bind', aside, folders.disk1]);
    execFileSync('umount', [aside]);
  }

  it.each(faults)(
    'a disk that %s stops nothing, and gets what it missed',
    async (what, begin, end) => {
      if (!isMounted) return;
      begin();
      try {
        expect(await put(`four ${what.length}`, makeContent(20, MiB), 'four')).toBe(200);
        expect(await put(`disks ${what.length}`, makeContent(21, 3 * KiB), 'disks')).toBe(200);
        await readAll();
      } finally {
        end();
      }
      await becomeMade();
      await readAll();
    },
  );
});
