// Clients that crawl, stall or leave: they stop the gateway's other end, are cut when they have
// stalled for long, and keep nobody else out. BURSAR_FULL=1 has 600 of them stand still, by default
// fewer hold the chunk buffers of a gateway that has few.
import { mkdtempSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type BackedGateway, startBackedGateway } from '../fault/backed-gateway.ts';
import { digestOf, KiB, MiB, makePieces } from '../fault/content.ts';
import { listExtentFiles } from '../fault/extents-on-disk.ts';
import { sleep } from '../fault/plain-start.ts';
import { S3Client } from '../fault/s3-client.ts';
import { addMember } from '../fault/tenants.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { memoryBytes, openFiles, readBytes } from './process-figures.ts';
import { ended, RawClient } from './raw-client.ts';

const isFull = process.env.BURSAR_FULL === '1';
vi.setConfig({ testTimeout: isFull ? 300_000 : 60_000, hookTimeout: 60_000 });

const stallMs = 2000;
const bigBytes = 100_000_000;
/** More than the sockets of a connection take. */
const stillBytes = isFull ? bigBytes : 40_000_000;
/** More than the gateway has chunk buffers. */
const still = isFull ? 600 : 100;
const patient = ['--stall-timeout', '60s', ...(isFull ? [] : ['--buffer-memory', '16MiB'])];
const [rounds, leaving] = isFull ? [4, 50] : [2, 20];

let gateway: ServedGateway;
let client: S3Client;
let raw: RawClient;
let pid: number;

const sweeping = ['--sweep-interval', '200ms', '--sweep-grace', '0ms'];

async function serve(args: string[], sizeBytes = bigBytes, dataDir?: string): Promise<void> {
  await use(await startServedGateway({ args: [...args, ...sweeping], dataDir }), sizeBytes);
}

async function use(served: ServedGateway, sizeBytes: number): Promise<void> {
  gateway = served;
  client = new S3Client(gateway);
  raw = new RawClient(gateway);
  pid = gateway.pid as number;
  await client.send('PUT', '/slow');
  const body = { sizeBytes, chunks: makePieces(1, sizeBytes) };
  const { status } = await client.send('PUT', '/slow/big', { body });
  expect(status, gateway.output()).toBe(200);
  // Two at once, so that both digest threads have begun, with the descriptors that these keep.
  const headers = { range: `bytes=0-${4 * MiB}` };
  await Promise.all(['1', '2'].map(() => client.send('GET', '/slow/big', { headers })));
}

async function stop(): Promise<void> {
  raw.close();
  client.close();
  await gateway.stop();
}

/** Waits for what must come to be. */
async function eventually(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  // Of very many downloads gigabytes go into the system's socket buffers before they stand still.
  const end = performance.now() + (isFull ? 240_000 : 50_000);
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error(`it did not come to be that ${what}`);
    await sleep(50);
  }
}

/** A download whose client reads the first bytes and then no more. */
async function beginDownload(): Promise<Socket> {
  const socket = raw.connect();
  socket.write(raw.head('GET', '/slow/big'));
  await new Promise((resolve) => socket.once('data', resolve));
  socket.pause();
  return socket;
}

/** An upload whose client has sent its head and a part of its body. */
async function beginUpload(key: string, sentBytes: number): Promise<Socket> {
  const socket = raw.connect();
  socket.resume();
  socket.write(raw.head('PUT', `/slow/${key}`, { 'content-length': String(20 * MiB) }));
  await new Promise((resolve) => socket.write(Buffer.alloc(sentBytes), resolve));
  return socket;
}

/** Writes and reads something large, as anybody may at any time. */
async function useAsOthersDo(): Promise<void> {
  const sizeBytes = 1 * MiB;
  const body = { sizeBytes, chunks: makePieces(7, sizeBytes) };
  const written = await client.send('PUT', '/slow/other', { body });
  expect(`${written.status}${written.body}`).toBe('200');
  const found = await client.digest('/slow/other');
  expect(found).toEqual({ status: 200, ...digestOf(7, sizeBytes) });
}

describe('a gateway that cuts clients after two seconds', () => {
  beforeAll(() => serve(['--stall-timeout', `${stallMs}ms`]));
  afterAll(stop);

  it('reads no more from its store than a client that stops reading has room for', async () => {
    await useAsOthersDo();
    const before = { files: openFiles(pid), memory: memoryBytes(pid), read: readBytes(pid) };
    const socket = await beginDownload();
    await sleep(stallMs / 2);
    // What the system's socket buffers take is out of the gateway's hands, and some megabytes.
    expect(readBytes(pid) - before.read).toBeLessThan(32 * MiB);
    expect(memoryBytes(pid) - before.memory).toBeLessThan(32 * MiB);
    await eventually('the download is cut', () => openFiles(pid) <= before.files);
    let receivedBytes = 0;
    socket.on('data', (data) => {
      receivedBytes += data.length;
    });
    socket.resume();
    await ended(socket);
    expect(receivedBytes).toBeLessThan(bigBytes);
    expect(readBytes(pid) - before.read).toBeLessThan(32 * MiB);
  });

  it('cuts a client that stops sending, and keeps none of its bytes', async () => {
    await useAsOthersDo();
    const before = new Set(listExtentFiles(gateway.dataDir).finished);
    const countOwn = () => {
      const { finished, temporary } = listExtentFiles(gateway.dataDir);
      const own = finished.filter((name) => !before.has(name));
      return { finished: own.length, temporary: temporary.length };
    };
    // More than one extent, so that a whole one is there already.
    const socket = await beginUpload('stalled', 18 * MiB);
    await eventually('an extent is written', () => {
      const { finished, temporary } = countOwn();
      return finished === 1 && temporary === 1;
    });
    await ended(socket);
    await eventually('its extents are gone', () => {
      const { finished, temporary } = countOwn();
      return finished + temporary === 0;
    });
    expect((await client.digest('/slow/stalled')).status).toBe(404);
  });

  it('keeps a client that pauses for less, however slow it is as a whole', async () => {
    const sizeBytes = 300 * KiB;
    async function* chunks() {
      for (const piece of makePieces(3, sizeBytes, 100 * KiB)) {
        yield piece;
        await sleep(stallMs / 2);
      }
    }
    const written = await client.send('PUT', '/slow/steady', {
      body: { sizeBytes, chunks: chunks() },
    });
    expect(written.status).toBe(200);
    const found = await client.digest('/slow/steady');
    expect(found).toEqual({ status: 200, ...digestOf(3, sizeBytes) });
  });

  it('cuts a client whose headers never end, though it sends a byte now and then', async () => {
    const socket = raw.connect();
    socket.resume();
    socket.write('GET /slow/big HTTP/1.1\r\nhost: localhost\r\nx-slow: ');
    const drip = setInterval(() => socket.write('a'), 200);
    await ended(socket);
    clearInterval(drip);
  });

  it('serves others while 500 connections are idle', async () => {
    const sockets = Array.from({ length: 500 }, () => raw.connect());
    await Promise.all(sockets.map((socket) => new Promise((r) => socket.once('connect', r))));
    await useAsOthersDo();
    const cut = sockets.map((socket) => ended(socket.resume()));
    await Promise.all(cut);
  });

  it('gives everything back when a client leaves with downloads in its pipeline', async () => {
    const before = openFiles(pid);
    for (let round = 0; round < 4; round++) {
      const socket = raw.connect();
      socket.write(raw.head('GET', '/slow/big').repeat(20));
      await new Promise((resolve) => socket.once('data', resolve));
      socket.destroy();
    }
    await eventually('every descriptor is closed', () => openFiles(pid) <= before);
    await useAsOthersDo();
  });

  it('stops hashing what is to be copied when the client leaves, and copies nothing', async () => {
    const before = readBytes(pid);
    const socket = raw.connect();
    const head = raw.head('PUT', '/slow/left', {
      'content-length': '0',
      'x-amz-checksum-algorithm': 'SHA256',
      'x-amz-copy-source': '/slow/big',
    });
    socket.write(head, () => socket.destroy());
    const query: [string, string][] = [['prefix', 'left']];
    let records: { status: number; error?: string }[] = [];
    await eventually('it is recorded', async () => {
      const { body } = await client.send('GET', '/_/v1/records', { query });
      records = JSON.parse(body.toString()).records;
      return records.length > 0;
    });
    expect(records).toMatchObject([{ status: 400, error: 'RequestTimeout' }]);
    expect(readBytes(pid) - before).toBeLessThan(bigBytes / 2);
    expect((await client.send('HEAD', '/slow/left')).status).toBe(404);
  });

  it('gives everything back when clients leave in the middle of downloads', async () => {
    const before = openFiles(pid);
    for (let round = 0; round < rounds; round++) {
      const sockets = await Promise.all(Array.from({ length: leaving }, beginDownload));
      for (const socket of sockets) socket.destroy();
    }
    await eventually('every descriptor is closed', () => openFiles(pid) <= before);
    await useAsOthersDo();
    // What a reader still held, the sweeper would not remove.
    await client.send('DELETE', '/slow/big');
    await client.send('DELETE', '/slow/other');
    await client.send('DELETE', '/slow/steady');
    await eventually('all extents are swept', () => {
      return listExtentFiles(gateway.dataDir).finished.length === 0;
    });
  });
});

/** Clients that never stall for as long as the gateway allows: what they hold others can have. */
function letOthersIn(): void {
  it(`lets others read and write while ${still} downloads stand still`, async () => {
    for (let i = 0; i < still; i++) {
      const socket = raw.connect();
      socket.write(raw.head('GET', '/slow/big'));
      socket.pause();
    }
    // They stand still once the system's socket buffers are full; then they hold every chunk
    // buffer.
    let before = readBytes(pid);
    await eventually('nothing is read from the store any more', async () => {
      await sleep(500);
      const movedBytes = readBytes(pid) - before;
      before += movedBytes;
      return movedBytes < MiB;
    });
    await useAsOthersDo();
  });

  it(`lets others read and write while ${still} uploads send a byte now and then`, async () => {
    const sockets = await Promise.all(
      Array.from({ length: still }, (_, i) => beginUpload(`crawling${i}`, 1000)),
    );
    const drip = setInterval(() => {
      for (const socket of sockets) if (socket.writable) socket.write('x');
    }, 500);
    await sleep(2000);
    await useAsOthersDo();
    clearInterval(drip);
  });
}

/** Many more than there are chunk buffers; each has sent more than is kept in the database. */
const stalling = isFull ? 2500 : 300;

describe('a gateway with few chunk buffers', () => {
  beforeAll(() => serve(['--stall-timeout', '60s', '--buffer-memory', '16MiB'], 1 * MiB));
  afterAll(stop);

  it(`lets another tenant write and read while ${stalling} uploads stall`, async () => {
    const bob = new S3Client(await addMember(client, gateway.endpoint, 'atlas', 'bob'));
    await bob.send('PUT', '/bobs');
    const sizeBytes = 300 * KiB;
    const sockets: Socket[] = [];
    for (let at = 0; at < stalling; at += 100) {
      const some = Array.from({ length: Math.min(100, stalling - at) }, async (_, i) => {
        const socket = raw.connect();
        const length = { 'content-length': String(sizeBytes) };
        socket.write(raw.head('PUT', `/slow/stalled${at + i}`, length));
        await new Promise((resolve) => socket.write(Buffer.alloc(70 * KiB), resolve));
        return socket;
      });
      sockets.push(...(await Promise.all(some)));
    }
    for (let round = 0; round < 3; round++) {
      const body = { sizeBytes: MiB, chunks: makePieces(7, MiB) };
      const written = await bob.send('PUT', `/bobs/other${round}`, { body });
      expect(`${written.status}${written.body}`).toBe('200');
      const found = await bob.digest(`/bobs/other${round}`);
      expect(found).toEqual({ status: 200, ...digestOf(7, MiB) });
    }
    bob.close();
    // Nobody was cut whose bytes came: what was written early is a part of the object.
    const answers = sockets.slice(0, 20).map(async (socket) => {
      const answer = new Promise((resolve) => socket.once('data', resolve));
      socket.write(Buffer.alloc(sizeBytes - 70 * KiB));
      return String(await answer).slice(0, 12);
    });
    expect(new Set(await Promise.all(answers))).toEqual(new Set(['HTTP/1.1 200']));
    for (const socket of sockets) socket.destroy();
  });
});

describe('a gateway that allows long stalls', () => {
  beforeAll(() => serve(patient, stillBytes));
  afterAll(stop);
  letOthersIn();
});

describeWithTool(versitygw, 'a gateway that allows long stalls, with its bytes in S3', (path) => {
  let backed: BackedGateway;
  beforeAll(async () => {
    backed = await startBackedGateway({ path, args: [...patient, ...sweeping] });
    await use(backed.gateway, stillBytes);
  });
  afterAll(async () => {
    raw.close();
    client.close();
    await backed.stop();
  });
  letOthersIn();
});

describe('a gateway that allows no stall to speak of', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-stall-'));
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  it('does not cut a client that waits while the gateway works', async () => {
    await serve([], bigBytes, dataDir);
    await stop();
    gateway = await startServedGateway({ dataDir, args: ['--stall-timeout', '50ms'] });
    client = new S3Client(gateway);
    // All of it is read and hashed before the first byte of the answer.
    const headers = {
      'x-amz-copy-source': '/slow/big',
      'x-amz-checksum-algorithm': 'SHA256',
    };
    const copied = await client.send('PUT', '/slow/copy', { headers });
    expect(`${copied.status}${copied.body}`).toMatch(/^200.*<ChecksumSHA256>/s);
    await stop();
  });
});
