// What answers tell of limits on a served gateway: refusals, and the headers of what is let
// through; to whom, and what not to others.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  exchange,
  newPrincipal,
  patternOf,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { Connection } from '../server/threads/threads-rig.ts';
import { putLimits } from '../tooling/limits.ts';

let target: Target;
let alice: Target;
let bob: Target;
let boss: Target;
let eve: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  const made = async (name: string, role = 'member', tenant = 'cms'): Promise<Target> =>
    as(target, await newPrincipal(target, { tenant, name, role }));
  [alice, bob, boss, eve] = await Promise.all([
    made('alice'),
    made('bob'),
    made('boss', 'admin'),
    made('eve', 'member', 'atlas'),
  ]);
  await send(alice, { method: 'PUT', path: '/raw' });
  await send(alice, { method: 'PUT', path: '/raw/large', body: patternOf(1000) });
  await send(alice, { method: 'PUT', path: '/raw/small', body: 'content' });
  const everybody = {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: '*', Action: 's3:*', Resource: 'arn:aws:s3:::raw/*' },
    ],
  };
  const body = JSON.stringify(everybody);
  await send(alice, { method: 'DELETE', path: '/raw', query: [['publicAccessBlock', '']] });
  const put = await send(alice, { method: 'PUT', path: '/raw', query: [['policy', '']], body });
  expect(put.status, put.text).toBe(204);
});
afterAll(() => target?.stop());

function limit(account: string, limits: object | null): Promise<void> {
  return putLimits(target, account, limits);
}

function fieldsOf({ text }: Answer): Record<string, string | undefined> {
  const names = ['Account', 'Limit', 'Window', 'Max', 'Used', 'Reserved', 'Asked', 'Reset'];
  return Object.fromEntries(names.map((name) => [name, elementOf(text, name)]));
}

const large = { method: 'GET', path: '/raw/large' };
const largeForOthers = { method: 'GET', path: '/cms:raw/large' };

describe('a GET that would exceed a limit on what goes out', () => {
  beforeAll(() => limit('bucket:cms/raw', { egressBytes: { total: 500 } }));
  afterAll(() => limit('bucket:cms/raw', null));

  it('is refused at the start, and a range within it passes', async () => {
    const refused = await send(alice, large);
    expect([refused.status, refused.code]).toEqual([403, 'QuotaExceeded']);
    const range = await send(alice, { ...large, headers: { range: 'bytes=0-99' } });
    expect(range.status).toBe(206);
    expect(range.body.equals(patternOf(1000).subarray(0, 100))).toBe(true);
  });

  it('names account, limit, window, figures and reset to who owns the bucket', async () => {
    const refused = await send(alice, large);
    expect(fieldsOf(refused)).toEqual({
      ...{ Account: 'bucket:cms/raw', Limit: 'egressBytes', Window: 'total', Max: '500' },
      ...{ Used: expect.any(String), Reserved: expect.any(String), Asked: '1000' },
      Reset: 'never',
    });
    expect(elementOf(refused.text, 'Message')).toMatch(
      /^The limit of bucket:cms\/raw on egressBytes is 500: \d+ used, \d+ reserved, 1000 asked for\. It is never reset\.$/,
    );
    expect(fieldsOf(await send(boss, large))).toMatchObject({ Max: '500' });
  });

  const bare = { Limit: 'egressBytes', Window: 'total', Asked: '1000', Reset: 'never' };
  const noFigures = { Max: undefined, Used: undefined, Reserved: undefined };

  it('tells another member of the tenant whose limit it was, and no figures', async () => {
    const refused = await send(bob, large);
    expect(fieldsOf(refused)).toEqual({ Account: 'bucket:cms/raw', ...bare, ...noFigures });
    expect(elementOf(refused.text, 'Message')).not.toContain('500');
  });

  it('tells who is of another tenant, or of none, the bucket as they named it', async () => {
    const foreign = await send(eve, largeForOthers);
    expect(fieldsOf(foreign)).toEqual({ Account: 'bucket:cms:raw', ...bare, ...noFigures });
    const host = { host: 'raw.cms.s3.example.test' };
    const anonymous = await exchange(target, 'GET', '/large', host);
    expect(anonymous.status, anonymous.text).toBe(403);
    expect(anonymous.code).toBe('QuotaExceeded');
    expect(fieldsOf(anonymous)).toEqual({ Account: 'bucket:raw.cms', ...bare, ...noFigures });
  });

  it('tells the holder of a share link neither account nor figures', async () => {
    const body = JSON.stringify({ bucket: 'raw', key: 'large', expiresIn: 3600 });
    const headers = { 'content-type': 'application/json' };
    const made = await send(alice, { method: 'POST', path: '/_/v1/shares', headers, body });
    expect(made.status, made.text).toBe(201);
    const url = String(JSON.parse(made.text).url);
    const refused = await exchange(target, 'GET', url.slice(target.endpoint.length));
    expect(refused.status).toBe(403);
    expect(refused.text).toContain('QuotaExceeded');
    // Its last line has the request's id, of random digits.
    const [message] = refused.text.split('\n\n');
    expect(message).not.toMatch(/cms|alice|raw|500/);
  });

  it('charges nobody anything', async () => {
    const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['tenant', 'cms'],
      ['limit', '1000'],
    ]);
    const refused = records.filter(({ error }: { error?: string }) => error === 'QuotaExceeded');
    expect(refused.length).toBeGreaterThan(3);
    for (const { cost, bytesOut } of refused) expect([cost, bytesOut]).toEqual([undefined, 0]);
  });
});

describe('the owner of a bucket at its limit', () => {
  it('is not known by name to who is of another tenant', async () => {
    await limit('principal:cms/alice', { egressBytes: { day: 500 } });
    const refused = await send(eve, largeForOthers);
    expect(fieldsOf(refused)).toMatchObject({ Account: 'bucket:cms:raw', Limit: 'egressBytes' });
    expect(refused.text).not.toContain('alice');
    await limit('principal:cms/alice', null);
  });

  it('is told when a window is reset', async () => {
    await limit('principal:cms/alice', { egressBytes: { day: 500 } });
    const { Reset } = fieldsOf(await send(alice, large));
    const midnight = new Date();
    midnight.setUTCHours(24, 0, 0, 0);
    expect(Reset).toBe(midnight.toISOString());
    await limit('principal:cms/alice', null);
  });
});

describe('an answer where nothing is limited', () => {
  it('has no headers about limits', async () => {
    const { status, headers } = await send(alice, large);
    expect(status).toBe(200);
    const names = Object.keys(headers).filter((name) => /ratelimit|budget/.test(name));
    expect(names).toEqual([]);
  });
});

describe('an answer where an account has limits', () => {
  beforeAll(() =>
    limit('principal:cms/alice', {
      requests: { day: 1000, total: 100_000 },
      egressBytes: { day: 1_000_000 },
      spend: { month: '12.50' },
      rate: { requests: 50 },
    }),
  );
  afterAll(() => limit('principal:cms/alice', null));

  it('says what they are, what is left of the tightest, and until when', async () => {
    await send(alice, { method: 'GET', path: '/raw/small' });
    const { headers } = await send(alice, { method: 'GET', path: '/raw/small' });
    expect(headers['ratelimit-policy']).toBe(
      [
        '"requests/day principal:cms/alice";q=1000;qu="requests";w=86400',
        '"egressBytes/day principal:cms/alice";q=1000000;qu="content-bytes";w=86400',
        '"rate principal:cms/alice";q=50;qu="requests";w=1',
      ].join(', '),
    );
    const [requests, egress, rate] = (headers.ratelimit ?? '').split(', ');
    expect(requests).toMatch(/^"requests\/day principal:cms\/alice";r=9\d\d;t=\d{1,5}$/);
    expect(egress).toMatch(/^"egressBytes\/day principal:cms\/alice";r=99\d{4};t=\d{1,5}$/);
    // Of 50 a second, what the request took is back after 20 ms.
    expect(rate).toMatch(/^"rate principal:cms\/alice";r=(4\d|50);t=1$/);
    expect(headers['x-bursar-budget']).toMatch(
      /^"12\.49\d{4}";window="month";t=\d+;account="principal:cms\/alice"$/,
    );
  });

  it('counts down with each request of a connection, whatever is leased in memory', async () => {
    const connection = new Connection();
    const ask = async (): Promise<number> => {
      const { headers } = await connection.ask(alice, { method: 'HEAD', path: '/raw/small' });
      return Number(/requests\/day [^"]*";r=(\d+)/.exec(String(headers.ratelimit))?.[1]);
    };
    const first = await ask();
    for (let i = 1; i <= 20; i++) {
      const left = await ask();
      // What other threads have set aside is not counted, and they may draw and give back.
      if (process.env.BURSAR_TEST_HTTP_THREADS) expect(left).toBeLessThan(1000 - i);
      else expect(left).toBe(first - i);
    }
    connection.close();
  });

  it('tells others who use the bucket nothing of it', async () => {
    for (const [by, path] of [
      [bob, '/raw/small'],
      [eve, '/cms:raw/small'],
    ] as const) {
      const { status, headers } = await send(by, { method: 'GET', path });
      expect(status).toBe(200);
      const names = Object.keys(headers).filter((name) => /ratelimit|budget/.test(name));
      expect(names).toEqual([]);
    }
  });

  it('tells it on writes too', async () => {
    const put = await send(alice, { method: 'PUT', path: '/raw/new', body: 'x' });
    expect(put.status).toBe(200);
    expect(put.headers['x-bursar-budget']).toMatch(/^"12\.4/);
    expect(put.headers.ratelimit).toMatch(/requests\/day/);
  });
});

describe('who bears a token for a part of what its principal may', () => {
  const bearing = async (limits: object): Promise<(path: string) => Promise<Answer>> => {
    const wanted = { scope: 'storage.read:/raw', expiresIn: 3600, limits };
    const { token } = await callNative(alice, 'POST', '/_/v1/tokens', wanted);
    const authorization = { authorization: `Bearer ${token}` };
    return (path) => exchange(target, 'GET', path, authorization);
  };
  afterAll(() => limit('principal:cms/alice', null));

  it('sees what the token may still use', async () => {
    const get = await bearing({ requests: { total: 2 } });
    const first = await get('/raw/small');
    expect(first.status, first.text).toBe(200);
    expect(first.headers['ratelimit-policy']).toMatch(/^"requests\/total token:[^"]+";q=2;/);
    expect(first.headers.ratelimit).toMatch(/";r=1$/);
    expect((await get('/raw/small')).status).toBe(200);
    const refused = await get('/raw/small');
    expect(fieldsOf(refused)).toMatchObject({
      ...{ Account: expect.stringMatching(/^token:/), Limit: 'requests' },
      ...{ Max: '2', Asked: '1', Reset: 'never' },
    });
  });

  it('is held to the rate of the token', async () => {
    const get = await bearing({ rate: { requests: 2 } });
    const answers = await Promise.all(Array.from({ length: 10 }, () => get('/raw/small')));
    const refused = answers.filter(({ status }) => status === 503);
    expect(refused.length).toBeGreaterThan(5);
    expect(elementOf(refused[0]?.text ?? '', 'Account')).toMatch(/^token:/);
  });

  it('learns which limit of its principal is reached, and no figures', async () => {
    await limit('principal:cms/alice', { egressBytes: { total: 1 }, spend: { total: '5' } });
    const get = await bearing({ requests: { total: 10 } });
    const refused = await get('/raw/small');
    expect(fieldsOf(refused)).toEqual({
      ...{ Account: 'principal:cms/alice', Limit: 'egressBytes', Window: 'total' },
      ...{ Max: undefined, Used: undefined, Reserved: undefined, Asked: '7', Reset: 'never' },
    });
    await limit('principal:cms/alice', { spend: { total: '5' } });
    const passed = await get('/raw/small');
    expect(passed.status).toBe(200);
    expect(passed.headers['x-bursar-budget']).toBeUndefined();
  });
});
