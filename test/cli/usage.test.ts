// Usage as people read it: how near its limits are, and until when, by day, action and class,
// what alarms are told, and that all of it is what the records say. BURSAR_FULL=1 kills the gateway
// more often while it adds up.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parseUsd } from '#bursar/core/money.js';
import { S3Client } from '../fault/s3-client.ts';
import { type MailServer, startMailServer } from '../tooling/mail-server.ts';
import { readMetrics } from '../tooling/served-gateway.ts';
import { type Environment, type Outcome, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const kills = process.env.BURSAR_FULL === '1' ? 3 : 1;

let place: Workplace;
let served: Served;
let mail: MailServer;
const keys = new Map<string, { accessKeyId: string; secretAccessKey: string }>();

beforeAll(async () => {
  place = new Workplace();
  mail = await startMailServer();
  served = await place.serve(['--private-webhooks', '127.0.0.1:*'], mail.settings);
  await run('tenant create cms');
  for (const name of ['alice', 'bob']) await enroll(`cms/${name}`);
  await enroll('cms/boss', '--role admin');
  const alice = client('cms/alice');
  await must(alice.send('PUT', '/raw'));
  for (let i = 0; i < 5; i++) {
    await must(alice.send('PUT', `/raw/k${i}`, { body: Buffer.alloc(1000 * (i + 1)) }));
  }
  await must(alice.send('GET', '/raw/k0'));
  await must(alice.send('GET', '/raw/k1', { headers: { range: 'bytes=0-99' } }));
  await must(alice.send('PUT', '/raw/copy', { headers: { 'x-amz-copy-source': '/raw/k4' } }));
  await must(alice.send('DELETE', '/raw/k2'));
});

afterAll(async () => {
  place.remove();
  await mail.close();
});

async function enroll(id: string, flags = ''): Promise<void> {
  await run(`principal create ${id} ${flags}`.trim());
  keys.set(id, await json(`key create ${id}`));
}

function client(id: string): S3Client {
  const key = keys.get(id);
  if (!key) throw new Error(`${id} has no key`);
  return new S3Client({ endpoint: served.endpoint, ...key });
}

function as(id: string): Environment {
  const key = keys.get(id);
  return {
    BURSAR_ENDPOINT: served.endpoint,
    BURSAR_ACCESS_KEY_ID: key?.accessKeyId ?? '',
    BURSAR_SECRET_ACCESS_KEY: key?.secretAccessKey ?? '',
  };
}

async function must(answer: Promise<{ status: number; body: Buffer }>): Promise<void> {
  const { status, body } = await answer;
  if (status > 299) throw new Error(`${status}: ${body}`);
}

/** What a command that must succeed says. */
async function run(line: string, environment?: Environment): Promise<string> {
  const { code, stdout, stderr } = await place.run(line.split(' '), environment);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

async function json(line: string, environment?: Environment) {
  return JSON.parse(await run(`${line} --json`, environment));
}

const fail = (line: string, environment?: Environment): Promise<Outcome> =>
  place.run(line.split(' '), environment);

describe('usage', () => {
  test('of an account says what is used, how near its limits are, and until when', async () => {
    const set = 'limit set principal:cms/alice --spend month=1.00 --requests day=20';
    await run(`${set} --stored-bytes 100KiB`);
    const usage = await json('usage principal:cms/alice', as('cms/alice'));
    // k0 to k4 without k2, and a copy of k4; the bucket's making is a request too.
    expect(usage).toMatchObject({
      ...{ account: 'principal:cms/alice', requests: 9, ingressBytes: 15_000 },
      ...{ storedBytes: 17_000, storedObjects: 5 },
    });
    expect(usage.egressBytes).toBeGreaterThanOrEqual(1100);
    const caps = new Map(
      usage.caps.map((cap: { meter: string }) => [cap.meter, cap] as [string, object]),
    );
    expect([...caps.keys()].sort()).toEqual(['requests', 'spend', 'storedBytes']);
    expect(caps.get('requests')).toMatchObject({
      ...{ window: 'day', limit: '20', percent: 45, used: '9', lost: '0' },
      forecasts: expect.arrayContaining([expect.objectContaining({ basis: 'window' })]),
    });
    expect(caps.get('storedBytes')).toMatchObject({
      ...{ window: 'total', limit: '102400', used: '17000', percent: 16, resetAt: null },
    });
    const table = await run('usage principal:cms/alice');
    expect(table).toMatch(/^principal:cms\/alice, and \S+ USD accrued for storage/);
    expect(table).toMatch(/\nrequests +day +9 +\d+ +0 +20 +45 +\d{4}-\S+Z +(\S+Z|not before)\n/);
    expect(table).toMatch(/\nrequests +total +9\n/);
    expect(await run('usage')).toMatch(/principal:cms\/alice .* requests day 45%\n/);
  });

  test('is seen by those whom it concerns, and by nobody else', async () => {
    const names = async (environment?: Environment) =>
      (await json('usage', environment)).map(({ account }: { account: string }) => account);
    expect(await names(as('cms/alice'))).toEqual(['bucket:cms/raw', 'principal:cms/alice']);
    expect(await names(as('cms/bob'))).toEqual([]);
    const all = ['bucket:cms/raw', 'principal:cms/alice', 'tenant:cms'];
    expect(await names(as('cms/boss'))).toEqual(all);
    expect(await names()).toEqual(all);
    for (const line of ['usage bucket:cms/raw', 'usage bucket:cms/raw --by day']) {
      expect(await fail(line, as('cms/bob'))).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('NotFound'),
      });
    }
  });

  test('by day, action and class adds up to what the account says', async () => {
    const whole = await json('usage bucket:cms/raw');
    const parts = new Map<string, { name: string; spend: string; requests: number }[]>();
    for (const by of ['day', 'month', 'action', 'class']) {
      const rows = await json(`usage bucket:cms/raw --by ${by}`);
      parts.set(by, rows);
      const sum = (name: string) =>
        rows.reduce((total: number, row: Record<string, number>) => total + Number(row[name]), 0);
      for (const name of ['requests', 'ingressBytes', 'egressBytes', 'storedBytes']) {
        expect([by, name, sum(name)]).toEqual([by, name, whole[name]]);
      }
      const spend = rows.reduce(
        (total: bigint, row: { spend: string }) => total + (parseUsd(row.spend) ?? 0n),
        0n,
      );
      expect(spend).toBe(parseUsd(whole.spend));
    }
    expect(parts.get('action')?.map(({ name }) => name)).toEqual([
      ...['s3:DeleteObject', 's3:GetObject', 's3:PutObject'],
    ]);
    expect(parts.get('action')?.[0]).toMatchObject({ requests: 0, spend: '0.00' });
    // What is gone is taken off the class that it was in.
    expect(parts.get('class')).toContainEqual(
      expect.objectContaining({ name: 'STANDARD', storedBytes: 17_000, storedObjects: 5 }),
    );
    const long = await run('usage bucket:cms/raw --by day --to 2020-01-01');
    expect(long).toBe('DAY  SPEND  REQUESTS  BYTES IN  BYTES OUT  BYTES STORED  OBJECTS\n');
  });

  test('of a tenant by principal and bucket is what each was charged', async () => {
    for (const [by, name] of [
      ['principal', 'alice'],
      ['bucket', 'raw'],
    ] as const) {
      const own = await json(`usage ${by}:cms/${name}`);
      const rows = await json(`usage tenant:cms --by ${by}`, as('cms/boss'));
      const { spend, requests, storedBytes, egressBytes } = own;
      const expected = { name, spend, requests, storedBytes, egressBytes };
      expect(rows).toContainEqual(expect.objectContaining(expected));
      // Neither what belongs to other tenants, nor the tenant itself.
      expect(rows.map((row: { name: string }) => row.name)).toEqual([name]);
      expect(await json(`usage tenant:cms --by ${by} --to 2020-01-01`)).toEqual([]);
    }
    expect(await fail('usage bucket:cms/raw --by principal')).toMatchObject({
      ...{
        code: 1,
        stderr: expect.stringContaining(
          'Only a tenant is broken down by principal; a bucket by day',
        ),
      },
    });
  });

  test('of a bucket by prefix is what was charged while that had limits', async () => {
    await run('limit set prefix:cms/raw/none/ --requests day=1000000', as('cms/boss'));
    await run('limit set prefix:cms/raw/k --requests day=1000000', as('cms/boss'));
    const own = await json('usage prefix:cms/raw/k', as('cms/boss'));
    expect(own).toMatchObject({ heldBytes: null });
    expect(own.storedObjects).toBeGreaterThan(0);
    for (const [account, prefix] of [
      ['bucket:cms/raw', 'k'],
      ['tenant:cms', 'raw/k'],
    ] as const) {
      const rows = await json(`usage ${account} --by prefix`, as('cms/boss'));
      expect(rows).toEqual([
        expect.objectContaining({ name: prefix, storedBytes: own.storedBytes, requests: 0 }),
      ]);
    }
    for (const prefix of ['none/', 'k']) {
      await run(`limit delete prefix:cms/raw/${prefix}`, as('cms/boss'));
    }
    expect(await json('usage prefix:cms/raw/k', as('cms/boss'))).toMatchObject({
      storedObjects: 0,
    });
  });

  test('as CSV has a line for each meter and each limit', async () => {
    const csv = await run('usage --csv', as('cms/alice'));
    const lines = csv.split('\r\n');
    expect(lines[0]).toBe('account,meter,window,used,reserved,lost,limit,percent,reset,reachedAt');
    expect(lines).toContain('principal:cms/alice,requests,total,9,,,,,,');
    const day = lines.filter((line) => line.startsWith('principal:cms/alice,requests,day,'));
    expect(day).toEqual([
      expect.stringMatching(/,9,\d+,0,20,45,\d{4}-[^,]+,(?:\d{4}-[^,]+|not before)$/),
    ]);
    expect(lines.at(-1)).toBe('');
    expect(await run('usage bucket:cms/raw --by action --csv')).toMatch(
      /^action,spend,requests,ingressBytes,egressBytes,storedBytes,storedObjects\r\ns3:Del/,
    );
    // What concerns no class: a line of its own, and not taken for a formula.
    expect(await run('usage tenant:cms --by class --csv')).toMatch(/^-,0/m);
  });

  test.each([
    ['usage tenant:cms --by hour', 'Must be one of day, month, action, class, principal, bucket'],
    ['usage tenant:cms --from 2026-01-01', 'go with --by'],
    ['usage tenant:cms --by day --from yesterday', 'Must be a day'],
    ['usage --json --csv', 'exclude each other'],
  ])('%s is asked for wrongly', async (line, said) => {
    expect(await fail(line)).toMatchObject({ code: 2, stderr: expect.stringContaining(said) });
  });

  test('is what the records say, by the script that users have', async () => {
    const files = [join(place.folder, 'usage.json'), join(place.folder, 'records.jsonl')] as const;
    writeFileSync(files[0], JSON.stringify(await json('usage')));
    writeFileSync(files[1], await run('records --json'));
    const script = resolve('docs/audit/sum-records.mjs');
    const said = execFileSync(process.execPath, [script, ...files], { encoding: 'utf8' });
    expect(said).toMatch(/^\d+ records, 3 accounts, 0 differences\n$/);
  });
});

describe('alarms', () => {
  const messages: { id: string; data: { percent: number; account: string; record: number } }[] = [];
  let hook: Server;
  let status = 204;

  beforeAll(async () => {
    hook = createServer(async (request, response) => {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      const { data } = JSON.parse(Buffer.concat(pieces).toString());
      messages.push({ id: String(request.headers['webhook-id']), data });
      response.writeHead(status).end();
    });
    hook.listen(0, '127.0.0.1');
    await once(hook, 'listening');
  });
  afterAll(() => {
    hook.closeAllConnections();
    hook.close();
  });

  const percents = (account: string) =>
    messages.filter(({ data }) => data.account === account).map(({ data }) => data.percent);

  /** Uses up so many requests of a bucket. */
  async function read(count: number): Promise<number[]> {
    const statuses: number[] = [];
    for (let i = 0; i < count; i++) {
      statuses.push((await client('cms/alice').send('GET', '/raw/k0')).status);
    }
    return statuses;
  }

  test('go to the webhook that was set, at 50, 80 and 100%, and are counted', async () => {
    const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`;
    const made = await json(`alarm set ${url} cms`, as('cms/boss'));
    expect(made).toMatchObject({ tenant: 'cms', url, waiting: 0, problem: null });
    expect(made.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await run('alarm test cms', as('cms/boss'))).toBe('it was taken\n');
    messages.length = 0;
    await run('limit set principal:cms/alice --requests day=1000');
    const used = (await json('usage bucket:cms/raw')).requests;
    await run(`limit set bucket:cms/raw --requests total=${used + 10 + used}`);
    await read(used + 10 - 1);
    expect((await read(3)).at(-1)).toBe(403);
    await expect.poll(() => percents('bucket:cms/raw')).toEqual([50, 80, 100]);
    const shown = await run('alarm show cms', as('cms/boss'));
    expect(shown).toMatch(/alarms of +tenant cms\n/);
    expect(shown).toMatch(/last taken +\d{4}-/);
    expect(shown).not.toContain('whsec_');
    const records = await run('records --action bursar:BudgetAlarm --json');
    const ids = records.trim().split('\n');
    expect(messages.map(({ data }) => data.record)).toEqual(
      ids.map((line) => JSON.parse(line).index),
    );
    const metrics = await readMetrics(served);
    expect(metrics).toMatch(/^bursar_budget_alarms_total\{percent="100"\} 1$/m);
    expect(metrics).toMatch(
      /^bursar_quota_refusals_total\{meter="requests",window="total"\} \d+$/m,
    );
    expect(metrics).toMatch(/^bursar_open_reservations 0$/m);
    expect(metrics).not.toMatch(/^bursar_(budget_alarms|quota_refusals)_total.*(cms|alice|raw)/m);
  });

  test('that the webhook did not take are told after a kill, as the same', async () => {
    const before = messages.length;
    status = 500;
    const { requests } = await json('usage bucket:cms/raw');
    await run(`limit set bucket:cms/raw --requests total=${requests * 4}`);
    // Below a half of what it is now; then that is reached.
    await run(`limit set bucket:cms/raw --requests total=${Math.floor(requests * 1.9)}`);
    await expect.poll(() => messages.length).toBe(before + 1);
    await run('mount create mine --from atlas:theirs', as('cms/alice'));
    await served.stop('SIGKILL');
    status = 204;
    served = await place.serve(['--private-webhooks', '127.0.0.1:*'], mail.settings);
    await expect.poll(() => messages.length).toBe(before + 2);
    expect(messages.at(-1)).toEqual(messages.at(-2));
    // A mount of one's own is there as soon as it was acknowledged.
    const own = await json('mount list', as('cms/alice'));
    expect(own).toMatchObject([{ principal: 'alice', name: 'mine', bucketTenant: 'atlas' }]);
    await run('alarm delete cms', as('cms/boss'));
    expect((await fail('alarm show cms', as('cms/boss'))).stderr).toContain('No webhook is set');
  });

  test('of one’s own accounts come by mail to who asks for them, over STARTTLS', async () => {
    const address = 'alice@cms.example.org';
    const made = await json(`alarm set mailto:${address}`, as('cms/alice'));
    expect(made).toMatchObject({ tenant: 'cms', principal: 'alice', secret: null });
    expect(await run('alarm show', as('cms/alice'))).toMatch(/^alarms of +principal cms\/alice\n/);
    const { requests } = await json('usage principal:cms/alice', as('cms/alice'));
    await run(`limit set principal:cms/alice --requests total=${requests + 2}`);
    expect((await read(4)).at(-1)).toBe(403);
    await expect.poll(() => mail.mails.length, { timeout: 30_000 }).toBeGreaterThan(0);
    expect(mail.mails[0]?.to).toEqual([address]);
    expect(mail.mails[0]?.text).toContain('principal:cms/alice has used ');
    // Whoever tries it out again and again sends nobody a flood.
    const again = await fail('alarm test', as('cms/alice'));
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('the last minute')]);
    await run('limit set principal:cms/alice --requests total=none');
    for (const line of [`alarm set mailto:${address} cms/alice`, 'alarm show cms/alice']) {
      expect((await fail(line, as('cms/bob'))).stderr).toContain('AccessDenied');
    }
    const webhook = await fail('alarm set https://hooks.example.org/', as('cms/alice'));
    expect(webhook.stderr).toContain('only admins set a webhook for a principal');
    expect((await fail('alarm set mailto:a@example.org', as('cms/alice'))).stderr).toContain(
      'must be in a domain that the operator allows',
    );
    expect(await json('alarm show cms/alice', as('cms/boss'))).toMatchObject({
      url: `mailto:${address}`,
    });
    await run('alarm delete', as('cms/alice'));
    expect((await fail('alarm show', as('cms/alice'))).stderr).toContain('No webhook is set');
  });

  test("are the operator's to hear for all, an admin's for its tenant, no member's", async () => {
    const url = 'https://hooks.example.org/';
    for (const line of [`alarm set ${url} cms`, 'alarm show --tenant cms']) {
      expect((await fail(line, as('cms/alice'))).stderr).toContain('AccessDenied');
    }
    for (const line of [`alarm set ${url} nowhere`, 'alarm show --tenant nowhere']) {
      expect((await fail(line, as('cms/boss'))).stderr).toContain('NoSuchTenant');
      expect((await fail(line)).stderr).toContain('NoSuchTenant');
    }
    expect((await fail('alarm set http://hooks.example.org/')).stderr).toContain('https');
    expect(await json(`alarm set ${url}`)).toMatchObject({ tenant: null, url });
    expect(await json('alarm show')).not.toHaveProperty('secret');
    await run('alarm delete');
  });
});

test('usage by action adds up to the counters after kills in the midst of writes', async () => {
  await must(client('cms/boss').send('PUT', '/busy'));
  for (let round = 1; round <= kills; round++) {
    const writer = client('cms/boss');
    let stored = 0;
    const puts = Array.from({ length: 400 }, async (_, i) => {
      const answer = await writer
        .send('PUT', `/busy/${round}/${i}`, { body: Buffer.alloc(10) })
        .catch(() => null);
      if (answer?.status === 200) stored += 1;
    });
    // While it is added up.
    const asked = fail('usage bucket:cms/busy --by action');
    await vi.waitUntil(() => stored > 50 * round, { timeout: 20_000, interval: 1 });
    await served.stop('SIGKILL');
    await Promise.all([...puts, asked]);
    writer.close();
    served = await place.serve();
    const whole = await json('usage bucket:cms/busy');
    const rows: Record<string, number>[] = await json('usage bucket:cms/busy --by action');
    const sum = (name: string) => rows.reduce((total, row) => total + Number(row[name]), 0);
    expect(whole.storedObjects).toBeGreaterThan(50 * round);
    for (const name of ['requests', 'ingressBytes', 'storedObjects', 'storedBytes']) {
      expect([name, sum(name)]).toEqual([name, whole[name]]);
    }
  }
});

test('usage of a principal by token is since ever, and takes no days', async () => {
  // Without an account one's own, or that of the tenant where one sees all of it.
  for (const [who, account] of [
    ['cms/alice', 'principal:cms/alice'],
    ['cms/boss', 'tenant:cms'],
  ] as const) {
    const own = await json('usage --by month', as(who));
    expect(own).toEqual(await json(`usage ${account} --by month`, as(who)));
    expect(own).toHaveLength(1);
  }
  const line = 'token create --scope storage.read:/raw --bearer --expires 10m';
  const token = (await run(line, as('cms/alice'))).trim();
  const headers = { authorization: `Bearer ${token}` };
  expect((await fetch(`${served.endpoint}/raw/k0`, { headers })).status).toBe(200);
  await vi.waitFor(async () => {
    const rows = await json('usage principal:cms/alice --by token', as('cms/boss'));
    expect(rows).toEqual([expect.objectContaining({ requests: 1, egressBytes: 1000 })]);
    expect(await json('usage tenant:cms --by token', as('cms/boss'))).toEqual(rows);
    expect(await json('usage principal:cms/bob --by token', as('cms/boss'))).toEqual([]);
  }, 30_000);
  expect(await fail('usage principal:cms/alice --by token --from 2020-01-01')).toMatchObject({
    ...{ code: 2, stderr: expect.stringContaining('is not added up by day') },
  });
});

test('usage by principal has those of other tenants, by their whole names', async () => {
  await run('tenant create guests');
  await enroll('guests/gina');
  const rule = '--subject principal:guests/gina --action s3:GetObject --bucket raw';
  const { code } = await place.run(`grant set cms/gina ${rule}`.split(' '));
  expect(code).toBe(0);
  for (let i = 0; i < 2; i++) await must(client('guests/gina').send('GET', '/cms:raw/k3'));
  const rowsOf = async (flags = '') =>
    (await json(`usage tenant:cms --by principal${flags}`, as('cms/boss'))).filter(
      ({ name }: { name: string }) => name.includes('/'),
    );
  await expect
    .poll(() => rowsOf(), { timeout: 20_000 })
    .toMatchObject([{ name: 'guests/gina', requests: 2, egressBytes: 8000, storedBytes: 0 }]);
  // It is what the tenant was charged: those who pay for themselves alone are not in it.
  const [{ spend }] = await rowsOf(' --from 2026-01');
  expect(Number(spend)).toBeGreaterThan(0);
  expect(await rowsOf(' --to 2026-01')).toEqual([]);
  const text = await run('usage tenant:cms --by principal --csv', as('cms/boss'));
  expect(text).toMatch(new RegExp(`^guests/gina,${spend},2,0,8000,0,0\r$`, 'm'));
  // Where the records cannot be had, the others are shown, and that is said.
  const asBoss = as('cms/boss');
  const whole = await json('usage tenant:cms --by principal', asBoss);
  await run(
    'grant set cms/quiet --deny --subject principal:cms/boss --action bursar:SearchRecords',
  );
  const told = await place.run('usage tenant:cms --by principal --json'.split(' '), asBoss);
  expect(told).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('whom other tenants sent'),
  });
  expect(JSON.parse(told.stdout).map(({ name }: { name: string }) => name)).toEqual(
    whole.flatMap(({ name }: { name: string }) => (name.includes('/') ? [] : [name])),
  );
  await run('grant delete cms/quiet');
  await run('grant delete cms/gina');
});
