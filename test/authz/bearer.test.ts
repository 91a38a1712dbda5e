// What a token lets a request be, without HTTP: under which URL it was signed, whose token it is,
// and how long a chain that was verified is believed.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SignedRequest } from '#bursar/authz/authenticate.js';
import { BearerTokens } from '#bursar/authz/bearer.js';
import type { Actor } from '#bursar/authz/identity.js';
import { RecentTokens } from '#bursar/authz/recent-tokens.js';
import { TokenKeys } from '#bursar/authz/token-keys.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { createProof, type ProofRequest } from '#bursar/authz/tokens/proof.js';
import type { RecentChains } from '#bursar/authz/tokens/verified-chains.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { schema } from '#bursar/ledger/schema.js';
import { alice, request } from './requests.ts';
import {
  aliceKey,
  audience,
  chainOf,
  encode,
  hour,
  issue,
  jobKey,
  now,
  refusalOf,
} from './tokens/fixture.ts';

const keys = new TokenKeys(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 1) }]));
const actor: Actor = { principal: { ...alice, tenant: 'cms', id: 'cms/alice' }, subjects: [] };

let db: OpenDatabase;
let tokens: BearerTokens;
let recent: RecentChains;
let actors: Map<string, Actor>;
/** Texts that were taken for tokens of outside issuers. */
let outside: string[];
let seen: string[];

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 256 });
  db.exec(schema);
  await db.tx.run("INSERT INTO tenants (name, created_ms) VALUES ('cms', 0)");
  const columns = '(tenant, name, kind, role, created_ms)';
  await db.tx.run(`INSERT INTO principals ${columns} VALUES ('cms', 'alice', 'p', 'member', 0)`);
  const { thumbprint, jwk } = aliceKey.publicKey;
  await db.tx.run(
    "INSERT INTO public_keys VALUES (?, 'cms', 'alice', ?, 'token', '', 0, 1, 7)",
    ...[thumbprint, JSON.stringify(jwk)],
  );
  actors = new Map([[actor.principal.id, actor]]);
  outside = [];
  seen = [];
  tokens = bearerTokens();
});
afterEach(() => db.close());

const outsideDelegation = {
  ids: ['oidc.cms.sso.1'],
  scope: null,
  conditions: new ChainConditions([]),
  accounts: [],
  policies: [],
  expiresAtMs: now + hour,
};

function bearerTokens(nowMs = now): BearerTokens {
  recent = new RecentTokens({ index: 0 });
  return new BearerTokens({
    read: db.tx,
    directory: { findActor: async (id) => actors.get(id) },
    keys,
    recent,
    outside: {
      authenticate: async (text) => {
        outside.push(text);
        return { actor, delegation: outsideDelegation };
      },
    },
    publicUrl: () => audience,
    onSeen: (links) => seen.push(...links.map(({ id }) => id)),
    nowMs: () => nowMs,
  });
}

const host = new URL(audience).host;

function get(headers: Record<string, string> = {}, target = '/raw/a'): SignedRequest {
  return request('GET', target, Object.entries({ host, ...headers }));
}

/** By Alice herself, for whoever holds the job's key. */
const ofAlice = () => issue({ key: aliceKey, gateway: undefined });
const bearerOfAlice = () => issue({ key: aliceKey, gateway: undefined, holder: undefined });

test('a proof that was made before a restart writes nothing after it', async () => {
  const put = (by: BearerTokens, nowMs: number) => {
    const token = ofAlice();
    const asked = { method: 'PUT', url: `${audience}/raw/a`, headers: {} };
    const headers = { host, ...createProof(asked, { key: jobKey, token, nowMs }) };
    const sent = request('PUT', '/raw/a', Object.entries(headers));
    return () => by.authenticate(sent, 'Bearer', token);
  };
  const restarted = bearerTokens(now + 1000);
  await expect(put(restarted, now)()).rejects.toMatchObject({ code: 'SlowDown' });
  expect(await put(restarted, now + 1000)()).toMatchObject({ evidence: 'body-signed' });
});

describe('the URL that a proof is for', () => {
  const token = () => ofAlice();
  const provedAt = (url: string, more: Partial<SignedRequest> = {}, asked = {}) => {
    const text = token();
    const given: ProofRequest = { key: jobKey, token: text, nowMs: now, ...asked };
    const headers = { host: new URL(url).host };
    const proof = createProof({ method: 'GET', url, headers }, given);
    const sent = get({ ...headers, ...proof }, new URL(url).pathname + new URL(url).search);
    return tokens.authenticate({ ...sent, ...more }, 'isDpop' in asked ? 'DPoP' : 'Bearer', text);
  };

  test('has the public scheme under the public name, though a proxy ended TLS', async () => {
    const identity = await provedAt(`${audience}/raw/a?b=%2F`);
    expect(identity).toMatchObject({ evidence: 'body-signed', isAnonymous: false });
    expect(identity.keyThumbprint).toBe(jobKey.publicKey.thumbprint);
    expect(identity.authentication).toEqual({
      ...{ type: 'BEARER', version: 'BEARER' },
      signedAtMs: now,
    });
  });

  test('has under other names the scheme that the request came by', async () => {
    await expect(provedAt('http://10.0.0.7:9000/raw/a')).resolves.toBeDefined();
    await expect(provedAt('https://alias.example.org/', { isSecure: true })).resolves.toBeDefined();
    const spoofed = () => provedAt('https://10.0.0.7:9000/raw/a');
    expect(await refusalOf(spoofed)).toBe('InvalidProof Signature');
  });
});

describe('a token', () => {
  test('is a chain of links or of an outside issuer, by its own first header', async () => {
    const known = bearerOfAlice();
    const links = await tokens.authenticate(get(), 'Bearer', known);
    expect(links.delegation?.ids[0]).toMatch(`${aliceKey.publicKey.thumbprint}.`);
    expect(outside).toEqual([]);
    const foreign = `${encode({ typ: 'at+jwt', alg: 'RS256' })}.e30.AAAA`;
    const long = `${'A'.repeat(5000)}.e30.AAAA`;
    // What only ends as a token that was verified is not that token.
    for (const text of [foreign, 'nonsense', '', long, `x${known}`, known.slice(-64)]) {
      const identity = await tokens.authenticate(get(), 'Bearer', text);
      expect(identity.delegation).toBe(outsideDelegation);
      expect(outside.pop()).toBe(text);
    }
    const proof = { 'signature-input': 'a=("@method")' };
    const proved = () => tokens.authenticate(get(proof), 'Bearer', foreign);
    expect(await refusalOf(proved)).toBe('InvalidProof Key');
    const dpop = () => tokens.authenticate(get(), 'dpop', foreign);
    expect(await refusalOf(dpop)).toBe('InvalidProof Key');
  });

  test('of the gateway is signed by a key of its epochs, and names it as its issuer', async () => {
    const own = { key: keys.current, holder: undefined };
    await expect(tokens.authenticate(get(), 'Bearer', issue(own))).resolves.toBeDefined();
    const elsewhere = issue({ ...own, gateway: 'https://other.example.org' });
    const asked = () => tokens.authenticate(get(), 'Bearer', elsewhere);
    expect(await refusalOf(asked)).toBe('InvalidBearerToken Signature 0');
    const strange = () => tokens.authenticate(get(), 'Bearer', chainOf(1));
    expect(await refusalOf(strange)).toBe('InvalidBearerToken Signature 0');
  });

  test('ends with its principal, and with the key that signed it, though verified', async () => {
    const text = bearerOfAlice();
    const ask = () => tokens.authenticate(get(), 'Bearer', text);
    await ask();
    actors.clear();
    expect(await refusalOf(ask)).toBe('InvalidBearerToken Claims');
    actors.set(actor.principal.id, actor);
    await ask();
    await db.tx.run('UPDATE public_keys SET active = 0');
    await ask();
    recent.clear(1);
    expect(await refusalOf(ask)).toBe('InvalidBearerToken Signature 0');
  });

  test('is told of once, when it is first used and not before', async () => {
    const text = ofAlice();
    const bare = () => tokens.authenticate(get(), 'Bearer', text);
    expect(await refusalOf(bare)).toBe('InvalidProof Missing');
    expect(seen).toEqual([]);
    const given = { key: jobKey, token: text, nowMs: now };
    const url = `${audience}/raw/a`;
    const proof = createProof({ method: 'GET', url, headers: { host } }, given);
    for (let i = 0; i < 2; i++) await tokens.authenticate(get(proof), 'Bearer', text);
    expect(seen).toHaveLength(1);
    for (let i = 0; i < 2; i++) await tokens.authenticate(get(), 'Bearer', 'outside');
    expect(seen).toEqual([seen[0], 'oidc.cms.sso.1']);
  });
});

describe('a body that nothing signs', () => {
  const payloadOf = async (word: string) =>
    (await tokens.authenticate(get({ 'x-amz-content-sha256': word }), 'Bearer', bearerOfAlice()))
      .payload;

  test('is still what its sender says, where that needs no signature', async () => {
    expect(await payloadOf('UNSIGNED-PAYLOAD')).toEqual({ kind: 'unsigned' });
    expect(await payloadOf('STREAMING-UNSIGNED-PAYLOAD-TRAILER')).toEqual({
      kind: 'unsigned-chunks',
    });
    expect(await payloadOf('ab'.repeat(32))).toMatchObject({ kind: 'sha256' });
    const signed = payloadOf('STREAMING-AWS4-HMAC-SHA256-PAYLOAD');
    await expect(signed).rejects.toMatchObject({ code: 'NotImplemented' });
  });
});
