import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import {
  decodeManifest,
  type ExtentRun,
  encodeManifest,
  readManifest,
  sliceRuns,
} from '#bursar/core/manifest.js';

function runOf(length: number, offset: number): ExtentRun {
  const kept = { id: randomBytes(16), store: 2, algorithm: 1, epoch: 3, trailerBytes: 7 };
  return { ...kept, extentBytes: offset + length, offset, length };
}

it('a manifest is read in part as it is sliced when it was read whole', () => {
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
