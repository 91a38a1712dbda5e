// Records that somebody edits in the database of a gateway that runs, or is stopped: whoever shows
// them says so and shows nothing of them, sums leave them out and say so, and the operator is told.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { verifyBundle } from '#bursar/audit/bundle.js';
import { ed25519 } from '#bursar/audit/log/note.js';
import { parseVerifiers } from '#bursar/audit/verify/trusted-keys.js';
import { openDatabase, type SqlValue } from '#bursar/core/database.js';
import { as, callNative, exchange, newPrincipal, send, type Target } from '../protocol/target.ts';
import {
  environmentWithoutSettings,
  readMetrics,
  type ServedGateway,
  startServedGateway,
} from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const dataDir = mkdtempSync(join(tmpdir(), 'bursar-altered-'));
let gateway: ServedGateway;
let operator: Target;
let boss: Target;
let stranger: Target;
const keys: Record<string, Awaited<ReturnType<typeof newPrincipal>>> = {};
/** Indexes of the records of PUTs. */
const puts: number[] = [];

async function serve(): Promise<void> {
  gateway = await startServedGateway({ dataDir });
  const { endpoint, accessKeyId, secretAccessKey } = gateway;
  const stop = () => gateway.stop();
  operator = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
  for (const [name, set] of [
    ['cms', (one: Target) => (boss = one)],
    ['atlas', (one: Target) => (stranger = one)],
  ] as const) {
    if (!keys[name]) {
      await callNative(operator, 'POST', '/_/v1/tenants', { name });
      keys[name] = await newPrincipal(operator, { tenant: name, name: 'boss', role: 'admin' });
    }
    set(as(operator, keys[name] as (typeof keys)[string]));
  }
}

beforeAll(async () => {
  await serve();
  expect((await send(boss, { method: 'PUT', path: '/raw' })).status).toBe(200);
  for (let i = 0; i < 6; i++) {
    const { status, headers } = await send(boss, { method: 'PUT', path: `/raw/k${i}`, body: 'x' });
    expect(status).toBe(200);
    puts.push(Number(headers['x-bursar-receipt']));
  }
});
afterAll(async () => {
  await gateway.stop();
  rmSync(dataDir, { recursive: true });
});

async function edit(sql: string, ...values: SqlValue[]): Promise<void> {
  const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: false, cacheKib: 64 });
  const { changes } = await db.tx.run(sql, ...values);
  db.close();
  expect(changes).toBeGreaterThan(0);
}

const otherKey =
  `UPDATE records SET record = replace(record, '"key":"k', '"key":"q') WHERE idx = ` + '?';

async function search(who: Target, query: Record<string, string> = {}) {
  const all = Object.entries({ limit: '1000', ...query });
  const page = await callNative(who, 'GET', '/_/v1/records', undefined, all);
  return page.records as { index: number; altered?: true; key?: string }[];
}

const markOf = (index: number) => ({ altered: true, index });
const marked = async (who: Target, query = {}) =>
  (await search(who, query)).filter(({ altered }) => altered).map(({ index }) => index);

async function failures(): Promise<unknown> {
  return (await callNative(operator, 'GET', '/_/v1/health')).integrityFailures;
}

async function putsOfSums(): Promise<{ requests: number; altered: number }> {
  const path = '/_/v1/usage/tenant:cms/by/action';
  const { rows, alteredRecords } = await callNative(boss, 'GET', path);
  const row = rows.find(({ name }: { name: string }) => name === 's3:PutObject');
  return { requests: row.requests, altered: alteredRecords };
}

function run(line: string): { out: string; err: string } {
  const args = [resolve('app/main.js'), ...line.split(' ')];
  const env = {
    ...environmentWithoutSettings(),
    BURSAR_ENDPOINT: gateway.endpoint,
    BURSAR_ACCESS_KEY_ID: gateway.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: gateway.secretAccessKey,
  };
  const options = { encoding: 'utf8', env } as const;
  const command = ['-c', '"$@" 2>&1 >/dev/null', '-', process.execPath, ...args];
  return {
    out: execFileSync(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] }),
    err: execFileSync('sh', command, options),
  };
}

test('one that was edited while the gateway runs is marked wherever it is shown', async () => {
  const index = puts[1] as number;
  expect(await failures()).toEqual({});
  expect(await putsOfSums()).toEqual({ requests: 6, altered: 0 });
  const { text } = await exchange(operator, 'GET', '/_/log/key');
  await edit(otherKey, index);

  for (const who of [operator, boss]) {
    const records = await search(who);
    expect(records.find((one) => one.index === index)).toEqual(markOf(index));
    expect(records.filter(({ key }) => key?.startsWith('q'))).toEqual([]);
  }
  // What it said is not known any more: it may have fitted.
  await expect.poll(() => marked(boss, { action: 's3:DeleteObject' })).toEqual([index]);
  expect(await marked(stranger)).toEqual([]);

  const receipt = await send(boss, { method: 'GET', path: `/_/v1/receipts/${index}` });
  expect([receipt.status, JSON.parse(receipt.text).code]).toEqual([500, 'BursarIntegrityError']);

  const head = await callNative(boss, 'GET', '/_/v1/tenants/cms/bundle');
  const path = `/_/v1/tenants/cms/bundle/${head.from}`;
  const part = await callNative(boss, 'GET', path, undefined, [['to', String(head.to)]]);
  const lines = [head, ...part.lines].map((line) => JSON.stringify(line));
  expect(lines).toContain(`{"index":${index},"altered":true}`);
  expect(lines.join('')).not.toContain('\\"key\\":\\"q');
  const trust = { keys: parseVerifiers(text, ed25519) ?? [] };
  expect(await verifyBundle(lines, { trust })).toMatchObject({ ok: true, altered: [index] });

  expect(run('records').out).toMatch(new RegExp(`^${index} +ALTERED: `, 'm'));
  const cost = run('cost tenant:cms');
  expect(cost.out + cost.err).toMatch(/Left out: 1 records that are not what was recorded/);

  // Found often, told once.
  expect(await failures()).toEqual({ catalog: { record: 1 } });
  expect(await readMetrics(gateway)).toMatch(
    /^bursar_integrity_failures_total\{.*kind="record".*\} 1$/m,
  );
  await expect.poll(() => gateway.output()).toMatch(/record \d+ is not what was recorded/);
});

test('one that was edited while it is stopped is left out of sums, which say so', async () => {
  await gateway.stop();
  const index = puts[3] as number;
  await edit(otherKey, index);
  await edit('UPDATE usage_days SET requests = requests');
  await edit('DELETE FROM usage_days');
  await edit('UPDATE usage_progress SET next_idx = 0');
  await serve();
  await expect.poll(putsOfSums).toEqual({ requests: 4, altered: 2 });
  expect(await failures()).toEqual({ catalog: { record: 2 } });
  expect(await marked(boss)).toEqual([puts[1], index]);
  const { err } = run('usage tenant:cms --by action');
  expect(err).toContain('2 records of the tenant are not what was recorded');
});

test.each<[string, string]>([
  ['no JSON at all', "UPDATE records SET record = 'x' WHERE idx = ?"],
  ['called erased by nobody', "UPDATE records SET salt = NULL, record = '' WHERE idx = ?"],
  ['given another salt', 'UPDATE records SET salt = zeroblob(16) WHERE idx = ?'],
  ['given a text of another place', 'UPDATE records SET record = record || 1 WHERE idx = ?'],
])('one that is %s is marked, and shown again when it is put back', async (_what, sql) => {
  const index = puts[4] as number;
  const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: true, cacheKib: 64 });
  const was = await db.tx.get<{ salt: Buffer; record: string }>(
    'SELECT salt, record FROM records WHERE idx = ?',
    index,
  );
  db.close();
  await edit(sql, index);
  expect(await marked(operator)).toEqual([puts[1], puts[3], index]);
  await expect.poll(() => marked(boss)).toEqual([puts[1], puts[3], index]);
  const restore = 'UPDATE records SET salt = ?, record = ? WHERE idx = ?';
  await edit(restore, was?.salt as Buffer, was?.record as string, index);
  expect(await marked(boss)).toEqual([puts[1], puts[3]]);
  expect((await search(boss)).find((one) => one.index === index)).toMatchObject({ key: 'k4' });
});

test('one whose row says that it is of another tenant is not shown to that one', async () => {
  const index = puts[5] as number;
  await edit("UPDATE records SET tenant = 'atlas' WHERE idx = ?", index);
  const receipt = await send(stranger, { method: 'GET', path: `/_/v1/receipts/${index}` });
  expect(receipt.status).toBe(500);
  expect((await search(stranger)).filter(({ key }) => key !== undefined)).toEqual([]);
  await edit("UPDATE records SET tenant = 'cms' WHERE idx = ?", index);
});
