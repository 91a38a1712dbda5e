// What clients sign with keys of their own, over HTTP: it is in their receipts, with the enrolment
// of the key, and proves the request to who trusts neither end.
import { createHash, sign } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseReceipt } from '#bursar/audit/receipt.js';
import { judgeEvidence } from '#bursar/audit/verify/proven-evidence.js';
import { issueToken } from '#bursar/authz/tokens/issue.js';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey, type PrivateKey } from '#bursar/authz/tokens/keys.js';
import { createProof, type ProofRequest } from '#bursar/authz/tokens/proof.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { canonicalRequest } from '#bursar/core/canonical-request.js';
import { formatAmzDate, stringToSign } from '#bursar/core/sigv4.js';
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

const alices = '/_/v1/tenants/default/principals/alice/public-keys';
const aliceKey = generatePrivateKey('EdDSA');
const jobKey = generatePrivateKey('ES256');
const sigv4aKey = generatePrivateKey('ES256');
const accessKeyId = 'AKIAABCDEFGHIJKLMN45';

let target: Target;
let alice: Target;
let auditor: Target;
/** Of Alice, by her enrolled key, for who holds the job's. */
let token: string;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  alice = as(target, await newPrincipal(target, { name: 'alice' }));
  auditor = as(target, await newPrincipal(target, { name: 'anna', role: 'auditor' }));
  await send(alice, { method: 'PUT', path: '/raw' });
  await enrol(aliceKey);
  await enrol(sigv4aKey, accessKeyId);
  token = issueToken({
    ...{ key: aliceKey, subject: 'default/alice', audience: target.endpoint },
    scope: parseScope('storage.modify:/raw storage.read:/raw'),
    ...{ holder: jobKey.publicKey, nowMs: Date.now(), expiresAtMs: Date.now() + 3_600_000 },
  }).token;
}, 60_000);

afterAll(() => target?.stop());

async function enrol(key: PrivateKey, id?: string): Promise<void> {
  const asked = { audience: target.endpoint, principal: 'default/alice', nowMs: Date.now() };
  const proof = createKeyProof(key, { ...asked, ...(id && { accessKeyId: id }) });
  const sigv4a = id && { purpose: 'sigv4a', accessKeyId: id };
  await callNative(alice, 'POST', alices, { jwk: key.publicKey.jwk, proof, ...sigv4a });
}

type Message = { method: string; path: string; body?: string; headers?: Record<string, string> };

/** With the token, and a proof of the job's key. */
function prove(
  { method, path, body, headers: given = {} }: Message,
  more: Partial<ProofRequest> = {},
): Promise<Answer> {
  const contentSha256 = body === undefined ? undefined : digest(body);
  const url = `${target.endpoint}${path}`;
  const asked = { key: jobKey, token, nowMs: Date.now(), contentSha256, ...more };
  const headers = { ...given, ...createProof({ method, url, headers: given }, asked) };
  return exchange(target, method, path, headers, body);
}

/** Signed with SigV4A. */
function signed({ method, path, body = '', headers: given = {} }: Message): Promise<Answer> {
  const amzDate = formatAmzDate(Date.now());
  const scope = `${amzDate.slice(0, 8)}/s3/aws4_request`;
  const payload = digest(body).toString('hex');
  const headers: Record<string, string> = {
    host: new URL(target.endpoint).host,
    'x-amz-content-sha256': payload,
    'x-amz-date': amzDate,
    'x-amz-region-set': '*',
    ...given,
  };
  const headerNames = Object.keys(headers).sort();
  const headerValues = headerNames.map((name) => headers[name] as string);
  const parts = { method, path, query: [], headerNames, headerValues, payload };
  const algorithm = 'AWS4-ECDSA-P256-SHA256';
  const text = stringToSign(algorithm, amzDate, scope, canonicalRequest(parts));
  const signature = sign('sha256', Buffer.from(text), sigv4aKey.keyObject).toString('hex');
  headers.authorization =
    `${algorithm} Credential=${accessKeyId}/${scope}, ` +
    `SignedHeaders=${headerNames.join(';')}, Signature=${signature}`;
  return exchange(target, method, path, headers, body);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const indexOf = ({ headers }: Answer): number => Number(headers['x-bursar-receipt']);

/** The receipt of a record, with what its evidence proves. */
function judge(answer: Answer) {
  expect(answer.status, answer.text).toBe(200);
  const receipt = parseReceipt(answer.text);
  if (!receipt) throw new Error(`no receipt: ${answer.text}`);
  const record = JSON.parse(receipt.record);
  return { record, evidence: judgeEvidence(record, receipt.evidence) };
}

const receiptBy = (who: Target, index: number) =>
  send(who, { method: 'GET', path: `/_/v1/receipts/${index}` });
const receiptByJob = (index: number) => prove({ method: 'GET', path: `/_/v1/receipts/${index}` });
const receiptBySigv4a = (index: number) =>
  signed({ method: 'GET', path: `/_/v1/receipts/${index}` });

describe('the receipt of a write has what its client signed', () => {
  test('with a message signature, and the link that its key may act by', async () => {
    const put = await prove({ method: 'PUT', path: '/raw/a', body: 'abc' });
    expect(put.status).toBe(200);
    const { record, evidence } = judge(await receiptByJob(indexOf(put)));
    expect(record).toMatchObject({ action: 's3:PutObject', evidence: 'body-signed' });
    expect(evidence).toMatchObject({
      state: 'proven',
      owner: { thumbprint: aliceKey.publicKey.thumbprint },
      verified: {
        kind: 'http-signature',
        thumbprint: jobKey.publicKey.thumbprint,
        request: { method: 'PUT', bodySha256: record.sha256 },
      },
    });
  });

  test('with DPoP', async () => {
    const put = await prove({ method: 'PUT', path: '/raw/d', body: 'abc' }, { kind: 'dpop' });
    expect(put.status).toBe(200);
    const { record, evidence } = judge(await receiptByJob(indexOf(put)));
    expect(record).toMatchObject({ evidence: 'headers-signed' });
    expect(evidence).toMatchObject({ state: 'proven', verified: { kind: 'dpop' } });
  });

  test('with SigV4A', async () => {
    const put = await signed({ method: 'PUT', path: '/raw/s', body: 'abc' });
    expect(put.status).toBe(200);
    const { record, evidence } = judge(await receiptBySigv4a(indexOf(put)));
    expect(record).toMatchObject({ accessKeyId, evidence: 'body-signed' });
    expect(evidence).toMatchObject({
      state: 'proven',
      owner: { thumbprint: sigv4aKey.publicKey.thumbprint },
      verified: { kind: 'sigv4a', request: { method: 'PUT', url: '/raw/s' } },
    });
  });

  test('also of a refused one', async () => {
    const put = await prove({ method: 'PUT', path: '/elsewhere/a', body: 'abc' });
    expect(put.status).toBe(403);
    const { record, evidence } = judge(await receiptByJob(indexOf(put)));
    expect(record).toMatchObject({ error: 'AccessDenied' });
    expect(evidence).toMatchObject({ state: 'proven' });
  });
});

test('the enrolment that evidence names has the key, and the signature of its holder', async () => {
  const put = await signed({ method: 'PUT', path: '/raw/e', body: 'abc' });
  const { evidence } = judge(await receiptBySigv4a(indexOf(put)));
  const owner = 'owner' in evidence ? evidence.owner : null;
  const enrolment = judge(await receiptBy(alice, owner?.enrolledAt ?? -1));
  const { thumbprint, jwk } = sigv4aKey.publicKey;
  expect(enrolment.record).toMatchObject({
    ...{ action: 'bursar:CreatePublicKey', tenant: 'default', principal: 'alice' },
    change: { thumbprint, jwk, purpose: 'sigv4a', accessKeyId },
  });
  expect(enrolment.evidence).toMatchObject({
    state: 'proven',
    verified: { kind: 'key-proof', enrolled: { thumbprint, subject: 'default/alice' } },
  });
});

test('of many objects deleted at once the first record has it, and all name it', async () => {
  const keys = ['m1', 'm2', 'm3'];
  for (const key of keys) await prove({ method: 'PUT', path: `/raw/${key}`, body: key });
  const objects = keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('');
  const body = `<Delete>${objects}</Delete>`;
  const answer = await prove({ method: 'POST', path: '/raw?delete', body });
  expect(answer.text).toContain('<Deleted>');
  const requestId = answer.headers['x-amz-request-id'];
  const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
    ['action', 's3:DeleteObject'],
  ]);
  const own = records.filter((record: { requestId: string }) => record.requestId === requestId);
  expect(own).toHaveLength(3);
  const [first, ...others] = own.sort((a: Indexed, b: Indexed) => a.index - b.index) as Indexed[];
  expect(first).not.toHaveProperty('evidenceAt');
  for (const other of others) expect(other).toMatchObject({ evidenceAt: first?.index });
  for (const { index } of own) {
    const { evidence } = judge(await receiptByJob(index));
    expect(evidence).toMatchObject({ state: 'proven', verified: { request: { method: 'POST' } } });
  }
});

interface Indexed {
  index: number;
}

test('an auditor does not get what could be sent again, and sees that there is more', async () => {
  const put = await signed({ method: 'PUT', path: '/raw/x', body: 'abc' });
  const seen = judge(await receiptBy(auditor, indexOf(put)));
  expect(seen.record.evidenceHash).toMatch(/^[\w-]{43}$/);
  expect(seen.evidence).toEqual({ state: 'missing' });
});

test('a request that is signed with a shared secret has none', async () => {
  const put = await send(alice, { method: 'PUT', path: '/raw/y', body: 'abc' });
  const { record, evidence } = judge(await receiptBy(alice, indexOf(put)));
  expect(record).toMatchObject({ evidence: 'shared-secret' });
  expect(record).not.toHaveProperty('evidenceHash');
  expect(evidence).toEqual({ state: 'none' });
});

test('who trades a token for temporary keys with a proof has signed that', async () => {
  const body = new URLSearchParams({
    ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15' },
    ...{ RoleArn: 'arn:aws:iam::default:role/any', RoleSessionName: 'job' },
    WebIdentityToken: token,
  }).toString();
  const type = 'application/x-www-form-urlencoded';
  const headers = { 'content-type': type };
  const covered = await prove({ method: 'POST', path: '/', body, headers });
  const { record, evidence } = judge(await receiptByJob(indexOf(covered)));
  expect(record).toMatchObject({ action: 'sts:AssumeRoleWithWebIdentity' });
  expect(evidence).toMatchObject({ state: 'proven', verified: { kind: 'http-signature' } });
});

test('who has an object copied learns that, not where to, which is signed', async () => {
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'lender' });
  const keys = await newPrincipal(target, { tenant: 'lender', name: 'owner', role: 'admin' });
  const owner = as(target, keys);
  await send(owner, { method: 'PUT', path: '/lent' });
  await send(owner, { method: 'PUT', path: '/lent/page', body: 'abc' });
  const subjects = ['principal:default/alice'];
  const rule = { effect: 'allow', subjects, actions: ['s3:GetObject'], bucket: 'lent' };
  await callNative(owner, 'PUT', '/_/v1/tenants/lender/grants/friends', rule);
  const headers = { 'x-amz-copy-source': 'lender:lent/page' };
  const copy = await signed({ method: 'PUT', path: '/raw/secret-place', headers });
  expect(copy.status, copy.text).toBe(200);
  const of = judge(await receiptBySigv4a(indexOf(copy)));
  expect(of.evidence).toMatchObject({ state: 'proven', verified: { kind: 'sigv4a' } });
  const asked = [['principal', 'default/alice']] as [string, string][];
  const { records } = await callNative(owner, 'GET', '/_/v1/records', undefined, asked);
  expect(records).toMatchObject([
    { action: 's3:GetObject', key: 'page', requestId: of.record.requestId },
  ]);
  // Also to who may see all that was signed for it.
  const receipt = await receiptBySigv4a(records[0].index);
  const { record, evidence } = judge(receipt);
  expect([record.evidence, evidence]).toEqual(['shared-secret', { state: 'none' }]);
  expect(parseReceipt(receipt.text)?.evidence).toBeNull();
});
