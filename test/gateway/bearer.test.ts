// Tokens in use, over HTTP: what bearers may, what proofs protect, and when it all ends.
import { createHash } from 'node:crypto';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { delegate } from '#bursar/authz/tokens/delegate.js';
import { type IssueRequest, issueToken } from '#bursar/authz/tokens/issue.js';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey, type PrivateKey } from '#bursar/authz/tokens/keys.js';
import { createProof, type ProofRequest } from '#bursar/authz/tokens/proof.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import {
  type Answer,
  as,
  callNative,
  exchange,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

const principals = '/_/v1/tenants/cms/principals';
const hour = 3_600_000;
const aliceKey = generatePrivateKey('EdDSA');
const jobKey = generatePrivateKey('ES256');

let target: Target;
let alice: Target;
let boss: Target;
/** A token, and one below it that is used three times before anything else. */
let used: { token: string; id: string };
let usedBelow: typeof used;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'cms' });
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  boss = as(target, await newPrincipal(target, { tenant: 'cms', name: 'boss', role: 'admin' }));
  await send(alice, { method: 'PUT', path: '/raw' });
  for (const key of ['2025/a', '2026/a']) {
    await send(alice, { method: 'PUT', path: `/raw/${key}`, body: `content of ${key}` });
  }
  await enrol('alice', aliceKey);
  used = issue({ holder: jobKey.publicKey });
  usedBelow = delegate(used.token, { key: jobKey, nowMs: Date.now() });
  for (let i = 0; i < 3; i++) await bear(usedBelow.token, '/raw/2026/a');
});

afterAll(() => target?.stop());

async function enrol(name: string, key: PrivateKey): Promise<void> {
  const asked = { audience: target.endpoint, principal: `cms/${name}`, nowMs: Date.now() };
  const enrolment = { jwk: key.publicKey.jwk, proof: createKeyProof(key, asked) };
  await callNative(boss, 'POST', `${principals}/${name}/public-keys`, enrolment);
}

/** A token of Alice's, made by herself, that whoever has it may use. */
function issue(given: Partial<IssueRequest> = {}): { token: string; id: string } {
  const nowMs = Date.now();
  return issueToken({
    key: aliceKey,
    subject: 'cms/alice',
    audience: target.endpoint,
    scope: parseScope('storage.read:/raw/2026 storage.modify:/raw/out'),
    expiresAtMs: nowMs + hour,
    nowMs,
    ...given,
  });
}

const bound = () => issue({ holder: jobKey.publicKey }).token;

function bear(token: string, path: string, method = 'GET', body?: string): Promise<Answer> {
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  if (body !== undefined) headers['content-length'] = String(body.length);
  return exchange(target, method, path, headers, body);
}

interface Asked {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
}

/** The headers of a request with a token that is bound to the job's key. */
function prove(
  token: string,
  asked: Asked,
  more: Partial<ProofRequest> = {},
): Record<string, string> {
  const { method, path, headers = {}, body } = asked;
  const all: Record<string, string> = { host: new URL(target.endpoint).host, ...headers };
  const proof = createProof(
    { method, url: `${target.endpoint}${path}`, headers: all },
    {
      ...{ key: jobKey, token, nowMs: Date.now() },
      ...(body !== undefined && { contentSha256: createHash('sha256').update(body).digest() }),
      ...more,
    },
  );
  if (body !== undefined) all['content-length'] = String(body.length);
  return { ...all, ...proof };
}

function sendProved(token: string, asked: Asked, more?: Partial<ProofRequest>): Promise<Answer> {
  return exchange(target, asked.method, asked.path, prove(token, asked, more), asked.body);
}

function refused(answer: Answer, status: number, code: string, reason?: string): void {
  expect(answer.text).toContain('<Error>');
  expect(answer).toMatchObject({ status, code });
  if (reason !== undefined) expect(answer.text).toContain(`<Reason>${reason}</Reason>`);
}

describe('a bearer token', () => {
  test('reads and writes what its scope and its principal allow, and nothing else', async () => {
    const { token } = issue();
    expect((await bear(token, '/raw/2026/a')).text).toBe('content of 2026/a');
    expect((await bear(token, '/raw/out/x', 'PUT', 'made')).status).toBe(200);
    refused(await bear(token, '/raw/2025/a'), 403, 'AccessDenied');
    refused(await bear(token, '/raw/2026/a', 'DELETE'), 403, 'AccessDenied');
    // A name like any other, which nothing has.
    refused(await bear(token, '/raw/2026/../2025/a'), 404, 'NoSuchKey');
    refused(await bear(token, '/raw/2026%2F..%2F2025/a'), 404, 'NoSuchKey');
    await callNative(target, 'POST', `${principals}`, { name: 'bob' });
    const bobKey = generatePrivateKey('ES256');
    await enrol('bob', bobKey);
    const bobs = issue({ key: bobKey, subject: 'cms/bob' }).token;
    refused(await bear(bobs, '/raw/2026/a'), 403, 'AccessDenied');
  });

  test('is refused with what a client needs to ask for a better one', async () => {
    for (const path of ['/raw/2026/a', '/_/v1/tokens']) {
      const answer = await bear('no.token.atall', path);
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer .*error="invalid_token"/);
      expect(answer.text).toContain('InvalidBearerToken');
    }
    const late = issue({ nowMs: Date.now() - 2 * hour, expiresAtMs: Date.now() - hour });
    refused(await bear(late.token, '/raw/2026/a'), 401, 'ExpiredBearerToken');
    const other = issue({ audience: 'https://other.example.org' });
    refused(await bear(other.token, '/raw/2026/a'), 401, 'InvalidBearerToken', 'Audience');
  });

  test('is worth no more than its limits', async () => {
    const limited = issue({ limits: { requests: { total: 1 } } });
    expect((await bear(limited.token, '/raw/2026/a')).status).toBe(200);
    refused(await bear(limited.token, '/raw/2026/a'), 403, 'QuotaExceeded');
  });

  test('opens what a key of a customer encrypts with that key alone, as all tokens', async () => {
    const keyed = (letter: string) => {
      const key = Buffer.alloc(32, letter);
      const own = 'x-amz-server-side-encryption-customer-';
      return {
        [`${own}algorithm`]: 'AES256',
        [`${own}key`]: key.toString('base64'),
        [`${own}key-md5`]: createHash('md5').update(key).digest('base64'),
      };
    };
    const path = '/raw/2026/sealed';
    const put = { method: 'PUT', path, headers: keyed('a'), body: 'sealed' };
    expect((await send(alice, put)).status).toBe(200);
    const below = delegate(bound(), {
      ...{ key: jobKey, nowMs: Date.now(), scope: parseScope(`storage.read:${path}`) },
    });
    const reads: ((headers: Record<string, string>) => Promise<Answer>)[] = [
      ...[issue().token, below.token].map((token) => (headers: Record<string, string>) => {
        const authorization = `Bearer ${token}`;
        return exchange(target, 'GET', path, { authorization, ...headers });
      }),
      (headers) => sendProved(bound(), { method: 'GET', path, headers }),
    ];
    for (const read of reads) {
      refused(await read({}), 400, 'InvalidRequest');
      refused(await read(keyed('b')), 403, 'AccessDenied');
      expect((await read(keyed('a'))).text).toBe('sealed');
    }
  });

  test('stands beside no other credentials, and its own proof is none', async () => {
    const { token } = issue();
    const signed = '?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=x';
    expect((await bear(token, `/raw/2026/a${signed}`)).status).toBe(400);
    const asked = { method: 'GET', path: '/raw/2026/a' };
    refused(await sendProved(token, asked), 401, 'InvalidProof', 'Key');
    refused(await sendProved(token, asked, { kind: 'dpop' }), 401, 'InvalidProof', 'Key');
  });

  test('of the gateway verifies with its published keys, also after these rotate', async () => {
    const wanted = { scope: 'storage.read:/raw/2026', maxDepth: 0 };
    const made = await callNative(alice, 'POST', '/_/v1/tokens', wanted);
    const metadata = await fetch(`${target.endpoint}/.well-known/openid-configuration`);
    const { issuer, jwks_uri: url } = (await metadata.json()) as Record<string, string>;
    const options = { issuer, audience: target.endpoint, typ: 'bursar-link+jwt' };
    const verified = await jwtVerify(made.token, createRemoteJWKSet(new URL(url ?? '')), options);
    expect(verified.payload).toMatchObject({ sub: 'cms/alice', jti: made.jti });

    await callNative(target, 'POST', '/_/v1/keys/rotations');
    const later = await callNative(alice, 'POST', '/_/v1/tokens', wanted);
    for (const { token } of [made, later]) {
      expect((await bear(token, '/raw/2026/a')).status).toBe(200);
    }
    const after = await jwtVerify(later.token, createRemoteJWKSet(new URL(url ?? '')), options);
    expect(after.protectedHeader.kid).not.toBe(verified.protectedHeader.kid);
  });
});

describe('a token that is bound to a key', () => {
  const asked: Asked = { method: 'GET', path: '/raw/2026/a?versionId=null' };

  test('is of no use to who only bears it', async () => {
    const answer = await bear(bound(), '/raw/2026/a');
    refused(answer, 401, 'InvalidProof', 'Missing');
    expect(answer.headers['www-authenticate']).toContain('DPoP error="invalid_dpop_proof"');
  });

  test('is used with an HTTP signature or DPoP, and the record says which', async () => {
    const token = bound();
    const proved = await sendProved(token, asked);
    expect(proved.text).toBe('content of 2026/a');
    const dpop = await sendProved(token, { ...asked, path: '/raw/2026/a' }, { kind: 'dpop' });
    expect(dpop.text).toBe('content of 2026/a');
    const body = 'of the job';
    const put = await sendProved(token, { method: 'PUT', path: '/raw/out/y', body });
    expect(put.status).toBe(200);
    const { records } = await vi.waitFor(async () => {
      const found = await callNative(target, 'GET', '/_/v1/records', undefined, [
        ['principal', 'cms/alice'],
        ['limit', '1000'],
      ]);
      // Each thread hands over the records of its own reads.
      const all = JSON.stringify(found);
      for (const { headers } of [proved, dpop, put]) {
        expect(all).toContain(headers['x-amz-request-id']);
      }
      return found;
    }, 20_000);
    const recordOf = ({ headers }: Answer) =>
      records.find((one: { requestId: string }) => one.requestId === headers['x-amz-request-id']);
    const keyThumbprint = jobKey.publicKey.thumbprint;
    expect(recordOf(proved)).toMatchObject({ evidence: 'body-signed', keyThumbprint });
    expect(recordOf(put)).toMatchObject({ evidence: 'body-signed', keyThumbprint });
    expect(recordOf(dpop)).toMatchObject({ evidence: 'headers-signed', keyThumbprint });
    expect(recordOf(put).tokens).toHaveLength(1);
  });

  test('has proofs that are good for no other request', async () => {
    const token = bound();
    const headers = prove(token, asked);
    const replace = (method: string, path: string, more = {}) =>
      exchange(target, method, path, { ...headers, ...more });
    refused(await replace('DELETE', asked.path), 401, 'InvalidProof', 'Signature');
    refused(await replace('GET', '/raw/2026/a'), 401, 'InvalidProof', 'Signature');
    refused(await replace('GET', '/raw/2025/a'), 401, 'InvalidProof', 'Signature');
    const copy = { 'x-amz-copy-source': '/raw/2025/a' };
    refused(await replace('GET', asked.path, copy), 401, 'InvalidProof', 'Uncovered');
    const host = { host: 'localhost' };
    refused(await replace('GET', asked.path, host), 401, 'InvalidProof', 'Signature');
    const stranger = { key: generatePrivateKey('ES256') };
    refused(await sendProved(token, asked, stranger), 401, 'InvalidProof', 'Key');
    const old = { nowMs: Date.now() - hour };
    refused(await sendProved(token, asked, old), 401, 'InvalidProof', 'Time');
    const bearer = { authorization: `Bearer ${token}` };
    const dpop = { ...prove(token, asked, { kind: 'dpop' }), ...bearer };
    refused(await exchange(target, 'GET', asked.path, dpop), 401, 'InvalidProof', 'Header');
  });

  test('writes nothing but the body that was signed, and that once', async () => {
    const token = bound();
    const put: Asked = { method: 'PUT', path: '/raw/out/z', body: 'mine' };
    const headers = prove(token, put);
    const forged = await exchange(target, 'PUT', put.path, headers, 'evil');
    refused(forged, 400, 'XAmzContentSHA256Mismatch');
    expect((await send(alice, { method: 'HEAD', path: put.path })).status).toBe(404);
    refused(
      await exchange(target, 'PUT', put.path, headers, put.body),
      401,
      'InvalidProof',
      'Replayed',
    );
    expect((await sendProved(token, put)).status).toBe(200);
    const { 'content-digest': _, ...bare } = prove(token, { ...put, body: undefined });
    const undigested = { ...bare, 'content-length': '4' };
    refused(
      await exchange(target, 'PUT', put.path, undigested, 'evil'),
      401,
      'InvalidProof',
      'Uncovered',
    );
    const chunked = {
      ...put,
      headers: { 'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER' },
    };
    refused(await sendProved(token, chunked), 400, 'InvalidRequest');
    const dpop = prove(token, put, { kind: 'dpop' });
    expect((await exchange(target, 'PUT', put.path, dpop, put.body)).status).toBe(200);
    const again = await exchange(target, 'PUT', put.path, dpop, put.body);
    refused(again, 401, 'InvalidProof', 'Replayed');
  });
});

describe('the next request is refused', () => {
  const path = '/raw/2026/a';
  const shrink = (token: string) => delegate(token, { key: jobKey, nowMs: Date.now() });

  test('of all that was made from a token that is revoked, and of nothing else', async () => {
    const first = issue({ holder: jobKey.publicKey });
    const [child, sibling] = [shrink(first.token), shrink(first.token)];
    expect((await bear(child.token, path)).status).toBe(200);
    await callNative(alice, 'DELETE', `/_/v1/tokens/${child.id}`);
    refused(await bear(child.token, path), 403, 'AccessDenied');
    expect((await bear(sibling.token, path)).status).toBe(200);
    await callNative(alice, 'DELETE', `/_/v1/tokens/${first.id}`);
    refused(await bear(sibling.token, path), 403, 'AccessDenied');
    refused(await sendProved(first.token, { method: 'GET', path }), 403, 'AccessDenied');
    expect((await bear(issue().token, path)).status).toBe(200);
  });

  test('while its principal, or the key that signed it, is inactive', async () => {
    await callNative(boss, 'POST', principals, { name: 'carol' });
    const carolKey = generatePrivateKey('EdDSA');
    await enrol('carol', carolKey);
    const { token } = issue({ key: carolKey, subject: 'cms/carol' });
    const works = async () => (await bear(token, path)).status !== 401;
    expect(await works()).toBe(true);
    const { thumbprint } = carolKey.publicKey;
    for (const one of [`carol`, `carol/public-keys/${thumbprint}`]) {
      await callNative(boss, 'PATCH', `${principals}/${one}`, { active: false });
      expect(await works()).toBe(false);
      await callNative(boss, 'PATCH', `${principals}/${one}`, { active: true });
      expect(await works()).toBe(true);
    }
    await callNative(boss, 'DELETE', `${principals}/carol/public-keys/${thumbprint}`);
    expect(await works()).toBe(false);
  });

  test('of what was asked for with an access key that is taken away', async () => {
    const keys = await callNative(alice, 'POST', `${principals}/alice/access-keys`, {});
    const wanted = { scope: 'storage.read:/raw/2026' };
    const { token } = await callNative(as(target, keys), 'POST', '/_/v1/tokens', wanted);
    expect((await bear(token, path)).status).toBe(200);
    const key = `${principals}/alice/access-keys/${keys.accessKeyId}`;
    await callNative(alice, 'PATCH', key, { active: false });
    refused(await bear(token, path), 403, 'AccessDenied');
    await callNative(alice, 'PATCH', key, { active: true });
    refused(await bear(token, path), 403, 'AccessDenied');
  });
});

test('who lists tokens sees each link that was used, how often and when', async () => {
  await vi.waitFor(
    async () => {
      const { tokens } = await callNative(alice, 'GET', '/_/v1/tokens', undefined, [
        ['limit', '1000'],
      ]);
      for (const { id } of [used, usedBelow]) {
        const found = tokens.find(({ jti }: { jti: string }) => jti === id);
        expect(found).toMatchObject({ issued: false, uses: 3, lastUsedAt: expect.any(String) });
      }
    },
    { timeout: 20_000, interval: 100 },
  );
});
