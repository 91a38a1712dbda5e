// Clients that vanish in the middle: what was set aside for them comes free when the gateway cuts
// them, so that they keep nobody from using what a limit leaves for longer than a client may stall.
// BURSAR_FULL=1 lets 10,000 of them vanish at a time.
import type { Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { MiB, makePieces } from '../fault/content.ts';
import type { Meter } from '../fault/limits/account-sheet.ts';
import { LimitedTenant, tenant } from '../fault/limits/limited-tenant.ts';
import { element } from '../fault/load.ts';
import type { S3Client } from '../fault/s3-client.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { ended, RawClient } from './raw-client.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

const isFull = process.env.BURSAR_FULL === '1';
const vanishing = isFull ? 10_000 : 300;
const atOnce = 250;
/** Longer than they take to come, on a machine that others use too. */
const stallMs = isFull ? 60_000 : 6000;
const account = `tenant:${tenant}`;
const uploadBytes = 100_000;
const downloadBytes = 40 * MiB;

let gateway: ServedGateway;
let lab: LimitedTenant;
let raw: RawClient;
let client: S3Client;
let writes = 0;

beforeAll(async () => {
  const args = ['--stall-timeout', `${stallMs}ms`, '--connections-max', '12000'];
  gateway = await startServedGateway({ args });
  lab = new LimitedTenant(() => gateway);
  await lab.make(4);
  client = lab.clients()[0] as S3Client;
  raw = new RawClient({ endpoint: gateway.endpoint, ...lab.keyOf(1) });
  const body = { sizeBytes: downloadBytes, chunks: makePieces(1, downloadBytes) };
  expect((await client.send('PUT', '/raw/big', { body })).status).toBe(200);
});
beforeEach(() => lab.audit());
afterAll(async () => {
  raw.close();
  client.close();
  await gateway.stop();
});

/** Leaves so much of a meter, besides what is used. */
async function leave(meter: Meter, amount: number): Promise<void> {
  const used = (await lab.rows()).get(account)?.used[meter] ?? 0n;
  await lab.limit({ [account]: { [meter]: { total: Number(used) + amount } } });
}

async function reserved(meter: Meter): Promise<number> {
  return Number((await lab.rows()).get(account)?.leased[meter] ?? 0n);
}

/** As another principal of the tenant does; says how it was answered. */
async function write(): Promise<string> {
  const sending = { body: Buffer.alloc(uploadBytes) };
  const { status, body } = await client.send('PUT', `/raw/written${writes++}`, sending);
  return status === 200 ? 'written' : element(body, 'Code');
}

async function read(): Promise<string> {
  const headers = { range: `bytes=0-${downloadBytes / 2}` };
  const { status, body } = await client.send('GET', '/raw/big', { headers });
  return status === 206 ? 'read' : element(body, 'Code');
}

/** A connection on which a request was begun and goes no further. */
function begin(head: string, bytes: Buffer | null): Promise<Socket> {
  const socket = raw.connect();
  socket.write(head);
  return new Promise((resolve) => {
    socket.once('close', () => resolve(socket));
    if (bytes) socket.resume().write(bytes, () => resolve(socket));
    else {
      socket.once('data', () => {
        socket.pause();
        resolve(socket);
      });
    }
  });
}

/** Begins many, some at a time. */
async function beginMany(count: number, one: (i: number) => Promise<Socket>): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let at = 0; at < count; at += atOnce) {
    const length = Math.min(atOnce, count - at);
    sockets.push(...(await Promise.all(Array.from({ length }, (_, i) => one(at + i)))));
  }
  return sockets;
}

function beginUpload(i: number): Promise<Socket> {
  const length = { 'content-length': String(uploadBytes) };
  return begin(raw.head('PUT', `/raw/half${i}`, length), Buffer.alloc(1000));
}

describe('a tenant whose budget clients have set aside who vanish', () => {
  it.each(['ingressBytes', 'storedBytes'] as const)(
    `can upload again once ${vanishing} half-open uploads are cut: %s`,
    async (meter) => {
      const left = (vanishing * uploadBytes) / 2;
      await leave(meter, left);
      const sockets = await beginMany(vanishing, beginUpload);
      await vi.waitFor(async () => expect(await write()).toBe('QuotaExceeded'), stallMs);
      expect(await reserved(meter)).toBeGreaterThan(0.9 * left);
      await Promise.all(sockets.map(ended));
      expect(await write()).toBe('written');
      expect(await lab.audit()).toEqual([]);
    },
  );

  it('can download again once stalled downloads are cut, and pays what was sent', async () => {
    const before = (await lab.rows()).get(account)?.used.egressBytes ?? 0n;
    await leave('egressBytes', 5.2 * downloadBytes);
    const head = raw.head('GET', '/raw/big');
    const sockets = await beginMany(10, () => begin(head, null));
    expect(await read()).toBe('QuotaExceeded');
    await vi.waitFor(async () => expect(await reserved('egressBytes')).toBe(0), 4 * stallMs);
    expect(await read()).toBe('read');
    expect(await lab.audit()).toEqual([]);
    const used = Number(((await lab.rows()).get(account)?.used.egressBytes ?? 0n) - before);
    for (const socket of sockets) socket.destroy();
    expect(used).toBeGreaterThan(downloadBytes / 2);
    expect(used).toBeLessThan(4 * downloadBytes);
  });

  it('has everything back at once from clients that hang up', async () => {
    await leave('ingressBytes', 100 * uploadBytes);
    const sockets = await beginMany(100, beginUpload);
    await vi.waitFor(async () => expect(await write()).toBe('QuotaExceeded'), stallMs);
    for (const socket of sockets) socket.destroy();
    // Not by the time-out: it is longer than this.
    await vi.waitFor(async () => expect(await write()).toBe('written'), stallMs / 2);
    expect(await lab.audit()).toEqual([]);
  });
});
