// Bodies that come more slowly than they must: the client is cut, whatever the body is of; who is
// slowed down by the gateway itself is not.
import { hash } from 'node:crypto';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { KiB } from '../fault/content.ts';
import { S3Client } from '../fault/s3-client.ts';
import { addMember } from '../fault/tenants.ts';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { ended, RawClient } from './raw-client.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let gateway: ServedGateway;
let client: S3Client;
let raw: RawClient;

beforeAll(async () => {
  // A rate is looked at over twice the stall timeout. That is long enough for no client here to
  // stall because the machine is busy.
  gateway = await startServedGateway({ args: ['--stall-timeout', '5s', '--min-rate', '64KiB'] });
  client = new S3Client(gateway);
  raw = new RawClient(gateway);
  expect((await client.send('PUT', '/slow')).status).toBe(200);
});
afterAll(async () => {
  raw.close();
  client.close();
  await gateway.stop();
});

async function closedAsSlow(): Promise<number> {
  const text = await readMetrics(gateway);
  return Number(/^bursar_connections_closed_total\{reason="slow"\} (\d+)/m.exec(text)?.[1]);
}

/** Sends a head, and then a byte now and then, until the connection is closed. */
async function trickle(head: string, drop: string): Promise<Socket> {
  const socket = raw.connect().resume();
  socket.write(head);
  const drip = setInterval(() => socket.writable && socket.write(drop), 100);
  await ended(socket);
  clearInterval(drip);
  return socket;
}

const length = { 'content-length': '60000' };
const plain = (method: string, path: string, headers: Record<string, string>): string =>
  `${method} ${path} HTTP/1.1\r\n${Object.entries({
    host: new URL(gateway.endpoint).host,
    ...headers,
  })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;

const chunked = {
  'transfer-encoding': 'chunked',
  'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
  'x-amz-decoded-content-length': '60000',
};

it('cuts clients that trickle, though they never stall, whatever the body is of', async () => {
  const before = await closedAsSlow();
  const head = (path: string, method = 'PUT', headers: Record<string, string> = length) =>
    raw.head(method, path, headers);
  const form = { ...length, 'content-type': 'multipart/form-data; boundary=b' };
  const sts = { ...length, 'content-type': 'application/x-www-form-urlencoded' };
  const bodies: [head: string, drop: string][] = [
    [head('/slow/object'), 'x'],
    // Of an aws-chunked chunk's length no more than zeros.
    [head('/slow/chunks', 'PUT', chunked), '1\r\n0\r\n'],
    // A list of keys to delete.
    [head('/slow?delete=', 'POST', { ...length, 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==' }), 'x'],
    [
      `${plain('POST', '/slow', form)}--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n`,
      'x',
    ],
    [plain('POST', '/_/v1/tenants', length), 'x'],
    [plain('POST', '/', sts), 'x'],
  ];
  await Promise.all(bodies.map(([first, drop]) => trickle(first, drop)));
  const reached = before + bodies.length;
  // The text of the metrics is made about once a second.
  await vi.waitFor(async () => expect(await closedAsSlow()).toBe(reached), 30_000);
});

it('keeps a client that comes at the rate', async () => {
  async function* chunks() {
    for (let i = 0; i < 60; i++) {
      yield Buffer.alloc(50 * KiB);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
  const body = { sizeBytes: 3000 * KiB, chunks: chunks() };
  expect((await client.send('PUT', '/slow/steady', { body })).status).toBe(200);
});

async function limitRate(principal: string, rate: Record<string, number>): Promise<void> {
  const { status, body } = await client.send('PUT', `/_/v1/limits/principal:cms/${principal}`, {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ rate })),
    encodedPath: `/_/v1/limits/principal%3Acms%2F${principal}`,
  });
  expect(`${status}${body}`).toMatch(/^20/);
}

it('keeps a client that it slows down itself, by a rate of bytes below', async () => {
  const paced = new S3Client(await addMember(client, gateway.endpoint, 'cms', 'paced'));
  await limitRate('paced', { bytes: 50_000 });
  await paced.send('PUT', '/paced');
  const body = Buffer.alloc(600 * KiB);
  const { status } = await paced.send('PUT', '/paced/object', { body });
  expect(status).toBe(200);
  paced.close();
});

it('keeps a client whose body it does not read yet, for longer than one may stall', async () => {
  const waiting = new S3Client(await addMember(client, gateway.endpoint, 'cms', 'waiting'));
  await waiting.send('PUT', '/waiting');
  await limitRate('waiting', { requests: 1 });
  // More than what comes with a head and is kept for whoever will read it.
  const list = `<Delete><Object><Key>a</Key></Object>${' '.repeat(300 * KiB)}</Delete>`;
  const body = Buffer.from(list);
  const headers = { 'content-md5': hash('md5', list, 'base64') };
  const query: [string, string][] = [['delete', '']];
  // Each waits for its turn a second longer than the one before.
  const lists = Array.from({ length: 8 }, () =>
    waiting.send('POST', '/waiting', { query, headers, body }),
  );
  expect((await Promise.all(lists)).map(({ status }) => status)).toEqual(lists.map(() => 200));
  waiting.close();
});
