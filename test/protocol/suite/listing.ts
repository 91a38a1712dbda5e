// ListObjects and ListObjectsV2: order, folding by delimiter, paging, encoding.
import {
  ListObjectsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  clientOf,
  elementOf,
  elementsOf,
  newBucket,
  newName,
  refusalOf,
  send,
  type Target,
} from '../target.ts';

const keys = [
  'a',
  'a/b/1',
  'a/b/2',
  'a/c',
  'b--x',
  'b--y--z',
  'b-x',
  'dir/',
  'dir/file',
  'z\u{1f600}1',
  'z\u{1f600}2',
  'ﬀ',
  '\u{10000}',
];

export function describeListing(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    for (const Key of keys) await client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
  });
  const room = () => ({ target, client, Bucket });
  describeFolding(room);
  describePaging(room);
  describeArguments(room);
  describeEntries(room);
}

type Room = () => { target: Target; client: S3Client; Bucket: string };

interface Listed {
  keys: (string | undefined)[];
  prefixes: (string | undefined)[];
}

/** Both dialects must say the same. */
async function list(room: Room, Prefix: string, Delimiter?: string): Promise<Listed> {
  const { client, Bucket } = room();
  const v1 = await client.send(new ListObjectsCommand({ Bucket, Prefix, Delimiter }));
  const v2 = await client.send(new ListObjectsV2Command({ Bucket, Prefix, Delimiter }));
  expect(v2.Contents).toEqual(v1.Contents?.map(({ Owner, ...entry }) => entry));
  expect(v2.CommonPrefixes).toEqual(v1.CommonPrefixes);
  expect([v1.IsTruncated, v2.IsTruncated]).toEqual([false, false]);
  const listed = {
    keys: (v2.Contents ?? []).map((entry) => entry.Key),
    prefixes: (v2.CommonPrefixes ?? []).map((entry) => entry.Prefix),
  };
  expect(v2.KeyCount).toBe(listed.keys.length + listed.prefixes.length);
  return listed;
}

function describeFolding(room: Room): void {
  describe('a listing', () => {
    it('gives keys in order of their UTF-8 bytes', async () => {
      expect(await list(room, '')).toEqual({ keys, prefixes: [] });
    });

    it.each([
      ['', '/', ['a', 'b--x', 'b--y--z', 'b-x', ...keys.slice(9)], ['a/', 'dir/']],
      ['a/', '/', ['a/c'], ['a/b/']],
      ['a', '/', ['a'], ['a/']],
      ['a/b', '/', [], ['a/b/']],
      ['a/b/', '/', ['a/b/1', 'a/b/2'], []],
      ['dir/', '/', ['dir/', 'dir/file'], []],
      ['b', '--', ['b-x'], ['b--']],
      ['b-', '--', ['b--x', 'b-x'], ['b--y--']],
      ['b--', '--', ['b--x'], ['b--y--']],
      ['', 'a', keys.slice(4, 7).concat(keys.slice(7)), ['a']],
      ['', '\u{1f600}', keys.filter((key) => !key.startsWith('z')), ['z\u{1f600}']],
      ['', '%', keys, []],
      ['', 'no such delimiter', keys, []],
      ['none', '/', [], []],
      ['z', '\u{1f600}1', ['z\u{1f600}2'], ['z\u{1f600}1']],
      ['\u{10000}', '/', ['\u{10000}'], []],
    ])('of prefix "%s" folds at the delimiter "%s"', async (prefix, delimiter, found, folded) => {
      expect(await list(room, prefix, delimiter)).toEqual({ keys: found, prefixes: folded });
    });

    it('folds many keys into one prefix and goes on behind them', async () => {
      const { client } = room();
      const Bucket = await newBucket(client);
      const names = Array.from({ length: 60 }, (_, i) => `p${i % 3}/${i}`);
      for (const Key of [...names, 'z']) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
      }
      const found = await list(() => ({ ...room(), Bucket }), '', '/');
      expect(found).toEqual({ keys: ['z'], prefixes: ['p0/', 'p1/', 'p2/'] });
    });

    it('of a bucket without objects is empty, of no bucket NoSuchBucket', async () => {
      const { client } = room();
      const empty = await newBucket(client);
      const listed = await client.send(new ListObjectsV2Command({ Bucket: empty }));
      expect([listed.KeyCount, listed.IsTruncated, listed.Contents]).toEqual([0, false, undefined]);
      const none = client.send(new ListObjectsV2Command({ Bucket: newName() }));
      expect(await refusalOf(none)).toEqual({ code: 'NoSuchBucket', status: 404 });
    });
  });
}

function describePaging(room: Room): void {
  describe('pages of a listing', () => {
    it.each([1, 2, 3, 5, 1000])(
      'of %i entries join to the whole, in both dialects',
      async (max) => {
        const { client, Bucket } = room();
        for (const Delimiter of [undefined, '/', '--']) {
          const whole = await list(room, '', Delimiter);
          const entries = [...whole.keys, ...whole.prefixes].length;
          const common = { Bucket, Delimiter, MaxKeys: max };
          const v1: Listed & { pages: number } = { keys: [], prefixes: [], pages: 0 };
          let Marker: string | undefined;
          do {
            const page = await client.send(new ListObjectsCommand({ ...common, Marker }));
            collect(v1, page);
            // Without a delimiter S3 gives no NextMarker: the last key is the marker.
            Marker = page.NextMarker ?? page.Contents?.at(-1)?.Key;
            if (!page.IsTruncated) Marker = undefined;
          } while (Marker !== undefined);
          const v2: Listed & { pages: number } = { keys: [], prefixes: [], pages: 0 };
          let ContinuationToken: string | undefined;
          do {
            const asked = { ...common, ContinuationToken };
            const page = await client.send(new ListObjectsV2Command(asked));
            collect(v2, page);
            ContinuationToken = page.NextContinuationToken;
            expect(page.IsTruncated).toBe(ContinuationToken !== undefined);
          } while (ContinuationToken !== undefined);
          const pages = Math.ceil(entries / max);
          expect([v1, v2]).toEqual([
            { ...whole, pages },
            { ...whole, pages },
          ]);
        }
      },
    );

    it('go on after a marker that is a key, no key, or a folded prefix', async () => {
      const { client, Bucket } = room();
      const keysAfter = async (Marker: string, Delimiter?: string) => {
        const page = await client.send(new ListObjectsCommand({ Bucket, Marker, Delimiter }));
        const prefixes = (page.CommonPrefixes ?? []).map((entry) => entry.Prefix);
        return [...prefixes, ...(page.Contents ?? []).map((entry) => entry.Key)];
      };
      expect(await keysAfter('a')).toEqual(keys.slice(1));
      expect(await keysAfter('a/b/11')).toEqual(keys.slice(2));
      expect(await keysAfter('\u{10ffff}')).toEqual([]);
      expect(await keysAfter('a/', '/')).toEqual(['dir/', ...keys.slice(4, 7), ...keys.slice(9)]);
      // A key under a folded prefix passes all of it.
      expect(await keysAfter('a/b/1', '/')).toEqual(await keysAfter('a/', '/'));
    });

    it('begin after start-after, and a continuation token is stronger', async () => {
      const { client, Bucket } = room();
      const first = await client.send(
        new ListObjectsV2Command({ Bucket, StartAfter: 'a/b/2', MaxKeys: 2 }),
      );
      expect(first.Contents?.map((entry) => entry.Key)).toEqual(['a/c', 'b--x']);
      expect(first.StartAfter).toBe('a/b/2');
      const ContinuationToken = first.NextContinuationToken;
      const next = await client.send(
        new ListObjectsV2Command({ Bucket, StartAfter: 'z', ContinuationToken, MaxKeys: 2 }),
      );
      expect(next.Contents?.map((entry) => entry.Key)).toEqual(['b--y--z', 'b-x']);
      expect(next.ContinuationToken).toBe(ContinuationToken);
    });

    it('of another prefix show nothing outside the prefix that is asked for', async () => {
      const { client, Bucket } = room();
      const first = await client.send(
        new ListObjectsV2Command({ Bucket, Delimiter: '/', MaxKeys: 2 }),
      );
      expect(first.CommonPrefixes?.map((entry) => entry.Prefix)).toEqual(['a/']);
      const ContinuationToken = first.NextContinuationToken;
      const asked = { Bucket, Prefix: 'dir/', ContinuationToken };
      const { Contents = [] } = await client.send(new ListObjectsV2Command(asked));
      expect(Contents.map((entry) => entry.Key)).toEqual(['dir/', 'dir/file']);
    });

    it('of no entries are empty and not truncated, as on S3', async () => {
      const { client, Bucket } = room();
      const asked = { Bucket, MaxKeys: 0 };
      const v1 = await client.send(new ListObjectsCommand(asked));
      const v2 = await client.send(new ListObjectsV2Command(asked));
      for (const page of [v1, v2]) {
        expect([page.Contents, page.IsTruncated, page.MaxKeys]).toEqual([undefined, false, 0]);
      }
    });

    it('are of 1,000 entries at most', async () => {
      const { client, Bucket } = room();
      const page = await client.send(new ListObjectsV2Command({ Bucket, MaxKeys: 1001 }));
      expect(page.MaxKeys).toBe(1000);
    });
  });
}

function collect(
  into: Listed & { pages: number },
  page: { Contents?: { Key?: string }[]; CommonPrefixes?: { Prefix?: string }[] },
): void {
  into.keys.push(...(page.Contents ?? []).map((entry) => entry.Key));
  into.prefixes.push(...(page.CommonPrefixes ?? []).map((entry) => entry.Prefix));
  into.pages += 1;
}

function describeArguments(room: Room): void {
  describe('an argument of a listing', () => {
    it.each([
      ['max-keys', '-1'],
      ['max-keys', 'ten'],
      ['max-keys', '1.5'],
      ['max-keys', '2147483648'],
      ['encoding-type', 'base64'],
    ])('%s=%s is refused', async (name, value) => {
      const { target, Bucket } = room();
      const query = [[name, value]] as const;
      const answer = await send(target, { method: 'GET', path: `/${Bucket}`, query });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
      expect(elementOf(answer.text, 'ArgumentName')).toBe(name);
    });

    it.each(['', '!', 'eA', 'kYQ', 'a2E='])(
      'continuation-token=%s, not ours, is refused',
      async (token) => {
        const { target, Bucket } = room();
        const query = [
          ['list-type', '2'],
          ['continuation-token', token],
        ] as const;
        const answer = await send(target, { method: 'GET', path: `/${Bucket}`, query });
        expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
      },
    );

    it('encoding-type=url encodes all that XML cannot hold, and says so', async () => {
      const { target, client } = room();
      const Bucket = await newBucket(client);
      for (const Key of ['a\u0001/ü+ %', 'b\u0002']) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
      }
      const query = [
        ['list-type', '2'],
        ['encoding-type', 'url'],
        ['delimiter', '/'],
        ['start-after', '\u0001'],
      ] as const;
      const { text } = await send(target, { method: 'GET', path: `/${Bucket}`, query });
      expect(elementsOf(text, 'Key')).toEqual(['b%02']);
      expect(elementsOf(text, 'Prefix')).toEqual(['', 'a%01/']);
      expect(elementOf(text, 'StartAfter')).toBe('%01');
      expect(elementOf(text, 'Delimiter')).toBe('/');
      expect(elementOf(text, 'EncodingType')).toBe('url');
      const folded = await send(target, {
        method: 'GET',
        path: `/${Bucket}`,
        query: [...query, ['prefix', 'a\u0001/']],
      });
      expect(elementsOf(folded.text, 'Key')).toEqual(['a%01/%C3%BC%2B%20%25']);
    });
  });
}

function describeEntries(room: Room): void {
  describe('an entry of a listing', () => {
    it('has its object’s size, ETag, time and class; v2 names the owner if asked', async () => {
      const { client, Bucket } = room();
      const v1 = await client.send(new ListObjectsCommand({ Bucket, MaxKeys: 1 }));
      const Owner = { ID: 'default/admin' };
      expect(v1.Contents).toEqual([
        {
          Key: 'a',
          Size: 1,
          ETag: '"0cc175b9c0f1b6a831c399e269772661"',
          LastModified: expect.any(Date),
          StorageClass: 'STANDARD',
          ChecksumAlgorithm: ['CRC32'],
          ChecksumType: 'FULL_OBJECT',
          Owner,
        },
      ]);
      const asked = { Bucket, MaxKeys: 1, FetchOwner: true };
      const v2 = await client.send(new ListObjectsV2Command(asked));
      expect(v2.Contents?.[0]?.Owner).toEqual(Owner);
    });
  });
}
