// Clients whose region is another than the gateway's, or none of AWS's: they read and write without
// a setting for it, presigned URLs too, and learn where a bucket is; only a bucket that is to be
// made elsewhere is refused.
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import {
  awsCli,
  boto3Python,
  clientEnvironment,
  describeWithTool,
  rclone,
  runTool,
  ToolFailure,
} from '../tooling/tools.ts';

const timeoutMs = 120_000;
const own = 'eu-central-1';
const regions = [own, 'us-east-1', 'eu-west-3', 'aws-global', 'auto', 'our-lab'];

let gateway: ServedGateway;
beforeAll(async () => {
  gateway = await startServedGateway({ args: ['--region', own] });
  const client = clientIn(own);
  await client.send(new CreateBucketCommand({ Bucket: 'shared' }));
  client.destroy();
}, timeoutMs);
afterAll(() => gateway?.stop(), timeoutMs);

function clientIn(region: string): S3Client {
  const { endpoint, accessKeyId, secretAccessKey } = gateway;
  const credentials = { accessKeyId, secretAccessKey };
  return new S3Client({ endpoint, region, credentials, forcePathStyle: true, maxAttempts: 1 });
}

const environmentIn = (region: string) => ({
  ...clientEnvironment(gateway),
  ...{ AWS_REGION: region, AWS_DEFAULT_REGION: region },
});

describe.each(regions)('the SDK for JavaScript in %s', (region) => {
  it('writes, reads, presigns, and is told where the bucket is', async () => {
    const client = clientIn(region);
    const object = { Bucket: 'shared', Key: `js-${region}` };
    await client.send(new PutObjectCommand({ ...object, Body: 'from afar' }));
    const got = await client.send(new GetObjectCommand(object));
    expect(await got.Body?.transformToString()).toBe('from afar');
    const url = await getSignedUrl(client, new GetObjectCommand(object));
    expect(await (await fetch(url)).text()).toBe('from afar');
    const { BucketRegion } = await client.send(new HeadBucketCommand({ Bucket: 'shared' }));
    expect(BucketRegion).toBe(own);
    const { Buckets } = await client.send(new ListBucketsCommand({ MaxBuckets: 10 }));
    expect(Buckets?.map((bucket) => bucket.BucketRegion)).toContain(own);
    client.destroy();
  });
});

const program = `
import sys, urllib.request, boto3
from botocore.config import Config
endpoint, region = sys.argv[1:]
s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(signature_version="s3v4"))
assert s3.meta.region_name == region, s3.meta.region_name
place = {"Bucket": "shared", "Key": "boto3-" + region}
s3.put_object(**place, Body=b"from afar")
assert s3.get_object(**place)["Body"].read() == b"from afar"
url = s3.generate_presigned_url("get_object", Params=place)
assert urllib.request.urlopen(url).read() == b"from afar"
form = s3.generate_presigned_post(place["Bucket"], place["Key"])
assert f"/{region}/s3/" in form["fields"]["x-amz-credential"], form
print(s3.head_bucket(Bucket="shared")["ResponseMetadata"]["HTTPHeaders"]["x-amz-bucket-region"])
print(s3.get_bucket_location(Bucket="shared")["LocationConstraint"])
`;

describeWithTool(boto3Python, 'boto3', (python) => {
  // It knows `aws-global` as another name of us-east-1, and so signs for that.
  it.each(regions.filter((region) => region !== 'aws-global'))(
    'in %s writes, reads, presigns, and is told where the bucket is',
    { timeout: timeoutMs },
    async (region) => {
      const args = ['-c', program, gateway.endpoint, region];
      const said = await runTool(python, args, environmentIn(region));
      expect(said.trim().split('\n')).toEqual([own, own]);
    },
  );
});

describeWithTool(awsCli, 'the AWS CLI', (path) => {
  const aws = (region: string, ...args: string[]) =>
    runTool(path, ['--endpoint-url', gateway.endpoint, ...args], environmentIn(region));

  it('in another region lists and copies', { timeout: timeoutMs }, async () => {
    expect(await aws('eu-west-3', 's3', 'ls')).toContain('shared');
    await aws('eu-west-3', 's3', 'cp', import.meta.filename, 's3://shared/cli');
    expect(await aws('eu-west-3', 's3', 'ls', 's3://shared/cli')).toContain('cli');
    expect(await aws('eu-west-3', 's3', 'presign', 's3://shared/cli')).toContain('%2Feu-west-3%2F');
  });

  it('makes buckets in the region of the gateway, and none in another', {
    timeout: timeoutMs,
  }, async () => {
    await aws(own, 's3', 'mb', 's3://made-here');
    const elsewhere = aws('eu-west-3', 's3', 'mb', 's3://made-elsewhere');
    const refused = await elsewhere.catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ToolFailure);
    expect(String((refused as ToolFailure).message)).toContain(
      'The eu-west-3 location constraint is incompatible',
    );
    expect(await aws(own, 's3', 'ls')).not.toContain('made-elsewhere');
  });
});

describeWithTool(rclone, 'rclone', (path) => {
  it.each(['', 'eu-west-3'])(
    'with the region "%s" copies',
    { timeout: timeoutMs },
    async (region) => {
      const named = region === '' ? '' : `,region=${region}`;
      const options = `provider=Other,env_auth=true${named}`;
      const remote = `:s3,${options},endpoint="${gateway.endpoint}":shared`;
      const env = clientEnvironment(gateway);
      const file = import.meta.filename;
      await runTool(path, ['copyto', file, `${remote}/rclone`], env);
      expect(await runTool(path, ['lsf', remote], env)).toContain('rclone');
    },
  );
});
