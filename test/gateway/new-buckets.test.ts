// New buckets where the gateway's settings are not the default ones: without a block of public
// access, and in a region that has a name as a place.
import {
  type BucketCannedACL,
  type BucketLocationConstraint,
  CreateBucketCommand,
  GetBucketLocationCommand,
  GetPublicAccessBlockCommand,
  HeadBucketCommand,
  PutBucketPolicyCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  clientOf,
  exchange,
  newBucket,
  newName,
  refusalOf,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

let target: Target;
let client: S3Client;

beforeAll(async () => {
  target = await startEmbeddedTarget(['--block-public-access', 'no', '--region', 'eu-west-1']);
  client = clientOf(target);
}, 60_000);

afterAll(() => target?.stop(), 60_000);

const create = (place?: string, ACL?: BucketCannedACL) => {
  const Bucket = newName();
  const LocationConstraint = place as BucketLocationConstraint;
  return client
    .send(
      new CreateBucketCommand({
        Bucket,
        ...(place !== undefined && { CreateBucketConfiguration: { LocationConstraint } }),
        ...(ACL && { ACL, ObjectOwnership: 'ObjectWriter' }),
      }),
    )
    .then(() => Bucket);
};

it('a bucket can be opened to everybody as soon as it is made', async () => {
  const Bucket = await newBucket(client);
  const block = client.send(new GetPublicAccessBlockCommand({ Bucket }));
  expect(await refusalOf(block)).toEqual({
    code: 'NoSuchPublicAccessBlockConfiguration',
    status: 404,
  });
  const Policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: {
      ...{ Effect: 'Allow', Principal: '*', Action: 's3:ListBucket' },
      Resource: `arn:aws:s3:::${Bucket}`,
    },
  });
  await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
  expect((await exchange(target, 'GET', `/${Bucket}`, {})).status).toBe(200);
});

it('a bucket can be made with a list that lets everybody in', async () => {
  const Bucket = await create(undefined, 'public-read');
  expect((await exchange(target, 'GET', `/${Bucket}`, {})).status).toBe(200);
});

it('is in the region of the gateway, which EU names too, and nowhere else', async () => {
  for (const place of [undefined, 'eu-west-1', 'EU']) {
    const Bucket = await create(place);
    const found = await client.send(new GetBucketLocationCommand({ Bucket }));
    expect(found.LocationConstraint).toBe('eu-west-1');
    const head = await client.send(new HeadBucketCommand({ Bucket }));
    expect(head.BucketRegion).toBe('eu-west-1');
  }
  const code = 'IllegalLocationConstraintException';
  for (const place of ['us-east-1', 'eu-west-3', 'bar']) {
    expect(await refusalOf(create(place))).toEqual({ code, status: 400 });
  }
});
