// The feed of changes as those who follow it see it: what became of objects, in order, and of those
// alone that they may list and read.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
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

interface Told {
  eventName: string;
  s3: {
    bucket: { name: string };
    object: { key: string; size?: number; versionId?: string; sequencer: string };
  };
  userIdentity: { principalId?: string };
  requestParameters: { sourceIPAddress?: string };
  bursar: { index: number; version: number };
}

interface Page {
  Records: Told[];
  altered: number[];
  next: string;
  more: boolean;
}

let operator: Target;
let admin: Target;
/** May do everything in `data` below `in/`. */
let alice: Target;
let bob: Target;
/** Of another tenant. */
let stranger: Target;

async function ask(who: Target, method: string, path: string, more: Partial<Message> = {}) {
  const answer = await send(who, { ...more, method, path });
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer;
}

function changes(who: Target, query: Record<string, string>, tenant = 'cms'): Promise<Page> {
  const path = `/_/v1/tenants/${tenant}/changes`;
  return callNative(who, 'GET', path, undefined, Object.entries(query));
}

/** All that is told, page by page. */
async function follow(who: Target, query: Record<string, string>, tenant = 'cms') {
  const told: Told[] = [];
  for (let after = query.after ?? '-1'; ; ) {
    const page = await changes(who, { ...query, after }, tenant);
    told.push(...page.Records);
    if (!page.more) return told;
    after = page.next;
  }
}

const shown = (told: readonly Told[]) =>
  told.map(({ eventName, s3 }) => `${eventName} ${s3.bucket.name}/${s3.object.key}`);

const keysOf = (told: readonly Told[]) => [...new Set(told.map(({ s3 }) => s3.object.key))].sort();

/** The index of the newest record. */
async function now(): Promise<string> {
  return (await changes(operator, { after: 'now' })).next;
}

async function grant(name: string, fields: object): Promise<void> {
  await callNative(operator, 'PUT', `/_/v1/tenants/cms/grants/${name}`, fields);
}

beforeAll(async () => {
  operator = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas'])
    await callNative(operator, 'POST', '/_/v1/tenants', { name });
  admin = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'ada', role: 'admin' }));
  alice = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'alice' }));
  bob = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'bob' }));
  stranger = as(operator, await newPrincipal(operator, { tenant: 'atlas', name: 'alice' }));
  for (const bucket of ['data', 'kept', 'mine']) await ask(admin, 'PUT', `/${bucket}`);
  await grant('alice', {
    ...{ effect: 'allow', actions: ['s3:GetObject', 's3:PutObject', 's3:ListBucket'] },
    ...{ subjects: ['principal:cms/alice'], bucket: 'data', prefix: 'in/' },
  });
});
afterAll(() => operator.stop());

describe('what is told', () => {
  it('names each change as S3 does, with the index of its receipt', async () => {
    const after = await now();
    const put = await ask(admin, 'PUT', '/data/a/first file.txt', { body: 'hello' });
    await ask(admin, 'PUT', '/data/a/copy', {
      headers: { 'x-amz-copy-source': '/data/a/first file.txt' },
    });
    const tagging = '<Tagging><TagSet><Tag><Key>t</Key><Value>v</Value></Tag></TagSet></Tagging>';
    await ask(admin, 'PUT', '/data/a/copy', { query: [['tagging', '']], body: tagging });
    await ask(admin, 'DELETE', '/data/a/copy', { query: [['tagging', '']] });
    const begun = await ask(admin, 'POST', '/data/a/parts', { query: [['uploads', '']] });
    const uploadId = elementOf(begun.text, 'UploadId') ?? '';
    const part = await ask(admin, 'PUT', '/data/a/parts', {
      ...{
        query: [
          ['partNumber', '1'],
          ['uploadId', uploadId],
        ],
        body: patternOf(300_000),
      },
    });
    const parts = `<Part><PartNumber>1</PartNumber><ETag>${part.headers.etag}</ETag></Part>`;
    await ask(admin, 'POST', '/data/a/parts', {
      query: [['uploadId', uploadId]],
      body: `<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`,
    });
    await ask(admin, 'GET', '/data/a/parts');
    await ask(admin, 'DELETE', '/data/a/copy');
    await ask(admin, 'DELETE', '/data/a/never there');
    const told = await follow(admin, { after, bucket: 'data' });
    expect(shown(told)).toEqual([
      'ObjectCreated:Put data/a/first+file.txt',
      'ObjectCreated:Copy data/a/copy',
      'ObjectTagging:Put data/a/copy',
      'ObjectTagging:Delete data/a/copy',
      'ObjectCreated:CompleteMultipartUpload data/a/parts',
      'ObjectRemoved:Delete data/a/copy',
    ]);
    const [first] = told;
    expect(first).toMatchObject({
      eventVersion: '2.1',
      userIdentity: { principalId: 'cms/ada' },
      requestParameters: { sourceIPAddress: '127.0.0.1' },
      responseElements: { 'x-amz-request-id': put.headers['x-amz-request-id'] },
      s3: { object: { size: 5, eTag: '5d41402abc4b2a76b9719d911017c592' } },
      bursar: { index: Number(put.headers['x-bursar-receipt']), tenant: 'cms', class: 'STANDARD' },
    });
    expect(first?.s3.object.sequencer).toBe(
      Number(put.headers['x-bursar-receipt']).toString(16).toUpperCase().padStart(16, '0'),
    );
    expect(await follow(admin, { after, bucket: 'data', limit: '1' })).toEqual(told);
  });

  it('tells versions, delete markers and renames so that they can be replayed', async () => {
    const versioning =
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    await ask(admin, 'PUT', '/kept', { query: [['versioning', '']], body: versioning });
    await ask(admin, 'PUT', '/kept/k', { body: '1' });
    const second = await ask(admin, 'PUT', '/kept/k', { body: '22' });
    await ask(admin, 'DELETE', '/kept/k');
    await ask(admin, 'PUT', '/kept/old', { body: '333' });
    await ask(admin, 'PUT', '/kept/new', {
      query: [['renameObject', '']],
      headers: { 'x-amz-rename-source': '/kept/old' },
    });
    const versionId = second.headers['x-amz-version-id'] ?? '';
    await ask(admin, 'DELETE', '/kept/k', { query: [['versionId', versionId]] });
    const told = await follow(admin, { bucket: 'kept' });
    expect(shown(told)).toEqual([
      'ObjectCreated:Put kept/k',
      'ObjectCreated:Put kept/k',
      'ObjectRemoved:DeleteMarkerCreated kept/k',
      'ObjectCreated:Put kept/old',
      'ObjectCreated:Copy kept/new',
      'ObjectRemoved:DeleteMarkerCreated kept/old',
      'ObjectRemoved:Delete kept/k',
    ]);
    expect(told.at(-1)?.s3.object.versionId).toBe(versionId);
    const listed = await ask(admin, 'GET', '/kept', { query: [['versions', '']] });
    const versions = new Map<string, true>();
    for (const { eventName, s3 } of told) {
      const version = `${s3.object.key} ${s3.object.versionId}`;
      if (eventName === 'ObjectRemoved:Delete') versions.delete(version);
      else versions.set(version, true);
    }
    const keys = elementsOf(listed.text, 'Key');
    const ids = elementsOf(listed.text, 'VersionId');
    expect([...versions.keys()].sort()).toEqual(keys.map((key, i) => `${key} ${ids[i]}`).sort());
  });

  it('tells who put another list on an object', async () => {
    const after = await now();
    const own = '<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>';
    const query = [['ownershipControls', '']] as const;
    await ask(admin, 'PUT', '/mine', { query, body: `${own}</OwnershipControls>` });
    await ask(admin, 'PUT', '/mine/listed', { body: 'x' });
    const headers = { 'x-amz-grant-read': 'id="cms/bob"' };
    await ask(admin, 'PUT', '/mine/listed', { query: [['acl', '']], headers });
    const told = await follow(admin, { after, bucket: 'mine' });
    expect(shown(told)).toEqual(['ObjectCreated:Put mine/listed', 'ObjectAcl:Put mine/listed']);
    await ask(admin, 'DELETE', '/mine', { query });
  });

  it('wakes who waits when something happens, and not for what is none of theirs', async () => {
    const after = await now();
    const waiting = changes(admin, { after, wait: '30', bucket: 'mine' });
    await sleep(200);
    await ask(admin, 'PUT', '/data/other', { body: 'x' });
    await sleep(200);
    await ask(admin, 'PUT', '/mine/k', { body: 'x' });
    expect(shown((await waiting).Records)).toEqual(['ObjectCreated:Put mine/k']);
  });

  it('moves on when nothing has come in time', async () => {
    const after = await now();
    const page = await changes(admin, { after, wait: '1', bucket: 'mine' });
    expect(page.Records).toEqual([]);
    expect(Number(page.next)).toBeGreaterThanOrEqual(Number(after));
  });
});

describe('who is told', () => {
  let after: string;
  beforeAll(async () => {
    after = await now();
    for (const key of ['in/a', 'in/b', 'in', 'inn/c', 'out/d']) {
      await ask(admin, 'PUT', `/data/${key}`, { body: key });
    }
    await ask(admin, 'DELETE', '/data/in/b');
  });

  it('tells a grant on a prefix what is below it, and nobody whose they were', async () => {
    const told = await follow(alice, { after, bucket: 'data', prefix: 'in/' });
    expect(shown(told)).toEqual([
      'ObjectCreated:Put data/in/a',
      'ObjectCreated:Put data/in/b',
      'ObjectRemoved:Delete data/in/b',
    ]);
    for (const { userIdentity, requestParameters } of told) {
      expect([userIdentity, requestParameters]).toEqual([{}, {}]);
    }
  });

  it.each([
    ['the whole bucket', { bucket: 'data' }, 403],
    ['a shorter prefix', { bucket: 'data', prefix: 'in' }, 403],
    ['another prefix', { bucket: 'data', prefix: 'out/' }, 403],
    ['another bucket', { bucket: 'mine' }, 403],
    ['no such bucket', { bucket: 'nowhere' }, 404],
    ['no name of a bucket', { bucket: 'A' }, 400],
    ['half a cursor', { after: '1x' }, 400],
    ['too long a wait', { wait: '31' }, 400],
    ['no such parameter', { prefixes: 'in/' }, 400],
  ])('refuses who asks for %s', async (_what, query, status) => {
    const answer = await send(alice, {
      ...{ method: 'GET', path: '/_/v1/tenants/cms/changes', query: Object.entries(query) },
    });
    expect(answer.status).toBe(status);
  });

  it('leaves out, of all buckets, what may not be listed or read', async () => {
    expect(await follow(alice, { after })).toEqual([]);
    expect(keysOf(await follow(alice, { after, prefix: 'in/' }))).toEqual(['in/a', 'in/b']);
    expect(await follow(bob, { after, prefix: 'in/' })).toEqual([]);
    const all = keysOf(await follow(admin, { after }));
    expect(all).toEqual(['in', 'in/a', 'in/b', 'inn/c', 'out/d']);
  });

  it('knows nothing of other tenants but by their grants', async () => {
    const path = '/_/v1/tenants/cms/changes';
    expect((await send(stranger, { method: 'GET', path })).status).toBe(404);
    expect(await follow(stranger, { after }, 'atlas')).toEqual([]);
    const named = { after, bucket: 'cms:data', prefix: 'in/' };
    const query = Object.entries(named);
    const refused = await send(stranger, {
      method: 'GET',
      path: '/_/v1/tenants/atlas/changes',
      query,
    });
    expect(refused.status).toBe(403);
    await grant('atlas', {
      ...{ effect: 'allow', actions: ['s3:GetObject', 's3:ListBucket'] },
      ...{ subjects: ['principal:atlas/alice'], bucket: 'data', prefix: 'in/' },
    });
    const told = await follow(stranger, named, 'atlas');
    expect(shown(told)[0]).toBe('ObjectCreated:Put cms:data/in/a');
    const mount = { bucketTenant: 'cms', bucket: 'data' };
    await callNative(operator, 'PUT', '/_/v1/tenants/atlas/mounts/theirs', mount);
    const mounted = await follow(stranger, { ...named, bucket: 'theirs' }, 'atlas');
    expect(shown(mounted)[0]).toBe('ObjectCreated:Put theirs/in/a');
    // What is written once is still told to each in their words.
    for (const [who, by] of [
      [alice, undefined],
      [admin, 'cms/ada'],
      [alice, undefined],
    ] as const) {
      const [first] = await follow(who, { after, bucket: 'data', prefix: 'in/' });
      expect(first?.s3.bucket.name).toBe('data');
      expect(first?.userIdentity.principalId).toBe(by);
    }
  });

  it('tells a token what its scope covers, and none without storage', async () => {
    const issue = (scope: string) =>
      callNative(alice, 'POST', '/_/v1/tokens', { scope, expiresIn: 3600 });
    const ask = async (token: string, query: string) => {
      const url = `${operator.endpoint}/_/v1/tenants/cms/changes?after=${after}&${query}`;
      const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      if (!answer.ok && answer.status !== 403) throw new Error(await answer.text());
      return { status: answer.status, page: (await answer.json()) as Page };
    };
    const { token: narrow } = await issue('storage.read:/data/in/b storage.read:/data/in/x');
    expect((await ask(narrow, 'bucket=data&prefix=in/b')).status).toBe(403);
    expect((await ask(narrow, 'bucket=data&prefix=in/')).status).toBe(403);
    expect((await ask(narrow, '')).page.Records).toEqual([]);
    const { token: whole } = await issue('storage.read:/data/in');
    const asked = await ask(whole, 'bucket=data&prefix=in/');
    expect(keysOf(asked.page.Records)).toEqual(['in/a', 'in/b']);
    expect((await ask(whole, 'bucket=data')).status).toBe(403);
    const { token: writing } = await issue('storage.create:/data/in/');
    expect((await ask(writing, 'bucket=data&prefix=in/')).status).toBe(403);
  });

  it('decides by tags of what is there, and tells nothing where they are gone', async () => {
    const begin = await now();
    await grant('secret', {
      ...{ effect: 'deny', actions: ['s3:GetObject'], subjects: ['principal:cms/alice'] },
      ...{ bucket: 'data', prefix: 'in/' },
      conditions: { StringEquals: { 's3:ExistingObjectTag/level': 'secret' } },
    });
    const tagged = { headers: { 'x-amz-tagging': 'level=secret' }, body: 'x' };
    await ask(admin, 'PUT', '/data/in/open', { body: 'x' });
    await ask(admin, 'PUT', '/data/in/secret', tagged);
    await ask(admin, 'PUT', '/data/in/gone', tagged);
    await ask(admin, 'DELETE', '/data/in/gone');
    const told = await follow(alice, { after: begin, bucket: 'data', prefix: 'in/' });
    expect(keysOf(told)).toEqual(['in/open']);
    await callNative(operator, 'DELETE', '/_/v1/tenants/cms/grants/secret');
  });

  it('ends the wait of who has lost the right, and tells them nothing', async () => {
    const begin = await now();
    const query = Object.entries({ after: begin, wait: '30', bucket: 'data', prefix: 'in/' });
    const waiting = send(alice, { method: 'GET', path: '/_/v1/tenants/cms/changes', query });
    await sleep(300);
    await callNative(operator, 'DELETE', '/_/v1/tenants/cms/grants/alice');
    await ask(admin, 'PUT', '/data/in/later', { body: 'x' });
    const answer = await waiting;
    expect(answer.status).toBe(403);
    expect(answer.text).not.toContain('later');
  });

  it('refuses who has lost the right while their answers were prepared', async () => {
    const eve = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'eve' }));
    const path = '/_/v1/tenants/cms/changes';
    for (const ms of [85, 110]) {
      await grant('eve', {
        ...{ effect: 'allow', actions: ['s3:GetObject', 's3:ListBucket'] },
        ...{ subjects: ['principal:cms/eve'], bucket: 'data', prefix: 'in/' },
      });
      const query = Object.entries({
        after: await now(),
        wait: '9',
        bucket: 'data',
        prefix: 'in/',
      });
      // The more gather, the longer each: so the answers come one after the other.
      const waiting = Array.from({ length: 40 }, () => send(eve, { method: 'GET', path, query }));
      await sleep(300);
      await ask(admin, 'PUT', '/data/in/many', { body: 'x' });
      await sleep(ms);
      await callNative(operator, 'DELETE', '/_/v1/tenants/cms/grants/eve');
      for (const { status } of await Promise.all(waiting)) expect([200, 403]).toContain(status);
    }
  });

  /** Asks what comes, and does something while it waits. */
  async function whileWaiting(who: Target, act: () => Promise<void>) {
    const query = Object.entries({ after: await now(), wait: '30', bucket: 'mine' });
    const waiting = send(who, { method: 'GET', path: '/_/v1/tenants/cms/changes', query });
    await sleep(300);
    await act();
    return waiting;
  }

  it('tells who made a change to those who may know it when they are told', async () => {
    const mine = ['s3:GetObject', 's3:ListBucket'];
    const made = { tenant: 'cms', name: 'grace', role: 'admin' } as const;
    const grace = as(operator, await newPrincipal(operator, made));
    await grant('grace', {
      ...{ effect: 'allow', actions: mine, subjects: ['principal:cms/grace'], bucket: 'mine' },
    });
    const answer = await whileWaiting(grace, async () => {
      const path = '/_/v1/tenants/cms/principals/grace';
      await callNative(operator, 'PATCH', path, { role: 'member' });
      await ask(admin, 'PUT', '/mine/after', { body: 'x' });
    });
    const [told] = (JSON.parse(answer.text) as Page).Records;
    expect(shown(told ? [told] : [])).toEqual(['ObjectCreated:Put mine/after']);
    expect([told?.userIdentity, told?.requestParameters]).toEqual([{}, {}]);
  });

  it('ends the wait of who may not ask any more, before anything comes', async () => {
    const answer = await whileWaiting(admin, () =>
      grant('unasked', {
        ...{ effect: 'deny', actions: ['bursar:ReadChanges'], subjects: ['principal:cms/ada'] },
      }),
    );
    expect(answer.status).toBe(403);
    await callNative(operator, 'DELETE', '/_/v1/tenants/cms/grants/unasked');
  });

  it('tells what it has gathered although rights of others were taken away meanwhile', async () => {
    const answer = await whileWaiting(admin, async () => {
      await ask(admin, 'PUT', '/mine/gathered', { body: 'x' });
      await callNative(operator, 'DELETE', '/_/v1/tenants/cms/grants/grace');
    });
    expect(shown((JSON.parse(answer.text) as Page).Records)).toEqual([
      'ObjectCreated:Put mine/gathered',
    ]);
  });

  it('tells nothing of a bucket that had the same name before', async () => {
    await callNative(operator, 'PATCH', '/_/v1/tenants/cms', { membersCreateBuckets: true });
    await ask(admin, 'PUT', '/again');
    await ask(admin, 'PUT', '/again/of ada', { body: 'x' });
    await ask(admin, 'DELETE', '/again/of ada');
    await ask(admin, 'DELETE', '/again');
    await ask(bob, 'PUT', '/again');
    await ask(bob, 'PUT', '/again/of bob', { body: 'x' });
    expect(keysOf(await follow(bob, { bucket: 'again' }))).toEqual(['of+bob']);
    expect(keysOf(await follow(bob, {}))).toEqual(['of+bob']);
  });
});
