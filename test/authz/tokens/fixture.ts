// Keys, honest chains, and a forger who signs whatever they like with the keys they have.
import { expect } from 'vitest';
import { type ChainOptions, type Issuer, verifyChain } from '#bursar/authz/tokens/chain.js';
import { type DelegateRequest, delegate } from '#bursar/authz/tokens/delegate.js';
import { type IssueRequest, issueToken } from '#bursar/authz/tokens/issue.js';
import { signJws } from '#bursar/authz/tokens/jws.js';
import { generatePrivateKey, type PrivateKey } from '#bursar/authz/tokens/keys.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { Refusal } from '#bursar/core/errors.js';

export const audience = 'https://s3.example.org';
export const now = Date.parse('2026-11-21T12:00:00Z');
export const hour = 3_600_000;
export const linkType = 'bursar-link+jwt';

export const gatewayKey = generatePrivateKey('EdDSA');
export const aliceKey = generatePrivateKey('ES256');
export const jobKey = generatePrivateKey('EdDSA');
export const subJobKey = generatePrivateKey('ES256');
export const strangerKey = generatePrivateKey('EdDSA');

/** The gateway's own key, and alice's registered one. */
export function findIssuerKey(claim: { keyId?: string; thumbprint?: string }): Issuer | undefined {
  if (claim.keyId === gatewayKey.publicKey.thumbprint) return { key: gatewayKey.publicKey };
  if (claim.thumbprint === aliceKey.publicKey.thumbprint) {
    return { key: aliceKey.publicKey, principal: 'cms/alice' };
  }
  return undefined;
}

export function verify(token: string, options: Partial<ChainOptions> = {}) {
  return verifyChain(token, { findIssuerKey, audience, nowMs: now, ...options });
}

export function issue(request: Partial<IssueRequest> = {}): string {
  return issueToken({
    key: gatewayKey,
    gateway: audience,
    subject: 'cms/alice',
    audience,
    scope: parseScope('storage.read:/raw storage.modify:/out/alice'),
    expiresAtMs: now + 12 * hour,
    holder: jobKey.publicKey,
    nowMs: now,
    ...request,
  }).token;
}

export function shrink(token: string, request: Partial<DelegateRequest> = {}): string {
  return delegate(token, { key: jobKey, nowMs: now, ...request }).token;
}

/** A chain of `links` links, each but the last bound to a key. */
export function chainOf(links: number): string {
  let token = issue();
  for (let i = 1; i < links; i++) {
    token = shrink(token, { holder: i < links - 1 ? jobKey.publicKey : undefined });
  }
  return token;
}

export type Claims = Record<string, unknown>;

export function claimsOf(link: string): Claims {
  return JSON.parse(Buffer.from(link.split('.')[1] as string, 'base64url').toString()) as Claims;
}

/** The token with its last link's claims changed and signed again with `key`. */
export function forgeLast(
  token: string,
  key: PrivateKey,
  change: Claims,
  header: Claims = {},
): string {
  const links = token.split('~');
  const last = links.pop() as string;
  const {
    typ,
    alg: _alg,
    ...members
  } = JSON.parse(Buffer.from(last.split('.')[0] as string, 'base64url').toString()) as {
    typ: string;
    alg: string;
  };
  const claims = { ...claimsOf(last), ...change };
  const forged = signJws(key, { type: typ, members: { ...members, ...header }, claims });
  return [...links, forged].join('~');
}

/** base64url of a JSON text, which need not be of an object that JavaScript can make. */
export function encode(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return Buffer.from(text).toString('base64url');
}

/** The refusal's code and reason, such as `InvalidBearerToken Widened 1`. */
export async function refusalOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    const { code, status, fields } = error as Refusal;
    expect(status).toBe(401);
    return [code, fields.Reason, fields.Link].filter((part) => part !== undefined).join(' ');
  }
  throw new Error('was not refused');
}
