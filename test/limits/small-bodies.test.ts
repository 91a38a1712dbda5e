// Bodies that are collected before they are used (XML): however many clients stall in the middle of
// one, they take bounded memory, and leave room for others.
import { hash } from 'node:crypto';
import type { ClientRequest } from 'node:http';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { MiB } from '../fault/content.ts';
import { S3Client } from '../fault/s3-client.ts';
import { addMember } from '../fault/tenants.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { memoryBytes } from './process-figures.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const query: [string, string][] = [['delete', '']];
const stalledBytes = 2 * MiB;
/** Of the 64 MiB that all have. */
const heldMax = 32;

let gateway: ServedGateway;
let operator: S3Client;
let mallories: S3Client[];
let bob: S3Client;
let dora: S3Client;

beforeAll(async () => {
  gateway = await startServedGateway();
  operator = new S3Client(gateway);
  const member = async (tenant: string, name: string) =>
    new S3Client(await addMember(operator, gateway.endpoint, tenant, name), 200);
  mallories = [];
  for (let i = 0; i < 50; i++) mallories.push(await member('evil', `mallory${i}`));
  dora = await member('evil', 'dora');
  bob = await member('atlas', 'bob');
  for (const one of [...mallories, dora, bob]) await one.send('PUT', `/${bucketOf(one)}`);
});
afterAll(async () => {
  for (const one of [...mallories, dora, bob, operator]) one.close();
  await gateway.stop();
});

/** Each has one of its own: names are a tenant's. */
function bucketOf(one: S3Client): string {
  return one === bob ? 'bobs' : one === dora ? 'doras' : `evil${mallories.indexOf(one)}`;
}

interface Stalled {
  request: ClientRequest;
  /** The status of the answer; null while there is none. */
  status: number | null;
  retryAfter: string | undefined;
}

/** A DeleteObjects that sends all of its body but the last byte. */
function stall(mallory: S3Client): Stalled {
  const body = { sizeBytes: stalledBytes, chunks: [] };
  const headers = { 'content-md5': hash('md5', 'anything', 'base64') };
  const request = mallory.begin('POST', `/${bucketOf(mallory)}`, { query, headers, body });
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

async function deleteOne(client: S3Client): Promise<number> {
  const body = Buffer.from('<Delete><Object><Key>k</Key></Object></Delete>');
  const headers = { 'content-md5': hash('md5', body, 'base64') };
  return (await client.send('POST', `/${bucketOf(client)}`, { query, headers, body })).status;
}

it('100 stalled lists of keys take bounded memory, and others still delete', async () => {
  const pid = gateway.pid as number;
  expect(await deleteOne(bob)).toBe(200);
  const before = memoryBytes(pid);
  const all = mallories.flatMap((mallory) => [stall(mallory), stall(mallory)]);
  const open = () => all.filter(({ status }) => status === null);
  await vi.waitFor(() => expect(open().length).toBeLessThanOrEqual(heldMax), {
    timeout: 20_000,
    interval: 100,
  });
  const refused = all.filter(({ status }) => status !== null);
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
  expect(refused.every(({ retryAfter }) => retryAfter === '1')).toBe(true);
  // All hundred held would be 200 MiB and more; what was refused is garbage, which takes its time.
  const grownBytes = () => memoryBytes(pid) - before;
  await vi.waitFor(() => expect(grownBytes()).toBeLessThan(160 * MiB), { timeout: 20_000 });

  // In another tenant, and another principal of the same.
  expect(await deleteOne(bob)).toBe(200);
  expect(await deleteOne(dora)).toBe(200);

  for (const { request } of all) request.destroy();
  await vi.waitFor(async () => expect(await deleteOne(mallories[0] as S3Client)).toBe(200), 20_000);
});

it('a large list of keys gets memory at the cost of who has more', async () => {
  const all = mallories.slice(0, heldMax).map(stall);
  const body = { sizeBytes: stalledBytes, chunks: [Buffer.alloc(stalledBytes, 0x20)] };
  const headers = { 'content-md5': hash('md5', Buffer.alloc(stalledBytes, 0x20), 'base64') };
  const answer = await bob.send('POST', '/bobs', { query, headers, body });
  // It was read whole, and is no XML.
  expect(`${answer.status}${answer.body}`).toMatch(/^400.*MalformedXML/s);
  for (const { request } of all) request.destroy();
});
