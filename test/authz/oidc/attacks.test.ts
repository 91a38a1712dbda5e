// What an outside token cannot do, whoever made it.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Claims,
  FakeIssuer,
  jwkOf,
  makeKey,
  openTrust,
  signByHmac,
  signToken,
  startMs,
  type Trust,
} from './fixture.ts';

const keys = {
  rsa: makeKey('RS256', 'rsa'),
  ec: makeKey('ES256', 'ec'),
  strange: makeKey('RS256', 'rsa'),
};
let issuer: FakeIssuer;
/** Trusted too, and as good as its keys. */
let other: FakeIssuer;
let trust: Trust;

beforeAll(async () => {
  issuer = await FakeIssuer.start(keys.rsa, keys.ec);
  other = await FakeIssuer.start(keys.strange);
  trust = await openTrust();
  await trust.trust('first', issuer.url);
  await trust.trust('other', other.url);
});

afterAll(async () => {
  trust.close();
  await issuer.stop();
  await other.stop();
});

function authenticate(token: string, nowMs = startMs) {
  return trust.outside.authenticate(token, nowMs);
}

async function refusal(token: string, nowMs = startMs) {
  const thrown = await authenticate(token, nowMs).catch((error: unknown) => error);
  const { name, code, message, fields } = thrown as Error & {
    code: string;
    fields: Record<string, string>;
  };
  expect(name).toBe('Refusal');
  return { code, message, reason: fields.Reason };
}

const invalid = (reason: string) => expect.objectContaining({ code: 'InvalidBearerToken', reason });

test('a good token is taken, as those below are but for one thing', async () => {
  const { actor } = await authenticate(issuer.token());
  expect(actor.principal.id).toBe('cms/alice');
});

describe('a signature is the issuer’s own, by an algorithm of its key', () => {
  const none = (claims: Claims) => {
    const parts = [{ alg: 'none', typ: 'JWT' }, claims];
    const texts = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'));
    return `${texts.join('.')}.`;
  };

  test('alg none is refused', async () => {
    expect(await refusal(none(issuer.claims()))).toMatchObject({ code: 'InvalidBearerToken' });
    expect(await refusal(`${none(issuer.claims())}AAAA`)).toEqual(invalid('Header'));
  });

  test.each(['pem', 'jwk', 'n'])(
    'HS256 with the public key (%s) as secret is refused',
    async (form) => {
      const { publicKey } = keys.rsa;
      const jwk = publicKey.export({ format: 'jwk' });
      const secret =
        form === 'pem'
          ? publicKey.export({ type: 'spki', format: 'pem' })
          : form === 'jwk'
            ? JSON.stringify(jwk)
            : Buffer.from(String(jwk.n), 'base64url');
      const token = signByHmac(issuer.claims(), { kid: 'rsa' }, secret);
      expect(await refusal(token)).toEqual(invalid('Header'));
    },
  );

  test.each([
    ['another key of the same name', () => signToken(keys.strange, issuer.claims())],
    ['the name of another of its keys', () => signToken(keys.rsa, issuer.claims(), { kid: 'ec' })],
    [
      'another algorithm than the key’s',
      () => signToken({ ...keys.rsa, alg: 'RS512' }, issuer.claims()),
    ],
    [
      'another trusted issuer’s key',
      () => signToken(keys.strange, issuer.claims(), { kid: 'rsa' }),
    ],
    ['a key that nobody has', () => signToken(keys.rsa, issuer.claims(), { kid: randomUUID() })],
    [
      'a kid that is a path',
      () => signToken(keys.strange, issuer.claims(), { kid: '../../dev/null' }),
    ],
    [
      'a key in its own header',
      () => signToken(keys.strange, issuer.claims(), { jwk: jwkOf(keys.strange) }),
    ],
    [
      'a key at a URL in its own header',
      () => signToken(keys.strange, issuer.claims(), { jku: `${other.url}/jwks` }),
    ],
    ['no signature', () => `${issuer.token().split('.').slice(0, 2).join('.')}.AAAA`],
    [
      'claims of another token',
      () => {
        const [head, , signature] = issuer.token().split('.');
        return [head, issuer.token({ sub: 'subject-of-bob' }).split('.')[1], signature].join('.');
      },
    ],
  ])('%s is refused', async (_title, make) => {
    const asked = other.asked.length;
    expect(await refusal(make())).toEqual(invalid('Signature'));
    expect(other.asked.length).toBe(asked);
  });

  test('a critical header that is not understood is refused', async () => {
    const token = issuer.token({}, { crit: ['exp'], exp: 1 });
    expect(await refusal(token)).toEqual(invalid('Signature'));
  });

  test('issuers that nobody trusts and signatures that fail are not told apart', async () => {
    const unknown = await refusal(issuer.token({ iss: 'https://nobody.example' }));
    const elsewhere = await refusal(issuer.token({ aud: 'https://elsewhere.example' }));
    const forged = await refusal(signToken(keys.strange, issuer.claims()));
    expect([unknown, elsewhere]).toEqual([forged, forged]);
  });

  test.each(['logout+jwt', 'secevent+jwt', 'bursar-link+jwt', 'dpop+jwt', 7])(
    'what is signed for another purpose (%s) is no token',
    async (typ) => {
      expect(await refusal(issuer.token({}, { typ }))).toEqual(invalid('Header'));
    },
  );
});

describe('a token is what it says, read in one way', () => {
  const hourS = 3600;
  const nowS = startMs / 1000;

  test('a token is dead at its end, without leeway', async () => {
    expect(await refusal(issuer.token({ exp: nowS }))).toMatchObject({
      code: 'ExpiredBearerToken',
    });
    expect(await refusal(issuer.token({ exp: nowS - 300 }))).toMatchObject({
      code: 'ExpiredBearerToken',
    });
    const token = issuer.token({ exp: nowS + 1 });
    await authenticate(token);
    expect(await refusal(token, startMs + 1000)).toMatchObject({ code: 'ExpiredBearerToken' });
  });

  test.each(['nbf', 'iat'])('a clock may be a minute ahead for %s, and no more', async (claim) => {
    await authenticate(issuer.token({ [claim]: nowS + 60 }));
    expect(await refusal(issuer.token({ [claim]: nowS + 62 }))).toEqual(invalid('NotYetValid'));
  });

  test.each<Claims>([
    { exp: undefined },
    { iat: undefined },
    { sub: undefined },
    { sub: '' },
    { sub: 7 },
    { sub: ['subject-of-alice'] },
    { sub: 'x'.repeat(256) },
    { exp: 'tomorrow' },
    { exp: 1e300 },
    { iat: -1 },
    { 'wlcg.ver': '2.0' },
    { 'wlcg.ver': 1 },
    { cnf: { jkt: 'AAAA' } },
  ])('%j is refused', async (more) => {
    expect(await refusal(issuer.token(more))).toMatchObject({ code: 'InvalidBearerToken' });
  });

  test('of an endless number in exp nothing lasts endlessly', async () => {
    const text = JSON.stringify(issuer.claims()).replace(/"exp":\d+/, '"exp":1e999');
    expect(await refusal(signToken(keys.rsa, text))).toMatchObject({ code: 'InvalidBearerToken' });
  });

  test('a claim or header that is given twice is refused', async () => {
    const twice = JSON.stringify(issuer.claims()).replace('{', '{"sub":"subject-of-root",');
    expect(await refusal(signToken(keys.rsa, twice))).toEqual(invalid('Malformed'));
  });

  test('a token of a megabyte is refused by its size', async () => {
    const token = issuer.token({ pad: 'x'.repeat(1024 * 1024) });
    expect(await refusal(token)).toEqual(invalid('TooLarge'));
  });

  test.each(['', '.', '..', 'a.b', 'a.b.c.d', 'e30.e30.', 'e30=.e30=.e30=', '~', 'ey J.e30.e30'])(
    'the text %j is refused',
    async (text) => {
      expect(await refusal(text)).toMatchObject({ code: 'InvalidBearerToken' });
    },
  );

  test('an audience may be one of several, but not of several that are trusted', async () => {
    const aud = ['https://elsewhere.example', 'https://bursar.example/cms'];
    await authenticate(issuer.token({ aud }));
    await trust.trust('second', issuer.url, {}, 'https://bursar.example/second');
    const both = ['https://bursar.example/second', ...aud];
    expect(await refusal(issuer.token({ aud: both }))).toEqual(invalid('Audience'));
    await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'second' });
    expect(await refusal(issuer.token({ aud: [] }))).toEqual(invalid('Signature'));
  });

  test.each([
    'storage.read',
    'storage.read:',
    'storage.read:raw',
    'storage.read:/../secret',
    'storage.read:/%2e%2e/secret',
    'storage.read:/a%2Fb',
    'storage.read:/a%252Fb',
    'storage.read:/a%00b',
    'storage.modify:/a storage.read',
  ])('the scope %j is refused', async (scope) => {
    expect(await refusal(issuer.token({ scope }))).toEqual(invalid('Scope'));
  });

  test('a scope that is no text is refused, not taken for none', async () => {
    expect(await refusal(issuer.token({ scope: ['storage.read:/'] }))).toEqual(invalid('Scope'));
  });

  test('signatures that differ make no other token of it: the id stays', async () => {
    const claims = issuer.claims({ exp: nowS + hourS });
    const ids = await Promise.all(
      [1, 2].map(async () => {
        const token = signToken(keys.ec, claims);
        return [token, (await authenticate(token)).delegation.ids[0]] as const;
      }),
    );
    expect(ids[0]?.[0]).not.toBe(ids[1]?.[0]);
    expect(ids[0]?.[1]).toBe(ids[1]?.[1]);
  });
});

test.each(['subject-of-root', 'subject-of-nobody', '__proto__', 'constructor'])(
  'the subject %s acts for nobody',
  async (sub) => {
    expect(await refusal(issuer.token({ sub }))).toMatchObject({ code: 'AccessDenied' });
  },
);

test('groups come from the mapping alone', async () => {
  const groups = ['/cms/shifters', 'shifters', 'group:cms/shifters', '__proto__', 7, null, ['x']];
  const { actor } = await authenticate(issuer.token({ groups }));
  expect(actor.subjects.filter((subject) => subject.startsWith('group:'))).toEqual([
    'group:cms/shifters',
  ]);
  const bare = await authenticate(issuer.token({ groups: ['shifters'], 'wlcg.groups': 'cms' }));
  expect(bare.actor.subjects).not.toContain('group:cms/shifters');
});
