// Who sees and sets which limits through the native API, and what is answered.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Delegation } from '#bursar/authz/identity.js';
import { accessKeyContext } from '#bursar/authz/key-rows.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { type Fixture, openFixture, populate } from './fixture.ts';

let api: Fixture;

beforeAll(async () => {
  api = await openFixture();
  await populate(api);
  await api.addBucket('cms', 'raw', 'alice');
  await api.addBucket('cms', 'other', 'bob');
  await api.addBucket('atlas', 'far', 'alice');
});

afterAll(() => api.close());

afterEach(async () => {
  api.narrow('cms/boss', null);
  for (const { name } of (await api.call('ROOT', 'GET', `${cms}/grants`)).json.grants) {
    await api.call('ROOT', 'DELETE', `${cms}/grants/${name}`);
  }
  for (const { account } of (await api.call('ROOT', 'GET', '/_/v1/limits')).json.limits) {
    await api.call('ROOT', 'DELETE', pathOf(account));
  }
});

const cms = '/_/v1/tenants/cms';
const pathOf = (account: string) => `/_/v1/limits/${encodeURIComponent(account)}`;
const put = (who: string, account: string, limits: object = { requests: { hour: 5 } }) =>
  api.call(who, 'PUT', pathOf(account), limits);
const get = (who: string, account: string) => api.call(who, 'GET', pathOf(account));

async function statuses(who: string, call: typeof get, accounts: readonly string[]) {
  const found: number[] = [];
  for (const account of accounts) found.push((await call(who, account)).status);
  return found;
}

const accounts = [
  'principal:cms/alice',
  'bucket:cms/raw',
  'principal:cms/bob',
  'bucket:cms/other',
  'principal:cms/boss',
  'principal:cms/anonymous',
  'tenant:cms',
  'principal:atlas/alice',
  'bucket:atlas/far',
  'tenant:atlas',
  'principal:default/admin',
];
const nowhere = [
  'principal:cms/nobody',
  'bucket:cms/none',
  'tenant:none',
  'token:none',
  'x',
  'tenant:',
];

describe('limits are seen by', () => {
  test.each([
    ['cms/alice', [200, 200, 404, 404, 404, 404, 404, 404, 404, 404, 404]],
    ['cms/boss', [200, 200, 200, 200, 200, 200, 200, 404, 404, 404, 404]],
    ['cms/audit', [200, 200, 200, 200, 200, 200, 200, 404, 404, 404, 404]],
    ['ROOT', accounts.map(() => 200)],
  ])('%s, each its own', async (who, expected) => {
    expect(await statuses(who, get, accounts)).toEqual(expected);
  });

  test('nobody where there is no such account, in the words of those that are hidden', async () => {
    const hidden = await get('cms/alice', 'tenant:atlas');
    for (const who of ['ROOT', 'cms/boss', 'cms/alice']) {
      for (const account of nowhere) {
        const { status, json } = await get(who, account);
        // What no account is called tells nothing of those that are there.
        const isForm = /^(?:principal|bucket|tenant|token):./.test(account);
        const isSeen = who !== 'cms/alice';
        const missing = isSeen ? expect.stringMatching(/^There is no /) : hidden.json.detail;
        const said = isForm ? missing : expect.stringContaining('is no account');
        expect([status, json.code, json.detail]).toEqual([404, 'NotFound', said]);
      }
    }
  });

  test('all who may, in a listing by name, in pages', async () => {
    for (const account of accounts) await put('ROOT', account);
    const listed = async (who: string) => {
      const { json } = await api.call(who, 'GET', '/_/v1/limits');
      return json.limits.map((one: { account: string }) => one.account);
    };
    const own = (prefix: RegExp) => accounts.filter((one) => prefix.test(one)).sort();
    expect(await listed('ROOT')).toEqual([...accounts].sort());
    expect(await listed('cms/boss')).toEqual(own(/:cms/));
    expect(await listed('cms/audit')).toEqual(own(/:cms/));
    expect(await listed('cms/alice')).toEqual(['bucket:cms/raw', 'principal:cms/alice']);
    const paged: string[] = [];
    let after: string | null = '';
    while (after !== null) {
      const path = `/_/v1/limits?limit=3&after=${encodeURIComponent(after)}`;
      const { json } = await api.call('ROOT', 'GET', path);
      expect(json.limits.length).toBeLessThanOrEqual(3);
      paged.push(...json.limits.map((one: { account: string }) => one.account));
      after = json.next;
    }
    expect(paged).toEqual([...accounts].sort());
  });
});

describe('limits are set by', () => {
  test.each([
    ['cms/alice', [403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403]],
    ['cms/audit', [403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403]],
    // A tenant's are the operator's to set.
    ['cms/boss', [200, 200, 200, 200, 200, 200, 403, 404, 404, 404, 404]],
    ['ROOT', accounts.map(() => 200)],
  ])('%s, or refused', async (who, expected) => {
    expect(await statuses(who, put, accounts)).toEqual(expected);
  });

  test('members with a grant, for members and buckets of their tenant only', async () => {
    const grant = { subjects: ['principal:cms/alice'], actions: ['bursar:*'], effect: 'allow' };
    await api.call('cms/boss', 'PUT', `${cms}/grants/desk`, grant);
    expect(await statuses('cms/alice', put, accounts)).toEqual([
      ...[200, 200, 200, 200, 403, 200, 403, 404, 404, 404, 404],
    ]);
    expect((await get('ROOT', 'tenant:cms')).json.limits).toBeNull();
    expect((await api.call('cms/alice', 'DELETE', pathOf('tenant:cms'))).status).toBe(403);
  });

  test('no one whom a grant denies it', async () => {
    const rule = { subjects: ['principal:cms/boss'], actions: ['bursar:PutLimit'], effect: 'deny' };
    await api.call('ROOT', 'PUT', `${cms}/grants/no`, rule);
    expect((await put('cms/boss', 'bucket:cms/raw')).status).toBe(403);
    expect((await get('cms/boss', 'bucket:cms/raw')).json.limits).toBeNull();
  });

  test('no admin for the operator in its tenant', async () => {
    await api.apply({
      ...{ kind: 'createPrincipal', tenant: 'default', name: 'boss', principalKind: 'person' },
      ...{ role: 'admin', groups: [] },
    });
    const context = accessKeyContext('default', 'boss', 'DB');
    const sealedSecret = api.sealer.seal(Buffer.from('secret'), context);
    await api.apply({
      ...{ kind: 'createAccessKey', tenant: 'default', principal: 'boss', id: 'DB', sealedSecret },
    });
    expect((await put('DB', 'principal:default/boss')).status).toBe(200);
    expect((await put('DB', 'principal:default/admin')).status).toBe(403);
  });

  test('nobody with a token, be it one for administration', async () => {
    const delegation: Delegation = {
      ...{ ids: ['x'], scope: parseScope('bursar.admin:/'), policies: [], accounts: [] },
      ...{ conditions: new ChainConditions([]), expiresAtMs: Number.MAX_SAFE_INTEGER },
    };
    await put('cms/boss', 'bucket:cms/raw');
    api.narrow('cms/boss', delegation);
    expect((await put('cms/boss', 'bucket:cms/raw', { requests: { hour: 9 } })).status).toBe(403);
    expect((await api.call('cms/boss', 'DELETE', pathOf('bucket:cms/raw'))).status).toBe(403);
    expect((await get('cms/boss', 'bucket:cms/raw')).json.limits).toEqual({
      requests: { hour: 5 },
    });
  });

  test('the operator alone where crashes lost something', async () => {
    const path = `${pathOf('bucket:cms/raw')}/reconcile`;
    expect((await api.call('cms/boss', 'POST', path)).status).toBe(403);
    expect((await api.call('ROOT', 'POST', path)).status).toBe(200);
    expect(api.entries.at(-1)).toMatchObject({
      ...{ action: 'bursar:ReconcileLimit', target: 'limits/bucket:cms/raw/reconcile' },
      change: { kind: 'forgetLost', account: 'bucket:cms/raw' },
    });
  });
});

describe('what is set', () => {
  const account = 'principal:cms/alice';
  const limits = {
    spend: { month: '12.50' },
    egressBytes: { day: 50 * 1024 ** 3 },
    storedObjects: { total: 7 },
    rate: { bytes: 10, requests: 2 },
  };

  test('is answered with what is used and left, and when it begins anew', async () => {
    const { json } = await put('cms/boss', account, limits);
    const tomorrow = new Date(Math.ceil((Date.now() + 1) / 86_400_000) * 86_400_000).toISOString();
    const nothing = { used: '0', lost: '0', reserved: '0', exceeded: false };
    expect(json).toMatchObject({ account, limits });
    expect(json.caps).toHaveLength(3);
    expect(json.caps[0]).toMatchObject({
      ...{ meter: 'spend', window: 'month', limit: '12.50', left: '12.50', used: '0.00' },
    });
    expect(json.caps.slice(1)).toEqual([
      {
        ...{ meter: 'storedObjects', window: 'total', limit: '7', left: '7', ...nothing },
        resetAt: null,
      },
      {
        ...{ meter: 'egressBytes', window: 'day', limit: '53687091200', left: '53687091200' },
        ...{ ...nothing, resetAt: tomorrow },
      },
    ]);
    expect((await get('cms/alice', account)).json).toEqual(json);
  });

  test('replaces all that was there with PUT, and what is named with PATCH', async () => {
    await put('cms/boss', account, limits);
    const patch = (body: object) => api.call('cms/boss', 'PATCH', pathOf(account), body);
    const patched = await patch({ egressBytes: { hour: 5, day: null }, rate: { requests: 3 } });
    expect(patched.json.limits).toEqual({
      ...limits,
      egressBytes: { hour: 5 },
      rate: { bytes: 10, requests: 3 },
    });
    expect((await patch({ egressBytes: { hour: null }, spend: null })).json.limits).toEqual({
      storedObjects: { total: 7 },
      rate: { bytes: 10, requests: 3 },
    });
    expect((await put('cms/boss', account)).json.limits).toEqual({ requests: { hour: 5 } });
    expect((await patch({ requests: null, spend: null })).json).toMatchObject({
      ...{ limits: null, caps: [] },
    });
    expect(api.entries.at(-1)?.change).toEqual({
      ...{ kind: 'setLimits', account, limits: null, before: { requests: { hour: 5 } } },
    });
  });

  test('is taken away with DELETE, again and again', async () => {
    await put('cms/boss', account, limits);
    for (let i = 0; i < 2; i++) {
      expect((await api.call('cms/boss', 'DELETE', pathOf(account))).status).toBe(204);
    }
    const none = { account, limits: null, caps: [], warnings: [] };
    expect((await get('cms/alice', account)).json).toEqual(none);
  });

  test.each([
    ['nothing', {}],
    ['a meter that is none', { money: { day: 1 } }],
    ['a meter without amounts', { requests: {} }],
    ['a window that is none', { requests: { week: 1 } }],
    ['a window of what is stored', { storedBytes: { day: 1 } }],
    ['less than nothing', { requests: { day: -1 } }],
    ['a fraction', { requests: { day: 0.5 } }],
    ['more than can be counted', { requests: { day: 2 ** 53 } }],
    ['money as a number', { spend: { day: 1 } }],
    ['money beyond picodollars', { spend: { day: '0.0000000000001' } }],
    ['money with an exponent', { spend: { day: '1e3' } }],
    ['a count as text', { requests: { day: '1' } }],
    ['null', { requests: null }],
    ['null for a window', { requests: { day: null } }],
    ['a rate of something else', { rate: { objects: 1 } }],
    ['a rate that lets nothing pass', { rate: { requests: 0 } }],
    ['a list', []],
  ])('is not %s', async (_title, body) => {
    const { status, json } = await put('cms/boss', account, body);
    expect([status, json.code]).toEqual([400, 'InvalidInput']);
    expect((await get('cms/alice', account)).json.limits).toBeNull();
  });

  test('is told to the record', async () => {
    await put('cms/boss', account, limits);
    expect(api.entries.at(-1)).toMatchObject({
      ...{ action: 'bursar:PutLimit', target: `limits/${account}`, status: 200 },
      change: { kind: 'setLimits', account, limits },
    });
  });

  test('counts no more after a commit that failed than what is durable', async () => {
    await put('cms/boss', account);
    api.breakNextCommit();
    expect((await put('cms/boss', account, { requests: { hour: 900 } })).status).toBe(500);
    expect(api.limitsInMemory.get(account)).toEqual({ requests: { hour: 5 } });
  });
});
