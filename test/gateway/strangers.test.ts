// What a bucket of another tenant tells strangers: nothing, whatever they ask for, not even whether
// it is there.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  exchange,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
  targetOf,
} from '../protocol/target.ts';

let target: Target;
let stranger: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'atlas' });
  stranger = as(target, await newPrincipal(target, { tenant: 'atlas' }));
  const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
  expect((await send(target, { method: 'PUT', path: '/kept', headers })).status).toBe(200);
  expect((await send(target, { method: 'PUT', path: '/kept/k', body: 'x' })).status).toBe(200);
}, 60_000);

afterAll(() => target?.stop(), 60_000);

interface Asked {
  method: string;
  key: string;
  query: Record<string, string>;
  body?: string;
  headers?: Record<string, string>;
}

const id = 'f'.repeat(32);
const one = '<Object><Key>k</Key></Object>';

const documents: Record<string, string> = {
  acl: '',
  cors: '<CORSConfiguration/>',
  lifecycle: '<LifecycleConfiguration/>',
  'object-lock': '<ObjectLockConfiguration/>',
  ownershipControls: '<OwnershipControls/>',
  policy: '{}',
  publicAccessBlock: '<PublicAccessBlockConfiguration/>',
  tagging: '<Tagging><TagSet/></Tagging>',
  versioning: '<VersioningConfiguration/>',
};

const ofBuckets: Asked[] = [
  ...['', 'location', 'policyStatus', 'uploads', 'versions', ...Object.keys(documents)].map(
    (name) => ({ method: 'GET', key: '', query: name === '' ? {} : { [name]: '' } }),
  ),
  ...Object.entries(documents).flatMap(([name, body]) => [
    { method: 'PUT', key: '', query: { [name]: '' }, body },
    { method: 'PUT', key: '', query: { [name]: '' }, body: '<' },
  ]),
  ...['', 'cors', 'lifecycle', 'ownershipControls', 'policy', 'publicAccessBlock', 'tagging'].map(
    (name) => ({ method: 'DELETE', key: '', query: name === '' ? {} : { [name]: '' } }),
  ),
  { method: 'HEAD', key: '', query: {} },
  { method: 'PUT', key: '', query: {} },
  ...['', `<VersionId>${id}</VersionId>`, '<VersionId>none</VersionId>'].map((version) => ({
    ...{ method: 'POST', key: '', query: { delete: '' } },
    body: `<Delete>${one.replace('</Object>', `${version}</Object>`)}</Delete>`,
  })),
];

const ids = [id, 'null', 'none'];
const versions: Record<string, string>[] = [{}, ...ids.map((versionId) => ({ versionId }))];

const ofObjects: Asked[] = versions.flatMap((version) => [
  ...['GET', 'HEAD', 'DELETE'].map((method) => ({ method, key: '/k', query: version })),
  ...['acl', 'legal-hold', 'retention', 'tagging', 'attributes'].map((name) => ({
    ...{ method: 'GET', key: '/k', query: { [name]: '', ...version } },
    headers: { 'x-amz-object-attributes': 'ETag' },
  })),
  ...Object.entries({
    ...{ acl: '', tagging: documents.tagging, retention: '<Retention/>' },
    'legal-hold': '<LegalHold><Status>ON</Status></LegalHold>',
  }).map(([name, body]) => ({
    ...{ method: 'PUT', key: '/k', query: { [name]: '', ...version }, body: body ?? '' },
    headers: name === 'acl' ? { 'x-amz-acl': 'private' } : {},
  })),
  { method: 'DELETE', key: '/k', query: { tagging: '', ...version } },
]);

const writeHeaders: Record<string, string>[] = [
  {},
  { 'x-amz-tagging': 'a=b' },
  { 'x-amz-object-lock-legal-hold': 'ON' },
  { 'if-match': '*' },
];
const ofWrites: Asked[] = writeHeaders.map((headers) => ({
  ...{ method: 'PUT', key: '/k', query: {}, body: 'x', headers },
}));

function ask(who: Target | null, bucket: string, asked: Asked): Promise<Answer> {
  const { method, key, query, body = '' } = asked;
  const digest = createHash('md5').update(body).digest('base64');
  const headers = { ...asked.headers, ...(body !== '' && { 'content-md5': digest }) };
  const message = { method, path: `/${bucket}${key}`, query: Object.entries(query), headers, body };
  if (who) return send(who, message);
  const length = { 'content-length': String(body.length) };
  return exchange(
    target,
    method,
    targetOf(message.path, message.query),
    { ...headers, ...length },
    body,
  );
}

/** All that an answer tells, but for what names the request. */
function told({ status, code, headers }: Answer): unknown {
  const names = Object.keys(headers).filter((name) => name !== 'x-bursar-receipt');
  return { status, code, names: names.sort() };
}

it.each([
  ['who belongs to another tenant', () => stranger],
  ['who has no credentials', () => null],
])('%s is denied each operation as if there were no bucket', async (_title, who) => {
  for (const asked of [...ofBuckets, ...ofObjects, ...ofWrites]) {
    const there = await ask(who(), 'default:kept', asked);
    const missing = await ask(who(), 'default:none', asked);
    expect([asked, told(there)]).toEqual([asked, told(missing)]);
    expect([asked, there.status]).toEqual([asked, 403]);
  }
});

it('a copy tells nothing of its source either', async () => {
  expect((await send(stranger, { method: 'PUT', path: '/mine' })).status).toBe(200);
  for (const version of ['', '?versionId=null', `?versionId=${id}`]) {
    const copy = (source: string) => {
      const headers = { 'x-amz-copy-source': `default:${source}${version}` };
      return send(stranger, { method: 'PUT', path: '/mine/k', headers });
    };
    const there = await copy('kept/k');
    const noKey = await copy('kept/none');
    const missing = await copy('none/k');
    expect(told(there)).toMatchObject({ status: 403, code: 'AccessDenied' });
    expect([told(noKey), told(missing)]).toEqual([told(there), told(there)]);
  }
});

it('a bucket that has its reads recorded first does not tell so by receipts', async () => {
  const recordReads = 'strict';
  await callNative(target, 'PATCH', '/_/v1/tenants/default/buckets/kept', { recordReads });
  for (const who of [stranger, null]) {
    const refused = await ask(who, 'default:kept', { method: 'GET', key: '/k', query: {} });
    expect([refused.status, refused.headers['x-bursar-receipt']]).toEqual([403, undefined]);
  }
  const read = await send(target, { method: 'GET', path: '/kept/k' });
  expect(read.headers['x-bursar-receipt']).toMatch(/^\d+$/);
});
