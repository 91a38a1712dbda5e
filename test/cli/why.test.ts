// What became of a request, as its sender, the tenant's auditor and strangers are told: with the
// AWS CLI, which shows of a refused HEAD only its status, and on several HTTP threads.
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Answer, exchange, send, type Target } from '../protocol/target.ts';
import { awsCli, describeWithTool } from '../tooling/tools.ts';
import { type Environment, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
const keys = new Map<string, { accessKeyId: string; secretAccessKey: string }>();

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve(['--http-threads', '2']);
  await json('tenant create cms');
  await json('tenant create atlas');
  for (const id of ['cms/alice', 'cms/bob', 'atlas/eve']) await enroll(id);
  await enroll('cms/auditor', ' --role auditor');
  await send(targetOf('cms/alice'), { method: 'PUT', path: '/raw' });
  await send(targetOf('cms/alice'), { method: 'PUT', path: '/raw/run1', body: 'events' });
});

afterAll(() => place.remove());

async function json(line: string, environment?: Environment) {
  const { code, stdout, stderr } = await place.run([...line.split(' '), '--json'], environment);
  expect([stderr, code]).toEqual(['', 0]);
  return JSON.parse(stdout);
}

async function enroll(id: string, flags = ''): Promise<void> {
  await json(`principal create ${id}${flags}`);
  keys.set(id, await json(`key create ${id}`));
}

function keyOf(id: string) {
  const key = keys.get(id);
  if (!key) throw new Error(`${id} has no key`);
  return key;
}

const targetOf = (id: string): Target => ({
  ...{ endpoint: served.endpoint, keys: keyOf(id), strayNames: () => [], stop: async () => {} },
});

const as = (id: string): Environment => ({
  BURSAR_ENDPOINT: served.endpoint,
  BURSAR_ACCESS_KEY_ID: keyOf(id).accessKeyId,
  BURSAR_SECRET_ACCESS_KEY: keyOf(id).secretAccessKey,
});

const idOf = ({ headers }: Answer): string => String(headers['x-amz-request-id']);

/** What the AWS CLI says of all that it does. */
function debug(tool: string, id: string, args: string[]): Promise<string> {
  const { accessKeyId, secretAccessKey } = keyOf(id);
  const env = {
    ...{ PATH: process.env.PATH, HOME: place.folder, AWS_REGION: 'us-east-1' },
    ...{ AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
  };
  const all = ['--debug', '--endpoint-url', served.endpoint, ...args];
  return new Promise((done) => {
    execFile(tool, all, { env, maxBuffer: 2 ** 24 }, (_error, out, err) => done(out + err));
  });
}

describeWithTool(awsCli, 'the AWS CLI', (tool) => {
  test('shows the reason of a refused HEAD, and the rest is told by its id', async () => {
    const head = ['s3api', 'head-object', '--bucket', 'raw', '--key', 'run1'];
    const refused = await debug(tool, 'cms/bob', head);
    expect(refused).toMatch(/'x-bursar-error-code': 'AccessDenied'/);
    expect(refused).toMatch(/'x-bursar-error-message': '[^']+/);
    const [, id = ''] = /'x-amz-request-id': '([0-9A-F]{16})'/.exec(refused) ?? [];
    const { request, records } = await json(`why ${id}`, as('cms/bob'));
    expect(request).toMatchObject({
      ...{ tenant: 'cms', principal: 'bob', operation: 'HeadObject', status: 403 },
      ...{ error: 'AccessDenied', message: expect.stringMatching(/\w/), source: '127.0.0.1' },
    });
    expect(records).toMatchObject([{ requestId: id, principal: 'bob', error: 'AccessDenied' }]);
  });
});

test('a limit is named, with the stages, the store and the record', async () => {
  await json('limit set principal:cms/alice --ingress month=3B');
  const put = { method: 'PUT', path: '/raw/run2', body: 'events' };
  const id = idOf(await send(targetOf('cms/alice'), put));
  const { code, stdout } = await place.run(['why', id.toLowerCase()], as('cms/alice'));
  expect(code).toBe(0);
  expect(stdout).toMatch(/^who +cms\/alice$/m);
  expect(stdout).toMatch(/^what +PutObject \(s3\)$/m);
  expect(stdout).toMatch(/^store +local$/m);
  expect(stdout).toMatch(/^rule +owner$/m);
  expect(stdout).toMatch(/^error +QuotaExceeded$/m);
  expect(stdout).toMatch(/^because +.*principal:cms\/alice.*$/m);
  expect(stdout).toMatch(/^stages +.*authenticate [\d.]+ ms/m);
  expect(stdout).toMatch(/^record +\d+: cms\/alice, s3:PutObject, \d+ QuotaExceeded$/m);
  await json('limit set principal:cms/alice --ingress month=none');
});

test('requests of all threads are known, each on a connection of its own', async () => {
  for (let i = 0; i < 8; i++) {
    const got = await send(targetOf('cms/alice'), { method: 'GET', path: '/raw/run1' });
    const { request } = await json(`why ${idOf(got)}`, as('cms/alice'));
    expect(request).toMatchObject({ operation: 'GetObject', status: 200, bytesOut: 6 });
  }
});

test('which rule let it in is told, and what refused it to those alone who see rules', async () => {
  const asked = { method: 'GET', path: '/raw/run1' };
  const ruleOf = async (id: string, environment?: Environment) =>
    (await json(`why ${id}`, environment)).request.rule;
  const readAs = async (who: string, path = '/raw/run1') =>
    idOf(await send(targetOf(who), { ...asked, path }));
  expect(await ruleOf(await readAs('cms/alice'), as('cms/alice'))).toBe('owner');
  expect(await ruleOf(await readAs('cms/bob'), as('cms/bob'))).toBe('default');
  const read = '--action s3:GetObject --bucket raw';
  await json(`grant set cms/bob-reads --subject principal:cms/bob ${read}`);
  await json(`grant set cms/eve-reads --subject principal:atlas/eve ${read}`);
  expect(await ruleOf(await readAs('cms/bob'), as('cms/bob'))).toBe('grant:bob-reads');
  const others = await readAs('atlas/eve', '/cms:raw/run1');
  expect(await ruleOf(others, as('atlas/eve'))).toBe('grant');
  expect(await ruleOf(others)).toBe('grant:eve-reads');
  await json(`grant set cms/no-bob --deny --subject principal:cms/bob ${read}`);
  const refused = await readAs('cms/bob');
  expect(await ruleOf(refused, as('cms/bob'))).toBeNull();
  expect(await ruleOf(refused)).toBe('grant:no-bob');
  // Nor does another tenant's admin learn it, where the bucket asked for is their own.
  await enroll('atlas/boss', ' --role admin');
  await json(`grant set cms/no-boss --deny --subject principal:atlas/boss ${read}`);
  await json(`grant set cms/boss-reads --subject principal:atlas/boss ${read}`);
  await send(targetOf('atlas/boss'), { method: 'PUT', path: '/own' });
  const headers = { 'x-amz-copy-source': '/cms:raw/run1' };
  const copied = await send(targetOf('atlas/boss'), { method: 'PUT', path: '/own/a', headers });
  expect(copied.status).toBe(403);
  expect(await ruleOf(idOf(copied), as('atlas/boss'))).toBeNull();
  expect(await ruleOf(idOf(copied))).toBe('grant:no-boss');
  for (const name of ['bob-reads', 'eve-reads', 'no-bob', 'no-boss', 'boss-reads'])
    await json(`grant delete cms/${name}`);
});

test('others are told nothing, and auditors of the tenant are', async () => {
  const id = idOf(await send(targetOf('cms/alice'), { method: 'GET', path: '/raw/none' }));
  for (const other of ['cms/bob', 'atlas/eve']) {
    const { code, stderr } = await place.run(['why', id], as(other));
    expect([code, stderr]).toEqual([1, expect.stringContaining('NoSuchRequest')]);
  }
  const { request } = await json(`why ${id}`, as('cms/auditor'));
  expect(request).toMatchObject({ principal: 'alice', error: 'NoSuchKey' });
});

test('what a stranger was refused only operators are told', async () => {
  const unknown = {
    ...targetOf('cms/alice'),
    keys: { accessKeyId: 'BURNONE', secretAccessKey: 'x' },
  };
  const id = idOf(await send(unknown, { method: 'GET', path: '/raw/run1' }));
  expect(await place.run(['why', id], as('cms/auditor'))).toMatchObject({ code: 1 });
  const { request, records } = await json(`why ${id}`);
  expect(request).toMatchObject({ principal: null, status: 403, error: 'InvalidAccessKeyId' });
  expect(records).toEqual([]);
});

test('who asked without credentials is nobody whose requests others see', async () => {
  const id = idOf(await exchange(targetOf('cms/alice'), 'GET', '/raw/run1'));
  expect(await place.run(['why', id], as('cms/alice'))).toMatchObject({ code: 1 });
  expect((await json(`why ${id}`)).request).toMatchObject({ principal: 'anonymous' });
});

test('what is no request id, or is of none, is said so', async () => {
  expect(await place.run(['why', 'run1'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('16 hexadecimal digits'),
  });
  expect(await place.run(['why', '0123456789ABCDEF'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('NoSuchRequest'),
  });
});

test('after a start its records are there still, and the rest is not', async () => {
  const put = { method: 'PUT', path: '/raw/run3', body: 'events' };
  const id = idOf(await send(targetOf('cms/alice'), put));
  await served.stop();
  served = await place.serve();
  const { request, records } = await json(`why ${id}`, as('cms/alice'));
  expect(request).toBeNull();
  expect(records).toMatchObject([{ requestId: id, action: 's3:PutObject', key: 'run3' }]);
  const { stdout } = await place.run(['why', id], as('cms/alice'));
  expect(stdout).toContain('How it went is not told');
  const early = await place.run(['why', id, '--near', '2026-01'], as('cms/alice'));
  expect(early.code).toBe(1);
});
