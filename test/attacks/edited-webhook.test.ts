// Whoever edits the address of a webhook in the database is told no alarm: they wait, which is
// said, until the address was put right or accepted.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { Workplace } from '../cli/command.ts';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { Receiver } from '../tooling/webhook-receiver.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

/** Much longer than it takes: a pause of up to five seconds. */
const soon = { timeout: 60_000, interval: 100 };

const dataDir = mkdtempSync(join(tmpdir(), 'bursar-edited-webhook-'));
const workplace = new Workplace();
const owner = new Receiver();
const thief = new Receiver();
let gateway: ServedGateway | undefined;
let client: S3Client;

beforeAll(async () => {
  for (const receiver of [owner, thief]) await receiver.listen();
  await serve();
  await call(client, 'POST', 'tenants', { name: 'cms' });
  await call(client, 'POST', 'tenants/cms/principals', { name: 'alice' });
  await call(client, 'PUT', 'tenants/cms/alarm-hook', { url: owner.url });
  const keys = await call(client, 'POST', 'tenants/cms/principals/alice/access-keys');
  const alice = new S3Client({ endpoint: (gateway as ServedGateway).endpoint, ...keys });
  for (let i = 0; i < 10; i++) await send(alice, 'GET', '/');
  alice.close();
});

afterAll(async () => {
  client?.close();
  await gateway?.stop();
  for (const receiver of [owner, thief]) await receiver.close();
  workplace.remove();
  rmSync(dataDir, { recursive: true, force: true });
});

async function serve(): Promise<void> {
  gateway = await startServedGateway({ dataDir, args: ['--private-webhooks', '127.0.0.1:*'] });
  client = new S3Client(gateway);
}

async function stop(): Promise<void> {
  client.close();
  await gateway?.stop();
  gateway = undefined;
}

async function leadTo({ url }: Receiver): Promise<void> {
  const catalog = new CatalogEditor(dataDir);
  expect(await catalog.run('UPDATE alarm_hooks SET url = ?', url)).toBe(1);
  catalog.close();
}

/** The tenant has used more of it, so that an alarm is raised. */
async function limit(requests: number): Promise<void> {
  await call(client, 'PUT', 'limits/tenant:cms', { requests: { day: requests } });
}

async function countUntold(): Promise<number> {
  const catalog = new CatalogEditor(dataDir);
  const row = await catalog.get<{ count: number }>('SELECT count(*) AS count FROM quota_alarms');
  catalog.close();
  return row?.count ?? 0;
}

async function untilHeld(): Promise<void> {
  const said = 'the webhook of tenant cms: it is not what was stored; its alarms wait';
  await expect.poll(() => gateway?.output(), soon).toContain(said);
}

it('has alarms wait while the gateway serves, which says so, until it is put back', async () => {
  await leadTo(thief);
  await limit(10);
  await untilHeld();
  const served = gateway as ServedGateway;
  const named = 'not authentic: webhook cms/tenant:cms is not what was stored';
  await expect.poll(() => served.output(), soon).toContain(named);
  const counted = /bursar_integrity_failures_total\{[^}]*kind="row"[^}]*\} [1-9]/;
  await expect.poll(() => readMetrics(served), soon).toMatch(counted);
  expect(await countUntold()).toBe(1);
  await leadTo(owner);
  await expect.poll(() => owner.received.length, soon).toBe(1);
  await expect.poll(countUntold, soon).toBe(0);
});

it('has those of before a start wait as well, until the address is accepted', async () => {
  await stop();
  await leadTo(thief);
  await serve();
  await limit(9);
  await untilHeld();
  await stop();
  await serve();
  await untilHeld();
  expect(await countUntold()).toBe(1);
  expect(thief.received).toEqual([]);
  await stop();
  const moved = new Receiver();
  await moved.listen();
  try {
    await leadTo(moved);
    const accepted = await workplace.run(['database', 'accept', '--yes', '--data', dataDir]);
    expect(accepted.code, accepted.stderr).toBe(0);
    await serve();
    await expect.poll(() => moved.received.length, soon).toBe(1);
    await expect.poll(countUntold, soon).toBe(0);
  } finally {
    await moved.close();
  }
  expect(owner.received).toHaveLength(1);
  expect(thief.received).toEqual([]);
});
