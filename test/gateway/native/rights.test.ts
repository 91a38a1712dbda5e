// What grants add to the rights of roles on the native API and take from them, that nobody gets
// above themselves by it, and what a token leaves of it.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Delegation } from '#bursar/authz/identity.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { type Fixture, openFixture, populate } from './fixture.ts';

let api: Fixture;

beforeAll(async () => {
  api = await openFixture();
  await populate(api);
});

afterAll(() => api.close());

afterEach(async () => {
  for (const who of ['cms/boss', 'cms/alice']) api.narrow(who, null);
  const { json } = await api.call('ROOT', 'GET', `${cms}/grants`);
  for (const { name } of json.grants) await api.call('ROOT', 'DELETE', `${cms}/grants/${name}`);
});

const cms = '/_/v1/tenants/cms';
const alice = 'principal:cms/alice';

async function put(name: string, rule: object, who = 'cms/boss') {
  return api.call(who, 'PUT', `${cms}/grants/${name}`, { effect: 'allow', ...rule });
}

/** The statuses of calls as one principal. */
async function statuses(who: string, calls: readonly (readonly [string, string, unknown?])[]) {
  const found: [string, number][] = [];
  for (const [method, path, body] of calls) {
    const { status } = await api.call(who, method, path, body);
    found.push([`${method} ${path}`, status]);
  }
  return found;
}

describe('a grant of administration', () => {
  test('lets a member do in its tenant what admins may, and nothing anywhere else', async () => {
    expect((await api.call('cms/alice', 'GET', `${cms}/principals`)).status).toBe(403);
    await put('desk', { subjects: [alice], actions: ['bursar:*'] });
    expect((await api.call('cms/alice', 'GET', `${cms}/principals`)).status).toBe(200);
    expect((await api.call('cms/alice', 'GET', `${cms}/principals/bob`)).status).toBe(200);
    const made = await api.call('cms/alice', 'POST', `${cms}/principals`, { name: 'carol' });
    expect(made).toMatchObject({ status: 201, json: { role: 'member', groups: [] } });
    const key = `${cms}/principals/carol/access-keys`;
    expect((await api.call('cms/alice', 'POST', key)).status).toBe(201);
    const outside = await statuses('cms/alice', [
      ['GET', '/_/v1/tenants/atlas/principals'],
      ['POST', '/_/v1/tenants', { name: 'mine' }],
      ['DELETE', cms],
      ['GET', '/_/v1/keys'],
      ['POST', '/_/v1/keys/rotations'],
    ]);
    expect(outside.map(([, status]) => status)).toEqual([404, 403, 403, 403, 403]);
    expect((await api.call('cms/bob', 'GET', `${cms}/principals`)).status).toBe(403);
  });

  test('makes nobody an admin: not by roles, groups, keys, grants or names', async () => {
    await put('desk', { subjects: [alice], actions: ['bursar:*'] });
    await put('data', { subjects: ['group:cms/muons'], actions: ['s3:*'] });
    const people = `${cms}/principals`;
    const bursar = { effect: 'allow', subjects: [alice], actions: ['bursar:ListGroups'] };
    const mixed = { ...bursar, actions: ['s3:GetObject', '*'] };
    const tried = await statuses('cms/alice', [
      ['POST', people, { name: 'x', role: 'admin' }],
      ['POST', people, { name: 'x', role: 'auditor' }],
      ['POST', people, { name: 'x', groups: ['muons'] }],
      ['PATCH', `${people}/alice`, { role: 'admin' }],
      ['PATCH', `${people}/alice`, { groups: [] }],
      ['PATCH', `${people}/bob`, { groups: [] }],
      ['PATCH', `${people}/bob`, { role: 'admin' }],
      ['PATCH', `${people}/boss`, { active: false }],
      ['PATCH', `${people}/audit`, { active: false }],
      ['DELETE', `${people}/boss`],
      ['POST', `${people}/boss/access-keys`],
      ['POST', `${people}/audit/access-keys`],
      ['DELETE', `${people}/boss/access-keys/cms%2Fboss`],
      ['DELETE', `${cms}/groups/muons`],
      ['PUT', `${cms}/grants/more`, bursar],
      ['PUT', `${cms}/grants/more`, mixed],
      ['PUT', `${cms}/grants/desk`, { ...bursar, actions: ['s3:GetObject'] }],
      ['DELETE', `${cms}/grants/desk`],
    ]);
    expect(tried).toEqual(tried.map(([call]) => [call, 403]));
    expect(await api.directory.readPrincipal('cms', 'x')).toBeUndefined();
    expect(await api.directory.readPrincipal('cms', 'bob')).toMatchObject({ groups: ['muons'] });
    // About data it may say all that there is to say.
    const own = { effect: 'allow', subjects: [alice], actions: ['s3:*'] };
    expect((await api.call('cms/alice', 'PUT', `${cms}/grants/own`, own)).status).toBe(200);
    expect((await api.call('cms/alice', 'DELETE', `${cms}/grants/data`)).status).toBe(204);
  });

  test('counts for principals of other tenants, whose tenant stays unknown otherwise', async () => {
    await put('guests', { subjects: ['principal:atlas/bob'], actions: ['bursar:ListPrincipals'] });
    expect((await api.call('atlas/bob', 'GET', `${cms}/principals`)).status).toBe(200);
    for (const [who, path] of [
      ['atlas/bob', `${cms}/groups`],
      ['atlas/boss', `${cms}/principals`],
    ] as const) {
      expect((await api.call(who, 'GET', path)).json.code).toBe('NoSuchTenant');
    }
  });

  test('holds only under its conditions', async () => {
    const from = (network: string) =>
      put('near', {
        ...{ subjects: [alice], actions: ['bursar:ListGroups'] },
        conditions: { IpAddress: { 'aws:SourceIp': network } },
      });
    await from('192.0.2.0/24');
    expect((await api.call('cms/alice', 'GET', `${cms}/groups`)).status).toBe(403);
    await from('127.0.0.0/8');
    expect((await api.call('cms/alice', 'GET', `${cms}/groups`)).status).toBe(200);
  });
});

describe('a denial of administration', () => {
  test('takes from a member and an admin what their role gives, but never the grants', async () => {
    await put('quiet', { subjects: ['tenant:cms'], actions: ['bursar:*'], effect: 'deny' });
    const own = `${cms}/principals/alice`;
    expect((await api.call('cms/alice', 'GET', own)).status).toBe(403);
    expect((await api.call('cms/boss', 'GET', own)).status).toBe(403);
    expect((await api.call('ROOT', 'GET', own)).status).toBe(200);
    expect((await api.call('cms/boss', 'GET', `${cms}/grants`)).status).toBe(200);
    expect((await api.call('cms/boss', 'DELETE', `${cms}/grants/quiet`)).status).toBe(204);
    expect((await api.call('cms/alice', 'GET', own)).status).toBe(200);
  });
});

describe('a token', () => {
  function delegation(scope: string | null, more: Partial<Delegation> = {}): Delegation {
    return {
      ids: ['root', 'root.leaf'],
      scope: scope === null ? null : parseScope(scope),
      conditions: new ChainConditions([]),
      accounts: [],
      policies: [],
      expiresAtMs: Date.parse('2027-01-01T00:00:00Z'),
      ...more,
    };
  }

  test('without administration in its scope says who it is, and does nothing else', async () => {
    for (const narrow of [
      delegation('storage.modify:/'),
      delegation('storage.read:/raw', { shareId: 'x' }),
      delegation(null, { policies: [[]] }),
      delegation('bursar.admin:/', { policies: [[]] }),
    ]) {
      api.narrow('cms/boss', narrow);
      const refused = await api.call('cms/boss', 'GET', cms);
      expect(refused).toMatchObject({ status: 403, json: { code: 'AccessDenied' } });
      const records = await api.call('cms/boss', 'GET', '/_/v1/records');
      expect(records.status).toBe(403);
    }
    api.narrow('cms/boss', delegation('storage.read:/raw/2026 bursar.admin:/'));
    expect((await api.call('cms/boss', 'GET', cms)).status).toBe(200);
    expect((await api.call('cms/boss', 'DELETE', cms)).status).toBe(403);
  });

  test('shows its chain, scope and end; a key shows its principal', async () => {
    api.narrow('cms/alice', delegation('storage.read:/raw/2026 bursar.admin:/'));
    const asked = await api.call('cms/alice', 'GET', '/_/v1/whoami');
    expect(asked.json).toEqual({
      ...{ tenant: 'cms', principal: 'alice', kind: 'person', role: 'member', groups: ['muons'] },
      ...{ evidence: 'shared-secret', accessKeyId: 'cms/alice', keyThumbprint: null },
      mayCreateBuckets: true,
      delegation: {
        ids: ['root', 'root.leaf'],
        scope: 'storage.read:/raw/2026 bursar.admin:/',
        hasPolicies: false,
        expiresAt: '2027-01-01T00:00:00.000Z',
      },
    });
    expect((await api.call('ROOT', 'GET', '/_/v1/whoami')).json).toMatchObject({
      ...{ tenant: 'default', role: 'operator', delegation: null },
    });
  });
});

// Its tenant is gone for all that would follow.
test('a grant that is gone with its tenant counts no more', async () => {
  const guests = { effect: 'allow', subjects: [alice], actions: ['bursar:ListGroups'] };
  const there = '/_/v1/tenants/atlas';
  await api.call('atlas/boss', 'PUT', `${there}/grants/guests`, guests);
  expect((await api.call('cms/alice', 'GET', `${there}/groups`)).status).toBe(200);
  await api.call('ROOT', 'DELETE', there);
  const after = await api.call('cms/alice', 'GET', `${there}/groups`);
  expect(after.json.code).toBe('NoSuchTenant');
});
