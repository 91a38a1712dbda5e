// `bursar apply` and `bursar dump`: a collaboration as files say it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
});

afterAll(() => place.remove());

const run = (line: string) => place.run(line.split(' '));
const write = (name: string, text: string) => writeFileSync(join(place.folder, name), text);

async function json(line: string) {
  const { code, stdout, stderr } = await run(`${line} --json`);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

const collaboration = `
tenants:
  cms:
    membersCreateBuckets: false
    groups: [shifters]
    principals:
      alice: {role: admin, groups: [shifters]}
      loader: {kind: robot, groups: [robots], active: false}
    issuers:
      sso:
        url: https://sso.example.org/realms/cms
        audience: https://s3.example.org/cms
        mapping: {pathPrefix: /raw, groups: {/cms/shift: shifters}}
    grants:
      read:
        subjects: ['group:cms/shifters']
        actions: ['s3:GetObject', 's3:ListBucket']
        bucket: raw
        conditions: {IpAddress: {'aws:SourceIp': 192.0.2.0/24}}
  default:
    buckets:
      first: {owner: admin, recordReads: strict, undeleteSeconds: 3600}
    mounts:
      theirs: {bucket: 'cms:raw'}
limits:
  principal:cms/alice:
    spend: {month: 20.50, total: '100'}
    egressBytes: {day: 50GiB}
    rate: {requests: 50, bytes: 10MiB}
  tenant:cms: {storedBytes: 1TiB}
`;

test('all that is described is made, once, and dumped in the same form', async () => {
  write('all.yaml', collaboration);
  const { changes } = await json('apply -f all.yaml --dry-run');
  expect(changes).toHaveLength(11);
  expect(changes[0]).toMatchObject({ action: 'create', kind: 'tenant', name: 'cms' });
  expect((await run('tenant show cms')).code).toBe(1);
  expect((await json('apply -f all.yaml')).done).toEqual(changes);
  for (const file of ['all.yaml', 'dumped.yaml']) {
    expect(await json(`apply -f ${file} --prune --dry-run`)).toEqual({ dryRun: true, changes: [] });
    expect((await run(`apply ${file}`)).stdout).toBe('0 created, 0 set, 0 deleted\n');
    write('dumped.yaml', (await run('dump cms default')).stdout);
  }
  expect(await json('principal show cms/loader')).toMatchObject({
    ...{ kind: 'robot', groups: ['robots'], active: false },
  });
  expect((await json('limit show principal:cms/alice')).limits).toMatchObject({
    spend: { month: expect.stringMatching(/^20\.50?$/) },
    egressBytes: { day: 50 * 1024 ** 3 },
  });
  expect(await json('bucket show default/first')).toMatchObject({
    ...{ recordReads: 'strict', undelete: { seconds: 3600 } },
  });
  // What the same describes in JSON.
  write('dumped.json', JSON.stringify(await json('dump cms')));
  expect((await json('apply -f dumped.json')).done).toEqual([]);
});

test('what is different is set, and nothing is removed without --prune', async () => {
  write(
    'less.yaml',
    `tenants:\n  cms:\n    principals:\n      alice: {role: auditor}\n    grants: {}\n`,
  );
  expect((await json('apply -f less.yaml')).done).toEqual([
    { action: 'set', kind: 'principal', name: 'cms/alice', changes: ['role'] },
  ]);
  expect(await json('principal show cms/alice')).toMatchObject({ groups: ['shifters'] });
  const planned = (await json('apply -f less.yaml --prune --dry-run')).changes;
  expect(
    planned.map(({ action, kind, name }: Record<string, string>) => [action, kind, name]),
  ).toEqual([
    ['delete', 'grant', 'cms/read'],
    ['delete', 'principal', 'cms/loader'],
  ]);
  expect((await run('apply -f less.yaml --prune')).stdout).toBe('0 created, 0 set, 2 deleted\n');
  // Of issuers and limits the file says nothing.
  expect((await run('issuer show cms/sso')).code).toBe(0);
  // Nobody deletes themselves.
  write('none.yaml', 'tenants: {default: {principals: {}}}');
  expect((await json('apply -f none.yaml --prune')).done).toEqual([]);
});

test('what no gateway takes is refused before anything is done', async () => {
  const refused = async (name: string, text: string) => {
    write(name, text);
    const { code, stdout, stderr } = await run(`apply -f ${name}`);
    expect([code, stdout]).toEqual([2, '']);
    return stderr;
  };
  const people = 'principal,role\ncms/early,member\ncms/late,auditr\n';
  expect(await refused('typo.csv', people)).toBe(
    'bursar: typo.csv:3: cms/late: role auditr is none of operator, admin, auditor, member\n',
  );
  const of = (members: string) => refused('typo.yaml', `tenants:\n  cms:\n    ${members}\n`);
  expect(await of('buckets: {mc: {}}')).toMatch(/^bursar: typo\.yaml:3: .* 3 to 63 /);
  expect(await of('principals: {r: {kind: robt}}')).toMatch(/typo\.yaml:3: .*kind robt/);
  expect((await run('principal show cms/early')).code).toBe(1);
});

test('what fails is told, the rest is done, and a second run goes on', async () => {
  await run('principal create cms/carol');
  await run('principal delete cms/carol');
  write(
    'part.yaml',
    `tenants:
  cms:
    principals:
      carol: {role: member}
      dave: {}
    buckets:
      made-elsewhere: {}
`,
  );
  const failing = await run('apply -f part.yaml --json');
  expect(failing.code).toBe(1);
  const { done, failed } = JSON.parse(failing.stdout);
  expect(done).toMatchObject([{ name: 'cms/dave' }]);
  expect(failed).toMatchObject([
    { name: 'cms/carol', at: 'part.yaml:4', reason: expect.stringContaining('or was one') },
    { name: 'cms/made-elsewhere', reason: expect.stringContaining('a key of cms') },
  ]);
  expect(failing.stderr).toMatch(/^bursar: part\.yaml:4: create principal cms\/carol: /m);
  // One who is not made keeps nobody else from a key.
  write('part.csv', 'principal\ncms/carol\ncms/dave\n');
  const keyed = await run('apply -f part.csv --keys part-keys.csv --json');
  expect([keyed.code, JSON.parse(keyed.stdout)]).toMatchObject([1, { keys: 1, keysFailed: [] }]);
  write('part.yaml', 'tenants: {cms: {principals: {karl: {role: member}, dave: {}}}}');
  expect((await json('apply -f part.yaml')).done).toMatchObject([{ name: 'cms/karl' }]);
});

test('people come from a table, and their keys go into a file of one’s own', async () => {
  const names = Array.from({ length: 60 }, (_, i) => `person${i}`);
  const rows = names.map((name, i) => `cms/${name},member,"g${i % 3}, all",yes`);
  write('people.csv', ['principal,role,groups,active', ...rows].join('\r\n'));
  const first = await json('apply -f people.csv --keys keys.csv');
  expect(first).toMatchObject({ keys: 60, failed: [] });
  const file = join(place.folder, 'keys.csv');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const lines = readFileSync(file, 'utf8').trim().split('\r\n');
  expect(lines).toHaveLength(61);
  expect(lines.slice(1).filter((line) => !/^cms\/\w+,\w{20},[\w+/]{40}$/.test(line))).toEqual([]);
  const [name, id = '', secret = ''] = (lines[1] as string).split(',');
  const keys = { BURSAR_ACCESS_KEY_ID: id, BURSAR_SECRET_ACCESS_KEY: secret };
  const self = await place.run(['whoami', '--json'], { ...keys, BURSAR_ENDPOINT: served.endpoint });
  expect(JSON.parse(self.stdout).principal).toBe(name?.slice('cms/'.length));
  expect(await json('apply -f people.csv --keys keys.csv')).toMatchObject({ done: [], keys: 0 });
  // Keys whose secret is not in the file are named, and no second ones are made.
  const other = await run('apply -f people.csv --keys other.csv');
  expect(other.stderr).toContain(`bursar: ${name} has the key ${id}, not in other.csv`);
  // The list of people is the same table, and may be pruned by.
  write('listed.csv', (await run('principal list cms --csv')).stdout);
  expect((await json('apply -f listed.csv --prune')).done).toEqual([]);
});

test('a run that is killed can be run again', async () => {
  const rows = Array.from({ length: 300 }, (_, i) => `killed/p${i},g${i % 7}`);
  write('killed.csv', ['principal,groups', ...rows].join('\n'));
  await run('tenant create killed');
  const args = [resolve('app/main.js'), 'apply', '-f', 'killed.csv', '--keys', 'killed-keys.csv'];
  const child = spawn(process.execPath, args, {
    cwd: place.folder,
    stdio: 'ignore',
    env: bareEnvironment(),
  });
  const ended = new Promise((end) => child.on('exit', end));
  await expect
    .poll(async () => (await json('principal list killed')).length, { timeout: 30_000 })
    .toBeGreaterThan(20);
  child.kill('SIGKILL');
  await ended;
  const again = await run('apply -f killed.csv --keys killed-keys.csv');
  expect(again.code).toBe(0);
  expect(await json('principal list killed')).toHaveLength(300);
  expect((await json('apply -f killed.csv')).done).toEqual([]);
});

test('members of groups are added and removed', async () => {
  expect(await json('group add cms/shifters dave cms/karl dave')).toMatchObject({
    members: ['alice', 'dave', 'karl'],
  });
  // Nobody is removed unless all are there.
  expect((await run('group remove cms/shifters alice nobody')).code).toBe(1);
  expect(await json('group remove cms/shifters karl')).toMatchObject({
    members: ['alice', 'dave'],
  });
  const grant = "{subjects: ['group:cms/shifters'], actions: ['s3:GetObject'], bucket: raw}";
  write('grant.yaml', `tenants: {cms: {grants: {read: ${grant}}}}`);
  await json('apply -f grant.yaml');
  const asked = await run('group delete cms/shifters');
  expect([asked.code, asked.stderr]).toEqual([1, expect.stringContaining('has 2 members: alice')]);
  expect(asked.stderr).toContain('grant cms/read names it');
  expect((await run('group show cms/shifters')).stdout).toMatch(/^cms\/shifters +alice, dave +/m);
  expect((await run('group add cms/none dave')).stderr).toContain('NoSuchGroup');
  expect((await run('group add cms/shifters ligo/eve')).code).toBe(2);
});

test.each([
  ['tenants: [', /^bursar: wrong\.yaml:1: /],
  ['tenants:\n  cms:\n    colour: red', /wrong\.yaml:3: cms\.colour is not known: a tenant has /],
  ['tenants:\n  cms:\n    groups: {a: {size: 1}}', /yaml:3: cms\.groups\.a\.size is not known/],
  ['tenants:\n  cms:\n    principals:\n      a: {active: 1}', /yaml:4: .*active must be true or/],
  ['tenants:\n  cms:\n    principals:\n      Big: {}', /yaml:4: .*"Big" cannot be a name: it has/],
  ['tenants:\n  cms:\n    grants:\n      g: {actions: [a]}', /yaml:4: .*g says no subjects/],
  ['tenants: {cms: {groups: [a, a]}}', /yaml:1: group cms\/a is in wrong\.yaml:1 too/],
  ['tenants: {a: &x {}, b: *x}', /anchors and aliases are not taken/],
  ['tenants: {a: {}, a: {}}', /yaml:1: /],
  ['limits:\n  alice: {}', /yaml:2: limits: alice must be such as/],
  ['limits:\n  tenant:a: {egressBytes: {day: big}}', /yaml:2: .*egressBytes\.day /],
  ['people: {}', /people is not known here/],
])('what is not understood is named, and nothing is done: %j', async (text, message) => {
  write('wrong.yaml', text);
  const outcome = await run('apply -f wrong.yaml');
  expect(outcome).toMatchObject({ code: 2, stdout: '' });
  expect(outcome.stderr).toMatch(message);
  expect(outcome.stderr.trim()).not.toContain('\n');
});

test('all that is wrong is told at once, up to some twenty', async () => {
  const text = [
    'tenants:',
    '  cms:',
    '    principals:',
    '      alice: {role: membr, shoe: 5}',
    '      Bob: {}',
    '    grnts: {}',
    'limits:',
    '  principal:cms/alice: {storedBytes: 5XB, spend: 5}',
    'colour: red',
  ];
  write('wrong.yaml', text.join('\n'));
  write('people.csv', ['principal', ...Array.from({ length: 30 }, (_, i) => `P${i}`)].join('\n'));
  const { code, stdout, stderr } = await run('apply -f wrong.yaml --json');
  expect(code).toBe(2);
  const told = stderr.trimEnd().split('\n');
  expect(told.map((line) => /^bursar: wrong\.yaml:(\d+): /.exec(line)?.[1])).toEqual([
    ...['4', '4', '5', '6', '8', '8', '9'],
  ]);
  const words = told.map((line) => line.replace('bursar: ', ''));
  expect(JSON.parse(stdout).error).toMatchObject({ exitCode: 2, message: words.join('; ') });
  const many = await run('apply -f wrong.yaml -f people.csv');
  expect(many.stderr.trimEnd().split('\n')).toHaveLength(21);
  expect(many.stderr).toContain('no more than 20 mistakes are told\n');
});

test.each([
  ['', /people\.csv:1: the first line must name columns/],
  ['principal,shoe\n', /csv:1: shoe is no column/],
  ['role\nmember\n', /csv:1: no column is principal/],
  ['principal,role\ncms/a\n', /csv:2: 1 fields, where there are 2 columns/],
  ['principal\nalice\n', /csv:2: principal alice must be TENANT\/NAME/],
  ['principal,active\ncms/a,maybe\n', /csv:2: active maybe must be yes or no/],
  ['principal\ncms/a\n\ncms/a\n', /csv:4: principal cms\/a is in people\.csv:2 too/],
  ['principal\n"cms/a\n', /csv:2: a quote/],
])('so is a line of a table: %j', async (text, message) => {
  write('people.csv', text);
  const outcome = await run('apply -f people.csv');
  expect(outcome).toMatchObject({ code: 2, stdout: '' });
  expect(outcome.stderr).toMatch(message);
});

test('it waits for a gateway that does not answer yet', async () => {
  const environment = { BURSAR_ENDPOINT: 'http://127.0.0.1:1' };
  const args = ['apply', '-f', 'all.yaml', '--wait', '2s', '--json'];
  const outcome = await place.run(args, environment);
  expect(outcome.code).toBe(1);
  expect(JSON.parse(outcome.stdout).error.code).toBe('Unreachable');
  // And goes on once it does: here one that nobody can reach until later.
  const proxy = createServer((socket) => {
    const to = connect(Number(new URL(served.endpoint).port), '127.0.0.1');
    for (const one of [socket, to]) one.on('error', () => {});
    socket.pipe(to).pipe(socket);
  });
  const listen = async (port: number) => {
    proxy.listen(port, '127.0.0.1');
    await once(proxy, 'listening');
    return (proxy.address() as AddressInfo).port;
  };
  const port = await listen(0);
  await promisify(proxy.close.bind(proxy))();
  write('later.yaml', 'tenants: {later: {}}');
  const later = place.run(['apply', '-f', 'later.yaml', '--wait', '60s', '--json'], {
    BURSAR_ENDPOINT: `http://127.0.0.1:${port}`,
  });
  await sleep(1500);
  await listen(port);
  expect(await later).toMatchObject({ code: 0, stderr: '' });
  expect((await run('tenant show later')).code).toBe(0);
  proxy.close();
});
