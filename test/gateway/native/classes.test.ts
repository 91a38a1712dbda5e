// Storage classes in the native API: who may define them, for whom they are, and what is refused.
// The fixture has the stores local and cold, and gone, which is not configured any more.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { classesPerTenantMax } from '#bursar/core/limits.js';
import { type Fixture, openFixture, populate } from './fixture.ts';

let api: Fixture;

beforeEach(async () => {
  api = await openFixture();
  await populate(api);
});

afterEach(() => api.close());

const classes = '/_/v1/tenants/cms/classes';
const everybodys = '/_/v1/tenants/default/classes';
const durability = { legs: [{ store: 'cold' }] };
const derived = { name: 'derived', aliases: ['ONEZONE_IA'], durability, loss: 'report' };

test('an admin makes one, its tenant lists and shows it, and it is deleted', async () => {
  const made = await api.call('cms/boss', 'POST', classes, derived);
  expect(made).toMatchObject({
    status: 201,
    json: {
      tenant: 'cms',
      name: 'derived',
      aliases: ['ONEZONE_IA'],
      durability: { ...durability, ack: 1, repairHours: 24 },
      availability: { answer: 'first', maxOfflineHoursPerMonth: 0 },
      access: 'online',
      restoreWithinHours: null,
      loss: 'report',
      minimum: { days: 0, bytes: 0 },
      notWritable: null,
      explanation: {
        expectedAnnualLoss: 0.03,
        legs: [{ store: 'cold', domains: ['disk1'], annualLoss: 0.03, kind: 'online' }],
      },
    },
  });
  expect(api.entries.at(-1)).toMatchObject({
    action: 'bursar:CreateClass',
    target: 'tenants/cms/classes/derived',
  });
  for (const who of ['cms/alice', 'cms/audit', 'ROOT']) {
    const listed = await api.call(who, 'GET', classes);
    expect(listed).toMatchObject({ status: 200, json: { classes: [made.json] } });
    expect((await api.call(who, 'GET', `${classes}/derived`)).json).toEqual(made.json);
  }
  expect((await api.call('cms/boss', 'DELETE', `${classes}/derived`)).status).toBe(204);
  expect(await api.call('cms/boss', 'GET', `${classes}/derived`)).toMatchObject({
    status: 404,
    json: { code: 'NoSuchClass', detail: 'cms has no storage class derived.' },
  });
});

test("those of the gateway's tenant are everybody's, and operators alone make them", async () => {
  await api.apply({
    ...{ kind: 'createPrincipal', tenant: 'default', name: 'chief', principalKind: 'person' },
    ...{ role: 'admin', groups: [] },
  });
  expect((await api.call('ROOT', 'POST', everybodys, derived)).status).toBe(201);
  expect((await api.call('cms/alice', 'GET', classes)).json.classes).toMatchObject([
    { tenant: 'default', name: 'derived' },
  ]);
  const another = { ...derived, durability: { legs: [{ store: 'local' }] } };
  expect(await api.call('cms/boss', 'POST', classes, another)).toMatchObject({
    status: 409,
    json: { code: 'AlreadyExists' },
  });
  // An alias of everybody's may mean another class to a tenant.
  const own = await api.call('cms/boss', 'POST', classes, { ...another, name: 'own' });
  expect(own.status).toBe(201);
  expect(await api.call('ROOT', 'POST', everybodys, { ...derived, name: 'own' })).toMatchObject({
    status: 409,
  });
  expect((await api.call('cms/boss', 'DELETE', `${everybodys}/derived`)).status).toBe(404);
  expect((await api.call('ROOT', 'DELETE', `${everybodys}/derived`)).status).toBe(204);
});

test('who may not define them', async () => {
  for (const who of ['cms/alice', 'cms/audit']) {
    expect(await api.call(who, 'POST', classes, derived)).toMatchObject({ status: 403 });
  }
  expect((await api.call('atlas/boss', 'POST', classes, derived)).status).toBe(404);
  expect((await api.call('atlas/boss', 'GET', `${classes}/derived`)).status).toBe(404);
});

test.each([
  ['no legs', { durability: { legs: [] } }, /^body/],
  ['no durability', { durability: undefined }, /^body/],
  ['an unknown store', { durability: { legs: [{ store: 'warm' }] } }, /durability\.legs$/],
  ['one that is not configured', { durability: { legs: [{ store: 'gone' }] } }, /legs$/],
  ['one store twice', { durability: { legs: [{ store: 'cold' }, { store: 'cold' }] } }, /^body$/],
  ['more to acknowledge than legs', { durability: { ...durability, ack: 2 } }, /^body$/],
  ['an alias that is none of AWS', { aliases: ['COLD'] }, /aliases/],
  ['STANDARD as an alias', { aliases: ['STANDARD'] }, /aliases/],
  ['the name of STANDARD', { name: 'standard' }, /name$/],
  ['a name of upper case', { name: 'Derived' }, /name$/],
  ['a restore without an end', { access: 'restore' }, /^body$/],
  ['what is not known', { copies: 2 }, /^body/],
  ['another loss', { loss: 'never' }, /loss$/],
])('a class with %s is refused', async (_, change, field) => {
  const answer = await api.call('cms/boss', 'POST', classes, { ...derived, ...change });
  expect(answer).toMatchObject({ status: 400, json: { code: 'InvalidInput' } });
  expect(answer.json.field).toMatch(field);
  expect((await api.call('cms/boss', 'GET', classes)).json).toEqual({ classes: [] });
});

test('a name and an alias are taken once, and there is an end to them', async () => {
  await api.call('cms/boss', 'POST', classes, derived);
  for (const body of [
    { ...derived, aliases: [] },
    { ...derived, name: 'other' },
  ]) {
    expect(await api.call('cms/boss', 'POST', classes, body)).toMatchObject({
      status: 409,
      json: { code: 'AlreadyExists' },
    });
  }
  for (let i = 1; i < classesPerTenantMax; i++) {
    const body = { name: `c${i}`, durability };
    expect((await api.call('cms/boss', 'POST', classes, body)).status).toBe(201);
  }
  expect(await api.call('cms/boss', 'POST', classes, { name: 'more', durability })).toMatchObject({
    status: 409,
    json: { code: 'TooManyClasses' },
  });
});
