// The vectors beside docs/formats/token.md, which another program made from the page alone.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type IssuerClaim, verifyChain } from '#bursar/authz/tokens/chain.js';
import { verifyKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { type PrivateKey, readPrivateKey } from '#bursar/authz/tokens/keys.js';
import { verifyProof } from '#bursar/authz/tokens/proof.js';
import type { RequestDescription } from '#bursar/authz/tokens/request-description.js';
import { renderScope } from '#bursar/authz/tokens/scope.js';
import { refusalOf } from './fixture.ts';

interface ProofCase extends RequestDescription {
  name: string;
  token: string;
  boundTo: string;
  reason: string | null;
}

interface Vectors {
  now: number;
  audience: string;
  keys: Record<string, { jwk: object; thumbprint: string }>;
  valid: {
    name: string;
    token: string;
    subject: string;
    scope: string;
    depth: number;
    expires: number;
    boundTo: string | null;
    ids: string[];
    hash: string;
  }[];
  invalid: { name: string; reason: string; token: string }[];
  proofs: ProofCase[];
  keyProof: { jwk: object; audience: string; principal: string; proof: string };
}

const path = new URL('../../../docs/formats/token-vectors.json', import.meta.url);
const vectors = JSON.parse(readFileSync(path, 'utf8')) as Vectors;
const nowMs = vectors.now * 1000;
const { audience } = vectors;

function keyOf(name: string): PrivateKey {
  return readPrivateKey(JSON.stringify(vectors.keys[name]?.jwk)) as PrivateKey;
}

function findIssuerKey({ keyId, thumbprint }: IssuerClaim) {
  if (keyId === vectors.keys.gateway?.thumbprint) return { key: keyOf('gateway').publicKey };
  if (thumbprint !== vectors.keys.alice?.thumbprint) return undefined;
  return { key: keyOf('alice').publicKey, principal: 'cms/alice' };
}

function verify(token: string) {
  return verifyChain(token, { findIssuerKey, audience, nowMs });
}

describe('the keys of the vectors', () => {
  it.each(Object.entries(vectors.keys))('have their thumbprints: %s', (name, { thumbprint }) => {
    expect(keyOf(name).publicKey.thumbprint).toBe(thumbprint);
  });
});

describe('a valid token', () => {
  it.each(vectors.valid)('is taken for what it says: $name', async (expected) => {
    const chain = await verify(expected.token);
    expect({
      subject: chain.subject,
      scope: renderScope(chain.scope),
      depth: chain.depth,
      expires: chain.expiresAtMs / 1000,
      boundTo: chain.boundKey?.thumbprint ?? null,
      ids: chain.ids,
      hash: chain.hash,
    }).toEqual({
      subject: expected.subject,
      scope: expected.scope,
      depth: expected.depth,
      expires: expected.expires,
      boundTo: expected.boundTo && vectors.keys[expected.boundTo]?.thumbprint,
      ids: expected.ids,
      hash: expected.hash,
    });
  });
});

describe('an invalid token', () => {
  it.each(vectors.invalid)('is refused for its fault: $name', async ({ token, reason }) => {
    const [code, fault] = (await refusalOf(() => verify(token))).split(' ');
    expect(fault).toBe(reason);
    expect(code).toBe(reason === 'Expired' ? 'ExpiredBearerToken' : 'InvalidBearerToken');
  });
});

describe('a proof', () => {
  async function verifyWith({ token, boundTo, ...request }: ProofCase) {
    const { hash } = await verify(token);
    return verifyProof(request, { key: keyOf(boundTo).publicKey, tokenHash: hash, nowMs });
  }

  it.each(vectors.proofs.filter(({ reason }) => reason === null))(
    'is taken: $name',
    async (one) => {
      expect((await verifyWith(one)).nonce).toBe('n-0123456789');
    },
  );

  it.each(vectors.proofs.filter(({ reason }) => reason !== null))(
    'is refused: $name',
    async (one) => {
      expect(await refusalOf(() => verifyWith(one))).toBe(`InvalidProof ${one.reason}`);
    },
  );

  it('of a key enrols it', () => {
    const { jwk, proof, principal } = vectors.keyProof;
    const key = verifyKeyProof(proof, jwk, { audience, principal, nowMs });
    expect(key.thumbprint).toBe(vectors.keys.alice?.thumbprint);
  });
});
