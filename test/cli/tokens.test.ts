// Tokens as people use them: made on the command line, borne by a client that knows nothing of
// Bursar, seen in the list, and ended.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { signRequest } from '#bursar/core/sigv4.js';
import { type Environment, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
let alice: Environment;

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
  await run('tenant create cms');
  await run('principal create cms/alice');
  const key = JSON.parse(await run('key create cms/alice --json'));
  alice = {
    BURSAR_ENDPOINT: served.endpoint,
    BURSAR_ACCESS_KEY_ID: key.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: key.secretAccessKey,
  };
  await put('/raw');
  await put('/raw/2026/run1', 'events of run 1');
  await put('/raw/2025/run1', 'events of last year');
});

afterAll(() => place.remove());

/** What a command that must succeed says. */
async function run(line: string, environment?: Environment): Promise<string> {
  const { code, stdout, stderr } = await place.run(line.split(' '), environment);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

async function put(path: string, body = ''): Promise<void> {
  const headers = { host: new URL(served.endpoint).host };
  const signed = signRequest({
    ...{ method: 'PUT', path, query: [], headers, region: 'us-east-1', service: 's3' },
    accessKeyId: alice.BURSAR_ACCESS_KEY_ID as string,
    secret: alice.BURSAR_SECRET_ACCESS_KEY as string,
    payloadHash: 'UNSIGNED-PAYLOAD',
    timeMs: Date.now(),
  });
  const init = { method: 'PUT', headers: signed, body };
  expect((await fetch(`${served.endpoint}${path}`, init)).status).toBe(200);
}

async function get(path: string, headers: Record<string, string>) {
  const answer = await fetch(`${served.endpoint}${path}`, { headers });
  return { status: answer.status, text: await answer.text() };
}

function bear(token: string): Record<string, string> {
  return { authorization: `Bearer ${token.trim()}` };
}

function save(name: string, text: string): void {
  writeFileSync(join(place.folder, name), text);
}

/** The list once the use of a token is written, which takes up to about a second. */
async function listUsed(line: string, jti: string) {
  return vi.waitFor(
    async () => {
      const tokens = JSON.parse(await run(line, alice)) as Record<string, unknown>[];
      const used = tokens.find((one) => one.jti === jti);
      expect(used?.lastUsedAt).toEqual(expect.any(String));
      return tokens;
    },
    { timeout: 30_000, interval: 300 },
  );
}

test('a token of the gateway reads its prefix, is seen in use, and ends at once', async () => {
  const line = 'token create --scope storage.read:/raw/2026 --bearer --label demo --json';
  const { token, jti } = JSON.parse(await run(line, alice));
  const read = () => get('/raw/2026/run1', bear(token));
  expect(await read()).toEqual({ status: 200, text: 'events of run 1' });
  expect(await get('/raw/2025/run1', bear(token))).toMatchObject({ status: 403 });
  const tokens = await listUsed('token list --json', jti);
  expect(tokens).toMatchObject([{ jti, label: 'demo', state: 'valid' }]);
  const text = await run('token list', alice);
  expect(text).toContain(`${jti}  "demo"`);
  expect(text).toContain('may read and list raw/2026 and all below it');
  expect(text).toMatch(/last used \S+Z, (once|\d+ times)/);

  expect(await run(`token delete ${jti}`, alice)).toBe('');
  expect(await read()).toMatchObject({ status: 403, text: expect.stringContaining('revoked') });
  expect(await run('token list', alice)).toBe('');
  expect(await run('token list --all', alice)).toContain('REVOKED');
});

test('a key of one’s own makes tokens offline, others shrink them, all end with it', async () => {
  await run('key new --out alice.jwk');
  await run('key new --out job.jwk');
  const enrolled = await run('key enroll cms/alice --key alice.jwk --json', alice);
  const { thumbprint } = JSON.parse(enrolled);
  const audience = served.endpoint;
  const issued = await run(
    `token issue cms/alice --key alice.jwk --audience ${audience} ` +
      '--scope storage.read:/raw --expires 1d --to job.jwk.pub',
  );
  save('token', issued);
  const url = `${served.endpoint}/raw/2025/run1`;
  const sign = 'token sign-request --key job.jwk --token-file token --json';
  const headers = JSON.parse(await run(`${sign} ${url}`));
  expect(await get('/raw/2025/run1', headers)).toMatchObject({ status: 200 });
  expect(await get('/raw/2026/run1', headers)).toMatchObject({ status: 401 });
  expect(await get('/raw/2025/run1', bear(issued))).toMatchObject({ status: 401 });

  const made = 'token delegate token --key job.jwk --scope storage.read:/raw/2026 --bearer --json';
  const child = JSON.parse(await run(made));
  expect(await get('/raw/2026/run1', bear(child.token))).toMatchObject({ status: 200 });
  expect(await get('/raw/2025/run1', bear(child.token))).toMatchObject({ status: 403 });
  const parent = child.jti.split('.').slice(0, -1).join('.');
  const tokens = await listUsed('token list --json', child.jti);
  expect(tokens).toContainEqual(expect.objectContaining({ jti: parent, issued: false }));
  expect(tokens).toContainEqual(expect.objectContaining({ jti: child.jti, parent }));
  const text = await run('token list --principal alice', alice);
  expect(text).toContain(`\n    ${child.jti}`);

  save('child', child.token);
  await run('token delete --token-file child', alice);
  expect(await get('/raw/2026/run1', bear(child.token))).toMatchObject({ status: 403 });
  expect(await get('/raw/2025/run1', JSON.parse(await run(`${sign} ${url}`)))).toMatchObject({
    status: 200,
  });

  expect(await run(`key deactivate cms/alice -- ${thumbprint}`, alice)).toMatch(/ no +\S+Z\n$/);
  expect(await get('/raw/2025/run1', JSON.parse(await run(`${sign} ${url}`)))).toMatchObject({
    status: 401,
  });
  expect(await run('token list --all', alice)).toContain('the key that signed it is switched off');
  await run(`key activate cms/alice -- ${thumbprint}`, alice);
  expect(await get('/raw/2025/run1', JSON.parse(await run(`${sign} ${url}`)))).toMatchObject({
    status: 200,
  });
});

test('a principal that is deactivated can do nothing by any key or token', async () => {
  const token = await run('token create --scope storage.read:/raw --bearer', alice);
  const read = () => get('/raw/2026/run1', bear(token));
  expect(await read()).toMatchObject({ status: 200 });
  expect(await run('principal deactivate cms/alice')).toMatch(/ no +\S+Z\n$/);
  expect(await read()).toMatchObject({ status: 401 });
  expect((await place.run(['token', 'list'], alice)).stderr).toContain('InvalidAccessKeyId');
  await run('principal activate cms/alice');
  expect(await read()).toMatchObject({ status: 200 });
});

test.each([
  ['token delete', 'its id or --token-file'],
  ['token create --scope storage.read:/raw', '--to FILE'],
  ['token create --scope storage.read --bearer', '--scope'],
  ['key enroll cms/alice', '--key FILE or --proof FILE'],
  ['token sign-request http://a/ --key alice.jwk --header x', '--header x'],
  ['token sign-request raw/x --key alice.jwk', 'raw/x must be a URL'],
])('%s says what is missing', async (line, words) => {
  const { code, stderr } = await place.run(line.split(' '), alice);
  expect(code).toBe(2);
  expect(stderr).toContain(words);
});
