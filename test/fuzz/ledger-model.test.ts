// Random sequences of changes, applied by the real ledger to a real SQLite database and by a plain
// model: outcomes, objects, extents, counters, records and listings must be the same. BURSAR_FULL=1
// tries 500 sequences.
import { describe, expect, it } from 'vitest';
import { RecordLog } from '#bursar/audit/record-log.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import type { Difference } from '#bursar/audit/verify/record-fields.js';
import { listCondemned } from '#bursar/catalog/extents.js';
import {
  type ListedObject,
  type ListedVersion,
  type Listing,
  listObjects,
  listUploads,
  listVersions,
  type Position,
  type VersionListing,
  type VersionPosition,
} from '#bursar/catalog/listing.js';
import {
  type Attributes,
  findCurrent,
  findNamedWithBody,
  readHead,
} from '#bursar/catalog/versions.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { decodeManifest } from '#bursar/core/manifest.js';
import { parseUsd } from '#bursar/core/money.js';
import type { Meter } from '#bursar/core/quota-terms.js';
import { applyCommit, applyMaintenance } from '#bursar/ledger/apply.js';
import type { Maintenance } from '#bursar/ledger/commit.js';
import { Staging } from '#bursar/ledger/deep/staging.js';
import { DeepCatalog } from '#bursar/ledger/deep-catalog.js';
import { LogSigning } from '#bursar/ledger/log-signing.js';
import { schema } from '#bursar/ledger/schema.js';
import { type CountPlace, readCounts } from '#bursar/ledger/stored-count.js';
import { StoredLevels } from '#bursar/ledger/stored-levels.js';
import { sliceOf } from '#bursar/ledger/stored-upkeep.js';
import { parseAccount } from '#bursar/quota/accounts.js';
import { Billing } from '#bursar/quota/billing.js';
import type { Charge, Pricing } from '#bursar/quota/charge.js';
import { readLimited } from '#bursar/quota/leases/account-tables.js';
import {
  type LimitedAccount,
  LimitedAccounts,
  limitedAccountOf,
} from '#bursar/quota/limited-accounts.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { RecentUse } from '#bursar/quota/roll-up/recent-use.js';
import { listUsage } from '../quota/listed-usage.ts';
import { type WalkOptions, walkRecords } from '../tooling/deep-records.ts';
import { draftOf, keyring, owners, randomChange, randomText, tenants } from './ledger-changes.ts';
import { type CatalogChange, LedgerModel, type ModelBucket } from './ledger-model.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

/** The gateway's own run; intents of another are orphans. */
const thisProcess = 'this process';

const sequences = process.env.BURSAR_FULL === '1' ? 500 : 80;
const books = readPriceBooks();
const pricing: Pricing = {
  ...{ book: 'aws-us-east-1-2026', storageClass: 'STANDARD', sourceClass: null },
  price: 'put',
};

class Trial {
  readonly db: OpenDatabase;
  readonly billing: Billing;
  readonly random: Random;
  readonly log: RecordLog;
  readonly recentUse = new RecentUse();
  readonly signing = new LogSigning();
  readonly levels: StoredLevels;
  model = new LedgerModel();
  /** How many writes had something set aside. */
  reserved = 0;

  static async open(random: Random): Promise<Trial> {
    const db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
    db.exec(schema);
    // As the gateway's own connection has it: a row that takes another's place deletes that.
    db.exec('PRAGMA recursive_triggers = ON');
    // A few rows, so that most counts go on in slices, with changes on both sides of them.
    const levels = await StoredLevels.open(db, 1);
    return new Trial(random, db, await RecordLog.open(db.tx), levels);
  }

  private constructor(random: Random, db: OpenDatabase, log: RecordLog, levels: StoredLevels) {
    this.random = random;
    this.levels = levels;
    this.db = db;
    this.log = log;
    this.billing = new Billing(this.db.tx, thisProcess, books);
    for (const tenant of tenants) {
      this.db.exec(`INSERT INTO tenants (name, created_ms) VALUES ('${tenant}', 0)`);
      for (const owner of owners) {
        this.db.exec(
          `INSERT INTO principals VALUES ('${tenant}', '${owner}', 'person', 'member', 0, 1)`,
        );
      }
    }
  }

  /** Of the next record. */
  get seq(): number {
    return this.log.size;
  }

  /** What the ledger's thread has. */
  get context() {
    const { seq: timeMs, billing, log, recentUse, signing, levels } = this;
    return { timeMs, keyring, billing, log, recentUse, signing, levels };
  }

  /** Some changes in one transaction, which now and then fails as a whole. */
  async batch(): Promise<void> {
    const { random } = this;
    const before = structuredClone(plain(this.model));
    this.db.exec('BEGIN IMMEDIATE');
    for (let i = 1 + randomBelow(random, 5); i > 0; i--) await this.step();
    if (randomBelow(random, 12) === 0) {
      this.billing.discard();
      this.db.exec('ROLLBACK');
      await this.log.discard();
      await this.levels.discard();
      this.model = Object.assign(new LedgerModel(), before);
      return;
    }
    await this.billing.flush();
    await this.log.flush();
    this.db.exec('COMMIT');
    this.levels.settle();
  }

  /** Gives a prefix or a writer limits, or takes them away. */
  async limitSomething(): Promise<void> {
    const { random, model, billing, levels, seq } = this;
    if (model.buckets.length === 0) return;
    const { tenant, name } = randomOf(random, model.buckets);
    const writer = randomOf(random, ['one/alice', 'one/bob', 'two/bob', 'two/alice']);
    const account = randomOf(random, [
      `prefix:${tenant}/${name}/${randomText(random, 2)}`,
      `writer:${writer}`,
      `writer:${tenant}/${name}/${writer}`,
    ]);
    if (!parseAccount(account)) return;
    const limits = randomBelow(random, 3) > 0 ? { storedObjects: { total: 1e9 } } : null;
    const { used } = await billing.accounts.read(account, seq);
    const stored = {
      storedBytes: Number(used.storedBytes),
      storedObjects: Number(used.storedObjects),
    };
    await billing.accounts.setLimits(account, limits, seq);
    await levels.setLimits(account, limits, stored);
    const counted = levels.take();
    if (counted) await billing.countLevels(counted, seq);
  }

  /** A slice of each count that is under way; gives how many are. */
  async countOn(): Promise<number> {
    const counts = await readCounts(this.db.tx);
    for (const account of counts.keys()) {
      const commit = sliceOf(account, 1 + randomBelow(this.random, 40));
      expect(await applyCommit(this.db.tx, commit, this.context)).toMatchObject({ ok: true });
    }
    return counts.size;
  }

  async step(): Promise<void> {
    const { random, model } = this;
    if (randomBelow(random, 4) === 0) await this.countOn();
    if (randomBelow(random, 8) === 0) {
      await this.maintain();
      return;
    }
    if (randomBelow(random, 8) === 0) await this.limitSomething();
    const { change, declare } = randomChange(random, model, this.seq);
    if (declare.length > 0) {
      const process = randomBelow(random, 5) === 0 ? 'another process' : thisProcess;
      const work = { kind: 'declareExtents', store: 1, ids: declare } as const;
      await applyMaintenance(this.db.tx, work, { ...this.context, process });
      model.declare(declare, process);
      if (randomBelow(random, 4) === 0) await this.housekeeping({ kind: 'condemnIntents' });
    }
    await this.commit(change);
  }

  async commit(change: CatalogChange): Promise<void> {
    const { random } = this;
    const { seq } = this;
    const bucket = bucketOf(this.model, change);
    const transfer = {
      requests: 1,
      ingressBytes: randomBelow(random, 100),
      egressBytes: randomBelow(random, 100),
      retrievalBytes: 0,
    };
    const charged = {
      tenant: randomOf(random, tenants),
      principal: randomOf(random, owners),
      tokens: [],
      bucket,
    };
    const record = draftOf(change, charged, transfer, await this.renamedBy(change));
    const held = await this.reserve(change, charged);
    const charge: Charge = {
      who: { ...charged, limited: held?.limited },
      transfer,
      pricing,
      settlement: held?.settlement ?? null,
    };
    const commit = { change: structuredClone(change), charge, record };
    const result = await applyCommit(this.db.tx, commit, this.context);
    const newId = (result.ok && result.version?.versionId) || null;
    const expected = this.model.apply(change, seq, newId, await this.leftMarker(change));
    const got = result.ok ? 'ok' : result.code;
    expect([change.kind, got]).toEqual([change.kind, expected.ok ? 'ok' : expected.code]);
    if (result.ok && expected.ok) expect(result.version).toEqual(expected.named);
  }

  /** What a write sets aside beforehand in the prefixes and writers that it is charged to. */
  async reserve(change: CatalogChange, { bucket }: Pick<Charge['who'], 'bucket'>) {
    if (change.kind !== 'putObject' || !bucket || randomBelow(this.random, 2) === 0) return null;
    const { key, object } = change;
    const known = new LimitedAccounts();
    for (const { account, limits } of await readLimited(this.db.tx))
      known.setLimits(account, limits);
    const { tenant, name } = bucket;
    const writer = (JSON.parse(object.attributes) as Attributes).writer ?? `${tenant}/alice`;
    const limited = known.of({ tenant, bucket: name, key, writer });
    if (!limited) return null;
    const amounts = { storedObjects: 1 };
    const draws = limited.map((account) => ({ account, need: amounts, want: {} }));
    expect(await this.billing.accounts.draw({ holder: 1, draws }, this.seq)).toMatchObject({
      ok: true,
    });
    this.reserved++;
    const meters: Meter[] = ['storedObjects'];
    const accounts = limited.map((account) => ({ account, limited: meters }));
    const settlement = { holder: 1, held: [{ accounts, amounts }], isMixed: false };
    return { limited, settlement };
  }

  /** The row of what is to be renamed. */
  async renamedBy(change: CatalogChange) {
    if (change.kind !== 'renameObject') return null;
    return (await readHead(this.db.tx, change.bucketId, change.source.key)) ?? null;
  }

  /** The id of the marker that a rename has left. */
  async leftMarker(change: CatalogChange): Promise<string | null> {
    if (change.kind !== 'renameObject') return null;
    const sql = 'SELECT version_id AS id FROM versions WHERE bucket_id = ? AND key = ?';
    const { bucketId, source } = change;
    return (await this.db.tx.get<{ id: string | null }>(sql, bucketId, source.key))?.id ?? null;
  }

  async maintain(): Promise<void> {
    const { random } = this;
    const max = randomBelow(random, 6);
    switch (randomBelow(random, 3)) {
      case 0:
        return this.housekeeping({ kind: 'purgeEnded', max });
      case 1:
        return this.housekeeping({ kind: 'condemnIntents' });
      default: {
        const wanted = { store: randomBelow(random, 2), beforeMs: this.seq, max };
        const ids = (await listCondemned(this.db.tx, wanted)).map(({ id }) => id);
        return this.housekeeping({ kind: 'noteSwept', ids });
      }
    }
  }

  async housekeeping(
    work: Exclude<Maintenance, { kind: 'condemnIntents' }> | { kind: 'condemnIntents' },
  ): Promise<void> {
    const { model } = this;
    const context = { ...this.context, process: thisProcess };
    const whole: Maintenance =
      work.kind === 'condemnIntents' ? { ...work, expiredBeforeMs: 0, max: 1000 } : work;
    await applyMaintenance(this.db.tx, whole, context);
    if (work.kind === 'purgeEnded') model.purge(work.max);
    if (work.kind === 'condemnIntents') model.condemnIntents(thisProcess);
    if (work.kind === 'noteSwept') model.forget(work.ids);
  }
}

/** What `structuredClone` can copy. */
function plain(model: LedgerModel): object {
  const { buckets, versions, uploads, extents, bucketsEver } = model;
  return { buckets, versions, uploads, extents, bucketsEver };
}

/** The bucket that an operation like `change` would have been admitted to. */
function bucketOf(model: LedgerModel, change: CatalogChange): ModelBucket | null {
  const id =
    'bucketId' in change
      ? change.bucketId
      : 'uploadId' in change
        ? model.uploads.get(change.uploadId)?.bucketId
        : undefined;
  return model.buckets.find((one) => one.id === id) ?? null;
}

async function checkCatalog({ db, model }: Trial): Promise<void> {
  const rows = await db.tx.all<{ bucketId: number; key: string; seq: number; place: string }>(
    `SELECT bucket_id AS bucketId, key, seq, 'current' AS place FROM versions
       UNION ALL SELECT bucket_id, key, seq, 'noncurrent' FROM noncurrent_versions
       UNION ALL SELECT bucket_id, key, seq, 'ended' FROM ended_versions`,
  );
  const flat = rows.map(({ bucketId, key, seq, place }) => [bucketId, key, seq, place]);
  const modelled = model.versions.map((one) => {
    const { bucketId, key, seq, hasEnded } = one;
    const isCurrent = model.kept(bucketId, key)[0] === one;
    return [bucketId, key, seq, hasEnded ? 'ended' : isCurrent ? 'current' : 'noncurrent'];
  });
  expect(sorted(flat)).toEqual(sorted(modelled));
  const ids = model.versions.flatMap(({ versionId }) => versionId ?? []);
  expect(new Set(ids).size).toBe(ids.length);
  for (const version of model.versions) {
    if (version.hasEnded) continue;
    const { bucketId, key, sizeBytes, etag, versionId } = version;
    const bucket = model.buckets.find(({ id }) => id === bucketId) as ModelBucket;
    const catalog = { read: db.tx, keyring };
    const name = { key, versionId: versionId ?? 'null' };
    const found = await findNamedWithBody(catalog, bucket, name);
    const isMarker = version.isMarker ? 1 : 0;
    expect(found).toMatchObject({ seq: version.seq, sizeBytes, etag, versionId, isMarker });
    const {
      tags,
      retention,
      legalHold = false,
    } = JSON.parse(found?.attributes ?? '') as Attributes;
    const { tags: tags2, retention: retention2, legalHold: legalHold2 } = version;
    expect([tags, retention, legalHold]).toEqual([tags2, retention2, legalHold2]);
    const current = model.current(bucketId, key);
    expect((await findCurrent(catalog, bucket, key))?.seq).toBe(current?.seq);
    const [first] = decodeManifest(version.manifest);
    const body = first && model.extents.get(first.id.toString('hex'))?.isInline ? first.id : null;
    expect(found?.inlineBody ? Buffer.from(found.inlineBody) : null).toEqual(body);
  }
  const parts = await db.tx.all<{ id: string; number: number; size: number }>(
    'SELECT upload_id AS id, number, size FROM parts',
  );
  const modelledParts = [...model.uploads.values()].flatMap((upload) =>
    [...upload.parts].map(([number, part]) => [upload.id, number, part.sizeBytes]),
  );
  expect(sorted(parts.map(({ id, number, size }) => [id, number, size]))).toEqual(
    sorted(modelledParts),
  );
}

const states = ['intent', 'live', 'condemned'] as const;

async function checkExtents({ db, model }: Trial): Promise<void> {
  const rows = await db.tx.all<{ id: Buffer; state: 0 | 1 | 2; refs: number }>(
    'SELECT id, state, refs FROM extents',
  );
  const found = rows.map(({ id, state, refs }) => [id.toString('hex'), states[state], refs]);
  const modelled = [...model.extents].map(([id, { state, refs }]) => [id, state, refs]);
  expect(sorted(found)).toEqual(sorted(modelled));

  // Whatever the model thinks: each manifest's extents are alive, and counted once for each run.
  const manifests = await db.tx.all<{ manifest: Uint8Array }>(
    `SELECT manifest FROM versions UNION ALL SELECT manifest FROM noncurrent_versions
       UNION ALL SELECT manifest FROM ended_versions UNION ALL SELECT manifest FROM parts`,
  );
  const refs = new Map<string, number>();
  for (const { manifest } of manifests) {
    for (const run of decodeManifest(manifest)) {
      const id = run.id.toString('hex');
      refs.set(id, (refs.get(id) ?? 0) + 1);
    }
  }
  for (const { id, state, refs: counted } of rows) {
    const named = refs.get(id.toString('hex')) ?? 0;
    expect([counted, state === 1]).toEqual([named, named > 0]);
    refs.delete(id.toString('hex'));
  }
  expect([...refs.keys()]).toEqual([]);
}

async function checkCounters({ db, model }: Trial): Promise<void> {
  const usage = new Map((await listUsage(db.tx, null)).map((row) => [row.account, row]));
  const stored = new Map<string, { storedBytes: number; storedObjects: number }>();
  for (const { id, tenant, name, owner } of model.buckets) {
    const held = model.storedIn(id);
    for (const account of [
      `bucket:${tenant}/${name}`,
      `principal:${tenant}/${owner}`,
      `tenant:${tenant}`,
    ]) {
      const sum = stored.get(account) ?? { storedBytes: 0, storedObjects: 0 };
      stored.set(account, {
        storedBytes: sum.storedBytes + held.storedBytes,
        storedObjects: sum.storedObjects + held.storedObjects,
      });
    }
  }
  const counts = await readCounts(db.tx);
  for (const { account } of await readLimited(db.tx)) {
    const limited = limitedAccountOf(account);
    if (limited) stored.set(account, storedOf(model, limited, counts.get(account)));
  }
  for (const [account, row] of usage) {
    const { storedBytes, storedObjects } = row;
    const held = stored.get(account) ?? { storedBytes: 0, storedObjects: 0 };
    expect({ account, storedBytes, storedObjects }).toEqual({ account, ...held });
  }

  // What is charged by time is what there is: the book of these changes has no minimum.
  const billed = await db.tx.all(`SELECT tenant, bucket, class, billed_bytes AS bytes
    FROM quota_storage WHERE billed_bytes > 0 ORDER BY tenant, bucket, class`);
  expect(billed).toEqual(
    await db.tx.all(`SELECT tenant, name AS bucket, class, sum(bytes) AS bytes FROM (
        SELECT bucket_id, class, size AS bytes FROM versions
        UNION ALL
        SELECT bucket_id, class, size FROM noncurrent_versions
        UNION ALL
        SELECT bucket_id, class, size FROM parts JOIN uploads ON id = upload_id
      ) JOIN buckets AS b ON b.id = bucket_id
      GROUP BY tenant, name, class HAVING sum(bytes) > 0 ORDER BY tenant, name, class`),
  );

  // The records alone add up to the counters of the buckets they name.
  const rows = await db.tx.all<{ idx: number; record: string }>('SELECT idx, record FROM records');
  const sums = new Map<string, number[]>();
  for (const { idx, record } of rows) {
    const { index, target, bytesIn, bytesOut, storedBytes, storedObjects, ...costs } =
      JSON.parse(record);
    expect(index).toBe(idx);
    if (target === undefined) continue;
    const sum = sums.get(target) ?? [0, 0, 0, 0, 0, 0];
    // The second record of a rename stands for no request.
    const { cost = '0', storageCost = '0', price } = costs;
    const spend = Number(parseUsd(cost)) + Number(parseUsd(storageCost));
    const more = [
      price === undefined ? 0 : 1,
      bytesIn,
      bytesOut,
      storedBytes,
      storedObjects,
      spend,
    ] as number[];
    sums.set(
      target,
      sum.map((value, i) => value + (more[i] as number)),
    );
  }
  for (const [account, row] of usage) {
    if (!account.startsWith('bucket:')) continue;
    const { requests, ingressBytes, egressBytes, storedBytes, storedObjects } = row;
    const moved = [requests, ingressBytes, egressBytes];
    const counted = [...moved, storedBytes, storedObjects, Number(row.spend)];
    expect([account, counted]).toEqual([account, sums.get(account)]);
  }
}

/** By all of its versions and parts of uploads, as far as they are counted. */
function storedOf(
  { buckets, versions, uploads }: LedgerModel,
  limited: LimitedAccount,
  place: CountPlace | undefined,
): { storedBytes: number; storedObjects: number } {
  const isMeant = (bucketId: number, key: string, writer: string | undefined) => {
    const bucket = buckets.find(({ id }) => id === bucketId);
    if (!bucket || (place && !isCounted(bucketId, key, place))) return false;
    const isIn = bucket.tenant === limited.tenant && bucket.name === limited.bucket;
    if (limited.kind === 'prefix') return isIn && key.startsWith(limited.prefix);
    const by = `${limited.writer.tenant}/${limited.writer.name}`;
    // All were written while alice owned the buckets.
    const isBy = (writer ?? `${bucket.tenant}/alice`) === by;
    return isBy && (limited.bucket === null || isIn);
  };
  const there = versions.filter((one) => {
    return isMeant(one.bucketId, one.key, one.writer) && !one.hasEnded && !one.isMarker;
  });
  const parts = [...uploads.values()]
    .filter((one) => isMeant(one.bucketId, one.key, one.initiator))
    .flatMap((one) => [...one.parts.values()]);
  const sizes = [...there, ...parts].map(({ sizeBytes }) => sizeBytes);
  return {
    storedBytes: sizes.reduce((sum, sizeBytes) => sum + sizeBytes, 0),
    storedObjects: there.length,
  };
}

/** What a listing shall say, in one go. */
function isCounted(bucketId: number, key: string, place: CountPlace): boolean {
  if (bucketId !== place.bucketId) return bucketId < place.bucketId;
  return Buffer.from(key).compare(Buffer.from(place.key)) < 0;
}

function modelListing(keys: string[], prefix: string, delimiter: string): string[] {
  const entries = keys
    .filter((key) => key.startsWith(prefix))
    .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .map((key) => {
      const cut = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
      return cut < 0 ? `k${key}` : `p${key.slice(0, cut + delimiter.length)}`;
    });
  return entries.filter((entry, i) => entry[0] === 'k' || entries.indexOf(entry) === i);
}

async function checkListings(trial: Trial): Promise<void> {
  const { db, model, random } = trial;
  for (const { id: bucketId } of model.buckets) {
    const prefix = randomText(random, 2);
    const delimiter = randomText(random, 2);
    const keys = model.currentOf(bucketId).map((version) => version.key);
    const found: string[] = [];
    let after: Position | null = null;
    do {
      const max = 1 + randomBelow(random, 5);
      const page: Listing<ListedObject> = await listObjects(
        db.tx,
        { bucketId, prefix, delimiter, max, after },
        (row) => row,
      );
      const entries = [
        ...page.entries.map(({ key }) => `k${key}`),
        ...page.prefixes.map((folded) => `p${folded}`),
      ].sort((a, b) => Buffer.compare(Buffer.from(a.slice(1)), Buffer.from(b.slice(1))));
      found.push(...entries);
      expect(entries.length <= max && (page.next === null || entries.length === max)).toBe(true);
      after = page.next;
    } while (after !== null);
    expect([prefix, delimiter, found]).toEqual([
      prefix,
      delimiter,
      modelListing(keys, prefix, delimiter),
    ]);
    await checkVersionListing(trial, bucketId, { prefix, delimiter });
    await checkUploadListing(db, model, bucketId, 1 + randomBelow(random, 3));
  }
}

async function checkVersionListing(
  { db, model, random }: Trial,
  bucketId: number,
  { prefix, delimiter }: { prefix: string; delimiter: string },
): Promise<void> {
  const found: string[] = [];
  let after: VersionPosition | null = null;
  do {
    const max = 1 + randomBelow(random, 4);
    const page: VersionListing<ListedVersion> = await listVersions(
      db.tx,
      { bucketId, prefix, delimiter, max, after },
      (row) => row,
    );
    const entries = page.entries.map(({ key, seq, isLatest }) => ({
      key,
      text: `${seq}.${isLatest}`,
    }));
    const folded = page.prefixes.map((key) => ({ key, text: 'folded' }));
    // A key and a folded prefix are never the same.
    const all = [...entries, ...folded];
    const order = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
    found.push(...all.sort((a, b) => order(a.key, b.key)).map(({ key, text }) => `${key} ${text}`));
    expect(all.length <= max && (page.next === null || all.length === max)).toBe(true);
    after = page.next;
  } while (after !== null);
  const keys = [...new Set(model.keptOf(bucketId).map(({ key }) => key))];
  const modelled = modelListing(keys, prefix, delimiter).flatMap((entry) => {
    const key = entry.slice(1);
    if (entry[0] === 'p') return [`${key} folded`];
    return model.kept(bucketId, key).map(({ seq }, i) => `${key} ${seq}.${i === 0 ? 1 : 0}`);
  });
  expect([prefix, delimiter, found]).toEqual([prefix, delimiter, modelled]);
}

async function checkUploadListing(
  db: OpenDatabase,
  model: LedgerModel,
  bucketId: number,
  max: number,
): Promise<void> {
  const found: string[][] = [];
  let after: Position | null = null;
  let afterId: string | null = null;
  do {
    const query = { bucketId, prefix: '', delimiter: '', max, after, afterId };
    const page: Listing<string[]> = await listUploads(db.tx, query, ({ key, id }) => [key, id]);
    found.push(...page.entries);
    after = page.next;
    afterId = page.entries.at(-1)?.[1] ?? null;
  } while (after !== null);
  const modelled = model.openUploadsOf(bucketId).map(({ key, id }) => [key, id]);
  const order = ([key = '', id = '']: string[]) => Buffer.from(`${key}\u0000\u0000${id}`);
  expect(found).toHaveLength(modelled.length);
  expect(sorted(found)).toEqual(sorted(modelled));
  const pairs = found.slice(1).map((next, i) => [found[i] as string[], next] as const);
  for (const [one, next] of pairs) {
    if (one[0] === next[0]) expect((one[1] ?? '') < (next[1] ?? '')).toBe(true);
    else expect(Buffer.compare(order([one[0] ?? '']), order([next[0] ?? '']))).toBeLessThan(0);
  }
}

function sorted<T>(rows: T[]): T[] {
  const text = (row: T) => JSON.stringify(row);
  return [...rows].sort((a, b) => (text(a) < text(b) ? -1 : 1));
}

/** Each record says which version it made and which it ended, and the log is made of them. */
async function checkRecords({ db: { tx: read } }: Trial): Promise<void> {
  const differences: Difference[] = [];
  const tell = (difference: Difference): unknown => differences.push(difference);
  const store = new RecordStore(read, async () => Buffer.alloc(0));
  const staging = await Staging.open(':memory:', Buffer.alloc(32));
  const catalog = await DeepCatalog.open({ read, store, staging, tell });
  const onRecord: WalkOptions['onRecord'] = (index, fields) => catalog.visit(index, fields);
  const onUnread = async () => {};
  const { size } = await walkRecords({ read, store, tell, onRecord, onUnread });
  await catalog.finish(size, async () => -1);
  staging.close();
  expect(differences).toEqual([]);
}

describe('the ledger', () => {
  it(
    'does to the database what the model says, whatever comes',
    async () => {
      let reserved = 0;
      await fuzz(20_261_120, sequences, async (random) => {
        const trial = await Trial.open(random);
        try {
          for (let i = 3 + randomBelow(random, 25); i > 0; i--) await trial.batch();
          await checkCatalog(trial);
          await checkExtents(trial);
          await checkCounters(trial);
          while ((await trial.countOn()) > 0);
          await trial.billing.flush();
          await trial.log.flush();
          await checkCounters(trial);
          await checkRecords(trial);
          // All that was set aside was settled, though counts went on between.
          expect(await trial.db.tx.all('SELECT * FROM quota_leases')).toEqual([]);
          reserved += trial.reserved;
          for (let i = 0; i < 3; i++) await checkListings(trial);
        } finally {
          trial.db.close();
        }
      });
      expect(reserved).toBeGreaterThan(0);
    },
    fuzzTimeoutMs,
  );
});
