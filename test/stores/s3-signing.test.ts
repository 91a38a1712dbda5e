import { ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { openAddress } from '#bursar/tiering/stores/s3/address.js';
import { signStoreRequest } from '#bursar/tiering/stores/s3/signed-request.js';

const timeMs = Date.UTC(2026, 10, 20, 22, 51, 16);
const timeouts = { connectMs: 1000, firstByteMs: 1000, stallMs: 1000 };
const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret/with+signs=' };
const temporary = { ...keys, sessionToken: 'IQoJb3JpZ2luX2VjE+/==' };
const region = 'eu-central-1';

const places: [string, { url: string; endpoint?: string; pathStyle?: boolean }, string][] = [
  ["AWS's virtual hosts", { url: 's3://bucket/data' }, 'bucket.s3.eu-central-1.amazonaws.com'],
  [
    "AWS's path style",
    { url: 's3://bucket/data', pathStyle: true },
    's3.eu-central-1.amazonaws.com',
  ],
  ['a bucket with dots', { url: 's3://my.bucket' }, 's3.eu-central-1.amazonaws.com'],
  [
    "another server's virtual hosts",
    { url: 's3://bucket/data', endpoint: 'https://s3.example.test:9443' },
    'bucket.s3.example.test:9443',
  ],
  [
    'an address without names',
    { url: 's3://bucket/an odd/préfix+%2F~', endpoint: 'http://127.0.0.1:9000' },
    '127.0.0.1:9000',
  ],
  [
    'a server below a path',
    { url: 's3://bucket', endpoint: 'https://example.test/storage', pathStyle: true },
    'example.test',
  ],
];

const requests: [string, string, Record<string, string>][] = [
  ['GET', 'extents/ef/0123456789abcdef0123456789abcdef', { range: 'bytes=0-4095' }],
  ['PUT', 'extents/ef/0123', { 'x-amz-checksum-crc32c': 'yZRlqg==', 'if-none-match': '*' }],
  ['DELETE', "a b+c/ü/%2F/~!*'()$&=@:;,?#[]", {}],
  ['HEAD', '日本語/🙂', {}],
];

describe.each(places)('a request to %s', (_, place, host) => {
  it.each(requests)('is signed as the AWS SDK signs it: %s %s', async (method, name, headers) => {
    for (const credentials of [keys, temporary]) {
      const options = { number: 2, name: 'remote', region, credentials, ...place };
      const { address, client } = await openAddress(options, timeouts);
      expect(address.host).toBe(host);
      const ours = signStoreRequest({ method, name, headers }, address, credentials, timeMs);
      const sent = headersOf(ours.headers);
      expect(sent.host).toBe(host);
      const theirs = await signWithSdk(client, method, ours.path, sent);
      expect(sent.authorization).toBe(theirs.authorization);
      expect(sent.authorization).toContain('x-amz-content-sha256');
      expect(sent['x-amz-security-token']).toBe(
        'sessionToken' in credentials ? credentials.sessionToken : undefined,
      );
      client.destroy();
    }
  });
});

describe('the place of a store', () => {
  const open = (url: string) =>
    openAddress({ number: 2, name: 'remote', region, url, credentials: keys }, timeouts);

  it('has names below the prefix, and nothing above it', async () => {
    const { address } = await open('s3://bucket/a/b/');
    expect(address).toMatchObject({ bucket: 'bucket', prefix: 'a/b/', pathStart: '/a/b/' });
    expect((await open('s3://bucket')).address).toMatchObject({ prefix: '', pathStart: '/' });
  });

  it.each(['bucket/prefix', 'http://bucket', 's3://', 's3:///prefix'])('is not %s', async (url) => {
    await expect(open(url)).rejects.toThrow('s3://BUCKET/PREFIX');
  });

  it('is no directory bucket, which is signed for in another way', async () => {
    await expect(open('s3://name--euc1-az1--x-s3')).rejects.toThrow('general purpose');
  });

  it('is not moved by the environment', async () => {
    process.env.AWS_ENDPOINT_URL_S3 = 'http://elsewhere.test';
    try {
      const { address, client } = await open('s3://bucket');
      expect(address.host).toBe('bucket.s3.eu-central-1.amazonaws.com');
      // The SDK asks there, too, when it lists.
      let hostname = '';
      const look = () => async (args: { request?: unknown }) => {
        ({ hostname } = args.request as { hostname: string });
        throw new Error('not sent');
      };
      client.middlewareStack.add(look, { step: 'build', priority: 'low' });
      const listing = client.send(new ListObjectsV2Command({ Bucket: 'bucket' }));
      await expect(listing).rejects.toThrow('not sent');
      expect(hostname).toBe(address.host);
    } finally {
      delete process.env.AWS_ENDPOINT_URL_S3;
    }
  });
});

function headersOf(list: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i < list.length; i += 2) headers[list[i] as string] = list[i + 1] as string;
  return headers;
}

/** Signs the same target and headers, at the same time. */
async function signWithSdk(
  client: S3Client,
  method: string,
  path: string,
  sent: Record<string, string>,
): Promise<Record<string, string>> {
  const { authorization: _, 'x-amz-date': date, ...headers } = sent;
  expect(date).toBe('20261120T225116Z');
  const signer = await client.config.signer({} as never);
  const request = { method, protocol: 'https:', hostname: '', path, query: {}, headers };
  const options = { signingDate: new Date(timeMs), signingRegion: region };
  const signed = await signer.sign(request as never, options);
  return (signed as { headers: Record<string, string> }).headers;
}
