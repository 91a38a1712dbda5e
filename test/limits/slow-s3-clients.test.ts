// Clients that stall or leave, of buckets in an S3 store: what they hold comes free for others, and
// who has only stalled goes on where he was. By default the gateway has half as many buffers as
// with BURSAR_FULL=1, and half as many clients.
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type BackedGateway, startBackedGateway } from '../fault/backed-gateway.ts';
import { digestOf, KiB, MiB, makePieces } from '../fault/content.ts';
import { sleep } from '../fault/plain-start.ts';
import { S3Client } from '../fault/s3-client.ts';
import { findStrayObjects } from '../fault/stray-objects.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { openFiles, readBytes } from './process-figures.ts';
import { RawClient } from './raw-client.ts';

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const isFull = process.env.BURSAR_FULL === '1';
/** Downloads of something that is more than the sockets of a connection take. */
const [downloads, bigBytes] = isFull ? [200, 100_000_000] : [100, 40_000_000];
/** Each has sent more than 5 MiB when it stands still: together much more than the buffers hold. */
const [uploads, uploadBytes] = isFull ? [20, 20 * MiB] : [10, 12 * MiB];
const [rounds, leaving] = isFull ? [4, 25] : [2, 12];
const room = isFull ? '30MiB' : '16MiB';

describeWithTool(versitygw, `a gateway with an S3 store and room for ${room}`, (path) => {
  let backed: BackedGateway;
  let client: S3Client;
  let raw: RawClient;
  let pid: number;

  beforeAll(async () => {
    const sweeping = ['--sweep-interval', '200ms', '--sweep-grace', '0ms'];
    const args = ['--stall-timeout', '80s', '--buffer-memory', room, ...sweeping];
    backed = await startBackedGateway({ path, args });
    client = new S3Client(backed.gateway);
    raw = new RawClient(backed.gateway);
    pid = backed.gateway.pid as number;
    await client.send('PUT', '/slow');
    const body = { sizeBytes: bigBytes, chunks: makePieces(1, bigBytes) };
    const { status } = await client.send('PUT', '/slow/big', { body });
    expect(status, backed.gateway.output()).toBe(200);
  });
  afterAll(async () => {
    raw.close();
    client.close();
    await backed.stop();
  });

  /** Writes and reads something large, as anybody may at any time. */
  async function useAsOthersDo(): Promise<void> {
    const sizeBytes = 9 * MiB;
    const body = { sizeBytes, chunks: makePieces(7, sizeBytes) };
    const written = await client.send('PUT', '/slow/other', { body });
    expect(`${written.status}${written.body}`).toBe('200');
    const found = await client.digest('/slow/other');
    expect(found).toEqual({ status: 200, ...digestOf(7, sizeBytes) });
  }

  async function untilQuiet(): Promise<void> {
    let before = readBytes(pid);
    for (let movedBytes = MiB; movedBytes >= MiB; ) {
      await sleep(500);
      movedBytes = readBytes(pid) - before;
      before += movedBytes;
    }
  }

  it(`lets others read and write while ${downloads} downloads stand still`, async () => {
    const sockets: Socket[] = [];
    for (let i = 0; i < downloads; i++) {
      const socket = raw.connect();
      socket.write(raw.head('GET', '/slow/big'));
      sockets.push(socket.pause());
    }
    await untilQuiet();
    await useAsOthersDo();
    for (const socket of sockets) socket.destroy();
  });

  it('lets others read and write while uploads stand still, which nearly all go on', async () => {
    const sizeBytes = uploadBytes;
    let goOn: () => void = () => {};
    const pause = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    async function* chunks(seed: number) {
      let sentBytes = 0;
      for (const piece of makePieces(seed, sizeBytes, 300 * KiB)) {
        yield piece;
        sentBytes += piece.length;
        if (sentBytes > 5 * MiB) await pause;
      }
    }
    const seeds = Array.from({ length: uploads }, (_, i) => 100 + i);
    // Where the machine is so slow that sent extents do not come free in time, some are cut.
    const sent = seeds.map((seed) =>
      client
        .send('PUT', `/slow/paused${seed}`, { body: { sizeBytes, chunks: chunks(seed) } })
        .then(({ status }) => status)
        .catch(() => 'cut'),
    );
    await untilQuiet();
    await useAsOthersDo();
    goOn();
    const statuses = await Promise.all(sent);
    const whole = seeds.filter((_, i) => statuses[i] === 200);
    expect(statuses.filter((status) => status !== 200 && status !== 'cut')).toEqual([]);
    expect(whole.length).toBeGreaterThan(seeds.length / 2);
    for (const seed of whole.slice(0, 3)) {
      const found = await client.digest(`/slow/paused${seed}`);
      expect(found).toEqual({ status: 200, ...digestOf(seed, sizeBytes) });
    }
  });

  it('gives all back when clients leave in the middle, and keeps nothing of theirs', async () => {
    const before = openFiles(pid);
    for (let round = 0; round < rounds; round++) {
      const sockets = Array.from({ length: leaving }, () => raw.connect());
      for (const [i, socket] of sockets.entries()) {
        if (i % 2 === 0) {
          socket.write(raw.head('GET', '/slow/big'));
          await new Promise((resolve) => socket.once('data', resolve));
        } else {
          const length = { 'content-length': String(20 * MiB) };
          socket.write(raw.head('PUT', `/slow/left${round}-${i}`, length));
          await new Promise((resolve) => socket.write(Buffer.alloc(9 * MiB), resolve));
        }
      }
      for (const socket of sockets) socket.destroy();
    }
    await useAsOthersDo();
    await vi.waitFor(() => expect(openFiles(pid)).toBeLessThanOrEqual(before + 20), 30_000);
    const dataDir = backed.gateway.dataDir;
    expect(await findStrayObjects(backed.storeDir, dataDir)).toEqual([]);
  });
});
