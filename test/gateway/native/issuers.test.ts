// Outside issuers in the native API: who may say which are trusted, and what can be said.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { issuersPerTenantMax } from '#bursar/core/limits.js';
import { type Fixture, openFixture, populate } from './fixture.ts';

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

  test('with the URL and audience of another of the tenant', async () => {
    await api.call('cms/boss', 'PUT', `${issuers}/first`, body);
    const again = await api.call('cms/boss', 'PUT', `${issuers}/x`, body);
    expect(again.json.code).toBe('AlreadyExists');
  });

  test('with an audience that is not its own, the same whether another has it', async () => {
    const atlas = '/_/v1/tenants/atlas/issuers/x';
    const mapping = { pathPrefix: '/' };
    const put = (who: string, path: string, audience: string) =>
      api.call(who, 'PUT', path, { ...body, mapping, audience });
    const answers = [
      await put('atlas/boss', atlas, body.audience),
      await put('atlas/boss', atlas, 'https://bursar.example/lhcb'),
      await put('atlas/boss', atlas, 'https://bursar.example/atlas/'),
      await put('atlas/boss', atlas, 'https://bursar.example/xatlas'),
      await put('atlas/boss', atlas, 'atlas'),
    ];
    const { requestId: _, ...first } = (answers[0] as (typeof answers)[0]).json;
    expect(first.code).toBe('InvalidAudience');
    for (const { status, json } of answers) expect([status, json]).toMatchObject([400, first]);
    expect((await put('atlas/boss', atlas, 'https://bursar.example/atlas')).status).toBe(200);
  });

  test('with another audience only by those who are no operators', async () => {
    const free = { ...body, audience: 'cilogon:/client_id/0a1b' };
    const [given, other] = [`${issuers}/given`, '/_/v1/tenants/atlas/issuers/y'];
    const code = async (who: string, path: string, wanted: object) =>
      (await api.call(who, 'PUT', path, wanted)).json.code;
    expect(await code('cms/boss', given, free)).toBe('InvalidAudience');
    expect((await api.call('ROOT', 'PUT', given, free)).status).toBe(200);
    // It stays the tenant's: its admin may change the rest, and nobody else may have it.
    const mapping = { pathPrefix: '/other' };
    const changed = await api.call('cms/boss', 'PUT', given, { ...free, mapping });
    expect(changed.json.mapping.pathPrefix).toBe('/other');
    const atlas = { ...free, mapping };
    expect(await code('atlas/boss', other, atlas)).toBe('InvalidAudience');
    expect(await code('ROOT', other, atlas)).toBe('AlreadyExists');
    // Not even an operator gives one tenant what names another.
    const named = { ...atlas, audience: 'https://elsewhere.example/cms' };
    expect(await code('ROOT', other, named)).toBe('InvalidAudience');
    expect((await api.call('cms/boss', 'DELETE', given)).status).toBe(204);
    expect(await code('atlas/boss', other, atlas)).toBe('InvalidAudience');
  });

  test('when the tenant trusts as many as it may', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < issuersPerTenantMax; i++) {
      const audience = `https://s3-${i}.example/cms`;
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
