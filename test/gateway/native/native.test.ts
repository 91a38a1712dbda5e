// The native API: who may do what, what is recorded, and what a refusal looks like.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Fixture, openFixture, populate } from './fixture.ts';

let api: Fixture;

beforeEach(async () => {
  api = await openFixture();
  await populate(api);
});

afterEach(() => api.close());

const tenants = '/_/v1/tenants';
const cms = `${tenants}/cms`;
const alice = `${cms}/principals/alice`;

describe('tenants', () => {
  test('an operator creates, reads, changes, lists and deletes one', async () => {
    const made = await api.call('ROOT', 'POST', tenants, { name: 'lhcb' });
    expect(made).toMatchObject({
      status: 201,
      json: { name: 'lhcb', membersCreateBuckets: true },
    });
    expect(await api.call('ROOT', 'GET', `${tenants}/lhcb`)).toMatchObject({
      status: 200,
      json: made.json,
    });
    const change = { membersCreateBuckets: false };
    const changed = await api.call('ROOT', 'PATCH', `${tenants}/lhcb`, change);
    expect(changed).toMatchObject({ status: 200, json: { ...made.json, ...change } });
    const listed = await api.call('ROOT', 'GET', tenants);
    const names = listed.json.tenants.map((tenant: { name: string }) => tenant.name);
    expect(names).toEqual(['atlas', 'cms', 'default', 'lhcb']);
    expect(await api.call('ROOT', 'DELETE', `${tenants}/lhcb`)).toMatchObject({
      status: 204,
      text: '',
    });
    expect(await api.call('ROOT', 'GET', `${tenants}/lhcb`)).toMatchObject({
      status: 404,
      json: { code: 'NoSuchTenant' },
    });
  });

  test('a listing is read in pages', async () => {
    const first = await api.call('ROOT', 'GET', `${tenants}?limit=2`);
    expect(first.json).toMatchObject({
      tenants: [{ name: 'atlas' }, { name: 'cms' }],
      next: 'cms',
    });
    const second = await api.call('ROOT', 'GET', `${tenants}?limit=2&after=cms`);
    expect(second.json).toMatchObject({ tenants: [{ name: 'default' }], next: null });
  });

  test('one that owns a bucket is in use', async () => {
    await api.addBucket('cms', 'data', 'alice');
    expect(await api.call('ROOT', 'DELETE', cms)).toMatchObject({
      status: 409,
      json: { code: 'InUse', detail: 'cms owns a bucket: data.' },
    });
  });

  test('an admin sees only its own, changes its settings, and makes none', async () => {
    const listed = await api.call('cms/boss', 'GET', tenants);
    expect(listed.json).toMatchObject({ tenants: [{ name: 'cms' }], next: null });
    const change = { membersCreateBuckets: false };
    expect(await api.call('cms/boss', 'PATCH', cms, change)).toMatchObject({ status: 200 });
    for (const [method, url, body] of [
      ['POST', tenants, { name: 'mine' }],
      ['DELETE', cms, undefined],
    ] as const) {
      expect(await api.call('cms/boss', method, url, body)).toMatchObject({
        status: 403,
        json: { code: 'AccessDenied' },
      });
    }
    expect(await api.directory.readTenant('mine')).toBeUndefined();
  });
});

describe('principals, groups and access keys', () => {
  test('an admin makes a principal with role and groups, changes it and deletes it', async () => {
    const body = { name: 'carol', kind: 'robot', role: 'auditor', groups: ['muons'] };
    const made = await api.call('cms/boss', 'POST', `${cms}/principals`, body);
    expect(made).toMatchObject({ status: 201, json: { tenant: 'cms', ...body } });
    const carol = `${cms}/principals/carol`;
    const changed = await api.call('cms/boss', 'PATCH', carol, { role: 'member', groups: [] });
    expect(changed).toMatchObject({ status: 200, json: { role: 'member', groups: [] } });
    expect(await api.call('cms/boss', 'DELETE', carol)).toMatchObject({ status: 204 });
    expect(await api.call('cms/boss', 'GET', carol)).toMatchObject({
      status: 404,
      json: { code: 'NoSuchPrincipal' },
    });
  });

  test('a principal is a person and a member unless said otherwise', async () => {
    const made = await api.call('cms/boss', 'POST', `${cms}/principals`, { name: 'carol' });
    expect(made.json).toMatchObject({ kind: 'person', role: 'member', groups: [] });
  });

  test('a group is made, shown with its members, listed and deleted', async () => {
    expect(await api.call('cms/boss', 'POST', `${cms}/groups`, { name: 'taus' })).toMatchObject({
      status: 201,
      json: { tenant: 'cms', name: 'taus', members: [] },
    });
    expect(await api.call('cms/boss', 'GET', `${cms}/groups/muons`)).toMatchObject({
      json: { members: ['alice', 'audit', 'bob', 'boss'] },
    });
    expect((await api.call('cms/boss', 'GET', `${cms}/groups`)).json).toMatchObject({
      groups: [{ name: 'muons' }, { name: 'taus' }],
    });
    expect(await api.call('cms/boss', 'DELETE', `${cms}/groups/taus`)).toMatchObject({
      status: 204,
    });
    expect(await api.call('cms/boss', 'GET', `${cms}/groups/taus`)).toMatchObject({
      status: 404,
      json: { code: 'NoSuchGroup' },
    });
  });

  test('a secret is shown once, works, and stops working when its key is deleted', async () => {
    const made = await api.call('cms/alice', 'POST', `${alice}/access-keys`);
    expect(made.status).toBe(201);
    const { accessKeyId, secretAccessKey } = made.json;
    expect((await api.directory.findAccessKey(accessKeyId))?.secret).toBe(secretAccessKey);
    const listed = await api.call('cms/alice', 'GET', `${alice}/access-keys`);
    expect(listed.text).toContain(accessKeyId);
    expect(listed.text).not.toContain('secret');
    expect(JSON.stringify(api.entries)).not.toContain(secretAccessKey);
    const own = `${alice}/access-keys/${accessKeyId}`;
    expect(await api.call(accessKeyId, 'DELETE', own)).toMatchObject({ status: 204 });
    expect(await api.call(accessKeyId, 'GET', own)).toMatchObject({ status: 403 });
    expect(await api.call('cms/alice', 'GET', own)).toMatchObject({
      status: 404,
      json: { code: 'NoSuchAccessKey' },
    });
  });
});

describe('rights', () => {
  test("another tenant's things look exactly like things that do not exist", async () => {
    const paths = ['', '/principals', '/principals/alice', '/groups', '/groups/muons'];
    paths.push('/principals/alice/access-keys', '/principals/alice/access-keys/atlas%2Falice');
    for (const who of ['cms/boss', 'cms/audit', 'cms/alice']) {
      for (const path of paths) {
        const there = await api.call(who, 'GET', `${tenants}/atlas${path}`);
        const nowhere = await api.call(who, 'GET', `${tenants}/nowhere${path}`);
        const strip = ({ requestId, instance, ...rest }: Record<string, string>) => rest;
        expect(there.status).toBe(404);
        const { detail = '', ...told } = strip(there.json);
        // What is not there is named as the call has it.
        expect({ ...told, detail: detail.replace('atlas', 'nowhere') }).toEqual(
          strip(nowhere.json),
        );
      }
      const there = await api.call(who, 'DELETE', `${tenants}/atlas/principals/alice`);
      expect(there).toMatchObject({ status: 404, json: { code: 'NoSuchTenant' } });
    }
    expect(await api.directory.readPrincipal('atlas', 'alice')).toBeDefined();
  });

  test('a refusal to a member does not tell whether a colleague exists', async () => {
    const there = await api.call('cms/alice', 'GET', `${cms}/principals/bob`);
    const nowhere = await api.call('cms/alice', 'GET', `${cms}/principals/nobody`);
    expect([there.status, there.json.code]).toEqual([403, 'AccessDenied']);
    expect([nowhere.status, nowhere.json.code]).toEqual([403, 'AccessDenied']);
  });

  test.each(['cms/audit', 'cms/alice'])(
    "%s reaches its own keys and nobody else's",
    async (who) => {
      const [, name] = who.split('/');
      const own = `${cms}/principals/${name}`;
      expect((await api.call(who, 'GET', own)).status).toBe(200);
      expect((await api.call(who, 'POST', `${own}/access-keys`)).status).toBe(201);
      for (const [method, path, body] of [
        ['GET', '', undefined],
        ['PATCH', '', { membersCreateBuckets: false }],
        ['GET', '/principals', undefined],
        ['POST', '/principals', { name: 'eve', role: 'admin' }],
        ['PATCH', `/principals/${name}`, { role: 'admin' }],
        ['DELETE', '/principals/bob', undefined],
        ['POST', '/groups', { name: 'taus' }],
        ['GET', '/groups/muons', undefined],
        ['DELETE', '/groups/muons', undefined],
        ['POST', '/principals/bob/access-keys', undefined],
        ['GET', '/principals/bob/access-keys', undefined],
        ['DELETE', '/principals/bob/access-keys/cms%2Fbob', undefined],
      ] as const) {
        expect(await api.call(who, method, cms + path, body)).toMatchObject({ status: 403 });
      }
      expect(await api.directory.findAccessKey('cms/bob')).toBeDefined();
    },
  );

  test('an admin can neither make an operator nor touch or enter as one', async () => {
    await api.apply({
      kind: 'createPrincipal',
      tenant: 'cms',
      name: 'op',
      principalKind: 'person',
      role: 'operator',
      groups: [],
    });
    const before = await api.directory.listAccessKeys('cms', 'op', { after: '', limit: 9 });
    for (const [method, path, body] of [
      ['POST', '/principals', { name: 'eve', role: 'operator' }],
      ['PATCH', '/principals/boss', { role: 'operator' }],
      ['PATCH', '/principals/op', { role: 'member' }],
      ['DELETE', '/principals/op', undefined],
      ['POST', '/principals/op/access-keys', undefined],
    ] as const) {
      expect(await api.call('cms/boss', method, cms + path, body)).toMatchObject({ status: 403 });
    }
    expect(await api.directory.readPrincipal('cms', 'op')).toMatchObject({ role: 'operator' });
    expect(await api.directory.readPrincipal('cms', 'eve')).toBeUndefined();
    expect(await api.directory.listAccessKeys('cms', 'op', { after: '', limit: 9 })).toEqual(
      before,
    );
  });
});

describe('root keys', () => {
  test('an operator rotates them: a new epoch is current, and no key is told', async () => {
    const made = await api.call('ROOT', 'POST', '/_/v1/keys/rotations');
    expect(made).toMatchObject({
      status: 201,
      json: { epoch: 2, isCurrent: true, wrappedBy: null },
    });
    const listed = await api.call('ROOT', 'GET', '/_/v1/keys');
    expect(listed.json.keys).toMatchObject([{ epoch: 1, isCurrent: false }, made.json]);
    expect(Object.keys(made.json).sort()).toEqual(['createdAt', 'epoch', 'isCurrent', 'wrappedBy']);
    const { json } = await api.call('ROOT', 'GET', '/_/v1/records?action=bursar:RotateKeys');
    expect(json.records).toMatchObject([{ target: 'keys/2', status: 201 }]);
  });

  test('secrets of every epoch open, the new ones under the newest', async () => {
    const url = '/_/v1/tenants/cms/principals/alice/access-keys';
    await api.call('ROOT', 'POST', '/_/v1/keys/rotations');
    const made = await api.call('cms/boss', 'POST', url);
    expect(await api.call(made.json.accessKeyId, 'GET', url)).toMatchObject({ status: 200 });
    expect(await api.call('cms/alice', 'GET', url)).toMatchObject({ status: 200 });
  });

  test('a rotation that is not recorded is not used, and the next one goes on', async () => {
    api.breakNextCommit();
    const failed = await api.call('ROOT', 'POST', '/_/v1/keys/rotations');
    expect(failed).toMatchObject({ status: 500, json: { code: 'InternalError' } });
    const current = async () => {
      const { json } = await api.call('ROOT', 'GET', '/_/v1/keys');
      return json.keys.filter((key: { isCurrent: boolean }) => key.isCurrent);
    };
    expect(await current()).toMatchObject([{ epoch: 1 }]);
    const made = await api.call('ROOT', 'POST', '/_/v1/keys/rotations');
    expect(await current()).toEqual([made.json]);
  });

  test('nobody else may see or rotate them, and a refused rotation makes no key', async () => {
    for (const who of ['cms/boss', 'cms/audit', 'cms/alice']) {
      const refusals = [
        await api.call(who, 'POST', '/_/v1/keys/rotations'),
        await api.call(who, 'GET', '/_/v1/keys'),
      ];
      for (const refused of refusals) {
        expect(refused).toMatchObject({ status: 403, json: { code: 'AccessDenied' } });
      }
    }
    const listed = await api.call('ROOT', 'GET', '/_/v1/keys');
    expect(listed.json.keys).toHaveLength(1);
  });
});

describe('records and usage', () => {
  test('every authenticated call, allowed or refused, is recorded before its answer', async () => {
    const made = await api.call('ROOT', 'POST', tenants, { name: 'lhcb' });
    const read = await api.call('cms/boss', 'GET', alice);
    const denied = await api.call('cms/alice', 'DELETE', cms);
    const invalid = await api.call('ROOT', 'POST', tenants, { name: 'NO' });
    const taken = await api.call('ROOT', 'POST', tenants, { name: 'cms' });
    const nobody = await api.call('nobody', 'GET', tenants);
    expect(nobody.status).toBe(403);
    expect(
      api.entries.map(({ action, target, refused, change }) => [
        action,
        target,
        refused,
        change?.kind,
      ]),
    ).toEqual([
      ['bursar:CreateTenant', 'tenants/lhcb', undefined, 'createTenant'],
      ['bursar:GetPrincipal', 'tenants/cms/principals/alice', undefined, undefined],
      ['bursar:DeleteTenant', 'tenants/cms', 'AccessDenied', undefined],
      ['bursar:CreateTenant', 'tenants', 'InvalidInput', undefined],
      ['bursar:CreateTenant', 'tenants/cms', undefined, 'createTenant'],
    ]);
    expect([made, read, denied, invalid].map((answer) => answer.receipt)).toEqual([
      '0',
      '1',
      '2',
      '3',
    ]);
    expect(taken).toMatchObject({ status: 409, json: { code: 'AlreadyExists' } });
  });

  test("each sees its own records, its tenant's or all, whatever it filters by", async () => {
    for (const who of ['cms/alice', 'cms/bob', 'atlas/alice']) {
      await api.call(who, 'GET', `${tenants}/${who.replace('/', '/principals/')}`);
    }
    const seen = async (who: string, query: string) => {
      const answer = await api.call(who, 'GET', `/_/v1/records?action=bursar:GetPrincipal${query}`);
      return answer.json.records.map(
        (record: { tenant: string; principal: string }) => `${record.tenant}/${record.principal}`,
      );
    };
    expect(await seen('ROOT', '')).toEqual(['cms/alice', 'cms/bob', 'atlas/alice']);
    expect(await seen('ROOT', '&tenant=atlas')).toEqual(['atlas/alice']);
    expect(await seen('ROOT', '&principal=cms/alice')).toEqual(['cms/alice']);
    for (const who of ['cms/boss', 'cms/audit']) {
      expect(await seen(who, '')).toEqual(['cms/alice', 'cms/bob']);
      expect(await seen(who, '&principal=bob')).toEqual(['cms/bob']);
      expect(await seen(who, '&tenant=atlas')).toEqual([]);
      expect(await seen(who, '&principal=atlas/alice')).toEqual([]);
    }
    expect(await seen('cms/alice', '')).toEqual(['cms/alice']);
    expect(await seen('cms/alice', '&principal=bob')).toEqual([]);
    expect(await seen('cms/alice', '&principal=cms/alice')).toEqual(['cms/alice']);
  });

  test('records come in pages, in the order of the log, between two times', async () => {
    for (let i = 0; i < 5; i++) await api.call('cms/alice', 'GET', alice);
    const first = await api.call('cms/boss', 'GET', '/_/v1/records?limit=2');
    expect(first.json.records.map((record: { index: number }) => record.index)).toEqual([0, 1]);
    const rest = `/_/v1/records?limit=2&cursor=${first.json.next}`;
    const second = await api.call('cms/boss', 'GET', rest);
    expect(second.json.records.map((record: { index: number }) => record.index)).toEqual([2, 3]);
    const times = 'from=2026-01-01T00:00:01Z&to=2026-01-01T00:00:03Z';
    const some = await api.call('cms/boss', 'GET', `/_/v1/records?${times}`);
    expect(some.json.records.map((record: { index: number }) => record.index)).toEqual([1, 2]);
  });

  test('pages end where the log ended at the first, though each is recorded', async () => {
    for (let i = 0; i < 3; i++) await api.call('cms/alice', 'GET', alice);
    let { next } = (await api.call('cms/boss', 'GET', '/_/v1/records?limit=1')).json;
    let pages = 1;
    for (; next !== null && pages < 50; pages++) {
      const path = `/_/v1/records?limit=1&cursor=${next}`;
      ({ next } = (await api.call('cms/boss', 'GET', path)).json);
    }
    expect([next, pages]).toEqual([null, 3]);
  });

  test('each sees the usage of its own accounts only', async () => {
    for (const name of ['cms/alice', 'cms/boss', 'atlas/alice']) {
      await api.charge(`principal:${name}`);
    }
    for (const name of ['tenant:cms', 'tenant:atlas', 'token:t', 'store:local', 'backend:cms']) {
      await api.charge(name);
    }
    await api.addBucket('cms', 'data', 'alice');
    await api.charge('bucket:cms/data');
    const accounts = async (who: string) => {
      const answer = await api.call(who, 'GET', '/_/v1/usage');
      return answer.json.usage.map((row: { account: string }) => row.account);
    };
    expect(await accounts('cms/alice')).toEqual(['bucket:cms/data', 'principal:cms/alice']);
    expect(await accounts('cms/bob')).toEqual([]);
    expect(await accounts('cms/audit')).toEqual([
      'bucket:cms/data',
      'principal:cms/alice',
      'principal:cms/boss',
      'tenant:cms',
    ]);
    expect(await accounts('ROOT')).toEqual([
      'bucket:cms/data',
      'principal:atlas/alice',
      'principal:cms/alice',
      'principal:cms/boss',
      'tenant:atlas',
      'tenant:cms',
    ]);
    const page = (await api.call('ROOT', 'GET', '/_/v1/usage?limit=2&after=principal:cms')).json;
    expect(page).toMatchObject({ next: 'principal:cms/boss' });
  });

  test('an account of another tenant looks like none; an own without charges is zero', async () => {
    const usage = (who: string, account: string) =>
      api.call(who, 'GET', `/_/v1/usage/${encodeURIComponent(account)}`);
    await api.addBucket('atlas', 'data', 'alice');
    await api.addBucket('cms', 'data', 'alice');
    for (const account of ['tenant:atlas', 'principal:atlas/alice', 'bucket:atlas/data']) {
      expect((await usage('ROOT', account)).status).toBe(200);
      for (const who of ['cms/boss', 'cms/audit', 'cms/alice']) {
        expect((await usage(who, account)).json.code).toBe('NotFound');
      }
    }
    for (const account of ['tenant:none', 'bucket:cms/none', 'cms', 'tenant:cms/x', 'bucket:cms']) {
      expect((await usage('cms/boss', account)).json.code).toBe('NotFound');
    }
    expect((await usage('cms/boss', 'bucket:cms/data')).json).toMatchObject({
      account: 'bucket:cms/data',
      requests: 0,
      storedBytes: 0,
    });
    expect((await usage('cms/alice', 'principal:cms/alice')).status).toBe(200);
    expect((await usage('cms/alice', 'principal:cms/bob')).status).toBe(404);
    expect((await usage('cms/alice', 'bucket:cms/data')).status).toBe(200);
    expect((await usage('cms/bob', 'bucket:cms/data')).status).toBe(404);
  });
});
