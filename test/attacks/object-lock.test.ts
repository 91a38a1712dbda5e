// Every way we know to end, replace or free a version that object lock holds, by everybody who
// could try: the bucket's owner, an admin of its tenant, the gateway's operator, a token, another
// tenant's admin, lifecycle rules, and who edits the database. When all was tried, the version is
// as it was.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
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
  type Target,
} from '../protocol/target.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const later = '2098-01-01T00:00:00.000Z';
const mode = 'x-amz-object-lock-mode';
const until = 'x-amz-object-lock-retain-until-date';
const bypass = { 'x-amz-bypass-governance-retention': 'true' };
const lockHeaders = { [mode]: 'COMPLIANCE', [until]: later };

let gateway: ServedGateway;
let operator: Target;
/** An operator of the tenant itself. */
let root: Target;
let boss: Target;
let alice: Target;
/** Of another tenant: nothing was granted to her, and everything to him. */
let eve: Target;
let mallory: Target;
/** Of Alice's, who owns the bucket, with every right that a token can have. */
let token: string;

beforeAll(async () => {
  gateway = await startServedGateway({ args: ['--lifecycle-day', '1s'] });
  operator = targetOf(gateway);
  for (const name of ['cms', 'atlas'])
    await callNative(operator, 'POST', '/_/v1/tenants', { name });
  const made = async (tenant: string, name: string, role = 'member') =>
    as(operator, await newPrincipal(operator, { tenant, name, role }));
  alice = await made('cms', 'alice');
  boss = await made('cms', 'boss', 'admin');
  root = await made('cms', 'root', 'operator');
  eve = await made('atlas', 'eve', 'admin');
  mallory = await made('atlas', 'mallory', 'admin');
  await callNative(boss, 'PUT', '/_/v1/tenants/cms/grants/all', {
    ...{
      effect: 'allow',
      subjects: ['principal:atlas/mallory'],
      bucket: 'kept',
      actions: ['s3:*'],
    },
  });
  await makeLocked('kept');
  const scope = 'storage.read:/ storage.modify:/ storage.create:/';
  ({ token } = await callNative(alice, 'POST', '/_/v1/tokens', { scope, expiresIn: 3600 }));
});

afterAll(() => gateway?.stop());

function targetOf({ endpoint, accessKeyId, secretAccessKey }: ServedGateway): Target {
  const keys = { accessKeyId, secretAccessKey };
  return { endpoint, keys, strayNames: () => [], stop: async () => {} };
}

async function makeLocked(bucket: string): Promise<void> {
  const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
  const { status } = await send(alice, { method: 'PUT', path: `/${bucket}`, headers });
  expect(status).toBe(200);
}

interface Held {
  bucket: string;
  key: string;
  id: string;
}

/** A version that is held, with its id as its content. */
async function hold(key: string, headers: Record<string, string>, bucket = 'kept'): Promise<Held> {
  const path = `/${bucket}/${key}`;
  const answer = await send(alice, { method: 'PUT', path, headers, body: `content of ${key}` });
  expect([answer.status, answer.text]).toEqual([200, '']);
  return { bucket, key, id: answer.headers['x-amz-version-id'] ?? '' };
}

const versionOf = ({ bucket, key, id }: Held, tenant = ''): Message => ({
  ...{ method: 'GET', path: `/${tenant}${bucket}/${key}`, query: [['versionId', id]] },
});

/** All that an attack could change of a version. */
async function stateOf(held: Held): Promise<unknown> {
  const { status, text, headers } = await send(alice, versionOf(held));
  const lock = [mode, until, 'x-amz-object-lock-legal-hold'].map((name) => headers[name]);
  return { status, text, lock, modified: headers['last-modified'] };
}

type Ask = (message: Message) => Promise<Answer>;

const withBody = (message: Message, body: string): Message => ({ ...message, method: 'PUT', body });
const retention = (content: string) => `<Retention>${content}</Retention>`;
const retained = (word: string, date: string) =>
  retention(`<Mode>${word}</Mode><RetainUntilDate>${date}</RetainUntilDate>`);

/** What is tried on a version, and whether it may succeed, since it leaves the version. */
const attempts: [string, (held: Held, ask: Ask, tenant: string) => Promise<Answer>, 'harmless'?][] =
  [
    ['deletes it', (held, ask, at) => ask({ ...versionOf(held, at), method: 'DELETE' })],
    [
      'deletes it, bypassing',
      (held, ask, at) => ask({ ...versionOf(held, at), method: 'DELETE', headers: bypass }),
    ],
    [
      'deletes it in a list, bypassing',
      async ({ bucket, key, id }, ask, at) => {
        const object = `<Object><Key>${key}</Key><VersionId>${id}</VersionId></Object>`;
        const answer = await ask({
          ...{ method: 'POST', path: `/${at}${bucket}`, query: [['delete', '']] },
          ...{ headers: bypass, body: `<Delete>${object}</Delete>` },
        });
        return answer.text.includes('<Error>') ? { ...answer, status: 403 } : answer;
      },
    ],
    [
      'takes its retention away',
      (held, ask, at) =>
        ask({ ...subresource(held, at, 'retention', retention('')), headers: bypass }),
    ],
    [
      'shortens its retention',
      (held, ask, at) =>
        ask({
          ...subresource(held, at, 'retention', retained('COMPLIANCE', '2097-01-01T00:00:00Z')),
          headers: bypass,
        }),
    ],
    [
      'makes its retention one that can be bypassed',
      (held, ask, at) =>
        ask({
          ...subresource(held, at, 'retention', retained('GOVERNANCE', '2099-01-01T00:00:00Z')),
          headers: bypass,
        }),
    ],
    [
      'suspends versioning',
      ({ bucket }, ask, at) =>
        ask({
          ...{ method: 'PUT', path: `/${at}${bucket}`, query: [['versioning', '']] },
          body: '<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>',
        }),
    ],
    [
      'says that the bucket has no object lock',
      ({ bucket }, ask, at) =>
        ask({
          ...{ method: 'PUT', path: `/${at}${bucket}`, query: [['object-lock', '']] },
          body: '<ObjectLockConfiguration/>',
        }),
    ],
    [
      'deletes the bucket',
      ({ bucket }, ask, at) => ask({ method: 'DELETE', path: `/${at}${bucket}` }),
    ],
    [
      'puts another object over it',
      ({ bucket, key }, ask, at) =>
        ask({ method: 'PUT', path: `/${at}${bucket}/${key}`, body: 'another' }),
      'harmless',
    ],
    [
      'puts a delete marker over it',
      ({ bucket, key }, ask, at) => ask({ method: 'DELETE', path: `/${at}${bucket}/${key}` }),
      'harmless',
    ],
    [
      'copies it onto itself with other metadata',
      ({ bucket, key, id }, ask, at) =>
        ask({
          ...{ method: 'PUT', path: `/${at}${bucket}/${key}` },
          headers: {
            'x-amz-copy-source': `/${at}${bucket}/${key}?versionId=${id}`,
            'x-amz-metadata-directive': 'REPLACE',
          },
        }),
      'harmless',
    ],
    [
      'completes an upload over it',
      async ({ bucket, key }, ask, at) => {
        const path = `/${at}${bucket}/${key}`;
        const begun = await ask({ method: 'POST', path, query: [['uploads', '']] });
        const upload = ['uploadId', elementOf(begun.text, 'UploadId') ?? ''] as const;
        const query = [['partNumber', '1'], upload] as const;
        const { headers } = await ask({ method: 'PUT', path, query, body: 'part' });
        const part = `<Part><PartNumber>1</PartNumber><ETag>${headers.etag}</ETag></Part>`;
        const body = `<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`;
        return ask({ method: 'POST', path, query: [upload], body });
      },
      'harmless',
    ],
  ];

function subresource({ bucket, key, id }: Held, at: string, name: string, body: string): Message {
  const query = [
    [name, ''],
    ['versionId', id],
  ] as const;
  return withBody({ method: 'PUT', path: `/${at}${bucket}/${key}`, query }, body);
}

interface Attacker {
  who: string;
  ask: Ask;
  /** How they name the tenant's buckets. */
  at: string;
  mayWrite: boolean;
}

const attackers: Attacker[] = [
  { who: 'the owner', ask: (message) => send(alice, message), at: '', mayWrite: true },
  { who: 'an admin', ask: (message) => send(boss, message), at: '', mayWrite: true },
  { who: 'an operator', ask: (message) => send(root, message), at: '', mayWrite: true },
  { who: 'a stranger', ask: (message) => send(eve, message), at: 'cms:', mayWrite: false },
  { who: 'a guest', ask: (message) => send(mallory, message), at: 'cms:', mayWrite: true },
  { who: 'a bearer', ask: bear, at: '', mayWrite: true },
];

/** Asks with the token alone, which protects no body. */
function bear({ method, path, query = [], headers, body }: Message): Promise<Answer> {
  const text = query.map(([name, value]) => `${name}=${value}`).join('&');
  const target = text === '' ? path : `${path}?${text}`;
  const md5 = createHash('md5')
    .update(body ?? '')
    .digest('base64');
  const own = { authorization: `Bearer ${token}`, ...(body && { 'content-md5': md5 }) };
  return exchange(operator, method, target, { ...headers, ...own }, body);
}

describe.each(attackers)('$who', ({ who, ask, at, mayWrite }) => {
  const name = who.replaceAll(/[^a-z]/g, '-');

  it.each(attempts)(
    '%s: a version under compliance stays as it was',
    async (title, attempt, harmless) => {
      const held = await hold(`${name}/${title.replaceAll(/[^a-z]/g, '-')}`, lockHeaders);
      const before = await stateOf(held);
      const { status } = await attempt(held, ask, at);
      expect([title, status < 300]).toEqual([title, harmless !== undefined && mayWrite]);
      expect(await stateOf(held)).toEqual(before);
      expect(before).toMatchObject({ status: 200, lock: ['COMPLIANCE', later, undefined] });
    },
  );

  it('ends no version under a legal hold, whatever is bypassed', async () => {
    const held = await hold(`${name}/hold`, { 'x-amz-object-lock-legal-hold': 'ON' });
    const before = await stateOf(held);
    for (const [title, attempt] of attempts.slice(0, 3)) {
      const { status } = await attempt(held, ask, at);
      expect([title, status]).toEqual([title, 403]);
    }
    expect(await stateOf(held)).toEqual(before);
  });
});

describe('governance retention', () => {
  const governed = { [mode]: 'GOVERNANCE', [until]: later };

  const powerless = attackers.filter(({ who }) => who === 'a stranger' || who === 'a bearer');
  it.each(powerless)('is not bypassed by $who', async ({ ask, at }) => {
    const held = await hold('governed', governed);
    const before = await stateOf(held);
    for (const [, attempt] of attempts.slice(0, 6)) {
      expect((await attempt(held, ask, at)).status).toBe(403);
    }
    expect(await stateOf(held)).toEqual(before);
  });

  it('is bypassed by who has the right to that and to nothing else of locks', async () => {
    const held = await hold('bypassed', governed);
    const keys = await newPrincipal(operator, { tenant: 'cms', name: 'bob' });
    const bob = as(operator, keys);
    const remove = { ...versionOf(held), method: 'DELETE', headers: bypass };
    const give = (actions: string[]) =>
      callNative(boss, 'PUT', '/_/v1/tenants/cms/grants/bob', {
        ...{ effect: 'allow', subjects: ['principal:cms/bob'], bucket: 'kept', actions },
      });
    await give(['s3:DeleteObjectVersion']);
    expect((await send(bob, remove)).status).toBe(403);
    await give(['s3:DeleteObjectVersion', 's3:BypassGovernanceRetention']);
    expect((await send(bob, { ...remove, headers: {} })).status).toBe(403);
    expect((await send(bob, remove)).status).toBe(204);
  });
});

describe('the native API', () => {
  it('deletes neither the tenant nor its owner with what is held', async () => {
    const held = await hold('native', lockHeaders);
    const before = await stateOf(held);
    const ask = (path: string) => send(operator, { method: 'DELETE', path });
    expect((await ask('/_/v1/tenants/cms')).status).toBe(409);
    expect((await ask('/_/v1/tenants/cms/principals/alice')).status).toBe(409);
    expect(await stateOf(held)).toEqual(before);
  });

  it('makes share links that end nothing', async () => {
    const held = await hold('shared', lockHeaders);
    const wanted = { bucket: 'kept', key: held.key, expiresIn: 3600 };
    const { url } = await callNative(alice, 'POST', '/_/v1/shares', wanted);
    const { pathname } = new URL(url);
    for (const method of ['DELETE', 'PUT', 'POST']) {
      const { status } = await exchange(operator, method, pathname, bypass, 'x');
      expect(status).toBeGreaterThanOrEqual(400);
    }
    expect(await stateOf(held)).toMatchObject({ status: 200 });
  });
});

describe('lifecycle rules', () => {
  it('end what is free, and nothing that is held', async () => {
    await makeLocked('aged');
    const old = await hold('old', lockHeaders, 'aged');
    const held = await hold('old', { 'x-amz-object-lock-legal-hold': 'ON' }, 'aged');
    const governed = await hold('old', { [mode]: 'GOVERNANCE', [until]: later }, 'aged');
    const free = await hold('old', {}, 'aged');
    const rule =
      '<Rule><ID>all</ID><Filter/><Status>Enabled</Status><Expiration><Days>1</Days></Expiration>' +
      '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule>';
    const put = await send(alice, {
      ...{ method: 'PUT', path: '/aged', query: [['lifecycle', '']] },
      body: `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`,
    });
    expect(put.status).toBe(200);
    const listed = async () => {
      const list = await send(alice, { method: 'GET', path: '/aged', query: [['versions', '']] });
      return elementsOf(list.text, 'VersionId');
    };
    // The free one came last, so those below it were looked at before.
    await expect.poll(listed, { timeout: 30_000 }).not.toContain(free.id);
    const ids = await listed();
    for (const { id } of [old, held, governed]) expect(ids).toContain(id);
    for (const one of [old, held, governed])
      expect(await stateOf(one)).toMatchObject({ status: 200 });
  });
});

describe('who edits the database', () => {
  it('frees no version by changing what its bucket says', async () => {
    await makeLocked('edited');
    const held = await hold('k', lockHeaders, 'edited');
    const catalog = new CatalogEditor(gateway.dataDir);
    await catalog.run(
      "UPDATE buckets SET object_lock = NULL, versioning = 'Suspended' WHERE name = 'edited'",
    );
    catalog.close();
    expect((await send(alice, { ...versionOf(held), method: 'DELETE' })).status).toBe(403);
    expect(await stateOf(held)).toMatchObject({ status: 200 });
  });

  it('frees no version by changing what it says: it is found, and stays', async () => {
    const held = await hold('unlocked', lockHeaders);
    const catalog = new CatalogEditor(gateway.dataDir);
    const changed = await catalog.run(
      "UPDATE versions SET attributes = json_remove(attributes, '$.retention') WHERE key = ?",
      held.key,
    );
    expect(changed).toBe(1);
    for (const headers of [{}, bypass]) {
      const deleted = await send(alice, { ...versionOf(held), method: 'DELETE', headers });
      expect([deleted.status, deleted.code]).toEqual([500, 'BursarIntegrityError']);
    }
    expect((await send(alice, versionOf(held))).code).toBe('BursarIntegrityError');
    expect(await catalog.get('SELECT 1 FROM versions WHERE key = ?', held.key)).toBeDefined();
    catalog.close();
  });
});

describe('who sets the clock back', () => {
  /** Beyond a quarter of an hour no signature would be taken. */
  const aheadMs = 10 * 60_000;
  const clock = `data:text/javascript,const now = Date.now; Date.now = () => now() + ${aheadMs};`;

  it('makes no retention begin earlier than the log already was', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-clock-'));
    try {
      const first = await startServedGateway({
        ...{ dataDir, env: { NODE_OPTIONS: `--import=${encodeURI(clock)}` } },
      });
      const early = targetOf(first);
      const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
      await send(early, { method: 'PUT', path: '/clock', headers });
      const rule = '<Mode>COMPLIANCE</Mode><Days>1</Days>';
      const body =
        '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>' +
        `<Rule><DefaultRetention>${rule}</DefaultRetention></Rule></ObjectLockConfiguration>`;
      const query = [['object-lock', '']] as const;
      expect((await send(early, { method: 'PUT', path: '/clock', query, body })).status).toBe(200);
      const untilOf = async (target: Target, key: string) => {
        const path = `/clock/${key}`;
        expect((await send(target, { method: 'PUT', path, body: 'x' })).status).toBe(200);
        const { headers: shown } = await send(target, { method: 'HEAD', path });
        return Date.parse(shown[until] ?? '');
      };
      const before = await untilOf(early, 'a');
      expect(before).toBeGreaterThan(Date.now() + 24 * 3_600_000);
      await first.stop();
      const second = await startServedGateway({ dataDir });
      expect(await untilOf(targetOf(second), 'b')).toBeGreaterThanOrEqual(before);
      await second.stop();
    } finally {
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});
