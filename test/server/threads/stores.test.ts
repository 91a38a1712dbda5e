// Each thread reads and writes S3 stores over connections of its own, and all of them are one
// gateway to the store: it is probed once, is down or taken over for all or for none, its journal
// has what each of them commits, and what is counted of it is one number.
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { MiB } from '../../fault/content.ts';
import { callNative, type Message, type Target } from '../../protocol/target.ts';
import { type OddServer, startOddServer } from '../../stores/odd-s3-server.ts';
import { FaultProxy } from '../../tooling/fault-proxy.ts';
import {
  type Connection,
  connectToEach,
  startToldThreads,
  type Told,
  type ToldThreads,
} from './threads-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const threads = 3;
const timeout = 30_000;

let server: OddServer;
let proxy: FaultProxy;
let gateway: ToldThreads;
let target: Target;
let connections: Connection[] = [];
/** What the store was asked for: method and name. */
let asked: string[] = [];

beforeAll(async () => {
  server = await startOddServer();
  proxy = await FaultProxy.start(Number(new URL(server.endpoint).port));
  const store = ['--store', 's3://bucket/prefix', '--store-path-style'];
  gateway = await startToldThreads(threads, {
    args: [...store, '--store-endpoint', proxy.endpoint],
    env: { AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE', AWS_SECRET_ACCESS_KEY: 'secret' },
  });
  target = gateway.target;
  connections = await connectToEach(target, threads);
  expect((await ask(0, { method: 'PUT', path: '/remote' })).status).toBe(200);
  expect((await put(0, '/remote/large')).status).toBe(200);
});

afterAll(async () => {
  for (const connection of connections) connection.close();
  await gateway?.stop();
  await proxy?.stop();
  await server?.stop();
});

beforeEach(() => {
  asked = [];
  proxy.choose = ({ method, target: url }) => {
    asked.push(`${method} ${url}`);
    return undefined;
  };
});

/** Asks one thread, which answers by itself. */
async function ask(thread: number, message: Message): Promise<Told> {
  const answer = await (connections[thread] as Connection).ask(target, message);
  expect(answer.thread).toBe(thread);
  return answer;
}

const read = { method: 'GET', path: '/remote/large' };

function put(thread: number, path: string): Promise<Told> {
  return ask(thread, { method: 'PUT', path, body: Buffer.alloc(MiB, `of ${thread}`) });
}

/** The status that each thread gives. */
async function statusesOf(message: Message): Promise<number[]> {
  const answers = await Promise.all(connections.map((_, thread) => ask(thread, message)));
  return answers.map(({ status }) => status);
}

const all = (status: number): number[] => connections.map(() => status);

async function findStore() {
  const { stores } = await callNative(target, 'GET', '/_/v1/stores');
  return stores.find(({ name }: { name: string }) => name === 's3');
}

it('each thread writes what all read, in one piece, in parts and as copies', async () => {
  for (const [thread] of connections.entries()) {
    const path = `/remote/of ${thread}`;
    expect((await put(thread, path)).status).toBe(200);
    expect(await statusesOf({ method: 'GET', path })).toEqual(all(200));
    const copy = { method: 'PUT', path: `${path}, copied` };
    const headers = { 'x-amz-copy-source': encodeURI(path) };
    expect((await ask(thread, { ...copy, headers })).status).toBe(200);
    expect(await statusesOf({ method: 'GET', path: copy.path })).toEqual(all(200));
    expect((await ask(thread, { method: 'DELETE', path })).status).toBe(204);
    expect(await statusesOf({ method: 'GET', path })).toEqual(all(404));
  }
  // The main thread has probed it once.
  expect(asked.filter((one) => one.includes('probe'))).toEqual([]);
  // What is not read from an extent the journal has, before it was answered for.
  expect(asked.filter((one) => one.startsWith('PUT') && one.includes('/journal/'))).not.toEqual([]);
});

it('what is counted of it is one number', async () => {
  const { requests } = (await findStore()).detail;
  for (let i = 0; i < 4; i++) expect(await statusesOf(read)).toEqual(all(200));
  const counted = async () => (await findStore()).detail.requests;
  await expect.poll(counted, { timeout }).toBeGreaterThanOrEqual(requests + 4 * threads);
});

it('is down for all threads when it is for one, and back for all', async () => {
  const isOfExtents = () => asked.filter((one) => one.includes('/extents/')).length;
  let isDown = true;
  proxy.choose = ({ method, target: url }) => {
    asked.push(`${method} ${url}`);
    return isDown ? { kind: 'status', status: 503, code: 'ServiceUnavailable' } : undefined;
  };
  const [last] = [threads - 1];
  const breaker = async () => (await findStore()).health.breaker;
  // Each failed try counts, those of others besides.
  while ((await breaker()) === 'closed') expect((await ask(last, read)).status).toBe(503);
  const before = isOfExtents();
  expect(await statusesOf(read)).toEqual(all(503));
  expect(isOfExtents()).toBe(before);
  expect((await findStore()).ready).toBe(false);
  isDown = false;
  await expect.poll(breaker, { timeout }).toBe('closed');
  expect(await statusesOf(read)).toEqual(all(200));
});

it('is shut for all threads when the mark of its owner is gone', async () => {
  const doomed = '/remote/doomed';
  expect((await put(2, doomed)).status).toBe(200);
  const name = [...server.objects.keys()].find((one) => one.endsWith('/owner')) as string;
  const mark = server.objects.get(name) as Buffer;
  server.objects.delete(name);
  // With the next segment of its journal that is noticed.
  expect((await ask(1, { method: 'DELETE', path: doomed })).status).toBe(503);
  expect(await statusesOf(read)).toEqual(all(503));
  server.objects.set(name, mark);
  await expect.poll(() => statusesOf(read), { timeout }).toEqual(all(200));
});
