// The digest threads: order, errors, ends.
import { createHash } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BufferPool, type ChunkBuffer } from '#bursar/tiering/buffer-pool.js';
import { deriveExtentKey, openChunk } from '#bursar/tiering/chunk-format.js';
import { DigestPool } from '#bursar/tiering/digest-pool.js';
import { C, MiB, makeBytes } from './rig.ts';

let buffers: BufferPool;
let pool: DigestPool;
beforeEach(() => {
  buffers = new BufferPool({ bytesMax: 8 * MiB });
  pool = new DigestPool({ buffers, threads: 2 });
});
afterEach(() => pool.close());

const id = Buffer.alloc(16, 9);
const key = deriveExtentKey(Buffer.alloc(32, 1), id);

function fill(bytes: Buffer): ChunkBuffer {
  const buffer = buffers.tryAcquire();
  if (!buffer) throw new Error('no buffer');
  buffer.bytes.set(bytes);
  return buffer;
}

it('streams run at once and each has its own digests and tags', async () => {
  const run = async (seed: number) => {
    const body = makeBytes(2 * C + 7, seed);
    const extent = { id, key, cipher: null, algorithm: 2, extentBytes: body.length };
    const stream = pool.open(['SHA256']);
    const sent = [0, 1, 2].map((i) => fill(body.subarray(i * C, (i + 1) * C)));
    await Promise.all(
      sent.map((buffer, index) => {
        const last = index === 2;
        const length = last ? 7 : C;
        return stream.seal({ extent, buffer, index, last, length, descriptor: null });
      }),
    );
    const digests = await stream.finish();
    stream.close();
    expect(digests.md5).toEqual(createHash('md5').update(body).digest());
    expect(digests.checksums).toEqual([createHash('sha256').update(body).digest()]);
    sent.forEach((buffer, i) => {
      const length = Math.min(C, body.length - i * C);
      const data = openChunk(extent, i, buffer.bytes.subarray(0, length + 32));
      expect(data.equals(body.subarray(i * C, i * C + length))).toBe(true);
    });
  };
  await Promise.all([1, 2, 3, 4, 5].map(run));
});

it('a stream that met an error gives no digest any more, and others do', async () => {
  const bad = pool.open([]);
  const good = pool.open([]);
  const chunk = () => {
    const buffer = fill(Buffer.from('abcd'));
    return { buffer, index: 0, last: true, length: 4, descriptor: null };
  };
  const badSeal = bad.seal({ ...chunk(), extent: { id, key, cipher: null, algorithm: 77 } });
  await expect(badSeal).rejects.toThrow('algorithm');
  await expect(bad.finish()).rejects.toThrow('algorithm');
  await good.seal({ ...chunk(), extent: { id, key, cipher: null, algorithm: 1 } });
  expect((await good.finish()).md5.toString('hex')).toBe('e2fc714c4727ee9395f324cd2e7f331f');
  bad.close();
  good.close();
});

it('a closed pool fails what still waits, and takes nothing new', async () => {
  const stream = pool.open([]);
  const waiting = stream.finish();
  const failed = expect(waiting).rejects.toThrow('digest thread');
  await pool.close();
  await failed;
  await expect(stream.finish()).rejects.toThrow('digest thread');
  expect(() => pool.open([])).toThrow('closed');
});
