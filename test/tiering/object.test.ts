// Objects written and read back through the whole room: threads, store, buffers. BURSAR_FULL=1
// reads every range between two boundaries, and ends writes at more places.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newExtentId } from '#bursar/core/ids.js';
import { checksumAlgorithms, computeChecksum } from '#bursar/tiering/checksums.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import {
  C,
  E,
  finish,
  KiB,
  listFiles,
  listOpenFiles,
  MiB,
  makeBytes,
  makeRandom,
  makeRig,
  placeOf,
  pushAll,
  type Rig,
} from './rig.ts';

const isFull = process.env.BURSAR_FULL === '1';

let rig: Rig;
beforeAll(async () => {
  rig = await makeRig();
});
afterAll(() => rig.close());

function digest(name: string, bytes: Buffer): Buffer {
  return createHash(name).update(bytes).digest();
}

describe('what was written reads back, with its digests', () => {
  const inlineMax = 64 * KiB;
  const sizes = [
    0,
    1,
    4096,
    inlineMax,
    inlineMax + 1,
    C - 1,
    C,
    C + 1,
    E - 1,
    E,
    E + 1,
    2 * E + 77,
  ];

  it.each(sizes)('%i bytes in odd pushes', async (sizeBytes) => {
    const body = makeBytes(sizeBytes, sizeBytes + 1);
    const random = makeRandom(sizeBytes);
    // Pushes from one byte to more than a chunk; some are empty, as a decoder may make them.
    const push = () => Math.floor(random() ** 3 * 300_000);
    const object = await rig.put(body, { push });

    expect(object.sizeBytes).toBe(sizeBytes);
    expect(object.md5).toEqual(digest('md5', body));
    expect(object.sha256).toEqual(digest('sha256', body));
    expect(object.checksums).toEqual([]);
    expect(object.runs.map((run) => run.length)).toEqual(
      Array.from({ length: Math.ceil(sizeBytes / E) }, (_, i) => Math.min(E, sizeBytes - i * E)),
    );
    expect((await rig.get(object)).equals(body)).toBe(true);
  });

  it.each(checksumAlgorithms)('with the asked %s, small and large', async (checksum) => {
    for (const body of [Buffer.alloc(0), makeBytes(5000), makeBytes(2 * C + 5)]) {
      const object = await rig.put(body, { checksums: [checksum] });
      expect(object.checksums).toEqual([computeChecksum(checksum, body)]);
    }
  });

  it('a small object goes inline, alone in its memory, and makes no file', async () => {
    const before = listFiles(rig.dir).length;
    const { inline, runs } = await rig.put(makeBytes(4096));
    expect(runs[0]?.store).toBe(0);
    expect(inline?.body.length).toBe(4096 + 32);
    expect(inline?.body.buffer.byteLength).toBe(4096 + 32);
    expect(listFiles(rig.dir).length).toBe(before);
  });

  it('an empty object has no extent', async () => {
    const { inline, runs } = await rig.put(Buffer.alloc(0));
    expect({ inline, runs }).toEqual({ inline: null, runs: [] });
  });
});

describe('ranges', () => {
  const body = makeBytes(E + C + 5, 3);
  let object: WrittenObject;
  beforeAll(async () => {
    object = await rig.put(body);
  });

  it('at every boundary give exactly the bytes asked for', async () => {
    const size = body.length;
    const points = [0, 1, C - 1, C, C + 1, E - 1, E, E + 1, E + C, size - 1, size];
    for (const [i, start] of points.entries()) {
      for (const end of points.slice(i + 1, isFull ? undefined : i + 4)) {
        const read = await rig.get(object, { start, end });
        expect(read.equals(body.subarray(start, end)), `${start} to ${end}`).toBe(true);
      }
    }
  });

  it('of an inline object too', async () => {
    const small = makeBytes(1000);
    const inline = await rig.put(small);
    for (const [start, end] of [
      [0, 1],
      [0, 1000],
      [999, 1000],
      [10, 20],
    ] as const) {
      expect(await rig.get(inline, { start, end })).toEqual(small.subarray(start, end));
    }
  });

  it('of joined manifests read across the joint', async () => {
    const parts = [makeBytes(3 * C, 4), makeBytes(500, 5), makeBytes(C + 9, 6)];
    const written = [];
    for (const part of parts) written.push(await rig.put(part));
    const joined = {
      ...(written[1] as WrittenObject),
      runs: written.flatMap(({ runs }) => runs),
      sizeBytes: Buffer.concat(parts).length,
    };
    expect((await rig.get(joined)).equals(Buffer.concat(parts))).toBe(true);
    const middle = await rig.get(joined, { start: 3 * C - 1, end: 3 * C + 501 });
    expect(middle).toEqual(Buffer.concat(parts).subarray(3 * C - 1, 3 * C + 501));
  });
});

describe('a size that was not kept', () => {
  it.each([10, 2 * C])('%i bytes announced, one fewer sent: IncompleteBody', async (sizeBytes) => {
    const sink = begin(sizeBytes);
    await sink.write(makeBytes(sizeBytes - 1));
    await expect(finish(sink)).rejects.toMatchObject({ code: 'IncompleteBody' });
    await sink.abort();
  });

  it.each([10, 2 * C])('%i bytes announced, one more sent: IncompleteBody', async (sizeBytes) => {
    const sink = begin(sizeBytes);
    await sink.write(makeBytes(sizeBytes));
    await expect(sink.write(Buffer.alloc(1))).rejects.toMatchObject({ code: 'IncompleteBody' });
    await sink.abort();
  });
});

const begin = (sizeBytes: number, takeId = placeOf().takeId) =>
  rig.writer.begin({ ...placeOf(), takeId, sizeBytes, checksums: ['CRC32'] });

describe('a write that ends early', () => {
  it('leaves no file, no open file and no buffer, wherever it is aborted', async () => {
    const before = listFiles(rig.dir);
    const random = makeRandom(11);
    const body = makeBytes(2 * E + 3 * C);
    for (let round = 0; round < (isFull ? 25 : 9); round++) {
      const sink = begin(body.length);
      const stopAt = Math.floor(random() * body.length);
      let pending: Promise<void> | null = null;
      for (let at = 0; at < stopAt; at += 100_000) {
        pending = sink.write(body.subarray(at, at + 100_000));
        // In odd rounds the abort comes while the last push still waits.
        if (at + 100_000 < stopAt || round % 2 === 0) await pending;
      }
      const settled = Promise.resolve(pending).catch(() => null);
      await sink.abort();
      await sink.abort();
      await settled;
      expect(rig.buffers.inUse).toBe(0);
    }
    expect(listFiles(rig.dir)).toEqual(before);
    expect(listOpenFiles(rig.dir)).toEqual([]);
  });

  it('after finish, an abort removes what is not to be committed', async () => {
    const before = listFiles(rig.dir);
    const sink = begin(E + C);
    await sink.write(makeBytes(E + C));
    await finish(sink);
    expect(listFiles(rig.dir)).toHaveLength(before.length + 2);
    await sink.abort();
    expect(listFiles(rig.dir)).toEqual(before);
  });

  it('takes nothing more after an abort', async () => {
    const sink = begin(E);
    await sink.abort();
    await expect(sink.write(Buffer.alloc(1))).rejects.toThrow('aborted');
    await expect(finish(sink)).rejects.toThrow();
  });
});

describe('intents', () => {
  it('no file is made before its extent has an id that is declared', async () => {
    const before = listFiles(rig.dir);
    const ids = [newExtentId(), newExtentId()];
    const declared: (() => void)[] = [];
    let taken = 0;
    const sink = begin(E + C, () => {
      const id = ids[taken++] as Buffer;
      return new Promise((resolve) => declared.push(() => resolve(id)));
    });
    // Pushed until the sink asks to wait: then the first chunk is full.
    let stalled: Promise<void> | null = null;
    let at = 0;
    for (; !stalled; at += C) stalled = sink.write(makeBytes(C, at + 1));
    await rig.put(makeBytes(C));
    expect(listFiles(rig.dir)).toHaveLength(before.length + 1);
    declared[0]?.();
    await stalled;
    while (at < E + C) {
      await sink.write(makeBytes(C, at + 1));
      at += C;
    }
    const finished = finish(sink);
    while (declared.length < 2) await new Promise((resolve) => setImmediate(resolve));
    declared[1]?.();
    const { runs } = await finished;
    expect(runs.map((run) => run.id)).toEqual(ids);
  });

  it('are taken one by one, each when its extent begins', async () => {
    const ids: Buffer[] = [];
    const sizeBytes = 3 * E;
    const sink = begin(sizeBytes, () => {
      const id = newExtentId();
      ids.push(id);
      return id;
    });
    expect(ids).toHaveLength(0);
    const counts = new Set<string>();
    const chunk = makeBytes(C);
    for (let at = 0; at < sizeBytes; at += C) {
      await sink.write(chunk);
      counts.add(`${ids.length} in extent ${Math.floor(at / E)}`);
    }
    expect([...counts]).toEqual(['1 in extent 0', '2 in extent 1', '3 in extent 2']);
    const { runs } = await finish(sink);
    expect(runs.map((run) => run.id)).toEqual(ids);
    await sink.abort();
  });

  it('that cannot be declared later end the write too', async () => {
    let taken = 0;
    const before = listFiles(rig.dir);
    const sink = begin(2 * E, async () => {
      if (++taken > 1) throw new Error('the ledger is closed');
      return newExtentId();
    });
    await expect(pushAll(sink, makeBytes(2 * E), C)).rejects.toThrow('the ledger is closed');
    await sink.abort();
    expect(listFiles(rig.dir)).toEqual(before);
    expect(rig.buffers.inUse).toBe(0);
  });

  it('when they cannot be declared nothing is stored and the write says why', async () => {
    const before = listFiles(rig.dir);
    const sink = begin(2 * C, async () => {
      throw new Error('the ledger is closed');
    });
    await Promise.resolve(sink.write(makeBytes(2 * C))).catch(() => null);
    await expect(finish(sink)).rejects.toThrow('the ledger is closed');
    await sink.abort();
    expect(listFiles(rig.dir)).toEqual(before);
    expect(rig.buffers.inUse).toBe(0);
  });
});

describe('bytes that are not what the client said', () => {
  it.each([100, 2 * C])('%i of them are refused, and leave nothing behind', async (sizeBytes) => {
    const before = listFiles(rig.dir);
    const sink = begin(sizeBytes);
    await sink.write(makeBytes(sizeBytes));
    await sink.digest();
    await sink.abort();
    expect(listFiles(rig.dir)).toEqual(before);
    expect(rig.buffers.inUse).toBe(0);
  });
});

describe('memory', () => {
  it('64 writers at once stay within the pool, and all of them end', async () => {
    const tight = await makeRig({ bytesMax: 3 * MiB });
    let mostInUse = 0;
    const body = makeBytes(3 * C + 1);
    const objects = await Promise.all(
      Array.from({ length: 64 }, () =>
        tight.put(body, {
          push: () => {
            mostInUse = Math.max(mostInUse, tight.buffers.inUse);
            return 50_000;
          },
        }),
      ),
    );
    expect(mostInUse).toBeGreaterThan(0);
    expect(mostInUse).toBeLessThanOrEqual(11);
    expect(tight.buffers.arena.byteLength).toBeLessThanOrEqual(3 * MiB);
    const bodies = await Promise.all(objects.map((object) => tight.get(object)));
    expect(bodies.every((read) => read.equals(body))).toBe(true);
    expect(tight.buffers.inUse).toBe(0);
    await tight.close();
  });

  it('a client that sends much at once is stopped, and holds four buffers', async () => {
    const sink = begin(E);
    let stalled: Promise<void> | null = null;
    // In one turn: nothing of it can have been hashed or written meanwhile.
    while (!stalled) stalled = sink.write(makeBytes(64 * KiB));
    expect(rig.buffers.inUse).toBe(4);
    const aborted = expect(stalled).rejects.toThrow('aborted');
    await sink.abort();
    await aborted;
    expect(rig.buffers.inUse).toBe(0);
  });
});
