// A tenant's admin trusts an outside issuer by command, and its tokens work over S3 as they should.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { FakeIssuer, makeKey } from '../authz/oidc/fixture.ts';
import { type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
let issuer: FakeIssuer;

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve(['--private-issuers', '127.0.0.1:*']);
  issuer = await FakeIssuer.start(makeKey('ES256', 'one'));
});

afterAll(async () => {
  await issuer.stop();
  await place.remove();
});

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

function token(more: object = {}): string {
  return issuer.tokenAt(Date.now(), { sub: 'repo:cms/code:ref:main', ...more });
}

async function ask(method: string, path: string, bearer: string, body?: string): Promise<number> {
  const headers = { authorization: `Bearer ${bearer}` };
  const answer = await fetch(`${served.endpoint}${path}`, { method, headers, body });
  await answer.arrayBuffer();
  return answer.status;
}

const audience = ['--audience', 'https://bursar.example/cms'];

test('an issuer is added, shown, used, narrowed and removed', async () => {
  await run('tenant', 'create', 'cms');
  await run('principal', 'create', 'cms/loader', '--kind', 'robot');
  await run('group', 'create', 'cms/shifters');
  const add = ['issuer', 'set', 'cms/ci', '--url', issuer.url, ...audience];
  const mapped = ['--principal', 'repo:cms/code:ref:main=loader', '--group', '/cms/a=b=shifters'];
  const shown = await run(...add, '--path-prefix', '/', ...mapped);
  expect(shown.split('\n')).toEqual([
    'issuer          cms/ci',
    `url             ${issuer.url}`,
    'audience        https://bursar.example/cms',
    'path prefix     /',
    'principal       repo:cms/code:ref:main = loader',
    'other subjects  refused',
    'group           /cms/a=b = shifters',
    'keys            none yet',
    '',
  ]);
  expect(await ask('PUT', '/raw', token())).toBe(200);
  expect(await ask('PUT', '/raw/2026/a', token(), 'text')).toBe(200);
  expect(await ask('PUT', '/raw/2025', token({ scope: 'storage.read:/' }), 'text')).toBe(403);
  expect(await ask('GET', '/raw/2026/a', token({ scope: 'storage.read:/raw/2026' }))).toBe(200);
  expect(await ask('GET', '/raw/2026/a', token({ sub: 'another' }))).toBe(403);
  expect(await ask('GET', '/raw/2026/a', token({ exp: 1 }))).toBe(401);
  expect(await run('issuer', 'list', 'cms')).toMatch(/^cms\/ci +\S+ +\S+ +\/ +1, of 20\S+Z$/m);

  await run(...add, '--path-prefix', '/raw/2026', '--default-principal', 'loader');
  expect(await ask('GET', '/raw/2026/a', token({ sub: 'another' }))).toBe(200);
  expect(await ask('PUT', '/raw/2025', token(), 'text')).toBe(403);
  const json = JSON.parse(await run('issuer', 'show', 'cms/ci', '--json'));
  expect(json.mapping).toEqual({
    pathPrefix: '/raw/2026',
    principals: {},
    groups: {},
    defaultPrincipal: 'loader',
  });

  const last = token();
  expect(await ask('GET', '/raw/2026/a', last)).toBe(200);
  await run('issuer', 'delete', 'cms/ci');
  expect(await ask('GET', '/raw/2026/a', last)).toBe(401);
  expect(await place.run(['issuer', 'show', 'cms/ci'])).toMatchObject({
    code: 1,
    stderr: 'bursar: cms trusts no issuer ci. (NoSuchIssuer)\n',
  });
});
