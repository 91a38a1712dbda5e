// Ranges of objects: RFC 9110 section 14 as S3 has it, on an object of several extents.
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { clientOf, elementOf, newBucket, patternOf, send, type Target } from '../target.ts';
import { readObject } from './objects.ts';

const MiB = 1024 * 1024;
const chunk = 256 * 1024;
const extent = 16 * MiB;
const largeBytes = 33 * MiB + 12_345;

export function describeRanges(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  const large = patternOf(largeBytes, 31);
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    await client.send(new PutObjectCommand({ Bucket, Key: 'large', Body: large }));
    await client.send(new PutObjectCommand({ Bucket, Key: 'ten', Body: '0123456789' }));
    await client.send(new PutObjectCommand({ Bucket, Key: 'empty', Body: Buffer.alloc(0) }));
  }, 30_000);

  const get = (key: string, range: string, method = 'GET') =>
    send(target, { method, path: `/${Bucket}/${key}`, headers: { range } });

  describe('If-Range', () => {
    const resume = (ifRange: string) =>
      send(target, {
        method: 'GET',
        path: `/${Bucket}/ten`,
        headers: { range: 'bytes=5-', 'if-range': ifRange },
      });

    it('with the current tag or date gives the range', async () => {
      const { headers } = await get('ten', 'bytes=0-0');
      for (const current of [headers.etag, headers['last-modified']]) {
        expect(await resume(String(current))).toMatchObject({ status: 206, text: '56789' });
      }
    });

    it.each(['"0123456789abcdef0123456789abcdef"', 'Mon, 01 Jan 2001 00:00:00 GMT', 'W/"x"'])(
      'with %s, which is not current, gives the whole object',
      async (stale) => {
        expect(await resume(stale)).toMatchObject({ status: 200, text: '0123456789' });
      },
    );
  });

  describe('a range', () => {
    it('of tens of thousands of characters is no range', async () => {
      const got = await get('ten', `bytes=${' '.repeat(20_000)}x`);
      expect([got.status, got.text]).toEqual([200, '0123456789']);
    });

    it.each([
      ['bytes=0-0', '0', '0-0'],
      ['bytes=0-9', '0123456789', '0-9'],
      ['bytes=0-', '0123456789', '0-9'],
      ['bytes=3-5', '345', '3-5'],
      ['bytes=9-', '9', '9-9'],
      ['bytes=9-9', '9', '9-9'],
      ['bytes=5-999999999999999999999', '56789', '5-9'],
      ['bytes=-1', '9', '9-9'],
      ['bytes=-10', '0123456789', '0-9'],
      ['bytes=-999', '0123456789', '0-9'],
    ])('%s of ten bytes is 206 with just these', async (range, body, shown) => {
      const got = await get('ten', range);
      expect([got.status, got.text]).toEqual([206, body]);
      expect(got.headers).toMatchObject({
        'content-range': `bytes ${shown}/10`,
        'content-length': String(body.length),
        'accept-ranges': 'bytes',
      });
      const head = await get('ten', range, 'HEAD');
      expect([head.status, head.body.length]).toEqual([206, 0]);
      expect(head.headers).toMatchObject({
        'content-range': `bytes ${shown}/10`,
        'content-length': String(body.length),
      });
    });

    it.each([
      ['ten', 'bytes=10-'],
      ['ten', 'bytes=10-20'],
      ['ten', 'bytes=99999999999999999999-'],
      ['ten', 'bytes=-0'],
      ['empty', 'bytes=0-'],
      ['empty', 'bytes=0-0'],
    ])('of "%s", %s, with none of its bytes is 416', async (key, range) => {
      const got = await get(key, range);
      expect([got.status, got.code]).toEqual([416, 'InvalidRange']);
      expect(elementOf(got.text, 'RangeRequested')).toBe(range);
      expect(elementOf(got.text, 'ActualObjectSize')).toBe(key === 'ten' ? '10' : '0');
    });

    it.each([
      'bytes=',
      'bytes=-',
      'bytes=a-b',
      'bytes=5-3',
      'bytes=0-1,3-4',
      'octets=0-1',
      'bytes 0-1',
      '0-1',
    ])('"%s" that S3 does not know is ignored: the whole object', async (range) => {
      const got = await get('ten', range);
      expect([got.status, got.text]).toEqual([200, '0123456789']);
      expect(got.headers['content-range']).toBeUndefined();
    });
  });

  describe('an object of several extents', () => {
    it('comes back whole', async () => {
      expect((await readObject(client, Bucket, 'large')).equals(large)).toBe(true);
    });

    it.each([
      ['inside a chunk', 1000, 2000],
      ['of a whole chunk', chunk, 2 * chunk],
      ['across the end of a chunk', chunk - 1, chunk + 1],
      ['of a whole extent', extent, 2 * extent],
      ['across the end of an extent', extent - 1, extent + 1],
      ['from an extent into the next but one', extent - 5, 2 * extent + 5],
      ['of the first byte of an extent', 2 * extent, 2 * extent + 1],
      ['of the last byte', largeBytes - 1, largeBytes],
      ['of all but the ends', 1, largeBytes - 1],
    ])('a range %s gives just its bytes', async (_title, start, end) => {
      const Range = `bytes=${start}-${end - 1}`;
      const got = await client.send(new GetObjectCommand({ Bucket, Key: 'large', Range }));
      const body = Buffer.from((await got.Body?.transformToByteArray()) ?? []);
      expect(got.ContentRange).toBe(`bytes ${start}-${end - 1}/${largeBytes}`);
      expect(body.equals(large.subarray(start, end))).toBe(true);
    });

    it('many ranges at once do not mix', async () => {
      const starts = Array.from({ length: 24 }, (_, i) => i * 1_400_003);
      const bodies = await Promise.all(
        starts.map((start) => get('large', `bytes=${start}-${start + 300_000}`)),
      );
      bodies.forEach(({ body }, i) => {
        const start = starts[i] as number;
        expect(body.equals(large.subarray(start, start + 300_001))).toBe(true);
      });
    });
  });
}
