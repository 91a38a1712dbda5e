// Outside issuers in the native API: who may say which are trusted, and what can be said.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { issuersPerTenantMax } from '#bursar/core/limits.js';
import { type Fixture, openFixture, populate } from './native-fixture.ts';

let api: Fixture;

beforeAll(async () => {
  api = await openFixture();
  await populate(api);
});

afterAll(() => api.close());

const issuers = '/_/v1/tenants/cms/issuers';
const body = {
  url: 'https://iam.example/realms/cms',
  audience: 'https://bursar.example/cms',
  mapping: {
    pathPrefix: '/raw/2026',
    principals: { 'sub-1': 'alice' },
    groups: { '/cms': 'muons' },
  },
};

test('an admin of the tenant makes, replaces, lists, shows and deletes an issuer', async () => {
  const made = await api.call('cms/boss', 'PUT', `${issuers}/iam`, body);
  expect(made).toMatchObject({ status: 200 });
  expect(made.json).toEqual({
    tenant: 'cms',
    name: 'iam',
    ...body,
    mapping: { ...body.mapping, defaultPrincipal: null },
    keys: { count: 0, fetchedAt: null, problem: null },
    createdAt: expect.any(String),
  });
  expect(api.entries.at(-1)).toMatchObject({
    action: 'bursar:PutIssuer',
    target: 'tenants/cms/issuers/iam',
  });
  const mapping = { pathPrefix: '/a$b/%c3%bc/', defaultPrincipal: 'bob' };
  const replaced = await api.call('ROOT', 'PUT', `${issuers}/iam`, { ...body, mapping });
  expect(replaced.json).toEqual({
    ...made.json,
    mapping: { pathPrefix: '/a%24b/%C3%BC/', principals: {}, groups: {}, defaultPrincipal: 'bob' },
  });
  const listed = await api.call('cms/boss', 'GET', issuers);
  expect(listed.json).toEqual({ issuers: [replaced.json] });
  expect((await api.call('cms/boss', 'DELETE', `${issuers}/iam`)).status).toBe(204);
  expect((await api.call('cms/boss', 'GET', `${issuers}/iam`)).json.code).toBe('NoSuchIssuer');
  expect((await api.call('cms/boss', 'DELETE', `${issuers}/iam`)).json.code).toBe('NoSuchIssuer');
});

test.each([
  ['cms/alice', 'AccessDenied'],
  ['cms/audit', 'AccessDenied'],
  ['atlas/boss', 'NoSuchTenant'],
])('%s is refused with %s', async (who, code) => {
  const calls = [
    await api.call(who, 'PUT', `${issuers}/x`, body),
    await api.call(who, 'GET', issuers),
    await api.call(who, 'GET', `${issuers}/x`),
    await api.call(who, 'DELETE', `${issuers}/x`),
  ];
  expect(calls.map(({ json }) => json.code)).toEqual([code, code, code, code]);
});

describe('an issuer is refused', () => {
  test.each([
    'iam.example',
    'http://iam.example',
    'ftp://iam.example',
    'https://iam.example/?realm=cms',
    'https://iam.example/#cms',
    'https://user@iam.example',
    'https://IAM.example',
    'https://iam.example/a/../b',
    'https://iam.example:443',
    'http://127.0.0.1.example',
    'http://[::ffff:10.0.0.1]',
    `https://iam.example/${'x'.repeat(256)}`,
  ])('with the URL %s', async (url) => {
    const { status, json } = await api.call('cms/boss', 'PUT', `${issuers}/x`, { ...body, url });
    expect([status, json.field]).toEqual([400, 'body.url']);
  });

  test.each(['raw', '/raw/../x', '/raw/a%2Fb', '/a b', ''])(
    'with the path prefix %j',
    async (pathPrefix) => {
      const mapping = { pathPrefix };
      const answer = await api.call('cms/boss', 'PUT', `${issuers}/x`, { ...body, mapping });
      expect([answer.status, answer.json.field]).toEqual([400, 'body.mapping.pathPrefix']);
    },
  );

  test.each<[object, string]>([
    [{ principals: { s: 'nobody' } }, 'NoSuchPrincipal'],
    [{ defaultPrincipal: 'nobody' }, 'NoSuchPrincipal'],
    [{ groups: { g: 'none' } }, 'NoSuchGroup'],
    [{ principals: { s: 'Alice' } }, 'InvalidInput'],
    [{ principals: { '': 'alice' } }, 'InvalidInput'],
    [{ sub: 'alice' }, 'InvalidInput'],
  ])('with the mapping %j', async (mapping, code) => {
    const wanted = { ...body, mapping: { pathPrefix: '/', ...mapping } };
    const { json } = await api.call('cms/boss', 'PUT', `${issuers}/x`, wanted);
    expect(json.code).toBe(code);
  });

  test('with a name that is none', async () => {
    const { json } = await api.call('cms/boss', 'PUT', `${issuers}/X%20y`, body);
    expect(json.code).toBe('InvalidInput');
  });

  test('with the URL and audience of another, of whatever tenant', async () => {
    await api.call('cms/boss', 'PUT', `${issuers}/first`, body);
    const mapping = { pathPrefix: '/' };
    const again = { ...body, mapping };
    expect((await api.call('cms/boss', 'PUT', `${issuers}/x`, again)).json.code).toBe(
      'AlreadyExists',
    );
    const atlas = '/_/v1/tenants/atlas/issuers/x';
    expect((await api.call('atlas/boss', 'PUT', atlas, again)).json.code).toBe('AlreadyExists');
    const own = { ...again, audience: 'https://bursar.example/atlas' };
    expect((await api.call('atlas/boss', 'PUT', atlas, own)).status).toBe(200);
  });

  test('when the tenant trusts as many as it may', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < issuersPerTenantMax; i++) {
      const audience = `audience ${i}`;
      const { status } = await api.call('cms/boss', 'PUT', `${issuers}/i${i}`, {
        ...body,
        audience,
      });
      statuses.push(status);
    }
    // The one of the test before is one of them.
    expect(statuses.lastIndexOf(200)).toBe(issuersPerTenantMax - 2);
    expect(statuses.at(-1)).toBe(409);
  });
});
