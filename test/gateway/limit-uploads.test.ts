// Uploads at their limits on a served gateway: those that say how long they are, those that do not,
// and those that say less than they send.
import { request as httpRequest } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RawClient } from '../limits/raw-client.ts';
import {
  as,
  callNative,
  elementOf,
  newPrincipal,
  send,
  signMessage,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';

const limitBytes = 300_000;
const account = 'principal:default/alice';

let target: Target;
let alice: Target;
let raw: RawClient;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  alice = as(target, await newPrincipal(target, { name: 'alice' }));
  raw = new RawClient({ ...alice, ...alice.keys });
  expect((await send(alice, { method: 'PUT', path: '/raw' })).status).toBe(200);
});
afterAll(async () => {
  raw?.close();
  await target?.stop();
});
afterEach(() => putLimits(target, account, null));

interface Ended {
  status: number;
  code: string | undefined;
  /** Of the body, as far as the client could get rid of it. */
  sentBytes: number;
}

/** An upload in aws-chunked frames, sent in HTTP chunks: only the decoded length is declared. */
function uploadFrames(
  key: string,
  declaredBytes: number,
  frames: Iterable<Buffer>,
  more: Record<string, string> = {},
): Promise<Ended> {
  const path = `/raw/${key}`;
  const { headers } = signMessage(alice, {
    method: 'PUT',
    path,
    payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    headers: { 'x-amz-decoded-content-length': String(declaredBytes), ...more },
  });
  const { hostname, port } = new URL(target.endpoint);
  return new Promise((resolve, reject) => {
    let sentBytes = 0;
    const asked = httpRequest({ hostname, port, method: 'PUT', path, headers, agent: false });
    asked.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece;
      });
      const { statusCode: status = 0 } = response;
      response.on('end', () => resolve({ status, code: elementOf(text, 'Code'), sentBytes }));
      response.on('error', reject);
    });
    asked.on('error', reject);
    const pieces = frames[Symbol.iterator]();
    const pump = (): void => {
      for (let next = pieces.next(); ; next = pieces.next()) {
        if (next.done) return void asked.end();
        sentBytes += next.value.length;
        if (!asked.write(next.value)) return void asked.once('drain', pump);
      }
    };
    pump();
  });
}

/** So many frames of one byte each, a thousand to a piece, and the end. */
function* tinyFrames(count: number): Iterable<Buffer> {
  for (let left = count; left > 0; left -= 1000) {
    yield Buffer.from('1\r\nx\r\n'.repeat(Math.min(left, 1000)));
  }
  yield Buffer.from('0\r\n\r\n');
}

async function usedBytes(): Promise<number> {
  const { headers } = signMessage(target, { method: 'GET', path: `/_/v1/limits/${account}` });
  const url = `${target.endpoint}/_/v1/limits/${encodeURIComponent(account)}`;
  const { caps } = JSON.parse(await (await fetch(url, { headers })).text());
  return Number(caps.find(({ meter }: { meter: string }) => meter === 'ingressBytes').used);
}

async function recordOf(key: string) {
  // A commit: what is to be recorded before it is recorded with it.
  await putLimits(target, 'tenant:default', null);
  const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
    ['principal', 'alice'],
    ['bucket', 'raw'],
    ['prefix', key],
  ]);
  return records.find(({ action }: { action: string }) => action === 's3:PutObject');
}

async function isStored(key: string): Promise<boolean> {
  return (await send(alice, { method: 'HEAD', path: `/raw/${key}` })).status === 200;
}

describe('with a limit on what comes in', () => {
  let before: number;
  beforeEach(async () => {
    await putLimits(target, account, { ingressBytes: { total: 1 } });
    before = await usedBytes();
    await putLimits(target, account, { ingressBytes: { total: before + limitBytes } });
  });

  it('a body that says how long it is, is refused before it is sent', async () => {
    const socket = raw.connect();
    const headers = { 'content-length': String(limitBytes + 1), expect: '100-continue' };
    socket.write(raw.head('PUT', '/raw/told', headers));
    const said = String(await new Promise((resolve) => socket.once('data', resolve)));
    expect(said).toMatch(/^HTTP\/1\.1 403 /);
    expect(said).toContain('<Code>QuotaExceeded</Code>');
    expect(await recordOf('told')).toMatchObject({ error: 'QuotaExceeded', bytesIn: 0 });
    expect(await usedBytes()).toBe(before);
  });

  it('frames much larger than what they carry are stopped where they were let in', async () => {
    // 100,000 bytes are declared, which fit; in frames of one byte they are 600,000.
    const { status, code } = await uploadFrames('tiny', 100_000, tinyFrames(100_000));
    expect([status, code]).toEqual([403, 'QuotaExceeded']);
    expect(await isStored('tiny')).toBe(false);
    const used = (await usedBytes()) - before;
    expect(used).toBeLessThanOrEqual(limitBytes);
    const record = await recordOf('tiny');
    expect(record).toMatchObject({ error: 'QuotaExceeded' });
    expect(record.bytesIn).toBeLessThanOrEqual(limitBytes);
  });

  it('frames that fit are stored, and charged as they were sent', async () => {
    const { status, sentBytes } = await uploadFrames('fits', 20_000, tinyFrames(20_000));
    expect(status).toBe(200);
    expect(sentBytes).toBe(120_005);
    expect((await usedBytes()) - before).toBe(sentBytes);
    expect(await recordOf('fits')).toMatchObject({ bytesIn: sentBytes });
  });

  it('more than was declared is refused at once, and what came is charged at most', async () => {
    const { status, code } = await uploadFrames('more', 10, tinyFrames(100_000));
    expect([status, code]).toEqual([400, 'IncompleteBody']);
    expect(await isStored('more')).toBe(false);
    expect((await usedBytes()) - before).toBeLessThanOrEqual(limitBytes);
  });

  it('twenty such uploads at once stay within it together', async () => {
    const ended = await Promise.all(
      Array.from({ length: 20 }, (_, i) => uploadFrames(`many${i}`, 5000, tinyFrames(5000))),
    );
    const stored = ended.filter(({ status }) => status === 200);
    const refused = ended.filter(({ code }) => code === 'QuotaExceeded');
    expect(stored.length + refused.length).toBe(20);
    expect(refused.length).toBeGreaterThan(0);
    const used = (await usedBytes()) - before;
    expect(used).toBeLessThanOrEqual(limitBytes);
    expect(used).toBeGreaterThanOrEqual(stored.length * 30_005);
  });
});

describe('without a length', () => {
  it('a plain body in HTTP chunks is refused, and none of it is taken', async () => {
    const socket = raw.connect();
    const headers = { 'transfer-encoding': 'chunked', expect: '100-continue' };
    socket.write(raw.head('PUT', '/raw/unknown', headers));
    const said = String(await new Promise((resolve) => socket.once('data', resolve)));
    expect(said).toMatch(/^HTTP\/1\.1 411 /);
  });
});

describe('with a limit on what is stored', () => {
  it('what would not fit is refused before it is sent, and deleting makes room', async () => {
    const carol = as(target, await newPrincipal(target, { name: 'carol' }));
    await putLimits(target, 'principal:default/carol', { storedBytes: { total: 100_000 } });
    await send(carol, { method: 'PUT', path: '/carols' });
    const body = Buffer.alloc(60_000);
    const put = (key: string) => send(carol, { method: 'PUT', path: `/carols/${key}`, body });
    expect((await put('first')).status).toBe(200);
    expect((await put('second')).code).toBe('QuotaExceeded');
    const client = new RawClient({ ...carol, ...carol.keys });
    const socket = client.connect();
    const headers = { 'content-length': '60000', expect: '100-continue' };
    socket.write(client.head('PUT', '/carols/second', headers));
    const said = String(await new Promise((resolve) => socket.once('data', resolve)));
    client.close();
    expect(said).toMatch(/^HTTP\/1\.1 403 [\s\S]*Deleting makes room/);
    await send(carol, { method: 'DELETE', path: '/carols/first' });
    expect((await put('second')).status).toBe(200);
  });
});
