// Checksums against published check values and against the AWS SDK's own implementation.
import { Crc64Nvme } from '@aws-sdk/crc64-nvme';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  checksumAlgorithms,
  combineCrc,
  computeChecksum,
  createChecksum,
  loadChecksums,
} from '#bursar/tiering/checksums.js';
import { makeBytes, makeRandom } from './rig.ts';

beforeAll(async () => {
  await loadChecksums(checksumAlgorithms);
});

const crcs = ['CRC32', 'CRC32C', 'CRC64NVME'] as const;

// The catalogue of parametrised CRC algorithms gives the CRCs of "123456789"; FIPS 180 and RFC 1321
// the digests'; xxHash's reference implementation the others'.
it.each([
  ['CRC32', 'cbf43926'],
  ['CRC32C', 'e3069283'],
  ['CRC64NVME', 'ae8b14860a799888'],
  ['SHA1', 'f7c3bc1d808e04732adf679965ccc34ca7ae3441'],
  ['SHA256', '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225'],
  [
    'SHA512',
    'd9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a' +
      'd27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85',
  ],
  ['MD5', '25f9e794323b453885f5181f1b624d0b'],
  ['XXHASH64', '8cb841db40e6ae83'],
  ['XXHASH3', '72dcb18b67a17dff'],
  ['XXHASH128', '33119477ede5dcd5e9716427681d5860'],
] as const)('%s of the digits 1 to 9 is the published value', (algorithm, hex) => {
  expect(computeChecksum(algorithm, Buffer.from('123456789')).toString('hex')).toBe(hex);
});

it.each([
  ['CRC32', '00000000'],
  ['CRC32C', '00000000'],
  ['CRC64NVME', '0000000000000000'],
  ['SHA1', 'da39a3ee5e6b4b0d3255bfef95601890afd80709'],
  ['XXHASH64', 'ef46db3751d8e999'],
  ['XXHASH3', '2d06800538d394c2'],
  ['XXHASH128', '99aa06d3014798d86001c324468d497f'],
] as const)('%s of nothing', (algorithm, hex) => {
  expect(computeChecksum(algorithm, Buffer.alloc(0)).toString('hex')).toBe(hex);
});

it.each(checksumAlgorithms)('%s does not depend on how the bytes are cut', (algorithm) => {
  const bytes = makeBytes(10_007);
  const random = makeRandom(7);
  const checksum = createChecksum(algorithm);
  for (let at = 0; at < bytes.length; ) {
    const end = at + Math.floor(random() * 97);
    checksum.update(bytes.subarray(at, end));
    at = end;
  }
  expect(checksum.digest()).toEqual(computeChecksum(algorithm, bytes));
});

it("CRC64NVME agrees with the AWS SDK's at every small length and offset", async () => {
  const bytes = makeBytes(300);
  for (let length = 0; length < 70; length++) {
    const run = bytes.subarray(length % 9, (length % 9) + length);
    const theirs = new Crc64Nvme();
    theirs.update(run);
    const expected = Buffer.from(await theirs.digest());
    expect(computeChecksum('CRC64NVME', run)).toEqual(expected);
  }
});

it.each(checksumAlgorithms)('two %s that are computed by turns do not mix', (algorithm) => {
  const bytes = makeBytes(3000);
  const halves = [bytes.subarray(0, 1400), bytes.subarray(1400)] as const;
  const [one, other] = [createChecksum(algorithm), createChecksum(algorithm)];
  one.update(halves[0]);
  other.update(halves[1]);
  one.update(halves[1]);
  other.update(halves[0]);
  expect(other.digest()).toEqual(computeChecksum(algorithm, Buffer.concat([halves[1], halves[0]])));
  expect(one.digest()).toEqual(computeChecksum(algorithm, bytes));
});

it("CRC64NVME agrees with the AWS SDK's at lengths around its pieces", async () => {
  const bytes = makeBytes(70_000);
  for (const length of [1000, 32_767, 32_768, 32_769, 32_790, 65_536, 70_000]) {
    const theirs = new Crc64Nvme();
    theirs.update(bytes.subarray(0, length));
    const expected = Buffer.from(await theirs.digest());
    expect(computeChecksum('CRC64NVME', bytes.subarray(0, length))).toEqual(expected);
  }
});

describe.each(crcs)('joining %s', (algorithm) => {
  const bytes = makeBytes(100_003);

  it('gives the CRC of the joined bytes', () => {
    for (const cut of [0, 1, 2, 7, 8, 4096, 65_537, 100_002, 100_003]) {
      const a = computeChecksum(algorithm, bytes.subarray(0, cut));
      const b = computeChecksum(algorithm, bytes.subarray(cut));
      const whole = computeChecksum(algorithm, bytes);
      expect(combineCrc(algorithm, a, b, bytes.length - cut)).toEqual(whole);
    }
  });

  it('can be repeated part by part', () => {
    let joined = computeChecksum(algorithm, Buffer.alloc(0));
    for (let at = 0; at < bytes.length; at += 9973) {
      const part = bytes.subarray(at, at + 9973);
      joined = combineCrc(algorithm, joined, computeChecksum(algorithm, part), part.length);
    }
    expect(joined).toEqual(computeChecksum(algorithm, bytes));
  });

  it('holds for lengths beyond 32 bits', () => {
    // Doubling a run of zeros 16 times joins 4 GiB and more without hashing them.
    const block = 100_000;
    const zeros = computeChecksum(algorithm, Buffer.alloc(block));
    let doubled = zeros;
    let length = block;
    for (; length < 2 ** 32; length *= 2) doubled = combineCrc(algorithm, doubled, doubled, length);
    // (zeros ‖ zeros…) split elsewhere must come to the same.
    const rest = combineCrcRuns(algorithm, zeros, block, length - block);
    expect(combineCrc(algorithm, zeros, rest, length - block)).toEqual(doubled);
  });

  it('refuses a length that is none', () => {
    const crc = computeChecksum(algorithm, bytes);
    for (const length of [-1, 0.3, Number.NaN, 2 ** 53]) {
      expect(() => combineCrc(algorithm, crc, crc, length)).toThrow('a length of');
    }
  });
});

/** The CRC of `total` zero bytes out of that of one block of them, by binary joining. */
function combineCrcRuns(
  algorithm: (typeof crcs)[number],
  block: Buffer,
  blockBytes: number,
  total: number,
): Buffer {
  let out = computeChecksum(algorithm, Buffer.alloc(0));
  let power = block;
  let powerBytes = blockBytes;
  for (let count = total / blockBytes; count > 0; count = Math.floor(count / 2)) {
    if (count % 2 === 1) out = combineCrc(algorithm, out, power, powerBytes);
    power = combineCrc(algorithm, power, power, powerBytes);
    powerBytes *= 2;
  }
  return out;
}
