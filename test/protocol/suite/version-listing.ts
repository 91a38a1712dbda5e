// ListObjectVersions.
import { ListObjectVersionsCommand, type S3Client } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { clientOf, elementsOf, newBucket, send, type Target } from '../target.ts';
import { newVersionedBucket, putMarker, putVersions, shownVersions } from './versioned.ts';

export function describeVersionListing(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  /** All versions and markers, by key and from the newest down. */
  const all: string[] = [];
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newVersionedBucket(client);
    for (const key of ['a', 'b/1', 'b/2', 'c']) {
      const ids = await putVersions(client, Bucket, key, ['1', '22', '333']);
      if (key !== 'c') ids.push(await putMarker(client, Bucket, key));
      all.push(...ids.reverse().map((id) => `${key}@${id}`));
    }
  });

  const list = async (query: readonly (readonly [string, string])[]) => {
    const asked = {
      method: 'GET',
      path: `/${Bucket}`,
      query: [['versions', ''], ...query] as const,
    };
    const answer = await send(target, asked);
    const [keys, ids] = ['Key', 'VersionId'].map((name) => elementsOf(answer.text, name));
    return { ...answer, shown: keys?.map((key, i) => `${key}@${ids?.[i]}`) ?? [] };
  };

  describe('a listing of versions', () => {
    it('has versions and markers in one order: by key, and from the newest down', async () => {
      const { shown, text } = await list([]);
      expect(shown).toEqual(all);
      expect(elementsOf(text, 'IsLatest').map((one, i) => (one === 'true' ? i : -1))).toEqual([
        0, -1, -1, -1, 4, -1, -1, -1, 8, -1, -1, -1, 12, -1, -1,
      ]);
      expect(text.match(/<DeleteMarker>/g)).toHaveLength(3);
      expect(elementsOf(text, 'Size')).toEqual(
        Array.from({ length: 4 }, () => ['3', '2', '1']).flat(),
      );
    });

    it('says of each what GET says', async () => {
      const { Versions = [], DeleteMarkers = [] } = await client.send(
        new ListObjectVersionsCommand({ Bucket, Prefix: 'c' }),
      );
      expect(DeleteMarkers).toEqual([]);
      for (const version of Versions) {
        const query = [['versionId', version.VersionId ?? '']] as const;
        const got = await send(target, { method: 'GET', path: `/${Bucket}/c`, query });
        expect(got.headers.etag).toBe(version.ETag);
        expect(got.headers['last-modified']).toBe(version.LastModified?.toUTCString());
        expect([version.Size, version.StorageClass]).toEqual([got.body.length, 'STANDARD']);
        expect(version.Owner?.ID).toBe('default/admin');
      }
    });

    it.each([1, 2, 3, 5, 100])('in pages of %i has each once, also inside a key', async (max) => {
      const found: string[] = [];
      let after: [string, string][] = [];
      for (let pages = 0; pages < 20; pages++) {
        const { shown, text } = await list([['max-keys', String(max)], ...after]);
        expect(shown.length).toBeLessThanOrEqual(max);
        found.push(...shown);
        if (!text.includes('<IsTruncated>true</IsTruncated>')) break;
        const [key = ''] = elementsOf(text, 'NextKeyMarker');
        const [id = ''] = elementsOf(text, 'NextVersionIdMarker');
        after = [
          ['key-marker', key],
          ['version-id-marker', id],
        ];
      }
      expect(found).toEqual(all);
    });

    it('folds keys with all their versions, and goes on behind a folded prefix', async () => {
      const query = [
        ['delimiter', '/'],
        ['max-keys', '5'],
      ] as const;
      const first = await list(query);
      expect(first.shown).toEqual(all.slice(0, 4));
      expect(elementsOf(first.text, 'Prefix')).toEqual(['', 'b/']);
      const [key = '', ...others] = elementsOf(first.text, 'NextKeyMarker');
      expect([key, others]).toEqual(['b/', []]);
      const second = await list([...query, ['key-marker', key], ['version-id-marker', '']]);
      expect(second.shown).toEqual(all.slice(12));
    });

    it('after a key alone begins with the next key', async () => {
      expect((await list([['key-marker', 'a']])).shown).toEqual(all.slice(4));
      expect((await list([['prefix', 'b/1']])).shown).toEqual(all.slice(4, 8));
    });

    it('refuses a version to begin with that has no key, or is none', async () => {
      const id = all[0]?.slice(2) ?? '';
      const refused = await list([['version-id-marker', id]]);
      expect([refused.status, refused.code]).toEqual([400, 'InvalidArgument']);
      const odd = await list([
        ['key-marker', 'a'],
        ['version-id-marker', 'x'],
      ]);
      expect([odd.status, odd.code]).toEqual([400, 'InvalidArgument']);
    });

    it('encodes keys if asked', async () => {
      const odd = await newVersionedBucket(client);
      const [id] = await putVersions(client, odd, 'a b\u0001/ü', ['x']);
      expect(await shownVersions(client, odd, { EncodingType: 'url' })).toEqual([
        `a%20b%01/%C3%BC@${id}*`,
      ]);
    });

    it('of none shows none, and a bucket with versions is not empty', async () => {
      expect((await list([['max-keys', '0']])).shown).toEqual([]);
      expect(await shownVersions(client, await newBucket(client))).toEqual([]);
      const full = await send(target, { method: 'DELETE', path: `/${Bucket}` });
      expect([full.status, full.code]).toEqual([409, 'BucketNotEmpty']);
    });

    it('empties a bucket for one who deletes all that it shows', async () => {
      const doomed = await newVersionedBucket(client);
      await putVersions(client, doomed, 'k', ['1', '2']);
      await putMarker(client, doomed, 'k');
      for (const one of await shownVersions(client, doomed)) {
        expect((await send(target, { method: 'DELETE', path: `/${doomed}` })).status).toBe(409);
        const versionId = one.replace(/^k@|[!*]/g, '');
        const query = [['versionId', versionId]] as const;
        await send(target, { method: 'DELETE', path: `/${doomed}/k`, query });
      }
      expect((await send(target, { method: 'DELETE', path: `/${doomed}` })).status).toBe(204);
    });
  });
}
