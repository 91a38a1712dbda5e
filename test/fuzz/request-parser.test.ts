// Request targets at random: what encodes a bucket and a key gives them back, byte for byte, and
// what is no target at all is refused; nothing but a Refusal is ever thrown.
import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { percentEncode } from '#bursar/core/canonical-request.js';
import { Refusal } from '#bursar/core/errors.js';
import { parseRequest, type S3Request } from '#bursar/gateway/s3/request.js';
import { findOperation } from '#bursar/gateway/s3/routes.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

type Random = () => number;

const domains = ['s3.example.test'];
const hosts = [
  '127.0.0.1:9000',
  's3.example.test',
  'data.s3.example.test',
  'a.b.S3.Example.TEST:1',
];

function parse(method: string, url: string, headers: Record<string, string> = {}): S3Request {
  const rawHeaders = Object.entries(headers).flat();
  const raw = { method, url, headers, rawHeaders } as unknown as IncomingMessage;
  return parseRequest(raw, { id: '0', source: 'a test', isSecure: false }, domains);
}

/** Any characters, but no half of one. */
function text(random: Random, lengthMax: number): string {
  let out = '';
  for (let i = randomBelow(random, lengthMax + 1); i > 0; i--) {
    const bits = randomOf(random, [7, 7, 7, 8, 11, 16, 20]);
    const point = randomBelow(random, 2 ** bits);
    out += point >= 0xd800 && point <= 0xdfff ? '/' : String.fromCodePoint(point);
  }
  return out;
}

/** The same bytes, some of them encoded that need not be, in either case. */
function encodeLoosely(random: Random, plain: string, keep: RegExp): string {
  return Array.from(Buffer.from(plain), (byte) => {
    const letter = String.fromCharCode(byte);
    if (byte < 0x7f && keep.test(letter) && randomBelow(random, 4) > 0) return letter;
    const hex = byte.toString(16).padStart(2, '0');
    return `%${randomBelow(random, 2) === 0 ? hex : hex.toUpperCase()}`;
  }).join('');
}

function expectRefusal(run: () => unknown): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
}

describe('the request parser', () => {
  it(
    'gives back the bucket, key and query that a target encodes',
    () =>
      fuzz(1, 3000, (random) => {
        const bucket = text(random, 8).replaceAll('/', '') || 'b';
        const key = text(random, 40);
        const query = Array.from({ length: randomBelow(random, 4) }, () => [
          text(random, 6).replaceAll('=', '') || 'n',
          text(random, 10),
        ]);
        const keep = /[A-Za-z0-9._~/!$'()*,:;@=&-]/;
        const keepInQuery = /[A-Za-z0-9._~/!$'()*,:;@-]/;
        const pairs = query.map((pair) =>
          pair.map((one) => encodeLoosely(random, one, keepInQuery)).join('='),
        );
        const target = `/${encodeLoosely(random, `${bucket}/${key}`, keep)}?${pairs.join('&')}`;
        const request = parse('GET', target, { host: '127.0.0.1:9000' });
        expect(request.bucketName).toBe(bucket);
        expect(request.key).toBe(key === '' ? null : key);
        expect(request.query).toEqual(query);
        // The path that was signed is the path that is used.
        expect(percentEncode(request.path, true)).toBe(percentEncode(`/${bucket}/${key}`, true));
      }),
    fuzzTimeoutMs,
  );

  it(
    'refuses what is no target, and gives every other to an operation or a refusal',
    () =>
      fuzz(100_000, 5000, (random) => {
        const pieces = [
          '/',
          '//',
          '?',
          '&',
          '=',
          '%',
          '%2',
          '%2F',
          '%00',
          '%ff',
          '%C3%BC',
          '..',
          '+',
          'http://',
          'https://x',
          ':',
          'data',
          'uploads',
          'uploadId',
          'list-type=2',
          ' ',
          '\u0000',
          '\u00ff',
          'k'.repeat(1024),
          '#',
        ];
        let target = randomBelow(random, 4) === 0 ? '' : '/';
        for (let i = randomBelow(random, 8); i > 0; i--) {
          const isRandom = randomBelow(random, 8) === 0;
          target += isRandom
            ? randomBytesOf(random, 4).toString('latin1')
            : randomOf(random, pieces);
        }
        const method = randomOf(random, ['GET', 'PUT', 'POST', 'DELETE', 'HEAD', 'OPTIONS', 'X']);
        expectRefusal(() => {
          const request = parse(method, target, { host: randomOf(random, hosts) });
          expect(Buffer.byteLength(request.key ?? '')).toBeLessThanOrEqual(1024);
          expect(request.key).not.toBe('');
          // What has no name before a key is in no bucket, which the operation says.
          if (request.key === null) expect(request.bucketName).not.toBe('');
          expect(findOperation(request).name).toMatch(/^[A-Z]/);
        });
      }),
    fuzzTimeoutMs,
  );
});
