// A log that grows: what an append writes and what a start reads stays the same, counted in
// statements and rows. BURSAR_FULL=1 has 1,000,000 records, and says what they take.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { RecordLog } from '#bursar/audit/record-log.js';
import { openDatabase, type SqlValue, type Tx } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

vi.setConfig({ testTimeout: 300_000 });

const recordsMax = process.env.BURSAR_FULL === '1' ? 1_000_000 : 20_000;
const batch = 1000;

const folder = mkdtempSync(join(tmpdir(), 'bursar-log-growth-'));
const path = join(folder, 'test.db');
const db = openDatabase(path, { readonly: false, cacheKib: 64 * 1024 });
db.exec(schema);
afterAll(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

/** Statements that were run and rows that they gave. */
const counted = { statements: 0, rows: 0 };
const tx: Tx = {
  get: async <R>(sql: string, ...values: SqlValue[]) => {
    counted.statements += 1;
    counted.rows += 1;
    return db.tx.get<R>(sql, ...values);
  },
  all: async <R>(sql: string, ...values: SqlValue[]) => {
    const rows = await db.tx.all<R>(sql, ...values);
    counted.statements += 1;
    counted.rows += rows.length;
    return rows;
  },
  run: (sql, ...values) => {
    counted.statements += 1;
    return db.tx.run(sql, ...values);
  },
};

async function count(act: () => Promise<void>): Promise<typeof counted> {
  Object.assign(counted, { statements: 0, rows: 0 });
  await act();
  return { ...counted };
}

async function append(log: RecordLog, records: number): Promise<void> {
  db.exec('BEGIN');
  for (let i = 0; i < records; i++) {
    const index = log.size;
    const draft = {
      ...{ action: 's3:GetObject', tenant: 'default', principal: 'admin', bucket: 'data' },
      ...{ evidence: 'headers-signed' as const, key: `photos/${index}.jpg`, bytesIn: 0 },
      ...{ bytesOut: 4096, sizeBytes: 4096, requestId: '0123456789ABCDEF', status: 200 },
      ...{ source: '203.0.113.7', etag: 'a'.repeat(32), sha256: 'b'.repeat(64) },
    };
    const seal = { index, timeMs: 1000 * index, storedBytes: 0, storedObjects: 0, cost: 400n };
    await log.append(draft, seal);
  }
  await log.flush();
  db.exec('COMMIT');
}

it(`of ${recordsMax} records is appended to and opened at the cost of a short one`, async () => {
  let log = await RecordLog.open(tx);
  await append(log, batch);
  // 256 records fill a tile, which is one more statement.
  const statementsMax = batch + Math.ceil(batch / 256) + 2;
  const early = await count(() => append(log, batch));
  while (log.size < recordsMax - batch) await append(log, batch);
  const beganMs = performance.now();
  const late = await count(() => append(log, batch));
  const appendMs = performance.now() - beganMs;
  expect(early.statements).toBeLessThanOrEqual(statementsMax);
  expect(late.statements).toBeLessThanOrEqual(statementsMax);
  expect(late.rows).toBe(0);

  const root = log.root();
  const openedMs = performance.now();
  const opened = await count(async () => {
    log = await RecordLog.open(tx);
  });
  const openMs = performance.now() - openedMs;
  expect(log.root()).toEqual(root);
  expect(log.size).toBe(recordsMax);
  // Of each level at most a tile's hashes, the tiles that they are the roots of, and the size.
  const levels = Math.ceil(Math.log(recordsMax) / Math.log(256));
  expect(opened.rows).toBeLessThanOrEqual(levels * 512 + 1);
  expect(opened.statements).toBeLessThanOrEqual(levels * 258 + 1);
  await say(appendMs, openMs);
});

async function say(appendMs: number, openMs: number): Promise<void> {
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const [tiles] = await db.tx.all<{ bytes: number }>(
    'SELECT sum(length(hashes) + length(root)) AS bytes FROM log_tiles',
  );
  const each = (bytes: number) => (bytes / recordsMax).toFixed(1);
  console.info(
    `${recordsMax} records: the last ${batch} appended in ${appendMs.toFixed(0)} ms, opened in ` +
      `${openMs.toFixed(0)} ms; each takes ${each(statSync(path).size)} bytes in the database, ` +
      `of which its commitment 32, its salt 16, the tree above it ${each(tiles?.bytes ?? 0)}`,
  );
}
