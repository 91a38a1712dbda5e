// Connections that are held open: no address has all of them, known senders and health find room,
// and who has most gives way. Addresses are those of the loopback network, all of which are this
// machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { addressGroupOf } from '#bursar/gateway/http/address-group.js';
import { S3Client } from '../fault/s3-client.ts';
import { fuzz, randomBelow, randomOf } from '../fuzz/seeded-random.ts';
import {
  environmentWithoutSettings,
  readMetrics,
  type ServedGateway,
  startServedGateway,
} from '../tooling/served-gateway.ts';
import { RawClient } from './raw-client.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const connectionsMax = 80;
const isLinux = process.platform === 'linux';

let gateway: ServedGateway;
const sockets: Socket[] = [];

/** A connection from an address of this machine; errors end it. */
function open(localAddress: string): Promise<Socket> {
  const { hostname, port } = new URL(gateway.endpoint);
  const socket = connect({ host: hostname, port: Number(port), localAddress });
  sockets.push(socket);
  socket.on('error', () => undefined).resume();
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(socket));
    socket.once('close', () => resolve(socket));
  });
}

const openMany = (address: string, count: number): Promise<Socket[]> =>
  Promise.all(Array.from({ length: count }, () => open(address)));

/** An answer's status, over a connection of its own; the code of an error if there is none. */
function ask(
  path: string,
  localAddress: string,
  method = 'GET',
  headers: Record<string, string> = {},
): Promise<number | string> {
  return new Promise((resolve) => {
    const options = { method, localAddress, headers, agent: false };
    const asked = request(`${gateway.endpoint}${path}`, options);
    asked.on('response', (response) => {
      response.resume();
      // Also of an answer that is cut.
      response.on('close', () => resolve(response.statusCode ?? 0));
    });
    asked.on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    asked.end();
  });
}

const health = (address: string) => ask('/_/health', address);

async function closedAs(reason: string): Promise<number> {
  const text = await readMetrics(gateway);
  const line = new RegExp(`^bursar_connections_closed_total\\{reason="${reason}"\\} (\\d+)`, 'm');
  return Number(line.exec(text)?.[1]);
}

/** Somebody who signs, each request over a new connection from 127.0.0.1. */
async function put(key: string): Promise<number> {
  const client = new S3Client(gateway);
  try {
    return (await client.send('PUT', `/room/${key}`, { body: Buffer.alloc(1) })).status;
  } finally {
    client.close();
  }
}

async function serve(args: string[]): Promise<void> {
  gateway = await startServedGateway({ args });
  const client = new S3Client(gateway);
  expect((await client.send('PUT', '/room')).status).toBe(200);
  client.close();
}

const isOpen = (socket: Socket): boolean => !socket.destroyed && socket.readable;
/** What a wait may take on a busy machine. */
const soonMs = 20_000;

const countOpen = (all: Socket[]): number => all.filter(isOpen).length;

describe.skipIf(!isLinux)(`a gateway of ${connectionsMax} connections`, () => {
  beforeAll(() => serve(['--connections-max', String(connectionsMax), '--stall-timeout', '50s']));
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await vi.waitFor(async () => {
      const text = await readMetrics(gateway);
      expect(Number(/^bursar_connections (\d+)/m.exec(text)?.[1])).toBeLessThan(5);
    }, soonMs);
  });
  afterAll(() => gateway.stop());

  it('serves others, and tells of its health, while one address opens many that idle', async () => {
    const idle = await openMany('127.0.0.2', 2 * connectionsMax);
    expect(await health('127.0.0.3')).toBe(200);
    expect(await put('idle')).toBe(200);
    // It has three quarters, of which the longest idle gave way.
    await vi.waitFor(() => expect(countOpen(idle)).toBe((connectionsMax * 3) / 4), soonMs);
    expect(idle.slice(0, 10).some(isOpen)).toBe(false);
    expect(await closedAs('crowded')).toBeGreaterThan(connectionsMax);
    // The same address is served, too, at its own cost.
    expect(await health('127.0.0.2')).toBe(200);
  });

  it('serves others while one address holds headers and bodies that do not end', async () => {
    const { host } = new URL(gateway.endpoint);
    const held = await openMany('127.0.0.2', connectionsMax);
    for (const [i, socket] of held.entries()) {
      if (i % 2 === 0) socket.write(`GET / HTTP/1.1\r\nhost: ${host}\r\nx-slow:`);
      else
        socket.write(`POST /_/v1/tenants HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 9\r\n\r\n{`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await health('127.0.0.3')).toBe(200);
    expect(await put('held')).toBe(200);
    // Strangers from many addresses have seven eighths together, and then those who have more give
    // way.
    for (let i = 10; i < 40; i++) await openMany(`127.0.1.${i}`, 2);
    expect(await put('many')).toBe(200);
    expect(await health('127.0.9.9')).toBe(200);
  });

  it('cuts no request of a known sender, and still tells of its health', async () => {
    const raw = new RawClient(gateway);
    const uploads = await openMany('127.0.0.1', connectionsMax);
    const length = { 'content-length': '100000' };
    for (const [i, socket] of uploads.entries()) {
      if (isOpen(socket)) socket.write(raw.head('PUT', `/room/upload${i}`, length));
    }
    await vi.waitFor(async () => {
      await openMany('127.0.0.2', 5);
      expect(await health('127.0.0.3')).toBe(200);
    }, soonMs);
    await openMany('127.0.0.2', connectionsMax);
    expect(await health('127.0.0.4')).toBe(200);
    const still = uploads.filter(isOpen);
    expect(still.length).toBe((connectionsMax * 3) / 4);
    const answers = still.map((socket) => {
      const answer = new Promise((resolve) => socket.once('data', resolve));
      socket.write(Buffer.alloc(100_000));
      return answer;
    });
    for (const answer of await Promise.all(answers))
      expect(String(answer)).toMatch(/^HTTP\/1.1 200/);
    raw.close();
  });
});

describe.skipIf(!isLinux)('a gateway behind a proxy that it trusts', () => {
  const args = ['--connections-max', String(connectionsMax), '--trusted-proxies', '127.0.0.2'];
  beforeAll(() => serve(args));
  afterAll(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await gateway.stop();
  });

  it('lets the proxy have all its connections, and closes the longest idle', async () => {
    const proxied = await openMany('127.0.0.2', connectionsMax - 1);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(countOpen(proxied)).toBe(connectionsMax - 1);
    expect(await put('behind')).toBe(200);
    expect(await health('127.0.0.3')).toBe(200);
    expect(countOpen(proxied)).toBeGreaterThan(connectionsMax - 6);
  });

  const begin = (socket: Socket, forwarded: string, path = '/_/v1/tenants') => {
    const { host } = new URL(gateway.endpoint);
    const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nx-forwarded-for: ${forwarded}`;
    socket.write(`${head}\r\ncontent-length: 9\r\n\r\n{`);
  };

  it('bounds what it forwards for one address, until that is over', async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    const one = '2001:db8::1';
    const proxied = await openMany('127.0.0.2', connectionsMax - 10);
    // What a client wrote itself stands further left, and is no other address.
    for (const [i, socket] of proxied.entries()) begin(socket, `192.0.2.${i}, ${one}${i}`);
    const bound = (connectionsMax * 3) / 4;
    await vi.waitFor(() => expect(countOpen(proxied)).toBe(bound), soonMs);
    const askedFor = (address: string) =>
      ask('/none/none', '127.0.0.2', 'GET', { 'x-forwarded-for': address });
    expect(await askedFor('192.0.2.1')).toBe(403);
    // Who is at the bound is served at the cost of its own.
    expect(await askedFor(one)).toBe(403);
    // Whose end may come after the answer.
    await vi.waitFor(() => expect(countOpen(proxied)).toBe(bound - 1), soonMs);
    // What is over counts no more.
    for (const socket of proxied) socket.write('}'.repeat(8));
    const next = await openMany('127.0.0.2', 5);
    await vi.waitFor(
      () => expect(proxied.every((socket) => socket.bytesRead > 0 || !isOpen(socket))).toBe(true),
      soonMs,
    );
    for (const socket of next) begin(socket, one);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(countOpen(next)).toBe(5);
    expect(await put('forwarded')).toBe(200);
  });

  it('refuses a request of an address whose known senders have all that it may have', async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    const raw = new RawClient(gateway);
    const uploads = await openMany('127.0.0.2', (connectionsMax * 3) / 4);
    const headers = { 'content-length': '100000', 'x-forwarded-for': '192.0.2.7' };
    for (const [i, socket] of uploads.entries()) {
      socket.write(raw.head('PUT', `/room/forwarded${i}`, headers));
    }
    await vi.waitFor(async () => {
      const text = await readMetrics(gateway);
      expect(Number(/^bursar_connections (\d+)/m.exec(text)?.[1])).toBeGreaterThanOrEqual(
        uploads.length,
      );
    }, soonMs);
    const forwarded = (address: string) =>
      ask('/none/none', '127.0.0.2', 'GET', { 'x-forwarded-for': address });
    await vi.waitFor(async () => expect(await forwarded('192.0.2.7')).toBe(503), soonMs);
    expect(await forwarded('192.0.2.8')).toBe(403);
    expect(await health('127.0.0.2')).toBe(200);
    expect(countOpen(uploads)).toBe(uploads.length);
    raw.close();
  });
});

it.skipIf(!isLinux)(
  'a gateway that may open few files says so, and serves fewer',
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-files-'));
    const main = resolve(import.meta.dirname, '../../app/main.js');
    const serving = [main, 'serve', '--data', dataDir, '--listen', '127.0.0.1:0'];
    const limited = ['-c', 'ulimit -n 600 && exec "$@"', 'sh', process.execPath, ...serving];
    const env = environmentWithoutSettings();
    const child = spawn('sh', limited, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => {
        output += text;
      });
    }
    try {
      await vi.waitFor(() => expect(output).toMatch(/^Bursar serves /m), 30_000);
      expect(output).toContain(
        'may open 600 files (ulimit -n), which is enough for 44 connections, not 4096',
      );
      const endpoint = /^Bursar serves (\S+)/m.exec(output)?.[1] as string;
      gateway = { ...gateway, endpoint };
      // The system holds back a flood of newcomers ever longer, so a hundred at a time.
      for (let wave = 0; wave < 7; wave++) await openMany('127.0.0.2', 100);
      expect(await health('127.0.0.3')).toBe(200);
    } finally {
      for (const socket of sockets.splice(0)) socket.destroy();
      const ended = new Promise((done) => child.once('close', done));
      child.kill('SIGTERM');
      await ended;
      rmSync(dataDir, { recursive: true, force: true });
    }
    // Each newcomer is work for a machine that others use too.
  },
  180_000,
);

describe('addresses that count as one', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['unknown', 'unknown'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:0db8:0001:0002:ffff::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['1::3:4:5:6:192.0.2.1', '1:0:3:4::/64'],
  ])('%s is of %s', (address, group) => {
    expect(addressGroupOf(address)).toBe(group);
  });

  it('are those with the same first 64 bits, however they are written', async () => {
    await fuzz(41_000, 500, compareWithUrl);
  });
});

/** The URL standard writes addresses as RFC 5952 does. */
function compareWithUrl(random: () => number): void {
  const groups = Array.from({ length: 8 }, () =>
    randomBelow(random, 3) === 0 ? 0 : randomBelow(random, 0x10000),
  );
  const network = groups.slice(0, 4).map((group) => group.toString(16));
  const expected = `${network.join(':')}::/64`;
  const plain = groups.map((group) => group.toString(16)).join(':');
  const padded = groups.map((group) => group.toString(16).padStart(4, '0')).join(':');
  const short = new URL(`http://[${plain}]`).hostname.slice(1, -1);
  const written = randomOf(random, [plain, padded, short, plain.toUpperCase()]);
  expect(addressGroupOf(written)).toBe(expected);
}

/** More than Node's servers let wait by default. */
const burst = 700;
const systemLets = isLinux && Number(readFileSync('/proc/sys/net/core/somaxconn')) >= burst;

describe.runIf(systemLets)('connections that come while the gateway is held up', () => {
  it('wait for it, and are served', async () => {
    const held = await startServedGateway();
    const pid = held.pid as number;
    const { hostname, port } = new URL(held.endpoint);
    process.kill(pid, 'SIGSTOP');
    const all = Array.from({ length: burst }, () => connect(Number(port), hostname));
    try {
      await Promise.all(all.map((socket) => once(socket, 'connect')));
      process.kill(pid, 'SIGCONT');
      const answers = all.map(async (socket) => {
        socket.write(`GET /_/health/live HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`);
        return String(await once(socket, 'data')).slice(0, 12);
      });
      expect(new Set(await Promise.all(answers))).toEqual(new Set(['HTTP/1.1 200']));
    } finally {
      process.kill(pid, 'SIGCONT');
      for (const socket of all) socket.destroy();
      await held.stop();
    }
  });
});
