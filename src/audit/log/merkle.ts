// The Merkle tree of the log: RFC 6962 section 2.1. Pure. Hashes are read by tile (C2SP
// tlog-tiles), and only those of complete subtrees are ever stored, so that what a proof is made of
// never changes. Sizes and indexes are safe integers, not 32 bits: they are computed with, not
// shifted.
import { hash } from 'node:crypto';

export const hashBytes = 32;
/** Hashes in a full tile, and levels of the tree that one tile spans. */
export const tileWidth = 256;
export const tileHeight = 8;

/** By way of a string, since a digest that Node gives as a buffer takes twice as long. */
export function sha256(data: Uint8Array | string): Buffer {
  return Buffer.from(hash('sha256', data, 'binary'), 'latin1');
}

/** Root of the tree without leaves. */
export const emptyRoot: Buffer = sha256('');

const leafPrefix = Buffer.of(0);

export function hashLeaf(entry: Uint8Array | string): Buffer {
  if (typeof entry === 'string') return sha256(`\0${entry}`);
  return sha256(Buffer.concat([leafPrefix, entry]));
}

/** One for the whole thread, since nothing here waits. */
const node = Buffer.allocUnsafeSlow(1 + 2 * hashBytes);
node[0] = 1;

export function hashNode(left: Uint8Array, right: Uint8Array): Buffer {
  node.set(left, 1);
  node.set(right, 1 + hashBytes);
  return sha256(node);
}

/** A source of the hashes of complete subtrees. */
export interface TileReader {
  /**
   * The first `width` hashes of a tile, one after the other: those of the subtrees of 256**level
   * leaves from number 256 * index on. Throws when it has not so many.
   */
  readTile(level: number, index: number, width: number): Promise<Uint8Array>;
}

/** Reads each tile once. */
export function keepTiles(tiles: TileReader): TileReader {
  const kept = new Map<string, Promise<Uint8Array>>();
  return {
    readTile: (level, index, width) => {
      const name = `${level}/${index}/${width}`;
      const known = kept.get(name) ?? tiles.readTile(level, index, width);
      kept.set(name, known);
      return known;
    },
  };
}

/** Hashes that a tile has in a tree of `size` leaves. */
export function widthOfTile(level: number, index: number, size: number): number {
  const hashes = Math.floor(size / tileWidth ** level) - index * tileWidth;
  return Math.max(0, Math.min(hashes, tileWidth));
}

/** Root of the tree of the first `size` leaves. */
export function rootOf(tiles: TileReader, size: number): Promise<Buffer> {
  return size === 0
    ? Promise.resolve(emptyRoot)
    : hashRange(keepTiles(tiles), { from: 0, to: size, size });
}

/** Proof that leaf `index` is in the tree of `size` leaves, from its sibling up. */
export async function proveInclusion(
  tiles: TileReader,
  index: number,
  size: number,
): Promise<Buffer[]> {
  if (!(index >= 0 && index < size)) throw new RangeError(`no leaf ${index} in ${size}`);
  const kept = keepTiles(tiles);
  const proof: Buffer[] = [];
  for (let range = { from: 0, to: size }; range.to - range.from > 1; ) {
    const middle = range.from + splitOf(range.to - range.from);
    const left = { from: range.from, to: middle };
    const right = { from: middle, to: range.to };
    const [own, other] = index < middle ? [left, right] : [right, left];
    proof.push(await hashRange(kept, { ...other, size }));
    range = own;
  }
  return proof.reverse();
}

/** Proof that the tree of `size` leaves begins with that of `oldSize`. */
export async function proveConsistency(
  tiles: TileReader,
  oldSize: number,
  size: number,
): Promise<Buffer[]> {
  if (!(oldSize >= 0 && oldSize <= size)) throw new RangeError(`${oldSize} is not within ${size}`);
  if (oldSize === 0 || oldSize === size) return [];
  const kept = keepTiles(tiles);
  const proof: Buffer[] = [];
  let range = { from: 0, to: size };
  // Until the old tree ends where the range does.
  while (range.to !== oldSize) {
    const middle = range.from + splitOf(range.to - range.from);
    const left = { from: range.from, to: middle };
    const right = { from: middle, to: range.to };
    const [own, other] = oldSize <= middle ? [left, right] : [right, left];
    proof.push(await hashRange(kept, { ...other, size }));
    range = own;
  }
  // The old root is known where the range is all of it.
  if (range.from > 0) proof.push(await hashRange(kept, { ...range, size }));
  return proof.reverse();
}

/** The root that an inclusion proof leads to; undefined: it has not as many hashes as it must. */
export function rootFromInclusion(
  leafHash: Uint8Array,
  { index, size, proof }: { index: number; size: number; proof: readonly Uint8Array[] },
): Buffer | undefined {
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size)) return undefined;
  if (index < 0 || index >= size) return undefined;
  let node: Buffer = Buffer.from(leafHash);
  let at = index;
  let last = size - 1;
  for (const sibling of proof) {
    if (last === 0) return undefined;
    if (at % 2 === 1 || at === last) {
      node = hashNode(sibling, node);
      while (at % 2 === 0 && at !== 0) {
        at = Math.floor(at / 2);
        last = Math.floor(last / 2);
      }
    } else {
      node = hashNode(node, sibling);
    }
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 ? node : undefined;
}

export interface TreeHead {
  size: number;
  root: Uint8Array;
}

/** Returns whether the proof shows that `head` extends `old` (RFC 9162 section 2.1.4.2). */
export function isConsistent(old: TreeHead, head: TreeHead, proof: readonly Uint8Array[]): boolean {
  if (!Number.isSafeInteger(old.size) || !Number.isSafeInteger(head.size)) return false;
  if (old.size > head.size || old.size < 0) return false;
  if (old.size === head.size) return proof.length === 0 && isSame(old.root, head.root);
  if (old.size === 0) return proof.length === 0 && isSame(old.root, emptyRoot);
  const hashes = isPowerOf2(old.size) ? [old.root, ...proof] : [...proof];
  const first = hashes.shift();
  if (!first) return false;
  let at = old.size - 1;
  let last = head.size - 1;
  while (at % 2 === 1) {
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  let oldRoot: Buffer = Buffer.from(first);
  let root: Buffer = Buffer.from(first);
  for (const sibling of hashes) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      oldRoot = hashNode(sibling, oldRoot);
      root = hashNode(sibling, root);
      while (at % 2 === 0 && at !== 0) {
        at = Math.floor(at / 2);
        last = Math.floor(last / 2);
      }
    } else {
      root = hashNode(root, sibling);
    }
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 && isSame(oldRoot, old.root) && isSame(root, head.root);
}

/** Hash of the leaves `from` to before `to` in a tree of `size`. */
async function hashRange(
  tiles: TileReader,
  { from, to, size }: { from: number; to: number; size: number },
): Promise<Buffer> {
  const count = to - from;
  if (isPowerOf2(count) && from % count === 0) return hashComplete(tiles, { from, count, size });
  const middle = from + splitOf(count);
  const left = await hashRange(tiles, { from, to: middle, size });
  return hashNode(left, await hashRange(tiles, { from: middle, to, size }));
}

/** Hash of a complete subtree, from the tile that has its nodes. */
export async function hashComplete(
  tiles: TileReader,
  { from, count, size }: { from: number; count: number; size: number },
): Promise<Buffer> {
  let level = 0;
  while (tileWidth ** (level + 1) <= count) level += 1;
  const first = from / tileWidth ** level;
  const index = Math.floor(first / tileWidth);
  const tile = await tiles.readTile(level, index, widthOfTile(level, index, size));
  const start = (first % tileWidth) * hashBytes;
  const row = tile.subarray(start, start + (count / tileWidth ** level) * hashBytes);
  // In a shorter tile the hash would be that of another subtree.
  if (row.length * tileWidth ** level !== count * hashBytes) {
    throw new RangeError(`tile ${level}/${index} has ${tile.length} bytes`);
  }
  return hashRow(row);
}

/** Root above a row of 1, 2, 4, … hashes. */
export function hashRow(row: Uint8Array): Buffer {
  let hashes: Uint8Array = row;
  while (hashes.length > hashBytes) {
    const above = Buffer.allocUnsafe(hashes.length / 2);
    for (let at = 0; at < above.length; at += hashBytes) {
      const left = hashes.subarray(2 * at, 2 * at + hashBytes);
      const right = hashes.subarray(2 * at + hashBytes, 2 * at + 2 * hashBytes);
      above.set(hashNode(left, right), at);
    }
    hashes = above;
  }
  return Buffer.from(hashes);
}

/** The largest power of two below `count`, which is 2 or more. */
function splitOf(count: number): number {
  let split = 1;
  while (split * 2 < count) split *= 2;
  return split;
}

/** Not by logarithms: those of 2**52 and of 2**52 + 3 are the same number. */
function isPowerOf2(count: number): boolean {
  return count === 1 || (count > 1 && splitOf(count) * 2 === count);
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
