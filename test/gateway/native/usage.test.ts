// The native API of usage and of webhooks: what it answers, to whom, and what it keeps to itself.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Delegation } from '#bursar/authz/identity.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { type Fixture, openFixture, populate } from './fixture.ts';

let api: Fixture;

beforeEach(async () => {
  api = await openFixture();
  await populate(api);
});
afterEach(() => api.close());

const pathOf = (account: string) => `/_/v1/usage/${encodeURIComponent(account)}`;
const alice = 'principal:cms/alice';

describe('usage', () => {
  test('of an account without limits has counters, and no forecast', async () => {
    await api.charge(alice);
    expect((await api.call('cms/alice', 'GET', pathOf(alice))).json).toEqual({
      ...{ account: alice, spend: '0.00', requests: 1, ingressBytes: 0, egressBytes: 0 },
      ...{
        storedBytes: 0,
        heldBytes: 0,
        storedObjects: 0,
        isCounting: false,
        readsPaidBy: null,
        caps: [],
        accrued: '0.00',
      },
    });
  });

  test('of one with limits has each of them, with the rates that it goes by', async () => {
    for (let i = 0; i < 3; i++) await api.charge(alice);
    const limits = { requests: { day: 6, total: 4 }, spend: { month: '1.5' } };
    const path = `/_/v1/limits/${encodeURIComponent(alice)}`;
    expect((await api.call('cms/boss', 'PUT', path, limits)).status).toBe(200);
    const { json } = await api.call('cms/alice', 'GET', pathOf(alice));
    const figures = json.caps.map((cap: Record<string, unknown>) => [
      ...[cap.meter, cap.window, cap.limit, cap.used, cap.lost, cap.reserved, cap.percent],
    ]);
    expect(figures).toEqual([
      ['spend', 'month', '1.50', '0.00', '0.00', '0.00', 0],
      ['requests', 'day', '6', '3', '0', '0', 50],
      ['requests', 'total', '4', '3', '0', '0', 75],
    ]);
    expect(json.caps[1].forecasts[0]).toMatchObject({ basis: 'window' });
    expect(json.caps[1].resetAt).toMatch(/T00:00:00.000Z$/);
    expect(json.caps[2].resetAt).toBeNull();
  });

  test('is listed in pages, to the end', async () => {
    const names = Array.from(
      { length: 450 },
      (_, i) => `bucket:cms/b${String(i).padStart(3, '0')}`,
    );
    await api.charge(...names);
    const found: string[] = [];
    const sizes: number[] = [];
    for (let next: string | null = ''; next !== null; ) {
      const url = `/_/v1/usage?after=${encodeURIComponent(next)}`;
      const { json } = await api.call('cms/audit', 'GET', url);
      found.push(...json.usage.map(({ account }: { account: string }) => account));
      sizes.push(json.usage.length);
      next = json.next;
    }
    expect(found).toEqual(names);
    expect(sizes).toEqual([200, 200, 50]);
    for (const limit of ['0', '201', '1000', 'x']) {
      const answer = await api.call('cms/audit', 'GET', `/_/v1/usage?limit=${limit}`);
      expect(answer.json.code).toBe('InvalidInput');
    }
  });

  test('has no parts but by day, action and class, and only for days that are days', async () => {
    await api.charge(alice);
    for (const part of ['day', 'action', 'class']) {
      const { json } = await api.call('cms/alice', 'GET', `${pathOf(alice)}/by/${part}`);
      expect(json).toEqual({ by: part, rows: [], next: null, alteredRecords: 0, recordsBefore: 0 });
    }
    const asked = async (rest: string) =>
      (await api.call('cms/alice', 'GET', `${pathOf(alice)}/by/${rest}`)).json.code;
    expect(await asked('hour')).toBe('NotFound');
    expect(await asked('day?from=yesterday')).toBe('InvalidInput');
    expect(await asked('day?to=2026-13-01')).toBe('InvalidInput');
    const others = await api.call('cms/bob', 'GET', `${pathOf(alice)}/by/day`);
    expect(others.json.code).toBe('NotFound');
  });
});

describe('a webhook', () => {
  const path = '/_/v1/tenants/cms/alarm-hook';
  const url = 'https://hooks.example.org/bursar';

  test('is answered with its secret once, and kept without it', async () => {
    const made = await api.call('cms/boss', 'PUT', path, { url });
    expect(made).toMatchObject({
      status: 200,
      json: { tenant: 'cms', url, waiting: 0, problem: null, toldAt: null },
    });
    const { secret } = made.json;
    expect(Buffer.from(secret.slice('whsec_'.length), 'base64')).toHaveLength(32);
    const again = await api.call('cms/boss', 'PUT', path, { url });
    expect(again.json.secret).not.toBe(secret);
    const shown = await api.call('cms/boss', 'GET', path);
    expect(shown.json).toMatchObject({ tenant: 'cms', url });
    expect(shown.text).not.toContain('whsec_');
    // Neither is what the log has of it.
    const records = await api.call('ROOT', 'GET', '/_/v1/records?action=bursar:PutAlarmHook');
    expect(records.json.records).toHaveLength(2);
    expect(records.text).not.toContain('whsec_');
    expect(records.text).not.toContain(secret.slice('whsec_'.length));
    expect((await api.call('cms/boss', 'DELETE', path)).status).toBe(204);
    expect((await api.call('cms/boss', 'GET', path)).json.code).toBe('NotFound');
    expect((await api.call('cms/boss', 'DELETE', path)).json.code).toBe('NotFound');
  });

  test('is not made with a token, which it would outlive', async () => {
    const delegation: Delegation = {
      ...{ ids: ['x'], scope: parseScope('bursar.admin:/'), policies: [], accounts: [] },
      ...{ conditions: new ChainConditions([]), expiresAtMs: Number.MAX_SAFE_INTEGER },
    };
    api.narrow('cms/boss', delegation);
    expect((await api.call('cms/boss', 'PUT', path, { url })).json.code).toBe('AccessDenied');
    api.narrow('cms/boss', null);
    expect((await api.call('cms/boss', 'GET', path)).json.code).toBe('NotFound');
  });

  test('of the gateway and of each tenant are different ones', async () => {
    await api.call('ROOT', 'PUT', '/_/v1/alarm-hook', { url: `${url}/all` });
    await api.call('atlas/boss', 'PUT', '/_/v1/tenants/atlas/alarm-hook', { url: `${url}/atlas` });
    const urlOf = async (where: string) => (await api.call('ROOT', 'GET', where)).json.url;
    expect(await urlOf('/_/v1/alarm-hook')).toBe(`${url}/all`);
    expect(await urlOf('/_/v1/tenants/atlas/alarm-hook')).toBe(`${url}/atlas`);
    expect(await urlOf(path)).toBeUndefined();
    for (const who of ['cms/boss', 'cms/audit', 'cms/alice']) {
      for (const method of ['GET', 'DELETE']) {
        expect((await api.call(who, method, '/_/v1/alarm-hook')).status).toBe(403);
        const other = await api.call(who, method, '/_/v1/tenants/atlas/alarm-hook');
        expect(other.json.code).toBe('NoSuchTenant');
      }
    }
    for (const who of ['cms/audit', 'cms/alice']) {
      expect((await api.call(who, 'PUT', path, { url })).status).toBe(403);
    }
  });

  test('of one’s own accounts is one’s own to set, by mail alone', async () => {
    const own = '/_/v1/tenants/cms/principals/alice/alarm-hook';
    const url = 'mailto:alice@cms.example.org';
    api.mailTo(['cms.example.org']);
    const made = await api.call('cms/alice', 'PUT', own, { url });
    expect(made.json).toMatchObject({ tenant: 'cms', principal: 'alice', url, secret: null });
    expect((await api.call('cms/alice', 'GET', own)).json.url).toBe(url);
    expect((await api.call('cms/alice', 'POST', `${own}/test`)).json).toEqual({ problem: null });
    const elsewhere = await api.call('cms/alice', 'PUT', own, { url: 'mailto:alice@example.com' });
    expect(elsewhere.json.detail).toMatch(/example.com is none/);
    const webhook = 'https://hooks.example.org/alice';
    const refused = await api.call('cms/alice', 'PUT', own, { url: webhook });
    expect(refused.json).toMatchObject({ code: 'InvalidInput', field: 'body.url' });
    expect(refused.json.detail).toContain('only admins set a webhook for a principal');
    for (const [who, status] of Object.entries({ 'cms/bob': 403, 'cms/audit': 403 })) {
      for (const method of ['GET', 'DELETE', 'PUT']) {
        const body = method === 'PUT' ? { url } : undefined;
        expect((await api.call(who, method, own, body)).status).toBe(status);
      }
    }
    expect((await api.call('atlas/boss', 'GET', own)).json.code).toBe('NoSuchTenant');
    // The domains are the operator's word for all but the gateway's own address.
    const byRoot = await api.call('ROOT', 'PUT', own, { url: 'mailto:alice@example.com' });
    expect(byRoot.json.code).toBe('InvalidInput');
    expect((await api.call('cms/boss', 'PUT', own, { url: webhook })).json.secret).toMatch(
      /^whsec_/,
    );
    expect((await api.call('cms/alice', 'GET', own)).text).not.toContain('whsec_');
    expect((await api.call('cms/alice', 'DELETE', own)).status).toBe(204);
    expect((await api.call('cms/boss', 'GET', own)).json.detail).toBe('No webhook is set.');
    const nobody = '/_/v1/tenants/cms/principals/nobody/alarm-hook';
    for (const [method, body] of [['GET'], ['PUT', { url }]] as const) {
      const answer = await api.call('cms/boss', method, nobody, body);
      expect(answer.json.detail).toBe('There is no principal cms/nobody.');
    }
    // It goes with its owner.
    await api.call('cms/boss', 'POST', '/_/v1/tenants/cms/principals', { name: 'leaver' });
    const leavers = '/_/v1/tenants/cms/principals/leaver';
    expect((await api.call('cms/boss', 'PUT', `${leavers}/alarm-hook`, { url })).status).toBe(200);
    expect((await api.call('cms/boss', 'DELETE', leavers)).status).toBe(204);
    expect(await api.countHooks('cms')).toBe(0);
  });

  test('goes with its tenant', async () => {
    await api.call('ROOT', 'POST', '/_/v1/tenants', { name: 'lhcb' });
    const hook = '/_/v1/tenants/lhcb/alarm-hook';
    expect((await api.call('ROOT', 'PUT', hook, { url })).status).toBe(200);
    expect((await api.call('ROOT', 'DELETE', '/_/v1/tenants/lhcb')).status).toBe(204);
    expect((await api.call('ROOT', 'GET', hook)).json.code).toBe('NoSuchTenant');
  });

  test.each([{}, { url: 7 }, { url: 'http://hooks.example.org/' }, { url, secret: 'mine' }])(
    'is not made of %j',
    async (body) => {
      expect((await api.call('cms/boss', 'PUT', path, body)).json.code).toBe('InvalidInput');
    },
  );
});

test('metrics are for operators', async () => {
  const refused = await api.inject({ method: 'GET', url: '/_/metrics' });
  expect(refused).toMatchObject({ status: 401, json: { code: 'InvalidBearerToken' } });
  const answer = await api.call('ROOT', 'GET', '/_/v1/metrics');
  expect(answer).toMatchObject({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8' });
  expect(answer.text).toContain('bursar_metric_failures_total 0\n');
});
