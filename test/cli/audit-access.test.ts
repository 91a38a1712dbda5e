// `bursar audit access` over what a real gateway recorded: every way in that a rule, a role, a
// token or a link opens is told, with when it was closed, and what records do not say is said.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { type Environment, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

let place: Workplace;
let served: Served;
let alice: Environment;
let boss: Environment;
let eve: Environment;
let token: string;
const today = () => new Date().toISOString().slice(0, 10);

interface Row {
  who: string;
  by: string;
  through: string;
  places: string[];
  conditions: string[];
  from: string | null;
  to: string | null;
}

interface Report {
  access: Row[];
  readers: { who: string; how: string; reads: number }[];
  notTold: string[];
}

async function json(args: string[], environment?: Environment) {
  const { code, stdout, stderr } = await place.run([...args, '--json'], environment);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function enroll(id: string, ...flags: string[]): Promise<Environment> {
  await json(['principal', 'create', id, ...flags]);
  const key = await json(['key', 'create', id]);
  return {
    BURSAR_ENDPOINT: served.endpoint,
    BURSAR_ACCESS_KEY_ID: key.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: key.secretAccessKey,
  };
}

function clientOf(environment: Environment): S3Client {
  return new S3Client({
    ...{ endpoint: served.endpoint, accessKeyId: environment.BURSAR_ACCESS_KEY_ID ?? '' },
    secretAccessKey: environment.BURSAR_SECRET_ACCESS_KEY ?? '',
  });
}

const statement = (Sid: string, AWS: string, keys: string, more: object = {}) => ({
  ...{ Sid, Effect: 'Allow', Principal: { AWS }, Action: 's3:GetObject' },
  ...{ Resource: `arn:aws:s3:::raw/${keys}`, ...more },
});

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
  for (const name of ['cms', 'atlas']) await json(['tenant', 'create', name]);
  await json(['group', 'create', 'cms/shifters']);
  alice = await enroll('cms/alice');
  boss = await enroll('cms/boss', '--role', 'admin');
  const bob = await enroll('cms/bob', '--group', 'shifters');
  eve = await enroll('cms/eve', '--role', 'auditor');
  await enroll('cms/away', '--group', 'shifters');
  for (const name of ['bob', 'carl', 'dora', 'near']) {
    await json(['principal', 'create', `atlas/${name}`]);
  }
  await json(['principal', 'deactivate', 'cms/away']);
  const owner = clientOf(alice);
  await send(owner, 'PUT', '/raw');
  for (const key of ['run1', 'run1/x', 'run1/sub/y', 'run10/z']) {
    await send(owner, 'PUT', `/raw/${key}`, { body: Buffer.from('x') });
  }
  const policy = {
    Version: '2012-10-17',
    Statement: [
      statement('whole', 'atlas/bob', 'run1/*'),
      statement('part', 'atlas/carl', 'run1/sub/*', {
        Condition: { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } },
      }),
      statement('next', 'atlas/near', 'run10/*'),
    ],
  };
  const query = [['policy', '']] as [string, string][];
  await send(owner, 'PUT', '/raw', { query, body: Buffer.from(JSON.stringify(policy)) });
  const set = ['grant', 'set', 'cms/shift', '--subject', 'group:cms/shifters'];
  await json([...set, '--action', 's3:GetObject', '--bucket', 'raw', '--prefix', 'run1/'], boss);
  const late = ['grant', 'set', 'cms/late', '--subject', 'principal:atlas/dora'];
  await json([...late, '--action', 's3:GetObject', '--bucket', 'raw'], boss);
  const scope = ['--scope', 'storage.read:/raw/run1', '--expires', '1h'];
  token = (await place.run(['token', 'create', '--bearer', ...scope], alice)).stdout.trim();
  await json(['share', 'create', 's3://raw/run1/sub/', '--expires', '1h'], alice);
  const headers = { authorization: `Bearer ${token}` };
  const byToken = await fetch(new URL('/raw/run1/x', served.endpoint), { headers });
  expect(byToken.status).toBe(200);
  await byToken.arrayBuffer();
  const reader = clientOf(bob);
  for (let i = 0; i < 2; i++) await send(reader, 'GET', '/raw/run1/x');
  await json(['grant', 'delete', 'cms/late'], boss);
  const operator = await place.run(['usage']);
  expect(operator.code).toBe(0);
  owner.close();
  reader.close();
});

afterAll(() => place.remove());

const wayOf = ({ access }: Report, who: string) =>
  access.filter((one) => one.who === who).map(({ by, places }) => [by, ...places].join(' '));

describe('who could read, told from the records', () => {
  let report: Report;
  beforeAll(async () => {
    await vi.waitFor(async () => {
      report = await json(['audit', 'access', 's3://cms:raw/run1', '--at', today()]);
      expect(report.readers.map(({ reads }) => reads)).toEqual([1, 2]);
    }, 60_000);
  });

  test('is the owner, admins, and whom rules name, with the rule and the place', () => {
    // In one row, though rules that came later named more places.
    const owners = wayOf(report, 'cms/alice').filter((way) => way.startsWith('owner'));
    expect(owners).toEqual(['owner run1 run1/* run1/sub/*']);
    expect(wayOf(report, 'cms/boss')).toEqual(['admin run1 run1/* run1/sub/*']);
    expect(wayOf(report, 'atlas/bob')).toEqual(['policy:whole run1/* run1/sub/*']);
    const bobs = report.access.filter(({ who }) => who === 'cms/bob');
    expect(bobs).toMatchObject([{ by: 'grant:shift', through: 'group:cms/shifters' }]);
    const carls = report.access.filter(({ who }) => who === 'atlas/carl');
    expect(carls).toMatchObject([{ by: 'policy:part', places: ['run1/sub/*'] }]);
    expect(carls[0]?.conditions).toEqual([expect.stringContaining('aws:SourceIp')]);
  });

  test('is nobody beside it: who is off, an auditor, another prefix', () => {
    for (const who of ['cms/away', 'cms/eve', 'atlas/near', 'anyone']) {
      expect([who, wayOf(report, who)]).toEqual([who, []]);
    }
  });

  test('names tokens and links, with whose they are', () => {
    const ways = report.access.filter(({ by }) => /^(token|share):/.test(by));
    expect(ways.map(({ who }) => who)).toEqual(['cms/alice', 'cms/alice']);
    expect(ways.find(({ by }) => by.startsWith('share'))?.places).toEqual(['run1/sub/*']);
  });

  test('says from when and until when of a day', () => {
    const [late] = report.access.filter(({ who }) => who === 'atlas/dora');
    expect(late).toMatchObject({ by: 'grant:late' });
    expect(Date.parse(late?.from ?? '')).toBeLessThan(Date.parse(late?.to ?? ''));
    const [shift] = report.access.filter(({ by }) => by === 'grant:shift');
    expect(shift?.to).toBeNull();
  });

  test('tells who did, by what', () => {
    expect(report.readers).toMatchObject([
      { who: 'cms/alice', how: expect.stringMatching(/^token:/), reads: 1 },
      { who: 'cms/bob', reads: 2 },
    ]);
  });

  test('says what records do not tell', async () => {
    expect(report.notTold.join()).toMatch(/tokens that holders made/);
    const auditors = await json(['audit', 'access', 's3://raw/run1', '--at', today()], eve);
    expect(auditors.notTold.join('\n')).toMatch(
      /^role and groups of those .* cms\/bob \(record \d+\)/m,
    );
    expect(auditors.notTold.join('\n')).toMatch(/who is in atlas, its groups, tokens and links/);
    const groups = auditors.access.filter(({ by }: Row) => by === 'grant:shift');
    expect(groups.map(({ who }: Row) => who)).toContain('group:cms/shifters');
    expect(wayOf(auditors, 'atlas/bob')).toEqual(['policy:whole run1/* run1/sub/*']);
    expect(auditors.notTold.join('\n')).toMatch(/what operators of other tenants did in cms/);
    expect(auditors.notTold.join('\n')).toMatch(/^the rule admin: which admins cms has/m);
    expect(wayOf(auditors, 'cms/boss')).not.toContain('admin run1 run1/* run1/sub/*');
    const list = ['--subject', 'principal:cms/eve', '--action', 'bursar:ListPrincipals'];
    await json(['grant', 'set', 'cms/auditors', ...list], boss);
    const granted = await json(['audit', 'access', 's3://raw/run1', '--at', today()], eve);
    expect(wayOf(granted, 'cms/boss')).toEqual(['admin run1 run1/* run1/sub/*']);
    expect(granted.notTold.join('\n')).not.toMatch(/the rule admin/);
    await json(['grant', 'delete', 'cms/auditors'], boss);
    const none = await json(['audit', 'access', 's3://cms:none', '--at', today()]);
    expect([none.access, none.notTold[0]]).toEqual([
      [],
      expect.stringMatching(/^whether there was/),
    ]);
    const before = await json(['audit', 'access', 's3://cms:raw', '--at', '2020-01-01']);
    expect(before.access).toEqual([]);
  });

  test('is the same from a file of records, without a gateway, and as CSV', async () => {
    const file = join(place.folder, 'records.jsonl');
    writeFileSync(file, (await place.run(['records', '--json'])).stdout);
    const nowhere = { BURSAR_ENDPOINT: 'http://127.0.0.1:1' };
    const args = ['audit', 'access', 's3://cms:raw/run1', '--at', today(), '--records', file];
    const offline: Report = await json(args, nowhere);
    expect(offline.access).toEqual(report.access);
    expect(offline.readers).toEqual(report.readers);
    const csv = await place.run([...args, '--csv'], nowhere);
    expect(csv.stdout).toMatch(/^who,by,through,what,conditions,from,to\r\n/);
    const text = await place.run(args, nowhere);
    expect(text.stdout).toMatch(/could read s3:\/\/cms:raw\/run1:[\s\S]*read it:[\s\S]*not told/);
    const unnamed = await place.run([
      'audit',
      'access',
      's3://raw',
      '--at',
      today(),
      '--records',
      file,
    ]);
    expect([unnamed.code, unnamed.stderr]).toEqual([2, expect.stringContaining('say the tenant')]);
  });

  test('agrees with what the gateway decides now', async () => {
    const client = clientOf(await operatorKeys());
    for (const { who, by, places } of report.access) {
      if (!/^(owner|admin|grant|policy)/.test(by) || by === 'grant:late') continue;
      if (by === 'policy:part') continue;
      const [key = ''] = places;
      const body = {
        ...{ principal: who, action: 's3:GetObject' },
        resource: `cms:raw/${key.replace('*', 'any')}`,
      };
      const told = await call(client, 'POST', 'explain', body);
      expect([who, by, told.allowed, told.by]).toEqual([who, by, true, by]);
    }
    client.close();
  });

  test('is told to the admin itself, whom an operator made, with the rest', async () => {
    await json(['principal', 'create', 'cms/idle', '--role', 'admin']);
    await json(['principal', 'create', 'cms/risen'], boss);
    await json(['principal', 'set', 'cms/risen', '--role', 'admin']);
    const told: Report = await json(['audit', 'access', 's3://raw/run1', '--at', today()], boss);
    for (const name of ['boss', 'idle']) {
      const rows = told.access.filter(({ who }) => who === `cms/${name}`);
      expect(rows).toMatchObject([{ by: 'admin', places: ['run1', 'run1/*', 'run1/sub/*'] }]);
    }
    expect(told.access.map(({ who }) => who)).not.toContain('cms/away');
    const bobs = told.access.filter(({ who }) => who === 'cms/bob');
    expect(bobs).toMatchObject([{ by: 'grant:shift', through: 'group:cms/shifters' }]);
    const notTold = told.notTold.join('\n');
    expect(notTold).toMatch(/^since when they have .* as they are now, .*cms\/boss, .*cms\/idle$/m);
    expect(notTold).toMatch(
      /cms\/risen is admin, which it is now: the records until then say member/,
    );
    // What was before it was made is not its access.
    const before = await json(['audit', 'access', 's3://raw', '--at', '2020-01-01'], boss);
    expect(before.access).toEqual([]);
  });
});

async function operatorKeys(): Promise<Environment> {
  const { accessKeyId, secretAccessKey } = await json(['key', 'create', 'default/admin']);
  return { BURSAR_ACCESS_KEY_ID: accessKeyId, BURSAR_SECRET_ACCESS_KEY: secretAccessKey };
}
