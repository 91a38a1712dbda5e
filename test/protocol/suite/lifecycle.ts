// Lifecycle rules: their document, what answers tell of them, and that a date that has passed
// counts.
import { createHash } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteBucketLifecycleCommand,
  GetBucketLifecycleConfigurationCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type LifecycleRule,
  ListObjectsV2Command,
  ListPartsCommand,
  PutBucketLifecycleConfigurationCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { as, clientOf, newBucket, newPrincipal, refusalOf, send, type Target } from '../target.ts';

const dayMs = 86_400_000;
const none = { code: 'NoSuchLifecycleConfiguration', status: 404 };
const enabled = { Status: 'Enabled' } as const;

/** The next midnight UTC that is so many days away. */
function midnightIn(days: number, fromMs: number): string {
  return new Date((Math.ceil(fromMs / dayMs) + days) * dayMs).toUTCString();
}

export function describeLifecycle(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });
  const put = (...Rules: LifecycleRule[]) =>
    client.send(
      new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules } }),
    );
  const get = () => client.send(new GetBucketLifecycleConfigurationCommand({ Bucket }));

  describe('lifecycle rules', () => {
    it('come back as they were sent, are replaced whole, and are gone once deleted', async () => {
      expect(await refusalOf(get())).toEqual(none);
      const rules: LifecycleRule[] = [
        { ID: 'plain', ...enabled, Prefix: 'a/', Expiration: { Days: 31 } },
        {
          ID: 'both',
          Status: 'Disabled',
          Filter: {
            And: {
              Prefix: 'b/',
              Tags: [{ Key: 'k', Value: 'v' }],
              ObjectSizeGreaterThan: 10,
              ObjectSizeLessThan: 1000,
            },
          },
          Expiration: { Date: new Date('2099-01-01T00:00:00Z') },
          NoncurrentVersionExpiration: { NoncurrentDays: 7, NewerNoncurrentVersions: 2 },
        },
        {
          ID: 'rest',
          ...enabled,
          Filter: { Prefix: '' },
          Expiration: { ExpiredObjectDeleteMarker: true },
          AbortIncompleteMultipartUpload: { DaysAfterInitiation: 3 },
        },
      ];
      await put(...rules);
      const given = await get();
      expect(given.Rules).toEqual(rules);
      expect(given.TransitionDefaultMinimumObjectSize).toBe('all_storage_classes_128K');
      const one = { ...enabled, Filter: {}, Expiration: { Days: 1 } };
      await put(one);
      const { Rules: [made] = [] } = await get();
      expect(made).toMatchObject({ ...one, ID: expect.stringMatching(/.+/) });
      for (let times = 0; times < 2; times++) {
        const deleted = await client.send(new DeleteBucketLifecycleCommand({ Bucket }));
        expect(deleted.$metadata.httpStatusCode).toBe(204);
      }
      expect(await refusalOf(get())).toEqual(none);
    });

    it('are refused whole where one cannot be, and then nothing is changed', async () => {
      const good = { ID: 'good', ...enabled, Filter: {}, Expiration: { Days: 5 } };
      await put(good);
      const bad: [string, number, LifecycleRule][] = [
        ['InvalidArgument', 400, { ...good, ID: 'x', Expiration: { Days: 0 } }],
        ['InvalidArgument', 400, { ...good, ID: 'a'.repeat(256) }],
        ['InvalidArgument', 400, good],
        ['MalformedXML', 400, { ...good, ID: 'x', Status: 'enabled' as 'Enabled' }],
        [
          ...(['NotImplemented', 501] as [string, number]),
          { ...good, ID: 'x', Transitions: [{ Days: 1, StorageClass: 'GLACIER' }] },
        ],
      ];
      for (const [code, status, rule] of bad) {
        expect(await refusalOf(put(good, rule))).toEqual({ code, status });
      }
      expect((await get()).Rules).toEqual([good]);
    });

    it('must come with a digest, and be what it is the digest of', async () => {
      const body =
        '<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status>' +
        '<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
      const message = (headers: Record<string, string>) => ({
        ...{ method: 'PUT', path: `/${Bucket}`, query: [['lifecycle', '']] as const, body },
        ...{ headers, payload: 'UNSIGNED-PAYLOAD' },
      });
      const md5 = createHash('md5').update(body).digest('base64');
      const other = createHash('md5').update('other').digest('base64');
      expect((await send(target, message({}))).code).toBe('InvalidRequest');
      // The digest is demanded before the headers are read.
      const wrong = { 'x-amz-transition-default-minimum-object-size': 'wrong' };
      expect((await send(target, message(wrong))).code).toBe('InvalidRequest');
      const told = await send(target, message({ ...wrong, 'content-md5': md5 }));
      expect([told.code, told.text]).toEqual([
        'InvalidRequest',
        expect.stringContaining('TransitionDefaultMinimumObjectSize'),
      ]);
      expect((await send(target, message({ 'content-md5': other }))).code).toBe('BadDigest');
      expect((await send(target, message({ 'content-md5': md5 }))).status).toBe(200);
    });

    it('are nobody’s business who may not have to do with them', async () => {
      const stranger = clientOf(as(target, await newPrincipal(target)));
      const denied = { code: 'AccessDenied', status: 403 };
      const asked = { Bucket, LifecycleConfiguration: { Rules: [] } };
      for (const command of [
        new GetBucketLifecycleConfigurationCommand({ Bucket }),
        new PutBucketLifecycleConfigurationCommand(asked),
        new DeleteBucketLifecycleCommand({ Bucket }),
      ]) {
        expect(
          await refusalOf(stranger.send(command as GetBucketLifecycleConfigurationCommand)),
        ).toEqual(denied);
      }
    });
  });

  describe('what answers tell of rules', () => {
    const expirationOf = async (sent: Promise<{ Expiration?: string | undefined }>) =>
      (await sent).Expiration;

    it('is when an object expires and by which rule, on writes, copies and reads', async () => {
      const Filter = { And: { Prefix: 'told/', Tags: [{ Key: 'k', Value: 'v' }] } };
      await put(
        { ID: 'by tag & date', ...enabled, Filter, Expiration: { Days: 1 } },
        { ID: 'later', ...enabled, Filter: { Prefix: 'told/' }, Expiration: { Days: 9 } },
      );
      const at = { Bucket, Key: 'told/a' };
      const fromMs = Date.now();
      const tagged = { ...at, Body: 'x', Tagging: 'k=v' };
      const told = await expirationOf(client.send(new PutObjectCommand(tagged)));
      const untilMs = Date.now();
      const expected = (days: number, id: string) =>
        [fromMs, untilMs].map((ms) => `expiry-date="${midnightIn(days, ms)}", rule-id="${id}"`);
      expect(expected(1, 'by%20tag%20%26%20date')).toContain(told);
      expect(await expirationOf(client.send(new HeadObjectCommand(at)))).toBe(told);
      const read = await client.send(new GetObjectCommand(at));
      await read.Body?.transformToString();
      expect(read.Expiration).toBe(told);
      const copy = { Bucket, Key: 'told/b', CopySource: `${Bucket}/told/a` };
      const replaced = { ...copy, TaggingDirective: 'REPLACE', Tagging: '' } as const;
      expect(expected(9, 'later')).toContain(
        await expirationOf(client.send(new CopyObjectCommand(replaced))),
      );
      const elsewhere = { Bucket, Key: 'untold', Body: 'x' };
      expect(await expirationOf(client.send(new PutObjectCommand(elsewhere)))).toBeUndefined();
    });

    it('is when an upload is aborted, and then when its object expires', async () => {
      const Filter = { Prefix: 'up/' };
      const AbortIncompleteMultipartUpload = { DaysAfterInitiation: 2 };
      const Expiration = { Days: 3 };
      await put({ ID: 'up', ...enabled, Filter, Expiration, AbortIncompleteMultipartUpload });
      const at = { Bucket, Key: 'up/a' };
      const fromMs = Date.now();
      const begun = await client.send(new CreateMultipartUploadCommand(at));
      const dates = [fromMs, Date.now()].map((ms) => midnightIn(2, ms));
      expect(dates).toContain(begun.AbortDate?.toUTCString());
      expect(begun.AbortRuleId).toBe('up');
      const { UploadId } = begun;
      const asked = { ...at, UploadId };
      const listed = await client.send(new ListPartsCommand(asked));
      expect([listed.AbortDate, listed.AbortRuleId]).toEqual([begun.AbortDate, 'up']);
      const { ETag } = await client.send(
        new UploadPartCommand({ ...asked, PartNumber: 1, Body: 'x' }),
      );
      const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
      const done = await client.send(
        new CompleteMultipartUploadCommand({ ...asked, MultipartUpload }),
      );
      expect(done.Expiration).toContain('rule-id="up"');
      const other = await client.send(
        new CreateMultipartUploadCommand({ Bucket, Key: 'elsewhere' }),
      );
      expect(other.AbortDate).toBeUndefined();
      const named = { Bucket, Key: 'elsewhere', UploadId: other.UploadId };
      await client.send(new AbortMultipartUploadCommand(named));
    });
  });

  describe('a rule whose date has passed', () => {
    it('has what it fits deleted soon, and nothing else', async () => {
      const fresh = await newBucket(client);
      const at = (Key: string, Body: string) =>
        client.send(new PutObjectCommand({ Bucket: fresh, Key, Body }));
      await at('old/small', 'x');
      await at('old/large', 'x'.repeat(200_000));
      await at('kept', 'x');
      const Date1 = new Date('2015-01-01T00:00:00Z');
      const Rules = [{ ...enabled, Filter: { Prefix: 'old/' }, Expiration: { Date: Date1 } }];
      const asked = { Bucket: fresh, LifecycleConfiguration: { Rules } };
      await client.send(new PutBucketLifecycleConfigurationCommand(asked));
      const list = async () => {
        const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: fresh }));
        return Contents.map(({ Key }) => Key);
      };
      await expect.poll(list).toEqual(['kept']);
    });
  });
}
