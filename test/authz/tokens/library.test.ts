// The library as programs of others use it: `bursar/tokens`, without a gateway.
import { generateKeyPairSync } from 'node:crypto';
import * as library from 'bursar/tokens';
import { compactVerify, importJWK } from 'jose';
import { describe, expect, it } from 'vitest';
import { RecentTokens } from '#bursar/authz/recent-tokens.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { type RecentChains, VerifiedChains } from '#bursar/authz/tokens/verified-chains.js';
import {
  aliceKey,
  audience,
  chainOf,
  findIssuerKey,
  forgeLast,
  gatewayKey,
  hour,
  issue,
  jobKey,
  now,
  refusalOf,
  shrink,
  strangerKey,
  subJobKey,
} from './fixture.ts';

const { parseScope } = library;

describe('the library', () => {
  it('issues, shrinks, inspects, verifies and proves', async () => {
    const key = library.generatePrivateKey('EdDSA');
    const { token } = library.issue({
      key,
      subject: 'cms/alice',
      audience,
      scope: parseScope('storage.read:/raw'),
      expiresAtMs: now + hour,
      holder: jobKey.publicKey,
      nowMs: now,
    });
    const scope = parseScope('storage.read:/raw/2026');
    const shrunk = library.delegate(token, { key: jobKey, scope, nowMs: now });
    expect(library.inspect(shrunk.token, { nowMs: now }).state).toBe('usable');
    const findIssuerKey = () => ({ key: key.publicKey, principal: 'cms/alice' });
    const options = { findIssuerKey, audience, nowMs: now };
    const chain = await library.verify(shrunk.token, options);
    expect(chain.ids.at(-1)).toBe(shrunk.id);
    const request = { method: 'GET', url: `${audience}/raw/x`, headers: {} };
    const proof = library.createProof(request, { key: jobKey, token, nowMs: now });
    expect(Object.keys(proof).sort()).toEqual(['authorization', 'signature', 'signature-input']);
  });

  it("writes links that another's library verifies", async () => {
    const token = shrink(issue({ key: aliceKey, gateway: undefined }));
    const signers = [aliceKey, jobKey];
    for (const [i, link] of token.split('~').entries()) {
      const { jwk, algorithm } = (signers[i] as library.PrivateKey).publicKey;
      const { payload } = await compactVerify(link, await importJWK(jwk, algorithm));
      expect(JSON.parse(Buffer.from(payload).toString())).toMatchObject({ del_depth: i });
    }
  });

  it.each(['jwk', 'pem'] as const)('reads the private keys that it writes as %s', (format) => {
    for (const key of [jobKey, subJobKey]) {
      const text = library.renderPrivateKey(key, format);
      expect(library.readPrivateKey(text)?.publicKey.thumbprint).toBe(key.publicKey.thumbprint);
    }
    expect(library.readPrivateKey('nothing')).toBeUndefined();
    expect(library.readPrivateKey('{"kty":"oct","k":"AAAA"}')).toBeUndefined();
  });

  it('takes no key of another curve', () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-384' });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    expect(library.readPrivateKey(String(pem))).toBeUndefined();
    expect(library.readPublicKey({ kty: 'EC', crv: 'P-384', x: 'AA', y: 'AA' })).toBeUndefined();
    expect(library.readPublicKey(jobKey.keyObject.export({ format: 'jwk' }))).toBeUndefined();
  });
});

describe('shrinking', () => {
  it.each([
    ['a wider scope', { scope: parseScope('storage.read:/') }],
    ['another right', { scope: parseScope('storage.modify:/raw') }],
    ['a later end', { expiresAtMs: now + 13 * hour }],
    ['deeper links', { holder: subJobKey.publicKey, depthMax: 9 }],
    ['a key that is not the holder', { key: strangerKey }],
  ])('to %s is refused on the spot', async (_title, request) => {
    const refusal = await refusalOf(() => shrink(issue({ depthMax: 3 }), request));
    expect(refusal).toMatch(/^InvalidBearerToken (Widened|Depth|Parent) 1$/);
  });

  it('without a wish gives all, to bearers, and no further', async () => {
    const chain = await library.verify(shrink(issue()), { findIssuerKey, audience, nowMs: now });
    expect(chain).toMatchObject({ boundKey: undefined, expiresAtMs: now + 12 * hour });
    expect(chain.links.at(-1)?.depthMax).toBe(1);
  });

  it("on a machine whose clock is behind the parent's is taken", async () => {
    const token = shrink(issue(), { nowMs: now - hour });
    const chain = await library.verify(token, { findIssuerKey, audience, nowMs: now });
    expect(chain.links[1]?.issuedAtMs).toBe(now);
  });

  it('a chain that was tampered with is refused', async () => {
    const forged = forgeLast(shrink(issue(), { holder: jobKey.publicKey }), strangerKey, {});
    expect(await refusalOf(() => shrink(forged))).toBe('InvalidBearerToken Signature 1');
  });
});

describe('inspecting', () => {
  const token = shrink(issue({ limits: { spend: { month: '5' } } }), {
    scope: parseScope('storage.read:/raw/2026/'),
    expiresAtMs: now + hour,
    conditions: { networks: ['10.0.0.0/8'] },
  });

  function words(text: string, issuerKeys: library.PublicKey[] = []): string {
    const report = library.inspect(text, { nowMs: now, issuerKeys });
    return library.describeReport(report).join('\n');
  }

  it('says who signed each link, what it narrows and what remains', () => {
    const text = words(token, [gatewayKey.publicKey]);
    expect(text).toContain(`signed by the gateway ${audience} (the signature is right)`);
    expect(text).toContain(`signed by the key ${jobKey.publicKey.thumbprint}`);
    expect(text).toContain('narrows: may only read and list below raw/2026/; from 2026-11-21T12');
    const remains = text.slice(text.indexOf('What remains'));
    expect(remains).toContain('until 2026-11-21T13:00:00.000Z');
    expect(remains).toContain('only from 10.0.0.0/8 (link 1)');
    expect(remains).toContain('at most 5 USD per month (link 0)');
    expect(remains).toContain('whoever bears it may use it');
  });

  it('says what it did not check', () => {
    expect(words(token)).toContain("not checked: the signer's key is not at hand");
    const [link] = library.inspect(token, { nowMs: now, issuerKeys: [aliceKey.publicKey] }).links;
    expect(link?.signature).toBe('unchecked');
  });

  it('shows what is wrong with a token that the gateway would refuse', () => {
    const widened = forgeLast(token, jobKey, { scope: 'storage.modify:/raw' });
    const report = library.inspect(widened, { nowMs: now });
    expect(report.state).toBe('invalid');
    expect(report.links[1]?.fault).toMatch(/wider scope than its parent/);
    expect(words(widened)).toContain('the gateway would refuse it');
    const forged = forgeLast(issue(), strangerKey, {});
    const issuerKeys = [gatewayKey.publicKey];
    expect(library.inspect(forged, { nowMs: now, issuerKeys }).state).toBe('invalid');
  });

  it('tells expired from not yet valid', () => {
    expect(library.inspect(token, { nowMs: now + hour }).state).toBe('expired');
    expect(library.inspect(token, { nowMs: now - 1 }).state).toBe('not-yet-valid');
  });
});

describe('the proof of a key', () => {
  const expected = { audience, principal: 'cms/alice', nowMs: now };
  const { jwk } = aliceKey.publicKey;

  it('enrols the key for whom it was made, for an hour', () => {
    const proof = library.createKeyProof(aliceKey, expected);
    for (const nowMs of [now, now + hour]) {
      const key = library.verifyKeyProof(proof, jwk, { ...expected, nowMs });
      expect(key.thumbprint).toBe(aliceKey.publicKey.thumbprint);
    }
  });

  it.each([
    ['another gateway', { audience: 'https://other.example' }, 'Claims'],
    ['another principal', { principal: 'cms/mallory' }, 'Claims'],
    ['a nonce that it has not', { nonce: 'n' }, 'Claims'],
    ['an access key that it does not name', { accessKeyId: 'AKIA' }, 'Claims'],
    ['two hours later', { nowMs: now + 2 * hour }, 'Time'],
    ['long before', { nowMs: now - hour }, 'Time'],
  ])('is not for %s', async (_title, change, reason) => {
    const proof = library.createKeyProof(aliceKey, expected);
    const refusal = await refusalOf(() =>
      library.verifyKeyProof(proof, jwk, { ...expected, ...change }),
    );
    expect(refusal).toBe(`InvalidProof ${reason}`);
  });

  it('that names an access key enrols the key for that one alone', async () => {
    const accessKeyId = 'AKIAABCDEFGHIJKLMNOP';
    const proof = library.createKeyProof(aliceKey, { ...expected, accessKeyId });
    expect(library.verifyKeyProof(proof, jwk, { ...expected, accessKeyId }).jwk).toEqual(jwk);
    for (const other of [undefined, 'AKIAABCDEFGHIJKLMNOQ']) {
      const refusal = await refusalOf(() =>
        library.verifyKeyProof(proof, jwk, { ...expected, accessKeyId: other }),
      );
      expect(refusal).toBe('InvalidProof Claims');
    }
  });

  it('is not for another key, nor made by one', async () => {
    const proof = library.createKeyProof(aliceKey, expected);
    const forged = library.createKeyProof(strangerKey, expected);
    for (const [text, key] of [
      [proof, subJobKey.publicKey.jwk],
      [forged, jwk],
    ] as const) {
      const refusal = await refusalOf(() => library.verifyKeyProof(text, key, expected));
      expect(refusal).toBe('InvalidProof Signature');
    }
  });

  it('is never taken with a private key in the place of the public one', async () => {
    const proof = library.createKeyProof(aliceKey, expected);
    const whole = aliceKey.keyObject.export({ format: 'jwk' });
    const refusal = await refusalOf(() => library.verifyKeyProof(proof, whole, expected));
    expect(refusal).toBe('InvalidProof Key');
  });

  it('is no token, and no token is one', async () => {
    const token = issue({ key: aliceKey, gateway: undefined });
    const refusal = await refusalOf(() => library.verifyKeyProof(token, jwk, expected));
    expect(refusal).toBe('InvalidProof Header');
  });
});

describe('verified chains', () => {
  function chains(options: { generationBytes?: number; onAsked?: () => void } = {}) {
    let asked = 0;
    const recent: RecentChains = new RecentTokens({ index: 0 }, options.generationBytes);
    const kept = new VerifiedChains({
      recent,
      audience,
      findIssuerKey: async (claim) => {
        asked++;
        options.onAsked?.();
        return findIssuerKey(claim);
      },
    });
    return { kept, recent, asked: () => asked };
  }

  it('are found without asking again, until they expire', async () => {
    const { kept, asked } = chains();
    const token = chainOf(4);
    expect(kept.find(token, now)).toBeUndefined();
    const chain = await kept.verify(token, now);
    expect(kept.find(token, now)).toBe(chain);
    expect(await kept.verify(token, chain.expiresAtMs - 1)).toBe(chain);
    expect(asked()).toBe(1);
    expect(kept.find(token, chain.expiresAtMs)).toBeUndefined();
    expect(await refusalOf(() => kept.verify(token, chain.expiresAtMs))).toMatch(/^Expired/);
  });

  it('are found by the whole text only', async () => {
    const { kept } = chains();
    const token = chainOf(2);
    await kept.verify(token, now);
    expect(kept.find(token.split('~')[0] as string, now)).toBeUndefined();
    expect(kept.find(`${token}=`, now)).toBeUndefined();
  });

  it('are forgotten at once, even those that are being verified', async () => {
    const { kept, recent } = chains({ onAsked: () => recent.clear(1) });
    const token = chainOf(2);
    await kept.verify(token, now);
    expect(kept.find(token, now)).toBeUndefined();
  });

  it('take bounded memory, and the used ones stay', async () => {
    const used = issue();
    const { kept } = chains({ generationBytes: 4 * used.length });
    await kept.verify(used, now);
    const others: string[] = [];
    for (let i = 0; i < 20; i++) {
      const other = issue();
      others.push(other);
      await kept.verify(other, now);
      expect(kept.find(used, now)).toBeDefined();
    }
    const found = others.filter((other) => kept.find(other, now) !== undefined);
    expect(found.length).toBeLessThan(9);
  });

  it('keep no refusal and no refused token', async () => {
    const { kept, asked } = chains();
    const token = forgeLast(issue(), strangerKey, {});
    for (let i = 1; i <= 2; i++) {
      expect(await refusalOf(() => kept.verify(token, now))).toMatch(/Signature/);
      expect(asked()).toBe(i);
    }
  });
});

describe('conditions', () => {
  it.each([
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['10.0.0.0/8', '::ffff:10.0.0.1', true],
    ['192.0.2.7', '192.0.2.7', true],
    ['192.0.2.7', '192.0.2.8', false],
    ['0.0.0.0/0', '203.0.113.9', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['2001:db8::/32', '2001:db8:1::1', true],
    ['2001:db8::/32', '10.0.0.1', false],
    ['10.0.0.0/8', 'unknown', false],
    ['10.0.0.0/8', '', false],
  ])('of %s let in %j: %s', (network, address, expected) => {
    expect(new ChainConditions([{ networks: [network] }]).allowSource(address)).toBe(expected);
  });

  it('of all links hold at once', () => {
    const conditions = new ChainConditions([
      { networks: ['10.0.0.0/8', '192.0.2.0/24'], classes: ['A', 'B'], objectBytesMax: 100 },
      { networks: ['10.1.0.0/16', '203.0.113.0/24'], classes: ['B', 'C'] },
      { objectBytesMax: 1000 },
    ]);
    const sources = ['10.1.2.3', '10.2.2.3', '192.0.2.1', '203.0.113.1'];
    expect(sources.filter((one) => conditions.allowSource(one))).toEqual(['10.1.2.3']);
    expect(['A', 'B', 'C'].filter((one) => conditions.allowClass(one))).toEqual(['B']);
    expect([99, 100, 101].map((size) => conditions.allowSize(size))).toEqual([true, true, false]);
  });

  it('that are none allow all', () => {
    const none = new ChainConditions([]);
    expect(none.allowSource('anything')).toBe(true);
    expect(none.allowClass('any')).toBe(true);
    expect(none.allowSize(Number.MAX_SAFE_INTEGER)).toBe(true);
  });
});
