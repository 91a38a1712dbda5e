// What the native API refuses before it does anything, how refusals look, and its description.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Fixture, openFixture, populate } from './fixture.ts';

let api: Fixture;

beforeEach(async () => {
  api = await openFixture();
  await populate(api);
});

afterEach(() => api.close());

const tenants = '/_/v1/tenants';

describe('a problem document', () => {
  test('has all members of RFC 9457 and its own', async () => {
    const answer = await api.call('ROOT', 'GET', `${tenants}/nowhere`);
    expect(answer.type).toBe('application/problem+json; charset=utf-8');
    expect(answer.json).toEqual({
      type: 'urn:bursar:error:NoSuchTenant',
      title: 'The tenant does not exist.',
      status: 404,
      detail: 'There is no tenant nowhere.',
      code: 'NoSuchTenant',
      requestId: expect.stringMatching(/^[0-9A-F]{16}$/),
      instance: `${tenants}/nowhere`,
    });
  });

  test.each(['/_/v1/nothing', '/_/', '/_', '/_/v2/tenants'])(
    'answers %s with 404, to everybody',
    async (url) => {
      for (const method of ['GET', 'PUT', 'DELETE'] as const) {
        expect(await api.inject({ method, url })).toMatchObject({
          status: 404,
          json: { code: 'NotFound', instance: url },
        });
      }
    },
  );

  test('answers a path that cannot be decoded', async () => {
    expect(await api.inject({ method: 'GET', url: `${tenants}/%zz` })).toMatchObject({
      status: 400,
      type: 'application/problem+json; charset=utf-8',
      json: { code: 'InvalidURI' },
    });
  });

  test('leaves the S3 side alone', async () => {
    expect((await api.inject({ method: 'GET', url: '/bucket/_/v1/tenants' })).text).toBe(
      'the S3 side',
    );
  });

  test('tells nothing of a bug', async () => {
    api.breakNextCommit();
    const answer = await api.call('ROOT', 'GET', tenants);
    expect(answer).toMatchObject({ status: 500, json: { code: 'InternalError' } });
    expect(answer.text).not.toContain('fire');
  });

  test('replaces an answer, even a refusal, that could not be recorded', async () => {
    api.breakNextCommit();
    expect(await api.call('cms/alice', 'GET', tenants)).toMatchObject({ status: 500 });
  });
});

describe('bad input', () => {
  const invalid = (field: string) => ({ status: 400, json: { code: 'InvalidInput', field } });

  test.each([
    ['a missing member', {}, 'body.name'],
    ['an unknown member', { name: 'lhcb', colour: 'red' }, 'body.colour'],
    ['a wrong type', { name: 5 }, 'body.name'],
    [
      'a text for a truth value',
      { name: 'lhcb', membersCreateBuckets: 'true' },
      'body.membersCreateBuckets',
    ],
    ['capitals', { name: 'LHCb' }, 'body.name'],
    ['an empty name', { name: '' }, 'body.name'],
    ['a long name', { name: 'a'.repeat(64) }, 'body.name'],
    ['a path', { name: '../x' }, 'body.name'],
    ['a newline after the name', { name: 'lhcb\n' }, 'body.name'],
    ['half a surrogate pair', { name: 'lhcb\ud800' }, 'body'],
    ['an array', [], 'body'],
    ['null', null, 'body'],
  ])('%s is refused by name', async (_what, body, field) => {
    expect(await api.call('ROOT', 'POST', tenants, body)).toMatchObject(invalid(field));
    expect(await api.directory.readTenant('lhcb')).toBeUndefined();
  });

  test('members deep inside are named too', async () => {
    const url = `${tenants}/cms/principals`;
    const wrongName = await api.call('ROOT', 'POST', url, { name: 'x', groups: ['muons', 'BAD'] });
    expect(wrongName).toMatchObject(invalid('body.groups.1'));
    expect(wrongName.json.detail).toMatch(
      /^body\.groups\.1: "BAD" cannot be a name: it has at most/,
    );
    const wrongRole = await api.call('ROOT', 'POST', url, { name: 'x', role: 'king' });
    expect(wrongRole).toMatchObject(invalid('body.role'));
    expect(wrongRole.json.detail).toContain('operator, admin, auditor, member');
    expect(await api.call('ROOT', 'PATCH', `${url}/alice`, {})).toMatchObject(invalid('body'));
  });

  test.each([
    ['limit=0', 'querystring.limit'],
    ['limit=1001', 'querystring.limit'],
    ['from=yesterday', 'querystring.from'],
    ['cursor=x', 'querystring.cursor'],
    ['limitt=5', 'querystring.limitt'],
  ])('a query with %s is refused by name', async (query, field) => {
    expect(await api.call('ROOT', 'GET', `/_/v1/records?${query}`)).toMatchObject(invalid(field));
  });

  test.each([
    ['broken JSON', '{"name":'],
    ['a reach for the prototype', '{"name":"lhcb","__proto__":{"x":1}}'],
    ['a reach for the constructor', '{"name":"lhcb","constructor":{"prototype":{}}}'],
    ['bytes that are no UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
  ])('%s is refused', async (_what, payload) => {
    const headers = { 'x-test-key': 'ROOT', 'content-type': 'application/json' };
    const answer = await api.inject({ method: 'POST', url: tenants, headers, payload });
    expect(answer).toMatchObject(invalid('body'));
  });

  test('a body of another type is refused', async () => {
    const headers = { 'x-test-key': 'ROOT', 'content-type': 'application/x-www-form-urlencoded' };
    const payload = '{"name":"lhcb"}';
    const answer = await api.inject({ method: 'POST', url: tenants, headers, payload });
    expect(answer).toMatchObject(invalid('body'));
  });

  test('a body where none belongs is refused', async () => {
    const url = `${tenants}/cms/groups/muons`;
    expect(await api.call('ROOT', 'DELETE', url, {})).toMatchObject({
      status: 400,
      json: { code: 'UnexpectedContent' },
    });
    expect(await api.directory.readGroup('cms', 'muons')).toBeDefined();
  });

  test('a body over 64 KiB is refused, and nobody has to sign in for that', async () => {
    const payload = Buffer.alloc(64 * 1024 + 1, ' ');
    const headers = { 'content-type': 'application/json' };
    const answer = await api.inject({ method: 'POST', url: tenants, headers, payload });
    expect(answer).toMatchObject({ status: 400, json: { code: 'MaxMessageLengthExceeded' } });
  });

  test('a stranger is told nothing of the schema', async () => {
    expect(await api.call('nobody', 'POST', tenants, { colour: 'red' })).toMatchObject({
      status: 403,
      json: { code: 'InvalidAccessKeyId' },
    });
  });

  test('names with NUL, slashes and quotes in the path are just unknown', async () => {
    for (const name of [
      'a'.repeat(1000),
      '%00',
      'a%2Fb',
      "'%20OR%201=1--",
      '%F0%9F%90%99',
      '..%2f..',
    ]) {
      expect(await api.call('ROOT', 'GET', `${tenants}/${name}`)).toMatchObject({ status: 404 });
    }
  });
});

describe('health', () => {
  test('is 200 where writes are possible, else 503, and tells strangers no numbers', async () => {
    const ask = async (url: string) => {
      const { status, json } = await api.inject({ method: 'GET', url });
      return [status, json];
    };
    const well = { ready: true, reads: true, writes: true, problems: [] };
    expect(await ask('/_/health')).toEqual([200, well]);
    api.setReady(false);
    const ill = { ready: false, reads: true, writes: false, problems: ['Something is wrong.'] };
    expect(await ask('/_/health')).toEqual([503, ill]);
    expect(await ask('/_/health/read')).toEqual([200, { ...ill, ready: true }]);
    expect(await ask('/_/health/live')).toEqual([200, { live: true }]);
  });

  test('tells numbers to operators, and to nobody else', async () => {
    const url = '/_/v1/health';
    expect(await api.call('ROOT', 'GET', url)).toMatchObject({
      status: 200,
      json: { ready: true, stores: { local: { freeBytes: 7 } }, version: expect.any(String) },
    });
    expect((await api.call('ADMIN', 'GET', url)).status).toBe(403);
    const headers = { authorization: 'Bearer something' };
    expect((await api.inject({ method: 'GET', url: '/_/health', headers })).status).toBe(401);
  });
});

describe('the description', () => {
  test('is OpenAPI 3.1 and names every path, body and error', async () => {
    const { status, json } = await api.inject({ method: 'GET', url: '/_/v1/openapi.json' });
    expect(status).toBe(200);
    expect(json.openapi).toMatch(/^3\.1\./);
    expect(Object.keys(json.paths).sort()).toEqual([
      '/_/v1/alarm-hook',
      '/_/v1/alarm-hook/test',
      '/_/v1/clock',
      '/_/v1/clock/confirmations',
      '/_/v1/deep-verification',
      '/_/v1/explain',
      '/_/v1/health',
      '/_/v1/keys',
      '/_/v1/keys/rotations',
      '/_/v1/limits',
      '/_/v1/limits/{account}',
      '/_/v1/limits/{account}/reconcile',
      '/_/v1/log',
      '/_/v1/log/keys',
      '/_/v1/log/keys/rotations',
      '/_/v1/log/keys/{id}',
      '/_/v1/metrics',
      '/_/v1/price-books',
      '/_/v1/receipts/{index}',
      '/_/v1/records',
      '/_/v1/requests/{request}',
      '/_/v1/shares',
      '/_/v1/shares/{id}',
      '/_/v1/shares/{id}/principal',
      '/_/v1/store-costs',
      '/_/v1/stores',
      '/_/v1/stores/{store}/drills',
      '/_/v1/tenants',
      '/_/v1/tenants/{t}',
      '/_/v1/tenants/{t}/alarm-hook',
      '/_/v1/tenants/{t}/alarm-hook/test',
      '/_/v1/tenants/{t}/aliases',
      '/_/v1/tenants/{t}/buckets/{bucket}',
      '/_/v1/tenants/{t}/buckets/{bucket}/inventories',
      '/_/v1/tenants/{t}/buckets/{bucket}/inventories/{id}/run',
      '/_/v1/tenants/{t}/buckets/{bucket}/locks',
      '/_/v1/tenants/{t}/buckets/{bucket}/objects',
      '/_/v1/tenants/{t}/buckets/{bucket}/owner',
      '/_/v1/tenants/{t}/buckets/{bucket}/purges',
      '/_/v1/tenants/{t}/buckets/{bucket}/snapshots',
      '/_/v1/tenants/{t}/buckets/{bucket}/snapshots/{snapshot}',
      '/_/v1/tenants/{t}/buckets/{bucket}/snapshots/{snapshot}/diff',
      '/_/v1/tenants/{t}/buckets/{bucket}/undelete',
      '/_/v1/tenants/{t}/buckets/{bucket}/uploads/{upload}/initiator',
      '/_/v1/tenants/{t}/buckets/{bucket}/uses',
      '/_/v1/tenants/{t}/bundle',
      '/_/v1/tenants/{t}/bundle/{index}',
      '/_/v1/tenants/{t}/changes',
      '/_/v1/tenants/{t}/classes',
      '/_/v1/tenants/{t}/classes/{class}',
      '/_/v1/tenants/{t}/copies',
      '/_/v1/tenants/{t}/copies/{extent}',
      '/_/v1/tenants/{t}/erasures',
      '/_/v1/tenants/{t}/grants',
      '/_/v1/tenants/{t}/grants/{grant}',
      '/_/v1/tenants/{t}/groups',
      '/_/v1/tenants/{t}/groups/{g}',
      '/_/v1/tenants/{t}/issuers',
      '/_/v1/tenants/{t}/issuers/{i}',
      '/_/v1/tenants/{t}/mounts',
      '/_/v1/tenants/{t}/mounts/{mount}',
      '/_/v1/tenants/{t}/own-mounts',
      '/_/v1/tenants/{t}/principals',
      '/_/v1/tenants/{t}/principals/{p}',
      '/_/v1/tenants/{t}/principals/{p}/access-keys',
      '/_/v1/tenants/{t}/principals/{p}/access-keys/{id}',
      '/_/v1/tenants/{t}/principals/{p}/alarm-hook',
      '/_/v1/tenants/{t}/principals/{p}/alarm-hook/test',
      '/_/v1/tenants/{t}/principals/{p}/holdings',
      '/_/v1/tenants/{t}/principals/{p}/mounts',
      '/_/v1/tenants/{t}/principals/{p}/mounts/{mount}',
      '/_/v1/tenants/{t}/principals/{p}/public-keys',
      '/_/v1/tenants/{t}/principals/{p}/public-keys/{id}',
      '/_/v1/tenants/{t}/recipe',
      '/_/v1/tenants/{t}/targets',
      '/_/v1/tenants/{t}/targets/{target}',
      '/_/v1/tenants/{t}/targets/{target}/dead-letters',
      '/_/v1/tenants/{t}/targets/{target}/resend',
      '/_/v1/tenants/{t}/targets/{target}/test',
      '/_/v1/tenants/{t}/work',
      '/_/v1/tenants/{t}/work/leases',
      '/_/v1/tenants/{t}/work/{id}',
      '/_/v1/tokens',
      '/_/v1/tokens/{jti}',
      '/_/v1/usage',
      '/_/v1/usage/{account}',
      '/_/v1/usage/{account}/by/{part}',
      '/_/v1/verifications',
      '/_/v1/whoami',
    ]);
    const create = json.paths['/_/v1/tenants'].post;
    expect(create.operationId).toBe('CreateTenant');
    const body = create.requestBody.content['application/json'].schema;
    expect(body).toMatchObject({ required: ['name'], additionalProperties: false });
    expect(Object.keys(create.responses)).toEqual(['201', 'default']);
    expect(Object.keys(create.responses.default.content)).toEqual(['application/problem+json']);
  });
});
