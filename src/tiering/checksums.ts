// The checksums that S3 clients may ask for ("Checking object integrity", S3 user guide),
// incremental and one-shot, and the joining of CRCs for full-object checksums of multipart uploads.
// Invariant: every digest is big-endian, as the `x-amz-checksum-*` headers have it.
import { createHash, hash } from 'node:crypto';
import { crc32, crc32c } from '@node-rs/crc32';
import type { IHasher } from 'hash-wasm';
import { updateCrc64 } from './crc64.ts';

/** How many bytes the checksum of each algorithm has. */
export const checksumBytes = {
  CRC32: 4,
  CRC32C: 4,
  CRC64NVME: 8,
  SHA1: 20,
  SHA256: 32,
  SHA512: 64,
  MD5: 16,
  XXHASH64: 8,
  XXHASH3: 8,
  XXHASH128: 16,
} as const;
export type ChecksumAlgorithm = keyof typeof checksumBytes;
export const checksumAlgorithms = Object.keys(checksumBytes) as readonly ChecksumAlgorithm[];
export type CrcAlgorithm = 'CRC32' | 'CRC32C' | 'CRC64NVME';
type XxHashAlgorithm = 'XXHASH64' | 'XXHASH3' | 'XXHASH128';

/** What objects have whose client gives no checksum. */
export const defaultChecksum = 'CRC64NVME';

export interface Checksum {
  update(bytes: Uint8Array): void;
  /** To be called once, at the end. Gives as many bytes as `checksumBytes` says. */
  digest(): Buffer;
}

function createCrc32(next: (bytes: Uint8Array, state: number) => number): Checksum {
  let state = 0;
  return {
    update: (bytes) => {
      state = next(bytes, state);
    },
    digest: () => {
      const out = Buffer.allocUnsafe(4);
      out.writeUInt32BE(state);
      return out;
    },
  };
}

function createCrc64(): Checksum {
  let state = 0xffff_ffff_ffff_ffffn;
  return {
    update: (bytes) => {
      state = updateCrc64(state, bytes);
    },
    digest: () => {
      const out = Buffer.allocUnsafe(8);
      out.writeBigUInt64BE(BigInt.asUintN(64, ~state));
      return out;
    },
  };
}

// What computes XXHASH loads asynchronously, and once for a thread: it is asked for seldom.
const xxHashers = new Map<ChecksumAlgorithm, IHasher>();

function isXxHash(algorithm: ChecksumAlgorithm): algorithm is XxHashAlgorithm {
  return algorithm.startsWith('XXHASH');
}

async function loadXxHash(algorithm: XxHashAlgorithm): Promise<void> {
  const { createXXHash64, createXXHash3, createXXHash128 } = await import('hash-wasm');
  const create = { XXHASH64: createXXHash64, XXHASH3: createXXHash3, XXHASH128: createXXHash128 };
  xxHashers.set(algorithm, await create[algorithm]());
}

/**
 * To be awaited before a checksum of one of the algorithms is created in this thread; null: nothing
 * is to be waited for.
 */
export function loadChecksums(algorithms: readonly ChecksumAlgorithm[]): Promise<unknown> | null {
  const missing = algorithms.filter(isXxHash).filter((one) => !xxHashers.has(one));
  return missing.length === 0 ? null : Promise.all(missing.map(loadXxHash));
}

/** The one hasher of an algorithm serves all checksums by turns, so each keeps its own state. */
function createXxHash(algorithm: XxHashAlgorithm): Checksum {
  const hasher = xxHashers.get(algorithm);
  if (!hasher) throw new Error(`${algorithm} is not loaded`);
  let state = hasher.init().save();
  return {
    update: (bytes) => {
      state = hasher.load(state).update(bytes).save();
    },
    digest: () => Buffer.from(hasher.load(state).digest('binary')),
  };
}

function createNodeHash(name: string): Checksum {
  const hash = createHash(name);
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest() };
}

/** A checksum to be fed in pieces; of those that `loadChecksums` loads, once it has. */
export function createChecksum(algorithm: ChecksumAlgorithm): Checksum {
  switch (algorithm) {
    case 'CRC32':
      return createCrc32(crc32);
    case 'CRC32C':
      return createCrc32(crc32c);
    case 'CRC64NVME':
      return createCrc64();
    case 'XXHASH64':
    case 'XXHASH3':
    case 'XXHASH128':
      return createXxHash(algorithm);
    default:
      return createNodeHash(algorithm);
  }
}

/** The checksum of bytes that are all at hand. */
export function computeChecksum(algorithm: ChecksumAlgorithm, bytes: Uint8Array): Buffer {
  if (/^(SHA|MD)/.test(algorithm)) return hash(algorithm, bytes, 'buffer');
  const checksum = createChecksum(algorithm);
  checksum.update(bytes);
  return checksum.digest();
}

// Joining CRCs: crc(A ‖ B) = crc(A) · x^(8·|B|) mod P, plus crc(B), in GF(2)[x]; the ones that a
// CRC starts and ends with cancel out. Polynomials are held bit-reflected, x^0 in the highest bit,
// as two 32-bit words. A 32-bit CRC is held as crc·x^32 modulo P·x^32, which only moves it to the
// low word: so the same 64-bit arithmetic serves all three.
const polynomials: Record<CrcAlgorithm, readonly [number, number]> = {
  CRC32: [0, 0xedb88320 | 0],
  CRC32C: [0, 0x82f63b78 | 0],
  CRC64NVME: [0x9a6c9329 | 0, 0xac4bc9b5 | 0],
};

type Polynomial = readonly [high: number, low: number];

/** The product of two polynomials modulo P. */
function multiply(a: Polynomial, b: Polynomial, modulus: Polynomial): Polynomial {
  let [bHigh, bLow] = b;
  let high = 0;
  let low = 0;
  for (let bit = 63; bit >= 0; bit--) {
    const set = bit > 31 ? (a[0] >>> (bit - 32)) & 1 : (a[1] >>> bit) & 1;
    high ^= bHigh & -set;
    low ^= bLow & -set;
    // Times x is a shift to the right; what falls off is x^64, which is P without its highest term.
    const carry = -(bLow & 1);
    bLow = ((bLow >>> 1) | (bHigh << 31)) ^ (modulus[1] & carry);
    bHigh = (bHigh >>> 1) ^ (modulus[0] & carry);
  }
  return [high, low];
}

/** Bits in the longest object, 5 TiB, and some more. */
const powersMax = 48;

/** x^(2^k) for all k that a length in bits can need. */
function squarePowers(modulus: Polynomial): Polynomial[] {
  let power: Polynomial = [0x40000000, 0];
  const powers: Polynomial[] = [];
  for (let k = 0; k < powersMax; k++) {
    powers.push(power);
    power = multiply(power, power, modulus);
  }
  return powers;
}

const powersByAlgorithm = new Map<CrcAlgorithm, Polynomial[]>();

function powersOf(algorithm: CrcAlgorithm): Polynomial[] {
  let powers = powersByAlgorithm.get(algorithm);
  if (!powers) {
    powers = squarePowers(polynomials[algorithm]);
    powersByAlgorithm.set(algorithm, powers);
  }
  return powers;
}

/**
 * The CRC of two joined runs of bytes, from their CRCs (big-endian) and the second one's length in
 * bytes. Throws on a length that is no count of bytes up to 32 TiB.
 */
export function combineCrc(
  algorithm: CrcAlgorithm,
  crcA: Buffer,
  crcB: Buffer,
  lengthB: number,
): Buffer {
  const lengthBits = lengthB * 8;
  if (!Number.isSafeInteger(lengthBits) || lengthBits < 0 || lengthBits >= 2 ** powersMax) {
    throw new Error(`a length of ${lengthB} bytes`);
  }
  const modulus = polynomials[algorithm];
  const powers = powersOf(algorithm);
  const wide = crcA.length === 8;
  let crc: Polynomial = wide ? [crcA.readInt32BE(0), crcA.readInt32BE(4)] : [0, crcA.readInt32BE()];
  let rest = lengthBits;
  for (let k = 0; rest > 0; k++, rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) crc = multiply(crc, powers[k] as Polynomial, modulus);
  }

  const out = Buffer.from(crcB);
  if (wide) out.writeInt32BE(crc[0] ^ crcB.readInt32BE(0), 0);
  const lowAt = wide ? 4 : 0;
  out.writeInt32BE(crc[1] ^ crcB.readInt32BE(lowAt), lowAt);
  return out;
}
