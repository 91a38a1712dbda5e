// Snapshots as administrators make them and as clients read them, through mounts: what was is
// read, listed and copied back, nothing is written, and who reads needs the rights to versions.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  elementsOf,
  type Message,
  newPrincipal,
  patternOf,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

let target: Target;
let owner: Target;
/** May read versions below `in/`. */
let reader: Target;
/** May read objects, and no versions. */
let newest: Target;
/** Of another tenant, with a mount of its own. */
let stranger: Target;
const snapshots = '/_/v1/tenants/cms/buckets/data/snapshots';
/** Larger than what is stored inline, and in parts. */
const large = patternOf(200_000);

type More = Pick<Message, 'headers' | 'body'> & { query?: Record<string, string> };

function ask(who: Target, method: string, path: string, more: More = {}): Promise<Answer> {
  return send(who, { ...more, method, path, query: Object.entries(more.query ?? {}) });
}

async function mount(tenant: string, name: string, at: string): Promise<void> {
  const body = { bucketTenant: 'cms', bucket: 'data', at };
  await callNative(target, 'PUT', `/_/v1/tenants/${tenant}/mounts/${name}`, body);
}

async function grant(name: string, actions: string[], subject: string, prefix?: string) {
  await callNative(target, 'PUT', `/_/v1/tenants/cms/grants/${name}`, {
    ...{ effect: 'allow', actions, subjects: [`principal:${subject}`], bucket: 'data' },
    ...(prefix !== undefined && { prefix }),
  });
}

const tags = (value: string) =>
  `<Tagging><TagSet><Tag><Key>t</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;

async function keysOf(who: Target, bucket: string, query: Record<string, string> = {}) {
  const all = { 'list-type': '2', ...query };
  const answer = await ask(who, 'GET', `/${bucket}`, { query: all });
  expect(answer.status, answer.body.toString()).toBe(200);
  return elementsOf(answer.body.toString(), 'Key');
}

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  const [cms, atlas] = [{ tenant: 'cms' }, { tenant: 'atlas' }];
  owner = as(target, await newPrincipal(target, { ...cms, name: 'owner' }));
  reader = as(target, await newPrincipal(target, { ...cms, name: 'reader' }));
  newest = as(target, await newPrincipal(target, { ...cms, name: 'newest' }));
  stranger = as(target, await newPrincipal(target, { ...atlas, name: 'eve' }));
  const versions = ['s3:GetObjectVersion', 's3:ListBucketVersions'];
  await grant('versions', versions, 'cms/reader', 'in');
  await grant('stranger', versions, 'atlas/eve', 'in');
  await grant('newest', ['s3:GetObject', 's3:ListBucket'], 'cms/newest');
  await ask(owner, 'PUT', '/data');
  await ask(owner, 'PUT', '/data/in/a', { body: 'first', headers: { 'x-amz-meta-n': '1' } });
  await ask(owner, 'PUT', '/data/in/a', { query: { tagging: '' }, body: tags('1') });
  await ask(owner, 'PUT', '/data/in/large', { body: large });
  await ask(owner, 'PUT', '/data/out', { body: 'out' });
  await callNative(target, 'PUT', `${snapshots}/before`, {});
  await ask(owner, 'PUT', '/data/in/a', { query: { tagging: '' }, body: tags('2') });
  await ask(owner, 'PUT', '/data/in/a', { body: 'second' });
  await ask(owner, 'DELETE', '/data/in/large');
  await ask(owner, 'PUT', '/data/in/new', { body: 'new' });
  await mount('cms', 'then', 'before');
  await mount('atlas', 'theirs', 'before');
}, 60_000);

afterAll(() => target?.stop(), 60_000);

describe('a mount of a snapshot', () => {
  it('has objects as they were: bytes, ranges, metadata and tags', async () => {
    // The second time it is in memory.
    for (let i = 0; i < 2; i++) {
      const got = await ask(owner, 'GET', '/then/in/a');
      expect([got.status, got.body.toString()]).toEqual([200, 'first']);
      expect(got.headers['x-amz-meta-n']).toBe('1');
      expect((await ask(owner, 'GET', '/data/in/a')).body.toString()).toBe('second');
    }
    expect((await ask(owner, 'HEAD', '/then/in/a')).headers['x-amz-tagging-count']).toBe('1');
    const tagging = await ask(owner, 'GET', '/then/in/a', { query: { tagging: '' } });
    expect(elementOf(tagging.body.toString(), 'Value')).toBe('1');
    const whole = await ask(owner, 'GET', '/then/in/large');
    expect(whole.body.equals(large)).toBe(true);
    const range = { headers: { range: 'bytes=150000-150009' } };
    const part = await ask(owner, 'GET', '/then/in/large', range);
    expect([part.status, part.body]).toEqual([206, large.subarray(150_000, 150_010)]);
    // As they are now, they are by the bucket's own name.
    expect((await ask(owner, 'GET', '/data/in/a')).body.toString()).toBe('second');
    expect((await ask(owner, 'GET', '/then/in/new')).status).toBe(404);
  });

  it('is listed as it was', async () => {
    expect(await keysOf(owner, 'then')).toEqual(['in/a', 'in/large', 'out']);
    expect(await keysOf(owner, 'then', { prefix: 'in/' })).toEqual(['in/a', 'in/large']);
    expect(await keysOf(owner, 'data')).toEqual(['in/a', 'in/new', 'out']);
    const folded = await ask(owner, 'GET', '/then', { query: { delimiter: '/' } });
    expect(elementsOf(folded.body.toString(), 'Key')).toEqual(['out']);
    const versions = await ask(owner, 'GET', '/then', { query: { versions: '' } });
    expect(elementsOf(versions.body.toString(), 'Key')).toEqual(['in/a', 'in/large', 'out']);
    const buckets = await ask(owner, 'GET', '/');
    expect(elementsOf(buckets.body.toString(), 'Name')).toEqual(['data', 'then']);
  });

  it('takes no writes', async () => {
    const writes: [string, string, More?][] = [
      ['PUT', '/then/k', { body: 'x' }],
      ['DELETE', '/then/in/a'],
      ['POST', '/then/k', { query: { uploads: '' } }],
      ['PUT', '/then/in/a', { query: { tagging: '' }, body: tags('3') }],
      ['PUT', '/then', { query: { versioning: '' } }],
      ['DELETE', '/then'],
      ['GET', '/then', { query: { uploads: '' } }],
    ];
    for (const [method, path, more] of writes) {
      const { status, body } = await ask(owner, method, path, more);
      expect([method, path, status], body.toString()).toEqual([method, path, 405]);
    }
  });

  it('is copied from, also onto the key itself', async () => {
    const headers = { 'x-amz-copy-source': '/then/in/large' };
    expect((await ask(owner, 'PUT', '/data/back', { headers })).status).toBe(200);
    expect((await ask(owner, 'GET', '/data/back')).body.equals(large)).toBe(true);
    const onto = { 'x-amz-copy-source': '/then/in/a' };
    expect((await ask(owner, 'PUT', '/data/in/a', { headers: onto })).status).toBe(200);
    const got = await ask(owner, 'GET', '/data/in/a');
    expect([got.body.toString(), got.headers['x-amz-meta-n']]).toEqual(['first', '1']);
  });

  it('gives what a key of a customer encrypts with that key alone, also to copies', async () => {
    const bytes = Buffer.alloc(32, 'k');
    const md5 = createHash('md5').update(bytes).digest('base64');
    const keyed = (prefix: string) => ({
      [`x-amz-${prefix}server-side-encryption-customer-algorithm`]: 'AES256',
      [`x-amz-${prefix}server-side-encryption-customer-key`]: bytes.toString('base64'),
      [`x-amz-${prefix}server-side-encryption-customer-key-md5`]: md5,
    });
    await ask(owner, 'PUT', '/keyed');
    await ask(owner, 'PUT', '/keyed/large', { body: large, headers: keyed('') });
    await callNative(target, 'PUT', '/_/v1/tenants/cms/buckets/keyed/snapshots/one', {});
    await ask(owner, 'DELETE', '/keyed/large');
    const place = { bucketTenant: 'cms', bucket: 'keyed', at: 'one' };
    await callNative(target, 'PUT', '/_/v1/tenants/cms/mounts/keyed-then', place);
    expect((await ask(owner, 'GET', '/keyed-then/large')).code).toBe('InvalidRequest');
    const read = await ask(owner, 'GET', '/keyed-then/large', { headers: keyed('') });
    expect(read.body.equals(large)).toBe(true);
    const source = { 'x-amz-copy-source': '/keyed-then/large' };
    const bare = await ask(owner, 'PUT', '/keyed/large', { headers: source });
    expect(bare.code).toBe('InvalidRequest');
    const headers = { ...source, ...keyed('copy-source-') };
    expect((await ask(owner, 'PUT', '/keyed/large', { headers })).status).toBe(200);
    expect((await ask(owner, 'GET', '/keyed/large')).body.equals(large)).toBe(true);
  });

  it('wants the rights to versions of the real bucket and key', async () => {
    expect((await ask(reader, 'GET', '/then/in/a')).status).toBe(200);
    expect((await ask(reader, 'GET', '/then/out')).status).toBe(403);
    expect((await ask(reader, 'GET', '/data/in/a')).status).toBe(403);
    expect(await keysOf(reader, 'then', { prefix: 'in/' })).toHaveLength(2);
    expect((await ask(reader, 'GET', '/then')).status).toBe(403);
    expect((await ask(newest, 'GET', '/data/in/a')).status).toBe(200);
    expect((await ask(newest, 'GET', '/then/in/a')).status).toBe(403);
    expect((await ask(newest, 'GET', '/then')).status).toBe(403);
    const headers = { 'x-amz-copy-source': '/then/in/a' };
    expect((await ask(newest, 'PUT', '/data/copy', { headers })).status).toBe(403);
    expect((await ask(stranger, 'GET', '/theirs/in/a')).body.toString()).toBe('first');
    expect((await ask(stranger, 'GET', '/theirs/out')).status).toBe(403);
  });
});

describe('a copy as of a record', () => {
  const asOf = (index: number | string, more: object = {}) => ({
    headers: {
      'x-amz-copy-source': '/data/in/a',
      'x-bursar-copy-source-as-of': `${index}`,
      ...more,
    },
  });

  it('is of what a snapshot or the window has, with the rights to versions', async () => {
    const { index } = await callNative(target, 'GET', `${snapshots}/before`);
    await ask(owner, 'PUT', '/data/in/a', { body: 'third' });
    expect((await ask(owner, 'PUT', '/data/as-of', asOf(index))).status).toBe(200);
    expect((await ask(owner, 'GET', '/data/as-of')).body.toString()).toBe('first');
    // Nothing has what was before, or will be.
    for (const other of [index - 1, index + 1, 999_999_999]) {
      const { status, body } = await ask(owner, 'PUT', '/data/none', asOf(other));
      expect([other, status, elementOf(body.toString(), 'Code')]).toEqual([
        other,
        404,
        'NoSuchKey',
      ]);
    }
    for (const wrong of ['before', '-1', '1e3']) {
      expect((await ask(owner, 'PUT', '/data/none', asOf(wrong))).status).toBe(400);
    }
    const ofVersion = asOf(index, { 'x-amz-copy-source': '/data/in/a?versionId=null' });
    expect((await ask(owner, 'PUT', '/data/none', ofVersion)).status).toBe(400);
    // Who may write, and read what there is now, may not read what was.
    await grant('writer', ['s3:PutObject'], 'cms/newest');
    expect(
      (
        await ask(newest, 'PUT', '/data/now', {
          headers: { 'x-amz-copy-source': '/data/in/a' },
        })
      ).status,
    ).toBe(200);
    expect((await ask(newest, 'PUT', '/data/then', asOf(index))).status).toBe(403);
    expect((await ask(owner, 'PUT', '/data/in/a', asOf(index))).status).toBe(200);
  });

  it('is planned for those who may undelete, and for nobody else', async () => {
    const undelete = '/_/v1/tenants/cms/buckets/data/undelete';
    const who = [reader, newest, stranger];
    for (const one of who) {
      const { status } = await ask(one, 'GET', undelete, { query: { key: 'in/large' } });
      expect([403, 404]).toContain(status);
    }
    await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/undelete', {
      ...{ effect: 'allow', actions: ['bursar:Undelete'], subjects: ['principal:cms/reader'] },
    });
    const { status, body } = await ask(reader, 'GET', undelete, { query: { key: 'in/large' } });
    expect(status, body.toString()).toBe(200);
    const { objects } = JSON.parse(body.toString());
    expect(objects).toMatchObject([{ key: 'in/large', was: 'deleted', size: large.length }]);
    const [{ index }] = objects;
    const copy = asOf(index, { 'x-amz-copy-source': '/data/in/large' });
    expect((await ask(owner, 'PUT', '/data/in/large', copy)).status).toBe(200);
    expect((await ask(owner, 'GET', '/data/in/large')).body.equals(large)).toBe(true);
    await ask(owner, 'DELETE', '/data/in/large');
  });
});

describe('the native API', () => {
  it('shows what a snapshot holds, and what is different since', async () => {
    const shown = await callNative(target, 'GET', `${snapshots}/before`);
    // The object and its image, the large one, and what the tests above replaced.
    expect(shown).toMatchObject({ name: 'before', prefix: '', lock: null, expiresAt: null });
    expect(shown.heldVersions).toBeGreaterThanOrEqual(3);
    expect(shown.heldBytes).toBe(5 + large.length);
    const listed = await callNative(target, 'GET', snapshots);
    expect(listed).toMatchObject({ heldBytes: 5 + large.length, next: null });
    const { differences } = await callNative(target, 'GET', `${snapshots}/before/diff`);
    const changes = differences.map(({ change, key }: Record<string, string>) => [key, change]);
    expect(changes).toEqual(
      expect.arrayContaining([
        ['in/large', 'deleted'],
        ['in/new', 'added'],
      ]),
    );
    // One was never changed, and one is again what it was.
    const keys = changes.map(([key]: string[]) => key);
    expect(keys).not.toContain('out');
    expect(keys).not.toContain('in/a');
  });

  it('refuses what is not, or not there', async () => {
    const made = async (path: string, body: object) =>
      (await callNative(target, 'PUT', path, body, undefined).catch(String)) as string;
    expect(await made(`${snapshots}/before`, {})).toMatch('has a snapshot before already');
    expect(await made(`${snapshots}/UPPER`, {})).toMatch('InvalidInput');
    expect(await made(`${snapshots}/locked`, { lock: 'compliance' })).toMatch('InvalidInput');
    const past = { expiresAt: '2020-01-01T00:00:00Z' };
    expect(await made(`${snapshots}/past`, past)).toMatch('InvalidInput');
    const ofMount = snapshots.replace('/data/', '/then/');
    expect(await made(`${ofMount}/again`, {})).toMatch('NoSuchBucket');
    const share = { bucket: 'then', key: 'in/a', expiresIn: 60 };
    const refused = await callNative(owner, 'POST', '/_/v1/shares', share).catch(String);
    expect(refused).toMatch('InvalidInput');
  });

  it('has no mount of a snapshot any more once that has expired', async () => {
    const expiresAt = new Date(Date.now() + 3000).toISOString();
    await callNative(target, 'PUT', `${snapshots}/soon`, { expiresAt });
    await mount('cms', 'soon-then', 'soon');
    const statusOf = async () => (await ask(owner, 'GET', '/soon-then/in/a')).status;
    expect(await statusOf()).toBe(200);
    await expect.poll(statusOf, { timeout: 30_000 }).toBe(404);
    // By the next of the name the mount has something to show again.
    await callNative(target, 'PUT', `${snapshots}/soon`, {});
    expect(await statusOf()).toBe(200);
    await callNative(target, 'DELETE', `${snapshots}/soon`);
    expect(await statusOf()).toBe(404);
  }, 60_000);

  it('deletes a snapshot, whose mount is then not there, and lets its bucket go', async () => {
    await ask(owner, 'PUT', '/small');
    const ofSmall = '/_/v1/tenants/cms/buckets/small/snapshots/s';
    await callNative(target, 'PUT', ofSmall, {});
    const kept = await ask(owner, 'DELETE', '/small');
    expect([kept.status, kept.text]).toEqual([409, expect.stringContaining('snapshots (1)')]);
    await callNative(target, 'DELETE', ofSmall);
    expect((await ask(owner, 'DELETE', '/small')).status).toBe(204);
    await callNative(target, 'DELETE', `${snapshots}/before`);
    expect((await ask(owner, 'GET', '/then/in/a')).status).toBe(404);
    expect((await ask(owner, 'GET', '/data/in/a')).status).toBe(200);
    const { snapshots: left } = await callNative(target, 'GET', snapshots);
    expect(left).toEqual([]);
    // What it held is let go of behind the answer.
    await expect
      .poll(async () => (await callNative(target, 'GET', snapshots)).heldVersions, {
        timeout: 30_000,
      })
      .toBe(0);
  }, 60_000);
});

describe('the owner of a bucket, a member', () => {
  let other: Target;
  const of = '/_/v1/tenants/cms/buckets/owned';
  const json = { 'content-type': 'application/json' };
  const said = (body: object) => ({ headers: json, body: JSON.stringify(body) });

  beforeAll(async () => {
    other = as(target, await newPrincipal(target, { tenant: 'cms', name: 'other' }));
    await ask(owner, 'PUT', '/owned');
    await ask(owner, 'PUT', '/owned/a', { body: 'first' });
  });

  it.each<[string, string, object | undefined]>([
    ['GET', '', undefined],
    ['PUT', '/snapshots/mine', {}],
    ['GET', '/snapshots', undefined],
    ['GET', '/snapshots/mine', undefined],
    ['GET', '/snapshots/mine/diff', undefined],
    ['PUT', '/undelete', { seconds: 3600 }],
    ['GET', '/undelete?key=a', undefined],
    ['DELETE', '/undelete', undefined],
    ['DELETE', '/snapshots/mine', undefined],
  ])('may %s its%s, and others may not', async (method, path, body) => {
    const [bare = '', query = ''] = path.split('?');
    const asked = Object.fromEntries(new URLSearchParams(query));
    const more = { ...(body && said(body)), ...(query && { query: asked }) };
    for (const one of [other, stranger]) {
      const refused = await ask(one, method, `${of}${bare}`, more);
      expect(refused.status, refused.body.toString()).toBe(one === other ? 403 : 404);
    }
    const answer = await ask(owner, method, `${of}${bare}`, more);
    expect(answer.status, answer.body.toString()).not.toBe(403);
    expect(answer.status, answer.body.toString()).not.toBe(404);
  });

  it('is another one from the moment on at which it is given away', async () => {
    const body = { owner: 'other', from: 'owner' };
    await callNative(target, 'PUT', `${of}/owner`, body);
    expect((await ask(owner, 'PUT', `${of}/snapshots/late`, said({}))).status).toBe(403);
    expect((await ask(other, 'PUT', `${of}/snapshots/new`, said({}))).status).toBeLessThan(300);
  });

  it('is refused where a grant denies it, and is not let purge', async () => {
    const deny = { effect: 'deny', actions: ['bursar:CreateSnapshot'] };
    const subjects = ['principal:cms/other'];
    const grants = '/_/v1/tenants/cms/grants/no-snapshots';
    await callNative(target, 'PUT', grants, { ...deny, subjects, bucket: 'owned', prefix: '' });
    expect((await ask(other, 'PUT', `${of}/snapshots/denied`, said({}))).status).toBe(403);
    const purge = { key: 'a', reason: 'a try' };
    expect((await ask(other, 'POST', `${of}/purges`, said(purge))).status).toBe(403);
  });

  it('is explained as the owner', async () => {
    const question = { principal: 'cms/other', action: 'bursar:GetBucket' };
    const answer = (await callNative(target, 'POST', '/_/v1/explain', {
      ...question,
      resource: 'cms:owned',
    })) as { allowed: boolean; by: string };
    expect(answer).toMatchObject({ allowed: true, by: 'owner' });
  });
});

describe('rights to a part of a bucket', () => {
  let keeper: Target;
  const ofRuns = '/_/v1/tenants/cms/buckets/runs/snapshots';
  const all = ['Create', 'List', 'Get', 'Delete'].map((verb) => `bursar:${verb}Snapshot`);
  const actions = all.map((action) => action.replace('ListSnapshot', 'ListSnapshots'));

  async function native(who: Target, method: string, path: string, body?: object) {
    const [bare = '', ...query] = path.split('?');
    const answer = await send(who, {
      ...{ method, path: bare, query: query.map((one) => one.split('=') as [string, string]) },
      ...(body && {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
      }),
    });
    return { ...answer, json: answer.text === '' ? null : JSON.parse(answer.text) };
  }

  async function allow(subject: string, name: string, more: object = {}): Promise<void> {
    await callNative(target, 'PUT', `/_/v1/tenants/cms/grants/${name}`, {
      ...{ effect: 'allow', actions, subjects: [`principal:${subject}`] },
      ...{ bucket: 'runs', prefix: 'run1', ...more },
    });
  }

  beforeAll(async () => {
    keeper = as(target, await newPrincipal(target, { tenant: 'cms', name: 'keeper' }));
    await ask(owner, 'PUT', '/runs');
    for (const key of ['run1', 'run1/a', 'run1/b/c', 'run10/a']) {
      await ask(owner, 'PUT', `/runs/${key}`, { body: key });
    }
    await callNative(target, 'PUT', `${ofRuns}/whole`, {});
    await callNative(target, 'PUT', `${ofRuns}/ten`, { prefix: 'run10/' });
    await allow('cms/keeper', 'keeper');
  });

  it('makes, lists, shows, compares and deletes snapshots of that part', async () => {
    for (const [name, prefix] of Object.entries({ one: 'run1/', below: 'run1/b/' })) {
      const made = await native(keeper, 'PUT', `${ofRuns}/${name}`, { prefix });
      expect([made.status, made.json]).toMatchObject([200, { name, prefix }]);
    }
    await ask(owner, 'DELETE', '/runs/run1/a');
    await ask(owner, 'DELETE', '/runs/run10/a');
    const listed = await native(keeper, 'GET', `${ofRuns}?prefix=run1/`);
    expect(listed.json.snapshots.map(({ name }: { name: string }) => name)).toEqual([
      ...['below', 'one'],
    ]);
    // Of the others nothing is said, nor what they hold.
    expect(listed.json).toMatchObject({ heldVersions: 1, heldBytes: 'run1/a'.length });
    const diff = await native(keeper, 'GET', `${ofRuns}/one/diff`);
    expect(diff.json.differences).toMatchObject([{ key: 'run1/a', change: 'deleted' }]);
    expect((await native(keeper, 'DELETE', `${ofRuns}/below`)).status).toBe(204);
    const { index } = (await native(keeper, 'GET', `${ofRuns}/one`)).json;
    // To bring it back are rights of their own.
    const headers = {
      'x-amz-copy-source': '/runs/run1/a',
      'x-bursar-copy-source-as-of': `${index}`,
    };
    expect((await ask(keeper, 'PUT', '/runs/run1/a', { headers })).status).toBe(403);
    await allow('cms/keeper', 'restorer', { actions: ['s3:GetObjectVersion', 's3:PutObject'] });
    expect((await ask(keeper, 'PUT', '/runs/run1/a', { headers })).status).toBe(200);
    expect((await ask(owner, 'GET', '/runs/run1/a')).text).toBe('run1/a');
  });

  it.each([
    ...[
      '',
      'run',
      'run1',
      'run10/',
      'run10',
      'Run1/',
      'run1%2F',
      '/run1/',
      'run1\\',
      'run1\u0000/',
    ],
    ...['run1\u2215', '../run1/', './run1/', ' run1/', 'run2/../run1/'],
  ])('makes none of %j', async (prefix) => {
    expect((await native(keeper, 'PUT', `${ofRuns}/other`, { prefix })).status).toBe(403);
    const encoded = `${ofRuns}?prefix=${prefix}`;
    expect((await native(keeper, 'GET', encoded)).status).toBe(403);
  });

  it('says nothing of others, nor whether they are there', async () => {
    for (const name of ['whole', 'ten', 'ghost']) {
      for (const [method, path, body] of [
        ['GET', name],
        ['DELETE', name],
        ['GET', `${name}/diff`],
        ['GET', `${name}/diff?prefix=run1/`],
        ['GET', `one/diff?to=${name}`],
      ] as [string, string, object?][]) {
        const { status, json } = await native(keeper, method, `${ofRuns}/${path}`, body);
        expect([method, path, status, json.code]).toEqual([method, path, 403, 'AccessDenied']);
      }
    }
    expect((await native(keeper, 'PUT', `${ofRuns}/everything`)).status).toBe(403);
    expect((await native(keeper, 'GET', ofRuns)).status).toBe(403);
    const inOther = ofRuns.replace('/runs/', '/data/');
    expect((await native(keeper, 'PUT', `${inOther}/x`, { prefix: 'run1/' })).status).toBe(403);
    const bypassing = `${ofRuns}/one?bypassGovernance=true`;
    expect((await native(keeper, 'DELETE', bypassing)).status).toBe(403);
    expect((await native(target, 'GET', `${ofRuns}/whole`)).status).toBe(200);
    expect((await native(target, 'GET', `${ofRuns}/ghost`)).status).toBe(404);
  });

  it('ends at the tenant, and reaches into it by its own grants alone', async () => {
    const inAtlas = ofRuns.replace('/cms/', '/atlas/');
    const make = (who: Target, path: string) =>
      native(who, 'PUT', `${path}/theirs`, { prefix: 'run1/' });
    for (const answer of [
      await make(keeper, inAtlas),
      await make(stranger, ofRuns),
      await native(stranger, 'GET', `${ofRuns}/one`),
      await native(stranger, 'GET', `${ofRuns}?prefix=run1/`),
    ]) {
      expect([answer.status, answer.json.code]).toEqual([404, 'NoSuchTenant']);
    }
    await allow('atlas/eve', 'visitor');
    expect((await make(stranger, ofRuns)).status).toBe(200);
    // Of what is beside it they learn no more than before.
    const beside = await native(stranger, 'GET', `${ofRuns}/whole`);
    expect([beside.status, beside.json.code]).toEqual([404, 'NoSuchTenant']);
    expect((await native(stranger, 'DELETE', `${ofRuns}/theirs`)).status).toBe(204);
  });

  it('is denied where a part of it is denied, and explained as it is decided', async () => {
    const explain = async (resource: string) => {
      const asked = { principal: 'cms/keeper', action: 'bursar:CreateSnapshot', resource };
      const { allowed, by } = await callNative(target, 'POST', '/_/v1/explain', asked);
      return [allowed, by];
    };
    expect(await explain('cms:runs/run1/')).toEqual([true, 'grant:keeper']);
    expect(await explain('cms:runs/run10/')).toEqual([false, 'role']);
    expect(await explain('cms')).toEqual([false, 'role']);
    await allow('cms/keeper', 'secret', { effect: 'deny', prefix: 'run1/secret/' });
    expect(await explain('cms:runs/run1/')).toEqual([false, 'grant:secret']);
    for (const [prefix, status] of [
      ['run1/', 403],
      ['run1/secret/x', 403],
      ['run1/open/', 200],
    ] as const) {
      const made = await native(keeper, 'PUT', `${ofRuns}/denied`, { prefix });
      expect([prefix, made.status]).toEqual([prefix, status]);
    }
    expect((await native(keeper, 'GET', `${ofRuns}/one`)).status).toBe(403);
  });
});

describe('pages of what would come back, and of what differs', () => {
  const undelete = '/_/v1/tenants/cms/buckets/paged/undelete';
  const diff = '/_/v1/tenants/cms/buckets/paged/snapshots/all/diff';
  const longKeys = ['a', 'b', 'c'].map((end) => `in/${'x'.repeat(400)}/${end}`);
  const keysIn = async (path: string, who: Target, query: Record<string, string>) => {
    const answer = await ask(who, 'GET', path, { query });
    const { objects, differences, next } = JSON.parse(answer.body.toString());
    const keys = (objects ?? differences)?.map(({ key }: { key: string }) => key);
    return { status: answer.status, keys, next };
  };

  beforeAll(async () => {
    await ask(owner, 'PUT', '/paged');
    for (const key of ['early', ...longKeys, 'in/held', 'later']) {
      await ask(owner, 'PUT', `/paged/${key}`, { body: `first ${key}` });
    }
    const call = (method: string, path: string, body: object) =>
      callNative(owner, method, `/_/v1/tenants/cms/buckets/paged/${path}`, body);
    await call('PUT', 'snapshots/all', {});
    await ask(owner, 'DELETE', '/paged/in/held');
    await call('PUT', 'undelete', { seconds: 3600 });
    for (const key of ['early', ...longKeys, 'later']) await ask(owner, 'DELETE', `/paged/${key}`);
    await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/paged', {
      ...{ effect: 'allow', actions: ['bursar:Undelete', 'bursar:GetSnapshot'], bucket: 'paged' },
      ...{ subjects: ['principal:cms/newest'], prefix: 'in/' },
    });
  });

  it.each([undelete, diff])('go on behind long keys: %s', async (path) => {
    const keys: string[] = [];
    for (let after: string | undefined; ; ) {
      const query = { prefix: 'in/', limit: '1', ...(after !== undefined && { after }) };
      const page = await keysIn(path, owner, query);
      expect(page.status).toBe(200);
      keys.push(...page.keys);
      if (page.next === null) break;
      after = page.next;
    }
    // One was deleted before the window began: a snapshot has it, and nobody knows what came then.
    expect(keys).toEqual(path === diff ? ['in/held', ...longKeys] : longKeys);
  });

  it('stay below the prefix that is granted', async () => {
    for (const after of ['', 'a', 'early', 'in', 'zzz']) {
      const page = await keysIn(undelete, newest, { prefix: 'in/', after });
      expect([after, page.status]).toEqual([after, 400]);
      const other = await keysIn(diff, owner, { prefix: 'in/', after });
      expect([after, other.status]).toEqual([after, 400]);
    }
    expect((await keysIn(undelete, newest, { prefix: 'in/' })).keys).toEqual(longKeys);
    expect((await keysIn(undelete, newest, { prefix: 'i' })).status).toBe(403);
  });
});
