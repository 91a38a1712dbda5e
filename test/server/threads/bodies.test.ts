// Bodies of any size are taken by the thread to which they come, on the local store: what they need
// of what there is but once the main thread decides by messages, and nobody is stale.
import { hash } from 'node:crypto';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { MiB } from '../../fault/content.ts';
import { RawClient } from '../../limits/raw-client.ts';
import type { Message, Target } from '../../protocol/target.ts';
import { readMetrics } from '../../tooling/served-gateway.ts';
import {
  type Connection,
  connectToEach,
  startToldThreads,
  type ToldThreads,
} from './threads-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const threads = 3;
const partBytes = 5 * MiB;

let gateway: ToldThreads;
let target: Target;
/** One to each thread, by its number. */
let connections: Connection[] = [];

beforeAll(async () => {
  gateway = await startToldThreads(threads);
  target = gateway.target;
  connections = await connectToEach(target, threads);
  await ask(0, { method: 'PUT', path: '/bodies' });
});

afterAll(async () => {
  for (const connection of connections) connection.close();
  await gateway?.stop();
});

const versioned = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

/** Asks one thread, which answers by itself. */
async function ask(thread: number, message: Message) {
  const answer = await (connections[thread] as Connection).ask(target, message);
  expect(answer.status, answer.text).toBe(message.method === 'DELETE' ? 204 : 200);
  expect(answer.thread).toBe(thread);
  return answer;
}

async function sumOf(metric: string): Promise<number> {
  const lines = (await readMetrics(target)).split('\n').filter((line) => line.startsWith(metric));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const tagOf = (body: Buffer): string => `"${hash('md5', body)}"`;

it('each takes bodies of any size, which all find at once', async () => {
  const put = 'bursar_store_requests_total{store="local",kind="put"}';
  const before = await sumOf(put);
  for (const [thread] of connections.entries()) {
    const body = Buffer.alloc(3 * MiB, `of thread ${thread}`);
    await ask(thread, { method: 'PUT', path: '/bodies/large', body });
    for (const [reader] of connections.entries()) {
      const headers = { 'if-match': tagOf(body) };
      await ask(reader, { method: 'GET', path: '/bodies/large', headers });
    }
  }
  await expect.poll(() => sumOf(put), { timeout: 30_000 }).toBe(before + threads);
});

it('each has its part in an upload that another has begun', async () => {
  await ask(0, { method: 'PUT', path: '/bodies', query: [['versioning', '']], body: versioned });
  const path = '/bodies/of parts';
  const { text } = await ask(1, { method: 'POST', path, query: [['uploads', '']] });
  const uploadId: [string, string] = ['uploadId', /<UploadId>(.*?)</.exec(text)?.[1] as string];
  const parts = connections.map((_, thread) => Buffer.alloc(partBytes, `part ${thread}`));
  for (const [thread, body] of parts.entries()) {
    const query = [['partNumber', String(thread + 1)], uploadId] as [string, string][];
    await ask(thread, { method: 'PUT', path, query, body });
  }
  const copied = { 'x-amz-copy-source': '/bodies/large' };
  const query = [['partNumber', '4'], uploadId] as [string, string][];
  const copy = await ask(1, { method: 'PUT', path, query, headers: copied });
  const listed = await ask(2, { method: 'GET', path, query: [uploadId] });
  const tags = [...listed.text.matchAll(/<ETag>&quot;(.*?)&quot;</g)].map(([, tag]) => tag);
  expect(tags.slice(0, threads)).toEqual(parts.map((part) => hash('md5', part)));
  expect(copy.text).toContain(tags[threads]);
  const list = tags.map(
    (tag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${tag}</ETag></Part>`,
  );
  const body = `<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`;
  const done = await ask(2, { method: 'POST', path, query: [uploadId], body });
  expect(done.versionId).toBeDefined();
  const [, etag = ''] = /<ETag>&quot;(.*?)&quot;</.exec(done.text) ?? [];
  const whole = { 'x-amz-copy-source': encodeURI(path) };
  for (const [thread] of connections.entries()) {
    const copied = `/bodies/copied by ${thread}`;
    await ask(thread, { method: 'PUT', path: copied, headers: whole });
    const headers = { 'if-match': `"${etag}"` };
    await ask((thread + 1) % threads, { method: 'HEAD', path: copied, headers });
  }
});

it('waits for the main thread before a large body comes, and for no other', async () => {
  const last = threads - 1;
  const body = Buffer.alloc(3 * MiB, 'large');
  await gateway.block(0);
  let isStored = false;
  const storing = ask(last, { method: 'PUT', path: '/bodies/waits', body }).then(() => {
    isStored = true;
  });
  await ask(1, { method: 'PUT', path: '/bodies/small', body: 'small' });
  await ask(1, { method: 'GET', path: '/bodies/large' });
  expect([gateway.isBlocked(0), isStored]).toEqual([true, false]);
  gateway.release(0);
  await storing;
});

it('promises room to the bodies of all threads, for as long as they come', async () => {
  const [count, sentBytes] = [16, MiB];
  const sizeBytes = 50 * MiB;
  const { endpoint, keys } = target;
  const raw = new RawClient({ endpoint, ...keys });
  const sockets = Array.from({ length: count }, (_, i) => {
    const headers = { 'content-length': String(sizeBytes) };
    const socket = raw.connect();
    socket.write(raw.head('PUT', `/bodies/part${i}`, headers));
    socket.write(Buffer.alloc(sentBytes));
    return socket;
  });
  const promised = () => sumOf('bursar_disk_reserved_bytes ');
  await expect.poll(promised, { timeout: 30_000 }).toBe(count * (sizeBytes - sentBytes));
  for (const socket of sockets) socket.destroy();
  await expect.poll(promised, { timeout: 30_000 }).toBe(0);
});
