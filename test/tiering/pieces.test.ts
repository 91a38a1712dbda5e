// Many runs in one chunk, as copies of slices of slices make them: the chunk is read once.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import type { ExtentRun } from '#bursar/core/manifest.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { type S3Rig, startS3Rig } from '../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { C, makeBytes, makeRandom, makeRig, type Rig } from './rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** Pieces of an object of one extent, anywhere, many of them in the same chunk. */
function cut({ runs }: WrittenObject, body: Buffer, count: number) {
  const [run] = runs as [ExtentRun];
  const random = makeRandom(count);
  const pieces: ExtentRun[] = [];
  const bytes: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    const stays = random() < 0.9 && i > 0;
    const chunk = stays
      ? Math.floor((pieces.at(-1) as ExtentRun).offset / C)
      : Math.floor(random() * (body.length / C));
    const offset = Math.min(chunk * C + Math.floor(random() * C), body.length - 1);
    const room = random() < 0.05 ? 3 * C : C - (offset % C);
    const length = Math.max(1, Math.floor(random() * Math.min(room, body.length - offset)));
    pieces.push({ ...run, offset, length });
    bytes.push(body.subarray(offset, offset + length));
  }
  return { pieces, bytes: Buffer.concat(bytes) };
}

async function readAll(rig: Rig, runs: ExtentRun[]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const options = { tenant: 'cms', runs, inlineBody: () => Promise.reject(new Error('inline')) };
  for await (const chunk of rig.reader.read(options)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

const body = makeBytes(4 * C + 1000);

describe('pieces of a local extent', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await makeRig();
  });
  afterAll(() => rig.close());

  it.each([1, 2, 50, 3000])(
    '%i of them read as their bytes, and give all buffers back',
    async (count) => {
      const { pieces, bytes } = cut(await rig.put(body), body, count);
      expect((await readAll(rig, pieces)).equals(bytes)).toBe(true);
      expect(rig.buffers.inUse).toBe(0);
    },
  );

  it('are given back when the reader leaves in the middle', async () => {
    const { pieces } = cut(await rig.put(body), body, 300);
    const options = { tenant: 'cms', runs: pieces, inlineBody: () => Promise.reject(new Error()) };
    let count = 0;
    for await (const _ of rig.reader.read(options)) if (++count === 100) break;
    expect(rig.buffers.inUse).toBe(0);
  });

  it.each([
    ['another algorithm', { algorithm: 1 }],
    ['another extent', { id: Buffer.alloc(16, 1) }],
    ['another size of the extent', { extentBytes: 4 * C }],
    ['more than the extent has', { offset: 4 * C, length: 1001 }],
  ])('of which one says %s are refused there', async (_what, odd) => {
    const { runs } = await rig.put(body);
    const piece = { ...(runs[0] as ExtentRun), offset: 4 * C, length: 10 };
    const seen: number[] = [];
    const read = async () => {
      const options = {
        tenant: 'cms',
        runs: [piece, { ...piece, offset: 4 * C + 10 }, { ...piece, ...odd }],
        inlineBody: () => Promise.reject(new Error('inline')),
      };
      for await (const chunk of rig.reader.read(options)) seen.push(chunk.length);
    };
    await expect(read()).rejects.toThrow(IntegrityError);
    expect(seen).toEqual([10, 10]);
    expect(rig.buffers.inUse).toBe(0);
  });
});

describeWithTool(versitygw, 'pieces of a remote extent', (path) => {
  let s3: S3Rig;
  let store: S3Store;
  let rig: Rig;
  beforeAll(async () => {
    s3 = await startS3Rig(path);
    store = await s3.open();
    rig = await makeRig({ remotes: [store] });
  });
  afterAll(async () => {
    await rig.close();
    await s3.stop();
  });

  it('are read as their bytes', async () => {
    const { pieces, bytes } = cut(await rig.put(body, { store: 2 }), body, 500);
    expect((await readAll(rig, pieces)).equals(bytes)).toBe(true);
    expect(rig.buffers.inUse).toBe(0);
  });

  it('are asked for once, however many of them lie in one chunk', async () => {
    const { runs } = await rig.put(body, { store: 2 });
    const [run] = runs as [ExtentRun];
    const pieces = Array.from({ length: 10_000 }, (_, i) => ({ ...run, offset: i, length: 1 }));
    const before = store.state().requests;
    expect((await readAll(rig, pieces)).equals(body.subarray(0, 10_000))).toBe(true);
    expect(store.state().requests - before).toBe(1);
  });
});
