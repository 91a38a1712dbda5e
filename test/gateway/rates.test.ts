// Rates of accounts on a served gateway: what is refused and when, what is only slowed down, and
// whom it concerns.
import { createHash } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ended, RawClient } from '../limits/raw-client.ts';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  exchange,
  type Message,
  newPrincipal,
  patternOf,
  send,
  signMessage,
  startEmbeddedTarget,
  startS3Target,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const KiB = 1024;
const isFull = process.env.BURSAR_FULL === '1';

let target: Target;
let alice: Target;
let bob: Target;
let raw: RawClient;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'cms' });
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  bob = as(target, await newPrincipal(target, { tenant: 'cms', name: 'bob' }));
  raw = new RawClient({ ...alice, ...alice.keys });
  await send(alice, { method: 'PUT', path: '/raw' });
  const put = await send(alice, { method: 'PUT', path: '/raw/small', body: 'content' });
  expect(put.status, put.text).toBe(200);
});
afterAll(async () => {
  raw?.close();
  await target?.stop();
});

function limit(account: string, rate: { requests?: number; bytes?: number } | null) {
  return putLimits(target, account, rate && { rate });
}

/** Sends until the rate is used up; gives the refusal. */
async function untilRefused(by: Target, message: Message): Promise<Answer> {
  for (let i = 0; i < 100; i++) {
    const answer = await send(by, message);
    if (answer.status === 503) return answer;
    expect(answer.status, answer.text).toBe(200);
  }
  throw new Error('it was never refused');
}

describe('a principal that may make 3 requests per second', () => {
  beforeEach(async () => {
    await limit('principal:cms/alice', null);
    await limit('principal:cms/alice', { requests: 3 });
  });
  afterAll(() => limit('principal:cms/alice', null));

  it('is told to slow down, by whom and for how long, and may go on after that', async () => {
    const message = { method: 'GET', path: '/raw/small' };
    const refused = await untilRefused(alice, message);
    expect(refused.code).toBe('SlowDown');
    expect(refused.headers['retry-after']).toBe('1');
    expect(elementOf(refused.text, 'Account')).toBe('principal:cms/alice');
    expect(elementOf(refused.text, 'Message')).toMatch(/3 requests per second.*in 1 s/);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect((await send(alice, message)).status).toBe(200);
  });

  it('is charged nothing for what is refused, and nothing of it is stored', async () => {
    await untilRefused(alice, { method: 'GET', path: '/raw/small' });
    const body = patternOf(100);
    const refused = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        send(alice, { method: 'PUT', path: `/raw/late${i}`, body }),
      ),
    );
    const late = refused.flatMap(({ status }, i) => (status === 503 ? [`/raw/late${i}`] : []));
    expect(late.length).toBeGreaterThan(10);
    await limit('principal:cms/alice', null);
    for (const path of late) {
      expect((await send(alice, { method: 'HEAD', path })).status).toBe(404);
    }
    const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['principal', 'alice'],
      ['tenant', 'cms'],
      ['limit', '1000'],
    ]);
    const slowed = records.filter((record: { error?: string }) => record.error === 'SlowDown');
    expect(slowed.length).toBeGreaterThanOrEqual(late.length);
    for (const record of slowed) expect(record.cost).toBeUndefined();
  });

  it('is refused before a body is sent', async () => {
    await untilRefused(alice, { method: 'GET', path: '/raw/small' });
    const headers = { 'content-length': '1000000', expect: '100-continue' };
    let said = '';
    for (let i = 0; i < 10 && !said.includes('503'); i++) {
      const socket = raw.connect();
      socket.write(raw.head('PUT', '/raw/never', headers));
      said = await new Promise((resolve) => {
        socket.once('data', (data) => resolve(String(data)));
      });
      socket.destroy();
    }
    expect(said).toMatch(/^HTTP\/1\.1 503 /);
    expect(said).not.toContain('100 Continue');
  });

  it('waits, and is not refused, when it deletes, aborts and administers', async () => {
    const initiated = await send(alice, {
      method: 'POST',
      path: '/raw/parts',
      query: [['uploads', '']],
    });
    const uploadId = elementOf(initiated.text, 'UploadId') ?? '';
    await untilRefused(alice, { method: 'GET', path: '/raw/small' });
    const beganMs = performance.now();
    for (let i = 0; i < 5; i++) {
      const deleted = await send(alice, { method: 'DELETE', path: `/raw/gone${i}` });
      expect(deleted.status).toBe(204);
      expect((await send(alice, { method: 'GET', path: '/_/v1/whoami' })).status).toBe(200);
    }
    const query: [string, string][] = [['uploadId', uploadId]];
    const aborted = await send(alice, { method: 'DELETE', path: '/raw/parts', query });
    expect(aborted.status).toBe(204);
    // Eleven calls at three a second, none of which was left.
    expect(performance.now() - beganMs).toBeGreaterThan(2500);
  });

  it.runIf(isFull)(
    'has long deletes wait for half a minute, and then ends them key by key',
    async () => {
      await limit('principal:cms/alice', { requests: 1 });
      const keys = Array.from({ length: 1000 }, (_, i) => `<Object><Key>none/${i}</Key></Object>`);
      const body = `<Delete>${keys.join('')}</Delete>`;
      const digest = createHash('md5').update(body).digest('base64');
      const query: [string, string][] = [['delete', '']];
      const answers = await Promise.all(
        Array.from({ length: 8 }, () =>
          send(alice, {
            ...{ method: 'POST', path: '/raw', query, body },
            headers: { 'content-md5': digest },
          }),
        ),
      );
      let refusedCount = 0;
      for (const { status, text } of answers) {
        expect(status, text).toBe(200);
        const refused = text.match(/<Error><Key>none\/\d+<\/Key><Code>SlowDown<\/Code>/g) ?? [];
        const deleted = text.match(/<Deleted>/g) ?? [];
        expect(refused.length + deleted.length).toBe(1000);
        expect(deleted.length).toBeGreaterThanOrEqual(100);
        refusedCount += refused.length;
      }
      expect(refusedCount).toBeGreaterThan(0);
    },
  );

  it('does not slow others down', async () => {
    await untilRefused(alice, { method: 'GET', path: '/raw/small' });
    expect((await send(bob, { method: 'GET', path: '/' })).status).toBe(200);
  });
});

describe('a bucket that takes 2 requests per second', () => {
  beforeAll(() => limit('bucket:cms/raw', { requests: 2 }));
  afterAll(() => limit('bucket:cms/raw', null));

  it('is not used up by who may not reach it', async () => {
    for (let i = 0; i < 20; i++) {
      expect((await exchange(target, 'GET', '/cms:raw/small')).status).not.toBe(503);
      expect((await send(bob, { method: 'GET', path: '/raw/small' })).status).toBe(403);
    }
    expect((await send(alice, { method: 'GET', path: '/raw/small' })).status).toBe(200);
  });

  it('holds for its owner too', async () => {
    const refused = await untilRefused(alice, { method: 'HEAD', path: '/raw/small' });
    expect(refused.headers['retry-after']).toBe('1');
  });
});

describe('a principal that may move 128 KiB per second', () => {
  const perSecond = 128 * KiB;
  const body = patternOf(5 * perSecond);

  beforeEach(async () => {
    await limit('principal:cms/alice', null);
    const put = await send(alice, { method: 'PUT', path: '/raw/large', body });
    expect(put.status, put.text).toBe(200);
    await limit('principal:cms/alice', { bytes: perSecond });
  });
  afterAll(() => limit('principal:cms/alice', null));

  /**
   * Of five seconds' worth one may come at once, and the last stretch, of one, ahead of its time.
   */
  const leastMs = 2900;

  it('uploads at that rate, and what is stored is whole', async () => {
    const beganMs = performance.now();
    const put = await send(alice, { method: 'PUT', path: '/raw/slow', body });
    expect(put.status, put.text).toBe(200);
    expect(performance.now() - beganMs).toBeGreaterThan(leastMs);
    await limit('principal:cms/alice', null);
    const got = await send(alice, { method: 'GET', path: '/raw/slow' });
    expect(got.body.equals(body)).toBe(true);
  });

  it('downloads at that rate, what is small and what is large', async () => {
    for (let i = 0; i < 3; i++) {
      const part = body.subarray(i * 60_000, (i + 1) * 60_000);
      await limit('principal:cms/alice', null);
      await send(alice, { method: 'PUT', path: `/raw/inline${i}`, body: part });
    }
    await limit('principal:cms/alice', { bytes: perSecond });
    const beganMs = performance.now();
    const got = await send(alice, { method: 'GET', path: '/raw/large' });
    expect(got.body.equals(body)).toBe(true);
    expect(performance.now() - beganMs).toBeGreaterThan(leastMs);
    const small = await Promise.all(
      [0, 1, 2].map((i) => send(alice, { method: 'GET', path: `/raw/inline${i}` })),
    );
    small.forEach(({ body: part }, i) => {
      expect(part.equals(body.subarray(i * 60_000, (i + 1) * 60_000))).toBe(true);
    });
    // All of it is six seconds' worth and a third, of which one may come at once.
    expect(performance.now() - beganMs).toBeGreaterThan(5200);
  });

  it('downloads at once and one after the other, each whole', async () => {
    const first = await open({ method: 'GET', path: '/raw/large' });
    expect(first.statusCode).toBe(200);
    const second = await open({ method: 'GET', path: '/raw/large' });
    expect(second.statusCode).toBe(200);
    const digests = await Promise.all([first, second].map(digestOf));
    const expected = createHash('sha256').update(body).digest('hex');
    expect(digests).toEqual([expected, expected]);
  });
});

describe('clients that leave while they wait', () => {
  afterAll(() => limit('principal:cms/alice', null));

  it('free their places, and are charged what they were sent', async () => {
    await limit('principal:cms/alice', null);
    const put = await send(alice, { method: 'PUT', path: '/raw/left', body: patternOf(300_000) });
    expect(put.status).toBe(200);
    // The first takes what it gets at once, for which all others would wait for days.
    await limit('principal:cms/alice', { bytes: 1 });
    const sockets = Array.from({ length: 20 }, () => {
      const socket = raw.connect();
      socket.write(raw.head('GET', '/raw/left'));
      return socket;
    });
    await Promise.race(sockets.map((socket) => new Promise((r) => socket.once('data', r))));
    for (const socket of sockets) socket.destroy();
    let left: { bytesOut: number }[] = [];
    while (left.length < 20) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
        ['tenant', 'cms'],
        ['prefix', 'left'],
        ['limit', '1000'],
      ]);
      left = records.filter(({ action }: { action: string }) => action === 's3:GetObject');
    }
    expect(left.length).toBe(20);
    expect(left.filter(({ bytesOut }) => bytesOut > 0).length).toBe(1);
  });

  it('do not keep the gateway from going on with others', async () => {
    const socket = raw.connect();
    socket.write(raw.head('PUT', '/raw/crawl', { 'content-length': '500000' }));
    socket.write(Buffer.alloc(200_000));
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await send(bob, { method: 'GET', path: '/' })).status).toBe(200);
    socket.destroy();
    await ended(socket);
  });
});

describe('streams that are slowed down, in a gateway with few buffers and little patience', () => {
  it('make room for others, and are not cut for it, nor for being slow', async () => {
    const gateway = await startServedGateway({
      args: ['--buffer-memory', '16MiB', '--stall-timeout', '1s'],
    });
    const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
    const keys = { accessKeyId, secretAccessKey };
    const operator = { endpoint, keys, strayNames: () => [], stop };
    const slow = as(operator, await newPrincipal(operator, { name: 'slow' }));
    const client = new RawClient({ ...slow, ...slow.keys });
    await send(slow, { method: 'PUT', path: '/big' });
    const body = patternOf(3_000_000);
    expect((await send(slow, { method: 'PUT', path: '/big/object', body })).status).toBe(200);
    await putLimits(operator, 'principal:default/slow', { rate: { bytes: 1024 * KiB } });
    // More than the buffers are for: each is at one chunk for many seconds.
    const sockets = Array.from({ length: 80 }, () => {
      const socket = client.connect();
      socket.write(client.head('GET', '/big/object'));
      socket.resume();
      return socket;
    });
    const begun = sockets.slice(0, 20).map((socket) => new Promise((r) => socket.once('data', r)));
    await Promise.all(begun);
    await send(operator, { method: 'PUT', path: '/other' });
    for (let i = 0; i < 3; i++) {
      const put = await send(operator, { method: 'PUT', path: `/other/${i}`, body });
      expect(put.status, put.text).toBe(200);
      const got = await send(operator, { method: 'GET', path: `/other/${i}` });
      expect(got.body.equals(body)).toBe(true);
    }
    expect(sockets.filter(({ closed }) => closed)).toEqual([]);
    client.close();
    // Its pauses are of two seconds.
    await putLimits(operator, 'principal:default/slow', { rate: { bytes: 128 * KiB } });
    const put = await send(slow, { method: 'PUT', path: '/big/up', body: patternOf(600 * KiB) });
    expect(put.status, put.text).toBe(200);
    await stop();
  });
});

describeWithTool(versitygw, 'with the bytes in an S3 store', (path) => {
  it('uploads and downloads at a rate, whole, from the middle too', async () => {
    const backed = await startS3Target(path);
    await send(backed, { method: 'PUT', path: '/far' });
    const rate = { bytes: 2 * 1024 * KiB };
    await putLimits(backed, 'bucket:default/far', { rate });
    const body = patternOf(5_000_000);
    const beganMs = performance.now();
    const put = await send(backed, { method: 'PUT', path: '/far/object', body });
    expect(put.status, put.text).toBe(200);
    const got = await send(backed, { method: 'GET', path: '/far/object' });
    expect(got.body.equals(body)).toBe(true);
    // Nearly five seconds' worth, of which one may come at once, and the last stretch ahead.
    expect(performance.now() - beganMs).toBeGreaterThan(3400);
    const headers = { range: 'bytes=1000001-2000000' };
    const part = await send(backed, { method: 'GET', path: '/far/object', headers });
    expect(part.body.equals(body.subarray(1_000_001, 2_000_001))).toBe(true);
    await backed.stop();
  });
});

function open(message: Message): Promise<IncomingMessage> {
  const { path, headers } = signMessage(alice, message);
  const { hostname, port } = new URL(target.endpoint);
  const { method } = message;
  return new Promise((resolve, reject) => {
    const asked = httpRequest({ hostname, port, method, path, headers, agent: false }, resolve);
    asked.on('error', reject);
    asked.end();
  });
}

async function digestOf(response: IncomingMessage): Promise<string> {
  const sha256 = createHash('sha256');
  for await (const piece of response) sha256.update(piece as Buffer);
  return sha256.digest('hex');
}
