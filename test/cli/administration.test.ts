// The administration commands against a served gateway, as an operator and as others use them.
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
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
    /^TENANT +MEMBERS CREATE BUCKETS +STORE +READS +CREATED\ncms +yes +prompt +\S+\ndefault +yes/,
  );
  expect(await run('tenant', 'delete', 'lhcb')).toEqual({ code: 0, stdout: '', stderr: '' });
  expect(await run('tenant', 'show', 'lhcb')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'bursar: The tenant does not exist. (NoSuchTenant)\n',
  });
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
      stderr: 'bursar: The tenant does not exist. (NoSuchTenant)\n',
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
    /dune\/member {2}bursar:ListTenants {2}AccessDenied {2}tenants\n/,
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
  expect(await run('tenant', 'create', 'No Name!')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^bursar: body\.name .*\(InvalidInput\)\n$/),
  });
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
