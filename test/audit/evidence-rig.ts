// Evidence as the gateway takes it from requests that clients really signed.
import { afterEach, beforeEach } from 'vitest';
import { type Evidence, renderEvidence } from '#bursar/audit/evidence.js';
import { BearerTokens } from '#bursar/authz/bearer.js';
import type { Identity } from '#bursar/authz/identity.js';
import { RecentTokens } from '#bursar/authz/recent-tokens.js';
import { TokenKeys } from '#bursar/authz/token-keys.js';
import { createProof, type ProofRequest } from '#bursar/authz/tokens/proof.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { schema } from '#bursar/ledger/schema.js';
import {
  type AsymmetricRequest,
  asymmetricAuthenticator,
  asymmetricPresigned,
  asymmetricRequest,
} from '../authz/asymmetric.ts';
import { alice, request } from '../authz/requests.ts';
import { aliceKey, audience, issue, jobKey, now, shrink } from '../authz/tokens/fixture.ts';

const keys = new TokenKeys(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 1) }]));
/** Indexes of the records of two enrolments: Alice's, and that of the job which acts for her. */
export const aliceEnrolledAt = 7;
export const jobEnrolledAt = 9;

let db: OpenDatabase;
let tokens: BearerTokens;

export function useRig(): void {
  beforeEach(async () => {
    db = openDatabase(':memory:', { readonly: false, cacheKib: 256 });
    db.exec(schema);
    await db.tx.run("INSERT INTO tenants (name, created_ms) VALUES ('cms', 0)");
    const columns = '(tenant, name, kind, role, created_ms)';
    await db.tx.run(`INSERT INTO principals ${columns} VALUES ('cms', 'alice', 'p', 'member', 0)`);
    await enrol(aliceKey.publicKey, aliceEnrolledAt);
    const principal = { ...alice, tenant: 'cms', id: 'cms/alice' };
    tokens = new BearerTokens({
      read: db.tx,
      directory: { findActor: async () => ({ principal, subjects: [] }) },
      keys,
      recent: new RecentTokens({ index: 0 }),
      outside: { authenticate: () => Promise.reject(new Error('no token of ours')) },
      publicUrl: () => audience,
      nowMs: () => now,
    });
  });
  afterEach(() => db.close());
}

export async function enrol(
  { thumbprint, jwk }: { thumbprint: string; jwk: object },
  seq: number,
): Promise<void> {
  await db.tx.run(
    "INSERT INTO public_keys VALUES (?, 'cms', 'alice', ?, 'token', '', 0, 1, ?)",
    ...[thumbprint, JSON.stringify(jwk), seq],
  );
}

/** A token that Alice made herself, for who holds the job's key. */
export const tokenOfAlice = (more: Parameters<typeof issue>[0] = {}) =>
  issue({ key: aliceKey, gateway: undefined, ...more });
/** One of the gateway's. */
export const tokenOfGateway = (more: Parameters<typeof issue>[0] = {}) =>
  issue({ key: keys.current, ...more });
export { shrink };

export interface Sent extends Partial<ProofRequest> {
  method?: string;
  target?: string;
  headers?: Record<string, string>;
}

/** A request with a token, and with a proof of the job's key unless it is a bearer's. */
export async function bearing(token: string, sent: Sent = {}, isBearer = false): Promise<Identity> {
  const { method = 'GET', target = '/raw/a', headers = {}, ...proof } = sent;
  const given = { host: new URL(audience).host, ...headers };
  const asked = { method, url: `${audience}${target}`, headers: given };
  const added = isBearer ? {} : createProof(asked, { key: jobKey, token, nowMs: now, ...proof });
  const length = proof.contentSha256 ? { 'content-length': '3' } : {};
  const all = Object.entries({ ...given, ...length, ...added });
  const scheme = proof.kind === 'dpop' ? 'DPoP' : 'Bearer';
  return tokens.authenticate(request(method, target, all), scheme, token);
}

/** A request that is signed with SigV4A. */
export async function asymmetric(asked: AsymmetricRequest = {}): Promise<Identity> {
  return (await asymmetricAuthenticator().authenticate(asymmetricRequest(asked))) as Identity;
}

export async function presigned(): Promise<Identity> {
  return (await asymmetricAuthenticator().authenticate(asymmetricPresigned())) as Identity;
}

export function textOf({ signed }: Identity): string {
  if (!signed) throw new Error('there is no evidence');
  return renderEvidence(signed).text;
}

export async function evidenceOf(identity: Promise<Identity> | Identity): Promise<Evidence> {
  return JSON.parse(textOf(await identity)) as Evidence;
}
