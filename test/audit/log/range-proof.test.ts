// A run of leaves leads to the root of the tree, whichever run it is; with one leaf else it does
// not.
import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { hashLeaf, hashRow, rootOf, tileWidth } from '#bursar/audit/log/merkle.js';
import { proveRange, RangeRoot } from '#bursar/audit/log/range-proof.js';

const leaves = Array.from({ length: 600 }, (_, i) => hashLeaf(Buffer.from(`leaf ${i}`)));
const roots = [0, 1].map((i) => hashRow(Buffer.concat(leaves.slice(i * 256, (i + 1) * 256))));
const tiles = {
  readTile: async (level: number, index: number, width: number) => {
    const row = level === 0 ? leaves : roots;
    return Buffer.concat(row.slice(index * tileWidth, index * tileWidth + width));
  },
};

async function rootOfRange(from: number, to: number, size: number, of = leaves) {
  const range = { from, to, size };
  const root = RangeRoot.begin(range, await proveRange(tiles, range));
  for (const leaf of of.slice(from, to)) root?.append(leaf);
  return root?.finish();
}

test('a run of leaves leads to the root, wherever it begins and ends', async () => {
  for (const size of [0, 1, 2, 3, 5, 8, 13, 33]) {
    const expected = await rootOf(tiles, size);
    for (let from = 0; from <= size; from++) {
      for (let to = from; to <= size; to++) {
        expect(await rootOfRange(from, to, size)).toEqual(expected);
      }
    }
  }
});

test.each([
  [0, 600],
  [1, 599],
  [255, 257],
  [256, 512],
  [256, 256],
  [599, 600],
])('so does the run from %i to %i of a log of several tiles', async (from, to) => {
  expect(await rootOfRange(from, to, 600)).toEqual(await rootOf(tiles, 600));
});

test('a leaf that is another, or missing, leads elsewhere or nowhere', async () => {
  const altered = leaves.with(300, hash('sha256', 'another', 'buffer'));
  expect(await rootOfRange(290, 310, 600, altered)).not.toEqual(await rootOf(tiles, 600));
  const short = leaves.slice(0, 305);
  expect(await rootOfRange(290, 310, 600, short)).toBeUndefined();
});

test('a proof with a hash more or less than the range needs is none', async () => {
  const range = { from: 3, to: 5, size: 9 };
  const proof = await proveRange(tiles, range);
  const { before, after } = proof;
  const more = leaves.slice(0, 1);
  expect(RangeRoot.begin(range, proof)).toBeDefined();
  expect(RangeRoot.begin(range, { before: [...before, ...more], after })).toBeUndefined();
  expect(RangeRoot.begin(range, { before, after: after.slice(1) })).toBeUndefined();
  expect(RangeRoot.begin({ ...range, from: -1 }, proof)).toBeUndefined();
  expect(RangeRoot.begin({ ...range, to: 10 }, proof)).toBeUndefined();
  expect(RangeRoot.begin({ ...range, size: Number.NaN }, proof)).toBeUndefined();
  expect(RangeRoot.begin({ ...range, from: 2.5 }, proof)).toBeUndefined();
});

test('no leaf is taken behind the end of the range', async () => {
  const range = { from: 0, to: 1, size: 2 };
  const root = RangeRoot.begin(range, await proveRange(tiles, range));
  root?.append(leaves[0] as Buffer);
  expect(() => root?.append(leaves[1] as Buffer)).toThrow('behind the range');
});
