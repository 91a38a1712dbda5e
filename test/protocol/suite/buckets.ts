// Buckets: ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation.
import {
  type BucketLocationConstraint,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetBucketLocationCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  clientOf,
  elementOf,
  newBucket,
  newName,
  newPrincipal,
  refusalOf,
  region,
  send,
  type Target,
} from '../target.ts';

export function describeBuckets(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  beforeAll(() => {
    target = targetOf();
    client = clientOf(target);
  });

  describe('creating a bucket', () => {
    it('makes it, and making it again is no error for its owner', async () => {
      const Bucket = newName();
      const first = await client.send(new CreateBucketCommand({ Bucket }));
      expect(first.Location).toBe(`/${Bucket}`);
      await client.send(new PutObjectCommand({ Bucket, Key: 'kept', Body: 'x' }));
      await client.send(new CreateBucketCommand({ Bucket }));
      expect(await refusalOf(client.send(new DeleteBucketCommand({ Bucket })))).toEqual({
        code: 'BucketNotEmpty',
        status: 409,
      });
    });

    it("another principal's is refused with 409", async () => {
      const Bucket = await newBucket(client);
      const other = clientOf(as(target, await newPrincipal(target)));
      const more = { ObjectOwnership: 'ObjectWriter', ObjectLockEnabledForBucket: true } as const;
      for (const asked of [{ Bucket }, { Bucket, ...more }]) {
        expect(await refusalOf(other.send(new CreateBucketCommand(asked)))).toEqual({
          code: 'BucketAlreadyExists',
          status: 409,
        });
      }
    });

    it.each([
      ['two characters', 'ab'],
      ['64 characters', 'a'.repeat(64)],
      ['upper case', 'Upper'],
      ['an underscore', 'a_bucket'],
      ['a dash at its beginning', '-bucket'],
      ['a dash at its end', 'bucket-'],
      ['a dot at its beginning', '.bucket'],
      ['two dots', 'buc..ket'],
      ['nothing before a key', '/key'],
      ['a dot beside a dash', 'buc.-ket'],
      ['an address of the internet', '192.168.5.4'],
      ['a reserved prefix', 'xn--bucket'],
      ['a reserved suffix', 'bucket-s3alias'],
      ['letters of no alphabet that DNS knows', 'bücket'],
      ['a space', 'buc ket'],
      ['NUL', 'buc\0ket'],
    ])('a name with %s is refused', async (_title, name) => {
      const answer = await send(target, { method: 'PUT', path: `/${name}` });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidBucketName']);
      const { Buckets = [] } = await client.send(new ListBucketsCommand({}));
      expect(Buckets.map((bucket) => bucket.Name)).not.toContain(name);
    });

    it.each(['abc', 'a'.repeat(63), '0digits9', 'with.dots.in-it'])(
      '%s is a name',
      async (name) => {
        await client.send(new CreateBucketCommand({ Bucket: name }));
        await client.send(new DeleteBucketCommand({ Bucket: name }));
      },
    );

    it('in its own region succeeds, in another is refused', async () => {
      const create = (place: string) => {
        const LocationConstraint = place as BucketLocationConstraint;
        const CreateBucketConfiguration = { LocationConstraint };
        return client.send(
          new CreateBucketCommand({ Bucket: newName(), CreateBucketConfiguration }),
        );
      };
      await create(region);
      for (const [place, code] of [
        ['mars-north-1', 'InvalidLocationConstraint'],
        ['aws-global', 'InvalidLocationConstraint'],
        ['eu-west-3', 'IllegalLocationConstraintException'],
        ['EU', 'IllegalLocationConstraintException'],
      ] as const) {
        expect(await refusalOf(create(place))).toEqual({ code, status: 400 });
      }
    });
  });

  describeDeleting(() => client);
  describeListing(() => target);

  describe('looking at a bucket', () => {
    it('HEAD tells its region; of none it is 404 without a body', async () => {
      const Bucket = await newBucket(client);
      const found = await client.send(new HeadBucketCommand({ Bucket }));
      expect(found.BucketRegion).toBe(region);
      const missing = await send(target, { method: 'HEAD', path: `/${newName()}` });
      expect([missing.status, missing.body.length]).toEqual([404, 0]);
    });

    it('its location is empty in us-east-1, as on S3; of none it is NoSuchBucket', async () => {
      const Bucket = await newBucket(client);
      const { LocationConstraint } = await client.send(new GetBucketLocationCommand({ Bucket }));
      expect(LocationConstraint ?? '').toBe('');
      const none = client.send(new GetBucketLocationCommand({ Bucket: newName() }));
      expect(await refusalOf(none)).toEqual({ code: 'NoSuchBucket', status: 404 });
    });
  });
}

function describeDeleting(clientOf: () => S3Client): void {
  describe('deleting a bucket', () => {
    it('with an object is refused; once empty it goes, and its name is free again', async () => {
      const client = clientOf();
      const Bucket = await newBucket(client);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
      expect(await refusalOf(client.send(new DeleteBucketCommand({ Bucket })))).toEqual({
        code: 'BucketNotEmpty',
        status: 409,
      });
      await client.send(new DeleteObjectCommand({ Bucket, Key: 'k' }));
      const { $metadata } = await client.send(new DeleteBucketCommand({ Bucket }));
      expect($metadata.httpStatusCode).toBe(204);
      expect(await refusalOf(client.send(new DeleteBucketCommand({ Bucket })))).toEqual({
        code: 'NoSuchBucket',
        status: 404,
      });
      await client.send(new CreateBucketCommand({ Bucket }));
    });

    it('takes its unfinished uploads along; a new one of the name has none of them', async () => {
      const client = clientOf();
      const Bucket = await newBucket(client);
      await client.send(new CreateMultipartUploadCommand({ Bucket, Key: 'k' }));
      await client.send(new DeleteBucketCommand({ Bucket }));
      await client.send(new CreateBucketCommand({ Bucket }));
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }));
      expect(Uploads).toEqual([]);
    });
  });
}

function describeListing(targetOf: () => Target): void {
  describe('listing buckets', () => {
    it('gives pages in order of name until there is no more', async () => {
      const client = clientOf(targetOf());
      const prefix = newName('page');
      const names = [1, 2, 3, 4, 5].map((n) => `${prefix}-${n}`);
      for (const Bucket of names) await client.send(new CreateBucketCommand({ Bucket }));
      const pages: string[][] = [];
      let ContinuationToken: string | undefined;
      do {
        const page = await client.send(
          new ListBucketsCommand({ Prefix: prefix, MaxBuckets: 2, ContinuationToken }),
        );
        expect(page.Prefix).toBe(prefix);
        pages.push((page.Buckets ?? []).map((bucket) => bucket.Name ?? ''));
        ContinuationToken = page.ContinuationToken;
      } while (ContinuationToken !== undefined);
      expect(pages).toEqual([names.slice(0, 2), names.slice(2, 4), names.slice(4)]);
    });

    it('gives those of a region: the gateway’s has all, another none', async () => {
      const client = clientOf(targetOf());
      const Prefix = await newBucket(client);
      const list = async (BucketRegion: string) => {
        const page = await client.send(new ListBucketsCommand({ Prefix, BucketRegion }));
        return (page.Buckets ?? []).map((bucket) => bucket.Name);
      };
      expect(await list(region)).toEqual([Prefix]);
      expect(await list('eu-west-3')).toEqual([]);
      const query = [['bucket-region', 'mars-north-1']] as const;
      const { status, text } = await send(targetOf(), { method: 'GET', path: '/', query });
      expect([status, elementOf(text, 'ArgumentName')]).toEqual([400, 'bucket-region']);
      expect(elementOf(text, 'Message')).toBe(
        'Argument value mars-north-1 is not a valid AWS Region',
      );
    });

    it.each(['0', '10001', '-1', 'many'])('max-buckets=%s is refused', async (count) => {
      const query = [['max-buckets', count]] as const;
      const answer = await send(targetOf(), { method: 'GET', path: '/', query });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
    });

    it('a member sees its own buckets, not those of others', async () => {
      const target = targetOf();
      const member = clientOf(as(target, await newPrincipal(target)));
      const theirs = await newBucket(clientOf(target));
      const own = await newBucket(member);
      const { Buckets = [], Owner } = await member.send(new ListBucketsCommand({}));
      expect(Buckets.map((bucket) => bucket.Name)).toEqual([own]);
      expect(Owner?.ID).toMatch(/^default\/person-/);
      const all = await clientOf(target).send(new ListBucketsCommand({}));
      const names = (all.Buckets ?? []).map((bucket) => bucket.Name);
      expect(names).toEqual(expect.arrayContaining([own, theirs]));
    });
  });
}
