// An address of its own for the administration: what is at which of the two, in every spelling that
// might lead from one to the other.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { exchange, type Target } from '../protocol/target.ts';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import {
  environmentWithoutSettings,
  metricsToken,
  type ServedGateway,
  startServedGateway,
} from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 60_000 });

let gateway: ServedGateway;
let outside: S3Client;
let inside: S3Client;
const bearer = { authorization: `Bearer ${metricsToken}` };

beforeAll(async () => {
  const args = ['--admin-listen', '127.0.0.1:0', '--domain', 's3.example.test'];
  gateway = await startServedGateway({ args });
  outside = new S3Client(gateway);
  inside = new S3Client({ ...gateway, endpoint: gateway.adminEndpoint });
});
afterAll(async () => {
  outside.close();
  inside.close();
  await gateway.stop();
});

const at = (endpoint: string): Target => ({ endpoint }) as Target;
const ask = (path: string, headers: Record<string, string> = {}) =>
  exchange(at(gateway.endpoint), 'GET', path, headers);
const askInside = (path: string, headers: Record<string, string> = {}) =>
  exchange(at(gateway.adminEndpoint), 'GET', path, headers);

test.each([
  '/_/health',
  '/_/health/read',
  '/_/health/live',
  '/_/metrics',
  '/_/v1/tenants',
  '/_/v1/openapi.json',
  '/_/v1/health',
  '/_/%76%31/tenants',
  '/_/log/../v1/tenants',
  '/_/log/%2e%2e/v1/tenants',
  '/_/log%2f..%2fv1/tenants',
  '/_/./v1/tenants',
  '/_/nothing',
  '/_',
])('%s is not at the address of clients, whatever they send', async (path) => {
  expect(gateway.adminEndpoint).not.toBe(gateway.endpoint);
  for (const headers of [{}, bearer]) expect((await ask(path, headers)).status).toBe(404);
  expect((await outside.send('GET', path)).status).toBe(404);
});

test('clients store, and read the public log, keys and share links at theirs', async () => {
  expect((await outside.send('PUT', '/bucket')).status).toBe(200);
  expect((await outside.send('PUT', '/bucket/k', { body: Buffer.from('x') })).status).toBe(200);
  for (const path of ['/_/log/checkpoint', '/_/log/key', '/.well-known/jwks.json']) {
    expect([path, (await ask(path)).status]).toEqual([path, 200]);
  }
  const made = await inside.send('POST', '/_/v1/shares', {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ bucket: 'bucket', key: 'k', expiresIn: 600 })),
  });
  expect(`${made.status} ${made.body}`).toMatch(/^201 /);
  const { url } = JSON.parse(made.body.toString()) as { url: string };
  expect(url.startsWith(`${gateway.endpoint}/_/share/`)).toBe(true);
  expect((await fetch(url)).status).toBe(200);
});

test('the administration, health and metrics alone are at their own address', async () => {
  expect((await inside.send('GET', '/_/v1/tenants')).status).toBe(200);
  for (const path of ['', '/read', '/live']) {
    expect((await askInside(`/_/health${path}`)).status).toBe(200);
  }
  expect((await askInside('/_/log/checkpoint')).status).toBe(200);
  expect((await inside.send('GET', '/')).status).toBe(404);
  expect((await inside.send('PUT', '/bucket/k', { body: Buffer.from('y') })).status).toBe(404);
  expect((await outside.send('GET', '/bucket/k')).body.toString()).toBe('x');
  expect((await askInside('/_/share/anything')).status).toBe(404);
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const sts = await exchange(at(gateway.adminEndpoint), 'POST', '/', form, 'Action=Nothing');
  expect(sts.status).toBe(404);
  expect((await askInside('/_/v1/tenants', { host: 'elsewhere.example' })).status).toBe(421);
});

test('metrics name nobody there to strangers, and tenants to who has the token', async () => {
  const open = await askInside('/_/metrics');
  expect(open.status).toBe(200);
  expect(open.text).not.toMatch(/default|admin|tenant=|account=|principal=/);
  const all = await askInside('/_/metrics', bearer);
  expect(all.text).toContain('tenant="default"');
  expect(totalOf(parseMetrics(all.text), 'bursar_connections')).toBeGreaterThan(1);
  expect((await askInside('/_/metrics', { authorization: 'Bearer wrong' })).status).toBe(401);
});

test('commands find it in the credentials file, which S3 clients read as before', () => {
  const credentials = join(gateway.dataDir, 'credentials');
  const text = readFileSync(credentials, 'utf8');
  expect(text).toContain(`\nendpoint_url = ${gateway.endpoint}\n`);
  expect(text).toContain(`\nbursar_admin_url = ${gateway.adminEndpoint}\n`);
  const main = resolve('app/main.js');
  const args = [main, 'tenant', 'list', '--credentials', credentials];
  const env = environmentWithoutSettings();
  expect(execFileSync(process.execPath, args, { encoding: 'utf8', env })).toContain('default');
});

test('a taken address is refused by its name', async () => {
  const taken = new URL(gateway.adminEndpoint).host;
  const started = startServedGateway({ args: ['--admin-listen', taken] });
  await expect(started).rejects.toThrow(
    `cannot listen on 127.0.0.1 port ${taken.split(':')[1]}: listen EADDRINUSE`,
  );
});
