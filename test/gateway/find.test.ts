// Queries for objects, as those who ask them see it: what fits, by what is stored now, and of that
// only what they may list and read; whatever becomes of the index.
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { readsAll } from '#bursar/gateway/find/readable.js';
import {
  as,
  callNative,
  findRecords,
  newPrincipal,
  send,
  type Target,
} from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });
const soon = { timeout: 30_000, interval: 50 };
const seldom = { timeout: 60_000, interval: 1000 };

interface Page {
  objects: { key: string; size: number; metadata: object; tags?: object; index: number }[];
  count: number;
  bytes: number;
  looked: number;
  next: string | null;
  plan?: { any: object[] | null };
}

const dataDir = mkdtempSync(join(tmpdir(), 'bursar-find-'));
let gateway: ServedGateway;
let operator: Target;
let admin: Target;
/** May do everything in `data` below `in/`. */
let alice: Target;
/** May list all of `data`, and read what is below `in/`, but no tags. */
let bob: Target;
/** Of another tenant, with a mount of `data`, of which they may list and read `in/`. */
let stranger: Target;

async function put(key: string, run: number, detector: string, size = 10): Promise<void> {
  const headers = { 'x-amz-meta-run': String(run), 'x-amz-tagging': `detector=${detector}` };
  const answer = await send(admin, { method: 'PUT', path: key, headers, body: 'x'.repeat(size) });
  expect(answer.status, answer.text).toBe(200);
}

function ask(who: Target, where: string, more: Record<string, string> = {}, at = 'cms/data') {
  const [tenant, bucket] = at.split('/');
  const path = `/_/v1/tenants/${tenant}/buckets/${bucket}/objects`;
  return send(who, { method: 'GET', path, query: Object.entries({ where, ...more }) });
}

async function page(...asked: Parameters<typeof ask>): Promise<Page> {
  const answer = await ask(...asked);
  expect(answer.status, answer.text).toBe(200);
  return JSON.parse(answer.text);
}

/** All keys, page by page. */
async function keysOf(...[who, where, more = {}, at]: Parameters<typeof ask>): Promise<string[]> {
  const keys: string[] = [];
  for (let after: string | undefined; ; ) {
    const { objects, next } = await page(who, where, after ? { ...more, after } : more, at);
    keys.push(...objects.map(({ key }) => key));
    if (next === null) return keys;
    after = next;
  }
}

async function metric(name: string): Promise<number> {
  const { text } = await send(operator, { method: 'GET', path: '/_/v1/metrics' });
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}

/** Every record from before this was called is followed: those that ask about it come on top. */
async function caughtUp(): Promise<void> {
  const from = Date.now();
  await vi.waitFor(async () => {
    expect(await metric('bursar_object_index_complete')).toBe(1);
    const now = Date.now();
    const lagMs = 1000 * (await metric('bursar_object_index_lag_seconds'));
    expect(now - lagMs).toBeGreaterThan(from);
  }, seldom);
}

async function grant(name: string, fields: object): Promise<void> {
  const document = { effect: 'allow', bucket: 'data', ...fields };
  await callNative(operator, 'PUT', `/_/v1/tenants/cms/grants/${name}`, document);
}

/** Serves the folder, and has all ask there. */
async function serve(): Promise<void> {
  gateway = await startServedGateway({ dataDir });
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  operator = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
  if (admin) admin = as(operator, admin.keys);
}

beforeAll(async () => {
  await serve();
  for (const name of ['cms', 'atlas'])
    await callNative(operator, 'POST', '/_/v1/tenants', { name });
  admin = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'ada', role: 'admin' }));
  alice = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'alice' }));
  bob = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'bob' }));
  stranger = as(operator, await newPrincipal(operator, { tenant: 'atlas', name: 'eve' }));
  await send(admin, { method: 'PUT', path: '/data' });
  for (let run = 0; run < 12; run++) {
    await put(`/data/in/${run}`, run, run % 2 ? 'CMS' : 'ATLAS');
    await put(`/data/out/${run}`, run, 'CMS', 100);
  }
  await grant('alice', {
    ...{ actions: ['s3:GetObject', 's3:GetObjectTagging', 's3:ListBucket'] },
    ...{ subjects: ['principal:cms/alice'], prefix: 'in/' },
  });
  await grant('bob-lists', { actions: ['s3:ListBucket'], subjects: ['principal:cms/bob'] });
  await grant('bob-reads', {
    ...{ actions: ['s3:GetObject'], subjects: ['principal:cms/bob'], prefix: 'in/' },
  });
  await grant('eve', {
    ...{ actions: ['s3:GetObject', 's3:ListBucket'], prefix: 'in/' },
    subjects: ['principal:atlas/eve'],
  });
  const mount = { bucketTenant: 'cms', bucket: 'data' };
  await callNative(operator, 'PUT', '/_/v1/tenants/atlas/mounts/theirs', mount);
  await caughtUp();
});
afterAll(async () => {
  await gateway.stop();
  rmSync(dataDir, { recursive: true });
});

describe('what is found', () => {
  it('is what fits, with what it says', async () => {
    const where = 'meta.run >= 10 and tag.detector = "CMS" and modified < 1d';
    const found = await page(admin, where, { explain: 'true' });
    expect(found.objects.map(({ key }) => key)).toEqual(['in/11', 'out/10', 'out/11']);
    expect(found).toMatchObject({ count: 3, bytes: 210, next: null });
    expect(found.objects[0]).toMatchObject({
      ...{ size: 10, metadata: { run: '11' }, tags: { detector: 'CMS' }, class: 'STANDARD' },
    });
    expect(found.plan?.any).toHaveLength(1);
    expect(found.looked).toBeLessThan(24);
    const receipt = `/_/v1/receipts/${found.objects[0]?.index}`;
    expect((await send(admin, { method: 'GET', path: receipt })).status).toBe(200);
  });

  it('comes in pages, in the order of keys, and is counted', async () => {
    const all = await keysOf(admin, 'meta.run < 100');
    expect(all).toHaveLength(24);
    expect(await keysOf(admin, 'meta.run < 100', { limit: '5' })).toEqual(all);
    expect(await keysOf(admin, 'not size < 100', { limit: '5' })).toHaveLength(12);
    const totals = await page(admin, 'key like "out/*"', { form: 'totals' });
    expect(totals).toMatchObject({ count: 12, bytes: 1200, looked: 12, next: null });
    expect(totals.objects).toBeUndefined();
  });

  it('is what is stored now', async () => {
    await put('/data/in/new', 77, 'CMS');
    await vi.waitFor(
      async () => expect(await keysOf(admin, 'meta.run = 77')).toHaveLength(1),
      soon,
    );
    await put('/data/in/new', 78, 'CMS');
    // Before the index knows it, what it leads to is read and does not fit.
    expect(await keysOf(admin, 'meta.run = 77')).toEqual([]);
    const tagging = '<Tagging><TagSet><Tag><Key>t</Key><Value>9</Value></Tag></TagSet></Tagging>';
    const query = [['tagging', '']] as const;
    await send(admin, { method: 'PUT', path: '/data/in/new', query, body: tagging });
    await vi.waitFor(async () => expect(await keysOf(admin, 'tag.t = 9')).toHaveLength(1), soon);
    await send(admin, { method: 'DELETE', path: '/data/in/new' });
    expect(await keysOf(admin, 'tag.t = 9')).toEqual([]);
    const odd = ['odd/"\\\\u0041\t\u{1f52d}', "odd/'é\u2028", 'odd/\x7f%'].sort();
    for (const key of odd) await put(`/data/${key}`, 79, 'CMS');
    await vi.waitFor(async () => {
      expect((await keysOf(admin, 'meta.run = 79')).sort()).toEqual(odd);
    }, soon);
    for (const key of odd) await send(admin, { method: 'DELETE', path: `/data/${key}` });
    await caughtUp();
  });

  it('is recorded, and costs what a listing does', async () => {
    const from = new Date().toISOString();
    const answer = await ask(alice, 'meta.run = 1', { prefix: 'in/1' });
    expect(answer.status).toBe(200);
    const inside = [['prefix', 'in/1']] as const;
    await send(alice, { method: 'GET', path: '/data', query: inside });
    await vi.waitFor(async () => {
      const [query, listing] = await findRecords(admin, [
        ['principal', 'alice'],
        ['from', from],
      ]);
      expect(query).toMatchObject({ action: 's3:ListBucket', bucket: 'data', status: 200 });
      expect(listing?.action).toBe('s3:ListBucket');
      // As far apart as what was sent, and less than the price of a GET.
      expect(Number(query.cost)).toBeGreaterThan(4e-6);
      expect(Number(query.cost)).toBeCloseTo(Number(listing.cost), 6);
    }, soon);
  });
});

it('no grant on a prefix of a character counts as one on all of a bucket', async () => {
  const mayReach = async ({ key }: { key: string | null }) => key === null || /[ -~]/.test(key);
  const asked = { mayReach, mayReachEveryKey: () => true };
  const place = { askedName: 'raw', found: undefined } as never;
  expect(await readsAll(asked, place)).toBe(false);
});

describe('rights', () => {
  it('bound what is found and counted, by key', async () => {
    const whole = await ask(alice, 'meta.run exists');
    expect([whole.status, JSON.parse(whole.text).code]).toEqual([403, 'AccessDenied']);
    const inside = await page(alice, 'meta.run exists', { prefix: 'in/', form: 'totals' });
    expect(inside).toMatchObject({ count: 12, bytes: 120 });
    // Who lists more than they read is not told what that says, nor how much of it there is.
    expect(await keysOf(bob, 'meta.run = 1')).toEqual(['in/1']);
    expect((await page(bob, 'meta.run = 1')).looked).toBe(1);
    expect((await page(bob, 'meta.run = 1 and key like "out/*"')).looked).toBe(0);
    // Nor does a range lead them: whether it does depends on how many others have such values.
    for (const one of [alice, bob]) {
      expect((await page(one, 'meta.run > 1e6', { prefix: 'in/' })).looked).toBe(12);
      expect((await page(one, 'meta.run > 1e6 and meta.run = 1', { prefix: 'in/' })).looked).toBe(
        0,
      );
    }
    expect((await page(admin, 'meta.run > 1e6', { prefix: 'in/' })).looked).toBe(0);
    // Nor who may read all but one key, of whom a key that nobody names tells nothing.
    const denial = { effect: 'deny', actions: ['s3:GetObject'], subjects: ['principal:cms/ada'] };
    await callNative(operator, 'PUT', '/_/v1/tenants/cms/grants/one', {
      ...{ ...denial, bucket: 'data', key: 'out/1' },
    });
    expect((await page(admin, 'meta.run > 1e6', { prefix: 'in/' })).looked).toBe(12);
    expect(await keysOf(admin, 'meta.run = 1')).toEqual(['in/1']);
    await callNative(operator, 'DELETE', '/_/v1/tenants/cms/grants/one');
    expect((await page(admin, 'meta.run > 1e6', { prefix: 'in/' })).looked).toBe(0);
    // Which way the index takes depends on all that the bucket has.
    for (const one of [alice, bob]) {
      const told = await ask(one, 'meta.run = 1', { prefix: 'in/', explain: 'true' });
      expect(told.status).toBe(403);
    }
    expect(await page(bob, 'size > 0', { form: 'totals' })).toMatchObject({
      count: 12,
      bytes: 120,
    });
    expect(await keysOf(bob, 'tag.detector = "CMS"')).toEqual([]);
    expect(await keysOf(bob, 'meta.run = 1 or tag.no exists')).toEqual([]);
  });

  it('tell nothing of hidden objects by where pages end, nor by what is counted', async () => {
    const write = async (path: string, metadata: Record<string, string>) => {
      const named = Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value]);
      const headers = Object.fromEntries(named);
      const answer = await send(admin, { method: 'PUT', path, headers, body: path });
      expect(answer.status).toBe(200);
    };
    await send(admin, { method: 'PUT', path: '/pads' });
    const pads = Array.from({ length: 360 }, (_, i) => i);
    while (pads.length > 0) {
      const some = pads.splice(0, 30);
      const nameOf = (pad: number) => `/pads/d/${String(pad).padStart(5, '0')}`;
      await Promise.all(some.map((pad) => write(nameOf(pad), { pad: String(pad) })));
    }
    await write('/pads/d/00010-hidden', { patient: 'Smithson' });
    await write('/pads/a/own', {});
    await write('/pads/b/hidden', { patient: 'Smithson' });
    const subjects = ['principal:cms/bob'];
    for (const prefix of ['d/', 'a/']) {
      const actions = ['s3:ListBucket', 's3:GetObject'];
      await grant(`pads-${prefix[0]}`, { subjects, actions, bucket: 'pads', prefix });
    }
    const denied = { bucket: 'pads', prefix: 'd/00010-hidden', effect: 'deny' };
    await grant('pads-hidden', { subjects, actions: ['s3:GetObject'], ...denied });
    await caughtUp();
    const ranges = Array.from({ length: 63 }, (_, i) => `meta.pad >= -${i}`).join(' or ');
    const etag = `etag = "${createHash('md5').update('/pads/a/own').digest('hex')}"`;
    for (const guess of ['Q', 'S', 'Sm', 'Sn']) {
      const like = `meta.patient like "${guess}*"`;
      const all = await page(bob, `${ranges} or ${like}`, { prefix: 'd/' }, 'cms/pads');
      expect([guess, all.count, all.looked, all.next]).toEqual([guess, 360, 360, null]);
      const none = await page(bob, `${etag} and ${like}`, { prefix: 'a/' }, 'cms/pads');
      expect([guess, none.count, none.looked, none.next]).toEqual([guess, 0, 0, null]);
    }
    expect((await page(bob, etag, { prefix: 'a/' }, 'cms/pads')).looked).toBe(1);
  });

  it('hold for others by their mounts, and hide what is not there', async () => {
    const inside = { prefix: 'in/' };
    expect(await keysOf(stranger, 'meta.run < 3', inside, 'atlas/theirs')).toHaveLength(3);
    expect(await keysOf(stranger, 'meta.run < 3', inside, 'cms/data')).toHaveLength(3);
    for (const at of ['atlas/theirs', 'cms/data', 'cms/nothing', 'nobody/data']) {
      expect((await ask(stranger, 'meta.run < 3', {}, at)).status, at).toBe(403);
    }
    expect((await ask(admin, 'meta.run < 3', {}, 'cms/nothing')).status).toBe(404);
  });

  it('are no more than the token has', async () => {
    const find = async (scope: string) => {
      const { token } = await callNative(alice, 'POST', '/_/v1/tokens', { scope, expiresIn: 3600 });
      const url = `${operator.endpoint}/_/v1/tenants/cms/buckets/data/objects`;
      const query = new URLSearchParams({ where: 'meta.run exists', prefix: 'in/1' });
      const answer = await fetch(`${url}?${query}`, {
        headers: { authorization: `Bearer ${token}` },
      });
      return answer.status === 200 ? ((await answer.json()) as Page).count : answer.status;
    };
    expect(await find('storage.read:/data/in')).toBe(3);
    expect(await find('storage.read:/data/in/2')).toBe(403);
    expect(await find('storage.create:/data/in')).toBe(403);
  });

  it('are asked before anything is read of the query', async () => {
    const { endpoint } = operator;
    const url = `${endpoint}/_/v1/tenants/cms/buckets/data/objects?where=%22`;
    const answer = await fetch(url);
    expect(answer.status).toBe(403);
    expect(((await answer.json()) as { code: string }).code).toBe('AccessDenied');
    expect((await ask(stranger, '"')).status).toBe(403);
  });
});

describe('every way in', () => {
  type Ask = (path: string, query: Record<string, string>) => Promise<[number, string]>;
  const signed =
    (who: Target): Ask =>
    async (path, query) => {
      const { status, text } = await send(who, {
        ...{ method: 'GET', path, query: Object.entries(query) },
      });
      return [status, text];
    };
  const bearing =
    (token: string): Ask =>
    async (path, query) => {
      const url = `${operator.endpoint}${path}?${new URLSearchParams(query)}`;
      const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      return [answer.status, await answer.text()];
    };
  const narrowed = async (who: Target, scope: string) => {
    const { token } = await callNative(who, 'POST', '/_/v1/tokens', { scope, expiresIn: 3600 });
    return bearing(token);
  };
  let after: string;

  beforeAll(async () => {
    const { next } = await callNative(operator, 'GET', '/_/v1/tenants/cms/changes', undefined, [
      ['after', 'now'],
    ]);
    after = next;
    for (const key of ['in', 'in/500', 'inn/500', 'other/500']) await put(`/data/${key}`, 500, 'X');
    await caughtUp();
  });

  it.each<[string, () => Ask | Promise<Ask>, string, string]>([
    ['a grant on the prefix', () => signed(alice), 'cms/data', 'cms data'],
    ['a token of it', () => narrowed(alice, 'storage.read:/data/in'), 'cms/data', 'cms data'],
    ['a token of an admin', () => narrowed(admin, 'storage.read:/data/in'), 'cms/data', 'cms data'],
    ["another tenant's bucket", () => signed(stranger), 'cms/data', 'atlas cms:data'],
    [
      ...([
        "another's token of it",
        () => narrowed(stranger, 'storage.read:/cms:data/in'),
      ] as const),
      ...(['cms/data', 'atlas cms:data'] as const),
    ],
    ['a mount of it', () => signed(stranger), 'atlas/theirs', 'atlas theirs'],
  ])('by %s is told of what lies below the prefix alone', async (_what, way, at, feed) => {
    const ask = await way();
    const [tenant, bucket] = at.split('/');
    const [feedTenant, feedBucket = ''] = feed.split(' ');
    const objects = `/_/v1/tenants/${tenant}/buckets/${bucket}/objects`;
    const changes = `/_/v1/tenants/${feedTenant}/changes`;
    const inside = { prefix: 'in/' };
    const read = async (path: string, query: Record<string, string>) => {
      const [status, text] = await ask(path, query);
      expect([status, text]).toEqual([200, text]);
      return JSON.parse(text);
    };
    const found = await read(objects, { where: 'meta.run = 500', ...inside });
    expect(found.objects.map(({ key }: { key: string }) => key)).toEqual(['in/500']);
    const total = await read(objects, { where: 'meta.run = 500', form: 'totals', ...inside });
    expect(total).toMatchObject({ count: 1, bytes: 10, looked: 1, next: null });
    // As manifests are read.
    const all = await read(objects, { where: 'not size < 0', ...inside });
    expect([
      all.count,
      all.objects.every((one: Page['objects'][0]) => /^in\//.test(one.key)),
    ]).toEqual([13, true]);
    const told = await read(changes, { after, bucket: feedBucket, ...inside });
    const keys = told.Records.map((one: { s3: { object: { key: string } } }) => one.s3.object.key);
    expect(keys).toEqual(['in/500']);
    for (const prefix of ['', 'i', 'in', 'inn/', 'other/500']) {
      for (const form of ['objects', 'totals']) {
        const where = 'meta.run = 500';
        expect([prefix, (await ask(objects, { where, prefix, form }))[0]]).toEqual([prefix, 403]);
      }
      const [status] = await ask(changes, { after, bucket: feedBucket, prefix });
      expect([prefix, status]).toEqual([prefix, 403]);
    }
    // Whoever may not configure the bucket is told nothing of what it tells and lists.
    const inventories = `/_/v1/tenants/${tenant}/buckets/${bucket}/inventories`;
    expect([403, 404]).toContain((await ask(inventories, {}))[0]);
    for (const setting of ['notification', 'inventory']) {
      expect((await ask(`/${feedBucket}`, { [setting]: '' }))[0]).toBe(403);
    }
  });

  it('by a link is told of nothing but its page', async () => {
    const link = { bucket: 'data', key: 'in/', expiresIn: 3600 };
    const { url } = await callNative(alice, 'POST', '/_/v1/shares', link);
    const query = '?where=meta.run%20%3D%20500&form=totals&inventory&notification&after=-1';
    const page = await fetch(`${url}${query}`);
    expect(page.headers.get('content-type')).toContain('text/html');
    expect(await page.text()).not.toContain('inn/');
    const [, token = ''] = /\/_\/share\/([^/]+)/.exec(url) ?? [];
    const where = 'meta.run = 500';
    const found = '/_/v1/tenants/cms/buckets/data';
    for (const way of [bearing(token), bearing(url)]) {
      for (const [path, asked] of [
        ...([[`${found}/objects`, { where, prefix: 'in/' }]] as const),
        ...([[`${found}/objects`, { where, prefix: 'in/', form: 'totals' }]] as const),
        ...([['/_/v1/tenants/cms/changes', { bucket: 'data', prefix: 'in/' }]] as const),
        ...([[`${found}/inventories`, {}]] as const),
        ...([['/_/v1/tenants/cms/targets', {}]] as const),
        ...([['/data', { notification: '' }]] as const),
        ...([['/data', { inventory: '', id: 'all' }]] as const),
      ]) {
        expect([path, [400, 401, 403].includes((await way(path, asked))[0])]).toEqual([path, true]);
      }
    }
    const body = '<NotificationConfiguration/>';
    for (const setting of ['notification', 'inventory&id=all']) {
      expect((await fetch(`${url}?${setting}`, { method: 'PUT', body })).status).toBe(405);
    }
  });
});

it.each([
  [{ where: 'size >' }, 'where'],
  [{ where: 'size > 1', limit: '0' }, 'query.limit'],
  [{ where: 'size > 1', limit: '1001' }, 'query.limit'],
  [{ where: 'size > 1', after: '!' }, 'query.after'],
  [{ where: 'size > 1', order: 'size' }, 'query.order'],
])('refuses %j', async (query, field) => {
  const answer = await ask(admin, query.where, query);
  expect([answer.status, JSON.parse(answer.text).field]).toEqual([400, field]);
});

describe('the index', () => {
  const file = () => join(gateway.dataDir, 'objects.db');
  const planned = async () => {
    const { plan, count } = await page(admin, 'meta.run = 3', { explain: 'true' });
    return { count, isPlanned: plan?.any !== null };
  };

  it('is made again when its file was deleted, and queries go on', async () => {
    expect(await planned()).toEqual({ count: 2, isPlanned: true });
    for (const name of readdirSync(gateway.dataDir)) {
      if (name.startsWith('objects.db')) rmSync(join(gateway.dataDir, name));
    }
    expect((await planned()).count).toBe(2);
    await vi.waitFor(async () => {
      expect(existsSync(file())).toBe(true);
      expect(await planned()).toEqual({ count: 2, isPlanned: true });
    }, soon);
    await vi.waitFor(async () => {
      const { text } = await send(operator, { method: 'GET', path: '/_/v1/metrics' });
      const [, size] = /^bursar_database_bytes\{file="objects"\} (\d+)$/m.exec(text) ?? [];
      expect(Number(size)).toBe(statSync(file()).size);
    }, soon);
  });

  it('is made again when it is damaged, while it serves and before', async () => {
    await gateway.stop();
    await serve();
    await caughtUp();
    // Nothing was read of it yet: what is in memory is as good as before.
    damage();
    await vi.waitFor(async () => {
      expect((await planned()).count).toBe(2);
      expect(await planned()).toEqual({ count: 2, isPlanned: true });
      expect(gateway.output()).toContain('the index of objects is made anew: it is damaged');
    }, soon);
    await gateway.stop();
    damage();
    await serve();
    await vi.waitFor(async () => {
      expect(await planned()).toEqual({ count: 2, isPlanned: true });
    }, soon);
  });

  it('is compared with what is stored, and mended', async () => {
    await caughtUp();
    {
      using db = openDatabase(file(), { readonly: false, cacheKib: 1024, isDerived: true });
      const { changes } = await db.tx.run('DELETE FROM postings WHERE value = ?', 3);
      expect(changes).toBeGreaterThan(0);
    }
    await vi.waitFor(async () => {
      expect(await metric('bursar_object_index_mended_total')).toBeGreaterThan(0);
    }, soon);
    expect(await planned()).toEqual({ count: 2, isPlanned: true });
  });

  it('leads to nothing that is not authentic', async () => {
    const edit = async (from: string, to: string) => {
      const options = { readonly: false, cacheKib: 1024 };
      using db = openDatabase(join(gateway.dataDir, 'bursar.db'), options);
      const sql = 'UPDATE versions SET attributes = replace(attributes, ?, ?) WHERE key = ?';
      expect((await db.tx.run(sql, from, to, 'in/3')).changes).toBe(1);
    };
    const found = async (where: string) => {
      const { status, text } = await ask(admin, where, { prefix: 'in/3' });
      return [where, status, JSON.parse(text).code];
    };
    await edit('"run":"3"', '"run":"4"');
    // By the index, and without it.
    const ways = ['size = 10', 'not size < 0'];
    for (const where of ways) {
      expect(await found(where)).toEqual([where, 500, 'BursarIntegrityError']);
    }
    await edit('"run":"4"', '"run":"3"');
    for (const where of ways) expect(await found(where)).toEqual([where, 200, undefined]);
  });

  /** All but the page that says what the file is. */
  function damage(): void {
    const descriptor = openSync(file(), 'r+');
    writeSync(descriptor, Buffer.alloc(statSync(file()).size - 4096, 0xa5), 0, undefined, 4096);
    closeSync(descriptor);
  }
});
