// Objects of which only the most bytes that they can have is known before their end: they come out
// as if their size had been known.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import { C, E, finish, KiB, listFiles, makeBytes, makeRig, placeOf, pushAll } from './rig.ts';

let rig: Awaited<ReturnType<typeof makeRig>>;
beforeAll(async () => {
  rig = await makeRig();
});
afterAll(() => rig.close());

async function put(body: Buffer, mostBytes: number, push: number): Promise<WrittenObject> {
  const options = { ...placeOf(), sizeBytes: mostBytes, isAtMost: true, checksums: [] } as const;
  const sink = rig.writer.begin(options);
  await pushAll(sink, body, push);
  return finish(sink);
}

describe('an object whose size only its end tells', () => {
  const small = [0, 1, 64 * KiB - 2, 64 * KiB];
  const large = [0, 1, 64 * KiB + 1, C - 1, C, C + 1, 2 * C, E - C, E, E + C, E + C + 1];

  it.each(small)('of %i bytes lies in the database, alone in its memory', async (sizeBytes) => {
    const body = makeBytes(sizeBytes, 5);
    const object = await put(body, 64 * KiB, 1000);
    expect(object.sizeBytes).toBe(sizeBytes);
    expect(object.sha256).toEqual(createHash('sha256').update(body).digest());
    if (sizeBytes > 0) expect(object.inline?.body.buffer.byteLength).toBe(sizeBytes + 32);
    expect((await rig.get(object)).equals(body)).toBe(true);
  });

  it.each(large)('of %i bytes ends its last extent there', async (sizeBytes) => {
    const body = makeBytes(sizeBytes, 6);
    for (const more of [2, 3 * E]) {
      const object = await put(body, Math.max(sizeBytes, 64 * KiB) + more, 100_000);
      const known = await rig.put(body, { push: 100_000 });
      expect(object.sizeBytes).toBe(sizeBytes);
      expect([object.md5, object.sha256]).toEqual([known.md5, known.sha256]);
      expect(object.runs.map(({ length }) => length)).toEqual(
        Array.from({ length: Math.ceil(sizeBytes / E) }, (_, i) => Math.min(E, sizeBytes - i * E)),
      );
      expect((await rig.get(object)).equals(body)).toBe(true);
    }
  });

  it('refuses more than the most, and leaves nothing when it is given up', async () => {
    const before = listFiles(rig.dir).length;
    for (const mostBytes of [1000, C, 3 * C]) {
      const options = {
        ...placeOf(),
        sizeBytes: mostBytes,
        isAtMost: true,
        checksums: [],
      } as const;
      const sink = rig.writer.begin(options);
      const pushed = pushAll(sink, makeBytes(mostBytes + 1), 50_000);
      await expect(pushed).rejects.toThrow(Refusal);
      await sink.abort();
    }
    expect(listFiles(rig.dir)).toHaveLength(before);
  });
});
