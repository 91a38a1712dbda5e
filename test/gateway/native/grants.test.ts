// Grants and mounts on a served gateway, with two tenants: what one grants, the other may from its
// next request on, and no more than that; and what the gateway says of why.
import {
  GetObjectCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  as,
  callNative,
  clientOf,
  type Keys,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../../protocol/target.ts';
import { parseMetrics, totalOf } from '../../tooling/metrics-text.ts';

let target: Target;
let people: Record<'boss' | 'alice' | 'audit' | 'chief' | 'bob' | 'eve', Keys>;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  people = {
    boss: await newPrincipal(target, { tenant: 'cms', name: 'boss', role: 'admin' }),
    alice: await newPrincipal(target, { tenant: 'cms', name: 'alice' }),
    audit: await newPrincipal(target, { tenant: 'cms', name: 'audit', role: 'auditor' }),
    chief: await newPrincipal(target, { tenant: 'atlas', name: 'chief', role: 'admin' }),
    bob: await newPrincipal(target, { tenant: 'atlas', name: 'bob' }),
    eve: await newPrincipal(target, { tenant: 'atlas', name: 'eve' }),
  };
  const owner = clientOf(as(target, people.alice));
  await send(as(target, people.alice), { method: 'PUT', path: '/raw' });
  for (const Key of ['2025/x', '2026/x', '20260', 'top']) {
    await owner.send(new PutObjectCommand({ Bucket: 'raw', Key, Body: `body of ${Key}` }));
  }
}, 60_000);

afterAll(() => target.stop());

const grants = '/_/v1/tenants/cms/grants';
const mounts = '/_/v1/tenants/atlas/mounts';

/** Calls as one of the people; gives the status and the parsed answer. */
async function call(who: keyof typeof people, method: string, path: string, content?: object) {
  const headers: Record<string, string> = content ? { 'content-type': 'application/json' } : {};
  const body = content ? JSON.stringify(content) : '';
  const [url = '', search = ''] = path.split('?');
  const query = [...new URLSearchParams(search)];
  const answer = await send(as(target, people[who]), { method, path: url, query, headers, body });
  return { status: answer.status, json: answer.text === '' ? null : JSON.parse(answer.text) };
}

function put(name: string, rule: object, who: keyof typeof people = 'boss') {
  return call(who, 'PUT', `${grants}/${name}`, { effect: 'allow', ...rule });
}

const readers = {
  subjects: ['principal:atlas/bob'],
  actions: ['s3:GetObject'],
  bucket: 'raw',
  prefix: '2026/',
};

/** What a principal sees of the bucket: keys listed, or the code of the refusal. */
async function list(who: keyof typeof people, bucket: string, prefix?: string): Promise<unknown> {
  const client = clientOf(as(target, people[who]));
  const command = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix });
  return client.send(command).then(
    ({ Contents = [] }) => Contents.map(({ Key }) => Key),
    (error: Error) => error.name,
  );
}

async function read(who: keyof typeof people, bucket: string, key: string): Promise<string> {
  const client = clientOf(as(target, people[who]));
  return client.send(new GetObjectCommand({ Bucket: bucket, Key: key })).then(
    ({ Body }) => Body?.transformToString() ?? '',
    (error: Error) => error.name,
  );
}

beforeEach(async () => {
  const { json } = await call('boss', 'GET', grants);
  for (const { name } of json.grants) await call('boss', 'DELETE', `${grants}/${name}`);
});

describe("a grant on a part of a tenant's bucket", () => {
  test('lets a principal of another list and read that part, and nothing around it', async () => {
    expect(await read('bob', 'cms:raw', '2026/x')).toBe('AccessDenied');
    expect(await put('readers', readers)).toMatchObject({
      status: 200,
      json: { tenant: 'cms', name: 'readers', ...readers },
    });
    expect(await read('bob', 'cms:raw', '2026/x')).toBe('body of 2026/x');
    expect(await list('bob', 'cms:raw', '2026/')).toEqual(['2026/x']);
    for (const prefix of [undefined, '', '2026', '2025/', '202']) {
      expect(await list('bob', 'cms:raw', prefix)).toBe('AccessDenied');
    }
    for (const key of ['2025/x', '20260', 'top', 'never']) {
      expect(await read('bob', 'cms:raw', key)).toBe('AccessDenied');
    }
    expect(await read('eve', 'cms:raw', '2026/x')).toBe('AccessDenied');
    const write = { method: 'PUT', path: '/cms:raw/2026/new', body: 'x' };
    expect((await send(as(target, people.bob), write)).code).toBe('AccessDenied');
  });

  test('counts as it is now: replaced, denied and deleted from the next request on', async () => {
    await put('readers', readers);
    await put('readers', { ...readers, prefix: '2025/' });
    expect(await read('bob', 'cms:raw', '2026/x')).toBe('AccessDenied');
    expect(await read('bob', 'cms:raw', '2025/x')).toBe('body of 2025/x');
    await put('not-bob', { ...readers, prefix: undefined, effect: 'deny' });
    expect(await read('bob', 'cms:raw', '2025/x')).toBe('AccessDenied');
    await call('boss', 'DELETE', `${grants}/not-bob`);
    expect(await read('bob', 'cms:raw', '2025/x')).toBe('body of 2025/x');
    await call('boss', 'DELETE', `${grants}/readers`);
    expect(await read('bob', 'cms:raw', '2025/x')).toBe('AccessDenied');
    expect(await call('boss', 'DELETE', `${grants}/readers`)).toMatchObject({
      status: 404,
      json: { code: 'NoSuchGrant' },
    });
  });

  test('that denies takes from the owner and the admin too, but not the way back', async () => {
    const all = { subjects: ['anyone'], actions: ['*'], effect: 'deny' };
    await put('closed', all);
    expect(await read('alice', 'raw', 'top')).toBe('AccessDenied');
    expect(await read('boss', 'raw', 'top')).toBe('AccessDenied');
    expect((await call('boss', 'GET', '/_/v1/tenants/cms/principals')).status).toBe(403);
    expect((await call('boss', 'DELETE', `${grants}/closed`)).status).toBe(204);
    expect(await read('alice', 'raw', 'top')).toBe('body of top');
  });

  test('is refused when a name of the own tenant is not there, and taken for others', async () => {
    const named = (subject: string) => put('named', { ...readers, subjects: [subject] });
    expect((await named('principal:cms/nobody')).json.code).toBe('NoSuchPrincipal');
    expect((await named('group:cms/nobody')).json.code).toBe('NoSuchGroup');
    expect((await named('principal:atlas/nobody')).status).toBe(200);
    expect((await named('group:nowhere/nobody')).status).toBe(200);
    const wrong = await put('wrong', { ...readers, actions: ['s3:GetObjekt'] });
    expect(wrong).toMatchObject({ status: 400, json: { code: 'InvalidInput' } });
    expect((await put('NO', readers)).json).toMatchObject({
      code: 'InvalidInput',
      detail: expect.stringMatching(/^"NO" cannot be the name of a grant: a name has at most 63/),
    });
  });

  test('is refused where 100 of one subject are in one place, unless it replaces one', async () => {
    const crowd = Array.from({ length: 100 }, (_, i) => put(`crowd-${i}`, readers));
    for (const one of await Promise.all(crowd)) expect(one.status).toBe(200);
    const more = await put('more', readers);
    expect(more).toMatchObject({ status: 409, json: { code: 'TooManyGrants' } });
    const receipt = await call('boss', 'GET', '/_/v1/records?action=bursar:PutGrant&limit=1000');
    const last = receipt.json.records.at(-1);
    expect(last).toMatchObject({ error: 'TooManyGrants', target: 'tenants/cms/grants/more' });
    expect((await put('crowd-7', readers)).status).toBe(200);
    const page = await call('boss', 'GET', `${grants}?limit=60`);
    const rest = await call('boss', 'GET', `${grants}?limit=60&after=${page.json.next}`);
    expect([page.json.grants.length, rest.json.grants.length]).toEqual([60, 40]);
  });

  test('shows what was done with it to both tenants, and charges both', async () => {
    await put('readers', readers);
    await read('bob', 'cms:raw', '2026/x');
    const wanted = { tenant: 'atlas', principal: 'bob', bucket: 'raw', bucketTenant: 'cms' };
    const seen = async (who: keyof typeof people, query = '') => {
      const path = `/_/v1/records?action=s3:GetObject&bucket=raw&prefix=2026/&limit=1000${query}`;
      return (await call(who, 'GET', path)).json.records;
    };
    const found = expect.objectContaining({ ...wanted, status: 200 });
    for (const who of ['boss', 'audit', 'chief', 'bob'] as const) {
      await expect.poll(() => seen(who)).toContainEqual(found);
    }
    expect(await seen('boss', '&principal=atlas/bob')).toContainEqual(found);
    expect(await seen('boss', '&tenant=atlas')).toContainEqual(found);
    expect(await seen('alice')).not.toContainEqual(found);
    expect(await seen('eve')).not.toContainEqual(found);
    const egressBytes = async (who: keyof typeof people, account: string) => {
      const { json } = await call(who, 'GET', '/_/v1/usage');
      const rows: { account: string; egressBytes: number }[] = json.usage;
      return rows.find((row) => row.account === account)?.egressBytes;
    };
    expect(await egressBytes('boss', 'bucket:cms/raw')).toBeGreaterThanOrEqual(14);
    expect(await egressBytes('chief', 'principal:atlas/bob')).toBeGreaterThanOrEqual(14);
    expect(await egressBytes('chief', 'bucket:cms/raw')).toBeUndefined();
  });
});

describe('a grant of administration', () => {
  test('to a principal of another tenant shows what was done by it to both tenants', async () => {
    const name = 'visitor';
    const principals = '/_/v1/tenants/cms/principals';
    const create = () => call('bob', 'POST', principals, { name });
    // To who is let in by nothing there is no such tenant, and the tenant has no record of it.
    expect((await create()).status).toBe(404);
    await put('helper', { subjects: ['principal:atlas/bob'], actions: ['bursar:*'] });
    expect((await create()).status).toBe(201);
    expect((await create()).status).toBe(409);
    expect((await call('bob', 'POST', `${principals}/${name}/access-keys`)).status).toBe(201);
    expect((await call('bob', 'DELETE', `${principals}/boss`)).status).toBe(403);
    const seen = async (who: keyof typeof people) => {
      const { json } = await call(who, 'GET', '/_/v1/records?principal=atlas/bob&limit=1000');
      const records: { action: string; status: number; bucketTenant?: string }[] = json.records;
      return records
        .filter(({ bucketTenant }) => bucketTenant === 'cms')
        .map(({ action, status }) => [action, status])
        .filter(([action]) => String(action).startsWith('bursar:'));
    };
    for (const who of ['boss', 'audit', 'chief'] as const) {
      expect(await seen(who)).toEqual([
        ['bursar:CreatePrincipal', 201],
        ['bursar:CreatePrincipal', 409],
        ['bursar:CreateAccessKey', 201],
        ['bursar:DeletePrincipal', 403],
      ]);
    }
  });
});

describe('a mount', () => {
  test("is a name for another tenant's bucket, and gives no right", async () => {
    const made = { bucketTenant: 'cms', bucket: 'raw' };
    expect(await call('chief', 'PUT', `${mounts}/theirs`, made)).toMatchObject({
      status: 200,
      json: { tenant: 'atlas', name: 'theirs', ...made },
    });
    expect(await read('bob', 'theirs', '2026/x')).toBe('AccessDenied');
    expect(await list('chief', 'theirs')).toBe('AccessDenied');
    await put('readers', readers);
    expect(await read('bob', 'theirs', '2026/x')).toBe('body of 2026/x');
    expect(await list('bob', 'theirs', '2026/')).toEqual(['2026/x']);
    await call('chief', 'DELETE', `${mounts}/theirs`);
    expect(await read('bob', 'theirs', '2026/x')).toBe('NoSuchBucket');
    expect(await call('chief', 'GET', `${mounts}/theirs`)).toMatchObject({
      json: { code: 'NoSuchMount' },
    });
  });

  test('and a bucket never have one name, whichever comes first or both at once', async () => {
    const made = { bucketTenant: 'cms', bucket: 'nowhere' };
    const create = (name: string) =>
      send(as(target, people.bob), { method: 'PUT', path: `/${name}` });
    await create('first');
    expect((await call('chief', 'PUT', `${mounts}/first`, made)).json).toMatchObject({
      ...{ code: 'AlreadyExists', detail: expect.stringContaining('atlas has a bucket first') },
    });
    expect((await call('chief', 'PUT', `${mounts}/second`, made)).status).toBe(200);
    expect((await create('second')).code).toBe('BucketAlreadyExists');
    for (let i = 0; i < 5; i++) {
      const both = await Promise.all([
        create(`race-${i}`),
        call('chief', 'PUT', `${mounts}/race-${i}`, made),
      ]);
      expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    }
  });

  test('that leads to no bucket says so to whom that is granted', async () => {
    await put('all', { subjects: ['tenant:atlas'], actions: ['s3:*'] });
    await call('chief', 'PUT', `${mounts}/dangling`, { bucketTenant: 'cms', bucket: 'gone' });
    expect(await read('bob', 'dangling', 'k')).toBe('NoSuchBucket');
    const { json } = await call('chief', 'GET', mounts);
    expect(json.mounts).toContainEqual(expect.objectContaining({ name: 'dangling' }));
  });
});

describe('whom a rule names that is nobody', () => {
  const unchecked = 'not checked whether there is principal:atlas/bbo: ';

  test('is warned about in the answer, as far as who asks may know', async () => {
    const { json } = await put('typo', { ...readers, subjects: ['principal:atlas/bbo'] });
    expect(json.warnings).toEqual([expect.stringContaining(unchecked)]);
    // The same of somebody who is there: neither the answer nor its time tells.
    const { json: same } = await put('bob', readers);
    expect(same.warnings).toEqual([expect.stringContaining('principal:atlas/bob')]);
    expect((await put('own', { ...readers, subjects: ['principal:cms/alic'] })).json.code).toBe(
      'NoSuchPrincipal',
    );
    const path = '/_/v1/tenants/cms/grants/wide';
    const subjects = ['principal:atlas/bbo', 'group:cms/no', 'tenant:nowhere', 'tenant:atlas'];
    const told = await callNative(target, 'PUT', path, {
      ...{ effect: 'allow', actions: ['s3:GetObject'], bucket: 'raw' },
      subjects: subjects.filter((one) => one !== 'group:cms/no'),
    });
    expect(told.warnings).toEqual([
      ...['there is no principal atlas/bbo', 'there is no tenant nowhere'],
    ]);
  });

  test('is warned about when it goes later', async () => {
    await callNative(target, 'POST', '/_/v1/tenants/cms/principals', {
      ...{ name: 'leaver', kind: 'person', role: 'member', groups: [] },
    });
    const made = await put('leavers', { ...readers, subjects: ['principal:cms/leaver', 'anyone'] });
    expect(made.json.warnings).toEqual([]);
    await callNative(target, 'DELETE', '/_/v1/tenants/cms/principals/leaver');
    const { json } = await call('boss', 'GET', `${grants}/leavers`);
    expect(json.warnings).toEqual(['there is no principal cms/leaver']);
  });

  test('and a bucket that is not there is, too', async () => {
    const { json } = await put('later', { ...readers, subjects: ['tenant:cms'], bucket: 'rwa' });
    const noBucket = 'there is no bucket cms/rwa yet: the grant counts once it is made';
    expect(json.warnings).toEqual([noBucket]);
    const { json: kept } = await call('boss', 'GET', `${grants}/later`);
    expect(kept.warnings).toEqual([noBucket]);
    // Of another tenant's buckets nothing is said.
    const action = { subjects: ['principal:atlas/chief'], actions: ['bursar:GetGrant'] };
    await put('lets-chief', action);
    expect((await call('chief', 'GET', `${grants}/later`)).json.warnings).toEqual([
      expect.stringContaining('not checked whether there is tenant:cms'),
    ]);
  });

  test('is warned about in a header of PutBucketPolicy, which is taken', async () => {
    const policyOf = (...AWS: string[]) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          {
            ...{ Effect: 'Allow', Principal: { AWS }, Action: 's3:GetObject' },
            Resource: 'arn:aws:s3:::raw/*',
          },
        ],
      });
    const set = (body: string) =>
      send(as(target, people.alice), {
        ...{ method: 'PUT', path: '/raw', query: [['policy', '']], body },
      });
    const wrong = await set(policyOf('cms/bbo', 'cms/boss', 'atlas/bbo'));
    expect(wrong.status).toBe(204);
    expect(wrong.headers['x-bursar-warning']).toMatch(
      /^there is no principal cms\/bbo; not checked whether there is principal:atlas\/bbo: /,
    );
    const right = await set(policyOf('cms/boss'));
    expect([right.status, right.headers['x-bursar-warning']]).toEqual([204, undefined]);
    const many = await set(policyOf(...Array.from({ length: 300 }, (_, i) => `x/p${i}`)));
    expect(many.headers['x-bursar-warning']).toMatch(/^only the first 200 .* and 195 more: /);
    await send(as(target, people.alice), {
      method: 'DELETE',
      path: '/raw',
      query: [['policy', '']],
    });
  });
});

describe('an alias', () => {
  const aliased = { ...readers, alias: 'cms-runs' };
  const listed = async (who: keyof typeof people) =>
    (await call(who, 'GET', '/_/v1/tenants/atlas/aliases')).json.aliases;

  test('is a name that a grant brings to the tenant of its subjects, and takes along', async () => {
    expect(await put('runs', aliased)).toMatchObject({ status: 200, json: { alias: 'cms-runs' } });
    expect(await read('bob', 'cms-runs', '2026/x')).toBe('body of 2026/x');
    expect(await list('bob', 'cms-runs', '2026/')).toEqual(['2026/x']);
    expect(await read('eve', 'cms-runs', '2026/x')).toBe('AccessDenied');
    expect(await read('alice', 'cms-runs', '2026/x')).toBe('NoSuchBucket');
    const whole = { ...aliased, prefix: undefined };
    await put('runs', whole);
    const { Buckets = [] } = await clientOf(as(target, people.bob)).send(new ListBucketsCommand());
    expect(Buckets.map(({ Name }) => Name)).toContain('cms-runs');
    await call('boss', 'DELETE', `${grants}/runs`);
    expect(await read('bob', 'cms-runs', '2026/x')).toBe('NoSuchBucket');
  });

  test('yields to whatever else has the name, and says so to those it is for', async () => {
    await put('runs', { ...aliased, alias: 'cms-taken' });
    const used = { name: 'cms-taken', bucketTenant: 'cms', bucket: 'raw', grant: 'runs' };
    expect(await listed('bob')).toEqual([{ tenant: 'atlas', ...used, state: 'used' }]);
    expect(await listed('chief')).toHaveLength(1);
    expect(await listed('eve')).toEqual([]);
    const made = { bucketTenant: 'cms', bucket: 'nowhere' };
    const own = '/_/v1/tenants/atlas/principals/bob/mounts/cms-taken';
    await call('bob', 'PUT', own, made);
    expect(await read('bob', 'cms-taken', '2026/x')).toBe('AccessDenied');
    expect(await listed('bob')).toMatchObject([{ state: 'hidden by a mount' }]);
    await call('bob', 'DELETE', own);
    await send(as(target, people.eve), { method: 'PUT', path: '/cms-taken' });
    expect(await list('eve', 'cms-taken')).toEqual([]);
    expect(await read('bob', 'cms-taken', '2026/x')).toBe('AccessDenied');
    expect(await listed('bob')).toMatchObject([{ state: 'hidden by a bucket' }]);
    await send(as(target, people.eve), { method: 'DELETE', path: '/cms-taken' });
    expect(await read('bob', 'cms-taken', '2026/x')).toBe('body of 2026/x');
  });

  test.each([
    ['a name that does not say whose', { alias: 'runs' }],
    ["a name of another tenant's", { alias: 'atlas-runs' }],
    ['a boundary that is not one', { alias: 'cmsruns' }],
    ['what can be no bucket', { alias: 'cms-Runs' }],
    ['what is no text', { alias: 7 }],
    ['nobody of another tenant', { subjects: ['principal:cms/alice', 'anyone'] }],
    ['a denial', { effect: 'deny' }],
    ['no bucket', { bucket: undefined, prefix: undefined }],
  ])('is refused for %s', async (_, change) => {
    const { status, json } = await put('runs', { ...aliased, ...change });
    expect([status, json.code]).toEqual([400, 'InvalidInput']);
  });

  test('stands for one bucket, whichever of two grants comes first', async () => {
    await put('runs', aliased);
    expect((await put('other', { ...aliased, bucket: 'other' })).json).toMatchObject({
      ...{ code: 'InvalidInput', detail: expect.stringContaining('The grant runs') },
    });
    expect((await put('also', { ...aliased, prefix: '2025/' })).status).toBe(200);
    expect((await put('runs', { ...aliased, bucket: 'other' })).status).toBe(400);
    await call('boss', 'DELETE', `${grants}/runs`);
    expect(await read('bob', 'cms-runs', '2025/x')).toBe('body of 2025/x');
  });
});

describe('an explanation', () => {
  const ask = async (question: object, who: keyof typeof people = 'boss') =>
    (await call(who, 'POST', '/_/v1/explain', question)).json;

  test('names the rule or right that decides, as requests are decided', async () => {
    await put('readers', { ...readers, subjects: ['group:atlas/shift', 'principal:atlas/bob'] });
    await put('no-2025', { ...readers, prefix: '2025/', effect: 'deny', subjects: ['anyone'] });
    await put('at-home', {
      ...{ subjects: ['anyone'], actions: ['s3:GetObject'], bucket: 'raw', key: 'top' },
      conditions: { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } },
    });
    const bob = { principal: 'atlas/bob', action: 's3:GetObject' };
    expect(await ask({ ...bob, resource: 'cms:raw/2026/x' })).toMatchObject({
      ...{ allowed: true, by: 'grant:readers' },
      considered: expect.arrayContaining([
        { name: 'grant:readers', effect: 'allow', verdict: 'applies' },
      ]),
    });
    const alice = { principal: 'cms/alice', action: 's3:GetObject' };
    for (const [question, allowed, by] of [
      [{ ...bob, resource: 'cms:raw/2025/x' }, false, 'grant:no-2025'],
      [{ ...bob, resource: 'cms:raw/20260' }, false, 'default'],
      [{ ...bob, action: 's3:ListBucket', resource: 'cms:raw/2026/' }, true, 'grant:readers'],
      [{ ...bob, action: 's3:ListBucket', resource: 'cms:raw' }, false, 'default'],
      [{ ...bob, principal: 'atlas/x', resource: 'cms:raw/2026/x' }, false, 'default'],
      [
        { ...bob, principal: 'atlas/x', groups: ['shift'], resource: 'cms:raw/2026/x' },
        ...([true, 'grant:readers'] as const),
      ],
      [{ ...alice, resource: 'raw/2026/x' }, true, 'owner'],
      [{ ...alice, resource: 'raw/2025/x' }, false, 'grant:no-2025'],
      [{ ...alice, principal: 'cms/boss', resource: 'raw/2026/x' }, true, 'admin'],
      [{ ...alice, principal: 'cms/audit', resource: 'raw/2026/x' }, false, 'role'],
      [{ action: 's3:GetObject', resource: 'cms:raw/top' }, false, 'default'],
      [
        { action: 's3:GetObject', resource: 'cms:raw/top', source: '192.0.2.7' },
        ...([true, 'grant:at-home'] as const),
      ],
      [{ principal: 'cms/alice', action: 'bursar:ListPrincipals' }, false, 'role'],
      [{ principal: 'cms/boss', action: 'bursar:ListPrincipals' }, true, 'role'],
    ] as const) {
      expect([question, await ask(question)]).toMatchObject([question, { allowed, by }]);
    }
    const failed = { name: 'grant:at-home', verdict: 'a condition does not hold' };
    const strangers = await ask({ action: 's3:GetObject', resource: 'cms:raw/top' });
    expect(strangers.considered).toContainEqual(
      expect.objectContaining({ ...failed, condition: 'IpAddress aws:SourceIp' }),
    );
  });

  test('knows lists, the block of public access, and who would have to pay', async () => {
    const alice = (path: string, query: string, body?: string) =>
      send(as(target, people.alice), {
        ...{ method: body === undefined ? 'DELETE' : 'PUT', path, query: [[query, '']] },
        ...(body !== undefined && { body }),
      });
    const said = async (question: object) => {
      const { allowed, by, reason } = await ask({ resource: 'cms:lists/k', ...question });
      return [allowed, by, reason.split(':')[0]];
    };
    await send(as(target, people.alice), {
      ...{ method: 'PUT', path: '/lists', headers: { 'x-amz-object-ownership': 'ObjectWriter' } },
    });
    await alice('/lists', 'publicAccessBlock');
    await send(as(target, people.alice), {
      ...{ method: 'PUT', path: '/lists/k', body: 'x', headers: { 'x-amz-acl': 'public-read' } },
    });
    const bob = { principal: 'atlas/bob', action: 's3:GetObject' };
    const nobody = { action: 's3:GetObject' };
    const listed = [true, 'acl', 'an access control list allows it'];
    expect(await said(bob)).toEqual(listed);
    expect(await said(nobody)).toEqual(listed);
    expect(await said({ ...bob, action: 's3:PutObjectAcl' })).toContain('default');
    expect(await said({ ...bob, resource: 'cms:lists/other' })).toContain('default');

    const payer = '<RequestPaymentConfiguration><Payer>Requester</Payer>';
    const paying = await alice(
      '/lists',
      'requestPayment',
      `${payer}</RequestPaymentConfiguration>`,
    );
    expect(paying.status).toBe(200);
    expect((await said(bob)).slice(0, 2)).toEqual([true, 'acl']);
    expect((await ask({ ...bob, resource: 'cms:lists/k' })).reason).toContain(
      'x-amz-request-payer',
    );
    expect((await said(nobody)).slice(0, 2)).toEqual([false, 'requester-pays']);

    const shut = (name: string) =>
      alice(
        ...(['/lists', 'publicAccessBlock'] as const),
        `<PublicAccessBlockConfiguration><${name}>true</${name}></PublicAccessBlockConfiguration>`,
      );
    expect((await shut('IgnorePublicAcls')).status).toBe(200);
    const blocked = [false, 'public-access-block'];
    expect(await said(bob)).toEqual([...blocked, 'IgnorePublicAcls']);
    await put('everybody', { subjects: ['anyone'], actions: ['s3:*'], bucket: 'lists' });
    expect((await said(bob)).slice(0, 2)).toEqual([true, 'grant:everybody']);
    expect((await shut('RestrictPublicBuckets')).status).toBe(200);
    expect((await said({ ...bob, resource: 'cms:lists/other' })).slice(0, 2)).toEqual(blocked);
  });

  test('is for the owner of a bucket, of itself and of whom its policy means', async () => {
    const alice = { principal: 'cms/alice', action: 's3:GetObject', resource: 'raw/2026/x' };
    expect(await ask(alice, 'alice')).toMatchObject({ allowed: true, by: 'owner', warnings: [] });
    await put('closed', { ...readers, effect: 'deny', subjects: ['principal:cms/alice'] });
    const away = { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } };
    const all = { subjects: ['anyone'], actions: ['s3:*'], bucket: 'raw' };
    await put('away', { ...all, conditions: away });
    const closed = { name: 'grant:closed', effect: 'deny', verdict: 'applies' };
    const denied = await ask(alice, 'alice');
    expect(denied).toMatchObject({ allowed: false, by: 'grant:closed', considered: [closed] });
    expect((await ask(alice)).considered).toHaveLength(2);
    const undelete = { principal: 'cms/alice', action: 'bursar:Undelete', resource: 'cms:raw/' };
    expect(await ask(undelete, 'alice')).toMatchObject({ allowed: true, by: 'owner' });
    // From where and when grants deny is not to be found by trying.
    for (const question of [alice, undelete]) {
      for (const invented of [
        { source: '192.0.2.1' },
        { secure: true },
        { time: '2027-01-01T00:00:00Z' },
      ]) {
        const refused = { detail: expect.stringMatching(/^Only admins can ask/) };
        expect(await ask({ ...question, ...invented }, 'alice')).toMatchObject(refused);
      }
    }

    // Of others the tenant's grants, roles and groups are not the owner's to know.
    const bob = { principal: 'atlas/bob', action: 's3:GetObject', resource: 'cms:raw/2025/x' };
    await put('readers', { ...readers, prefix: '2025/' });
    const none = { allowed: false, by: 'default', considered: [] };
    expect(await ask(bob, 'alice')).toMatchObject({
      ...{ ...none, warnings: [expect.stringMatching(/the grants of the tenant were not looked/)] },
    });
    for (const name of ['boss', 'nobody']) {
      expect(await ask({ ...alice, principal: `cms/${name}` }, 'alice')).toMatchObject(none);
    }
    const query = [['policy', '']] as [string, string][];
    const Statement = [
      {
        ...{ Sid: 'bobs', Effect: 'Allow', Principal: { AWS: 'atlas/bob' } },
        ...{ Action: 's3:GetObject', Resource: 'arn:aws:s3:::raw/*' },
      },
    ];
    const body = JSON.stringify({ Version: '2012-10-17', Statement });
    const owner = as(target, people.alice);
    await send(owner, { method: 'PUT', path: '/raw', query, body });
    expect(await ask(bob, 'alice')).toMatchObject({ allowed: true, by: 'policy:bobs' });
    await send(owner, { method: 'DELETE', path: '/raw', query });

    for (const wrong of [
      ...[
        { ...alice, resource: 'nowhere/x' },
        { ...bob, resource: 'raw/2026/x' },
      ],
      ...[
        { ...alice, resource: 'atlas:raw/x' },
        { ...undelete, principal: 'cms/boss' },
      ],
      { principal: 'cms/alice', action: 'bursar:ListPrincipals', resource: 'cms' },
    ]) {
      expect([wrong, (await ask(wrong, 'alice')).code]).toEqual([wrong, 'AccessDenied']);
    }
  });

  test('is for admins, of what is theirs, and tells nothing of another tenant', async () => {
    const bob = { principal: 'atlas/bob', action: 's3:GetObject', resource: 'cms:raw/2026/x' };
    expect((await ask(bob, 'bob')).code).toBe('AccessDenied');
    expect((await ask(bob, 'audit')).code).toBe('AccessDenied');
    expect((await ask(bob, 'chief')).code).toBe('AccessDenied');
    // Neither names of buckets and mounts there nor principals are looked up.
    const there = { ...bob, resource: 'theirs/x' };
    const none = { ...bob, principal: 'atlas/nobody', resource: 'nowhere/x' };
    const codes = [await ask(there), await ask(none)].map(({ code }) => code);
    expect(codes).toEqual(['AccessDenied', 'AccessDenied']);
    const lookUps = async () => {
      const { text } = await send(target, { method: 'GET', path: '/_/v1/metrics' });
      const families = parseMetrics(text);
      const of = (what: string) =>
        totalOf(families, `bursar_cache_${what}_total`, { cache: 'buckets' });
      return of('hits') + of('misses');
    };
    const before = await lookUps();
    for (const name of ['raw', 'nowhere-yet']) {
      for (const who of ['bob', 'chief'] as const) {
        const asked = { principal: 'atlas/bob', resource: `cms:${name}/x` };
        expect((await ask({ ...asked, action: 's3:GetObject' }, who)).code).toBe('AccessDenied');
        expect((await ask({ ...asked, action: 'bursar:Undelete' }, who)).code).toBe('NoSuchTenant');
      }
    }
    expect(await lookUps()).toBe(before);
    const native = { principal: 'atlas/bob', action: 'bursar:GetTenant' };
    expect((await ask(native)).code).toBe('NoSuchTenant');
    expect((await ask({ ...bob, principal: 'cms/nobody' })).code).toBe('NoSuchPrincipal');
    expect((await ask({ ...bob, action: 's3:Get*' })).code).toBe('InvalidInput');
    expect((await ask({ ...bob, resource: 'cms:raw' })).code).toBe('InvalidInput');
    // A condition on a network would not hold for what is no address, and a denial by it be missed.
    expect((await ask({ ...bob, source: '192.0.2.0/24' })).code).toBe('InvalidInput');
  });
});
