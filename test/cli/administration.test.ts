// The administration commands against a served gateway, as an operator and as others use them.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type Environment, type Outcome, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
});

afterAll(() => place.remove());

async function run(...args: string[]): Promise<Outcome> {
  return place.run(args);
}

/** The parsed answer of a command that must succeed. */
async function json(args: string[], environment?: Environment) {
  const { code, stdout, stderr } = await place.run([...args, '--json'], environment);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

/** Makes a principal with a key; gives the environment that signs with it. */
async function enroll(id: string, ...flags: string[]): Promise<Environment> {
  await json(['principal', 'create', id, ...flags]);
  const key = await json(['key', 'create', id]);
  return {
    BURSAR_ENDPOINT: served.endpoint,
    BURSAR_ACCESS_KEY_ID: key.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: key.secretAccessKey,
  };
}

test('a tenant is created, shown, changed, listed and deleted', async () => {
  expect(await json(['tenant', 'create', 'cms'])).toMatchObject({ membersCreateBuckets: true });
  expect(await json(['tenant', 'create', 'lhcb', '--members-create-buckets', 'no'])).toMatchObject({
    name: 'lhcb',
    membersCreateBuckets: false,
  });
  await json(['tenant', 'set', 'lhcb', '--members-create-buckets', 'yes']);
  expect(await json(['tenant', 'show', 'lhcb'])).toMatchObject({ membersCreateBuckets: true });
  const { stdout } = await run('tenant', 'list');
  expect(stdout).toMatch(
    /^TENANT +MEMBERS CREATE BUCKETS +MEMBERS MOUNT BUCKETS +STORE +READS +CREATED\ncms +yes +yes +prompt /,
  );
  const gone =
    'tenant lhcb is deleted\n  no principal\n  no group\n  no grant\n  no issuer\n  no mount\n' +
    '  no personal mount\n  no storage class\n';
  expect(await run('tenant', 'delete', 'lhcb', '--yes')).toEqual({
    ...{ code: 0, stdout: gone, stderr: '' },
  });
  expect(await run('tenant', 'show', 'lhcb')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'bursar: There is no tenant lhcb. (NoSuchTenant)\n',
  });
});

test('what is in the way is said with whose it is', async () => {
  const said = async (...args: string[]) => {
    const { code, stderr } = await run(...args);
    expect(code).toBe(1);
    return stderr;
  };
  expect(await said('tenant', 'create', 'cms')).toContain('There is a tenant cms, or was one.');
  const admin = 'default/admin';
  const twice = await said('principal', 'create', admin);
  expect(twice).toContain('There is a principal default/admin, or was one.');
  const [key] = await json(['key', 'list', admin]);
  const last = await said('key', 'delete', admin, key.accessKeyId);
  expect(last).toContain('the last active access key of an operator');
});

test('a tenant is deleted when somebody has seen what goes with it and said yes', async () => {
  await json(['tenant', 'create', 'opal']);
  await json(['group', 'create', 'opal/shifts']);
  const dora = await enroll('opal/dora', '--group', 'shifts');
  for (const name of ['emil', 'fay']) await json(['principal', 'create', `opal/${name}`]);
  const s3 = new S3Client({
    ...{ endpoint: served.endpoint, accessKeyId: dora.BURSAR_ACCESS_KEY_ID ?? '' },
    secretAccessKey: dora.BURSAR_SECRET_ACCESS_KEY ?? '',
  });
  expect((await s3.send('PUT', '/opal-raw')).status).toBe(200);
  const remove = (...flags: string[]) => run('tenant', 'delete', 'opal', ...flags);
  expect(await remove('--yes')).toEqual({
    ...{ code: 1, stdout: '' },
    stderr:
      'bursar: opal has 1 bucket, which would have to go first\n\n' +
      'In the way (with a key of an admin of opal):\n' +
      '  bursar bucket delete opal/opal-raw --all\n',
  });
  const all = ['bucket', 'delete', 'opal/opal-raw', '--all'];
  const unasked = await place.run(all, dora);
  expect([unasked.code, unasked.stderr]).toEqual([1, expect.stringContaining('or give --yes')]);
  expect((await s3.send('HEAD', '/opal-raw')).status).toBe(200);
  expect(await place.run([...all, '--yes'], dora)).toEqual({
    ...{ code: 0, stdout: 'bucket opal/opal-raw is deleted, 0 versions\n', stderr: '' },
  });
  const mount = ['mount', 'create', 'mine', '--from', 'default:theirs'];
  expect((await place.run(mount, dora)).code).toBe(0);
  const contents =
    '  3 principals, with their keys and tokens: dora, emil, fay\n' +
    '  1 group: shifts\n  no grant\n  no issuer\n  no mount\n' +
    '  1 personal mount: dora/mine\n  no storage class\n';
  for (const answer of [undefined, 'n\n', 'opal\n']) {
    const refused = await place.run(['tenant', 'delete', 'opal'], {}, answer);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toContain(`With tenant opal go, for good:\n${contents}`);
    expect(refused.stderr).toContain('bursar: nothing was deleted: say yes, or give --yes\n');
  }
  expect((await remove('--json')).code).toBe(1);
  expect(await json(['principal', 'list', 'opal'])).toHaveLength(3);
  expect(await json(['tenant', 'delete', 'opal', '--yes'])).toMatchObject({
    ...{ deleted: 'opal', principals: ['dora', 'emil', 'fay'], ownMounts: ['dora/mine'] },
  });
  expect((await remove('--yes')).stderr).toContain('NoSuchTenant');
});

test('a name that is no account is answered with those that may be meant', async () => {
  const said = async (account: string) => (await run('limit', 'show', account)).stderr;
  expect(await said('cms/alice')).toBe(
    'bursar: cms/alice is no account. ' +
      'Was principal:cms/alice or bucket:cms/alice meant? (NotFound)\n',
  );
  expect(await said('s3://cms/raw')).toContain('Was bucket:cms/raw meant?');
  expect(await said('cms')).toContain('Was tenant:cms meant?');
  expect(await said('principal/cms/alice')).toContain('Was principal:cms/alice meant?');
  expect(await said('a b')).toContain('Accounts are written tenant:TENANT, principal:TENANT/NAME');
  expect((await run('usage', 'CMS/alice')).stderr).toContain('principal:cms/alice');
});

test('principals, groups and keys are managed, and a deleted key stops working', async () => {
  await json(['tenant', 'create', 'atlas']);
  await json(['group', 'create', 'atlas/muons']);
  const alice = await enroll('atlas/alice', '--kind', 'robot', '--group', 'muons');
  expect(await json(['group', 'show', 'atlas/muons'])).toMatchObject({ members: ['alice'] });
  expect(await json(['group', 'list', 'atlas'])).toMatchObject([{ name: 'muons' }]);
  expect(await json(['principal', 'show', 'atlas/alice'], alice)).toMatchObject({
    kind: 'robot',
    role: 'member',
    groups: ['muons'],
  });
  await json(['principal', 'set', 'atlas/alice', '--role', 'auditor', '--no-group']);
  expect(await json(['principal', 'list', 'atlas'])).toMatchObject([
    { name: 'alice', role: 'auditor', groups: [] },
  ]);
  const [key] = await json(['key', 'list', 'atlas/alice'], alice);
  expect(key).toEqual({
    accessKeyId: alice.BURSAR_ACCESS_KEY_ID,
    thumbprint: null,
    active: true,
    createdAt: expect.any(String),
  });
  expect((await run('key', 'delete', 'atlas/alice', key.accessKeyId)).code).toBe(0);
  expect(await place.run(['usage'], alice)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('InvalidAccessKeyId'),
  });
  expect((await run('group', 'delete', 'atlas/muons')).code).toBe(0);
  expect((await run('principal', 'delete', 'atlas/alice')).code).toBe(0);
});

test("an admin works in its tenant and finds nothing of others'", async () => {
  await json(['tenant', 'create', 'belle']);
  const boss = await enroll('belle/boss', '--role', 'admin');
  const made = await json(['principal', 'create', 'belle/carol'], boss);
  expect(made).toMatchObject({ role: 'member' });
  expect(await json(['tenant', 'list'], boss)).toMatchObject([{ name: 'belle' }]);
  for (const tenant of ['default', 'nowhere']) {
    expect(await place.run(['principal', 'list', tenant], boss)).toEqual({
      code: 1,
      stdout: '',
      stderr: `bursar: There is no tenant ${tenant}. (NoSuchTenant)\n`,
    });
  }
});

test('calls are charged to nobody, and recorded with who made them, refused or not', async () => {
  await json(['tenant', 'create', 'dune']);
  const member = await enroll('dune/member');
  expect((await place.run(['tenant', 'list'], member)).stderr).toContain('AccessDenied');
  const usage = await json(['usage', 'principal:dune/member'], member);
  // Administration is charged to nobody.
  expect(usage).toMatchObject({ account: 'principal:dune/member', requests: 0, spend: '0.00' });
  const own = await place.run(['records', '--json'], member);
  const records = own.stdout.trim().split('\n');
  expect(records.map((line) => JSON.parse(line))).toMatchObject([
    { action: 'bursar:ListTenants', principal: 'member', error: 'AccessDenied', status: 403 },
    { action: 'bursar:GetUsage', principal: 'member', target: 'usage/principal:dune/member' },
  ]);
  const found = await run('records', '--principal', 'dune/member', '--limit', '1', '--json');
  expect(found.stdout).toBe(`${records[0]}\n`);
  expect((await run('records', '--tenant', 'dune')).stdout).toMatch(
    /dune\/member +key:\w+ +shared-secret +127\.0\.0\.1 +bursar:ListTenants +AccessDenied +\w+ +tenants\n/,
  );
});

test('records of more than a page are all read', async () => {
  const before = (await run('records', '--json')).stdout.trim().split('\n').length;
  const key = await enroll('default/busy');
  // Pages of the gateway hold at most 1000 records; asking in small ones walks the same cursor.
  const some = await run('records', '--json', '--limit', String(before + 2));
  const indexes = some.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).index);
  expect(indexes).toEqual([...indexes.keys()]);
  expect(indexes).toHaveLength(before + 2);
  expect(key).toBeDefined();
});

test('the served gateway describes its API and names what does not fit', async () => {
  const answer = await fetch(`${served.endpoint}/_/v1/openapi.json`);
  expect(await answer.json()).toMatchObject({
    paths: { '/_/v1/tenants': { post: { operationId: 'CreateTenant' } } },
  });
  // In words of the command line, and as what was asked for wrongly.
  for (const [line, stderr] of [
    ['tenant create No-Name!', /^bursar: "No-Name!" cannot be a name: it has at most .* \(Inv/],
    ['principal create default/x --group Shift', /^bursar: "Shift" cannot be a name: it has/],
    ['share create s3://x/y --expires 0s', /^bursar: --expires must be >= 1 \(InvalidInput\)/],
  ] as const) {
    const outcome = await run(...line.split(' '));
    expect(outcome).toMatchObject({ code: 2, stderr: expect.stringMatching(stderr) });
  }
  // Nobody deletes themselves unasked: there is no way back.
  const gone = await run('principal', 'delete', 'default/admin');
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringMatching(/^That is you: .*--yes\n$/s)]);
  const own = await run('key', 'list', 'default/admin');
  expect([own.code, await run('key', 'list')]).toEqual([0, own]);
});

test('health is told without credentials', async () => {
  const answer = await fetch(`${served.endpoint}/_/health`);
  expect(answer.status).toBe(200);
  expect(await answer.json()).toEqual({ ready: true, reads: true, writes: true, problems: [] });
});

describe('where a command looks', () => {
  test('--credentials, --profile and --endpoint win over the environment', async () => {
    const file = join(place.folder, 'mine');
    const key = await enroll('default/mine', '--role', 'operator');
    writeFileSync(
      file,
      [
        '# two profiles',
        '[other]',
        'aws_access_key_id = WRONG',
        'aws_secret_access_key = wrong',
        '[profile mine]',
        `aws_access_key_id=${key.BURSAR_ACCESS_KEY_ID}`,
        `aws_secret_access_key=${key.BURSAR_SECRET_ACCESS_KEY}`,
        'endpoint_url = http://127.0.0.1:1',
      ].join('\n'),
    );
    const flags = ['--credentials', file, '--profile', 'mine', '--endpoint', served.endpoint];
    expect((await run('tenant', 'list', ...flags)).code).toBe(0);
    const environment = { BURSAR_CREDENTIALS: file, BURSAR_PROFILE: 'mine' };
    const flag = ['--endpoint', served.endpoint];
    expect((await place.run(['tenant', 'list', ...flag], environment)).code).toBe(0);
    expect(await place.run(['tenant', 'list'], environment)).toEqual({
      code: 1,
      stdout: '',
      stderr: 'bursar: cannot reach the gateway at http://127.0.0.1:1 (ECONNREFUSED)\n',
    });
  });

  test('something else than a gateway is named as such', async () => {
    const other = createServer((_request, response) => response.writeHead(502).end('<html>'));
    await new Promise<void>((ready) => other.listen(0, '127.0.0.1', ready));
    const { port } = other.address() as AddressInfo;
    const endpoint = `http://127.0.0.1:${port}`;
    const refused = await run('tenant', 'list', '--endpoint', endpoint);
    other.close();
    expect(refused).toEqual({
      code: 1,
      stdout: '',
      stderr: `bursar: ${endpoint} answered 502, which is not an answer of Bursar\n`,
    });
  });

  test('an endpoint that is no URL is a usage error', async () => {
    const refused = await run('tenant', 'list', '--endpoint', 'localhost');
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/^bursar: endpoint localhost must be a URL/);
  });
});

test('what a start says can be pasted, and samples go where the gateway has its own', async () => {
  const elsewhere = new Workplace();
  const folder = join(elsewhere.folder, `it's "new" $HOME & more`);
  try {
    const other = await elsewhere.serve(['--data', folder]);
    const lines = other.stdout().split('\n');
    const line = lines.find((one) => one.includes('tenant list'))?.trim() ?? '';
    const pasted = line.replace('npx bursar', `"${process.execPath}" "${resolve('app/main.js')}"`);
    const from = {
      cwd: tmpdir(),
      env: bareEnvironment(),
      encoding: 'utf8',
    } as const;
    expect(execFileSync('sh', ['-c', pasted], from)).toMatch(/\ndefault +yes/);
    const exported = lines.find((one) => one.includes('export '))?.trim();
    const shown = 'printf "%s" "$AWS_SHARED_CREDENTIALS_FILE"';
    expect(execFileSync('sh', ['-c', `${exported}; ${shown}`], from)).toBe(
      join(folder, 'credentials'),
    );
    const as = { BURSAR_CREDENTIALS: join(folder, 'credentials') };
    const { aws_access_key_id: id = '', aws_secret_access_key: secret = '' } = Object.fromEntries(
      [...readFileSync(as.BURSAR_CREDENTIALS, 'utf8').matchAll(/^(\w+) = (.*)$/gm)].map(
        ([, name = '', value = '']) => [name, value],
      ),
    );
    const s3 = new S3Client({ endpoint: other.endpoint, accessKeyId: id, secretAccessKey: secret });
    expect((await s3.send('PUT', '/lab')).status).toBe(200);
    const rounds = ['--count', '1', '--mean-interval', '0s', '--sizes', '1B'];
    const probed = await elsewhere.run(['probe', '--bucket', 'lab', ...rounds], as);
    expect(probed).toMatchObject({ code: 0 });
    expect(probed.stdout).toContain(`samples are in ${join(folder, 'samples')}`);
    const report = await elsewhere.run(['report', '--json'], as);
    expect(JSON.parse(report.stdout).samples).toBeGreaterThan(3);
  } finally {
    await elsewhere.remove();
  }
});
