// Manifests: their form on disk, and the slices of them.
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  decodeManifest,
  type ExtentRun,
  encodeManifest,
  readManifest,
  sliceRuns,
} from '#bursar/core/manifest.js';

function run(letter: string, offset: number, length: number, extentBytes = 1000): ExtentRun {
  const id = Buffer.alloc(16, letter);
  return { id, store: 1, algorithm: 2, epoch: 3, extentBytes, offset, length, trailerBytes: 0 };
}

/** Each byte of the object, as `extent:place`. */
function bytesOf(runs: readonly ExtentRun[]): string[] {
  return runs.flatMap(({ id, offset, length }) =>
    Array.from({ length }, (_, i) => `${String.fromCharCode(id[0] as number)}:${offset + i}`),
  );
}

function runOf(length: number, offset: number): ExtentRun {
  const kept = { id: randomBytes(16), store: 2, algorithm: 1, epoch: 3, trailerBytes: 7 };
  return { ...kept, extentBytes: offset + length, offset, length };
}

describe('a manifest', () => {
  it('has the documented form: 36 bytes a run, big-endian', () => {
    const lengths = run('a', 0x01020304, 0x05060708, 0x090a0b0c);
    const one = { ...lengths, epoch: 0x0d0e, trailerBytes: 0x0f101112 };
    expect(encodeManifest([one]).toString('hex')).toBe(
      `${'61'.repeat(16)}01020d0e090a0b0c01020304050607080f101112`,
    );
  });

  it('decodes to what was encoded, up to the largest numbers, wherever it lies', () => {
    const runs = [run('a', 0, 0xffffffff, 0xffffffff), run('b', 5, 1), run('a', 7, 2)];
    const encoded = encodeManifest(runs);
    expect(decodeManifest(encoded)).toEqual(runs);
    const shifted = Buffer.concat([Buffer.alloc(3), encoded]).subarray(3);
    expect(decodeManifest(new Uint8Array(shifted))).toEqual(runs);
    expect(decodeManifest(Buffer.alloc(0))).toEqual([]);
  });

  it.each([1, 35, 37, 71])('of %i bytes is damage, not a manifest', (length) => {
    expect(() => decodeManifest(Buffer.alloc(length))).toThrow(`manifest of ${length} bytes`);
  });

  it('is read in part as it is sliced when it was read whole', () => {
    const runs = [5, 0, 1, 16_777_216, 3].map((length, i) => runOf(length, i));
    const manifest = encodeManifest(runs);
    const sizeBytes = 16_777_225;
    const ends = [0, 1, 4, 5, 6, 7, 16_777_221, 16_777_222, sizeBytes, sizeBytes + 9];
    for (const start of ends) {
      for (const end of ends) {
        const read = readManifest(manifest, start, end);
        expect(read.sizeBytes).toBe(sizeBytes);
        expect(read.runs).toEqual(sliceRuns(decodeManifest(manifest), start, end));
      }
    }
  });

  it('of an impossible length is refused, however it is read', () => {
    const cut = encodeManifest([runOf(5, 0)]).subarray(1);
    expect(() => decodeManifest(cut)).toThrow('manifest of 35 bytes');
    expect(() => readManifest(cut, 0, 1)).toThrow('manifest of 35 bytes');
  });
});

describe('a slice of a manifest', () => {
  const runs = [run('a', 10, 4), run('b', 0, 1), run('c', 3, 0), run('a', 10, 3), run('d', 7, 5)];
  const whole = bytesOf(runs);

  it('holds just the bytes asked for, whatever the range', () => {
    for (let start = 0; start <= whole.length; start++) {
      for (let end = start; end <= whole.length + 3; end++) {
        const slice = sliceRuns(runs, start, end);
        expect(bytesOf(slice)).toEqual(whole.slice(start, end));
        expect(slice.every(({ length }) => length > 0)).toBe(true);
      }
    }
  });

  it('of a slice is a slice of the whole', () => {
    expect(bytesOf(sliceRuns(sliceRuns(runs, 2, 11), 1, 6))).toEqual(whole.slice(3, 8));
  });

  it('keeps what verifies the extent: its id, length, algorithm and epoch', () => {
    const [first] = sliceRuns(runs, 1, 2);
    expect(first).toEqual({ ...runs[0], offset: 11, length: 1 });
  });

  it('changes nothing of what it was taken from', () => {
    const before = structuredClone(runs.map(({ offset, length }) => [offset, length]));
    sliceRuns(runs, 1, 3);
    expect(runs.map(({ offset, length }) => [offset, length])).toEqual(before);
  });
});
