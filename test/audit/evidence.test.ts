// Evidence: what a third party can verify of it, what cannot be altered, and what it never gives
// away.
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  type Evidence,
  evidenceTextBytesMax,
  hashEvidence,
  renderEvidence,
  withheldUntilMs,
} from '#bursar/audit/evidence.js';
import { contradictionOf, type ProvenRecord } from '#bursar/audit/evidence-match.js';
import { type VerifiedEvidence, verifyEvidence } from '#bursar/audit/evidence-verdict.js';
import type { Identity } from '#bursar/authz/identity.js';
import { canonicalize } from '#bursar/core/canonical-json.js';
import { publicKey } from '../authz/asymmetric.ts';
import { exampleMs } from '../authz/requests.ts';
import { aliceKey, jobKey, now, strangerKey, subJobKey } from '../authz/tokens/fixture.ts';
import { fuzz, randomOf } from '../fuzz/seeded-random.ts';
import {
  aliceEnrolledAt,
  asymmetric,
  bearing,
  enrol,
  evidenceOf,
  jobEnrolledAt,
  presigned,
  shrink,
  textOf,
  tokenOfAlice,
  tokenOfGateway,
  useRig,
} from './evidence-rig.ts';

useRig();

const jobThumbprint = jobKey.publicKey.thumbprint;
const sha256 = createHash('sha256').update('abc').digest();

const kinds: Record<string, () => Promise<Identity>> = {
  sigv4a: () => asymmetric({ method: 'PUT', path: '/raw/a b', query: [['x', 'y']] }),
  'a message signature': () =>
    bearing(tokenOfAlice(), { method: 'PUT', target: '/raw/a?b=c', contentSha256: sha256 }),
  'a DPoP proof': () => bearing(tokenOfAlice(), { kind: 'dpop' }),
  'a delegated token': () => {
    const child = shrink(tokenOfAlice(), { holder: subJobKey.publicKey });
    return bearing(child, { key: subJobKey });
  },
  'a bearer link below a bound one': () =>
    bearing(shrink(tokenOfAlice(), { holder: undefined }), {}, true),
};

async function verified(identity: Promise<Identity>): Promise<VerifiedEvidence> {
  const verdict = verifyEvidence(await evidenceOf(identity));
  if (!verdict.ok) throw new Error(verdict.why);
  return verdict;
}

describe('evidence says what was signed, and with whose key', () => {
  test('of a request that is signed with SigV4A', async () => {
    const asked = { method: 'PUT', path: '/raw/ä b', payloadHash: sha256.toString('hex') };
    expect(await verified(asymmetric(asked))).toMatchObject({
      ...{ kind: 'sigv4a', thumbprint: publicKey?.thumbprint, enrolledAt: 3, links: [] },
      covers: expect.arrayContaining(['method', 'path', 'query', 'host', 'body']),
      request: {
        ...{ method: 'PUT', url: '/raw/%C3%A4%20b', bodySha256: sha256.toString('hex') },
        signedAtMs: exampleMs,
      },
    });
  });

  test('of a message signature, and of the link by which its key may act', async () => {
    const sent = { method: 'PUT', target: '/raw/a?b=c', contentSha256: sha256 };
    expect(await verified(bearing(tokenOfAlice(), sent))).toMatchObject({
      ...{ kind: 'http-signature', thumbprint: jobThumbprint, enrolledAt: null },
      covers: ['@method', '@target-uri', 'authorization', 'content-digest'],
      request: {
        ...{ method: 'PUT', url: 'https://s3.example.org/raw/a?b=c', signedAtMs: now },
        bodySha256: sha256.toString('hex'),
      },
      links: [
        {
          ...{ by: 'principal', thumbprint: aliceKey.publicKey.thumbprint },
          ...{ enrolledAt: aliceEnrolledAt, subject: 'cms/alice', boundTo: jobThumbprint },
        },
      ],
    });
  });

  test('of a DPoP proof, which covers no body', async () => {
    expect(await verified(bearing(tokenOfAlice(), { kind: 'dpop' }))).toMatchObject({
      ...{ kind: 'dpop', thumbprint: jobThumbprint },
      covers: ['method', 'url without query', 'token'],
      request: { method: 'GET', url: 'https://s3.example.org/raw/a', bodySha256: null },
    });
  });

  test('of each link of a chain, and of a key that a link names and is enrolled', async () => {
    await enrol(jobKey.publicKey, jobEnrolledAt);
    const child = shrink(tokenOfGateway(), { holder: subJobKey.publicKey });
    const { links, enrolledAt } = await verified(bearing(child, { key: subJobKey }));
    expect(links).toMatchObject([
      { by: 'gateway', enrolledAt: null, boundTo: jobThumbprint },
      { by: 'holder', thumbprint: jobThumbprint, enrolledAt: jobEnrolledAt },
    ]);
    expect(enrolledAt).toBe(null);
  });

  test('is canonical, and its hash is over exactly its text', async () => {
    for (const make of Object.values(kinds)) {
      const { signed } = await make();
      const { text, hash } = renderEvidence(signed as NonNullable<typeof signed>);
      expect(canonicalize(JSON.parse(text))).toBe(text);
      expect(hash).toBe(hashEvidence(text));
      expect(hash).toBe(createHash('sha256').update(text).digest('base64url'));
    }
  });
});

describe('evidence that was altered proves nothing', () => {
  // Only the record's hash of the evidence covers these two; no signature of a client can.
  const unsigned = /"enrolledAt":[0-9]*[^0-9,}]?[0-9]*|"replayableUntil":"[^"]*"?/;
  const step = process.env.BURSAR_FULL === '1' ? 1 : 5;

  test.each(Object.keys(kinds))('at whatever byte: %s', async (name) => {
    const text = textOf(await (kinds[name] as () => Promise<Identity>)());
    expect(verifyEvidence(JSON.parse(text))).toMatchObject({ ok: true });
    const without = stripUnsigned(JSON.parse(text) as Evidence);
    let altered = 0;
    for (let at = 0; at < text.length; at += step) {
      const other = text[at] === 'A' ? 'B' : 'A';
      const changed = parse(`${text.slice(0, at)}${other}${text.slice(at + 1)}`);
      if (changed === undefined) continue;
      altered++;
      const isUnsigned = stripUnsigned(changed as Evidence) === without;
      if (!isUnsigned) expect(verifyEvidence(changed), `at ${at}`).toMatchObject({ ok: false });
    }
    expect(altered).toBeGreaterThan(text.length / step / 2);
    expect(text).toMatch(unsigned);
  });

  function stripUnsigned(evidence: Evidence): string {
    const { replayableUntil: _, parts, ...rest } = evidence;
    if (!Array.isArray(parts)) return canonicalize(evidence);
    return canonicalize({ ...rest, parts: parts.map(({ enrolledAt: _at, ...part }) => part) });
  }

  function parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }

  const swaps: [string, (evidence: Evidence, other: Evidence) => void][] = [
    ['a link left out', ({ parts }) => void parts.splice(0, 1)],
    ['the request before its link', ({ parts }) => void parts.reverse()],
    ['a link twice', ({ parts }) => void parts.unshift(structuredClone(parts[0]) as never)],
    [
      'the link of another token',
      ({ parts }, other) => void parts.splice(0, 1, other.parts[0] as never),
    ],
    [
      'the request of another token',
      ({ parts }, other) => void parts.splice(-1, 1, other.parts.at(-1) as never),
    ],
    ['no part', ({ parts }) => void parts.splice(0)],
    ['a member that nobody knows', (evidence) => void Object.assign(evidence, { more: 1 })],
    [
      'another key with its own thumbprint',
      ({ parts }) => {
        const { jwk, thumbprint } = strangerKey.publicKey;
        Object.assign(parts[0] as object, { jwk, thumbprint });
      },
    ],
  ];

  test.each(swaps)('with %s', async (_what, swap) => {
    const evidence = await evidenceOf(bearing(tokenOfAlice()));
    swap(evidence, await evidenceOf(bearing(tokenOfAlice())));
    expect(verifyEvidence(evidence)).toMatchObject({ ok: false });
  });

  test('in whatever way: no form of it makes the verification fail otherwise', async () => {
    const texts = await Promise.all(Object.values(kinds).map(async (make) => textOf(await make())));
    const junk = [null, 0, -1, 2 ** 53, '', 'A', '\u0100', [], {}, true, 'x'.repeat(70_000)];
    await fuzz(1, 400, (random) => {
      const text = randomOf(random, texts);
      const evidence = JSON.parse(text) as Evidence;
      const part = randomOf(random, evidence.parts) as unknown as Record<string, unknown>;
      const at = randomOf<Record<string, unknown>>(random, [
        ...[evidence as never, part, part.jwk as never],
      ]);
      const name = randomOf(random, [...Object.keys(at), 'signedSha256', 'other']);
      at[name] = randomOf(random, [...junk, undefined]);
      const verdict = verifyEvidence(evidence);
      if (!verdict.ok || canonicalize(evidence) === text) return;
      expect(['enrolledAt', 'replayableUntil', 'canonicalRequest']).toContain(name);
    });
  });

  test('whatever it is instead: a verdict is a value', () => {
    const junk = [null, 1, 'x', [], {}, { v: 1 }, { v: 1, parts: [null] }, { v: 1, parts: [{}] }];
    for (const value of junk) expect(verifyEvidence(value)).toMatchObject({ ok: false });
  });
});

describe('evidence gives nobody what they could act with', () => {
  test('a token that its bearer needs no key for is not in it', async () => {
    const token = shrink(tokenOfAlice(), { holder: undefined });
    const text = textOf(await bearing(token, {}, true));
    const [, signature = ''] = /\.([^.]+)$/.exec(token) ?? [];
    expect(text).not.toContain(signature);
    const { links } = verifyEvidence(JSON.parse(text)) as VerifiedEvidence;
    expect(links).toMatchObject([{ by: 'principal', boundTo: jobThumbprint }]);
  });

  test('nor is there any, where nothing would be left that proves something', async () => {
    for (const token of [
      tokenOfAlice({ holder: undefined }),
      tokenOfGateway({ holder: undefined }),
      shrink(tokenOfGateway(), { holder: undefined }),
    ]) {
      expect((await bearing(token, {}, true)).signed).toBeUndefined();
    }
  });

  test.each([
    ['cookie', 'session=hush'],
    ['x-amz-server-side-encryption-customer-key', 'hush'],
    ['x-amz-copy-source-server-side-encryption-customer-key', 'hush'],
    ['x-amz-security-token', 'hush'],
  ])('a signed header that is a secret is not in it: %s', async (name, value) => {
    const text = textOf(
      await asymmetric({ headers: name === 'x-amz-security-token' ? {} : { [name]: value } }),
    );
    expect(text).not.toContain('hush');
    if (name !== 'x-amz-security-token') {
      // Who signed is still proven, and what as far as its digest goes.
      expect(verifyEvidence(JSON.parse(text))).toMatchObject({
        ok: true,
        request: null,
        covers: [],
      });
    }
    if (name.startsWith('x-amz-')) {
      const proven = textOf(await bearing(tokenOfAlice(), { headers: { [name]: value } }));
      expect(proven).not.toContain('hush');
      expect(verifyEvidence(JSON.parse(proven))).toMatchObject({ ok: false });
    }
  });

  test('nor is one in a query that is signed, where it means nothing and is recorded', async () => {
    for (const name of ['', 'Copy-Source-']) {
      const parameter = `X-Amz-${name}Server-Side-Encryption-Customer-Key`;
      const text = textOf(await asymmetric({ query: [[parameter, 'hush']] }));
      expect(text).not.toContain('hush');
      expect(verifyEvidence(JSON.parse(text))).toMatchObject({ ok: true, request: null });
    }
  });

  test('what could be sent again is shown to its signer alone, until it cannot be', async () => {
    const signed = textOf(await asymmetric());
    const link = textOf(await presigned());
    const proven = textOf(await bearing(tokenOfAlice()));
    const borne = textOf(await bearing(shrink(tokenOfAlice(), { holder: undefined }), {}, true));
    const ask = (text: string, nowMs: number, keyThumbprint: string | null = null) =>
      withheldUntilMs(text, { keyThumbprint, nowMs });
    expect(ask(signed, exampleMs)).toBe(exampleMs + 15 * 60_000);
    expect(ask(signed, exampleMs + 15 * 60_000 + 1)).toBe(null);
    expect(ask(signed, exampleMs, publicKey?.thumbprint)).toBe(null);
    expect(ask(signed, exampleMs, jobThumbprint)).not.toBe(null);
    expect(ask(link, exampleMs)).toBe(exampleMs + 600_000);
    expect(ask(proven, now)).toBe(now + 120_000);
    // Whose link it is signed another part.
    expect(ask(proven, now, aliceKey.publicKey.thumbprint)).not.toBe(null);
    expect(ask(borne, now)).toBe(null);
  });

  test('it is bounded: of what is too large only the digest is kept', async () => {
    const headers = { 'x-amz-meta-long': 'x'.repeat(evidenceTextBytesMax) };
    const text = textOf(await asymmetric({ headers }));
    expect(text.length).toBeLessThan(2000);
    expect(verifyEvidence(JSON.parse(text))).toMatchObject({
      ok: true,
      kind: 'sigv4a',
      request: null,
    });
    const proven = await evidenceOf(bearing(tokenOfAlice(), { headers }));
    expect(JSON.stringify(proven).length).toBeLessThan(4000);
    expect(proven.parts.at(-1)).toMatchObject({ signedSha256: expect.stringMatching(/^.{43}$/) });
  });
});

describe('evidence of one request does not pass as that of another', () => {
  const record: ProvenRecord = {
    ...{ tenant: 'cms', principal: 'alice', action: 's3:PutObject', evidence: 'body-signed' },
    ...{ time: new Date(now + 1000).toISOString(), keyThumbprint: jobThumbprint },
    ...{ key: 'a', bytesIn: 3, size: 3, sha256: sha256.toString('hex') },
  };
  const others: [string, Partial<ProvenRecord>][] = [
    ['of another key', { keyThumbprint: aliceKey.publicKey.thumbprint }],
    ['with another token', { tokens: ['other'] }],
    ['of another principal', { principal: 'bob' }],
    ['of another tenant', { tenant: 'atlas' }],
    ['of another object', { key: 'b' }],
    ['of a part of the name', { key: 'w/a' }],
    ['with another body', { sha256: '00' }],
    ['of the administration', { action: 'bursar:CreateTenant', key: undefined }],
    ['from long before', { time: new Date(now - 3_600_000).toISOString() }],
  ];

  test.each(others)('%s', async (_what, change) => {
    const sent = { method: 'PUT', contentSha256: sha256 };
    const found = await verified(bearing(tokenOfAlice(), sent));
    const own = { ...record, tokens: found.links.map(({ id }) => id) };
    expect(contradictionOf(found, own)).toBe(null);
    expect(contradictionOf(found, { ...own, ...change })).toEqual(expect.any(String));
  });

  test('what is no record has no evidence', async () => {
    const found = await verified(bearing(tokenOfAlice()));
    for (const other of [null, 1, {}, { ...record, tokens: null }, { ...record, key: 1 }]) {
      expect(contradictionOf(found, other)).toContain('form');
    }
  });

  test('what a GET signed is no proof of a write', async () => {
    const found = await verified(bearing(tokenOfAlice()));
    const own = { ...record, tokens: found.links.map(({ id }) => id) };
    expect(contradictionOf(found, { ...own, action: 's3:GetObject' })).toBe(null);
    expect(contradictionOf(found, { ...own, action: 's3:DeleteObject' })).toContain('GET');
  });

  test('links alone do not make a request signed', async () => {
    const found = await verified(bearing(shrink(tokenOfAlice(), { holder: undefined }), {}, true));
    const tokens = [...found.links.map(({ id }) => id), 'the bearer link'];
    expect(contradictionOf(found, { ...record, tokens, evidence: 'shared-secret' })).toBe(null);
    expect(contradictionOf(found, { ...record, tokens })).toContain('not signed');
  });
});
