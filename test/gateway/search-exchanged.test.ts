// A served gateway whose search index somebody exchanges: whoever asks sees what is theirs and no
// more, and the index is made anew.
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import {
  as,
  callNative,
  findRecords,
  newPrincipal,
  send,
  type Target,
} from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const dataDir = mkdtempSync(join(tmpdir(), 'bursar-exchanged-'));
const indexFile = join(dataDir, 'search.db');
const tenants = ['one', 'two'];
const ownCount = 3000;
let gateway: ServedGateway;
let target: Target;
const bosses = new Map<string, Target['keys']>();

async function serve(): Promise<void> {
  gateway = await startServedGateway({ dataDir });
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  target = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
}

const boss = (tenant: string): Target => as(target, bosses.get(tenant) as Target['keys']);

/** Deletes a thousand keys that are not there, each of which has a record. */
async function deleteMany(tenant: string, from: number): Promise<void> {
  const objects = Array.from(
    { length: 1000 },
    (_, i) => `<Object><Key>${tenant}/${from + i}</Key></Object>`,
  );
  const body = `<Delete><Quiet>true</Quiet>${objects.join('')}</Delete>`;
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  const path = `/raw-${tenant}`;
  const answer = await send(boss(tenant), {
    ...{ method: 'POST', path, query: [['delete', '']], headers, body },
  });
  expect([answer.status, answer.text]).toEqual([200, expect.not.stringContaining('<Error>')]);
}

function edit(sql: string): void {
  const db = openDatabase(indexFile, { readonly: false, cacheKib: 1024 });
  try {
    db.exec(sql);
  } finally {
    db.close();
  }
}

async function countBlocks(): Promise<number> {
  const db = openDatabase(indexFile, { readonly: true, cacheKib: 1024 });
  try {
    return (await db.tx.get<{ n: number }>('SELECT count(*) AS n FROM blocks'))?.n ?? 0;
  } finally {
    db.close();
  }
}

/** What is said of one tenant is said of the other from now on. */
function exchange(): void {
  const exchanged = (table: string, column: string, type: string) =>
    [
      ['one', 'xxx'],
      ['two', 'one'],
      ['xxx', 'two'],
    ]
      .map(
        ([from, to]) => `UPDATE ${table}
          SET ${column} = CAST(replace(CAST(${column} AS TEXT), '${from}', '${to}') AS ${type})
          WHERE instr(CAST(${column} AS TEXT), '${from}') > 0;`,
      )
      .join('\n');
  edit(`${exchanged('postings', 'term', 'TEXT')} ${exchanged('keys', 'prefix', 'BLOB')}`);
}

const timesMended = () => gateway.output().match(/^bursar: .*is made anew/gm)?.length ?? 0;

/** Asks in all ways that lead by an exchanged list, until the index is mended. */
async function expectOwnOnly(): Promise<void> {
  const limit: [string, string] = ['limit', '1000'];
  for (const tenant of tenants) {
    const other = tenant === 'one' ? 'two' : 'one';
    const ways: [string, string][][] = [
      [],
      [['prefix', `${other}/`]],
      [['prefix', `${tenant}/`]],
      [['bucket', `raw-${other}`]],
      [['action', 's3:DeleteObject']],
      [['principal', `${tenant}/boss-${tenant}`]],
    ];
    for (const way of ways) {
      const found = await findRecords(boss(tenant), [...way, limit]);
      expect(new Set(found.map((record) => record.tenant)).has(other)).toBe(false);
      expect(JSON.stringify(found)).not.toContain(`raw-${other}`);
    }
  }
  await expect.poll(timesMended).toBeGreaterThan(0);
  for (const tenant of tenants) {
    await vi.waitFor(
      async () => {
        const deletes = [['action', 's3:DeleteObject'], limit] as [string, string][];
        expect(await findRecords(boss(tenant), deletes)).toHaveLength(ownCount);
      },
      { timeout: 30_000, interval: 200 },
    );
  }
}

beforeAll(async () => {
  await serve();
  for (const tenant of tenants) {
    await callNative(target, 'POST', '/_/v1/tenants', { name: tenant });
    const keys = await newPrincipal(target, { tenant, name: `boss-${tenant}`, role: 'admin' });
    bosses.set(tenant, keys);
    expect((await send(boss(tenant), { method: 'PUT', path: `/raw-${tenant}` })).status).toBe(200);
  }
  for (let from = 0; from < ownCount; from += 1000) {
    for (const tenant of tenants) await deleteMany(tenant, from);
  }
  await vi.waitFor(
    async () => {
      expect(existsSync(indexFile)).toBe(true);
      expect(await countBlocks()).toBeGreaterThan(0);
    },
    { timeout: 60_000, interval: 200 },
  );
});
afterAll(async () => {
  await gateway.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

it('shows to each tenant what is its own, where the index is exchanged while it runs', async () => {
  exchange();
  await expectOwnOnly();
});

it('and where it was exchanged between a stop and a start', async () => {
  await gateway.stop();
  exchange();
  await serve();
  await expectOwnOnly();
});
