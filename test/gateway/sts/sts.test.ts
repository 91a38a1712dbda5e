// Tokens traded for temporary keys, over HTTP, and what attackers make of both.
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { delegate } from '#bursar/authz/tokens/delegate.js';
import { type IssueRequest, issueToken } from '#bursar/authz/tokens/issue.js';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey, type PrivateKey } from '#bursar/authz/tokens/keys.js';
import { createProof } from '#bursar/authz/tokens/proof.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import {
  type Answer,
  as,
  callNative,
  clientOf,
  elementOf,
  exchange,
  type Keys,
  newPrincipal,
  refusalOf,
  region,
  send,
  startEmbeddedTarget,
  type Target,
} from '../../protocol/target.ts';
import { presignUrl } from '../../tooling/presign.ts';

const alices = '/_/v1/tenants/default/principals/alice';
const aliceKey = generatePrivateKey('EdDSA');
const jobKey = generatePrivateKey('ES256');
const day = 24 * 3_600_000;

let target: Target;
let alice: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  alice = as(target, await newPrincipal(target, { name: 'alice' }));
  const s3 = clientOf(alice);
  await s3.send(new CreateBucketCommand({ Bucket: 'raw' }));
  for (const Key of ['2025/a', '2026/a', '2026/b']) {
    await s3.send(new PutObjectCommand({ Bucket: 'raw', Key, Body: Key }));
  }
  await enrol(aliceKey, alice);
});

afterAll(() => target?.stop());

async function enrol(key: PrivateKey, who: Target): Promise<void> {
  const asked = { audience: target.endpoint, principal: 'default/alice', nowMs: Date.now() };
  const enrolment = { jwk: key.publicKey.jwk, proof: createKeyProof(key, asked) };
  await callNative(who, 'POST', `${alices}/public-keys`, enrolment);
}

/** A token of alice's, made by herself. */
function issue(given: Partial<IssueRequest> = {}): { token: string; id: string } {
  const nowMs = Date.now();
  return issueToken({
    key: aliceKey,
    subject: 'default/alice',
    audience: target.endpoint,
    scope: parseScope('storage.read:/raw/2026 storage.create:/raw/2026'),
    expiresAtMs: nowMs + day,
    nowMs,
    ...given,
  });
}

type Form = Record<string, string>;

function formOf(token: string, more: Form = {}): string {
  return new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: 'arn:aws:iam::default:role/any',
    RoleSessionName: 'job-1',
    WebIdentityToken: token,
    ...more,
  }).toString();
}

function post(body: string, headers: Record<string, string> = {}): Promise<Answer> {
  const type = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
  return exchange(target, 'POST', '/', { ...type, ...headers }, body);
}

const trade = (token: string, more: Form = {}) => post(formOf(token, more));

interface TemporaryKeys extends Keys {
  sessionToken: string;
}

function keysOf(answer: Answer): TemporaryKeys {
  expect(answer.text).toContain('<AssumeRoleWithWebIdentityResult>');
  expect(answer.status).toBe(200);
  const [accessKeyId = '', secretAccessKey = '', sessionToken = ''] = [
    ...['AccessKeyId', 'SecretAccessKey', 'SessionToken'],
  ].map((name) => elementOf(answer.text, name));
  return { accessKeyId, secretAccessKey, sessionToken };
}

async function clientWith(token: string, more: Form = {}): Promise<S3Client> {
  return clientOf(as(target, keysOf(await trade(token, more))));
}

const read = (s3: S3Client, Key: string) => s3.send(new GetObjectCommand({ Bucket: 'raw', Key }));
const write = (s3: S3Client, Key: string) =>
  s3.send(new PutObjectCommand({ Bucket: 'raw', Key, Body: 'new' }));

const denied = { code: 'AccessDenied', status: 403 };

function refused(answer: Answer, status: number, code: string): void {
  expect(answer.text).toContain(
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">',
  );
  expect(answer).toMatchObject({ status, code });
}

describe('temporary keys', () => {
  test('are given in the words of AWS, read, write and list what the token covers', async () => {
    const { token, id } = issue();
    const answer = await trade(token);
    expect(answer.headers['content-type']).toBe('text/xml');
    const keys = keysOf(answer);
    const expiration = elementOf(answer.text, 'Expiration') ?? '';
    expect(expiration).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const { accessKeyId, secretAccessKey, sessionToken } = keys;
    const { endpoint } = target;
    expect(answer.text).toBe(
      '<?xml version="1.0" encoding="UTF-8"?>\n<AssumeRoleWithWebIdentityResponse ' +
        'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>' +
        `<Audience>${endpoint}</Audience>` +
        '<AssumedRoleUser><AssumedRoleId>default/alice:job-1</AssumedRoleId>' +
        '<Arn>arn:aws:sts::default:assumed-role/any/job-1</Arn></AssumedRoleUser>' +
        `<Provider>urn:ietf:params:oauth:jwk-thumbprint:sha-256:${aliceKey.publicKey.thumbprint}` +
        `</Provider><Credentials><AccessKeyId>${accessKeyId}</AccessKeyId>` +
        `<SecretAccessKey>${secretAccessKey}</SecretAccessKey>` +
        `<SessionToken>${sessionToken}</SessionToken><Expiration>${expiration}</Expiration>` +
        '</Credentials><SubjectFromWebIdentityToken>default/alice</SubjectFromWebIdentityToken>' +
        '</AssumeRoleWithWebIdentityResult><ResponseMetadata>' +
        `<RequestId>${elementOf(answer.text, 'RequestId')}</RequestId></ResponseMetadata>` +
        '</AssumeRoleWithWebIdentityResponse>',
    );
    const s3 = clientOf(as(target, keys));
    expect(await (await read(s3, '2026/a')).Body?.transformToString()).toBe('2026/a');
    const list = (Prefix: string) => s3.send(new ListObjectsV2Command({ Bucket: 'raw', Prefix }));
    expect((await list('2026/')).KeyCount).toBeGreaterThanOrEqual(2);
    await write(s3, '2026/new');
    expect(await refusalOf(write(s3, '2026/a'))).toEqual(denied);
    expect(await refusalOf(read(s3, '2025/a'))).toEqual(denied);
    expect(await refusalOf(list(''))).toEqual(denied);
    expect(await refusalOf(s3.send(new CreateBucketCommand({ Bucket: 'more' })))).toEqual(denied);

    const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['action', 'sts:AssumeRoleWithWebIdentity'],
    ]);
    expect(records.at(-1) ?? records[0]).toMatchObject({
      ...{ tenant: 'default', principal: 'alice', tokens: [id], evidence: 'shared-secret' },
      ...{ target: `temporary-keys/${accessKeyId}/job-1`, status: 200 },
    });
    const used = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['principal', 'alice'],
      ['action', 's3:GetObject'],
    ]);
    expect(used.records).toContainEqual(
      expect.objectContaining({ accessKeyId, tokens: [id], key: '2026/a', status: 200 }),
    );
  });

  test('never outlive the token', async () => {
    const expiresAtMs = Math.floor(Date.now() / 1000) * 1000 + 60_000;
    const { token } = issue({ expiresAtMs });
    const answer = await trade(token, { DurationSeconds: '43200' });
    expect(Date.parse(elementOf(answer.text, 'Expiration') ?? '')).toBe(expiresAtMs);
  });

  test('with a session policy do less, and one that is wider gives nothing more', async () => {
    const policyOf = (Action: string, Resource: string) => ({
      Policy: JSON.stringify({
        Version: '2012-10-17',
        Statement: [{ Effect: 'Allow', Action, Resource }],
      }),
    });
    const { token } = issue();
    const narrow = await clientWith(token, policyOf('s3:GetObject', 'arn:aws:s3:::raw/2026/b'));
    expect((await read(narrow, '2026/b')).ContentLength).toBe(6);
    expect(await refusalOf(read(narrow, '2026/a'))).toEqual(denied);
    expect(await refusalOf(write(narrow, '2026/other'))).toEqual(denied);
    const wide = await clientWith(token, policyOf('*', '*'));
    expect((await read(wide, '2026/a')).ContentLength).toBe(6);
    expect(await refusalOf(read(wide, '2025/a'))).toEqual(denied);
    refused(await trade(token, { Policy: '{}' }), 400, 'MalformedPolicyDocument');
  });

  test('are used only from where every link of the token allows', async () => {
    const { token } = issue({ conditions: { networks: ['198.51.100.0/24'] } });
    refused(await trade(token), 403, 'AccessDenied');
  });

  test('need their session token, signed, unaltered, and their own', async () => {
    const [one, other] = [keysOf(await trade(issue().token)), keysOf(await trade(issue().token))];
    const ask = async (keys: Partial<TemporaryKeys>) => {
      const attempt = read(clientOf(as(target, keys as TemporaryKeys)), '2026/a');
      return (await refusalOf(attempt)).code;
    };
    expect(await ask({ ...one, sessionToken: undefined })).toBe('InvalidAccessKeyId');
    expect(await ask({ ...one, sessionToken: other.sessionToken })).toBe('InvalidToken');
    expect(await ask({ ...alice.keys, sessionToken: one.sessionToken })).toBe('InvalidToken');
    expect(await ask({ ...one, secretAccessKey: other.secretAccessKey })).toBe(
      'SignatureDoesNotMatch',
    );
    const altered = `${one.sessionToken.slice(0, -2)}AA`;
    expect(await ask({ ...one, sessionToken: altered })).toBe('InvalidToken');
    const unsigned = await send(as(target, one), { method: 'GET', path: '/raw/2026/a' });
    expect(unsigned).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' });
  });
});

describe('a token that is bound to a key', () => {
  const holder = jobKey.publicKey;

  function proofFor(token: string, body: string, more: object = {}): Record<string, string> {
    const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
    const request = { method: 'POST', url: `${target.endpoint}/`, headers };
    const contentSha256 = createHash('sha256').update(body).digest();
    const nowMs = Date.now();
    return createProof(request, { key: jobKey, token, contentSha256, nowMs, ...more });
  }

  test('is traded with a proof on the request, and that counts once', async () => {
    const { token } = issue({ holder });
    const body = formOf(token);
    const proof = proofFor(token, body);
    const answer = await post(body, proof);
    const s3 = clientOf(as(target, keysOf(answer)));
    expect((await read(s3, '2026/a')).ContentLength).toBe(6);
    refused(await post(body, proof), 401, 'InvalidProof');
    const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['action', 'sts:AssumeRoleWithWebIdentity'],
    ]);
    const { evidence, keyThumbprint } = records.at(-1);
    expect({ evidence, keyThumbprint }).toEqual({
      ...{ evidence: 'body-signed', keyThumbprint: holder.thumbprint },
    });
  });

  test('is traded with DPoP too', async () => {
    const { token } = issue({ holder });
    const body = formOf(token);
    keysOf(await post(body, proofFor(token, body, { kind: 'dpop' })));
  });

  test('is not traded without, or with a proof of another request', async () => {
    const { token } = issue({ holder });
    const body = formOf(token);
    const bare = await post(body);
    refused(bare, 401, 'InvalidProof');
    expect(bare.headers['www-authenticate']).toMatch(/^Bearer .*DPoP /);
    refused(await post(body, { authorization: `Bearer ${token}` }), 401, 'InvalidProof');
    const wider = formOf(token, { DurationSeconds: '43200' });
    refused(await post(wider, proofFor(token, body)), 401, 'InvalidProof');
    const elsewhere = { ...proofFor(token, body), host: 'localhost' };
    refused(await post(body, elsewhere), 401, 'InvalidProof');
    const stranger = proofFor(token, body, { key: generatePrivateKey('ES256') });
    refused(await post(body, stranger), 401, 'InvalidProof');
    const others = issue({ holder }).token;
    refused(await post(body, proofFor(others, body)), 400, 'ValidationError');
  });

  test('gives its holder a smaller one, whose keys are smaller', async () => {
    const { token } = issue({ holder });
    const scope = parseScope('storage.read:/raw/2026/b');
    const smaller = delegate(token, { key: jobKey, scope, nowMs: Date.now() }).token;
    const s3 = await clientWith(smaller);
    expect((await read(s3, '2026/b')).ContentLength).toBe(6);
    expect(await refusalOf(read(s3, '2026/a'))).toEqual(denied);
  });
});

describe('a token of an outside issuer', () => {
  const issuers = '/_/v1/tenants/default/issuers';

  /** Trusts an issuer that has one key; tokens of its `sub` job are alice's, in a group. */
  async function trust(name: string, issuer: string, mapping: object = {}): Promise<void> {
    const body = {
      url: issuer,
      audience: 'bursar',
      mapping: { pathPrefix: '/raw/2026', principals: { job: 'alice' }, ...mapping },
    };
    await callNative(target, 'PUT', `${issuers}/${name}`, body);
  }

  async function openIssuer() {
    const { publicKey, privateKey } = await generateKeyPair('ES256');
    const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }];
    const server: Server = createServer((request, response) => {
      const jwks_uri = `${issuer}/jwks`;
      const answer = request.url === '/jwks' ? { keys } : { issuer, jwks_uri };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
    });
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const sign = (sub: string) =>
      new SignJWT({ scope: 'storage.read:/ openid' })
        .setProtectedHeader({ alg: 'ES256', kid: 'k' })
        .setSubject(sub)
        .setIssuer(issuer)
        .setAudience('bursar')
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey);
    return { issuer, sign, close: () => server.close() };
  }

  test('is traded for what its mapping gives, until that is another', async () => {
    const { issuer, sign, close } = await openIssuer();
    try {
      await trust('keycloak', issuer);
      const answer = await trade(await sign('job'));
      const s3 = clientOf(as(target, keysOf(answer)));
      expect(elementOf(answer.text, 'Provider')).toBe(issuer);
      expect(elementOf(answer.text, 'SubjectFromWebIdentityToken')).toBe('job');
      expect((await read(s3, '2026/a')).ContentLength).toBe(6);
      expect(await refusalOf(read(s3, '2025/a'))).toEqual(denied);
      expect(await refusalOf(write(s3, '2026/more'))).toEqual(denied);
      refused(await trade(await sign('stranger')), 403, 'AccessDenied');
      await trust('keycloak', issuer, { pathPrefix: '/raw/2027' });
      expect(await refusalOf(read(s3, '2026/a'))).toMatchObject({ code: 'InvalidAccessKeyId' });
      const renewed = await clientWith(await sign('job'));
      expect(await refusalOf(read(renewed, '2026/a'))).toEqual(denied);
    } finally {
      close();
    }
  });

  test('whose issuer is down is refused in a way that SDKs try again', async () => {
    const { issuer, sign, close } = await openIssuer();
    close();
    await trust('down', issuer);
    refused(await trade(await sign('job')), 400, 'IDPCommunicationError');
  });
});

describe('refused are', () => {
  test('keys, presigned URLs and trades of a token that was revoked, or its parent', async () => {
    const { token, id } = issue({ holder: jobKey.publicKey });
    const child = delegate(token, { key: jobKey, nowMs: Date.now() }).token;
    const keys = keysOf(await trade(child));
    const s3 = clientOf(as(target, keys));
    expect((await read(s3, '2026/a')).ContentLength).toBe(6);
    const url = presignUrl({
      ...{ method: 'GET', origin: target.endpoint, path: '/raw/2026/a', region },
      query: [['X-Amz-Security-Token', keys.sessionToken]],
      accessKeyId: keys.accessKeyId,
      secret: keys.secretAccessKey,
      expiresSeconds: 3600,
      timeMs: Date.now(),
    });
    const open = () => fetch(url);
    expect((await open()).status).toBe(200);
    await callNative(alice, 'DELETE', `/_/v1/tokens/${id}`);
    expect(await refusalOf(read(s3, '2026/a'))).toEqual(denied);
    expect((await open()).status).toBe(403);
    refused(await trade(child), 403, 'AccessDenied');
  });

  test('keys of a token that an enrolled key signed which is switched off', async () => {
    const key = generatePrivateKey('ES256');
    await enrol(key, alice);
    const s3 = await clientWith(issue({ key }).token);
    await read(s3, '2026/a');
    const path = `${alices}/public-keys/${key.publicKey.thumbprint}`;
    await callNative(alice, 'PATCH', path, { active: false });
    expect(await refusalOf(read(s3, '2026/a'))).toMatchObject({ code: 'InvalidAccessKeyId' });
  });

  test('keys of a principal who is switched off', async () => {
    const s3 = await clientWith(issue().token);
    await read(s3, '2026/a');
    await callNative(target, 'PATCH', alices, { active: false });
    expect(await refusalOf(read(s3, '2026/a'))).toMatchObject({ code: 'InvalidAccessKeyId' });
    refused(await trade(issue().token), 401, 'InvalidIdentityToken');
    await callNative(target, 'PATCH', alices, { active: true });
    expect((await read(s3, '2026/a')).ContentLength).toBe(6);
  });

  test('roles of another tenant, and that is recorded', async () => {
    const { token, id } = issue();
    const more = { RoleArn: 'arn:aws:iam::cms:role/any' };
    refused(await trade(token, more), 403, 'AccessDenied');
    const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['action', 'sts:AssumeRoleWithWebIdentity'],
    ]);
    expect(records.at(-1)).toMatchObject({ tokens: [id], status: 403, error: 'AccessDenied' });
  });

  test('tokens that are not for here, not signed, or over', async () => {
    const past = { nowMs: Date.now() - 2 * day, expiresAtMs: Date.now() - day };
    refused(await trade(issue(past).token), 401, 'ExpiredTokenException');
    const elsewhere = issue({ audience: 'https://other.example.org' });
    refused(await trade(elsewhere.token), 401, 'InvalidIdentityToken');
    const forged = issue({ key: generatePrivateKey('EdDSA') });
    const answer = await trade(forged.token);
    refused(answer, 401, 'InvalidIdentityToken');
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer /);
    refused(await trade('a.b.c'), 401, 'InvalidIdentityToken');
  });

  test('forms that are too long, and other posts are not STS', async () => {
    refused(await trade('a'.repeat(70_000)), 400, 'ValidationError');
    refused(await post('Action=GetCallerIdentity&Version=2011-06-15'), 400, 'InvalidAction');
    const other = await exchange(target, 'POST', '/', { 'content-type': 'text/plain' }, 'x');
    expect(other.text).not.toContain('sts.amazonaws.com');
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const bucket = await exchange(target, 'POST', '/raw', type, 'x');
    expect(bucket.text).not.toContain('sts.amazonaws.com');
    const host = { ...type, host: 'raw.s3.example.test' };
    expect((await exchange(target, 'POST', '/', host, 'x')).text).not.toContain('sts.amazon');
  });
});
