import { describe, expect, it } from 'vitest';
import { Authenticator } from '#bursar/authz/authenticate.js';
import { emptySha256 } from '#bursar/core/sigv4.js';
import {
  asymmetricAuthenticator,
  asymmetricId,
  asymmetricPresigned,
  asymmetricRequest,
  asymmetricSecret,
  publicKey,
} from './asymmetric.ts';
import {
  accessKeyId,
  alice,
  aliceKey,
  exampleAuthenticator,
  exampleMs,
  refusal,
  secret,
  signedGet,
  withHeaders,
  withQuery,
} from './requests.ts';

const authenticator = asymmetricAuthenticator();

describe('an asymmetric signature', () => {
  it('in the headers authenticates whose public key it is', async () => {
    expect(await authenticator.authenticate(asymmetricRequest())).toMatchObject({
      principal: alice,
      accessKeyId: asymmetricId,
      keyThumbprint: publicKey?.thumbprint,
      authentication: {
        type: 'REST-HEADER',
        version: 'AWS4-ECDSA-P256-SHA256',
        signedAtMs: exampleMs,
      },
      presigned: false,
    });
  });

  it('in the query does too', async () => {
    expect(await authenticator.authenticate(asymmetricPresigned())).toMatchObject({
      principal: alice,
      keyThumbprint: publicKey?.thumbprint,
      authentication: { type: 'REST-QUERY-STRING', version: 'AWS4-ECDSA-P256-SHA256' },
      presigned: true,
    });
  });

  it.each([
    ["another secret's", { secret }, 'SignatureDoesNotMatch'],
    ["another id's", { accessKeyId: 'AKIAOTHEROTHEROTHERX' }, 'InvalidAccessKeyId'],
  ])('%s key is refused', async (_whose, parts, expected) => {
    for (const made of [asymmetricRequest(parts), asymmetricPresigned(parts)]) {
      expect((await refusal(authenticator.authenticate(made))).code).toBe(expected);
    }
  });

  it.each([
    ['method', { method: 'DELETE' }],
    ['path', { path: '/K' }],
    ['query', { query: [['versionId', '1']] as const }],
  ])('a changed %s does not match', async (_what, change) => {
    const changed = { ...asymmetricRequest(), ...change };
    const { code, fields } = await refusal(authenticator.authenticate(changed));
    expect(code).toBe('SignatureDoesNotMatch');
    expect(fields.StringToSign).toMatch(/^AWS4-ECDSA-P256-SHA256\n/);
  });

  it.each(['host', 'x-amz-region-set', 'x-amz-date', 'x-amz-content-sha256', 'x-amz-meta-a'])(
    'a changed %s does not match',
    async (name) => {
      const signed = asymmetricRequest({ headers: { 'x-amz-meta-a': '1' } });
      const other: Record<string, string> = {
        'x-amz-date': '20130524T000001Z',
        'x-amz-content-sha256': emptySha256,
      };
      const changed = withHeaders(signed, { [name]: other[name] ?? '*' });
      const { code } = await refusal(authenticator.authenticate(changed));
      expect(code).toBe('SignatureDoesNotMatch');
    },
  );

  it('covers every x-amz- header there is', async () => {
    const changed = withHeaders(asymmetricRequest(), { 'x-amz-copy-source': '/secret/key' });
    const { code, fields } = await refusal(authenticator.authenticate(changed));
    expect([code, fields.HeadersNotSigned]).toEqual(['AccessDenied', 'x-amz-copy-source']);
  });

  it('ends like any other: by the clock, and by the expiry of its URL', async () => {
    const later = asymmetricAuthenticator(exampleMs + 15 * 60_000 + 1);
    expect((await refusal(later.authenticate(asymmetricRequest()))).code).toBe(
      'RequestTimeTooSkewed',
    );
    const { code, message } = await refusal(later.authenticate(asymmetricPresigned()));
    expect([code, message]).toEqual(['AccessDenied', 'Request has expired']);
  });
});

describe('the regions of an asymmetric signature', () => {
  it.each(['*', 'us-east-1,eu-*'])('may be %s', async (regionSet) => {
    for (const made of [asymmetricRequest({ regionSet }), asymmetricPresigned({ regionSet })]) {
      expect(await authenticator.authenticate(made)).toMatchObject({ accessKeyId: asymmetricId });
    }
  });

  it.each([null, '', 'us east', ','])('may not be %j', async (regionSet) => {
    expect((await refusal(authenticator.authenticate(asymmetricRequest({ regionSet })))).code).toBe(
      'AuthorizationHeaderMalformed',
    );
    expect(
      (await refusal(authenticator.authenticate(asymmetricPresigned({ regionSet })))).code,
    ).toBe('AuthorizationQueryParametersError');
  });

  it('are given once', async () => {
    const twice = asymmetricPresigned({ query: [['X-Amz-Region-Set', '*']] });
    expect((await refusal(authenticator.authenticate(twice))).code).toBe(
      'AuthorizationQueryParametersError',
    );
  });
});

describe('keys of the other kind', () => {
  it('an HMAC by a key whose secret nobody here has is refused, whatever its key is', async () => {
    for (const guess of [asymmetricSecret, '', 'null', JSON.stringify(publicKey?.jwk)]) {
      const signed = signedGet({}, { accessKeyId: asymmetricId, secret: guess });
      const { code, message } = await refusal(authenticator.authenticate(signed));
      expect([code, message]).toEqual([
        'SignatureDoesNotMatch',
        'This access key signs with AWS4-ECDSA-P256-SHA256.',
      ]);
    }
  });

  it('an asymmetric signature by a key that has a secret is refused', async () => {
    const { code, message } = await refusal(
      exampleAuthenticator().authenticate(asymmetricRequest({ accessKeyId, secret })),
    );
    expect([code, message]).toEqual([
      'SignatureDoesNotMatch',
      'This access key signs with AWS4-HMAC-SHA256.',
    ]);
  });

  it('the algorithm cannot be swapped under a signature', async () => {
    const asymmetric = asymmetricRequest();
    const swapped = withHeaders(asymmetric, {
      authorization: String(asymmetric.headers.authorization)
        .replace('ECDSA-P256', 'HMAC')
        .replace('/s3/', '/us-east-1/s3/'),
    });
    const query = withQuery(asymmetricPresigned(), { 'X-Amz-Algorithm': 'AWS4-HMAC-SHA256' });
    for (const made of [swapped, query]) await refusal(authenticator.authenticate(made));
  });

  it('a key with neither a secret nor a public key proves nothing', async () => {
    const empty = new Authenticator({
      findAccessKey: async (id) => ({ ...aliceKey, id, secret: null, publicKey: null }),
      nowMs: () => exampleMs,
    });
    for (const made of [asymmetricRequest(), signedGet()]) {
      expect((await refusal(empty.authenticate(made))).code).toBe('SignatureDoesNotMatch');
    }
  });
});

describe('the evidence', () => {
  it.each([
    ['a body whose digest is signed', { method: 'PUT', payloadHash: emptySha256 }, 'body-signed'],
    ['an unsigned body', { method: 'PUT' }, 'headers-signed'],
    [
      'unsigned chunks',
      { method: 'PUT', payloadHash: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER' },
      'headers-signed',
    ],
    ['no body', { method: 'GET' }, 'body-signed'],
  ])('of a request with %s', async (_what, parts, evidence) => {
    expect(await authenticator.authenticate(asymmetricRequest(parts))).toMatchObject({ evidence });
  });

  it('of a presigned URL is no more than that it was given out', async () => {
    const signedDigest = {
      query: [['X-Amz-Content-Sha256', emptySha256]] as const,
      payloadHash: emptySha256,
    };
    for (const parts of [{}, signedDigest]) {
      const made = asymmetricPresigned({ method: 'PUT', ...parts });
      expect(await authenticator.authenticate(made)).toMatchObject({ evidence: 'headers-signed' });
    }
  });

  it.each([
    'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD',
    'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER',
    'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
    'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER',
  ])('%s is refused: what would sign the chunks is not known', async (payloadHash) => {
    const made = asymmetricRequest({ method: 'PUT', payloadHash });
    expect((await refusal(authenticator.authenticate(made))).code).toBe('NotImplemented');
  });
});
