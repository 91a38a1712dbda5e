import { readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import type { Fault } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { listed, newId, piecesOf, readWhole, type S3Rig, startS3Rig } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const KiB = 1024;
const faults: Fault[] = [
  { kind: 'reset', at: 'answer' },
  { kind: 'reset', at: 'upload', afterBytes: 10_000 },
  { kind: 'reset', at: 'download', afterBytes: 10_000 },
  { kind: 'stall', at: 'answer' },
  { kind: 'stall', at: 'download', afterBytes: 10_000 },
  { kind: 'truncate', afterBytes: 10_000 },
  { kind: 'shorten', byBytes: 10 },
  { kind: 'status', status: 500, code: 'InternalError' },
  { kind: 'status', status: 503, code: 'SlowDown' },
  { kind: 'error-in-200' },
  { kind: 'garbage' },
];

describeWithTool(versitygw, 'after a thousand faults', (path) => {
  let rig: S3Rig;
  let store: S3Store;

  beforeAll(async () => {
    rig = await startS3Rig(path);
    const short = { connectTimeoutMs: 60, firstByteTimeoutMs: 60, stallTimeoutMs: 60 };
    store = await rig.open({ ...short, connectionsMax: 16 });
  });
  afterAll(() => rig?.stop());

  function countFaults(): number {
    return Object.values(rig.proxy.faults).reduce((sum, count) => sum + count, 0);
  }

  /** Puts and reads until so many faults have been met, and notes what was stored. */
  async function sufferFaults(count: number, stored: Map<string, Buffer>): Promise<void> {
    const end = countFaults() + count;
    // Four requests of five fail, so that all tries of some do.
    rig.proxy.choose = ({ index }) => (index % 5 === 0 ? undefined : faults[index % faults.length]);
    const work = async (): Promise<void> => {
      while (countFaults() < end) {
        const id = newId();
        const pieces = piecesOf([40 * KiB, 25 * KiB]);
        const whole = Buffer.concat(pieces);
        const isStored = await store.put(id, pieces).then(
          () => true,
          () => false,
        );
        if (isStored) stored.set(id.toString('hex'), whole);
        const got = await readWhole(store, id, whole.length).catch(() => null);
        if (got) expect(got.equals(whole)).toBe(true);
      }
    };
    await Promise.all(Array.from({ length: 16 }, work));
    rig.proxy.choose = () => undefined;
  }

  async function countResources(): Promise<{ descriptors: number; heapBytes: number }> {
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (let i = 0; i < 3; i++) {
      collectGarbage();
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { heapUsed, external } = process.memoryUsage();
    const descriptors = readdirSync('/proc/self/fd').length;
    return { descriptors, heapBytes: heapUsed + external };
  }

  it('what was stored is there and whole, and nothing else has leaked', {
    timeout: 120_000,
  }, async () => {
    const stored = new Map<string, Buffer>();
    await sufferFaults(200, stored);
    stored.clear();
    const before = await countResources();
    await sufferFaults(1000, stored);
    expect(stored.size).toBeGreaterThan(10);
    for (const [hex, bytes] of stored) {
      const got = await readWhole(store, Buffer.from(hex, 'hex'), bytes.length);
      expect(got.equals(bytes)).toBe(true);
    }
    for (const sizeBytes of Object.values(await listed(store))) expect(sizeBytes).toBe(65 * KiB);

    stored.clear();
    const after = await countResources();
    // A connection has a descriptor at each end, and the proxy one to the server.
    expect(after.descriptors - before.descriptors).toBeLessThanOrEqual(16 * 3);
    expect(after.heapBytes - before.heapBytes).toBeLessThan(8 * KiB * KiB);
    expect(store.state()).toMatchObject({ inFlight: 0, waiting: 0 });
    expect(rig.proxy.connections).toBeLessThanOrEqual(17);
  });

  it('no connection is left when the store is closed', async () => {
    await store.close();
    for (let i = 0; i < 200 && rig.proxy.connections > 0; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(rig.proxy.connections).toBe(0);
  });
});
