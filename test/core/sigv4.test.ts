import { S3Client } from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import { canonicalQuery } from '#bursar/core/canonical-request.js';
import {
  deriveSigningKey,
  emptySha256,
  formatAmzDate,
  parseAmzDate,
  parseHttpDate,
  SigningKeys,
  signRequest,
} from '#bursar/core/sigv4.js';
import { accessKeyId, exampleMs, region, secret } from '../authz/requests.ts';
import { presignUrl } from '../tooling/presign.ts';

const host = 'examplebucket.s3.amazonaws.com';
const credentials = { accessKeyId, secret, region, timeMs: exampleMs };

function signatureOf(headers: Record<string, string>): string | undefined {
  return headers.authorization?.split('Signature=')[1];
}

describe("AWS's published S3 examples", () => {
  it('a GET with a range has the documented Authorization header', () => {
    const added = signRequest({
      ...credentials,
      method: 'GET',
      path: '/test.txt',
      headers: { Host: host, Range: 'bytes=0-9' },
      payloadHash: emptySha256,
    });
    expect(added).toEqual({
      'x-amz-content-sha256': emptySha256,
      'x-amz-date': '20130524T000000Z',
      authorization:
        'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ' +
        'SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, ' +
        'Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    });
  });

  it('a PUT of a key that needs escaping has the documented signature', () => {
    const added = signRequest({
      ...credentials,
      method: 'PUT',
      path: '/test$file.text',
      headers: {
        Host: host,
        Date: 'Fri, 24 May 2013 00:00:00 GMT',
        'x-amz-storage-class': 'REDUCED_REDUNDANCY',
      },
      payloadHash: '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    });
    expect(signatureOf(added)).toBe(
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    );
  });

  it.each([
    [
      'GET bucket lifecycle',
      [['lifecycle', '']],
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
    [
      'GET bucket (list objects)',
      [
        ['prefix', 'J'],
        ['max-keys', '2'],
      ],
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
  ] as const)('%s has the documented signature', (_title, query, signature) => {
    const added = signRequest({
      ...credentials,
      method: 'GET',
      path: '/',
      query,
      headers: { Host: host },
      payloadHash: emptySha256,
    });
    expect(signatureOf(added)).toBe(signature);
  });

  it('the presigned GET has the documented signature', () => {
    const url = presignUrl({
      ...credentials,
      method: 'GET',
      origin: `https://${host}`,
      path: '/test.txt',
      expiresSeconds: 86_400,
    });
    expect(url).toBe(
      'https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&' +
        'X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&' +
        'X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&' +
        'X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
    );
  });
});

describe("the AWS SDK's own signer", () => {
  const client = new S3Client({
    region,
    credentials: { accessKeyId, secretAccessKey: secret },
    endpoint: 'http://127.0.0.1:9000',
  });
  const paths = [
    '/',
    "/bucket/a b+c/ü/%2F/~!*'()$&=@:;,?#[]",
    '/bucket//../x/',
    '/bucket/日本語/🙂',
  ];

  it.each(paths)('signs %s as we do', async (path) => {
    const headers = {
      host: '127.0.0.1:9000',
      'Content-Type': 'text/plain;  charset=utf-8',
      'x-amz-meta-spaced': '  a   b  ',
      'x-amz-content-sha256': 'UNSIGNED-PAYLOAD',
      'user-agent': 'not signed',
    };
    const query = { 'a-b': '1', a: '2 /+~*', ü: '', versions: '' };
    const signer = await client.config.signer({} as never);
    const signed = await signer.sign(
      {
        method: 'PUT',
        protocol: 'http:',
        hostname: '127.0.0.1',
        path: path.split('/').map(escapeRfc3986).join('/'),
        query,
        headers,
      } as never,
      { signingDate: new Date(exampleMs), signingRegion: region },
    );
    const ours = signRequest({
      ...credentials,
      method: 'PUT',
      path,
      query: Object.entries(query),
      headers,
    });
    expect(ours.authorization).toBe(
      (signed as { headers: Record<string, string> }).headers.authorization,
    );
  });

  it('presigns a URL as we do', async () => {
    const signer = (await client.config.signer({} as never)) as unknown as {
      presign(request: unknown, options: unknown): Promise<{ query: Record<string, string> }>;
    };
    const presigned = await signer.presign(
      {
        method: 'PUT',
        protocol: 'http:',
        hostname: '127.0.0.1',
        path: '/bucket/a%20b',
        query: { partNumber: '3' },
        headers: {
          host: '127.0.0.1:9000',
          'content-type': 'text/plain',
          'x-amz-content-sha256': 'UNSIGNED-PAYLOAD',
        },
      },
      { signingDate: new Date(exampleMs), signingRegion: region, expiresIn: 60 },
    );
    const ours = presignUrl({
      ...credentials,
      method: 'PUT',
      origin: 'http://127.0.0.1:9000',
      path: '/bucket/a b',
      // The SDK moves x-amz- headers to the query.
      query: [
        ['partNumber', '3'],
        ['x-amz-content-sha256', 'UNSIGNED-PAYLOAD'],
      ],
      headers: { 'content-type': 'text/plain' },
      expiresSeconds: 60,
    });
    expect(Object.fromEntries(new URL(ours).searchParams)).toEqual(presigned.query);
  });
});

function escapeRfc3986(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

describe('the canonical query', () => {
  it.each([
    [
      'names before values, also where one name begins another',
      [
        ['a b', '1'],
        ['a-b', '2'],
        ['a', '3'],
      ],
      'a=3&a%20b=1&a-b=2',
    ],
    [
      'values of one name',
      [
        ['a', '2'],
        ['a', ''],
        ['a', '10'],
      ],
      'a=&a=10&a=2',
    ],
    [
      'encoded forms, not the characters',
      [
        ['é', '1'],
        ['z', '2'],
        ['A', '3'],
        ['_', '4'],
      ],
      '%C3%A9=1&A=3&_=4&z=2',
    ],
  ] as const)('sorts %s', (_title, query, expected) => {
    expect(canonicalQuery(query)).toBe(expected);
    expect(canonicalQuery([...query].reverse())).toBe(expected);
  });
});

describe('signing', () => {
  it('refuses to sign a request without a host', () => {
    const headers = { 'x-amz-meta-a': '1' };
    expect(() => signRequest({ ...credentials, method: 'GET', path: '/', headers })).toThrow(
      'host',
    );
  });

  it('refuses to sign a header that cannot be sent', () => {
    const headers = { host, 'x-amz-meta-a': 'a\nb' };
    expect(() => signRequest({ ...credentials, method: 'GET', path: '/', headers })).toThrow(
      'x-amz-meta-a',
    );
  });
});

describe('dates', () => {
  it('a time survives the way to an x-amz-date and back', () => {
    expect(formatAmzDate(exampleMs)).toBe('20130524T000000Z');
    expect(parseAmzDate('20130524T000000Z')).toBe(exampleMs);
    expect(parseHttpDate('Fri, 24 May 2013 00:00:00 GMT')).toBe(exampleMs);
  });

  it.each(['', '20130524', '2013-05-24T00:00:00Z', '20131324T000000Z', '20130524T000000Z '])(
    '%j is not an x-amz-date',
    (text) => {
      expect(parseAmzDate(text)).toBeUndefined();
    },
  );
});

describe('kept signing keys', () => {
  const scope = { date: '20130524', region, service: 's3' };

  it('a key in use stays, and at most two generations are held', () => {
    const keys = new SigningKeys(2);
    const key = deriveSigningKey(secret, scope);
    keys.keep('used', secret, 'scope', key);
    for (let i = 0; i < 10; i++) {
      keys.keep(`other-${i}`, secret, 'scope', key);
      expect(keys.find('used', secret, 'scope')).toBe(key);
    }
    expect(keys.find('other-0', secret, 'scope')).toBeUndefined();
  });

  it('a changed secret does not find the key of the old one', () => {
    const keys = new SigningKeys(2);
    keys.keep('id', secret, 'scope', deriveSigningKey(secret, scope));
    expect(keys.find('id', 'another secret', 'scope')).toBeUndefined();
  });
});
