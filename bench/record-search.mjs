// What finding records costs: `node bench/record-search.mjs [RECORDS]` makes records (1,000,000 by
// default) of ten tenants and five hundred principals, each with a key of its own, indexes them,
// and prints the index's size and speed, and the slowest and fastest of five answers to some
// questions.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecordLog } from '#bursar/audit/record-log.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import { blockWidth } from '#bursar/audit/search/positions.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { SearchIndexReader, SearchIndexWriter } from '#bursar/audit/search/search-index.js';
import { openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

const count = Number(process.argv[2] ?? 1_000_000);
const folder = mkdtempSync(join(tmpdir(), 'bursar-record-search-'));
const [logPath, indexPath] = [join(folder, 'bursar.db'), join(folder, 'search.db')];
const begunMs = 1_790_000_000_000;
const tokens = Array.from({ length: 2000 }, () => randomUUID());

function draft(i) {
  const h = (i * 2_654_435_761) % 2 ** 32;
  const isRefused = h % 97 === 0;
  return {
    ...{ action: h % 3 ? 's3:GetObject' : 's3:PutObject', tenant: `t${i % 10}` },
    ...{ principal: `p${h % 500}`, accessKeyId: 'BURDSWFKDEU6X5ZS6OD2' },
    ...{ evidence: 'shared-secret', tokens: h % 4 ? null : [tokens[h % tokens.length]] },
    ...{ bucket: `data${h % 20}`, bucketOwner: 'admin', class: 'STANDARD' },
    key: `run${h % 3}/2026/${h % 12}/file-${(h % 1_000_003).toString(36)}-${i % 7919}.root`,
    ...{ bytesIn: h % 100_000, bytesOut: 0, requestId: 'B4CDB7E28A4A7046' },
    ...{ source: `10.0.${h % 7}.${h % 250}`, status: isRefused ? 403 : 200 },
    error: isRefused ? 'AccessDenied' : null,
  };
}

const db = openDatabase(logPath, { readonly: false, cacheKib: 64 * 1024 });
db.exec(schema);
const log = await RecordLog.open(db.tx);
const seal = { storedBytes: 0, storedObjects: 0, cost: 5_000_000n };
for (let at = 0; at < count; ) {
  db.exec('BEGIN');
  for (const end = Math.min(at + 50_000, count); at < end; at++) {
    await log.append(draft(at), { index: at, timeMs: begunMs + at * 100, ...seal });
  }
  await log.flush();
  db.exec('COMMIT');
}

db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
const store = new RecordStore(db.tx, async () => Buffer.alloc(0));
const writer = await SearchIndexWriter.open(indexPath, store);
const blocks = Math.floor(count / blockWidth);
const indexBegunMs = performance.now();
for (let block = 0; block < blocks; block++) {
  await writer.putBlock(block, await store.readRun(block * blockWidth, blockWidth));
}
const seconds = (performance.now() - indexBegunMs) / 1000;
writer.close();
const [logBytes, bytes] = [statSync(logPath).size, statSync(indexPath).size];
console.log(`records: ${count}, ${Math.round(logBytes / count)} bytes each in the database`);
console.log(`index: ${Math.round(bytes / count)} bytes a record`);
console.log(`indexed: ${Math.round((blocks * blockWidth) / seconds)} records/s\n`);

const search = new RecordSearch({ read: db.tx, store, index: new SearchIndexReader(indexPath) });
const questions = {
  'all of a tenant': { tenant: 't3' },
  'one principal': { principal: 'p7' },
  'nobody of this name': { principal: 'nobody' },
  'refused, of one principal': { principal: 'p7', status: 403 },
  'what excludes each other': { requesterTenant: 't3', otherTenant: 't4' },
  'a prefix that a third has': { prefix: 'run1/' },
  'that, refused, of one principal': { prefix: 'run1/', principal: 'p7', status: 403 },
  'a prefix that none has': { prefix: 'zzz' },
  'one token': { token: tokens[4] },
  'one address': { source: '10.0.3.9' },
  'refused, in the last part': { status: 403, fromMs: begunMs + (count - 20_000) * 100 },
};
for (const [what, query] of Object.entries(questions)) {
  const times = [];
  let found;
  for (let i = 0; i < 5; i++) {
    const askedMs = performance.now();
    found = await search.find({ tenant: null, limit: 100, ...query });
    times.push(performance.now() - askedMs);
  }
  const [least, most] = [Math.min(...times), Math.max(...times)].map((ms) => ms.toFixed(1));
  console.log(`${what.padEnd(34)} ${found.records.length} found, ${least} to ${most} ms`);
}
db.close();
rmSync(folder, { recursive: true });
