// Limits as people set them: on the command line, kept by the gateway at once and after it was
// killed, shown to whom they concern. BURSAR_FULL=1 kills it at more moments.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { send, type Target } from '../protocol/target.ts';
import { type Environment, type Outcome, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

/** After a limit was asked for. */
const killsAfterMs = process.env.BURSAR_FULL === '1' ? [0, 4, 8, 12] : [0, 12];

let place: Workplace;
let served: Served;
let keys: { accessKeyId: string; secretAccessKey: string };

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
  await run('tenant create cms');
  await run('principal create cms/alice');
  keys = JSON.parse(await run('key create cms/alice --json'));
  await put('/raw');
  await put('/raw/a', 'sixteen bytes...');
});

afterAll(() => place.remove());

const account = 'principal:cms/alice';
const alice = (): Target => ({
  ...{ endpoint: served.endpoint, keys, strayNames: () => [], stop: async () => {} },
});
const asAlice = (): Environment => ({
  BURSAR_ENDPOINT: served.endpoint,
  BURSAR_ACCESS_KEY_ID: keys.accessKeyId,
  BURSAR_SECRET_ACCESS_KEY: keys.secretAccessKey,
});

/** What a command that must succeed says. */
async function run(line: string, environment?: Environment): Promise<string> {
  const { code, stdout, stderr } = await place.run(line.split(' '), environment);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

const fail = (line: string, environment?: Environment): Promise<Outcome> =>
  place.run(line.split(' '), environment);

async function put(path: string, body = ''): Promise<void> {
  expect((await send(alice(), { method: 'PUT', path, body })).status).toBe(200);
}

/** The statuses of so many reads, one after the other. */
async function read(count: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < count; i++) {
    statuses.push((await send(alice(), { method: 'GET', path: '/raw/a' })).status);
  }
  return statuses;
}

async function limitsOf(name = account): Promise<Record<string, unknown> | null> {
  return JSON.parse(await run(`limit show ${name} --json`)).limits;
}

describe('bursar limit', () => {
  test('and whoami say whom one is, where, by what key, and what one may', async () => {
    await run(`limit set ${account} --requests hour=1000 --rate requests=500`);
    const self = JSON.parse(await run('whoami --json', asAlice()));
    expect(self).toMatchObject({
      ...{ gateway: served.endpoint, principal: 'alice', accessKeyId: keys.accessKeyId },
      ...{ mayCreateBuckets: true, limits: { account, limits: { rate: { requests: 500 } } } },
    });
    const text = await run('whoami', asAlice());
    expect(text).toContain(served.endpoint);
    expect(text).toMatch(new RegExp(`^cms/alice +member +${keys.accessKeyId} `, 'm'));
    expect(text).toContain('may: all in its own buckets, and what it is granted elsewhere; it may');
    expect(text).toMatch(/^limit: requests hour 1000, \d+ left, until \d{4}-/m);
    expect(text).toMatch(/^limit: 500 requests a second$/m);
    const why = ['explain', 's3:GetObject', 's3://raw/a', '--principal', 'alice'].join(' ');
    expect(await run(why, asAlice())).toMatch(/^allowed by owner: the owner of the bucket$/m);
    expect(text + JSON.stringify(self)).not.toContain(keys.secretAccessKey);
    await run(`limit delete ${account}`);
  });

  test('set says what is left of all limits, in the words of people', async () => {
    const text = await run(
      `limit set ${account} --spend month=12.50 --egress day=50GiB,month=1TiB --requests ` +
        'hour=1000 --ingress total=2GB --stored-bytes 1TiB --stored-objects 10 --rate ' +
        'requests=500,bytes=10MiB',
    );
    const lines = text.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^ACCOUNT +METER +WINDOW +LIMIT +USED +LOST +RESERVED +LEFT +RESETS$/);
    expect(lines).toHaveLength(10);
    const row = (start: string) => lines.find((line) => new RegExp(`^\\S+ +${start}`).test(line));
    expect(row('egressBytes +day')).toContain('50.0 GiB');
    expect(row('spend')).toMatch(/month +12\.50 USD +0\.0000\d+ USD +0\.00 USD .* 20\d\d-/);
    expect(row('storedBytes')).toMatch(/total +1\.0 TiB +16 B .* never$/);
    expect(text).toMatch(/rate +second +10\.0 MiB/);
    expect(await limitsOf()).toEqual({
      spend: { month: '12.50' },
      storedBytes: { total: 1024 ** 4 },
      storedObjects: { total: 10 },
      ingressBytes: { total: 2_000_000_000 },
      egressBytes: { day: 50 * 1024 ** 3, month: 1024 ** 4 },
      requests: { hour: 1000 },
      rate: { requests: 500, bytes: 10 * 1024 ** 2 },
    });
  });

  test('set leaves what it does not name, --only nothing else, and none takes away', async () => {
    await run(`limit set ${account} --only --requests hour=900,day=9000 --spend total=5`);
    await run(`limit set ${account} --requests hour=800 --egress total=1MiB`);
    expect(await limitsOf()).toEqual({
      ...{ requests: { hour: 800, day: 9000 }, spend: { total: '5' } },
      egressBytes: { total: 1024 ** 2 },
    });
    await run(`limit set ${account} --requests day=none --spend none`);
    expect(await limitsOf()).toEqual({
      requests: { hour: 800 },
      egressBytes: { total: 1024 ** 2 },
    });
    await run(`limit delete ${account}`);
    expect(await limitsOf()).toBeNull();
    expect(await run(`limit show ${account}`)).toBe(`${account} has no limits\n`);
  });

  test.each([
    ['nothing to limit', '', 'say which limit, such as --spend month=12.50'],
    ['a window that is none', '--egress week=1', '--egress week=1 must be NAME=AMOUNT'],
    [
      'an amount without a window',
      '--spend 5',
      '--spend 5 says no window: minute=5, hour=5, day=5, month=5, total=5',
    ],
    ['a size that is none', '--egress day=lots', '--egress day=lots must be a size'],
    ['money that is none', '--spend month=$5', '--spend month=$5 must be USD such as 12.50'],
    ['a rate of something else', '--rate objects=1', '--rate objects=1 must be NAME=AMOUNT'],
    ['a rate of nothing', '--rate 5', '--rate 5 must be NAME=AMOUNT'],
    [
      'a window of what is stored',
      '--stored-bytes day=1',
      '--stored-bytes day=1 must be an amount',
    ],
    ['one thing twice', '--requests hour=1,hour=2', '--requests says hour twice'],
    ['to leave only nothing', '--only --spend none', 'none is no limit here'],
  ])('set refuses %s, and says what would fit', async (_title, flags, words) => {
    const { code, stderr } = await fail(`limit set ${account} ${flags}`.trim());
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([2, 1]);
    expect(stderr).toContain(words);
  });

  test('set shows how, with --help', async () => {
    const help = await run('limit set --help');
    expect(help).toContain('bursar limit set principal:cms/alice --spend month=20');
    expect(help).toContain('--stored-objects <amount>');
  });

  test('is for whom it concerns: a member sees its own and sets none', async () => {
    await run(`limit set ${account} --requests hour=800`);
    await run('limit set tenant:cms --spend month=100');
    expect(await run('limit list')).toMatch(/principal:cms\/alice[\s\S]*tenant:cms +spend/);
    const own = await run('limit list', asAlice());
    expect(own).toContain(account);
    expect(own).not.toContain('tenant:cms');
    const hidden = await fail('limit show tenant:cms', asAlice());
    expect([hidden.code, hidden.stderr]).toEqual([1, expect.stringContaining('no such account')]);
    const refused = await fail(`limit set ${account} --requests hour=8000`, asAlice());
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('AccessDenied')]);
    expect((await fail(`limit reconcile ${account}`, asAlice())).code).toBe(1);
    expect(await run(`limit reconcile ${account}`)).toContain('requests');
    await run('limit delete tenant:cms');
  });
});

describe('a limit', () => {
  test('holds from the next request on, and says when it is below what is used', async () => {
    await run(`limit set ${account} --only --egress total=1GiB`);
    expect(await read(3)).toEqual([200, 200, 200]);
    await expect
      .poll(() => run(`limit set ${account} --egress total=20`))
      .toContain(`${account} has used more egressBytes than its limit`);
    expect(await read(2)).toEqual([403, 403]);
    await run(`limit set ${account} --egress none`);
    expect(await read(2)).toEqual([200, 200]);
  });

  test('on what is stored warns where nothing is owned that it could bind', async () => {
    const set = 'limit set principal:cms/bob --stored-bytes 1GiB';
    await run('principal create cms/bob');
    const { code, stderr } = await fail(set);
    expect([code, stderr]).toEqual([
      0,
      'bursar: cms/bob owns no bucket, so the limit on storedBytes binds nothing: what is ' +
        'written into the buckets of others counts for their owners. ' +
        'Limit those buckets or owners, or writer:cms/bob.\n',
    ]);
    expect(JSON.parse((await fail(`${set} --json`)).stdout).warnings).toHaveLength(1);
    // Alice owns one, and other limits bind wherever she writes.
    const own = 'limit set principal:cms/alice --stored-bytes 1TiB --json';
    expect(JSON.parse(await run(own)).warnings).toEqual([]);
    await run('limit delete principal:cms/bob');
    const flows = 'limit set principal:cms/bob --ingress day=1GiB --json';
    expect(JSON.parse(await run(flows)).warnings).toEqual([]);
    await run('limit delete principal:cms/bob');
    await run('limit delete principal:cms/alice');
  });

  test('is on record with who set it, in canonical form', async () => {
    await run(`limit set ${account} --only --spend total=7 --egress month=10,day=5`);
    const [record] = (await run('records --action bursar:PutLimit --json'))
      .trimEnd()
      .split('\n')
      .slice(-1);
    expect(JSON.parse(record as string)).toMatchObject({
      ...{ tenant: 'default', principal: 'admin', target: `limits/${account}`, status: 200 },
      limits: { egressBytes: { day: 5, month: 10 }, spend: { total: '7' } },
    });
    expect(record).toContain('"limits":{"egressBytes":{"day":5,"month":10},"spend":{"total":"7"}}');
  });

  test('of a token is set when it is made, shown in the list, and survives a restart', async () => {
    await run(`limit delete ${account}`);
    const line =
      'token create --bearer --scope storage.read:/raw --requests total=3 --spend total=1 --rate ' +
      'requests=9 --json';
    const { token, jti } = JSON.parse(await run(line, asAlice()));
    const bear = async () =>
      (await fetch(`${served.endpoint}/raw/a`, { headers: { authorization: `Bearer ${token}` } }))
        .status;
    expect([await bear(), await bear()]).toEqual([200, 200]);
    await served.stop();
    const port = new URL(served.endpoint).port;
    // The same address: it is the one that the token is for.
    served = await place.serve(['--listen', `127.0.0.1:${port}`]);
    const list = await run('token list', asAlice());
    expect(list).toMatch(new RegExp(`${jti}\\n(.*\\n)*.*requests total: 1 left of 3, 2 used`));
    expect(list).toMatch(/spend total: 0\.99999\d+ USD left of 1\.00 USD/);
    expect(list).toContain('at most 9 requests a second');
    expect([await bear(), await bear()]).toEqual([200, 403]);
    const shown = await run(`token show ${jti}`, asAlice());
    expect(shown).toMatch(/used: 0\.0\d+ USD, 3 requests, 0 B received, 48 B sent/);
    expect(shown).toContain('requests total: 0 left of 3, 3 used');
    expect(await run(`limit show token:${jti}`, asAlice())).toMatch(/requests +total +3 +3 /);
  });

  test('counts what was set aside when the gateway was killed, until reconciled', async () => {
    await run(`limit set ${account} --only --requests total=1000`);
    expect(await read(3)).toEqual([200, 200, 200]);
    await served.stop('SIGKILL');
    served = await place.serve();
    const capOf = async (line: string) =>
      JSON.parse(await run(`${line} ${account} --json`)).caps[0];
    const before = await capOf('limit show');
    // What was served is counted, recorded or not; and little else is.
    expect(Number(before.lost)).toBeGreaterThan(0);
    expect(Number(before.lost)).toBeLessThan(100);
    const after = await capOf('limit reconcile');
    expect(after).toMatchObject({ limit: '1000', lost: '0', used: before.used });
    expect(Number(after.left)).toBe(Number(before.left) + Number(before.lost));
  });

  test('that was answered is there after kill -9; one that was not may be', async () => {
    const account = 'tenant:cms';
    for (const [round, delayMs] of killsAfterMs.entries()) {
      const before = await limitsOf(account);
      const wanted = { requests: { hour: 1_000_000 + round } };
      const answered = send(
        { ...alice(), keys: operatorKeys() },
        {
          ...{ method: 'PUT', path: `/_/v1/limits/${account}`, body: JSON.stringify(wanted) },
          headers: { 'content-type': 'application/json' },
        },
      ).then(
        ({ status }) => status === 200,
        () => false,
      );
      await sleep(delayMs);
      await served.stop('SIGKILL');
      const isAnswered = await answered;
      served = await place.serve();
      expect(isAnswered ? [wanted] : [before, wanted]).toContainEqual(await limitsOf(account));
    }
  });
});

function operatorKeys(): Target['keys'] {
  const text = readFileSync(join(place.data, 'credentials'), 'utf8');
  const settingOf = (name: string) => new RegExp(`^${name} *= *(\\S+)$`, 'm').exec(text)?.[1] ?? '';
  return {
    accessKeyId: settingOf('aws_access_key_id'),
    secretAccessKey: settingOf('aws_secret_access_key'),
  };
}
