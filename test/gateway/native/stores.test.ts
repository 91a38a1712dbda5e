// Stores in the native API: who sees them, and which a tenant may have for its new buckets. The
// fixture has the stores local and cold, and gone, which is not configured any more.
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

describe('the list of stores', () => {
  test('shows an operator each with its place, its state and why it is not ready', async () => {
    const { status, json, receipt } = await api.call('ROOT', 'GET', '/_/v1/stores');
    expect(status).toBe(200);
    expect(receipt).toBeDefined();
    expect(json.stores).toEqual([
      expect.objectContaining({ number: 1, name: 'local', isDefault: true, ready: true }),
      {
        number: 2,
        name: 'cold',
        location: 's3://cold',
        isConfigured: true,
        isDefault: false,
        ready: true,
        canRead: true,
        reason: null,
        declared: {
          kind: 'online',
          domains: ['disk1'],
          annualLoss: 0.03,
          drills: true,
          storageClass: null,
        },
        drill: null,
        health: { breaker: 'closed' },
        detail: { requests: 7 },
      },
      expect.objectContaining({
        name: 'gone',
        isConfigured: false,
        ready: false,
        reason: 'it is not configured',
      }),
    ]);
  });

  test.each(['cms/boss', 'cms/audit', 'cms/alice'])('is not for %s', async (who) => {
    expect(await api.call(who, 'GET', '/_/v1/stores')).toMatchObject({
      status: 403,
      json: { code: 'AccessDenied' },
    });
  });
});

describe("a tenant's store for new buckets", () => {
  test('is none at first, can be given at its creation, changed and taken away', async () => {
    expect((await api.call('ROOT', 'GET', cms)).json).toMatchObject({ defaultStore: null });
    const body = { name: 'lhcb', defaultStore: 'cold' };
    const made = await api.call('ROOT', 'POST', tenants, body);
    expect(made).toMatchObject({ status: 201, json: body });
    const changed = await api.call('cms/boss', 'PATCH', cms, { defaultStore: 'cold' });
    expect(changed).toMatchObject({
      status: 200,
      json: { defaultStore: 'cold', membersCreateBuckets: true },
    });
    const other = await api.call('cms/boss', 'PATCH', cms, { membersCreateBuckets: false });
    expect(other.json).toMatchObject({ defaultStore: 'cold', membersCreateBuckets: false });
    const taken = await api.call('cms/boss', 'PATCH', cms, { defaultStore: null });
    expect(taken.json).toMatchObject({ defaultStore: null, membersCreateBuckets: false });
  });

  test.each([
    ['of an unknown name', 'warm'],
    ['that is not configured', 'gone'],
    ['of no name', ''],
    ['that is a number', 2],
    ['of a name that is too long', 'c'.repeat(64)],
  ])('%s is refused, and nothing changes', async (_what, defaultStore) => {
    const refused = {
      status: 400,
      json: { code: 'InvalidInput', field: 'body.defaultStore' },
    };
    expect(await api.call('ROOT', 'PATCH', cms, { defaultStore })).toMatchObject(refused);
    const body = { name: 'lhcb', defaultStore };
    expect(await api.call('ROOT', 'POST', tenants, body)).toMatchObject(refused);
    expect((await api.call('ROOT', 'GET', cms)).json).toMatchObject({ defaultStore: null });
    expect(await api.directory.readTenant('lhcb')).toBeUndefined();
  });

  test('a change of nothing is refused', async () => {
    expect(await api.call('ROOT', 'PATCH', cms, {})).toMatchObject({
      status: 400,
      json: { code: 'InvalidInput', field: 'body' },
    });
  });
});
