import { describe, expect, it } from 'vitest';
import { Authenticator } from '#bursar/authz/authenticate.js';
import { emptySha256 } from '#bursar/core/sigv4.js';
import {
  accessKeyId,
  aliceKey,
  exampleAuthenticator,
  exampleMs,
  handSigned,
  host,
  presignedGet,
  refusal,
  request,
  secret,
  signedGet,
  withAuthorization,
  withHeaders,
  withQuery,
} from './requests.ts';

const minuteMs = 60_000;

describe("AWS's published S3 examples", () => {
  const authorization = (signedHeaders: string, signature: string) =>
    `AWS4-HMAC-SHA256 Credential=${accessKeyId}/20130524/us-east-1/s3/aws4_request,` +
    `SignedHeaders=${signedHeaders},Signature=${signature}`;

  it('the documented GET authenticates its principal', async () => {
    const identity = await exampleAuthenticator().authenticate(
      request('GET', '/test.txt', [
        ['Host', host],
        [
          'Authorization',
          authorization(
            'host;range;x-amz-content-sha256;x-amz-date',
            'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
          ),
        ],
        ['Range', 'bytes=0-9'],
        ['x-amz-content-sha256', emptySha256],
        ['x-amz-date', '20130524T000000Z'],
      ]),
    );
    const { publicKey: _, ...ofAlice } = aliceKey;
    expect(identity).toEqual({
      ...ofAlice,
      accessKeyId,
      isAnonymous: false,
      keyThumbprint: null,
      authentication: {
        type: 'REST-HEADER',
        version: 'AWS4-HMAC-SHA256',
        signedAtMs: exampleMs,
      },
      evidence: 'shared-secret',
      payload: { kind: 'sha256', sha256: Buffer.from(emptySha256, 'hex') },
      presigned: false,
    });
  });

  it('the documented PUT, dated by both Date and x-amz-date, authenticates', async () => {
    const sha256 = '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072';
    const identity = await exampleAuthenticator().authenticate(
      request('PUT', '/test%24file.text', [
        ['Host', host],
        ['Date', 'Fri, 24 May 2013 00:00:00 GMT'],
        [
          'Authorization',
          authorization(
            'date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class',
            '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
          ),
        ],
        ['x-amz-date', '20130524T000000Z'],
        ['x-amz-storage-class', 'REDUCED_REDUNDANCY'],
        ['x-amz-content-sha256', sha256],
      ]),
    );
    expect(identity?.payload).toEqual({ kind: 'sha256', sha256: Buffer.from(sha256, 'hex') });
  });

  it('the documented presigned GET authenticates with an unsigned payload', async () => {
    const target =
      '/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE' +
      '%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z' +
      '&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
      '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404';
    const identity = await exampleAuthenticator().authenticate(
      request('GET', target, [['Host', host]]),
    );
    expect(identity).toMatchObject({ presigned: true, payload: { kind: 'unsigned' } });
  });

  it('the documented chunked PUT gives the seed for its chunks', async () => {
    const signature = '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9';
    const identity = await exampleAuthenticator().authenticate(
      request('PUT', '/examplebucket/chunkObject.txt', [
        ['Host', 's3.amazonaws.com'],
        ['x-amz-date', '20130524T000000Z'],
        ['x-amz-storage-class', 'REDUCED_REDUNDANCY'],
        [
          'Authorization',
          authorization(
            'content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;' +
              'x-amz-decoded-content-length;x-amz-storage-class',
            signature,
          ),
        ],
        ['x-amz-content-sha256', 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'],
        ['Content-Encoding', 'aws-chunked'],
        ['x-amz-decoded-content-length', '66560'],
        ['Content-Length', '66824'],
      ]),
    );
    expect(identity?.payload).toMatchObject({
      kind: 'signed-chunks',
      trailer: false,
      seed: {
        scope: '20130524/us-east-1/s3/aws4_request',
        amzDate: '20130524T000000Z',
        signature,
      },
    });
  });
});

describe('the signature', () => {
  it('a request without credentials is anonymous', async () => {
    const anonymous = request('GET', '/k?list-type=2', [['Host', host]]);
    expect(await exampleAuthenticator().authenticate(anonymous)).toBeNull();
  });

  it('a request that we signed authenticates, again and again', async () => {
    const authenticator = exampleAuthenticator();
    for (let i = 0; i < 3; i++) {
      expect(await authenticator.authenticate(signedGet())).toMatchObject({ accessKeyId });
    }
  });

  it.each([
    ['method', { method: 'DELETE' }],
    ['path', { path: '/K' }],
    ['path (a doubled slash)', { path: '//k' }],
    ['query', { query: [['versionId', '1']] as const }],
  ])('a changed %s does not match', async (_what, change) => {
    const { code } = await refusal(
      exampleAuthenticator().authenticate({ ...signedGet(), ...change }),
    );
    expect(code).toBe('SignatureDoesNotMatch');
  });

  it.each(['x-amz-meta-a', 'host', 'x-amz-content-sha256'])(
    'a changed %s does not match',
    async (name) => {
      const changed = withHeaders(signedGet({ 'x-amz-meta-a': '1' }), {
        [name]: name === 'x-amz-content-sha256' ? emptySha256 : 'other',
      });
      const { code } = await refusal(exampleAuthenticator().authenticate(changed));
      expect(code).toBe('SignatureDoesNotMatch');
    },
  );

  it('a signed header that is absent does not match, not even as an empty one', async () => {
    const signed = signedGet({ 'x-amz-meta-a': '' });
    expect(await exampleAuthenticator().authenticate(signed)).not.toBeNull();
    const { code } = await refusal(
      exampleAuthenticator().authenticate(withHeaders(signed, { 'x-amz-meta-a': undefined })),
    );
    expect(code).toBe('SignatureDoesNotMatch');
  });

  it.each(['constructor', '__proto__'])(
    'a signed header named %s is not found among inherited properties',
    async (name) => {
      for (const value of ['', String(Object.prototype.constructor)]) {
        const canonical = [
          'GET',
          '/k',
          '',
          `${name}:${value}`,
          `host:${host}`,
          'x-amz-content-sha256:UNSIGNED-PAYLOAD',
          'x-amz-date:20130524T000000Z',
          '',
          `${name};host;x-amz-content-sha256;x-amz-date`,
          'UNSIGNED-PAYLOAD',
        ].join('\n');
        const signed = withHeaders(signedGet(), { authorization: handSigned(canonical) });
        const { code } = await refusal(exampleAuthenticator().authenticate(signed));
        expect(code).toBe('SignatureDoesNotMatch');
      }
    },
  );

  it('a mismatch shows what we computed from the request, and no signature of ours', async () => {
    const changed = withHeaders(signedGet(), { host: 'other' });
    const { fields } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(Object.keys(fields).sort()).toEqual([
      'AWSAccessKeyId',
      'CanonicalRequest',
      'CanonicalRequestBytes',
      'SignatureProvided',
      'StringToSign',
      'StringToSignBytes',
    ]);
    expect(fields.CanonicalRequestBytes).toMatch(/^47 45 54 0a 2f 6b 0a( [0-9a-f]{2})+$/);
    expect(fields.CanonicalRequest).toMatch(/^GET\n\/k\n\nhost:other\n/);
    expect(fields.StringToSign).toMatch(/^AWS4-HMAC-SHA256\n20130524T000000Z\n/);
  });

  it('nor a key that a customer brings, in a header or, by mistake, in the query', async () => {
    const name = 'x-amz-server-side-encryption-customer-key';
    const signed = signedGet({ [name]: 'hush' });
    const inHeader = withHeaders(signed, { host: 'other' });
    const inQuery = {
      ...inHeader,
      query: [
        ['a', 'b'],
        [name, 'hush'],
      ] as [string, string][],
    };
    for (const changed of [inHeader, inQuery]) {
      const { fields } = await refusal(exampleAuthenticator().authenticate(changed));
      expect(fields.CanonicalRequest).toContain(`${name}:***\n`);
      expect(JSON.stringify(fields)).not.toContain('hush');
      expect(fields.CanonicalRequestBytes).not.toContain('68 75 73 68');
    }
  });

  it('an upper-case or longer signature does not match', async () => {
    for (const change of [
      (text: string) =>
        text.replace(/Signature=.*/, (part) => `Signature=${part.slice(10).toUpperCase()}`),
      (text: string) => `${text}0`,
      (text: string) => text.slice(0, -1),
    ]) {
      const { code } = await refusal(
        exampleAuthenticator().authenticate(withAuthorization(change)),
      );
      expect(code).toBe('SignatureDoesNotMatch');
    }
  });

  it('an unknown access key is refused as such', async () => {
    const unknown = withAuthorization((text) => text.replace(accessKeyId, 'AKIAUNKNOWN'));
    const { code, fields } = await refusal(exampleAuthenticator().authenticate(unknown));
    expect(code).toBe('InvalidAccessKeyId');
    expect(fields).toEqual({ AWSAccessKeyId: 'AKIAUNKNOWN' });
  });

  it('the old secret of a key stops working at once', async () => {
    let current = secret;
    const authenticator = new Authenticator({
      findAccessKey: async (id) => ({ ...aliceKey, id, secret: current }),
      nowMs: () => exampleMs,
    });
    expect(await authenticator.authenticate(signedGet())).not.toBeNull();
    current = 'another';
    expect((await refusal(authenticator.authenticate(signedGet()))).code).toBe(
      'SignatureDoesNotMatch',
    );
  });

  it('a wrong signature looks the key up once, as a right one does', async () => {
    let lookups = 0;
    const authenticator = new Authenticator({
      findAccessKey: async (id) => {
        lookups++;
        return { ...aliceKey, id, secret };
      },
      nowMs: () => exampleMs,
    });
    await authenticator.authenticate(signedGet());
    await refusal(authenticator.authenticate({ ...signedGet(), method: 'PUT' }));
    expect(lookups).toBe(2);
  });

  it('repeated headers are signed joined by a comma, spaces collapsed', async () => {
    const canonical = [
      'GET',
      '/k',
      '',
      `host:${host}`,
      'x-amz-content-sha256:UNSIGNED-PAYLOAD',
      'x-amz-date:20130524T000000Z',
      'x-amz-meta-a:one two,three',
      '',
      'host;x-amz-content-sha256;x-amz-date;x-amz-meta-a',
      'UNSIGNED-PAYLOAD',
    ].join('\n');
    const repeated = request('GET', '/k', [
      ['Host', host],
      ['X-Amz-Meta-A', ' one   two '],
      ['x-amz-date', '20130524T000000Z'],
      ['x-amz-meta-a', 'three'],
      ['x-amz-content-sha256', 'UNSIGNED-PAYLOAD'],
      ['Authorization', handSigned(canonical)],
    ]);
    expect(await exampleAuthenticator().authenticate(repeated)).toMatchObject({ accessKeyId });
  });

  it('header bytes above ASCII are signed as they are on the wire', async () => {
    const onTheWire = Buffer.from('é', 'utf8').toString('latin1');
    const signed = signedGet({ 'x-amz-meta-a': onTheWire });
    expect(await exampleAuthenticator().authenticate(signed)).toMatchObject({ accessKeyId });
    const { code } = await refusal(
      exampleAuthenticator().authenticate(withHeaders(signed, { 'x-amz-meta-a': 'é' })),
    );
    expect(code).toBe('SignatureDoesNotMatch');
  });
});

describe('headers outside the signature', () => {
  it('an unsigned x-amz- header is refused and named', async () => {
    const changed = withHeaders(signedGet(), { 'x-amz-copy-source': '/secret/key' });
    const { code, message, fields } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('AccessDenied');
    expect(message).toBe('There were headers present in the request which were not signed');
    expect(fields).toEqual({ HeadersNotSigned: 'x-amz-copy-source' });
  });

  it('an unsigned x-bursar- header is refused and named', async () => {
    const changed = withHeaders(signedGet(), { 'x-bursar-store': 'cold' });
    const { code, fields } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('AccessDenied');
    expect(fields).toEqual({ HeadersNotSigned: 'x-bursar-store' });
  });

  it('an unsigned x-amz- header on a presigned URL is refused and named', async () => {
    const changed = presignedGet({}, { 'x-amz-copy-source': '/secret/key' });
    const { code, fields } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('AccessDenied');
    expect(fields).toEqual({ HeadersNotSigned: 'x-amz-copy-source' });
  });

  it('a signature that leaves out host is refused', async () => {
    const changed = withAuthorization((text) => text.replace('host;', ''));
    const { code, fields } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('AccessDenied');
    expect(fields).toEqual({ HeadersNotSigned: 'host' });
  });

  it('content-type and content-md5 need not be signed', async () => {
    const changed = withHeaders(signedGet(), { 'content-type': 'text/plain', 'content-md5': 'x' });
    expect(await exampleAuthenticator().authenticate(changed)).toMatchObject({ accessKeyId });
  });

  it('a presigned URL with signed x-amz- headers authenticates with exactly these', async () => {
    const headers = { 'x-amz-acl': 'private' };
    const signed = presignedGet({ headers }, headers);
    expect(await exampleAuthenticator().authenticate(signed)).toMatchObject({ presigned: true });
    const { code } = await refusal(
      exampleAuthenticator().authenticate(withHeaders(signed, { 'x-amz-acl': 'public-read' })),
    );
    expect(code).toBe('SignatureDoesNotMatch');
  });

  it('an x-amz-content-sha256 that the signer did not know does not authenticate', async () => {
    const changed = presignedGet({}, { 'x-amz-content-sha256': emptySha256 });
    const { code } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('SignatureDoesNotMatch');
  });

  it('an unsigned x-amz-content-sha256 cannot contradict a presigned URL', async () => {
    const query = [['X-Amz-Content-Sha256', 'UNSIGNED-PAYLOAD']];
    for (const word of ['STREAMING-UNSIGNED-PAYLOAD-TRAILER', emptySha256]) {
      const changed = presignedGet({ query }, { 'x-amz-content-sha256': word });
      const { code, fields } = await refusal(exampleAuthenticator().authenticate(changed));
      expect(code).toBe('AccessDenied');
      expect(fields).toEqual({ HeadersNotSigned: 'x-amz-content-sha256' });
    }
  });

  it('an x-amz-content-sha256 that says what a presigned URL says anyway is let be', async () => {
    const unsigned = presignedGet({}, { 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' });
    expect(await exampleAuthenticator().authenticate(unsigned)).toMatchObject({
      payload: { kind: 'unsigned' },
    });
  });
});

describe('time', () => {
  it('a request signed 15 minutes ago or ahead authenticates', async () => {
    for (const skewMs of [-15 * minuteMs, 15 * minuteMs]) {
      const authenticator = exampleAuthenticator(exampleMs + skewMs);
      expect(await authenticator.authenticate(signedGet())).toMatchObject({ accessKeyId });
    }
  });

  it('a request signed longer ago or further ahead is too skewed', async () => {
    for (const skewMs of [-15 * minuteMs - 1, 15 * minuteMs + 1]) {
      const authenticator = exampleAuthenticator(exampleMs + skewMs);
      const { code, fields } = await refusal(authenticator.authenticate(signedGet()));
      expect(code).toBe('RequestTimeTooSkewed');
      expect(fields).toMatchObject({
        RequestTime: '20130524T000000Z',
        MaxAllowedSkewMilliseconds: '900000',
      });
    }
  });

  it('a presigned URL works until its last second and no longer', async () => {
    const last = exampleAuthenticator(exampleMs + 600_000);
    expect(await last.authenticate(presignedGet())).toMatchObject({ presigned: true });
    const { code, message, fields } = await refusal(
      exampleAuthenticator(exampleMs + 600_001).authenticate(presignedGet()),
    );
    expect([code, message]).toEqual(['AccessDenied', 'Request has expired']);
    expect(fields).toEqual({
      'X-Amz-Expires': '600',
      Expires: '2013-05-24T00:10:00.000Z',
      ServerTime: '2013-05-24T00:10:00.001Z',
    });
  });

  it('a presigned URL from the future is not valid yet', async () => {
    const early = exampleAuthenticator(exampleMs - 15 * minuteMs - 1);
    const { code, message } = await refusal(early.authenticate(presignedGet()));
    expect([code, message]).toEqual(['AccessDenied', 'Request is not valid yet']);
  });

  it.each(['0', '-1', '604801', 'x', '1e3', ''])('X-Amz-Expires=%s is refused', async (seconds) => {
    const changed = withQuery(presignedGet(), { 'X-Amz-Expires': seconds });
    const { code } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('AuthorizationQueryParametersError');
  });

  it('without x-amz-date the Date header counts, and is needed', async () => {
    const canonical = [
      'GET',
      '/k',
      '',
      'date:Fri, 24 May 2013 00:00:00 GMT',
      `host:${host}`,
      'x-amz-content-sha256:UNSIGNED-PAYLOAD',
      '',
      'date;host;x-amz-content-sha256',
      'UNSIGNED-PAYLOAD',
    ].join('\n');
    const dated = request('GET', '/k', [
      ['Host', host],
      ['Date', 'Fri, 24 May 2013 00:00:00 GMT'],
      ['x-amz-content-sha256', 'UNSIGNED-PAYLOAD'],
      ['Authorization', handSigned(canonical)],
    ]);
    expect(await exampleAuthenticator().authenticate(dated)).toMatchObject({ accessKeyId });
    const { code, message } = await refusal(
      exampleAuthenticator().authenticate(withHeaders(dated, { date: undefined })),
    );
    expect([code, message]).toEqual([
      'AccessDenied',
      'AWS authentication requires a valid Date or x-amz-date header',
    ]);
  });
});

describe('the payload', () => {
  it.each([
    ['UNSIGNED-PAYLOAD', { kind: 'unsigned' }],
    ['STREAMING-UNSIGNED-PAYLOAD-TRAILER', { kind: 'unsigned-chunks' }],
    ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD', { kind: 'signed-chunks', trailer: false }],
    ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER', { kind: 'signed-chunks', trailer: true }],
    [emptySha256, { kind: 'sha256' }],
  ])('%s is understood', async (payloadHash, payload) => {
    const identity = await exampleAuthenticator().authenticate(signedGet({}, { payloadHash }));
    expect(identity?.payload).toMatchObject(payload);
  });

  it.each([
    ['STREAMING-AWS4-HMAC-SHA256-EVENTS', 'NotImplemented'],
    ['STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD', 'NotImplemented'],
    ['unsigned-payload', 'InvalidArgument'],
    [emptySha256.slice(1), 'InvalidArgument'],
    ['', 'InvalidArgument'],
  ])('%j is refused', async (payloadHash, expected) => {
    const { code } = await refusal(
      exampleAuthenticator().authenticate(signedGet({}, { payloadHash })),
    );
    expect(code).toBe(expected);
  });

  it('a signed request without x-amz-content-sha256 is refused', async () => {
    const { code, message } = await refusal(
      exampleAuthenticator().authenticate(
        withHeaders(signedGet(), { 'x-amz-content-sha256': undefined }),
      ),
    );
    expect(code).toBe('InvalidRequest');
    expect(message).toBe('Missing required header for this request: x-amz-content-sha256');
  });
});
