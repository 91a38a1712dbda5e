// Hundreds of faults of the S3 server under mixed load: afterwards every object is its old self or
// its new, the process has as many files open as before and hardly more memory, and the bucket
// holds what the catalog names and nothing else. BURSAR_FULL=1 has a thousand, and buffers for as
// many.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { memoryBytes, openFiles } from '../limits/process-figures.ts';
import { type Fault, FaultProxy } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type BackedGateway, startBackedGateway } from './backed-gateway.ts';
import { KiB, MiB, makeContent } from './content.ts';
import { element } from './load.ts';
import { Model, type Value } from './model.ts';
import { sleep } from './plain-start.ts';
import { type Answer, S3Client } from './s3-client.ts';
import { findStrayObjects } from './stray-objects.ts';

vi.setConfig({ testTimeout: 400_000, hookTimeout: 120_000 });

const isFull = process.env.BURSAR_FULL === '1';
const faultsMin = isFull ? 1000 : 100;
/** If each fault lost a buffer, none would be left. */
const bufferMemory = isFull ? '128MiB' : '26MiB';
const workersCount = 12;
const keysEach = 4;
const bucket = 'leaks';
/** The store's default. */
const connectionsMax = 64;
const growthBytesMax = (isFull ? 128 : 32) * MiB;

const faults: Fault[] = [
  { kind: 'reset', at: 'upload', afterBytes: 1000 },
  { kind: 'reset', at: 'answer' },
  { kind: 'reset', at: 'download', afterBytes: 1000 },
  { kind: 'truncate', afterBytes: 1000 },
  { kind: 'shorten', byBytes: 10 },
  { kind: 'status', status: 500, code: 'InternalError' },
  { kind: 'status', status: 500, code: 'InternalError', carriedOut: true },
  { kind: 'status', status: 503, code: 'SlowDown' },
  { kind: 'error-in-200' },
  { kind: 'garbage' },
];
/** These take their time, so they are rarer. */
const slowFaults: Fault[] = [
  { kind: 'stall', at: 'upload', afterBytes: 1000 },
  { kind: 'stall', at: 'answer' },
  { kind: 'stall', at: 'download', afterBytes: 1000 },
  { kind: 'slow-first-byte', delayMs: 1000 },
];

describeWithTool(versitygw, `${faultsMin} faults of an S3 server`, (path) => {
  const random = seededRandom(20261121);
  const model = new Model();
  let backed: BackedGateway;
  let proxy: FaultProxy;
  let client: S3Client;

  beforeAll(async () => {
    backed = await startBackedGateway({
      path,
      endpointOf: async (backend) => {
        proxy = await FaultProxy.start(backend.port);
        return proxy.endpoint;
      },
      settings: { connectTimeout: '500ms', firstByteTimeout: '500ms', stallTimeout: '500ms' },
      args: [
        ...['--sweep-interval', '200ms', '--sweep-grace', '0ms'],
        ...['--buffer-memory', bufferMemory],
      ],
    });
    client = new S3Client(backed.gateway);
    expect((await client.send('PUT', `/${bucket}`)).status).toBe(200);
  });

  afterAll(async () => {
    client?.close();
    await backed?.stop();
    await proxy?.stop();
  });

  /** Mixed load until `isDone`; each worker has keys of its own. */
  async function work(isDone: () => boolean): Promise<void> {
    const run = async (worker: number): Promise<void> => {
      while (!isDone()) await act(`${bucket}/${worker}-${randomBelow(random, keysEach)}`);
    };
    await Promise.all(Array.from({ length: workersCount }, (_, worker) => run(worker)));
  }

  async function act(name: string): Promise<void> {
    const chance = random();
    // Until it is settled what is there, nothing else is done to it.
    if (chance < 0.3 || model.doubts.has(name)) await read(name);
    else if (chance < 0.4) await change(name, null, () => client.send('DELETE', `/${name}`));
    else {
      const sizeBytes = chance < 0.8 ? 4 * KiB : chance < 0.98 ? 300 * KiB : 9 * MiB;
      const content = makeContent(randomBelow(random, 2 ** 31), sizeBytes);
      const body = content.bytes;
      await change(name, content, () => client.send('PUT', `/${name}`, { body }));
    }
  }

  async function change(name: string, value: Value, send: () => Promise<Answer>): Promise<void> {
    const refusal = new Error('refused');
    const run = async () => {
      const answer = await send();
      if (answer.status < 300) return;
      expect(`${answer.status} ${element(answer.body, 'Code')}`).toMatch(refusalPattern);
      throw refusal;
    };
    await model.change([[name, value]], run).catch((error: unknown) => {
      if (error !== refusal) throw error;
    });
  }

  /** What comes whole is right; a connection that is cut, and a refusal, say nothing. */
  async function read(name: string): Promise<boolean> {
    const found = await client.digest(`/${name}`).catch(() => null);
    if (found?.status === 200) expect(model.accept(name, found), name).toBe(true);
    else if (found?.status === 404) expect(model.accept(name, null), name).toBe(true);
    else if (found) expect(found.status).toBe(503);
    return found?.status === 200 || found?.status === 404;
  }

  /** Descriptors of the idle gateway, without its pool of connections to the server. */
  async function settleFiles(pid: number, filesMax: number): Promise<number> {
    client.close();
    client = new S3Client(backed.gateway);
    const count = () => openFiles(pid) - proxy.connections;
    for (let tries = 0; tries < 100 && count() > filesMax; tries++) await sleep(100);
    return count();
  }

  it('leave no file open, no memory behind, and no object half', async () => {
    const pid = backed.gateway.pid as number;
    let operations = 0;
    await work(() => operations++ >= 300);
    const before = { files: await settleFiles(pid, 0), memory: memoryBytes(pid) };

    let [quick, slow] = [0, 0];
    proxy.choose = () => {
      const chance = random();
      if (chance < 0.01) return slowFaults[slow++ % slowFaults.length];
      return chance < 0.25 ? faults[quick++ % faults.length] : undefined;
    };
    // Each of them at least once.
    await work(() => quick + slow >= faultsMin && slow >= slowFaults.length);
    proxy.choose = () => undefined;

    expect(await settleFiles(pid, before.files)).toBeLessThanOrEqual(before.files);
    expect(proxy.connections).toBeLessThanOrEqual(connectionsMax);
    expect(memoryBytes(pid) - before.memory).toBeLessThan(growthBytesMax);
    for (const name of model.names()) while (!(await read(name))) await sleep(50);
    // No buffer was lost: all together they would fill the pool.
    const body = makeContent(1, 20 * MiB).bytes;
    const uploads = Array.from({ length: isFull ? 8 : 2 }, async (_, i) => {
      expect((await client.send('PUT', `/${bucket}/after-${i}`, { body })).status).toBe(200);
    });
    await Promise.all(uploads);

    client.close();
    await backed.restart();
    client = new S3Client(backed.gateway);
    expect(await findStrayObjects(backed.storeDir, backed.gateway.dataDir)).toEqual([]);
    for (const name of model.names()) expect(await read(name)).toBe(true);
  });
});

const refusalPattern = /^503 (ServiceUnavailable|SlowDown)$/;
