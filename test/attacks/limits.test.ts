// Every way we know to spend more than a limit allows, or what is somebody else's, through HTTP: by
// tokens that are passed on, cut short or made twice, by other credentials of the same principal,
// and by names that look like accounts.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readLinks } from '#bursar/authz/tokens/chain.js';
import { issueToken } from '#bursar/authz/tokens/issue.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import type { Limits } from '#bursar/core/quota-terms.js';
import { type Claims, forgeLast } from '../authz/tokens/fixture.ts';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  exchange,
  newPrincipal,
  region,
  send,
  signMessage,
  type Target,
} from '../protocol/target.ts';
import { presignUrl } from '../tooling/presign.ts';
import {
  aliceKey,
  DelegationRig,
  describeAttacks,
  eveKey,
  jobKey,
  shrink,
  strangerKey,
  subJobKey,
} from './delegation-rig.ts';

let rig: DelegationRig;

beforeAll(async () => {
  rig = await DelegationRig.start();
});

afterAll(() => rig?.target.stop());

/** A call about an account's limits, whose name is one segment of the path. */
function ask(by: Target, method: string, account: string, wanted?: object): Promise<Answer> {
  const body = wanted === undefined ? '' : JSON.stringify(wanted);
  const type: Record<string, string> = body ? { 'content-type': 'application/json' } : {};
  const message = { method, path: `/_/v1/limits/${account}`, headers: type, body };
  const { headers } = signMessage(by, message);
  return exchange(by, method, `/_/v1/limits/${encodeURIComponent(account)}`, headers, body);
}

// biome-ignore lint/suspicious/noExplicitAny: JSON is whatever the schema says.
async function limitsOf(by: Target, account: string): Promise<any> {
  const { status, text } = await ask(by, 'GET', account);
  expect(status, text).toBe(200);
  return JSON.parse(text);
}

async function limit(account: string, wanted: object) {
  const { status, text } = await ask(rig.boss, 'PUT', account, wanted);
  expect(status, text).toBe(200);
  return JSON.parse(text);
}

const total = (requests: number): Limits => ({ requests: { total: requests } });
const idOf = (token: string) => readLinks(token).at(-1)?.link.id ?? '';

/** How many of so many requests at once are served; all others are refused for want of budget. */
async function served(count: number, ask: (index: number) => Promise<Answer>): Promise<number> {
  const answers = await Promise.all(Array.from({ length: count }, (_, i) => ask(i)));
  for (const { status, text } of answers) {
    if (status !== 200) expect(elementOf(text, 'Code')).toBe('QuotaExceeded');
  }
  return answers.filter(({ status }) => status === 200).length;
}

/** Of an account with one limit. What reads used is counted a moment after they are answered. */
function expectCap(account: string, expected: object): Promise<void> {
  return vi.waitFor(async () => {
    expect((await limitsOf(rig.boss, account)).caps).toMatchObject([expected]);
  }, 20_000);
}

/** Alice's token with limits, for the job to pass on, and what the job makes of it for bearers. */
const passedOn = (limits: Limits) => {
  const parent = rig.issue({ limits });
  return { parent, child: (given: object = {}) => shrink(parent, given) };
};

describe('a link', () => {
  it('with wider limits than its parent draws on its parent’s', async () => {
    const { parent, child } = passedOn(total(3));
    const wide = child({ limits: total(1000) });
    expect(await served(10, () => rig.bear(wide))).toBe(3);
    await expectCap(`token:${idOf(parent)}`, { used: '3', left: '0' });
    await expectCap(`token:${idOf(wide)}`, { used: '3', limit: '1000' });
  });

  it('shares its parent’s with all its siblings, asked at once', async () => {
    const { parent, child } = passedOn(total(7));
    const children = [child(), child({ limits: total(5) }), child({ limits: total(9) })] as const;
    expect(await served(30, (i) => rig.bear(children[i % 3] as string))).toBe(7);
    await expectCap(`token:${idOf(parent)}`, { used: '7' });
  });

  it('keeps the limits of each link above it, however deep', async () => {
    const { parent } = passedOn(total(9));
    const second = shrink(parent, { limits: total(2), holder: subJobKey.publicKey });
    const third = shrink(second, { key: subJobKey, limits: total(50) });
    expect(await served(10, () => rig.bear(third))).toBe(2);
    const fourth = shrink(second, { key: subJobKey });
    expect(await served(5, () => rig.bear(fourth))).toBe(0);
    expect(await served(5, () => rig.bear(shrink(parent)))).toBe(5);
  });

  it('made anew by its holder has nothing of its own to spend', async () => {
    const { child } = passedOn(total(4));
    expect(await served(12, () => rig.bear(child()))).toBe(4);
  });

  it('refused leaves its principal what it had', async () => {
    const { child } = passedOn(total(0));
    expect(await served(3, () => rig.bear(child()))).toBe(0);
    expect((await send(rig.alice, { method: 'GET', path: '/raw/foo/a' })).status).toBe(200);
  });
});

describe('two links with one jti', () => {
  /** A child of the job's with another's `jti`, and what else is given. */
  const twin = (token: string, claims: Claims) => forgeLast(token, jobKey, claims);

  it('have one account, with the tighter of their limits, whichever comes first', async () => {
    for (const [first, second] of [
      [2, 50],
      [50, 2],
    ] as const) {
      const one = passedOn(total(99)).child({ limits: total(first) });
      const other = twin(one, { limits: total(second) });
      expect(idOf(other)).toBe(idOf(one));
      expect((await rig.bear(one)).status).toBe(200);
      expect((await rig.bear(other)).status).toBe(200);
      expect(await served(6, (i) => rig.bear(i % 2 === 0 ? other : one))).toBe(0);
      await expectCap(`token:${idOf(one)}`, { limit: '2', used: '2' });
    }
  });

  it('have the limits of both where these are of different meters', async () => {
    const { parent, child } = passedOn(total(99));
    const one = child({ limits: { egressBytes: { total: 60 } } });
    const other = twin(one, { limits: total(5) });
    expect((await rig.bear(other)).status).toBe(200);
    // Its bytes, which it has no limit of, are counted a moment after it is answered.
    await expectCap(`token:${idOf(parent)}`, { used: '1' });
    // 16 bytes each.
    expect(await served(6, () => rig.bear(one))).toBe(2);
    expect(await served(6, () => rig.bear(other))).toBe(0);
  });

  it('of which one has none leave the other no more than it says', async () => {
    const { parent, child } = passedOn(total(99));
    const limited = child({ limits: total(2) });
    const free = twin(limited, { limits: undefined });
    expect((await rig.bear(free)).status).toBe(200);
    // What has no limits is counted a moment after it is answered.
    await expectCap(`token:${idOf(parent)}`, { used: '1' });
    expect(await served(4, () => rig.bear(limited))).toBe(1);
    expect(await served(4, () => rig.bear(limited))).toBe(0);
  });
});

/** What leads to an object with temporary keys, in a URL. */
function presigned({ text }: Answer): string {
  const { endpoint } = rig.target;
  return presignUrl({
    ...{ method: 'GET', origin: endpoint, path: '/raw/foo/a', region, expiresSeconds: 60 },
    query: [['X-Amz-Security-Token', elementOf(text, 'SessionToken') ?? '']],
    accessKeyId: elementOf(text, 'AccessKeyId') ?? '',
    secret: elementOf(text, 'SecretAccessKey') ?? '',
    timeMs: Date.now(),
  }).slice(endpoint.length);
}

describe('the budget of a token', () => {
  it('is that of the temporary keys and presigned URLs that are made with it', async () => {
    const token = rig.open({ limits: total(6) });
    const keys = [await rig.trade(token), await rig.trade(token)] as const;
    const url = presigned(keys[0]);
    const ways = [
      () => rig.bear(token),
      () => rig.readWith(keys[0], '/raw/foo/a'),
      () => rig.readWith(keys[1], '/raw/foo/a'),
      () => exchange(rig.target, 'GET', url),
    ] as const;
    for (const way of ways) expect((await way()).status).toBe(200);
    expect(await served(20, (i) => (ways[i % 4] as () => Promise<Answer>)())).toBe(2);
    expect(await served(3, async () => rig.readWith(await rig.trade(token), '/raw/foo/a'))).toBe(0);
  });

  it('is spent beside its principal’s, which binds all credentials of it', async () => {
    const account = 'principal:cms/dora';
    const dora = as(rig.target, await newPrincipal(rig.target, { tenant: 'cms', name: 'dora' }));
    const grant = { effect: 'allow', subjects: [account], actions: ['s3:*'], bucket: 'raw' };
    await callNative(rig.boss, 'PUT', '/_/v1/tenants/cms/grants/dora', grant);
    await limit(account, total(5));
    const wanted = { scope: 'storage.read:/raw', limits: total(1000) };
    const { token } = await callNative(dora, 'POST', '/_/v1/tokens', wanted);
    const second = await callNative(
      ...([rig.boss, 'POST', '/_/v1/tenants/cms/principals/dora/access-keys', {}] as const),
    );
    const path = '/raw/foo/a';
    const ways = [
      () => rig.bear(token, { path }),
      () => send(dora, { method: 'GET', path }),
      () => send(as(rig.target, second), { method: 'GET', path }),
      async () => rig.readWith(await rig.trade(token), path),
    ] as const;
    expect(await served(16, (i) => (ways[i % 4] as () => Promise<Answer>)())).toBe(5);
    // Administration goes on, and so do deletes; nobody else is held up.
    expect((await limitsOf(dora, account)).caps[0]).toMatchObject({
      left: '0',
    });
    expect((await send(dora, { method: 'DELETE', path: '/raw/nothing' })).status).toBe(204);
    expect((await send(rig.alice, { method: 'GET', path })).status).toBe(200);
  });

  it('is seen by its principal and its admins, and set by nobody', async () => {
    const wanted = { scope: 'storage.read:/raw', limits: total(6) };
    const { token } = await callNative(rig.alice, 'POST', '/_/v1/tokens', wanted);
    await rig.bear(token);
    const account = `token:${idOf(token)}`;
    await expectCap(account, { used: '1', limit: '6' });
    expect((await limitsOf(rig.alice, account)).caps).toMatchObject([{ used: '1', left: '5' }]);
    const eve = as(rig.target, await newPrincipal(rig.target, { tenant: 'atlas', role: 'admin' }));
    expect((await ask(eve, 'GET', account)).status).toBe(404);
    for (const by of [rig.alice, rig.boss, rig.target]) {
      expect((await ask(by, 'PUT', account, total(60))).status).toBe(403);
      expect((await ask(by, 'DELETE', account)).status).toBe(403);
    }
    const { tokens } = await callNative(rig.alice, 'GET', '/_/v1/tokens');
    const listed = tokens.find(({ jti }: { jti: string }) => jti === idOf(token));
    expect(listed).toMatchObject({
      caps: [{ meter: 'requests', limit: '6', used: '1', left: '5' }],
    });
    const path = `/_/v1/tokens/${idOf(token)}`;
    expect(await callNative(rig.boss, 'GET', path)).toMatchObject({ used: { requests: '1' } });
    for (const by of [eve, as(rig.target, await newPrincipal(rig.target, { tenant: 'cms' }))]) {
      expect((await send(by, { method: 'GET', path })).status).toBe(404);
    }
  });
});

const limited = () => rig.issue({ limits: total(1) });
/** The claims of Alice's token, signed by another key as if it were that one's. */
const signedBy = (key: typeof eveKey, subject: string, jti?: string) => {
  const nowMs = Date.now();
  const { token } = issueToken({
    ...{ key, subject, audience: rig.target.endpoint, nowMs, expiresAtMs: nowMs + 3_600_000 },
    scope: parseScope('storage.read:/raw'),
  });
  return jti === undefined ? token : forgeLast(token, key, { jti });
};

describeAttacks('a budget is not had by', [
  [
    'cutting off the link that has limits',
    '401 InvalidProof Missing',
    async () => rig.bear(shrink(rig.issue(), { limits: total(1) }).split('~')[0] as string),
  ],
  [
    'taking the limits out of a link',
    '401 InvalidBearerToken Signature',
    async () =>
      rig.bear(forgeLast(rig.open({ limits: total(1) }), strangerKey, { limits: undefined })),
  ],
  [
    'a link of one’s own key with a jti of Alice’s',
    '401 InvalidBearerToken Claims',
    async () => rig.bear(signedBy(eveKey, 'atlas/eve', idOf(limited()))),
  ],
  [
    'a link with a jti below another token’s than its parent',
    '401 InvalidBearerToken Parent',
    async () => {
      const other = idOf(rig.issue());
      return rig.bear(forgeLast(shrink(limited()), jobKey, { jti: `${other}.x` }));
    },
  ],
  [
    'a link with its parent’s own jti',
    '401 InvalidBearerToken Parent',
    async () => {
      const parent = limited();
      return rig.bear(forgeLast(shrink(parent), jobKey, { jti: idOf(parent) }));
    },
  ],
  [
    'limits that are none',
    '401 InvalidBearerToken Claims',
    async () => rig.bear(forgeLast(rig.open(), aliceKey, { limits: { requests: { total: -1 } } })),
  ],
]);

describe('a limit stays', () => {
  it('on a bucket that its owner deletes and makes again', async () => {
    await send(rig.alice, { method: 'PUT', path: '/again' });
    await limit('bucket:cms/again', total(2));
    const put = (key: string) =>
      send(rig.alice, { method: 'PUT', path: `/again/${key}`, body: 'x' });
    expect((await put('a')).status).toBe(200);
    expect((await send(rig.alice, { method: 'DELETE', path: '/again/a' })).status).toBe(204);
    expect((await send(rig.alice, { method: 'DELETE', path: '/again' })).status).toBe(204);
    await expectCap('bucket:cms/again', { limit: '2', used: '1' });
    expect((await send(rig.alice, { method: 'PUT', path: '/again' })).status).toBe(200);
    expect(await served(4, (i) => put(String(i)))).toBe(1);
  });

  it('when it is below what is used: the next request is refused, and told why', async () => {
    const account = 'bucket:cms/lowered';
    await send(rig.alice, { method: 'PUT', path: '/lowered' });
    const list = () => send(rig.alice, { method: 'GET', path: '/lowered' });
    await limit(account, total(100));
    expect(await served(5, list)).toBe(5);
    await expectCap(account, { used: '5' });
    const answer = await limit(account, total(3));
    expect(answer.caps).toMatchObject([{ limit: '3', used: '5', left: '0', exceeded: true }]);
    const { status, text } = await list();
    expect([status, elementOf(text, 'Code'), elementOf(text, 'Account')]).toEqual([
      ...[403, 'QuotaExceeded', account],
    ]);
    expect(text).toContain('lowered below what is used');
    expect(await served(5, list)).toBe(0);
    await ask(rig.boss, 'DELETE', account);
    expect(await served(5, list)).toBe(5);
  });

  it('as the last of two changes at once has it, in memory as in the tables', async () => {
    const account = 'bucket:cms/raced';
    await send(rig.alice, { method: 'PUT', path: '/raced' });
    let used = 0;
    for (let round = 0; round < 5; round++) {
      await Promise.all([4, 40, 7, 70].map((most) => limit(account, total(most))));
      const { limits } = await limitsOf(rig.boss, account);
      const left = limits.requests.total - used;
      const list = () => send(rig.alice, { method: 'GET', path: '/raced' });
      const count = await served(80, list);
      expect(count).toBe(Math.max(0, Math.min(left, 80)));
      used += count;
      await limit(account, total(1_000_000));
    }
  });

  it('where two merge into it at once: both are there, or one is told to try again', async () => {
    const account = 'bucket:cms/raw';
    const patch = (body: object) => ask(rig.boss, 'PATCH', account, body);
    for (let round = 1; round <= 8; round++) {
      const answers = await Promise.all([
        patch({ requests: { hour: 100_000 + round } }),
        patch({ egressBytes: { day: 1_000_000 + round } }),
      ]);
      const { limits } = await limitsOf(rig.boss, account);
      const isSet = [
        limits.requests?.hour === 100_000 + round,
        limits.egressBytes?.day === 1_000_000 + round,
      ];
      expect(answers.map(({ status }) => status === 200)).toEqual(isSet);
      for (const { status } of answers) expect([200, 409]).toContain(status);
    }
    await ask(rig.boss, 'DELETE', account);
  });
});

describe('nothing is limited by', () => {
  it.each([
    'principal:CMS/alice',
    'principal:cms/alice/',
    'principal:cms/alice ',
    'principal:cms/../cms/alice',
    'principal:cms%2Falice',
    'principal:cms',
    'tenant:cms/alice',
    'tenant:cms\u0000',
    'bucket:raw',
    'bucket:cms/rаw',
    'bucket:cms/raw\n',
    'token:',
    'token:no such',
    'store:local',
    '__proto__',
    'principal:cms/nobody',
  ])('%j, which is no account', async (account) => {
    const { status, text } = await ask(rig.target, 'PUT', account, total(1));
    expect(status, text).toBeGreaterThanOrEqual(400);
    const { limits } = await callNative(rig.target, 'GET', '/_/v1/limits');
    expect(limits.map((one: { account: string }) => one.account)).not.toContain(account);
  });
});
