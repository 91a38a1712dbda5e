// The checksums that S3 clients may ask for ("Checking object integrity", S3 user guide),
// incremental and one-shot, and the joining of CRCs for full-object checksums of multipart uploads.
// Invariant: every digest is big-endian, as the `x-amz-checksum-*` headers have it.
import { createHash, hash } from 'node:crypto';
import { crc32, crc32c } from '@node-rs/crc32';
import { updateCrc64 } from './crc64.ts';

export const checksumAlgorithms = ['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'] as const;
export type ChecksumAlgorithm = (typeof checksumAlgorithms)[number];
export type CrcAlgorithm = 'CRC32' | 'CRC32C' | 'CRC64NVME';

export interface Checksum {
  update(bytes: Uint8Array): void;
  /** To be called once, at the end. Gives 4, 8, 20 or 32 bytes. */
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
  const state = new Int32Array([-1, -1]);
  return {
    update: (bytes) => updateCrc64(state, bytes),
    digest: () => {
      const out = Buffer.allocUnsafe(8);
      out.writeInt32BE(~(state[0] as number));
      out.writeInt32BE(~(state[1] as number), 4);
      return out;
    },
  };
}

function createSha(name: 'sha1' | 'sha256'): Checksum {
  const sha = createHash(name);
  return { update: (bytes) => void sha.update(bytes), digest: () => sha.digest() };
}

/** A checksum to be fed in pieces. */
export function createChecksum(algorithm: ChecksumAlgorithm): Checksum {
  switch (algorithm) {
    case 'CRC32':
      return createCrc32(crc32);
    case 'CRC32C':
      return createCrc32(crc32c);
    case 'CRC64NVME':
      return createCrc64();
    case 'SHA1':
      return createSha('sha1');
    case 'SHA256':
      return createSha('sha256');
  }
}

/** The checksum of bytes that are all at hand. */
export function computeChecksum(algorithm: ChecksumAlgorithm, bytes: Uint8Array): Buffer {
  if (algorithm === 'SHA1') return hash('sha1', bytes, 'buffer');
  if (algorithm === 'SHA256') return hash('sha256', bytes, 'buffer');
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
