// The sealed form of an extent (docs/formats/extent.md): chunks of 256 KiB, each with an HMAC
// behind it that binds its bytes to extent, place, length and end. Invariant: `verifyChunk` gives
// out bytes only when their tag is right, and neither function copies or allocates chunk data.
import { hash, timingSafeEqual } from 'node:crypto';
import { createRequire } from 'node:module';
import { IntegrityError } from '../core/errors.ts';
import { writeMac } from '../core/hmac.ts';
import { chunkBytes, tagBytes } from '../core/limits.ts';

export const sha256Algorithm = 1;
export const blake3Algorithm = 2;

type Digest = (bytes: Uint8Array) => Uint8Array;

/** BLAKE3 is a native module: where its prebuilt binary does not load, SHA-256 does its work. */
function loadBlake3(): Digest | null {
  try {
    const loaded = createRequire(import.meta.url)('@napi-rs/blake-hash') as { blake3: Digest };
    return loaded.blake3;
  } catch {
    return null;
  }
}

const blake3 = loadBlake3();

/** The algorithm that seals new extents on this machine. */
export const defaultAlgorithm = blake3 ? blake3Algorithm : sha256Algorithm;

/** The key that seals the chunks of one extent. */
export interface ExtentKey {
  /** 16 bytes. */
  id: Buffer;
  /** The key, from `deriveExtentKey`. */
  key: Buffer;
  algorithm: number;
}

/** What the chunks of an extent are verified with. */
export interface ExtentSeal extends ExtentKey {
  /** Plaintext bytes of the whole extent, 1 to 16 MiB. */
  extentBytes: number;
}

export interface ChunkPlace {
  /** The index of the chunk, from 0. */
  index: number;
  /** Whether the extent ends with it. */
  last: boolean;
}

const extentKeyBytes = 32;
const extentInfo = Buffer.from('bursar/extent/v1\x01');

/**
 * HKDF-SHA256 (RFC 5869) with the extent's id as salt; one block, so extract and expand are one
 * HMAC each. node's own hkdfSync costs twice as much as these two.
 */
export function deriveExtentKey(dataKey: Buffer, extentId: Buffer): Buffer {
  // The key has memory of its own: a key that is kept must not keep a slab alive that it shares.
  const key = Buffer.allocUnsafeSlow(extentKeyBytes);
  writeMac(extentId, dataKey, key);
  writeMac(key, extentInfo, key);
  return key;
}

/** How many chunks hold `plainBytes`. */
export function chunkCount(plainBytes: number): number {
  return Math.ceil(plainBytes / chunkBytes);
}

/** Plaintext bytes in chunk `index` of an extent. */
export function chunkLength(extentBytes: number, index: number): number {
  return Math.min(chunkBytes, extentBytes - index * chunkBytes);
}

/** Returns where chunk `index` begins in the sealed extent, in bytes. */
export function chunkPosition(index: number): number {
  return index * (chunkBytes + tagBytes);
}

/** Bytes of the sealed form of an extent. */
export function sealedBytes(plainBytes: number): number {
  return plainBytes + chunkCount(plainBytes) * tagBytes;
}

// The tag's message: algorithm 1 | last 1 | chunk size 4 | extent id 16 | index 4 | length 4 |
// digest 32. Scratch buffers serve a whole thread, since nothing here waits.
const message = Buffer.alloc(62);
const tag = Buffer.alloc(tagBytes);

/** The tag, valid until the next one is computed. */
function computeTag(extent: ExtentKey, place: ChunkPlace, data: Buffer): Buffer {
  message[0] = extent.algorithm;
  message[1] = place.last ? 1 : 0;
  message.writeUInt32BE(chunkBytes, 2);
  message.set(extent.id, 6);
  message.writeUInt32BE(place.index, 22);
  message.writeUInt32BE(data.length, 26);
  message.set(digestOf(extent.algorithm, data), 30);
  writeMac(extent.key, message, tag);
  return tag;
}

function digestOf(algorithm: number, data: Buffer): Uint8Array {
  if (algorithm === blake3Algorithm) {
    if (!blake3)
      throw new Error('@napi-rs/blake-hash does not load here: algorithm 2 is unreadable');
    return blake3(data);
  }
  if (algorithm === sha256Algorithm) return hash('sha256', data, 'buffer');
  throw new IntegrityError(`unknown chunk algorithm ${algorithm}`);
}

/** Writes the tag of a chunk behind its data: `sealed` is the data and 32 bytes to fill. */
export function sealChunk(extent: ExtentKey, place: ChunkPlace, sealed: Buffer): void {
  const length = sealed.length - tagBytes;
  if (length < 1 || length > chunkBytes || (length < chunkBytes && !place.last)) {
    throw new Error(`a chunk of ${length} bytes where its extent cannot have one`);
  }
  sealed.set(computeTag(extent, place, sealed.subarray(0, length)), length);
}

/**
 * The data of chunk `index`, a view of `sealed`. Throws IntegrityError when anything was changed.
 */
export function verifyChunk(extent: ExtentSeal, index: number, sealed: Buffer): Buffer {
  const length = chunkLength(extent.extentBytes, index);
  if (length > 0 && sealed.length === length + tagBytes) {
    const data = sealed.subarray(0, length);
    const place = { index, last: index === chunkCount(extent.extentBytes) - 1 };
    if (timingSafeEqual(computeTag(extent, place, data), sealed.subarray(length))) return data;
  }
  throw new IntegrityError(
    `chunk ${index} of extent ${extent.id.toString('hex')} is not authentic`,
    { kind: 'chunk' },
  );
}
