// Fills the data folder of a gateway that does not run, for the sections that show how cost grows:
// the ledger's own code applies each commit, so that every row, MAC, record and hash is what
// requests would have left behind, but thousands share a transaction and nothing is synced.
import { join } from 'node:path';
import { RecordLog } from '#bursar/audit/record-log.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import { recordedChange } from '#bursar/audit/recorded-change.js';
import { blockWidth } from '#bursar/audit/search/positions.js';
import { SearchIndexWriter } from '#bursar/audit/search/search-index.js';
import { sealObject, sealPart } from '#bursar/catalog/authentic.js';
import { findBucket } from '#bursar/catalog/buckets.js';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { RootKeyFile } from '#bursar/core/root-keys.js';
import { applyCommit, applyMaintenance } from '#bursar/ledger/apply.js';
import { membersOf } from '#bursar/ledger/commands/index.js';
import { SealedState, verifySealedState } from '#bursar/ledger/sealed-state.js';
import { StoredLevels } from '#bursar/ledger/stored-levels.js';
import { Billing } from '#bursar/quota/billing.js';
import { PriceBooks, readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { RecentUse } from '#bursar/quota/roll-up/recent-use.js';

const transactionCommits = 20_000;
const tenant = 'default';
const owner = 'admin';

/** @param {string} folder of a gateway that was started once and has stopped */
export async function openBulkLedger(folder) {
  const { keys } = await RootKeyFile.open(join(folder, 'keys', 'root-keys.json'), null);
  const db = openDatabase(join(folder, 'bursar.db'), { readonly: false, cacheKib: 256 * 1024 });
  db.exec('PRAGMA synchronous = OFF');
  const keyring = new Keyring(keys);
  const books = [...readPriceBooks()];
  const seals = new SealedState(db, keyring, await verifySealedState(db, keyring));
  const billing = new Billing(db.tx, 'bench', new PriceBooks(books), seals);
  const log = await RecordLog.open(db.tx);
  const newest = await db.tx.get('SELECT max(time_ms) AS timeMs FROM records');
  const timeMs = Math.max(Date.now(), newest.timeMs);
  // Of what is added here, sums are read out of the records.
  const recentUse = new RecentUse();
  const levels = await StoredLevels.open(db);
  const context = { timeMs, process: 'bench', keyring, billing, log, recentUse, levels };
  /**
   * Milliseconds of each commit of what `commitAt` gives for 0 up to `count`; none may be refused.
   */
  const commit = async (count, commitAt) => {
    const tookMs = new Float64Array(count);
    await inTransactions(db, { count, billing, log, seals }, async (i) => {
      const startMs = performance.now();
      const done = await applyCommit(db.tx, commitAt(i), context);
      tookMs[i] = performance.now() - startMs;
      if (!done.ok) throw new Error(`commit ${i} was refused: ${done.code}`);
    });
    return tookMs;
  };
  return {
    commit,
    /** A change of identities by a principal of the tenant, who is charged for it. */
    identityChange: (identity, { action, target, principal }) => {
      const change = { tenant, ...identity };
      const told = recordedChange(membersOf(change));
      const commit = makeCommit(change, { book: books.at(-1).name, bucketName: null });
      const who = { tenant, principal, tokens: [], bucket: null };
      const named = { action, target, principal, bucket: null, bucketOwner: null, class: null };
      const record = { ...commit.record, ...named, change: told };
      return { ...commit, charge: { ...commit.charge, who }, record };
    },
    changesOf: (bucketName) => openChanges(bucketName, { read: db.tx, keyring, books }),
    /** Does what the gateway would do behind it for minutes: sums of usage, the search index. */
    close: async () => {
      while ((await sumUsage(db, context)) > 0);
      await indexRecords(join(folder, 'search.db'), db.tx, log.size);
      db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      db.close();
    },
  };
}

/** Commits that change a bucket in which something is stored. */
async function openChanges(bucketName, { read, keyring, books }) {
  const { id: bucketId } = await findBucket(read, tenant, bucketName);
  const rows = await read.all(sourcesSql, bucketId, sourcesMax);
  const sources = rows.map(({ sizeBytes, manifest, etag, sha256, attributes, ...source }) => ({
    source: { bucketId, ...source },
    object: sealObject(keyring, {
      ...{ tenant, owner, class: 'STANDARD' },
      ...{ sizeBytes, manifest, etag, sha256, attributes },
    }),
  }));
  const conditions = { ifMatch: null, ifNoneMatch: null };
  const commitOf = (change, named) =>
    makeCommit({ bucketId, ...change }, { bucketName, book: books.at(-1).name, ...named });
  return {
    enableVersioning: () => commitOf({ kind: 'setVersioning', versioning: 'Enabled' }),
    /** A copy of one of the objects that were there, under this key. */
    copyTo: (key, i = 0) => {
      const from = sources[i % sources.length];
      const { sizeBytes } = from.object;
      return commitOf({ kind: 'copyObject', key, conditions, ...from }, { key, sizeBytes });
    },
    /**
     * An object of as many extents, each that of the first object that was there, uploaded in
     * `parts` parts.
     */
    repeat: (key, extents, parts = 1) => {
      const [{ source, object }] = sources;
      const sizeBytes = object.sizeBytes * extents;
      const manifest = Buffer.concat(Array.from({ length: extents }, () => object.manifest));
      const partBytes = [[Math.floor(sizeBytes / parts), parts]];
      const attributes = JSON.stringify({ ...JSON.parse(object.attributes), partBytes });
      const drafted = sealObject(keyring, { ...object, sizeBytes, manifest, attributes });
      const change = { kind: 'copyObject', key, conditions, source, object: drafted };
      return commitOf(change, { key, sizeBytes });
    },
    /** A part of an upload that was begun: one of the objects that were there. */
    putPart: ({ key, uploadId, ...part }) => {
      const [{ source, object }] = sources;
      const { manifest, etag } = object;
      const place = { tenant, uploadId };
      const change = {
        ...{ kind: 'putPart', ...place, source, extentIds: [], inline: null },
        part: sealPart(keyring, place, { ...part, manifest, etag }),
      };
      return commitOf(change, { key, sizeBytes: part.sizeBytes });
    },
    snapshot: (name) =>
      commitOf({ kind: 'createSnapshot', name, prefix: '', expiresMs: null, lock: null }),
    /** Ids of the versions of a key. */
    versionIds: async (key) => {
      const { newest } = await read.get(newestSql, bucketId, key);
      return { newest, oldest: (await read.get(oldestSql, bucketId, key))?.oldest ?? newest };
    },
    /** Ends the version of this id. */
    end: (key, versionId) =>
      commitOf({ kind: 'deleteObject', key, versionId, conditions }, { key }),
  };
}

const newestSql = 'SELECT version_id AS newest FROM versions WHERE bucket_id = ? AND key = ?';
const oldestSql = `SELECT version_id AS oldest FROM noncurrent_versions
  WHERE bucket_id = ? AND key = ? ORDER BY seq LIMIT 1`;
const sourcesMax = 1000;
const sourcesSql = `SELECT key, seq, size AS sizeBytes, manifest, etag, sha256, attributes
  FROM versions WHERE bucket_id = ? ORDER BY key LIMIT ?`;

async function inTransactions(db, { count, billing, log, seals }, apply) {
  for (let i = 0; i < count; ) {
    db.exec('BEGIN IMMEDIATE');
    for (const end = Math.min(i + transactionCommits, count); i < end; i++) await apply(i);
    await billing.flush({ withAccounts: true });
    await seals.flush(log, { withAccounts: true });
    db.exec('COMMIT');
    seals.settle();
  }
}

async function sumUsage(db, context) {
  db.exec('BEGIN IMMEDIATE');
  const summed = await applyMaintenance(db.tx, { kind: 'sumUsage', max: 20_000 }, context);
  db.exec('COMMIT');
  return summed;
}

async function indexRecords(path, read, size) {
  const store = new RecordStore(read, () => Promise.reject(new Error('nothing is archived')));
  const writer = await SearchIndexWriter.open(path, store);
  for (let at = await writer.end(); at + blockWidth <= size; at += blockWidth) {
    await writer.putBlock(at / blockWidth, await store.readRun(at, blockWidth));
  }
  writer.close();
}

/** A commit by the tenant's administrator, charged and recorded like a request. */
function makeCommit(change, { book, bucketName: bucket, key = null, sizeBytes = null }) {
  return {
    change,
    charge: {
      who: { tenant, principal: owner, tokens: [], bucket: { tenant, name: bucket, owner } },
      transfer: { requests: 1, ingressBytes: 0, egressBytes: 0, retrievalBytes: 0 },
      pricing: { book, storageClass: 'STANDARD', sourceClass: null, price: 'put' },
      settlement: null,
    },
    record: {
      ...{ action: 's3:PutObject', tenant, principal: owner, accessKeyId: null },
      ...{ evidence: 'shared-secret', bucket, bucketOwner: owner, key, target: null },
      ...{ bytesIn: 0, bytesOut: 0, sizeBytes, etag: null, sha256: null, class: 'STANDARD' },
      ...{ range: null, requestId: 'B4CDB7E28A4A7046', source: '127.0.0.1' },
      ...{ status: 200, error: null },
    },
  };
}
