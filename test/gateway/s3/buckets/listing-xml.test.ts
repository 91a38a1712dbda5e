// What listings share: counts, markers, and continuation tokens that nobody else can make.
import { describe, expect, it } from 'vitest';
import {
  decodeToken,
  encodeToken,
  markerPosition,
  parseCount,
} from '#bursar/gateway/s3/buckets/listing-xml.js';
import type { S3Request } from '#bursar/gateway/s3/request.js';

describe('a continuation token', () => {
  it.each(['', 'k', 'a/b', 'ü\u{10000}', '\0', '\u0001\n'])(
    'for %j comes back as it was',
    (text) => {
      for (const kind of ['key', 'prefix'] as const) {
        const token = encodeToken({ kind, text });
        expect(token).toMatch(/^[\w-]+$/);
        expect(decodeToken(token)).toEqual({ kind, text });
      }
    },
  );

  it.each(['', 'x', 'a2s=', 'a2 s', 'a_', 'eA', Buffer.from([0x6b, 0xff]).toString('base64url')])(
    '"%s", which is none of ours, is refused',
    (token) => {
      expect(() => decodeToken(token)).toThrow('continuation token');
    },
  );
});

describe('a marker', () => {
  it.each([
    ['', '', '/', null],
    ['a', '', '/', { kind: 'key', text: 'a' }],
    ['a/', '', '/', { kind: 'prefix', text: 'a/' }],
    ['a/b/', '', '/', { kind: 'prefix', text: 'a/' }],
    ['a/b/', 'a/', '/', { kind: 'prefix', text: 'a/b/' }],
    ['a/', 'a/', '/', { kind: 'key', text: 'a/' }],
    ['a/', '', '', { kind: 'key', text: 'a/' }],
    ['x/', 'y', '/', { kind: 'key', text: 'x/' }],
    ['a--', '', '--', { kind: 'prefix', text: 'a--' }],
    ['a---', '', '--', { kind: 'prefix', text: 'a--' }],
  ])('%j under %j folded by %j stands at %j', (marker, prefix, delimiter, position) => {
    expect(markerPosition(marker, { prefix, delimiter })).toEqual(position);
  });
});

describe('a count', () => {
  const count = (text: string) =>
    parseCount({ query: [['n', text]] } as unknown as S3Request, 'n', 7);
  it.each([
    ['0', 0],
    ['1001', 1001],
    ['2147483647', 2147483647],
    ['007', 7],
    ['', 7],
  ])('%s is %i', (text, value) => {
    expect(count(text)).toBe(value);
  });

  it.each(['2147483648', '-1', '+1', '1.0', '1e3', ' 1', '٣'])('%s is refused', (text) => {
    expect(() => count(text)).toThrow('must be an integer');
  });
});
