// What a record takes at rest, hot and archived: `node bench/log-growth.mjs [RECORDS]` makes
// records as PUTs and GETs make them (random digests and request ids, some hundred keys, ten
// principals), counts bytes by table, archives them and counts again. Prints the table of
// docs/admin/log-growth.md.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Archiver } from '#bursar/ledger/archive/archiver.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { IntentPool } from '#bursar/ledger/intent-pool.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { BufferPool } from '#bursar/tiering/buffer-pool.js';
import { DigestPool } from '#bursar/tiering/digest-pool.js';
import { ObjectReader } from '#bursar/tiering/object-reader.js';
import { ObjectWriter } from '#bursar/tiering/object-writer.js';
import { LocalStore } from '#bursar/tiering/stores/local-store.js';
import { Stores } from '#bursar/tiering/stores/stores.js';

const count = Math.ceil(Number(process.argv[2] ?? 20_000) / 4096) * 4096;
const folder = mkdtempSync(join(tmpdir(), 'bursar-log-growth-'));
const path = join(folder, 'bursar.db');
const rootKeys = [{ epoch: 1, key: randomBytes(32) }];
const keyring = new Keyring(rootKeys);
const stop = (reason) => {
  throw new Error(reason);
};
const ledger = await Ledger.open({
  path,
  rootKeys,
  priceBooks: [],
  onFatal: stop,
  onFailure: stop,
});
const db = openDatabase(path, { readonly: true, cacheKib: 4096 });

function record(i) {
  const isPut = i % 3 === 0;
  const bytes = 1000 + (i % 5000);
  return {
    ...{ action: isPut ? 's3:PutObject' : 's3:GetObject', tenant: `lab-${i % 3}` },
    ...{ principal: `person-${i % 10}`, accessKeyId: `BUR${'ABCDEFGHIJ'.repeat(2).slice(0, 17)}` },
    ...{ evidence: 'shared-secret', bucket: 'raw-data', bucketOwner: 'admin' },
    ...{ key: `run-2026-${i % 700}/events-${i % 97}.root`, class: 'STANDARD' },
    ...{ bytesIn: isPut ? bytes : 0, bytesOut: isPut ? 0 : bytes, sizeBytes: bytes },
    ...{ etag: randomBytes(16).toString('hex'), sha256: randomBytes(32).toString('hex') },
    ...{
      requestId: randomBytes(8).toString('hex').toUpperCase(),
      source: `10.3.${i % 7}.${i % 200}`,
    },
    status: 200,
  };
}

for (let i = 0; i <= count; i += 500) {
  const some = Array.from({ length: Math.min(500, count + 1 - i) }, (_, j) => record(i + j));
  await Promise.all(
    some.map((one) => ledger.commit({ change: { kind: 'none' }, charge: null, record: one })),
  );
}
while ((await ledger.maintain({ kind: 'sumUsage', max: 200 })) === 200);
const text = await db.tx.get('SELECT avg(length(record)) AS bytes FROM records');
const hot = await sizes();

const buffers = new BufferPool({});
const digests = new DigestPool({ buffers });
const local = await LocalStore.open(join(folder, 'extents'));
const stores = new Stores(local);
const parts = { keyring, stores, digests, buffers };
const archiver = new Archiver({
  ...{ path, read: db.tx, ledger, intents: new IntentPool(ledger), store: 1 },
  ...{ writer: new ObjectWriter(parts), readPart: partReader(new ObjectReader(parts)) },
  ...{ afterMs: 0, intervalMs: 1000, mayArchive: () => true, onError: stop },
});
const begunMs = performance.now();
await archiver.archive();
const tookMs = performance.now() - begunMs;
const archived = await sizes();
let packed = 0;
for await (const { sizeBytes } of local.list()) packed += sizeBytes;

const per = (bytes) => (bytes / count).toFixed(0).padStart(5);
const line = (name, before, after) => `${name.padEnd(40)}${per(before)} B  ${per(after)} B`;
const tree = (one) => one.log_tiles ?? 0;
const records = (one) => one.records ?? 0;
const kept = (one) => (one.archived_tiles ?? 0) + (one.record_packs ?? 0);
const lines = [
  `${count} records of ${Math.round(text.bytes)} bytes on average; archived in ` +
    `${Math.round(tookMs)} ms`,
  `${'a record'.padEnd(40)}    hot  archived`,
  line('its row in the database', records(hot), records(archived)),
  line('its leaf and salt in the database', kept(hot), kept(archived)),
  line('its hashes in the tree', tree(hot), tree(archived)),
  line('its share of a pack', 0, packed),
];
process.stdout.write(`${lines.join('\n')}\n`);

db.close();
await digests.close();
await ledger.close();
rmSync(folder, { recursive: true });

/** Bytes of all pages of each table. */
async function sizes() {
  const rows = await db.tx.all('SELECT name, sum(pgsize) AS bytes FROM dbstat GROUP BY name');
  return Object.fromEntries(rows.map(({ name, bytes }) => [name, bytes]));
}
