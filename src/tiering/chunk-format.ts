// The sealed form of an extent (docs/formats/extent.md): chunks of 256 KiB, encrypted or not, each
// with a tag behind it that binds its bytes to extent, place, length and end. Invariant:
// `openChunk` gives out bytes only when their tag is right.
import { createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto';
import { createRequire } from 'node:module';
import { IntegrityError } from '../core/errors.ts';
import { writeMac } from '../core/hmac.ts';
import { chunkBytes, tagBytes } from '../core/limits.ts';
import { aesGcmAlgorithm, blake3Algorithm, sha256Algorithm } from '../core/manifest.ts';
import { decryptChunk, encryptChunk, gcmTagBytes } from './extent-cipher.ts';

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

/** The algorithm that seals new extents on this machine which are not encrypted. */
export const plainAlgorithm = blake3 ? blake3Algorithm : sha256Algorithm;

/** The key that seals the chunks of one extent. */
export interface ExtentKey {
  /** 16 bytes. */
  id: Buffer;
  /** The key, from `deriveExtentKey`. */
  key: Buffer;
  algorithm: number;
  /** The key that encrypts its bytes, AES-256's; null: they are not encrypted. */
  cipher: KeyObject | null;
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
const cipherInfo = Buffer.from('bursar/extent-cipher/v1\x01');

/** The key of an extent's tags. */
export function deriveExtentKey(dataKey: Buffer, extentId: Buffer): Buffer {
  return derive(dataKey, extentId, extentInfo);
}

/** The key that encrypts an extent. `cipherKey`: the tenant's, as the keyring has it. */
export function deriveExtentCipher(cipherKey: Buffer, extentId: Buffer): KeyObject {
  const key = derive(cipherKey, extentId, cipherInfo);
  const cipher = createSecretKey(key);
  key.fill(0);
  return cipher;
}

/**
 * HKDF-SHA256 (RFC 5869) with the extent's id as salt; one block, so extract and expand are one
 * HMAC each. node's own hkdfSync costs twice as much as these two.
 */
function derive(from: Buffer, extentId: Buffer, info: Buffer): Buffer {
  // The key has memory of its own: a key that is kept must not keep a slab alive that it shares.
  const key = Buffer.allocUnsafeSlow(extentKeyBytes);
  writeMac(extentId, from, key);
  writeMac(key, info, key);
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

/**
 * What `digest` is of the chunk, by its extent's algorithm. The tag is valid until the next one.
 */
function computeTag(
  extent: ExtentKey,
  { index, last }: ChunkPlace,
  { length, digest }: { length: number; digest: Uint8Array },
): Buffer {
  message[0] = extent.algorithm;
  message[1] = last ? 1 : 0;
  message.writeUInt32BE(chunkBytes, 2);
  message.set(extent.id, 6);
  message.writeUInt32BE(index, 22);
  message.writeUInt32BE(length, 26);
  message.fill(0, 30);
  message.set(digest, 30);
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

/**
 * Encrypts a chunk where its extent is encrypted, and writes its tag behind it: `sealed` is the
 * data and 32 bytes to fill. To be called once for each chunk: a second time would encrypt twice.
 */
export function sealChunk(extent: ExtentKey, place: ChunkPlace, sealed: Buffer): void {
  const length = sealed.length - tagBytes;
  if (length < 1 || length > chunkBytes || (length < chunkBytes && !place.last)) {
    throw new Error(`a chunk of ${length} bytes where its extent cannot have one`);
  }
  const data = sealed.subarray(0, length);
  if (extent.algorithm !== aesGcmAlgorithm) {
    const digest = digestOf(extent.algorithm, data);
    sealed.set(computeTag(extent, place, { length, digest }), length);
    return;
  }
  const digest = encryptChunk(cipherOf(extent), place.index, data);
  sealed.set(digest, length);
  const mac = computeTag(extent, place, { length, digest });
  sealed.set(mac.subarray(0, tagBytes - gcmTagBytes), length + gcmTagBytes);
}

/**
 * The plaintext of chunk `index`, in the place of what was sealed. Throws IntegrityError when
 * anything was changed.
 */
export function openChunk(extent: ExtentSeal, index: number, sealed: Buffer): Buffer {
  const length = chunkLength(extent.extentBytes, index);
  if (length > 0 && sealed.length === length + tagBytes) {
    const data = sealed.subarray(0, length);
    const place = { index, last: index === chunkCount(extent.extentBytes) - 1 };
    const found = sealed.subarray(length);
    const isAuthentic =
      extent.algorithm === aesGcmAlgorithm
        ? decrypts(extent, place, data, found)
        : verifies(extent, place, data, found);
    if (isAuthentic) return data;
  }
  throw new IntegrityError(
    `chunk ${index} of extent ${extent.id.toString('hex')} is not authentic`,
    { kind: 'chunk' },
  );
}

function verifies(extent: ExtentSeal, place: ChunkPlace, data: Buffer, found: Buffer): boolean {
  const digest = digestOf(extent.algorithm, data);
  return timingSafeEqual(computeTag(extent, place, { length: data.length, digest }), found);
}

/** Its place is verified before, and its bytes while they are decrypted. */
function decrypts(extent: ExtentSeal, place: ChunkPlace, data: Buffer, found: Buffer): boolean {
  const digest = found.subarray(0, gcmTagBytes);
  const mac = computeTag(extent, place, { length: data.length, digest });
  const isInPlace = timingSafeEqual(
    mac.subarray(0, tagBytes - gcmTagBytes),
    found.subarray(gcmTagBytes),
  );
  return isInPlace && decryptChunk(cipherOf(extent), place.index, data, digest);
}

function cipherOf({ cipher }: ExtentKey): KeyObject {
  if (!cipher) throw new Error('an encrypted extent without the key of its cipher');
  return cipher;
}
