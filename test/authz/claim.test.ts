import { describe, expect, it } from 'vitest';
import { Authenticator } from '#bursar/authz/authenticate.js';
import {
  aliceKey,
  exampleAuthenticator,
  exampleMs,
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

describe('malformed credentials', () => {
  const damages: ReadonlyArray<readonly [string, (text: string) => string, string]> = [
    ['AWS4-HMAC-SHA256', (_: string) => 'AWS4-HMAC-SHA256', 'AuthorizationHeaderMalformed'],
    [
      'no Signature',
      (text: string) => text.replace(/, Signature.*/, ''),
      'AuthorizationHeaderMalformed',
    ],
    ['two Signatures', (text: string) => `${text}, Signature=00`, 'AuthorizationHeaderMalformed'],
    ['an unknown part', (text: string) => `${text}, Extra=1`, 'AuthorizationHeaderMalformed'],
    [
      'a short credential',
      (text: string) => text.replace('/s3/', '/'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'another service',
      (text: string) => text.replace('/s3/', '/sts/'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'another end',
      (text: string) => text.replace('aws4_request', 'aws5'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'another day',
      (text: string) => text.replace('20130524', '20130525'),
      'AuthorizationHeaderMalformed',
    ],
    ['no day', (text: string) => text.replace('20130524', 'today'), 'AuthorizationHeaderMalformed'],
    [
      'unsorted headers',
      (text: string) => text.replace('host;', 'zzz;host;'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'a header twice',
      (text: string) => text.replace('host;', 'host;host;'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'upper-case headers',
      (text: string) => text.replace('host;', 'Host;'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'empty headers',
      (text: string) => text.replace('host;', ';host;'),
      'AuthorizationHeaderMalformed',
    ],
    [
      'a thousand headers',
      (text: string) =>
        text.replace(
          'host;',
          `${Array.from({ length: 1000 }, (_, i) => `a${1000 + i}`).join(';')};host;`,
        ),
      'AuthorizationHeaderMalformed',
    ],
    [
      'Signature V2',
      (_: string) => 'AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=',
      'InvalidRequest',
    ],
    [
      "SigV4A's algorithm and a region in its scope",
      (text: string) => text.replace('HMAC-SHA256', 'ECDSA-P256-SHA256'),
      'AuthorizationHeaderMalformed',
    ],
    [
      "nothing but SigV4A's algorithm",
      (_: string) => 'AWS4-ECDSA-P256-SHA256',
      'AuthorizationHeaderMalformed',
    ],
    ['a bearer token', (_: string) => 'Bearer abc', 'NotImplemented'],
    ['a DPoP token', (_: string) => 'DPoP abc', 'NotImplemented'],
    ['a password', (_: string) => 'Basic YTpi', 'InvalidArgument'],
    ['nothing', (_: string) => '', 'InvalidArgument'],
  ];

  it.each(damages)(
    'an Authorization header with %s is refused',
    async (_title, change, expected) => {
      const { code } = await refusal(
        exampleAuthenticator().authenticate(withAuthorization(change)),
      );
      expect(code).toBe(expected);
    },
  );

  it.each([
    ['X-Amz-Algorithm', null],
    ['X-Amz-Algorithm', 'AWS4-HMAC-SHA1'],
    ['X-Amz-Credential', 'AKIA/us-east-1/s3/aws4_request'],
    ['X-Amz-Credential', null],
    ['X-Amz-Date', '2013-05-24'],
    ['X-Amz-Date', null],
    ['X-Amz-Date', '20130525T000000Z'],
    ['X-Amz-Expires', null],
    ['X-Amz-SignedHeaders', ''],
    ['X-Amz-SignedHeaders', 'Host'],
    ['X-Amz-Signature', null],
  ])('a presigned URL with %s=%s is refused', async (name, value) => {
    const changed = withQuery(presignedGet(), { [name]: value });
    const { code } = await refusal(exampleAuthenticator().authenticate(changed));
    expect(code).toBe('AuthorizationQueryParametersError');
  });

  it.each([
    'X-Amz-Algorithm',
    'X-Amz-Credential',
    'X-Amz-Date',
    'X-Amz-Expires',
    'X-Amz-Signature',
    'X-Amz-SignedHeaders',
  ])('a presigned URL that gives %s twice is refused', async (name) => {
    const original = presignedGet();
    const pair = original.query.find(([n]) => n === name) as readonly [string, string];
    const { code } = await refusal(
      exampleAuthenticator().authenticate({ ...original, query: [...original.query, pair] }),
    );
    expect(code).toBe('AuthorizationQueryParametersError');
  });

  it('a presigned URL of Signature V2 is refused with the reason', async () => {
    const old = request('GET', '/k?AWSAccessKeyId=a&Expires=1&Signature=b', [['Host', host]]);
    const { code, message } = await refusal(exampleAuthenticator().authenticate(old));
    expect(code).toBe('InvalidRequest');
    expect(message).toContain('Please use AWS4-HMAC-SHA256');
  });

  it('two mechanisms at once are refused', async () => {
    const both = withHeaders(presignedGet(), signedGet().headers as Record<string, string>);
    const { code, message } = await refusal(exampleAuthenticator().authenticate(both));
    expect(code).toBe('InvalidArgument');
    expect(message).toContain('Only one auth mechanism allowed');
  });

  const tokens = new Map([
    ['header', (token: string) => signedGet({ 'x-amz-security-token': token })],
    ['query', (token: string) => presignedGet({ query: [['X-Amz-Security-Token', token]] })],
  ]);

  it.each([...tokens])(
    'a session token in the %s goes to who knows the keys',
    async (_, signed) => {
      const seen: unknown[] = [];
      const authenticator = new Authenticator({
        findAccessKey: async (id) => {
          seen.push(undefined);
          return { ...aliceKey, id, secret };
        },
        findTemporaryKey: async (id, sessionToken) => {
          seen.push(sessionToken);
          return { ...aliceKey, id, secret };
        },
        nowMs: () => exampleMs,
      });
      const longest = 'x'.repeat(8192);
      await authenticator.authenticate(signed(longest));
      await authenticator.authenticate(signedGet());
      for (const bad of [`${longest}x`, '', 'one, two', 'one,two', 'o\u00f6']) {
        expect(await refusal(authenticator.authenticate(signed(bad)))).toMatchObject({
          code: 'InvalidToken',
        });
      }
      expect(seen).toEqual([longest, undefined]);
    },
  );

  it('a session token that is given twice in the query is refused', async () => {
    const pair = ['X-Amz-Security-Token', 'token'] as const;
    const { code } = await refusal(
      exampleAuthenticator().authenticate(presignedGet({ query: [pair, pair] })),
    );
    expect(code).toBe('AuthorizationQueryParametersError');
  });

  it.each(['Bearer', 'DPoP', 'bearer'])(
    '%s with credentials in the query is refused before anybody reads the token',
    async (scheme) => {
      const authenticator = new Authenticator({
        findAccessKey: async () => undefined,
        bearer: {
          renew: () => {
            throw new Error('unused');
          },
          authenticate: () => {
            throw new Error('it was read');
          },
        },
      });
      const both = withHeaders(presignedGet(), { authorization: `${scheme} token` });
      const { code, message } = await refusal(authenticator.authenticate(both));
      expect(code).toBe('InvalidArgument');
      expect(message).toContain('Only one auth mechanism allowed');
    },
  );
});
