// Answers that go on for ever, or that are easily misread, from a server of the test's own.
import { randomBytes } from 'node:crypto';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { type Oddity, startOddServer } from './odd-s3-server.ts';
import { listed, newId, readWhole } from './s3-rig.ts';

vi.setConfig({ testTimeout: 30_000 });

const options = {
  number: 2,
  name: 'remote',
  url: 's3://bucket/prefix',
  pathStyle: true,
  credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
  stallTimeoutMs: 300,
  retryPolicy: { triesMax: 2, pauseMsMin: 1, pauseMsMax: 2 },
};
const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function open(oddity: Oddity): Promise<S3Store> {
  const server = await startOddServer(oddity);
  closers.push(() => server.stop());
  const store = await S3Store.open({
    ...options,
    endpoint: server.endpoint,
    meter: new StoreMeter(),
  });
  closers.push(() => store.close());
  return store;
}

async function putOne(store: S3Store, sizeBytes: number): Promise<Buffer> {
  const id = newId();
  await store.put(id, [randomBytes(sizeBytes)]);
  return id;
}

describe('a server that never comes to the end', () => {
  it('is given up when its bytes only dribble in', async () => {
    const store = await open('dribbles');
    const id = await putOne(store, 64 * 1024);
    const refused = { code: 'ServiceUnavailable', cause: { reason: 'stall' } };
    await expect(readWhole(store, id, 64 * 1024)).rejects.toMatchObject(refused);
    expect(store.state()).toMatchObject({ inFlight: 0, failures: { stall: 2 } });
  });

  it('is given up when its error document is longer than any', async () => {
    const store = await open('complains without end');
    const id = await putOne(store, 1000);
    const refused = { code: 'ServiceUnavailable', cause: { reason: 'http-500' } };
    await expect(readWhole(store, id, 1000)).rejects.toMatchObject(refused);
    expect(store.state()).toMatchObject({ inFlight: 0, failures: { 'http-500': 2 } });
  });
});

describe('an opening', () => {
  it('that waits for its server is ended by its signal', async () => {
    const ending = new AbortController();
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      // The request has come, and nothing will be answered.
      socket.once('data', () => ending.abort(new Error('the gateway stops')));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closers.push(() => new Promise((resolve) => void server.close(() => resolve())));
    const { port } = server.address() as AddressInfo;
    const opening = S3Store.open({
      ...options,
      endpoint: `http://127.0.0.1:${port}`,
      firstByteTimeoutMs: 600_000,
      signal: ending.signal,
    });
    await expect(opening).rejects.toMatchObject({ code: 'ServiceUnavailable' });
  });
});

describe('a DELETE', () => {
  it('is not believed of a server that says 200 and keeps the object', async () => {
    const store = await open('deletes by word only');
    const id = await putOne(store, 1000);
    const refused = { code: 'ServiceUnavailable', cause: { reason: 'unproven' } };
    await expect(store.remove(id)).rejects.toMatchObject(refused);
    await store.putObject('mark', Buffer.from('1'));
    await store.removeObject('mark');
    expect(await store.getObject('mark')).toBeUndefined();
  });
});

describe('a listing', () => {
  it('goes on behind a page that is empty', async () => {
    const store = await open('has empty pages');
    const id = await putOne(store, 1000);
    expect(await listed(store)).toEqual({ [id.toString('hex')]: 1000 });
  });

  it.each<Oddity>([
    'breaks lists off',
    'lists elsewhere',
    'lists strangers',
    'lists in part',
    'lists twice',
    'lists without end',
  ])('is not believed of a server that %s', async (oddity) => {
    const store = await open(oddity);
    await putOne(store, 1000);
    const refused = { code: 'ServiceUnavailable', cause: { reason: 'wrong-body' } };
    await expect(listed(store)).rejects.toMatchObject(refused);
  });
});
