// What is kept of the parts of an object, however many they are.
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  askedPart,
  joinPartChecksums,
  joinPartSizes,
  partChecksumsOf,
  partSizesOf,
} from '#bursar/gateway/s3/objects/object-parts.js';
import type { S3Request } from '#bursar/gateway/s3/request.js';

const plain = { headers: {}, metadata: {} };

function requestOf(partNumber: number): S3Request {
  return { query: [['partNumber', String(partNumber)]], headers: {} } as unknown as S3Request;
}

describe('the checksums of parts', () => {
  it.each([
    [10_000, 4],
    [10_000, 8],
    [4000, 20],
    [2500, 32],
  ])('of %i parts of %i bytes come back one by one', (count, bytes) => {
    const given = Array.from({ length: count }, () => randomBytes(bytes));
    const partBytes = given.map(() => 5_242_880);
    const partChecksums = joinPartChecksums(given);
    const checksumOf = partChecksumsOf({ ...plain, partBytes, partChecksums });
    expect(given.map((_, i) => checksumOf(i + 1))).toEqual(
      given.map((one) => one.toString('base64')),
    );
  });

  it('are not kept where they are more than 80,000 bytes, and then none is told', () => {
    const given = Array.from({ length: 2501 }, () => randomBytes(32));
    const partChecksums = joinPartChecksums(given);
    expect(partChecksums).toBeUndefined();
    const partBytes = given.map(() => 1);
    expect(partChecksumsOf({ ...plain, partBytes, partChecksums })(1)).toBeUndefined();
  });
});

describe('parts', () => {
  it('lie one behind the other, and make the object together', () => {
    const partBytes = Array.from({ length: 10_000 }, (_, i) => 5_242_880 + i);
    const sizeBytes = partBytes.reduce((sum, bytes) => sum + bytes, 0);
    const asked = (number: number) =>
      askedPart(requestOf(number), { ...plain, partBytes }, sizeBytes);
    expect(asked(1)).toEqual({ number: 1, start: 0, end: 5_242_880, count: 10_000 });
    expect(asked(2)?.start).toBe(asked(1)?.end);
    expect(asked(10_000)).toMatchObject({ end: sizeBytes, count: 10_000 });
    expect(asked(10_000)?.start).toBe(asked(9999)?.end);
  });

  it.each([[[]], [[7]], [[7, 7]], [[7, 7, 3]], [[1, 7, 7, 7, 2, 2, 1]]])(
    'of sizes %j are kept in pairs, and come back',
    (sizes) => {
      const partBytes = joinPartSizes(sizes);
      expect(partSizesOf({ ...plain, partBytes })).toEqual(sizes);
      expect(partBytes.length).toBeLessThanOrEqual(sizes.length);
    },
  );

  it('of one size are kept as one pair, and were kept as a number each', () => {
    const sizes = Array.from({ length: 10_000 }, () => 5_242_880);
    expect(joinPartSizes(sizes)).toEqual([[5_242_880, 10_000]]);
    expect(partSizesOf({ ...plain, partBytes: sizes })).toEqual(sizes);
    expect(partSizesOf(plain)).toBeUndefined();
  });

  it('may be empty, the last one', () => {
    const asked = askedPart(requestOf(2), { ...plain, partBytes: [7, 0] }, 7);
    expect(asked).toEqual({ number: 2, start: 7, end: 7, count: 2 });
  });
});
