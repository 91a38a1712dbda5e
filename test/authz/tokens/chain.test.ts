// Chains that are taken, and every way to get more out of one than it gives.
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { hashToken } from '#bursar/authz/tokens/chain.js';
import { signJws } from '#bursar/authz/tokens/jws.js';
import { generatePrivateKey, readPublicKey, thumbprintUri } from '#bursar/authz/tokens/keys.js';
import { parseScope, renderScope } from '#bursar/authz/tokens/scope.js';
import {
  aliceKey,
  audience,
  type Claims,
  chainOf,
  claimsOf,
  encode,
  forgeLast,
  gatewayKey,
  hour,
  issue,
  jobKey,
  linkType,
  now,
  refusalOf,
  shrink,
  strangerKey,
  subJobKey,
  verify,
} from './fixture.ts';

const invalid = (reason: string, link?: number) =>
  ['InvalidBearerToken', reason, link].filter((part) => part !== undefined).join(' ');

describe('a chain', () => {
  it('that the gateway issued allows what link 0 says, to whom proves the key', async () => {
    const chain = await verify(issue());
    expect(chain).toMatchObject({
      subject: 'cms/alice',
      depth: 0,
      expiresAtMs: now + 12 * hour,
    });
    expect(chain.issuer).toEqual({ key: gatewayKey.publicKey });
    expect(chain.boundKey?.thumbprint).toBe(jobKey.publicKey.thumbprint);
    expect(renderScope(chain.scope)).toBe('storage.read:/raw storage.modify:/out/alice');
  });

  it("that a principal issued with its own key is the principal's", async () => {
    const chain = await verify(issue({ key: aliceKey, gateway: undefined }));
    expect(chain.issuer.principal).toBe('cms/alice');
    expect(chain.ids[0]).toMatch(new RegExp(`^${aliceKey.publicKey.thumbprint}\\.`));
  });

  it('allows what its last link says, and charges every link', async () => {
    const first = issue({ limits: { spend: { month: '25.00' } } });
    const second = shrink(first, {
      scope: parseScope('storage.read:/raw/2026 storage.create:/out/alice/logs'),
      holder: subJobKey.publicKey,
      conditions: { networks: ['10.0.0.0/8'] },
    });
    const third = shrink(second, {
      key: subJobKey,
      scope: parseScope('storage.read:/raw/2026/run7/'),
      expiresAtMs: now + hour,
      limits: { egressBytes: { total: 1000 } },
      conditions: { networks: ['10.1.0.0/16', '10.2.0.0/16'], objectBytesMax: 5 },
    });
    const chain = await verify(third);
    expect(renderScope(chain.scope)).toBe('storage.read:/raw/2026/run7/');
    expect(chain).toMatchObject({ depth: 2, boundKey: undefined, expiresAtMs: now + hour });
    expect(chain.accounts.map(({ name }) => name)).toEqual(chain.ids.map((id) => `token:${id}`));
    expect(chain.accounts.map(({ limits }) => limits)).toEqual([
      { spend: { month: '25.00' } },
      undefined,
      { egressBytes: { total: 1000 } },
    ]);
    expect(chain.conditions.allowSource('10.2.3.4')).toBe(true);
    expect(chain.conditions.allowSource('10.3.3.4')).toBe(false);
    expect(chain.conditions.objectBytesMax).toBe(5);
  });

  it('may have eight links, and is the same however often it is verified', async () => {
    const token = chainOf(8);
    const chain = await verify(token);
    expect(chain.depth).toBe(7);
    expect(chain.hash).toBe(hashToken(token));
    expect((await verify(token)).hash).toBe(chain.hash);
  });

  it('of every pair of algorithms is verified', async () => {
    for (const first of ['EdDSA', 'ES256'] as const) {
      for (const second of ['EdDSA', 'ES256'] as const) {
        const [one, two] = [generatePrivateKey(first), generatePrivateKey(second)];
        const token = shrink(
          shrink(issue({ holder: one.publicKey }), { key: one, holder: two.publicKey }),
          { key: two },
        );
        expect((await verify(token)).depth).toBe(2);
      }
    }
  });
});

describe('the signature of a link', () => {
  const claims = claimsOf(issue());
  const kid = gatewayKey.publicKey.thumbprint;

  it.each(['none', 'None', 'HS256', 'RS256', 'ES384', 'eddsa', '', undefined, null, 7])(
    'is never taken with the alg %j',
    async (alg) => {
      const input = `${encode({ typ: linkType, alg, kid })}.${encode(claims)}`;
      const token = `${input}.${Buffer.alloc(64).toString('base64url')}`;
      expect(await refusalOf(() => verify(token))).toBe(invalid('Header', 0));
    },
  );

  it('is not an empty one', async () => {
    const token = `${encode({ typ: linkType, alg: 'none', kid })}.${encode(claims)}.`;
    expect(await refusalOf(() => verify(token))).toBe(invalid('Malformed', 0));
  });

  it.each(['HS256', 'EdDSA'])('is no HMAC with the public key as its secret (%s)', async (alg) => {
    const input = `${encode({ typ: linkType, alg, kid })}.${encode(claims)}`;
    const secrets = [
      gatewayKey.publicKey.keyObject.export({ type: 'spki', format: 'pem' }),
      gatewayKey.publicKey.keyObject.export({ type: 'spki', format: 'der' }),
      Buffer.from(gatewayKey.publicKey.jwk.x, 'base64url'),
    ];
    for (const secret of secrets) {
      const mac = createHmac('sha512', secret).update(input).digest('base64url');
      const refusal = await refusalOf(() => verify(`${input}.${mac}`));
      expect(refusal).toBe(invalid(alg === 'EdDSA' ? 'Signature' : 'Header', 0));
    }
  });

  it("is refused where the header names another algorithm than the key's", async () => {
    const [header, body, signature] = issue().split('.') as [string, string, string];
    expect(header).toContain(encode({ typ: linkType, alg: 'EdDSA' }).slice(0, 30));
    const token = `${encode({ typ: linkType, alg: 'ES256', kid })}.${body}.${signature}`;
    expect(await refusalOf(() => verify(token))).toBe(invalid('Signature', 0));
  });

  it.each([
    ['jwk', strangerKey.publicKey.jwk],
    ['jku', 'https://evil.example/jwks'],
    ['x5u', 'https://evil.example/cert'],
    ['x5c', ['MIIB']],
    ['crit', ['exp']],
    ['b64', false],
    ['cty', 'JWT'],
  ])('is not found by the header "%s"', async (name, value) => {
    const byStranger = forgeLast(issue(), strangerKey, {}, { [name]: value });
    expect(await refusalOf(() => verify(byStranger))).toBe(invalid('Header', 0));
    const inChild = forgeLast(shrink(issue()), jobKey, {}, { [name]: value });
    expect(await refusalOf(() => verify(inChild))).toBe(invalid('Header', 1));
  });

  it('is not found by a "kid" of another key', async () => {
    const own = forgeLast(issue(), strangerKey, {}, { kid: strangerKey.publicKey.thumbprint });
    expect(await refusalOf(() => verify(own))).toBe(invalid('Signature', 0));
    const gateways = forgeLast(issue(), strangerKey, {});
    expect(await refusalOf(() => verify(gateways))).toBe(invalid('Signature', 0));
    const alices = forgeLast(issue(), aliceKey, {}, { kid: aliceKey.publicKey.thumbprint });
    expect(await refusalOf(() => verify(alices))).toBe(invalid('Signature', 0));
    const inChild = forgeLast(shrink(issue()), jobKey, {}, { kid });
    expect(await refusalOf(() => verify(inChild))).toBe(invalid('Header', 1));
  });

  it('is refused even when the look-up returns a key that was not asked for', async () => {
    const token = forgeLast(issue(), strangerKey, {});
    const findIssuerKey = () => ({ key: strangerKey.publicKey });
    expect(await refusalOf(() => verify(token, { findIssuerKey }))).toBe(invalid('Signature', 0));
  });

  it('by a registered key is for its own principal alone', async () => {
    const token = issue({ key: aliceKey, gateway: undefined, subject: 'cms/admin' });
    expect(await refusalOf(() => verify(token))).toBe(invalid('Signature', 0));
  });

  it('by a registered key is never one by the gateway', async () => {
    const asGateway = { key: aliceKey.publicKey };
    const token = issue({ key: aliceKey, gateway: undefined });
    const findIssuerKey = () => asGateway;
    expect(await refusalOf(() => verify(token, { findIssuerKey }))).toBe(invalid('Signature', 0));
  });

  it('by an unknown key reads the same as a wrong one', async () => {
    const message = async (token: string) => {
      const error = await verify(token).catch((thrown: Error) => thrown);
      return (error as Error).message;
    };
    const unknown = issue({ key: strangerKey, gateway: undefined });
    const wrong = forgeLast(issue({ key: aliceKey, gateway: undefined }), strangerKey, {});
    expect(await message(unknown)).toBe(await message(wrong));
  });

  it('over changed claims is refused', async () => {
    const [header, , signature] = issue().split('.') as [string, string, string];
    const token = `${header}.${encode({ ...claims, sub: 'cms/admin' })}.${signature}`;
    expect(await refusalOf(() => verify(token))).toBe(invalid('Signature', 0));
  });

  it('is not borrowed from a JWS of another type', async () => {
    for (const typ of ['JWT', 'at+jwt', 'dpop+jwt', 'bursar-key-proof+jwt', undefined]) {
      const token = signJws(gatewayKey, { type: typ as string, members: { kid }, claims });
      expect(await refusalOf(() => verify(token))).toBe(invalid('Header', 0));
    }
  });

  it('is not by a key under which every signature is right', () => {
    // The neutral point of Ed25519: with R neutral and S zero it "signs" any message.
    const neutral = Buffer.alloc(32);
    neutral[0] = 1;
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: neutral.toString('base64url') };
    expect(readPublicKey(jwk)).toBeUndefined();
    neutral[31] = 0x80;
    expect(readPublicKey({ ...jwk, x: neutral.toString('base64url') })).toBeUndefined();
    expect(readPublicKey(jobKey.publicKey.jwk)).toBeDefined();
  });
});

describe('a link in time', () => {
  it.each([
    ['expired this millisecond', { expiresAtMs: now }, 'ExpiredBearerToken Expired 0'],
    ['expired', { expiresAtMs: now - 1000 }, 'ExpiredBearerToken Expired 0'],
    ['is not valid yet', { notBeforeMs: now + 61_000 }, invalid('NotYetValid', 0)],
    ['was issued in the future', { nowMs: now + 61_000 }, invalid('NotYetValid', 0)],
  ])('that %s is refused', async (_title, request, expected) => {
    expect(await refusalOf(() => verify(issue(request)))).toBe(expected);
  });

  it('is valid for clocks that are a minute ahead', async () => {
    const token = issue({ nowMs: now + 60_000 });
    expect((await verify(token)).depth).toBe(0);
    expect(await refusalOf(() => verify(token, { clockSkewMs: 59_000 }))).toBe(
      invalid('NotYetValid', 0),
    );
  });

  it.each([
    ['exp', '1795262400'],
    ['exp', 1.5],
    ['exp', -1],
    ['exp', 1e300],
    ['exp', null],
    ['iat', 9e15],
    ['nbf', undefined],
  ])('with the %s %j is refused', async (name, value) => {
    const token = forgeLast(issue(), gatewayKey, { [name]: value });
    expect(await refusalOf(() => verify(token))).toBe(invalid('Claims', 0));
  });

  it('expires with its shortest link', async () => {
    const token = shrink(issue(), { expiresAtMs: now + hour });
    expect(await refusalOf(() => verify(token, { nowMs: now + hour }))).toBe(
      'ExpiredBearerToken Expired 1',
    );
  });
});

describe('a link for another gateway', () => {
  it.each([
    'https://s3.example.com',
    `${audience}/`,
    `${audience.toUpperCase()}`,
    'https://wlcg.cern.ch/jwt/v1/any',
  ])('(%s) is refused', async (other) => {
    expect(await refusalOf(() => verify(issue({ audience: other })))).toBe(invalid('Audience', 0));
  });

  it('is refused where a list names this one too', async () => {
    const token = forgeLast(issue(), gatewayKey, { aud: [audience, 'https://other.example'] });
    expect(await refusalOf(() => verify(token))).toBe(invalid('Claims', 0));
  });
});

describe('a child', () => {
  const parent = issue({
    scope: parseScope('storage.read:/raw/foo storage.create:/out'),
    depthMax: 3,
  });
  const child = shrink(parent, { holder: subJobKey.publicKey });

  it.each<[string, Claims, string]>([
    ['a wider scope', { scope: 'storage.read:/raw' }, 'Widened'],
    ['a sibling of the same beginning', { scope: 'storage.read:/raw/foobar' }, 'Widened'],
    ['another right', { scope: 'storage.modify:/out' }, 'Widened'],
    ['one entry too many', { scope: 'storage.read:/raw/foo storage.read:/x' }, 'Widened'],
    ['a path with ..', { scope: 'storage.read:/raw/foo/../bar' }, 'Scope'],
    ['an encoded ..', { scope: 'storage.read:/raw/foo/%2e%2e/bar' }, 'Scope'],
    ['an encoded slash', { scope: 'storage.read:/raw/foo%2Fbar' }, 'Scope'],
    ['a slash encoded twice', { scope: 'storage.read:/raw/foo%252Fbar' }, 'Scope'],
    ['no scope', { scope: undefined }, 'Scope'],
    ['a later end', { exp: (now + 12 * hour) / 1000 + 1 }, 'Widened'],
    ['an earlier issue', { iat: now / 1000 - 1 }, 'Widened'],
    ['a skipped depth', { del_depth: 2 }, 'Depth'],
    ["its parent's depth", { del_depth: 0 }, 'Depth'],
    ['deeper links', { del_max_depth: 4 }, 'Widened'],
    ['less depth than it has', { del_max_depth: 0 }, 'Depth'],
    ['another subject', { sub: 'cms/bob' }, 'Parent'],
    ['another audience', { aud: 'https://other.example' }, 'Parent'],
    ['another issuer', { iss: audience }, 'Parent'],
    ['a stranger as issuer', { iss: thumbprintUri(strangerKey.publicKey.thumbprint) }, 'Parent'],
    ['no hash of its parent', { par_hash: undefined }, 'Claims'],
    ['a wrong hash of its parent', { par_hash: hashToken('x') }, 'Parent'],
    ["an id that is not below its parent's", { jti: 'victim.own' }, 'Parent'],
    ["its parent's id", { jti: claimsOf(parent).jti }, 'Parent'],
    ["an id two below its parent's", { jti: `${claimsOf(parent).jti}.a.b` }, 'Parent'],
    ['an unknown claim', { max_reads: 3 }, 'Claims'],
    ['an unknown condition', { conditions: { weekdays: ['mon'] } }, 'Claims'],
    ['an empty condition', { conditions: {} }, 'Claims'],
    ['a network that is none', { conditions: { networks: ['10.0.0.0/33'] } }, 'Claims'],
    ['no network at all', { conditions: { networks: [] } }, 'Claims'],
    ['an unknown limit', { limits: { deletes: { day: 1 } } }, 'Claims'],
    ['an unknown window', { limits: { requests: { week: 1 } } }, 'Claims'],
    ['a limit as a float', { limits: { requests: { day: 1.5 } } }, 'Claims'],
    ['money as a number', { limits: { spend: { day: 1 } } }, 'Claims'],
    ['a negative limit', { limits: { requests: { day: -1 } } }, 'Claims'],
    ['another version', { 'wlcg.ver': '2.0' }, 'Claims'],
    ['a thumbprint in "cnf"', { cnf: { jkt: subJobKey.publicKey.thumbprint } }, 'Claims'],
    ['an empty "cnf"', { cnf: {} }, 'Claims'],
    ['a null "cnf"', { cnf: null }, 'Claims'],
    [
      'a private key in "cnf"',
      { cnf: { jwk: subJobKey.keyObject.export({ format: 'jwk' }) } },
      'Claims',
    ],
    ['a symmetric key in "cnf"', { cnf: { jwk: { kty: 'oct', k: 'AAAA' } } }, 'Claims'],
    [
      'a key off its curve in "cnf"',
      { cnf: { jwk: { ...subJobKey.publicKey.jwk, y: subJobKey.publicKey.jwk.x } } },
      'Claims',
    ],
  ])('with %s is refused', async (_title, change, reason) => {
    const token = forgeLast(child, jobKey, change);
    expect(await refusalOf(() => verify(token))).toBe(invalid(reason, 1));
  });

  it('that narrows in every one of these ways is taken', async () => {
    const token = forgeLast(child, jobKey, {
      scope: 'storage.read:/raw/foo/bar',
      exp: now / 1000 + 60,
      iat: now / 1000 + 5,
      del_max_depth: 1,
      conditions: { networks: ['2001:db8::/32', '192.0.2.1'], classes: ['STANDARD'] },
      limits: { spend: { total: '0.10' }, rate: { requests: 10 } },
    });
    expect((await verify(token)).depth).toBe(1);
  });

  it("signed by its parent's signer instead of its holder is refused", async () => {
    expect(await refusalOf(() => verify(forgeLast(child, gatewayKey, {})))).toBe(
      invalid('Signature', 1),
    );
    expect(await refusalOf(() => verify(forgeLast(child, strangerKey, {})))).toBe(
      invalid('Signature', 1),
    );
  });

  it('of a bearer link is refused: nobody could have been allowed to sign it', async () => {
    const bearer = issue({ holder: undefined, depthMax: 3 });
    const made = `${bearer}~${child.split('~')[1]}`;
    const last = forgeLast(made, strangerKey, {
      iss: thumbprintUri(strangerKey.publicKey.thumbprint),
      par_hash: hashToken(bearer.split('.').slice(0, 2).join('.')),
      jti: `${claimsOf(bearer).jti}.x`,
    });
    expect(await refusalOf(() => verify(last))).toBe(invalid('Parent', 1));
    expect(await refusalOf(() => shrink(bearer))).toBe(invalid('Parent', 1));
  });

  it('where its parent may not be passed on is refused', async () => {
    const last = issue({ depthMax: 0 });
    expect(await refusalOf(() => shrink(last))).toBe(invalid('Depth', 1));
    const forged = forgeLast(`${last}~${child.split('~')[1]}`, jobKey, {
      par_hash: hashToken(last.split('.').slice(0, 2).join('.')),
      jti: `${claimsOf(last).jti}.x`,
      del_max_depth: 1,
    });
    expect(await refusalOf(() => verify(forged))).toBe(invalid('Depth', 1));
  });
});

describe('the links of a chain', () => {
  const narrow = { scope: parseScope('storage.read:/raw/foo') };
  const one = issue();
  const two = shrink(one, { ...narrow, holder: subJobKey.publicKey });
  const three = shrink(two, { key: subJobKey, holder: jobKey.publicKey });
  const [first, second, third] = three.split('~') as [string, string, string];

  it.each([
    ['are reordered', `${first}~${third}~${second}`],
    ['leave one out', `${first}~${third}`],
    ['begin with a later one', `${second}~${third}`],
    ['repeat one', `${first}~${second}~${second}`],
    ['begin twice', `${first}~${first}`],
    ['begin with a link of another chain', `${issue()}~${second}`],
    ['end with a link of another chain', `${first}~${shrink(issue()).split('~')[1]}`],
    ['follow the same parent, issued again', `${issue()}~${second}~${third}`],
  ])('are refused when they %s', async (_title, token) => {
    expect(await refusalOf(() => verify(token))).toMatch(
      /^InvalidBearerToken (Header|Depth|Parent) \d$/,
    );
  });

  it('cannot be replaced by one of the same holder with another parent', async () => {
    const wide = shrink(one, { holder: subJobKey.publicKey }).split('~')[1];
    expect(await refusalOf(() => verify(`${first}~${wide}~${third}`))).toBe(invalid('Parent', 2));
  });

  it('cut short give a wider link only to whom proves the key that it is bound to', async () => {
    const bearer = shrink(three, { key: jobKey });
    expect((await verify(bearer)).boundKey).toBeUndefined();
    for (const [cut, holder] of [
      [three, jobKey],
      [two, subJobKey],
      [one, jobKey],
    ] as const) {
      expect((await verify(cut)).boundKey?.thumbprint).toBe(holder.publicKey.thumbprint);
    }
  });

  it.each(['', '~', `${first}~`, `~${first}`, `${first}~~${second}`])(
    'are never empty: %j',
    async (token) => {
      expect(await refusalOf(() => verify(token))).toMatch(/^InvalidBearerToken Malformed \d$/);
    },
  );
});

describe('the size of a token', () => {
  it.each([
    ['of ten thousand links', Array.from({ length: 10_000 }, () => 'a.b.c').join('~')],
    ['of a megabyte', 'a'.repeat(1_000_000)],
    ['of a megabyte in one claim', `${encode({ sub: 'x'.repeat(750_000) })}.e30.AA`],
  ])('%s is refused before anything is read', async (_title, token) => {
    const findIssuerKey = () => {
      throw new Error('was asked');
    };
    expect(await refusalOf(() => verify(token, { findIssuerKey }))).toBe(invalid('TooLarge'));
  });

  it('of nine links is too much, however short they are', async () => {
    const token = Array.from({ length: 9 }, () => 'a.b.c').join('~');
    expect(await refusalOf(() => verify(token))).toBe(invalid('TooLarge'));
  });

  it('of one link is bounded', async () => {
    const token = `${'a'.repeat(8200)}.b.c`;
    expect(await refusalOf(() => verify(token))).toBe(invalid('TooLarge', 0));
  });

  it('is never made too large', async () => {
    const scope = parseScope(
      Array.from({ length: 40 }, (_, i) => `storage.read:/b/${'x'.repeat(90)}${i}`).join(' '),
    );
    const token = shrink(issue({ scope }), { holder: jobKey.publicKey });
    expect(await refusalOf(() => shrink(token))).toBe(invalid('TooLarge'));
  });
});

describe('the text of a link', () => {
  const [header, body, signature] = issue().split('.') as [string, string, string];
  const json = Buffer.from(body, 'base64url').toString();

  /** A link whose claims are exactly this text, with an honest signature. */
  function signedText(text: string): string {
    const placeholder = forgeLast(issue(), gatewayKey, {});
    const head = placeholder.split('.')[0] as string;
    return `${head}.${Buffer.from(text).toString('base64url')}.${signature}`;
  }

  it.each([
    ['a claim twice', json.replace('{', '{"sub":"cms/admin",')],
    ['a claim twice, once escaped', json.replace('{', '{"\\u0073ub":"cms/admin",')],
    ['a member of a member twice', json.replace('"kty":', '"kty":"OKP","kty":')],
    ['text after the claims', `${json} x`],
    ['an array', `[${json}]`],
    ['nothing', 'null'],
    ['a byte order mark', `\ufeff${json}`],
    ['a trailing comma', json.replace(/}$/, ',}')],
  ])('that has %s is refused', async (_title, text) => {
    expect(text).not.toBe(json);
    expect(await refusalOf(() => verify(signedText(text)))).toBe(invalid('Malformed', 0));
  });

  it('that repeats a header is refused', async () => {
    const text = Buffer.from(header, 'base64url').toString().replace('{', '{"alg":"none",');
    const token = `${encode(text)}.${body}.${signature}`;
    expect(await refusalOf(() => verify(token))).toBe(invalid('Malformed', 0));
  });

  it('that is not UTF-8 is refused', async () => {
    const bytes = Buffer.from(json.replace('cms/alice', 'cms/alic\u00e9'), 'latin1');
    const token = `${header}.${bytes.toString('base64url')}.${signature}`;
    expect(await refusalOf(() => verify(token))).toBe(invalid('Malformed', 0));
  });

  it.each([
    ['padding', `${header}.${body}.${signature}==`],
    ['stray bits at the end', `${header}.${body}.${strayBits(signature)}`],
    ['the other alphabet', `${header}.${body}.${signature.slice(0, -1)}+`],
    ['a space', `${header}.${body}. ${signature}`],
    ['a line end', `${header}.${body}.${signature}\n`],
    ['two parts', `${header}.${body}`],
    ['four parts', `${header}.${body}.${signature}.${signature}`],
  ])('that has %s is refused', async (_title, token) => {
    expect(await refusalOf(() => verify(token))).toBe(invalid('Malformed', 0));
  });
});

/** 64 bytes are 86 characters, the last of which has four bits to spare. */
function strayBits(signature: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = alphabet.indexOf(signature.at(-1) as string);
  return signature.slice(0, -1) + alphabet[last ^ 1];
}
