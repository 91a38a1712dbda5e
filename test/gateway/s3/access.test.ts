// Every S3 operation under grants, bucket policies and delegations, on a served gateway: who is let
// in gets what it asks for, and nobody else learns what there is.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  elementsOf,
  exchange,
  type Message,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
  targetOf,
} from '../../protocol/target.ts';

let target: Target;
/** The owner of the bucket `raw` of the tenant cms, another member, and an admin. */
let alice: Target;
let bob: Target;
let boss: Target;
/** A member of the tenant dune, and its admin. */
let eve: Target;
let duke: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  const person = async (tenant: string, name: string, role = 'member') =>
    as(target, await newPrincipal(target, { tenant, name, role }));
  for (const name of ['cms', 'dune']) {
    await callNative(target, 'POST', '/_/v1/tenants', { name });
  }
  alice = await person('cms', 'alice');
  bob = await person('cms', 'bob');
  boss = await person('cms', 'boss', 'admin');
  eve = await person('dune', 'eve');
  duke = await person('dune', 'duke', 'admin');
  expect((await ask(alice, 'PUT', '/raw')).status).toBe(200);
  await open(alice, '/raw');
  for (const key of ['2025/a', '2026/a', '2026/b', '20260', 'top']) {
    expect((await ask(alice, 'PUT', `/raw/${key}`, { body: key })).status).toBe(200);
  }
}, 60_000);

afterAll(() => target?.stop(), 60_000);

type More = Omit<Partial<Message>, 'query'> & { query?: Record<string, string> };

function ask(who: Target, method: string, path: string, more: More = {}): Promise<Answer> {
  const query = Object.entries(more.query ?? {});
  return send(who, { ...more, method, path, query });
}

/** Takes from a bucket what keeps it from being opened to everybody. */
async function open(who: Target, path: string): Promise<void> {
  const query = { publicAccessBlock: '' };
  expect((await ask(who, 'DELETE', path, { query })).status).toBe(204);
}

/** The same without credentials. */
function askOpenly(method: string, path: string, more: More = {}): Promise<Answer> {
  const asked = targetOf(path, Object.entries(more.query ?? {}));
  return exchange(target, method, asked, { ...more.headers }, more.body);
}

const outcome = ({ status, code }: Answer) => [status, code];
const denied = [403, 'AccessDenied'];

let count = 0;

/** Makes a grant in cms, on `raw` if it does not say where, and gives what takes it back. */
async function grant(rule: object): Promise<() => Promise<void>> {
  const path = `/_/v1/tenants/cms/grants/g${++count}`;
  await callNative(boss, 'PUT', path, { effect: 'allow', bucket: 'raw', ...rule });
  return () => callNative(boss, 'DELETE', path);
}

/** Sets the policy of `raw`; without statements, none. */
async function setPolicy(...statements: object[]): Promise<void> {
  const query = { policy: '' };
  if (statements.length === 0) return void (await ask(alice, 'DELETE', '/raw', { query }));
  const whole = statements.map((one) => ({ Effect: 'Allow', Principal: '*', ...one }));
  const body = JSON.stringify({ Version: '2012-10-17', Statement: whole });
  const answer = await ask(alice, 'PUT', '/raw', { query, body });
  expect([answer.status, answer.text]).toEqual([204, '']);
}

const objects = 'arn:aws:s3:::raw/*';
const listOf = (answer: Answer) => elementsOf(answer.text, 'Key');

describe('a grant on a part of a bucket', () => {
  let revoke: () => Promise<void>;
  beforeAll(async () => {
    revoke = await grant({
      subjects: ['principal:cms/bob'],
      actions: ['s3:GetObject'],
      prefix: '2026/',
    });
  });
  afterAll(() => revoke());

  it('lets its reader get and list what is there, ranges and heads too', async () => {
    const got = await ask(bob, 'GET', '/raw/2026/a', { headers: { range: 'bytes=0-3' } });
    expect([got.status, got.text]).toEqual([206, '2026']);
    expect((await ask(bob, 'HEAD', '/raw/2026/b')).status).toBe(200);
    const listed = await ask(bob, 'GET', '/raw', { query: { prefix: '2026/' } });
    expect([listed.status, listOf(listed)]).toEqual([200, ['2026/a', '2026/b']]);
  });

  it('shows no sibling, and lists nothing above it', async () => {
    const siblings = ['2025/a', '20260', 'top'].map((key) => ask(bob, 'GET', `/raw/${key}`));
    const queries: Record<string, string>[] = [
      ...[{}, { prefix: '2' }, { prefix: '2026' }],
      ...[{ delimiter: '/' }, { uploads: '' }],
    ];
    const listings = queries.map((query) => ask(bob, 'GET', '/raw', { query }));
    for (const answer of await Promise.all([...siblings, ...listings])) {
      expect(outcome(answer)).toEqual(denied);
    }
  });

  it('tells of a missing key where it lists, and nowhere else', async () => {
    expect(outcome(await ask(bob, 'GET', '/raw/2026/none'))).toEqual([404, 'NoSuchKey']);
    expect(outcome(await ask(bob, 'GET', '/raw/none'))).toEqual(denied);
    const Condition = { StringLike: { 's3:prefix': '2026/*' } };
    const list = { Action: 's3:ListBucket', Resource: 'arn:aws:s3:::raw', Condition };
    await setPolicy({ Action: 's3:GetObject', Resource: objects }, list);
    expect((await ask(eve, 'GET', '/cms:raw/2026/none')).status).toBe(404);
    // A query that only looks like a listing's changes nothing.
    for (const query of [{}, { prefix: '2026/' }] as Record<string, string>[]) {
      expect(outcome(await ask(eve, 'GET', '/cms:raw/none', { query }))).toEqual(denied);
    }
    expect((await ask(eve, 'HEAD', '/cms:raw/none')).status).toBe(403);
    const headers = { 'x-amz-copy-source': 'cms:raw/none' };
    expect((await ask(eve, 'PUT', '/own')).status).toBe(200);
    expect(outcome(await ask(eve, 'PUT', '/own/copy', { headers }))).toEqual(denied);
    await setPolicy();
  });

  it('lets nothing be written, copied or deleted, in none of the ways to do so', async () => {
    const copy = { 'x-amz-copy-source': 'raw/2026/a' };
    const writes = [
      ask(bob, 'PUT', '/raw/2026/a', { body: 'x' }),
      ask(bob, 'PUT', '/raw/2026/c', { headers: copy }),
      ask(bob, 'POST', '/raw/2026/a', { query: { uploads: '' } }),
      ask(bob, 'PUT', '/raw/2026/a', { query: { uploadId: 'x', partNumber: '1' }, body: 'x' }),
      ask(bob, 'POST', '/raw/2026/a', { query: { uploadId: 'x' }, body: '<x/>' }),
      ask(bob, 'DELETE', '/raw/2026/a', { query: { uploadId: 'x' } }),
      ask(bob, 'DELETE', '/raw/2026/a'),
      ask(bob, 'POST', '/raw', { query: { delete: '' }, body: deletionOf('2026/a') }),
      ask(bob, 'PUT', '/raw', { query: { policy: '' }, body: '{}' }),
      ask(bob, 'DELETE', '/raw'),
    ];
    for (const answer of await Promise.all(writes)) expect(outcome(answer)).toEqual(denied);
    expect((await ask(alice, 'GET', '/raw/2026/a')).text).toBe('2026/a');
  });

  it('counts until it is taken back, and not for the next request', async () => {
    const subjects = ['principal:cms/bob'];
    const end = await grant({ subjects, actions: ['s3:GetObject'], key: 'top' });
    expect((await ask(bob, 'GET', '/raw/top')).text).toBe('top');
    await end();
    expect(outcome(await ask(bob, 'GET', '/raw/top'))).toEqual(denied);
  });
});

const deletionOf = (...keys: string[]): string => {
  const all = keys.map((key) => `<Object><Key>${key}</Key></Object>`);
  return `<Delete>${all.join('')}</Delete>`;
};

describe('a request for several things', () => {
  it('deletes the keys that it may, and says of each other one that it may not', async () => {
    const subjects = ['principal:cms/bob'];
    const end = await grant({ subjects, actions: ['s3:DeleteObject'], prefix: 'bobs/' });
    await ask(alice, 'PUT', '/raw/bobs/1', { body: 'x' });
    const body = deletionOf('bobs/1', 'top', 'none');
    const answer = await ask(bob, 'POST', '/raw', { query: { delete: '' }, body });
    expect(answer.status).toBe(200);
    expect(elementsOf(answer.text, 'Code')).toEqual(['AccessDenied', 'AccessDenied']);
    expect(/<Deleted>(.*)<\/Deleted>/.exec(answer.text)?.[1]).toBe('<Key>bobs/1</Key>');
    expect((await ask(alice, 'HEAD', '/raw/top')).status).toBe(200);
    expect((await ask(alice, 'HEAD', '/raw/bobs/1')).status).toBe(404);
    await end();
  });

  it('copies only what it may read, to where it may write; a source by its one name', async () => {
    await ask(bob, 'PUT', '/bobs');
    await open(bob, '/bobs');
    const copy = (source: string) =>
      ask(bob, 'PUT', '/bobs/copy', { headers: { 'x-amz-copy-source': source } });
    expect(outcome(await copy('raw/top'))).toEqual(denied);
    const end = await grant({
      subjects: ['principal:cms/bob'],
      actions: ['s3:GetObject'],
      key: 'top',
    });
    expect((await copy('raw/top')).status).toBe(200);
    const statement = {
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::bobs/*',
      Condition: { StringLike: { 's3:x-amz-copy-source': 'raw/t*' } },
    };
    const body = JSON.stringify({ Version: '2012-10-17', Statement: statement });
    await ask(bob, 'PUT', '/bobs', { query: { policy: '' }, body });
    for (const name of ['raw/top', '/raw/%74op', 'cms:raw/top']) {
      expect(outcome(await copy(name))).toEqual(denied);
    }
    await ask(bob, 'DELETE', '/bobs', { query: { policy: '' } });
    await end();
  });

  it('tells a writer without the right to read nothing about what it replaces', async () => {
    const end = await grant({
      subjects: ['principal:cms/bob'],
      actions: ['s3:PutObject', 's3:DeleteObject'],
      prefix: '2025/',
    });
    for (const name of ['if-match', 'if-none-match']) {
      const headers = { [name]: '"x"' };
      const put = await ask(bob, 'PUT', '/raw/2025/a', { headers, body: 'x' });
      expect(outcome(put)).toEqual(denied);
    }
    const headers = { 'if-match': '"x"' };
    expect(outcome(await ask(bob, 'DELETE', '/raw/2025/a', { headers }))).toEqual(denied);
    // That there is something already is what `*` is for.
    const create = { headers: { 'if-none-match': '*' }, body: 'x' };
    expect((await ask(bob, 'PUT', '/raw/2025/a', create)).status).toBe(412);
    await end();
  });
});

describe('an upload', () => {
  it('can be listed and aborted by who began it, but not against a denial', async () => {
    const mayWrite = { subjects: ['principal:cms/bob'], actions: ['s3:PutObject'], prefix: 'up/' };
    const end = await grant(mayWrite);
    const begin = async (who: Target) => {
      const begun = await ask(who, 'POST', '/raw/up/x', { query: { uploads: '' } });
      return { uploadId: elementOf(begun.text, 'UploadId') ?? '' };
    };
    const own = await begin(bob);
    const others = await begin(alice);
    expect((await ask(bob, 'GET', '/raw/up/x', { query: own })).status).toBe(200);
    for (const method of ['GET', 'DELETE']) {
      expect(outcome(await ask(bob, method, '/raw/up/x', { query: others }))).toEqual(denied);
    }
    const actions = ['s3:AbortMultipartUpload'];
    const endDenial = await grant({ ...mayWrite, actions, effect: 'deny' });
    expect(outcome(await ask(bob, 'DELETE', '/raw/up/x', { query: own }))).toEqual(denied);
    await endDenial();
    expect((await ask(bob, 'DELETE', '/raw/up/x', { query: own })).status).toBe(204);
    expect((await ask(alice, 'DELETE', '/raw/up/x', { query: others })).status).toBe(204);
    await end();
  });
});

describe('a bucket policy', () => {
  it('counts from the next request on, for members of other tenants too', async () => {
    expect(outcome(await ask(eve, 'GET', '/cms:raw/top'))).toEqual(denied);
    await setPolicy({ Principal: { AWS: 'dune' }, Action: 's3:GetObject', Resource: objects });
    expect((await ask(eve, 'GET', '/cms:raw/top')).text).toBe('top');
    expect(outcome(await ask(bob, 'GET', '/raw/top'))).toEqual(denied);
    await setPolicy();
    expect(outcome(await ask(eve, 'GET', '/cms:raw/top'))).toEqual(denied);
  });

  it('can deny its owner everything but to take it back', async () => {
    const all = ['arn:aws:s3:::raw', objects];
    await setPolicy({ Effect: 'Deny', Action: '*', Resource: all });
    expect(outcome(await ask(alice, 'GET', '/raw/top'))).toEqual(denied);
    expect(outcome(await ask(boss, 'GET', '/raw'))).toEqual(denied);
    expect((await ask(alice, 'GET', '/raw', { query: { policy: '' } })).status).toBe(200);
    await setPolicy();
    expect((await ask(alice, 'GET', '/raw/top')).status).toBe(200);
  });

  it('denies a request for its headers before it says what they are', async () => {
    const Condition = { StringLike: { 's3:x-amz-acl': 'public*' } };
    await setPolicy({ Effect: 'Deny', Action: 's3:PutObject', Resource: objects, Condition });
    const headers = { 'x-amz-acl': 'public-read' };
    expect(outcome(await ask(alice, 'PUT', '/raw/acl', { headers, body: 'x' }))).toEqual(denied);
    await setPolicy();
    const taken = await ask(alice, 'PUT', '/raw/acl', { headers, body: 'x' });
    expect(outcome(taken)).toEqual([400, 'AccessControlListNotSupported']);
  });

  it('is no business of another tenant, whatever it says', async () => {
    await setPolicy({ Action: 's3:*', Resource: ['arn:aws:s3:::raw', objects] });
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const body = method === 'PUT' ? '{}' : '';
      const asked = await ask(eve, method, '/cms:raw', { query: { policy: '' }, body });
      expect(outcome(asked)).toEqual([405, 'MethodNotAllowed']);
      const open = await askOpenly(method, '/cms:raw', { query: { policy: '' }, body });
      expect(outcome(open)).toEqual(denied);
    }
    await setPolicy();
  });

  it('decides by the tags of the object that is there', async () => {
    const tagged = (security: string) => ({ 'x-amz-tagging': `security=${security}` });
    await ask(alice, 'PUT', '/raw/open', { headers: tagged('public'), body: 'open' });
    await ask(alice, 'PUT', '/raw/shut', { headers: tagged('private'), body: 'shut' });
    const Condition = { StringEquals: { 's3:ExistingObjectTag/security': 'public' } };
    const Action = ['s3:GetObject', 's3:GetObjectTagging'];
    await setPolicy(
      { Principal: { AWS: 'cms/bob' }, Action, Resource: objects, Condition },
      {
        Effect: 'Deny',
        Action: ['s3:PutObject', 's3:DeleteObject'],
        Resource: objects,
        Condition: { StringEquals: { 's3:ExistingObjectTag/security': 'private' } },
      },
    );
    const got = await ask(bob, 'GET', '/raw/open');
    expect([got.text, got.headers['x-amz-tagging-count']]).toEqual(['open', '1']);
    for (const query of [{}, { tagging: '' }] as Record<string, string>[]) {
      expect(outcome(await ask(bob, 'GET', '/raw/shut', { query }))).toEqual(denied);
      expect(outcome(await ask(bob, 'GET', '/raw/top', { query }))).toEqual(denied);
    }
    expect(outcome(await ask(alice, 'DELETE', '/raw/shut'))).toEqual(denied);
    expect(outcome(await ask(alice, 'PUT', '/raw/shut', { body: 'x' }))).toEqual(denied);
    const query = { delete: '' };
    const both = { query, body: deletionOf('shut', 'open') };
    const deleted = await ask(alice, 'POST', '/raw', both);
    expect(elementsOf(deleted.text, 'Key')).toEqual(['shut', 'open']);
    expect(elementsOf(deleted.text, 'Code')).toEqual(['AccessDenied']);
    await setPolicy();
  });

  it('asks for tags that are to be written, and for the right to write them', async () => {
    const Condition = { StringEquals: { 's3:RequestObjectTag/team': 'red' } };
    const Principal = { AWS: 'cms/bob' };
    const write = { Principal, Action: 's3:PutObject', Resource: objects, Condition };
    await setPolicy(write);
    const put = (tags: Record<string, string>) =>
      ask(bob, 'PUT', '/raw/teams', { headers: tags, body: 'x' });
    expect(outcome(await put({ 'x-amz-tagging': 'team=blue' }))).toEqual(denied);
    expect(outcome(await put({}))).toEqual(denied);
    expect(outcome(await put({ 'x-amz-tagging': 'team=red' }))).toEqual(denied);
    await setPolicy({ ...write, Action: ['s3:PutObject', 's3:PutObjectTagging'] });
    expect((await put({ 'x-amz-tagging': 'team=red' })).status).toBe(200);
    await setPolicy();
  });
});

describe('without credentials', () => {
  it('nothing tells what is there', async () => {
    for (const path of ['/raw', '/cms:raw', '/cms:none', '/none', '/cms:raw/top', '/']) {
      expect([path, ...outcome(await askOpenly('GET', path))]).toEqual([path, ...denied]);
    }
    expect(outcome(await askOpenly('PUT', '/mine'))).toEqual(denied);
  });

  it('what everybody may read is read, by its names in hosts and paths', async () => {
    await setPolicy({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::raw/2026/*' });
    expect((await askOpenly('GET', '/cms:raw/2026/a')).text).toBe('2026/a');
    const headers = { host: 'raw.cms.s3.example.test' };
    expect((await askOpenly('GET', '/2026/a', { headers })).text).toBe('2026/a');
    // A path's names are the default tenant's.
    expect(outcome(await askOpenly('GET', '/raw/2026/a'))).toEqual(denied);
    expect(outcome(await askOpenly('GET', '/cms:raw/2025/a'))).toEqual(denied);
    expect(outcome(await askOpenly('GET', '/cms:raw/2026/none'))).toEqual(denied);
    const query = { 'response-content-type': 'text/html' };
    const answer = await askOpenly('GET', '/cms:raw/2026/a', { query });
    expect(outcome(answer)).toEqual([400, 'InvalidRequest']);
    await setPolicy();
  });

  it('what is done is recorded and charged in the tenant that allowed it', async () => {
    const end = await grant({ subjects: ['anyone'], actions: ['s3:*'], prefix: 'drop/' });
    const body = 'from nobody';
    const put = await askOpenly('PUT', '/cms:raw/drop/1', {
      headers: { 'content-length': String(body.length) },
      body,
    });
    expect(put.status).toBe(200);
    expect((await askOpenly('GET', '/cms:raw/drop/1')).text).toBe(body);
    expect((await askOpenly('DELETE', '/cms:raw/drop/1')).status).toBe(204);
    await end();
    const { records } = await callNative(boss, 'GET', '/_/v1/records', undefined, [
      ['principal', 'anonymous'],
      ['action', 's3:PutObject'],
    ]);
    const expected = { tenant: 'cms', bucket: 'raw', key: 'drop/1', evidence: 'none', status: 200 };
    expect(records).toEqual([expect.objectContaining(expected)]);
    expect(records[0]).not.toHaveProperty('bucketTenant');
    const account = encodeURIComponent('principal:default/anonymous');
    const usage = await callNative(target, 'GET', `/_/v1/usage/${account}`).catch(() => null);
    expect(usage?.requests ?? 0).toBe(0);
  });
});

describe('a bucket of another tenant', () => {
  it('answers the same, whether it is there or not', async () => {
    const asked = [
      ['GET', '', {}],
      ['HEAD', '', {}],
      ['GET', '', { location: '' }],
      ['GET', '', { policy: '' }],
      ['GET', '/top', {}],
      ['GET', '/top', { tagging: '' }],
      ['PUT', '/top', {}],
      ['DELETE', '', {}],
      ['PUT', '', {}],
    ] as const;
    for (const [method, rest, query] of asked) {
      const there = await ask(eve, method, `/cms:raw${rest}`, { query });
      const none = await ask(eve, method, `/cms:nil${rest}`, { query });
      expect([there.status, there.code]).toEqual([none.status, none.code]);
      expect(there.status).toBe(403);
    }
    const odd: Record<string, string>[] = [{ 'x-amz-mfa': '1 2' }, { 'x-amz-acl': 'public-read' }];
    for (const headers of [{}, ...odd]) {
      for (const body of [deletionOf('top'), '<Delete/>', 'no XML', '']) {
        const asked = { query: { delete: '' }, headers, body };
        const there = await ask(eve, 'POST', '/cms:raw', asked);
        expect(outcome(there)).toEqual(outcome(await ask(eve, 'POST', '/cms:nil', asked)));
        expect(there.status).toBe(body.includes('top') ? 403 : 400);
      }
    }
  });

  it('is reached by its full name and a mount, in paths, hosts, listings and copies', async () => {
    const end = await grant({ subjects: ['tenant:dune'], actions: ['s3:GetObject'] });
    const mount = { bucketTenant: 'cms', bucket: 'raw' };
    await callNative(duke, 'PUT', '/_/v1/tenants/dune/mounts/cms-raw', mount);
    for (const name of ['cms:raw', 'cms-raw']) {
      expect((await ask(eve, 'GET', `/${name}/top`)).text).toBe('top');
      const listed = await ask(eve, 'GET', `/${name}`, { query: { prefix: '2026/' } });
      expect([elementOf(listed.text, 'Name'), listOf(listed)]).toEqual([
        name,
        ['2026/a', '2026/b'],
      ]);
      const headers = { 'x-amz-copy-source': `${name}/top` };
      expect((await ask(eve, 'PUT', '/own/top', { headers })).status).toBe(200);
    }
    const headers = { host: 'cms-raw.s3.example.test' };
    expect((await ask(eve, 'GET', '/top', { headers })).text).toBe('top');
    const shown = elementsOf((await ask(eve, 'GET', '/')).text, 'Name');
    expect(shown).toEqual(['cms-raw', 'own']);
    await end();
    expect(elementsOf((await ask(eve, 'GET', '/')).text, 'Name')).toEqual(['own']);
    expect(outcome(await ask(eve, 'GET', '/cms-raw/top'))).toEqual(denied);
  });
});

describe('ListBuckets', () => {
  it("shows a member its own buckets, and of others' those that it may list", async () => {
    const names = async (who: Target) => elementsOf((await ask(who, 'GET', '/')).text, 'Name');
    expect(await names(bob)).toEqual(['bobs']);
    const end = await grant({ subjects: ['principal:cms/bob'], actions: ['s3:ListBucket'] });
    expect(await names(bob)).toEqual(['bobs', 'raw']);
    await end();
    await setPolicy({ Action: 's3:ListBucket', Resource: 'arn:aws:s3:::raw' });
    expect(await names(bob)).toEqual(['bobs', 'raw']);
    await setPolicy();
    expect(await names(boss)).toEqual(['bobs', 'raw']);
  });
});

it('who copied an object reads it while they could write there and read its source', async () => {
  const takeBack = await grant({ subjects: ['principal:dune/eve'], actions: ['s3:PutObject'] });
  expect((await ask(eve, 'PUT', '/eves')).status).toBe(200);
  await open(eve, '/eves');
  expect((await ask(eve, 'PUT', '/eves/k', { body: 'mine' })).status).toBe(200);
  const copy = { headers: { 'x-amz-copy-source': 'eves/k' } };
  expect((await ask(eve, 'PUT', '/cms:raw/copy', copy)).status).toBe(200);
  expect((await ask(eve, 'PUT', '/cms:raw/put', { body: 'put' })).status).toBe(200);
  expect((await ask(eve, 'GET', '/cms:raw/copy')).text).toBe('mine');
  expect(outcome(await ask(eve, 'GET', '/cms:raw/put'))).toEqual(denied);
  expect(outcome(await ask(eve, 'GET', '/cms:raw/missing'))).toEqual(denied);
  const deny = { Effect: 'Deny', Principal: '*', Action: 's3:GetObject' };
  const statement = { ...deny, Resource: 'arn:aws:s3:::raw/copy' };
  const policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
  const query = { policy: '' };
  expect((await ask(alice, 'PUT', '/raw', { query, body: policy })).status).toBe(204);
  expect(outcome(await ask(eve, 'GET', '/cms:raw/copy'))).toEqual(denied);
  await ask(alice, 'DELETE', '/raw', { query });
  expect((await ask(eve, 'GET', '/cms:raw/copy')).status).toBe(200);
  await takeBack();
  expect(outcome(await ask(eve, 'GET', '/cms:raw/copy'))).toEqual(denied);
});
