// The folder of the local store that is not there: a disk that was unmounted leaves an empty folder
// in its place. Nothing is written into that, nothing counts as damaged or removed, and all is
// served again when it is back.
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { makeContent } from './content.ts';
import { element } from './load.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const dataDir = mkdtempSync(join(tmpdir(), 'bursar-place-'));
const extents = join(dataDir, 'extents');
const away = join(dataDir, 'away');
const content = makeContent(1, 300_000);
let gateway: ServedGateway;
let client: S3Client;

beforeAll(async () => {
  await serve();
  expect((await client.send('PUT', '/bucket')).status).toBe(200);
  expect(await send('PUT', 'kept')).toBe(200);
});
afterAll(async () => {
  client?.close();
  await gateway?.stop().catch(() => {});
  rmSync(dataDir, { recursive: true, force: true });
});

async function serve(): Promise<void> {
  const args = ['--sweep-interval', '100ms', '--sweep-grace', '0ms'];
  gateway = await startServedGateway({ dataDir, args });
  client = new S3Client(gateway);
}

async function stop(): Promise<void> {
  client.close();
  await gateway.stop();
}

function unmount(): void {
  renameSync(extents, away);
  mkdirSync(extents);
}

function mount(): void {
  rmSync(extents, { recursive: true });
  renameSync(away, extents);
}

/** The status, or the code of a refusal. */
async function send(method: 'GET' | 'PUT', key: string): Promise<number | string> {
  const sending = method === 'PUT' ? { body: content.bytes } : {};
  const { status, body } = await client.send(method, `/bucket/${key}`, sending);
  if (status >= 300) return `${status} ${element(body, 'Code')}`;
  if (method === 'GET') expect(body.equals(content.bytes)).toBe(true);
  return status;
}

async function isReady(): Promise<boolean> {
  const { body } = await client.send('GET', '/_/v1/health');
  return JSON.parse(body.toString()).stores.local.ready;
}

it('is noticed while a gateway runs, which serves again when it is back', async () => {
  expect(await isReady()).toBe(true);
  unmount();
  expect(await send('GET', 'kept')).toBe('503 ServiceUnavailable');
  expect(await send('PUT', 'new')).toBe('503 ServiceUnavailable');
  expect(await isReady()).toBe(false);
  // One that a gateway has served by mistake is another one, too.
  mkdirSync(join(extents, 'temporary'));
  expect(await send('GET', 'kept')).toBe('503 ServiceUnavailable');
  expect(await send('PUT', 'new')).toBe('503 ServiceUnavailable');
  expect(readdirSync(extents)).toEqual(['temporary']);
  mount();
  expect(await isReady()).toBe(true);
  expect(await send('GET', 'kept')).toBe(200);
  expect(await send('PUT', 'new')).toBe(200);
});

it('is refused at the start, until it is back or somebody says that it is lost', async () => {
  await stop();
  unmount();
  await expect(serve()).rejects.toThrow(/has nothing of the extents .* mount its disk/);
  expect(readdirSync(extents)).toEqual([]);
  mount();
  await serve();
  expect(await send('GET', 'kept')).toBe(200);
  await stop();
  unmount();
  mkdirSync(join(extents, 'temporary'));
  await serve();
  expect(await send('GET', 'kept')).toBe('500 BursarIntegrityError');
  expect(await send('PUT', 'other')).toBe(200);
});
