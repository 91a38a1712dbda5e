// Ranges by value: RFC 9110 section 14.1.2 for reads, S3's stricter form for copies.
import { describe, expect, it } from 'vitest';
import { parseCopyRange, parseRange } from '#bursar/gateway/s3/range.js';

describe('a range', () => {
  it.each([
    ['bytes=0-0', 0, 1],
    ['bytes=0-', 0, 10],
    ['bytes=9-', 9, 10],
    ['bytes=2-100', 2, 10],
    ['bytes=-3', 7, 10],
    ['bytes=-30', 0, 10],
    ['bytes=0-99999999999999999999999999', 0, 10],
  ])('%s of ten bytes is [%i, %i)', (text, start, end) => {
    expect(parseRange(text, 10)).toEqual({ start, end });
  });

  it.each([
    undefined,
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=4-2',
    'bytes=1-2,4-5',
    'byte=0-1',
    'bytes= -1',
    'bytes=2 - 4',
  ])('"%s" is none', (text) => {
    expect(parseRange(text, 10)).toBeNull();
  });

  it('of the last bytes of nothing is none', () => {
    expect(parseRange('bytes=-5', 0)).toBeNull();
  });

  it.each([
    ['bytes=10-', 10],
    ['bytes=10-12', 10],
    ['bytes=-0', 10],
    ['bytes=0-', 0],
    ['bytes=99999999999999999999999999-', 10],
  ])('%s of %i bytes is refused', (text, sizeBytes) => {
    expect(() => parseRange(text, sizeBytes)).toThrow('not satisfiable');
  });
});

describe('the range of a copy', () => {
  it('lies wholly in its source', () => {
    expect(parseCopyRange(undefined, 10)).toBeNull();
    expect(parseCopyRange('bytes=0-9', 10)).toEqual({ start: 0, end: 10 });
    expect(parseCopyRange('bytes=9-9', 10)).toEqual({ start: 9, end: 10 });
  });

  it('is an invalid request where it begins behind the end of its source', () => {
    expect(() => parseCopyRange('bytes=10-10', 10)).toThrow(
      expect.objectContaining({ code: 'InvalidRequest' }),
    );
  });

  it.each(['bytes=0-10', 'bytes=3-2', 'bytes=0-', 'bytes=-1', 'bytes=0-1,2-3', ''])(
    '"%s" of ten bytes is refused',
    (text) => {
      expect(() => parseCopyRange(text, 10)).toThrow(
        expect.objectContaining({ code: 'InvalidArgument' }),
      );
    },
  );
});
