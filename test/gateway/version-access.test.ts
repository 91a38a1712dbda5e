// Who may do what with versions: the rights that they have of their own, what a token's scope
// leaves of them, and what other tenants and holders of share links get to see.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  elementsOf,
  exchange,
  type Message,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
  targetOf,
} from '../protocol/target.ts';

let target: Target;
/** Owns the bucket `data`, which keeps versions. */
let owner: Target;
let other: Target;
let stranger: Target;
/** Of the key `in/k`, which is deleted: two versions and the marker. */
let first: string;
let second: string;
let marker: string;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  owner = as(target, await newPrincipal(target, { name: 'owner' }));
  other = as(target, await newPrincipal(target, { name: 'other' }));
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'atlas' });
  stranger = as(target, await newPrincipal(target, { tenant: 'atlas' }));
  await ask(owner, 'PUT', '/data');
  await ask(owner, 'DELETE', '/data', { query: { publicAccessBlock: '' } });
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  const enabled = await ask(owner, 'PUT', '/data', { query: { versioning: '' }, body });
  expect(enabled.status).toBe(200);
  first = versionOf(await ask(owner, 'PUT', '/data/in/k', { body: 'first' }));
  second = versionOf(await ask(owner, 'PUT', '/data/in/k', { body: 'second' }));
  marker = versionOf(await ask(owner, 'DELETE', '/data/in/k'));
  await ask(owner, 'PUT', '/data/out/k', { body: 'out' });
}, 60_000);

afterAll(() => target?.stop(), 60_000);

type More = Pick<Message, 'headers' | 'body'> & { query?: Record<string, string> };
type Ask = (method: string, path: string, more?: More) => Promise<Answer>;

function ask(who: Target, method: string, path: string, more: More = {}): Promise<Answer> {
  return send(who, { ...more, method, path, query: Object.entries(more.query ?? {}) });
}

function versionOf({ headers }: Answer): string {
  return headers['x-amz-version-id'] ?? 'none';
}

async function bear(scope: string): Promise<Ask> {
  const { token } = await callNative(owner, 'POST', '/_/v1/tokens', { scope });
  return (method, path, { query = {}, headers = {}, body = '' } = {}) => {
    const length = { 'content-length': String(Buffer.from(body as string, 'latin1').length) };
    const all = { authorization: `Bearer ${token}`, ...length, ...headers };
    return exchange(target, method, targetOf(path, Object.entries(query)), all, body);
  };
}

async function grant(name: string, actions: string[], more: object = {}): Promise<void> {
  await callNative(target, 'PUT', `/_/v1/tenants/default/grants/${name}`, {
    ...{ effect: 'allow', subjects: ['principal:default/other'], actions },
    ...{ bucket: 'data', prefix: 'in/' },
    ...more,
  });
}

const outcome = ({ status, code }: Answer) => [status, code];
const denied = [403, 'AccessDenied'];
const of = (versionId: string) => ({ query: { versionId } });
const deletionOf = (key: string, versionId: string) =>
  `<Delete><Object><Key>${key}</Key><VersionId>${versionId}</VersionId></Object></Delete>`;

describe('the right to a version', () => {
  it('is another than the right to the object, for each action', async () => {
    await grant('objects', ['s3:GetObject', 's3:DeleteObject', 's3:GetObjectTagging']);
    await ask(owner, 'PUT', '/data/in/both', { body: 'x' });
    expect((await ask(other, 'GET', '/data/in/both')).status).toBe(200);
    const id = versionOf(await ask(owner, 'HEAD', '/data/in/both'));
    const refused = [
      ask(other, 'GET', '/data/in/both', of(id)),
      ask(other, 'HEAD', '/data/in/both', of(id)),
      ask(other, 'GET', '/data/in/both', of('null')),
      ask(other, 'DELETE', '/data/in/both', of(id)),
      ask(other, 'GET', '/data/in/both', { query: { tagging: '', versionId: id } }),
      ask(other, 'GET', '/data', { query: { versions: '', prefix: 'in/' } }),
      ask(other, 'POST', '/data', { query: { delete: '' }, body: deletionOf('in/both', id) }),
    ];
    for (const answer of await Promise.all(refused)) expect(answer.status).toBe(403);
    await grant('versions', ['s3:GetObjectVersion']);
    expect((await ask(other, 'GET', '/data/in/k', of(first))).text).toBe('first');
    // Who may read versions below a place may list them there, and nowhere else.
    const listed = await ask(other, 'GET', '/data', { query: { versions: '', prefix: 'in' } });
    expect(outcome(listed)).toEqual(denied);
    const below = await ask(other, 'GET', '/data', { query: { versions: '', prefix: 'in/' } });
    expect(elementsOf(below.text, 'Key')).toContain('in/k');
    const copied = { 'x-amz-copy-source': `data/in/k?versionId=${first}` };
    await ask(other, 'PUT', '/others');
    expect((await ask(other, 'PUT', '/others/k', { headers: copied })).status).toBe(200);
    const outside = { 'x-amz-copy-source': 'data/out/k?versionId=null' };
    expect(outcome(await ask(other, 'PUT', '/others/k', { headers: outside }))).toEqual(denied);
  });

  it('is not told from what is not there to who may not list', async () => {
    const stored = await ask(stranger, 'GET', '/default:data/in/k', of(first));
    const none = await ask(stranger, 'GET', '/default:data/in/k', of('f'.repeat(32)));
    const deleted = await ask(stranger, 'GET', '/default:data/in/k', of(marker));
    for (const answer of [stored, none, deleted]) {
      expect(outcome(answer)).toEqual(denied);
      expect(answer.headers).not.toHaveProperty('x-amz-delete-marker');
    }
    await grant('one', ['s3:GetObject'], {
      ...{ subjects: ['tenant:atlas'], prefix: undefined, key: 'in/k' },
    });
    const hidden = await ask(stranger, 'GET', '/default:data/in/k');
    expect(outcome(hidden)).toEqual(denied);
    expect(hidden.headers).not.toHaveProperty('x-amz-delete-marker');
  });
});

describe('the right to bypass governance retention', () => {
  it('is that to the version which is deleted, also in a list of them', async () => {
    await ask(owner, 'PUT', '/held', { headers: { 'x-amz-bucket-object-lock-enabled': 'true' } });
    const put = async (tags: string) => {
      const headers = {
        ...{ 'x-amz-tagging': tags, 'x-amz-object-lock-mode': 'GOVERNANCE' },
        'x-amz-object-lock-retain-until-date': '2099-01-01T00:00:00Z',
      };
      return versionOf(await ask(owner, 'PUT', '/held/k', { headers, body: 'x' }));
    };
    const [kept, free] = [await put('keep=yes'), await put('keep=no')];
    const Resource = 'arn:aws:s3:::held/*';
    const Action = 's3:BypassGovernanceRetention';
    const Condition = { StringEquals: { 's3:ExistingObjectTag/keep': 'yes' } };
    const body = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          ...{ Effect: 'Allow', Principal: { AWS: 'default/other' }, Resource },
          Action: ['s3:DeleteObjectVersion', Action],
        },
        { Effect: 'Deny', Principal: '*', Action, Resource, Condition },
      ],
    });
    expect((await ask(owner, 'PUT', '/held', { query: { policy: '' }, body })).status).toBe(204);
    const bypass = { 'x-amz-bypass-governance-retention': 'true' };
    const one = await ask(other, 'DELETE', '/held/k', { ...of(kept), headers: bypass });
    expect(outcome(one)).toEqual(denied);
    for (const [versionId, codes] of [
      [kept, ['AccessDenied']],
      [free, []],
    ] as const) {
      const list = deletionOf('k', versionId);
      const headers = { ...bypass, 'content-md5': md5(list) };
      const many = await ask(other, 'POST', '/held', {
        query: { delete: '' },
        headers,
        body: list,
      });
      expect(elementsOf(many.text, 'Code')).toEqual(codes);
    }
    expect((await ask(owner, 'GET', '/held/k', of(kept))).status).toBe(200);
    expect((await ask(owner, 'GET', '/held/k', of(free))).status).toBe(404);
  });
});

describe('a token', () => {
  it('that reads a folder reads and lists its versions, and no others', async () => {
    const bearer = await bear('storage.read:/data/in');
    expect((await bearer('GET', '/data/in/k', of(first))).text).toBe('first');
    const shown = await bearer('GET', '/data', { query: { versions: '', prefix: 'in/' } });
    expect(elementsOf(shown.text, 'VersionId')).toEqual(expect.arrayContaining([first, marker]));
    const attributes = { headers: { 'x-amz-object-attributes': 'ObjectSize' } };
    const query = { attributes: '', versionId: second };
    const told = await bearer('GET', '/data/in/k', { ...attributes, query });
    expect(elementsOf(told.text, 'ObjectSize')).toEqual(['6']);
    const refused = [
      bearer('GET', '/data/out/k', of('null')),
      bearer('GET', '/data', { query: { versions: '' } }),
      bearer('GET', '/data', { query: { versions: '', prefix: 'out/' } }),
      bearer('DELETE', '/data/in/k', of(first)),
      bearer('PUT', '/data/in/k', tag(first)),
    ];
    for (const answer of await Promise.all(refused)) expect(outcome(answer)).toEqual(denied);
  });

  it('that modifies a folder deletes nothing for good', async () => {
    const bearer = await bear('storage.modify:/data/in');
    const id = versionOf(await bearer('PUT', '/data/in/robot', { body: 'robot' }));
    const deleted = await bearer('DELETE', '/data/in/robot');
    expect(deleted.headers).toMatchObject({ 'x-amz-delete-marker': 'true' });
    const left = [id, versionOf(deleted), 'null'];
    for (const versionId of left) {
      const one = await bearer('DELETE', '/data/in/robot', of(versionId));
      expect(outcome(one)).toEqual(denied);
      const body = deletionOf('in/robot', versionId);
      const headers = { 'content-md5': md5(body) };
      const list = await bearer('POST', '/data', { query: { delete: '' }, headers, body });
      expect(outcome(list)).toEqual(denied);
    }
    expect((await ask(owner, 'GET', '/data/in/robot', of(id))).text).toBe('robot');
    expect((await bearer('PUT', '/data/in/robot', tag(id))).status).toBe(200);
  });

  it('that creates writes over a marker, and over no object', async () => {
    const bearer = await bear('storage.create:/data/made');
    expect((await bearer('PUT', '/data/made/k', { body: 'x' })).status).toBe(200);
    expect(outcome(await bearer('PUT', '/data/made/k', { body: 'y' }))).toEqual(denied);
    expect(outcome(await bearer('DELETE', '/data/made/k'))).toEqual(denied);
    const id = versionOf(await ask(owner, 'HEAD', '/data/made/k'));
    expect(outcome(await bearer('DELETE', '/data/made/k', of(id)))).toEqual(denied);
    await ask(owner, 'DELETE', '/data/made/k');
    expect((await bearer('PUT', '/data/made/k', { body: 'z' })).status).toBe(200);
  });
});

describe('without credentials', () => {
  it('a policy can give versions to everybody', async () => {
    const Resource = 'arn:aws:s3:::data/in/*';
    const rule = { Effect: 'Allow', Principal: '*', Action: 's3:GetObjectVersion', Resource };
    const body = JSON.stringify({ Version: '2012-10-17', Statement: [rule] });
    await ask(owner, 'PUT', '/data', { query: { policy: '' }, body });
    const get = (path: string) => exchange(target, 'GET', path);
    expect((await get(`/data/in/k?versionId=${first}`)).text).toBe('first');
    expect(outcome(await get('/data/in/robot'))).toEqual(denied);
    expect(outcome(await get('/data/out/k?versionId=null'))).toEqual(denied);
    await ask(owner, 'DELETE', '/data', { query: { policy: '' } });
  });

  it('a share link opens the newest version, whatever else its holder asks for', async () => {
    await ask(owner, 'PUT', '/data/shared', { body: 'secret draft' });
    const draft = versionOf(await ask(owner, 'HEAD', '/data/shared'));
    await ask(owner, 'PUT', '/data/shared', { body: 'published' });
    const made = await callNative(owner, 'POST', '/_/v1/shares', {
      ...{ bucket: 'data', key: 'shared', expiresIn: 3600 },
    });
    const { pathname } = new URL(made.url, target.endpoint);
    const opened = await exchange(target, 'GET', `${pathname}?versionId=${draft}`);
    expect(opened.text).toBe('published');
    expect(opened.headers).not.toHaveProperty('x-amz-version-id');
    await ask(owner, 'DELETE', '/data/shared');
    const gone = await exchange(target, 'GET', pathname);
    expect(gone.status).toBe(404);
    expect(gone.headers).not.toHaveProperty('x-amz-delete-marker');
  });
});

function tag(versionId: string): More {
  const body = '<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>';
  return { query: { tagging: '', versionId }, headers: { 'content-md5': md5(body) }, body };
}

function md5(text: string): string {
  return createHash('md5').update(text).digest('base64');
}
