// Bodies that are collected before they are used (XML): however many clients stall in the middle of
// one, they take bounded memory, and leave room for others.
import { hash } from 'node:crypto';
import type { ClientRequest } from 'node:http';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { MiB } from '../fault/content.ts';
import { S3Client, type Target } from '../fault/s3-client.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { memoryBytes } from './process-figures.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const query: [string, string][] = [['delete', '']];
const stalledBytes = 2 * MiB;
/** Half of the 64 MiB that all have. */
const heldMax = 16;

let gateway: ServedGateway;
let mallory: S3Client;
let bob: S3Client;

beforeAll(async () => {
  gateway = await startServedGateway();
  mallory = new S3Client(gateway, 200);
  await mallory.send('PUT', '/small');
  bob = new S3Client(await addMember('bob'));
  await bob.send('PUT', '/bobs');
});
afterAll(async () => {
  mallory.close();
  bob.close();
  await gateway.stop();
});

async function addMember(name: string): Promise<Target> {
  const principals = '/_/v1/tenants/default/principals';
  const body = Buffer.from(JSON.stringify({ name, kind: 'person', role: 'member' }));
  const headers = { 'content-type': 'application/json' };
  await mallory.send('POST', principals, { headers, body });
  const made = await mallory.send('POST', `${principals}/${name}/access-keys`);
  return { endpoint: gateway.endpoint, ...JSON.parse(made.body.toString()) };
}

interface Stalled {
  request: ClientRequest;
  /** The status of the answer; null while there is none. */
  status: number | null;
  retryAfter: string | undefined;
}

/** A DeleteObjects that sends all of its body but the last byte. */
function stall(): Stalled {
  const body = { sizeBytes: stalledBytes, chunks: [] };
  const headers = { 'content-md5': hash('md5', 'anything', 'base64') };
  const request = mallory.begin('POST', '/small', { query, headers, body });
  const stalled: Stalled = { request, status: null, retryAfter: undefined };
  request.on('error', () => undefined);
  request.on('response', (response) => {
    stalled.status = response.statusCode ?? 0;
    stalled.retryAfter = response.headers['retry-after'];
    response.resume();
  });
  request.write(Buffer.alloc(stalledBytes - 1, 0x20));
  return stalled;
}

async function deleteOne(client: S3Client, bucket: string): Promise<number> {
  const body = Buffer.from('<Delete><Object><Key>k</Key></Object></Delete>');
  const headers = { 'content-md5': hash('md5', body, 'base64') };
  return (await client.send('POST', bucket, { query, headers, body })).status;
}

it('100 stalled lists of keys take bounded memory, and others still delete', async () => {
  const pid = gateway.pid as number;
  expect(await deleteOne(mallory, '/small')).toBe(200);
  const before = memoryBytes(pid);
  const all = Array.from({ length: 100 }, stall);
  const open = () => all.filter(({ status }) => status === null);
  await vi.waitFor(() => expect(open()).toHaveLength(heldMax), { timeout: 20_000, interval: 100 });
  const refused = all.filter(({ status }) => status !== null);
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
  expect(refused.every(({ retryAfter }) => retryAfter === '1')).toBe(true);
  // All hundred held would be 200 MiB and more; what was refused is garbage, which takes its time.
  const grownBytes = () => memoryBytes(pid) - before;
  await vi.waitFor(() => expect(grownBytes()).toBeLessThan(160 * MiB), { timeout: 20_000 });

  expect(await deleteOne(mallory, '/small')).toBe(503);
  expect(await deleteOne(bob, '/bobs')).toBe(200);

  for (const { request } of all) request.destroy();
  await vi.waitFor(async () => expect(await deleteOne(mallory, '/small')).toBe(200));
});
