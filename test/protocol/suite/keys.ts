// Keys are names, not paths: whatever UTF-8 they hold, they come back as they went in, they are
// listed in the order of their bytes, and they touch no file.
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  clientOf,
  exchange,
  newBucket,
  patternOf,
  send,
  signMessage,
  type Target,
} from '../target.ts';
import { readObject } from './objects.ts';

const controls = Array.from({ length: 31 }, (_, i) => String.fromCharCode(i + 1)).join('');

/** Each is a key of its own, though some programs would take several of them for one. */
const strangeKeys = [
  '.',
  '..',
  '../escape',
  '../../../../tmp/escape',
  'a/../b',
  'a/./b',
  'a//b',
  'a///b',
  '//',
  '/',
  '/leading',
  'trailing/',
  'trailing',
  'a%2Fb',
  'a%252Fb',
  '%',
  '%zz',
  'a+b',
  'a b',
  ' ',
  'a\\b',
  'q?x=1&y#z',
  '<&>"\'',
  "!*'()~;:@,$=[]{}|^`",
  'nul\0inside',
  controls,
  '\u007f\u0080\u0085\u009f',
  'line\u2028and\u2029paragraph',
  '\ufeffmark',
  '\ufffe\uffff\ufdd0',
  '\u00e9',
  'e\u0301',
  'İıſK',
  '日本語/ключ/مفتاح',
  '👩‍👩‍👧',
  '\ud7ff',
  '\ue000',
  '\uffff',
  '\u{10000}',
  '\u{10ffff}',
  'con',
  'aux.txt',
  'bursar.db',
  'extents',
  '.snapshots',
  '-s3',
  '_/health',
  'k'.repeat(1024),
  'ü'.repeat(512),
  '𐍈'.repeat(256),
];

export function describeKeys(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });

  describe('a key', () => {
    it.each(strangeKeys.map((key) => [JSON.stringify(key).slice(0, 60), key]))(
      '%s goes through PUT, GET, LIST and DELETE unchanged',
      async (_title, Key) => {
        const Body = `the body of ${Key}`;
        await client.send(new PutObjectCommand({ Bucket, Key, Body }));
        expect((await readObject(client, Bucket, Key)).toString()).toBe(Body);
        const listing = { Bucket, Prefix: Key, MaxKeys: 1, EncodingType: 'url' } as const;
        const { Contents = [] } = await client.send(new ListObjectsV2Command(listing));
        expect(Contents.map((entry) => decodeURIComponent(entry.Key ?? ''))).toEqual([Key]);
        await client.send(new DeleteObjectCommand({ Bucket, Key }));
        expect((await send(target, { method: 'GET', path: `/${Bucket}/${Key}` })).code).toBe(
          'NoSuchKey',
        );
      },
    );

    it('of any bytes are kept apart, listed by UTF-8 bytes, and no file is theirs', async () => {
      for (const Key of strangeKeys) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
      }
      for (const Key of strangeKeys) {
        expect((await readObject(client, Bucket, Key)).toString()).toBe(Key);
      }
      const listing = { Bucket, EncodingType: 'url' } as const;
      const { Contents = [] } = await client.send(new ListObjectsV2Command(listing));
      const sorted = strangeKeys.map((key) => Buffer.from(key)).sort(Buffer.compare);
      expect(Contents.map((entry) => decodeURIComponent(entry.Key ?? ''))).toEqual(
        sorted.map((key) => key.toString()),
      );
      expect(target.strayNames()).toEqual([]);
    });

    it('that XML can name is deleted by a list, and no other with it', async () => {
      const named = strangeKeys.filter(
        (key) => !['\0', '\ufffe', '\uffff'].some((letter) => key.includes(letter)),
      );
      // The SDK writes control characters as they are, which is no XML: a reference names them.
      const isControlled = (key: string) => Array.from(key).some((letter) => letter < ' ');
      const controlled = named.filter(isControlled);
      const plain = named.filter((key) => !isControlled(key));
      const Objects = plain.map((Key) => ({ Key }));
      const done = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
      expect(done.Errors ?? []).toEqual([]);
      const spell = (key: string) => Array.from(key, (c) => `&#${c.codePointAt(0)};`).join('');
      const list = controlled.map((key) => `<Object><Key>${spell(key)}</Key></Object>`);
      const body = `<Delete>${list.join('')}</Delete>`;
      const asked = { method: 'POST', path: `/${Bucket}`, query: [['delete', '']] as const, body };
      expect((await send(target, asked)).status).toBe(200);

      const listing = { Bucket, EncodingType: 'url' } as const;
      const { Contents = [] } = await client.send(new ListObjectsV2Command(listing));
      const left = Contents.map((entry) => decodeURIComponent(entry.Key ?? ''));
      expect(new Set(left)).toEqual(new Set(strangeKeys.filter((key) => !named.includes(key))));
    });

    it('is the source of a copy by its percent-encoded name', async () => {
      const keys = ['a b+c%2Fd?versionId=none', 'ключ/../x', '//two', 'nul\0'];
      for (const Key of keys) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
        const CopySource = `${Bucket}/${encodeURIComponent(Key)}`;
        await client.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource }));
        expect((await readObject(client, Bucket, 'copy')).toString()).toBe(Key);
      }
    });

    it('of a large object names no file either', async () => {
      const Key = '../../../large/../name';
      const Body = patternOf(300_000, 5);
      await client.send(new PutObjectCommand({ Bucket, Key, Body }));
      expect((await readObject(client, Bucket, Key)).equals(Body)).toBe(true);
      expect(target.strayNames()).toEqual([]);
    });

    it('of 1,025 bytes is refused, whatever the number of characters', async () => {
      for (const key of ['k'.repeat(1025), `${'ü'.repeat(512)}k`, `k${'𐍈'.repeat(256)}`]) {
        for (const method of ['PUT', 'GET', 'DELETE']) {
          const answer = await send(target, { method, path: `/${Bucket}/${key}` });
          expect([answer.status, answer.code]).toEqual([400, 'KeyTooLongError']);
        }
      }
    });

    it.each(['%FF', '%C3', '%C0%80', '%ED%A0%80', '%F4%90%80%80', '%', '%4', '%zz'])(
      'spelled %s, which is no UTF-8, is refused',
      async (spelling) => {
        const { headers } = signMessage(target, { method: 'PUT', path: `/${Bucket}/x` });
        const answer = await exchange(target, 'PUT', `/${Bucket}/${spelling}`, headers);
        expect([answer.status, answer.code]).toEqual([400, 'InvalidURI']);
      },
    );

    it('may be spelled in several ways in a target: it is the same key', async () => {
      await client.send(new PutObjectCommand({ Bucket, Key: 'a(b)/ü', Body: 'one' }));
      for (const spelling of ['a(b)/%C3%BC', 'a%28b%29/%c3%bc', '%61%28%62%29%2F%C3%BC']) {
        const { headers } = signMessage(target, { method: 'GET', path: `/${Bucket}/a(b)/ü` });
        const answer = await exchange(target, 'GET', `/${Bucket}/${spelling}`, headers);
        expect([answer.status, answer.text]).toEqual([200, 'one']);
      }
    });
  });
}
