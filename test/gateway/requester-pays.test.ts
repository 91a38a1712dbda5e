// A bucket whose requesters pay: who reads it from another tenant says so, and is charged alone.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  exchange,
  newPrincipal,
  region,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';
import { presignUrl } from '../tooling/presign.ts';

let target: Target;
/** The owner of the bucket `data` of the tenant cms, and a member of dune whom a grant lets in. */
let alice: Target;
let eve: Target;

const payer = { 'x-amz-request-payer': 'requester' };
const denied = [403, 'AccessDenied'];

const configuration = (who: string) =>
  `<RequestPaymentConfiguration><Payer>${who}</Payer></RequestPaymentConfiguration>`;
const setPayer = (who: string, by = alice, path = '/data') =>
  send(by, {
    ...{ method: 'PUT', path, query: [['requestPayment', '']], body: configuration(who) },
  });
const read = (headers = {}, method = 'GET') => send(eve, { method, path: '/cms:data/k', headers });

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'dune']) {
    await callNative(target, 'POST', '/_/v1/tenants', { name });
  }
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  eve = as(target, await newPrincipal(target, { tenant: 'dune', name: 'eve' }));
  await send(alice, { method: 'PUT', path: '/data' });
  await send(alice, { method: 'PUT', path: '/data/k', body: 'worth something' });
  await send(eve, { method: 'PUT', path: '/hers' });
  await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/eve', {
    ...{ effect: 'allow', subjects: ['principal:dune/eve'], bucket: 'data', actions: ['s3:*'] },
  });
  expect((await read()).status).toBe(200);
  expect((await setPayer('Requester')).status).toBe(200);
}, 60_000);

afterAll(() => target?.stop(), 60_000);

describe('a bucket whose requesters pay', () => {
  it('says so, and takes no other payer', async () => {
    const query = [['requestPayment', '']] as const;
    const told = await send(alice, { method: 'GET', path: '/data', query });
    expect(told.text).toContain('<Payer>Requester</Payer>');
    const wrong = await setPayer('Somebody');
    expect([wrong.status, wrong.code]).toEqual([400, 'MalformedXML']);
    const missing = await setPayer('Requester', alice, '/none');
    expect([missing.status, missing.code]).toEqual([404, 'NoSuchBucket']);
  });

  it('is explained with the accounts that would be charged', async () => {
    const chargedTo = async (action: string, principal?: string) => {
      const question = { action, resource: 'cms:data/k', ...(principal && { principal }) };
      const { chargedTo: accounts } = await callNative(target, 'POST', '/_/v1/explain', question);
      return accounts as string[];
    };
    const owners = ['bucket:cms/data', 'principal:cms/alice', 'tenant:cms'];
    const eves = ['principal:dune/eve', 'tenant:dune'];
    expect(await chargedTo('s3:GetObject', 'dune/eve')).toEqual(eves);
    expect(await chargedTo('s3:PutObject', 'dune/eve')).toEqual([...owners, ...eves]);
    expect(await chargedTo('s3:GetObject', 'cms/alice')).toEqual(owners);
    await setPayer('BucketOwner');
    expect(await chargedTo('s3:GetObject', 'dune/eve')).toEqual([...owners, ...eves]);
    await setPayer('Requester');
  });

  it('is read from another tenant by who says that they pay', async () => {
    const silent = await read();
    expect([silent.status, silent.code]).toEqual(denied);
    expect((await read({ 'x-amz-request-payer': 'owner' })).status).toBe(403);
    for (const method of ['GET', 'HEAD']) {
      const paid = await read(payer, method);
      expect([paid.status, paid.headers['x-amz-request-charged']]).toEqual([200, 'requester']);
    }
    const own = await send(alice, { method: 'GET', path: '/data/k' });
    expect([own.status, own.headers['x-amz-request-charged']]).toEqual([200, undefined]);
    const listing = await send(eve, { method: 'GET', path: '/cms:data' });
    expect([listing.status, listing.code]).toEqual(denied);
  });

  it('is copied from by who says so, too', async () => {
    const copy = (headers: object) =>
      send(eve, {
        ...{ method: 'PUT', path: '/hers/copy' },
        headers: { 'x-amz-copy-source': 'cms:data/k', ...headers },
      });
    const silent = await copy({});
    expect([silent.status, silent.code]).toEqual(denied);
    expect((await copy(payer)).status).toBe(200);
  });

  it('is read by no other way without saying so, and nobody says it for another', async () => {
    // In the query of a request that is signed in its headers it says nothing; presigned it does,
    // and who presigns is who pays.
    const asQuery = await send(eve, {
      ...{ method: 'GET', path: '/cms:data/k', query: [['x-amz-request-payer', 'requester']] },
    });
    expect([asQuery.status, asQuery.code]).toEqual([400, 'InvalidArgument']);
    const presigned = (query: [string, string][]): string => {
      const { accessKeyId, secretAccessKey: secret } = eve.keys;
      return presignUrl({
        ...{ accessKeyId, secret, region, method: 'GET', origin: target.endpoint },
        ...{ path: '/cms:data/k', expiresSeconds: 60, timeMs: Date.now(), query },
      });
    };
    const says: [string, string] = ['x-amz-request-payer', 'requester'];
    expect((await fetch(presigned([]))).status).toBe(403);
    const paid = await fetch(presigned([says]));
    expect([paid.status, paid.headers.get('x-amz-request-charged')]).toEqual([200, 'requester']);
    // What is added behind the signature is not signed for.
    expect((await fetch(`${presigned([])}&${says.join('=')}`)).status).toBe(403);
    expect((await fetch(presigned([]), { headers: [says] })).status).toBe(403);
    for (const value of ['Requester ', 'requester, requester', '', 'bucketowner']) {
      const said = await read({ 'x-amz-request-payer': value });
      expect([value, said.status]).toEqual([value, value.trim() === 'Requester' ? 200 : 403]);
    }
    const select = await send(eve, {
      ...{ method: 'GET', path: '/cms:data/k', query: [['attributes', '']] },
      headers: { 'x-amz-object-attributes': 'ETag' },
    });
    expect([select.status, select.code]).toEqual(denied);
    const part = await send(eve, {
      ...{ method: 'HEAD', path: '/cms:data/k', query: [['partNumber', '1']] },
    });
    expect(part.status).toBe(403);
  });

  it('is changed by its own alone', async () => {
    for (const who of ['BucketOwner', 'Requester']) {
      const answer = await setPayer(who, eve, '/cms:data');
      expect(answer.status).toBeGreaterThanOrEqual(400);
    }
    const query = [['requestPayment', '']] as const;
    const told = await send(alice, { method: 'GET', path: '/data', query });
    expect(told.text).toContain('<Payer>Requester</Payer>');
  });

  it('is for nobody without credentials, whatever lets everybody in', async () => {
    await send(alice, { method: 'DELETE', path: '/data', query: [['publicAccessBlock', '']] });
    await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/all', {
      ...{ effect: 'allow', subjects: ['anyone'], bucket: 'data', actions: ['s3:GetObject'] },
    });
    expect((await exchange(target, 'GET', '/cms:data/k', payer)).status).toBe(403);
  });

  it('is charged to who reads, alone, and their limits count', async () => {
    const requestsOf = async (wanted: string): Promise<number> => {
      const query = [['limit', '200']] as const;
      const { usage } = await callNative(target, 'GET', '/_/v1/usage', undefined, query);
      return usage.find(({ account }: { account: string }) => account === wanted)?.requests ?? 0;
    };
    const accounts = ['tenant:cms', 'principal:cms/alice', 'bucket:cms/data'];
    // What was recorded before is charged by then.
    await send(alice, { method: 'PUT', path: '/data/last', body: 'x' });
    const before = await Promise.all(accounts.map(requestsOf));
    const herBefore = await requestsOf('principal:dune/eve');
    for (let i = 0; i < 5; i++) expect((await read(payer)).status).toBe(200);
    await expect.poll(() => requestsOf('principal:dune/eve')).toBe(herBefore + 5);
    expect(await Promise.all(accounts.map(requestsOf))).toEqual(before);
    // The owner's limits do not hold her up, her own do.
    const limit = putLimits.bind(null, target);
    await limit('bucket:cms/data', { requests: { total: 1 } });
    expect((await send(alice, { method: 'GET', path: '/data/k' })).code).toBe('QuotaExceeded');
    expect((await read(payer)).status).toBe(200);
    await limit('principal:dune/eve', { requests: { total: 1 } });
    expect((await read(payer)).code).toBe('QuotaExceeded');
  });
});
