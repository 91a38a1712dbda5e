// Mounts of a principal's own on a served gateway, with two tenants: a name means something to its
// principal alone, takes no name from anybody, and gives no right.
import {
  CopyObjectCommand,
  GetObjectCommand,
  ListBucketsCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ownMountsMax } from '#bursar/core/limits.js';
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

type Name = 'alice' | 'chief' | 'bob' | 'eve' | 'audit';
let target: Target;
let people: Record<Name, Keys>;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  people = {
    alice: await newPrincipal(target, { tenant: 'cms', name: 'alice' }),
    chief: await newPrincipal(target, { tenant: 'atlas', name: 'chief', role: 'admin' }),
    bob: await newPrincipal(target, { tenant: 'atlas', name: 'bob' }),
    eve: await newPrincipal(target, { tenant: 'atlas', name: 'eve' }),
    audit: await newPrincipal(target, { tenant: 'atlas', name: 'audit', role: 'auditor' }),
  };
  await create('alice', 'data');
  await create('alice', 'closed');
  await putAs('alice', 'data', 'run1/x', 'of cms');
  await putAs('alice', 'closed', 'run1/x', 'closed');
  await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/readers', {
    ...{ effect: 'allow', subjects: ['principal:atlas/bob'], bucket: 'data' },
    actions: ['s3:GetObject', 's3:PutObject'],
  });
}, 60_000);

afterAll(() => target.stop());

async function call(who: Name, method: string, path: string, content?: object) {
  const headers: Record<string, string> = content ? { 'content-type': 'application/json' } : {};
  const body = content ? JSON.stringify(content) : '';
  const wanted = { method, path: `/_/v1/${path}`, headers, body };
  const answer = await send(as(target, people[who]), wanted);
  return { status: answer.status, json: answer.text === '' ? null : JSON.parse(answer.text) };
}

const create = (who: Name, bucket: string) =>
  send(as(target, people[who]), { method: 'PUT', path: `/${bucket}` });

function putAs(who: Name, bucket: string, key: string, body: string) {
  const command = new PutObjectCommand({ Bucket: bucket, Key: key, Body: body });
  return clientOf(as(target, people[who])).send(command);
}

async function read(who: Name, bucket: string, key = 'run1/x'): Promise<string> {
  const client = clientOf(as(target, people[who]));
  return client.send(new GetObjectCommand({ Bucket: bucket, Key: key })).then(
    ({ Body }) => Body?.transformToString() ?? '',
    (error: Error) => error.name,
  );
}

async function listBuckets(who: Name): Promise<(string | undefined)[]> {
  const { Buckets = [] } = await clientOf(as(target, people[who])).send(new ListBucketsCommand());
  return Buckets.map(({ Name: name }) => name);
}

const own = (who: string, mount = '') => `tenants/atlas/principals/${who}/mounts${mount}`;
const data = { bucketTenant: 'cms', bucket: 'data' };

describe("a member's own mount", () => {
  test('is a name for what was granted, to this member alone', async () => {
    expect(await call('bob', 'PUT', own('bob', '/data'), data)).toMatchObject({
      status: 200,
      json: { tenant: 'atlas', principal: 'bob', name: 'data', ...data, at: null, where: null },
    });
    expect(await read('bob', 'data')).toBe('of cms');
    expect(await listBuckets('bob')).toContain('data');
    for (const other of ['eve', 'chief'] as const) {
      expect(await read(other, 'data')).toBe('NoSuchBucket');
      expect(await listBuckets(other)).not.toContain('data');
    }
    const copy = new CopyObjectCommand({ Bucket: 'data', Key: 'copy', CopySource: 'data/run1/x' });
    await clientOf(as(target, people.bob)).send(copy);
    expect(await read('alice', 'data', 'copy')).toBe('of cms');
  });

  test('gives no right', async () => {
    await call('eve', 'PUT', own('eve', '/data'), data);
    await call('bob', 'PUT', own('bob', '/closed'), { bucketTenant: 'cms', bucket: 'closed' });
    expect(await read('eve', 'data')).toBe('AccessDenied');
    expect(await read('bob', 'closed')).toBe('AccessDenied');
    expect(await listBuckets('eve')).not.toContain('data');
    // Nor does it tell whether there is something.
    await call('bob', 'PUT', own('bob', '/nothing'), { bucketTenant: 'cms', bucket: 'nothing' });
    expect(await read('bob', 'nothing')).toBe('AccessDenied');
    for (const name of ['closed', 'nothing']) await call('bob', 'DELETE', own('bob', `/${name}`));
    await call('eve', 'DELETE', own('eve', '/data'));
    expect(await read('eve', 'data')).toBe('NoSuchBucket');
  });

  test('does not take a name from others, nor is its name taken by them', async () => {
    expect((await create('eve', 'data')).status).toBe(200);
    await putAs('eve', 'data', 'run1/x', 'of atlas');
    expect(await read('eve', 'data')).toBe('of atlas');
    // What Bob's programs wrote to yesterday they write to today.
    expect(await read('bob', 'data')).toBe('of cms');
    const taken = await create('bob', 'data');
    expect([taken.code, taken.text]).toEqual([
      'BucketAlreadyExists',
      expect.stringContaining('data is a mount of your own'),
    ]);
    await call('bob', 'DELETE', own('bob', '/data'));
    expect(await read('bob', 'data')).toBe('AccessDenied');
    expect((await call('bob', 'PUT', own('bob', '/data'), data)).json).toMatchObject({
      ...{ code: 'AlreadyExists', detail: expect.stringContaining('choose another name') },
    });
    await call('chief', 'PUT', 'tenants/atlas/mounts/theirs', data);
    expect((await call('bob', 'PUT', own('bob', '/theirs'), data)).status).toBe(409);
  });

  test('is made, seen and taken away by its principal and by admins, and nobody else', async () => {
    expect((await call('bob', 'PUT', own('bob', '/mine'), data)).status).toBe(200);
    for (const method of ['PUT', 'GET', 'DELETE']) {
      const body = method === 'PUT' ? data : undefined;
      const answer = await call('eve', method, own('bob', '/mine'), body);
      expect([method, answer.status]).toEqual([method, 403]);
      expect((await call('audit', method, own('audit', '/mine'), body)).status).toBe(403);
    }
    expect((await call('eve', 'GET', own('bob'))).status).toBe(403);
    expect((await call('alice', 'GET', own('bob'))).status).toBe(404);
    const mine = [expect.objectContaining({ principal: 'bob', name: 'mine' })];
    expect((await call('bob', 'GET', own('bob'))).json.mounts).toEqual(mine);
    expect((await call('bob', 'GET', 'tenants/atlas/own-mounts')).json.mounts).toEqual(mine);
    expect((await call('eve', 'GET', 'tenants/atlas/own-mounts')).json.mounts).toEqual([]);
    expect((await call('chief', 'GET', 'tenants/atlas/own-mounts')).json.mounts).toEqual(mine);
    expect((await call('chief', 'DELETE', own('bob', '/mine'))).status).toBe(204);
    expect(await read('bob', 'mine')).toBe('NoSuchBucket');
    const missing = await call('bob', 'DELETE', own('bob', '/mine'));
    const detail = 'atlas/bob has no mount mine.';
    expect(missing).toMatchObject({ status: 404, json: { code: 'NoSuchMount', detail } });
  });

  test('can be forbidden by the tenant; those that are there stay', async () => {
    await call('bob', 'PUT', own('bob', '/before'), data);
    await call('chief', 'PATCH', 'tenants/atlas', { membersMountBuckets: false });
    expect((await call('chief', 'GET', 'tenants/atlas')).json.membersMountBuckets).toBe(false);
    expect((await call('bob', 'PUT', own('bob', '/after'), data)).status).toBe(403);
    expect((await call('chief', 'PUT', own('bob', '/after'), data)).status).toBe(200);
    expect(await read('bob', 'before')).toBe('of cms');
    expect(await read('bob', 'after')).toBe('of cms');
    await call('chief', 'PATCH', 'tenants/atlas', { membersMountBuckets: true });
    expect((await call('bob', 'PUT', own('bob', '/after'), data)).status).toBe(200);
    for (const name of ['before', 'after']) await call('bob', 'DELETE', own('bob', `/${name}`));
  });

  test('is one of a bounded number, however many come at once', async () => {
    const names = Array.from({ length: ownMountsMax + 5 }, (_, i) => `/m-${i}`);
    const made = await Promise.all(names.map((name) => call('eve', 'PUT', own('eve', name), data)));
    expect(made.filter(({ status }) => status === 200)).toHaveLength(ownMountsMax);
    const refused = made.filter(({ status }) => status !== 200);
    expect(refused[0]?.json.code).toBe('TooManyBuckets');
    // What is there can be made anew.
    const there = (await call('eve', 'GET', own('eve'))).json.mounts[0].name;
    expect((await call('eve', 'PUT', own('eve', `/${there}`), data)).status).toBe(200);
  });

  test('goes with its principal', async () => {
    const keys = await newPrincipal(target, { tenant: 'atlas', name: 'guest' });
    people = { ...people, eve: keys };
    await call('chief', 'PUT', own('guest', '/x'), data);
    await call('chief', 'DELETE', 'tenants/atlas/principals/guest');
    expect((await call('chief', 'GET', own('guest'))).status).toBe(404);
    const { json } = await call('chief', 'GET', 'tenants/atlas/own-mounts');
    const owners = json.mounts.map(({ principal }: { principal: string }) => principal);
    expect(owners).not.toContain('guest');
  });

  test.each(['A', 'a:b', '10.0.0.1', 'x'.repeat(64), 'xn--a', 'ab/cd'])(
    'is refused under a name that can be no bucket’s: %s',
    async (name) => {
      const path = own('bob', `/${encodeURIComponent(name)}`);
      expect([400, 404]).toContain((await call('bob', 'PUT', path, data)).status);
    },
  );
});
