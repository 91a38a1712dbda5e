// A gateway whose S3 server, or the network to it, fails in every way there is. Clients get the
// right bytes or a documented error; an object is what it was or what it was to become; and when
// the fault is over, the bucket holds what the catalog names, and nothing else.
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Fault, FaultProxy } from '../tooling/fault-proxy.ts';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import { readMetrics } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type BackedGateway, startBackedGateway } from './backed-gateway.ts';
import { type Content, KiB, MiB, makeContent } from './content.ts';
import { postSlice, receive, verifyAll } from './integrity-client.ts';
import { element, pairs } from './load.ts';
import { Model, type Value } from './model.ts';
import { sleep } from './plain-start.ts';
import { type Answer, S3Client } from './s3-client.ts';
import { findStrayObjects } from './stray-objects.ts';

// A request may need all its tries, on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bucket = 'faulty';
const middle = 300 * KiB;
/** More than the buffers of a connection take. */
const extentBytes = 5 * MiB;
const internalError: Fault = { kind: 'status', status: 500, code: 'InternalError' };
const slowDown: Fault = { kind: 'status', status: 503, code: 'SlowDown' };

type Case = [title: string, fault: Fault];

const readFaults: Case[] = [
  ['reset before the answer', { kind: 'reset', at: 'answer' }],
  ['reset in mid-body', { kind: 'reset', at: 'download', afterBytes: middle }],
  ['truncated', { kind: 'truncate', afterBytes: middle }],
  ['stalled in mid-body', { kind: 'stall', at: 'download', afterBytes: middle }],
  ['never given', { kind: 'stall', at: 'answer' }],
  ['slow to begin', { kind: 'slow-first-byte', delayMs: 2000 }],
  ['a 500', internalError],
  ['a 503 SlowDown', slowDown],
  ['a success with an error document', { kind: 'error-in-200' }],
  ['an error document under the head of data', { kind: 'error-in-200', keepHeaders: true }],
  ['shorter, and says so', { kind: 'shorten', byBytes: 10 }],
  ['of another range', { kind: 'other-range' }],
  ['not HTTP', { kind: 'garbage' }],
];

const altered: Fault = { kind: 'flip', at: 'download', offset: 1000 };

const writeFaults: Case[] = [
  ['reset in mid-upload', { kind: 'reset', at: 'upload', afterBytes: 1000 }],
  ['stalled in mid-upload', { kind: 'stall', at: 'upload', afterBytes: 1000 }],
  ['done, and reset before the answer', { kind: 'reset', at: 'answer' }],
  ['done, and not answered', { kind: 'stall', at: 'answer' }],
  ['answered with a 500', internalError],
  ['done, and answered with a 500', { ...internalError, carriedOut: true }],
  ['answered with a 503 SlowDown', slowDown],
  ['altered on the way', { kind: 'flip', at: 'upload', offset: 1000 }],
  ['answered with an error document in a success', { kind: 'error-in-200' }],
  ['not answered in HTTP', { kind: 'garbage' }],
];

const small = makeContent(1, 4 * KiB);
/** Of two extents. */
const large = makeContent(2, extentBytes + MiB);
const newSmall = makeContent(3, 4 * KiB);
const newLarge = makeContent(4, extentBytes + MiB);
const range = { start: extentBytes - MiB, end: extentBytes + 512 * KiB };

describeWithTool(versitygw, 'a gateway on a faulty S3 server', (path) => {
  let backed: BackedGateway;
  let proxy: FaultProxy;
  let client: S3Client;
  const model = new Model();

  beforeAll(async () => {
    backed = await startBackedGateway({
      path,
      endpointOf: async (backend) => {
        proxy = await FaultProxy.start(backend.port);
        return proxy.endpoint;
      },
      settings: {
        extentBytes: String(extentBytes),
        ...{ connectTimeout: '500ms', firstByteTimeout: '500ms', stallTimeout: '500ms' },
      },
      args: ['--sweep-interval', '200ms', '--sweep-grace', '0ms'],
    });
    client = new S3Client(backed.gateway);
    expect((await client.send('PUT', `/${bucket}`)).status).toBe(200);
    await tryPut('small', small);
    await tryPut('large', large);
  });

  afterEach(() => recover());

  afterAll(async () => {
    client?.close();
    await backed?.stop();
    await proxy?.stop();
  });

  /** The next `count` requests to the server with this method meet the fault. */
  function inject(method: string, fault: Fault, count = Number.POSITIVE_INFINITY): void {
    let left = count;
    proxy.choose = (request) => {
      if (request.method !== method || left === 0) return undefined;
      left--;
      return fault;
    };
  }

  /** Faults end, and the gateway finds out by itself. */
  async function recover(): Promise<void> {
    proxy.choose = () => undefined;
    for (let tries = 0; tries < 400; tries++) {
      const { body } = await client.send('GET', '/_/v1/health');
      if (JSON.parse(body.toString()).stores.cloud.ready) return;
      await sleep(50);
    }
    throw new Error('the store is not ready again');
  }

  function send(key: string, { bytes: body }: Content) {
    return client.send('PUT', `/${bucket}/${key}`, { body });
  }

  async function put(key: string, content: Content): Promise<void> {
    const { status, body } = await send(key, content);
    expect(`${status} ${body}`).toBe('200 ');
  }

  /** An operation that may be refused, and then is done or not. */
  async function attempt(values: [string, Value][], act: () => Promise<Answer>): Promise<void> {
    const refusal = new Error('refused');
    const run = async () => {
      const answer = await act();
      if (answer.status < 300) return;
      expectRefusal(answer);
      throw refusal;
    };
    await model.change(values, run).catch((error: unknown) => {
      if (error !== refusal) throw error;
    });
  }

  function tryPut(key: string, content: Content): Promise<void> {
    return attempt([[`${bucket}/${key}`, content]], () => send(key, content));
  }

  /** What is there is what the model has, or may have. */
  async function expectRight(key: string): Promise<void> {
    const name = `${bucket}/${key}`;
    const { status, ...digest } = await client.digest(`/${name}`);
    expect([200, 404]).toContain(status);
    expect(model.accept(name, status === 404 ? null : digest)).toBe(true);
  }

  async function read(key: string): Promise<Buffer> {
    const { status, body } = await client.send('GET', `/${bucket}/${key}`);
    expect(status).toBe(200);
    return body;
  }

  /** An error that S3's clients know, with its document. */
  function expectRefusal({ status, body }: { status: number; body: Buffer }): void {
    expect(status).toBe(503);
    expect(['ServiceUnavailable', 'SlowDown']).toContain(element(body, 'Code'));
  }

  describe('whose answers to reads are at first', () => {
    it.each(readFaults)('%s: clients get the right bytes', async (_title, fault) => {
      inject('GET', fault, 2);
      expect((await read('small')).equals(small.bytes)).toBe(true);
      inject('GET', fault, 2);
      expect((await read('large')).equals(large.bytes)).toBe(true);
      inject('GET', fault, 2);
      const { start, end } = range;
      const headers = { range: `bytes=${start}-${end - 1}` };
      const part = await client.send('GET', `/${bucket}/large`, { headers });
      expect(part.status).toBe(206);
      expect(part.body.equals(large.bytes.subarray(start, end))).toBe(true);
    });
  });

  describe('whose answer to a read is once', () => {
    it.each<Case>([
      ['altered', altered],
      ['that there is no such object', { kind: 'status', status: 404, code: 'NoSuchKey' }],
      ['that the object is shorter', { kind: 'status', status: 416, code: 'InvalidRange' }],
    ])('%s: it is asked for again, and that is counted', async (_title, fault) => {
      const retried = async (): Promise<number> => {
        const text = await readMetrics(backed.gateway);
        const labels = { store: 'cloud', cause: 'damaged' };
        return totalOf(parseMetrics(text), 'bursar_store_retries_total', labels);
      };
      const before = await retried();
      for (const [key, content] of [
        ['small', small],
        ['large', large],
      ] as const) {
        inject('GET', fault, 1);
        expect((await read(key)).equals(content.bytes)).toBe(true);
      }
      await expect.poll(async () => (await retried()) - before).toBe(2);
    });
  });

  describe('whose answers to reads are all', () => {
    it.each(readFaults)('%s: clients get right bytes only, or a refusal', async (_title, fault) => {
      inject('GET', fault);
      const expectPrefix = async (key: string, { bytes }: Content): Promise<void> => {
        const received = await receive(client, `/${bucket}/${key}`);
        if (received.status !== 200) expectRefusal({ ...received, body: received.bytes });
        else {
          expect(received.bytes.equals(bytes.subarray(0, received.bytes.length))).toBe(true);
          expect(received.isCut).toBe(received.bytes.length < bytes.length);
        }
      };
      await Promise.all([expectPrefix('small', small), expectPrefix('large', large)]);
      await recover();
      expect((await read('large')).equals(large.bytes)).toBe(true);
    });

    it('altered: clients get not one altered byte', async () => {
      inject('GET', altered);
      for (const key of ['small', 'large']) {
        const received = await receive(client, `/${bucket}/${key}`);
        expect(received.status).toBe(500);
        expect(element(received.bytes, 'Code')).toBe('BursarIntegrityError');
      }
    });
  });

  describe('whose answers to writes are at first', () => {
    it.each(writeFaults)('%s: what is sent is stored', async (_title, fault) => {
      inject('PUT', fault, 2);
      await put('written', newSmall);
      expect((await read('written')).equals(newSmall.bytes)).toBe(true);
      inject('PUT', fault, 2);
      await put('written', newLarge);
      expect((await read('written')).equals(newLarge.bytes)).toBe(true);
      inject('DELETE', fault, 2);
      expect((await client.send('DELETE', `/${bucket}/written`)).status).toBe(204);
    });
  });

  describe('whose answers to writes are all', () => {
    it.each(writeFaults)('%s: an object is its old self or its new', async (_title, fault) => {
      inject('PUT', fault);
      await Promise.all([tryPut('small', newSmall), tryPut('large', newLarge)]);
      await recover();
      await expectRight('small');
      await expectRight('large');
    });

    it.each(writeFaults)('%s: an upload of parts goes on afterwards', async (_title, fault) => {
      const path = `/${bucket}/parts`;
      const begun = await client.send('POST', path, { query: pairs({ uploads: '' }) });
      const uploadId = element(begun.body, 'UploadId');
      const part = { query: pairs({ partNumber: '1', uploadId }), body: newLarge.bytes };
      inject('PUT', fault);
      const answer = await client.send('PUT', path, part);
      if (answer.status !== 200) expectRefusal(answer);
      await recover();
      const { etag } = (await client.send('PUT', path, part)).headers;
      const list = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
      const body = Buffer.from(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`);
      const done = await client.send('POST', path, { query: pairs({ uploadId }), body });
      expect(done.status).toBe(200);
      expect((await read('parts')).equals(newLarge.bytes)).toBe(true);
    });

    it.each(writeFaults)('%s: a deleted object is there or gone', async (_title, fault) => {
      inject('PUT', fault);
      const name = `${bucket}/parts`;
      await attempt([[name, null]], () => client.send('DELETE', `/${name}`));
      await recover();
      await expectRight('parts');
      await tryPut('parts', small);
    });
  });

  it('that is gone is answered for at once, and found again by itself', async () => {
    await proxy.refuse();
    while ((await client.send('GET', `/${bucket}/small`)).status !== 503) await sleep(10);
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        if (i % 2 === 0) expectRefusal(await client.send('GET', `/${bucket}/large`));
        else expectRefusal(await send('gone', newSmall));
      }),
    );
    const listed = await client.send('GET', `/${bucket}`);
    expect(listed.status).toBe(200);
    await proxy.accept();
    await recover();
    await expectRight('large');
    await put('gone', newSmall);
  });

  it('that asks to slow down is asked for next to nothing meanwhile', async () => {
    proxy.choose = () => slowDown;
    for (let i = 0; i < 10; i++) await client.send('GET', `/${bucket}/small`);
    const asked = proxy.requests;
    for (let i = 0; i < 100; i++) {
      expectRefusal(await client.send('GET', `/${bucket}/small`));
    }
    expect(proxy.requests - asked).toBeLessThan(20);
  });

  it('that is gone is no damage of the data in it', async () => {
    await proxy.refuse();
    const answer = await postSlice(client, {});
    expect(answer.status).toBe(503);
    await proxy.accept();
    await recover();
    expect((await verifyAll(client)).findings).toEqual([]);
  });

  it('keeps nothing that the catalog does not name, and all that it names', async () => {
    client.close();
    // Intents of uploads that failed are of an earlier run then, and swept.
    await backed.restart();
    client = new S3Client(backed.gateway);
    expect(await findStrayObjects(backed.storeDir, backed.gateway.dataDir)).toEqual([]);
    await expectRight('small');
    await expectRight('large');
    expect((await read('gone')).equals(newSmall.bytes)).toBe(true);
  });
});
