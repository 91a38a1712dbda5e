// Proofs of the key that a token is bound to: good for one token, one request and two minutes.
import { createHash } from 'node:crypto';
import { CompactSign, calculateJwkThumbprint, compactVerify, importJWK } from 'jose';
import { describe, expect, it } from 'vitest';
import { hashToken } from '#bursar/authz/tokens/chain.js';
import { signJws } from '#bursar/authz/tokens/jws.js';
import { generatePrivateKey, type PrivateKey, signBytes } from '#bursar/authz/tokens/keys.js';
import { NonceStore } from '#bursar/authz/tokens/nonce-store.js';
import { createProof, type ProofRequest, verifyProof } from '#bursar/authz/tokens/proof.js';
import { type RequestDescription, targetUri } from '#bursar/authz/tokens/request-description.js';
import { Refusal } from '#bursar/core/errors.js';
import { jobKey, now, refusalOf, strangerKey, subJobKey } from './fixture.ts';

const token = 'a.b.c~d.e.f';
const url = 'https://s3.example.org/raw/2026/a%20b?partNumber=1&uploadId=x%2Fy';
const body = Buffer.from('hello');
const contentSha256 = createHash('sha256').update(body).digest();

const put: RequestDescription = {
  method: 'PUT',
  url,
  headers: { host: 's3.example.org', 'x-amz-meta-a': ' b  c ', 'if-none-match': '*' },
  hasBody: true,
};
const get: RequestDescription = { ...put, method: 'GET', hasBody: false };

/** The request as it would be sent with its proof. */
function proven(
  request: RequestDescription,
  given: Partial<ProofRequest> = {},
): RequestDescription {
  const sha256 = request.hasBody ? { contentSha256 } : {};
  const added = createProof(request, { key: jobKey, token, nowMs: now, ...sha256, ...given });
  return { ...request, headers: { ...request.headers, ...added } };
}

function check(request: RequestDescription, given: { key?: PrivateKey; nowMs?: number } = {}) {
  const { publicKey } = given.key ?? jobKey;
  const nowMs = given.nowMs ?? now;
  return verifyProof(request, { key: publicKey, tokenHash: hashToken(token), nowMs });
}

function withHeaders(request: RequestDescription, headers: RequestDescription['headers']) {
  return { ...request, headers: { ...request.headers, ...headers } };
}

const invalid = (reason: string) => `InvalidProof ${reason}`;

describe('a proof', () => {
  it.each([
    ['message-signature', 'EdDSA', 'body-signed'],
    ['message-signature', 'ES256', 'body-signed'],
    ['dpop', 'EdDSA', 'headers-signed'],
    ['dpop', 'ES256', 'headers-signed'],
  ] as const)('by %s with %s is taken, and is %s', async (kind, algorithm, evidence) => {
    const key = generatePrivateKey(algorithm);
    for (const request of [put, get]) {
      const proof = await check(proven(request, { kind, key }), { key });
      expect(proof).toMatchObject({ kind, evidence, createdMs: now });
      const isSigned = kind === 'message-signature' && request.hasBody;
      expect(proof.contentSha256).toEqual(isSigned ? contentSha256 : undefined);
    }
  });

  it('is needed: a bound token alone is not enough', async () => {
    const bare = withHeaders(get, { authorization: `Bearer ${token}` });
    expect(await refusalOf(() => check(bare))).toBe(invalid('Missing'));
  });

  it('is not two', async () => {
    const both = withHeaders(proven(get), { dpop: proven(get, { kind: 'dpop' }).headers.dpop });
    expect(await refusalOf(() => check(both))).toBe(invalid('Malformed'));
  });

  it.each(['message-signature', 'dpop'] as const)(
    'by %s is good for two minutes, either way',
    async (kind) => {
      const request = proven(get, { kind });
      for (const nowMs of [now - 120_000, now + 120_000]) {
        expect((await check(request, { nowMs })).createdMs).toBe(now);
      }
      for (const nowMs of [now - 121_000, now + 121_000]) {
        expect(await refusalOf(() => check(request, { nowMs }))).toBe(invalid('Time'));
      }
    },
  );

  it.each(['message-signature', 'dpop'] as const)(
    'by %s of another key is refused',
    async (kind) => {
      for (const key of [strangerKey, subJobKey]) {
        const request = proven(get, { kind, key });
        expect(await refusalOf(() => check(request))).toBe(invalid('Key'));
      }
    },
  );

  it.each([
    ['message-signature', 'method', { method: 'DELETE' }, 'Signature'],
    ['dpop', 'method', { method: 'DELETE' }, 'Request'],
    ['message-signature', 'path', { url: url.replace('2026', '2027') }, 'Signature'],
    ['dpop', 'path', { url: url.replace('2026', '2027') }, 'Request'],
    ['message-signature', 'host', { url: url.replace('.org', '.com') }, 'Signature'],
    ['dpop', 'host', { url: url.replace('.org', '.com') }, 'Request'],
    ['message-signature', 'scheme', { url: url.replace('https', 'http') }, 'Signature'],
    ['dpop', 'scheme', { url: url.replace('https', 'http') }, 'Request'],
    ['message-signature', 'port', { url: url.replace('.org', '.org:444') }, 'Signature'],
    ['dpop', 'port', { url: url.replace('.org', '.org:444') }, 'Request'],
    ['message-signature', 'query', { url: url.replace('Number=1', 'Number=2') }, 'Signature'],
    ['message-signature', 'encoding', { url: url.replace('%2F', '/') }, 'Signature'],
    ['dpop', 'encoding', { url: url.replace('a%20b', 'a+b') }, 'Request'],
  ] as const)('by %s is not for another %s', async (kind, _what, change, reason) => {
    const request = { ...proven(put, { kind }), ...change };
    expect(await refusalOf(() => check(request))).toBe(invalid(reason));
  });

  it('by DPoP does not cover the query: it is the weaker one', async () => {
    const request = { ...proven(put, { kind: 'dpop' }), url: url.replace('Number=1', 'Number=2') };
    expect((await check(request)).evidence).toBe('headers-signed');
  });

  it.each(['message-signature', 'dpop'] as const)(
    'by %s is not for another token',
    async (kind) => {
      const request = proven(get, { kind, token: 'x.y.z' });
      const swapped = withHeaders(request, { authorization: `Bearer ${token}` });
      const reason = kind === 'dpop' ? 'Token' : 'Signature';
      expect(await refusalOf(() => check(swapped))).toBe(invalid(reason));
    },
  );

  it('is of the URL that both ends mean, however they write scheme, host and port', async () => {
    expect(targetUri('HTTPS://S3.Example.org:443/A?b')).toBe('https://s3.example.org/A?b');
    expect(targetUri('http://[::1]:80')).toBe('http://[::1]/');
    expect(targetUri('http://a:443/')).toBe('http://a:443/');
    expect(targetUri('https://a?b')).toBe('https://a/?b');
    const request = { ...proven(put), url: url.replace('s3.example.org', 'S3.EXAMPLE.ORG:443') };
    expect((await check(request)).kind).toBe('message-signature');
  });

  it.each(['/raw/x', 'ftp://a/b', 'https://u@a/b', 'https://a/b#c', 'https://a/ b', 'https:///b'])(
    'is never of %s, which is no absolute URL of HTTP',
    async (wrong) => {
      expect(targetUri(wrong)).toBeUndefined();
      expect(await refusalOf(() => proven({ ...get, url: wrong }))).toBe(invalid('Request'));
    },
  );
});

describe('a message signature', () => {
  it('covers the body: another digest is another request', async () => {
    const other = `sha-256=:${createHash('sha256').update('other').digest('base64')}:`;
    const request = withHeaders(proven(put), { 'content-digest': other });
    expect(await refusalOf(() => check(request))).toBe(invalid('Signature'));
  });

  it('that covers no body is not for a request with one', async () => {
    const request = { ...proven({ ...put, hasBody: false }), hasBody: true };
    expect(await refusalOf(() => check(request))).toBe(invalid('Uncovered'));
  });

  const zeros = `sha-256=:${Buffer.alloc(32).toString('base64')}:`;

  it.each(['sha-512=:AAAA:', 'sha-256=:AAAA:', 'sha-256=AAAA', '', `${zeros}, ${zeros}`])(
    'covers one SHA-256, not %j',
    async (digest) => {
      const given = withHeaders({ ...put, hasBody: false }, { 'content-digest': digest });
      const request = signedByHand(given, ['@method', '@target-uri', 'content-digest']);
      expect(await refusalOf(() => check(request))).toBe(invalid('Digest'));
    },
  );

  it.each(['x-amz-copy-source', 'x-amz-acl', 'x-bursar-anything'])(
    'covers %s: a request that gained it is refused',
    async (name) => {
      const request = withHeaders(proven(put), { [name]: '/secret/key' });
      expect(await refusalOf(() => check(request))).toBe(invalid('Uncovered'));
    },
  );

  it('is not of a request that lost or changed a header', async () => {
    const lost = withHeaders(proven(put), { 'x-amz-meta-a': undefined });
    expect(await refusalOf(() => check(lost))).toBe(invalid('Request'));
    const changed = withHeaders(proven(put), { 'x-amz-meta-a': 'b c' });
    expect(await refusalOf(() => check(changed))).toBe(invalid('Signature'));
  });

  /** A request with a signature over just these components, made here and not by the library. */
  function signedByHand(
    request: RequestDescription,
    components: readonly string[],
    parameters = `;created=${now / 1000};keyid="${jobKey.publicKey.thumbprint}";nonce="12345678"`,
    key = jobKey,
  ): RequestDescription {
    const headers: RequestDescription['headers'] = {
      ...request.headers,
      authorization: `Bearer ${token}`,
      'x-amz-meta-a': undefined,
    };
    const covered = components.includes('authorization')
      ? components
      : [...components, 'authorization'];
    const value: Record<string, unknown> = {
      '@method': request.method,
      '@target-uri': request.url,
      ...headers,
    };
    const params = `(${covered.map((name) => `"${name}"`).join(' ')})${parameters}`;
    const lines = covered.map((name) => `"${name}": ${String(value[name])}`);
    const base = [...lines, `"@signature-params": ${params}`].join('\n');
    const signature = signBytes(key, Buffer.from(base)).toString('base64');
    const signed = { 'signature-input': `s=${params}`, signature: `s=:${signature}:` };
    return { ...request, headers: { ...headers, ...signed } };
  }

  const all = ['@method', '@target-uri'];
  const keyid = `;keyid="${jobKey.publicKey.thumbprint}"`;
  const created = `;created=${now / 1000}`;
  const nonce = ';nonce="12345678"';

  it('made by others is taken, in any order and with the parameters of RFC 9421', async () => {
    const order = ['if-none-match', '@target-uri', 'host', '@method'];
    const parameters = `${nonce};alg="ed25519"${keyid};tag="x"${created}`;
    expect((await check(signedByHand(get, order, parameters))).nonce).toBe('12345678');
  });

  it.each([
    ['no method', ['@target-uri'], created + keyid + nonce, 'Uncovered'],
    ['no target', ['@method', '@path'], created + keyid + nonce, 'Uncovered'],
    [
      'a component twice',
      ['@method', '@method', '@target-uri'],
      created + keyid + nonce,
      'Malformed',
    ],
    ['a component that is not there', [...all, 'date'], created + keyid + nonce, 'Request'],
    [
      'a derived component that is not known',
      [...all, '@status'],
      created + keyid + nonce,
      'Request',
    ],
    ['no time', all, keyid + nonce, 'Malformed'],
    ['no key', all, created + nonce, 'Key'],
    ['no nonce', all, created + keyid, 'Malformed'],
    ['a short nonce', all, `${created}${keyid};nonce="1234567"`, 'Claims'],
    ['a long nonce', all, `${created}${keyid};nonce="${'1'.repeat(65)}"`, 'Claims'],
    ['an algorithm of another key', all, `${created + keyid + nonce};alg="hmac-sha256"`, 'Header'],
    ['a parameter twice', all, `${created + keyid + nonce};created=1`, 'Malformed'],
    ['an unknown parameter', all, `${created + keyid + nonce};sf="1"`, 'Malformed'],
    ['an escape', all, `${created + keyid};nonce="1234567\\"8"`, 'Malformed'],
    ['a time that is no number', all, `;created="${now / 1000}x"${keyid}${nonce}`, 'Malformed'],
  ])('with %s is refused', async (_title, components, parameters, reason) => {
    const request = signedByHand(get, components, parameters);
    expect(await refusalOf(() => check(request))).toBe(invalid(reason));
  });

  it('that does not cover the token is refused', async () => {
    const request = proven(get);
    const uncovered = String(request.headers['signature-input']).replace(' "authorization"', '');
    const changed = withHeaders(request, { 'signature-input': uncovered });
    expect(await refusalOf(() => check(changed))).toBe(invalid('Uncovered'));
  });

  it.each([
    ['two signatures', (text: string) => `${text}, other=("@method")`],
    ['a parameter of a component', (text: string) => text.replace('"@method"', '"@method";req')],
    ['no label', (text: string) => text.replace('bursar=', '')],
    ['ten thousand components', () => `s=(${'"a" '.repeat(10_000)})`],
  ])('with %s is refused', async (_title, change) => {
    const request = proven(get);
    const text = change(String(request.headers['signature-input']));
    const refusal = await refusalOf(() => check(withHeaders(request, { 'signature-input': text })));
    expect(refusal).toMatch(/^InvalidProof (Malformed|TooLarge)$/);
  });

  it.each(['', 'bursar=::', 'other=:AAAA:', 'bursar=AAAA', undefined])(
    'is never %j',
    async (signature) => {
      const request = withHeaders(proven(get), { signature });
      expect(await refusalOf(() => check(request))).toMatch(/^InvalidProof (Malformed|Signature)$/);
    },
  );
});

describe('a DPoP proof', () => {
  const claims = {
    jti: 'nonce-1234',
    htm: 'GET',
    htu: 'https://s3.example.org/raw/2026/a%20b',
    iat: now / 1000,
    ath: hashToken(token),
  };

  function sent(dpop: string): RequestDescription {
    return withHeaders(get, { authorization: `DPoP ${token}`, dpop });
  }

  function signed(change: object = {}, members: object = { jwk: jobKey.publicKey.jwk }): string {
    return signJws(jobKey, {
      type: 'dpop+jwt',
      members: { ...members },
      claims: { ...claims, ...change },
    });
  }

  it("by another's library is taken, and ours by theirs", async () => {
    const { jwk } = jobKey.publicKey;
    const theirs = await new CompactSign(Buffer.from(JSON.stringify(claims)))
      .setProtectedHeader({ typ: 'dpop+jwt', alg: 'EdDSA', jwk })
      .sign(jobKey.keyObject);
    expect((await check(sent(theirs))).nonce).toBe('nonce-1234');
    const ours = String(proven(get, { kind: 'dpop' }).headers.dpop);
    const { protectedHeader } = await compactVerify(ours, await importJWK(jwk, 'EdDSA'));
    expect(protectedHeader.jwk).toEqual(jwk);
    expect(await calculateJwkThumbprint(jwk)).toBe(jobKey.publicKey.thumbprint);
  });

  it.each([
    ['no method', { htm: undefined }, 'Request'],
    ['no URL', { htu: undefined }, 'Request'],
    ['a URL with the query', { htu: url }, 'Request'],
    ['no token', { ath: undefined }, 'Token'],
    ['no time', { iat: undefined }, 'Claims'],
    ['a time in text', { iat: String(now / 1000) }, 'Claims'],
    ['no jti', { jti: undefined }, 'Claims'],
    ['a jti of one character', { jti: 'x' }, 'Claims'],
  ])('with %s is refused', async (_title, change, reason) => {
    expect(await refusalOf(() => check(sent(signed(change))))).toBe(invalid(reason));
  });

  it.each([
    ['no key', {}],
    ['a private key', { jwk: jobKey.keyObject.export({ format: 'jwk' }) }],
    ['the key of another', { jwk: strangerKey.publicKey.jwk }],
    ['the key and more', { jwk: { ...jobKey.publicKey.jwk, kid: 'x' } }],
  ])('with %s in its header is refused', async (_title, members) => {
    expect(await refusalOf(() => check(sent(signed({}, members))))).toBe(invalid('Key'));
  });

  it('of another type or with another header is refused', async () => {
    const typed = signJws(jobKey, {
      type: 'JWT',
      members: { jwk: jobKey.publicKey.jwk },
      claims,
    });
    expect(await refusalOf(() => check(sent(typed)))).toBe(invalid('Header'));
    const kid = signed({}, { jwk: jobKey.publicKey.jwk, kid: 'x' });
    expect(await refusalOf(() => check(sent(kid)))).toBe(invalid('Header'));
  });

  it('signed by another key than its own is refused', async () => {
    const forged = signJws(strangerKey, {
      type: 'dpop+jwt',
      members: { jwk: jobKey.publicKey.jwk },
      claims,
    });
    expect(await refusalOf(() => check(sent(forged)))).toBe(invalid('Signature'));
  });
});

describe('the store of nonces', () => {
  const used = { owner: 'cms/alice', key: 'k', nonce: '12345678', createdMs: now };
  const windowMs = 1000;

  it('refuses a nonce for as long as its proof could be taken', async () => {
    for (const createdMs of [now - 1000, now, now + 1000]) {
      const store = new NonceStore({ windowMs });
      store.use({ ...used, createdMs }, now);
      for (let atMs = now; atMs <= createdMs + windowMs; atMs += 100) {
        const refusal = await refusalOf(() => store.use({ ...used, createdMs }, atMs));
        expect(refusal).toBe(invalid('Replayed'));
      }
      const late = createdMs + windowMs + 1;
      expect(await refusalOf(() => store.use({ ...used, createdMs }, late))).toBe(invalid('Time'));
    }
  });

  it('lets each key choose its nonces', () => {
    const store = new NonceStore();
    store.use(used, now);
    store.use({ ...used, key: 'other' }, now);
    expect(store.count).toBe(2);
  });

  function fill(store: NonceStore, owner: string, count: number): number {
    for (let i = 0; i < count; i++) {
      try {
        store.use({ ...used, owner, nonce: `nonce-${i}` }, now);
      } catch (error) {
        expect((error as Refusal).code).toBe('SlowDown');
        return i;
      }
    }
    return count;
  }

  it('when full refuses new proofs and forgets no old one', async () => {
    const store = new NonceStore({ countMax: 10, ownerCountMax: 10 });
    expect(fill(store, 'cms/alice', 20)).toBe(10);
    expect(() => store.use({ ...used, owner: 'cms/bob' }, now)).toThrow(Refusal);
    const again = { ...used, nonce: 'nonce-0' };
    expect(await refusalOf(() => store.use(again, now))).toBe(invalid('Replayed'));
    expect(store.count).toBe(10);
  });

  it('that one owner filled has room for the others', () => {
    const store = new NonceStore({ countMax: 10, ownerCountMax: 6 });
    expect(fill(store, 'cms/alice', 20)).toBe(6);
    expect(fill(store, 'cms/bob', 3)).toBe(3);
  });

  it('has room again when the window is over', () => {
    const store = new NonceStore({ windowMs, countMax: 10, ownerCountMax: 10 });
    expect(fill(store, 'cms/alice', 20)).toBe(10);
    const later = now + 3 * windowMs;
    store.use({ ...used, createdMs: later }, later);
    expect(store.count).toBe(1);
  });
});
