// Health as load balancers and operators meet it: what stops writes, what stops nothing, what
// strangers are told, and what a balancer sees of a gateway that stops.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, test, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { type HealthFacts, judge, type StoreFacts } from '#bursar/gateway/health.js';
import { S3Client } from '../fault/s3-client.ts';
import { metricsToken, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 60_000 });

async function ask({ endpoint }: ServedGateway, path = '', authorization?: string) {
  const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
  const answer = await fetch(`${endpoint}/_/health${path}`, { headers });
  // biome-ignore lint/suspicious/noExplicitAny: each path has its own shape
  return { status: answer.status, json: (await answer.json()) as any };
}

async function statuses(gateway: ServedGateway): Promise<number[]> {
  const answers = ['', '/read', '/live'].map((path) => ask(gateway, path));
  return (await Promise.all(answers)).map(({ status }) => status);
}

const well: HealthFacts = {
  isStopping: false,
  isLedgerAlive: true,
  areReadsHeld: false,
  database: { canRead: true, canWrite: true, isNearlyFull: false },
  isLogSigned: true,
  isClockFollowed: true,
  areBackupsMade: true,
  areChangesShipped: true,
  areRightsVerified: true,
  stores: [],
  isUndamaged: true,
};
const store = (name: string, facts: Partial<StoreFacts> = {}): StoreFacts => {
  return { name, canRead: true, canWrite: true, isNearlyFull: false, ...facts };
};
const away = { canRead: false, canWrite: false };

test.each<[string, Partial<HealthFacts>, boolean, boolean, number]>([
  ['all is well', {}, true, true, 0],
  ['one of two stores is away', { stores: [store('a'), store('b', away)] }, true, true, 1],
  ['all stores are away', { stores: [store('a', away), store('b', away)] }, false, false, 3],
  ['no store is there', { stores: [] }, false, false, 1],
  ['its only store takes no writes', { stores: [store('a', { canWrite: false })] }, true, false, 2],
  ['its only disk is full', { stores: [store('a', { isNearlyFull: true })] }, true, false, 2],
  ['it stops', { isStopping: true }, false, false, 1],
  ['the ledger hangs', { isLedgerAlive: false }, true, false, 1],
  ['reads are held', { areReadsHeld: true }, false, false, 1],
  ['the log is not signed', { isLogSigned: false }, true, false, 1],
  ['the clock stepped', { isClockFollowed: false }, true, true, 1],
  ['no backup was made', { areBackupsMade: false }, true, true, 1],
  ['changes are not shipped', { areChangesShipped: false }, true, true, 1],
  ['rights are not verified', { areRightsVerified: false }, true, true, 1],
  ['data was damaged', { isUndamaged: false }, true, true, 1],
])('when %s, what is possible and what is wrong is said', (_, facts, reads, writes, count) => {
  const told = judge({ ...well, stores: [store('local')], ...facts });
  expect([told.reads, told.writes, told.problems.length]).toEqual([reads, writes, count]);
  for (const words of told.problems) expect(words).toMatch(/^[A-Z][^0-9]+\.$/);
});

describe('a served gateway', () => {
  it('tells strangers words, and numbers to who has the token', async () => {
    const gateway = await startServedGateway();
    const words = { ready: true, reads: true, writes: true, problems: [] };
    for (const path of ['', '/read', '?']) {
      expect(await ask(gateway, path)).toEqual({ status: 200, json: words });
    }
    expect(await ask(gateway, '/live')).toEqual({ status: 200, json: { live: true } });
    const told = await ask(gateway, '', `Bearer ${metricsToken}`);
    expect(told).toMatchObject({ status: 200, json: words });
    expect(told.json.stores.local.freeBytes).toBeGreaterThan(0);
    expect(told.json.database).toMatchObject({ isWritable: true, freeBytes: expect.any(Number) });
    expect(told.json.version).toMatch(/^\d+\.\d+\.\d+/);
    for (const wrong of ['Bearer x', 'Basic eDp5', `Bearer ${metricsToken}x`]) {
      expect((await ask(gateway, '', wrong)).status).toBe(401);
    }
    await gateway.stop();
  });

  it('says that nothing can be written while its disk has too little room', async () => {
    const gateway = await startServedGateway({ args: ['--free-min', '1000000GB'] });
    expect(await statuses(gateway)).toEqual([503, 200, 200]);
    const { problems } = (await ask(gateway)).json;
    expect(problems).toContain('The disk of the database is nearly full.');
    await gateway.stop();
  });

  it('says that nothing can be written while the ledger hangs, and is well after', async () => {
    const gateway = await startServedGateway();
    expect(await statuses(gateway)).toEqual([200, 200, 200]);
    const path = join(gateway.dataDir, 'bursar.db');
    const other = openDatabase(path, { readonly: false, cacheKib: 64 });
    other.exec('BEGIN IMMEDIATE');
    // What was written just now needs no trial.
    await expect.poll(() => statuses(gateway), { timeout: 9000 }).toEqual([503, 200, 200]);
    const { problems } = (await ask(gateway)).json;
    other.exec('ROLLBACK');
    other.close();
    expect(problems).toContain('The ledger does not answer.');
    await expect.poll(() => statuses(gateway)).toEqual([200, 200, 200]);
    await gateway.stop();
  });

  it('tells balancers that it stops before it does, and serves who comes meanwhile', async () => {
    const gateway = await startServedGateway({ args: ['--drain', '8s'] });
    const client = new S3Client(gateway);
    expect((await client.send('PUT', '/bucket')).status).toBe(200);
    const stopped = gateway.stop();
    await expect.poll(() => statuses(gateway), { timeout: 7000 }).toEqual([503, 503, 200]);
    expect((await ask(gateway)).json.problems).toEqual(['The gateway is stopping.']);
    expect((await client.send('PUT', '/bucket/k', { body: Buffer.from('x') })).status).toBe(200);
    expect((await client.send('GET', '/bucket/k')).body.toString()).toBe('x');
    await stopped;
    await sleep(0);
    await expect(ask(gateway)).rejects.toThrow();
    client.close();
  });
});
