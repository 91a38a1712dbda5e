// The tree against the definition of RFC 6962, of each size up to some hundred and around tiles.
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  emptyRoot,
  hashBytes,
  hashLeaf,
  hashNode,
  isConsistent,
  proveConsistency,
  proveInclusion,
  rootFromInclusion,
  rootOf,
  type TileReader,
  tileWidth,
} from '#bursar/audit/log/merkle.js';

const leaves = Array.from({ length: 70_000 }, (_, i) => hashLeaf(Buffer.from(`leaf ${i}`)));

/** MTH as it is defined, by recursion. */
const known = new Map<string, Buffer>();
function hashOf(from: number, to: number): Buffer {
  if (to === from) return createHash('sha256').digest();
  if (to - from === 1) return leaves[from] as Buffer;
  const name = `${from}-${to}`;
  let hash = known.get(name);
  if (!hash) {
    let split = 1;
    while (split * 2 < to - from) split *= 2;
    const node = createHash('sha256').update(Buffer.of(1));
    hash = node
      .update(hashOf(from, from + split))
      .update(hashOf(from + split, to))
      .digest();
    known.set(name, hash);
  }
  return hash;
}

const knownTiles = new Map<string, Buffer>();
function tilesOf(size: number): TileReader {
  return {
    readTile: async (level, index, width) => {
      const span = tileWidth ** level;
      const first = index * tileWidth;
      if ((first + width) * span > size) throw new Error(`a tile beyond the tree of ${size}`);
      const name = `${level}/${index}/${width}`;
      const hashes = Array.from({ length: knownTiles.has(name) ? 0 : width }, (_, i) =>
        hashOf((first + i) * span, (first + i + 1) * span),
      );
      const tile = knownTiles.get(name) ?? Buffer.concat(hashes);
      knownTiles.set(name, tile);
      return tile;
    },
  };
}

const edges = [255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537];
const sizes = [...Array.from({ length: 70 }, (_, i) => i), ...edges];

/** Where others run, too. */
const timeout = 60_000;

describe('a tree', { timeout }, () => {
  it('has the root that RFC 6962 defines, at each size', async () => {
    expect(await rootOf(tilesOf(0), 0)).toEqual(emptyRoot);
    for (const size of sizes) expect(await rootOf(tilesOf(size), size)).toEqual(hashOf(0, size));
  });

  it('proves each leaf of it, and no other leaf, place, size or root', async () => {
    for (const size of sizes) {
      const indexes = size < 70 ? Array.from({ length: size }, (_, i) => i) : [0, 1, 254, size - 1];
      for (const index of indexes) {
        const proof = await proveInclusion(tilesOf(size), index, size);
        const leaf = leaves[index] as Buffer;
        expect(rootFromInclusion(leaf, { index, size, proof })).toEqual(hashOf(0, size));
        const other = leaves[index + 1] as Buffer;
        expect(rootFromInclusion(other, { index, size, proof })).not.toEqual(hashOf(0, size));
        const at = index ^ 1;
        expect(rootFromInclusion(leaf, { index: at, size, proof })).not.toEqual(
          at < size ? hashOf(0, size) : hashOf(0, 0),
        );
        const long = [...proof, leaf];
        expect(rootFromInclusion(leaf, { index, size, proof: long })).toBeUndefined();
        const short = proof.slice(0, -1);
        if (size > 1)
          expect(rootFromInclusion(leaf, { index, size, proof: short })).toBeUndefined();
      }
    }
  });

  it('proves that it extends each smaller one, and no other', async () => {
    for (const size of sizes) {
      for (const old of sizes.filter((one) => one <= size)) {
        const proof = await proveConsistency(tilesOf(size), old, size);
        const head = { size, root: hashOf(0, size) };
        const before = { size: old, root: hashOf(0, old) };
        expect(isConsistent(before, head, proof)).toBe(true);
        const altered = { size: old, root: Buffer.alloc(hashBytes, 7) };
        expect(isConsistent(altered, head, proof)).toBe(false);
        // Everything extends the tree without leaves.
        const isAny = old === 0 && size > 0;
        expect(isConsistent(before, { size, root: altered.root }, proof)).toBe(isAny);
        expect(isConsistent(before, head, [...proof, head.root])).toBe(false);
        if (proof.length > 0) expect(isConsistent(before, head, proof.slice(1))).toBe(false);
        if (old < size) expect(isConsistent(head, before, proof)).toBe(false);
      }
    }
  });
});

/**
 * A tree whose leaves are all the same, so that each complete subtree of a level has one hash: it
 * can be as large as sizes go.
 */
const levels: Buffer[] = [hashLeaf(Buffer.from('the same'))];
for (let level = 1; level < 53; level += 1) {
  const below = levels[level - 1] as Buffer;
  levels.push(hashNode(below, below));
}
const sameTiles: TileReader = {
  readTile: async (level, _, width) => {
    const hash = levels[level * 8] as Buffer;
    return Buffer.concat(Array.from({ length: width }, () => hash));
  },
};

describe('a tree as large as numbers go', { timeout }, () => {
  const edge = 2 ** 48;
  const huge = [edge - 1, edge, edge + 1, edge + 2, 2 ** 52 + 3, Number.MAX_SAFE_INTEGER];

  it('proves its first, middle and last leaf', async () => {
    for (const size of huge) {
      const root = await rootOf(sameTiles, size);
      for (const index of [0, Math.floor(size / 2), size - 1]) {
        const proof = await proveInclusion(sameTiles, index, size);
        expect(rootFromInclusion(levels[0] as Buffer, { index, size, proof })).toEqual(root);
        const [other] = [hashLeaf(Buffer.from('another'))];
        expect(rootFromInclusion(other, { index, size, proof })).not.toEqual(root);
      }
    }
  });

  it('proves what it extends', async () => {
    for (const size of huge) {
      const head = { size, root: await rootOf(sameTiles, size) };
      for (const oldSize of [1, 255, edge - 1, edge, edge + 1, size - 1]) {
        if (oldSize > size) continue;
        const old = { size: oldSize, root: await rootOf(sameTiles, oldSize) };
        const proof = await proveConsistency(sameTiles, oldSize, size);
        expect(isConsistent(old, head, proof)).toBe(true);
        expect(isConsistent({ ...old, root: emptyRoot }, head, proof)).toBe(false);
      }
    }
  });
});

describe('numbers and tiles that are none', () => {
  const leaf = leaves[0] as Buffer;
  const odd = [-1, -0.5, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 2 ** 53 + 2];

  it('prove nothing, and throw nothing', () => {
    for (const one of odd) {
      expect(rootFromInclusion(leaf, { index: one, size: 10, proof: [leaf] })).toBeUndefined();
      expect(rootFromInclusion(leaf, { index: 0, size: one, proof: [] })).toBeUndefined();
      const [head, none] = [
        { size: one, root: leaf },
        { size: 0, root: emptyRoot },
      ];
      expect(isConsistent(none, head, [])).toBe(false);
      expect(isConsistent(head, { size: 10, root: leaf }, [leaf])).toBe(false);
    }
  });

  it('a tile that is too short is no tile', async () => {
    const short: TileReader = {
      readTile: async (level, index, width) => {
        const tile = await tilesOf(600).readTile(level, index, width);
        return tile.subarray(0, -hashBytes);
      },
    };
    await expect(rootOf(short, 600)).rejects.toThrow('bytes');
    await expect(proveInclusion(short, 599, 600)).rejects.toThrow('bytes');
  });

  it('proofs of what is not there are refused', async () => {
    for (const index of [-1, 10, 11, Number.NaN]) {
      await expect(proveInclusion(tilesOf(10), index, 10)).rejects.toThrow(RangeError);
    }
    await expect(proveConsistency(tilesOf(10), 11, 10)).rejects.toThrow(RangeError);
  });
});
