// The changes of a long log, read from any cursor in pages of any size, beside a model; while it
// grows, and where something of it was altered.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { ChangeLog, type ChangeQuery } from '#bursar/audit/changes/change-log.js';
import { changeOf } from '#bursar/audit/changes/object-change.js';
import { RecordLog } from '#bursar/audit/record-log.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { openDatabase, type Reader } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';
import { randomBelow, randomOf, seededRandom } from '../../fuzz/seeded-random.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const random = seededRandom(25);
const folder = mkdtempSync(join(tmpdir(), 'bursar-changes-'));
const db = openDatabase(join(folder, 'log.db'), { readonly: false, cacheKib: 4096 });
const found: number[] = [];
let log: RecordLog;
let records: RecordStore;

interface Made {
  index: number;
  tenant: string;
  bucket: string;
  key: string;
}

const made: Made[] = [];

/** A record of a read, a refusal, or a change. */
async function append(): Promise<void> {
  const kind = randomOf(random, ['read', 'refused', 'put', 'put', 'delete', 'absent', 'tag']);
  const tenant = randomOf(random, ['cms', 'atlas']);
  const bucketTenant = randomOf(random, [null, 'cms', 'atlas']);
  const bucket = randomOf(random, ['raw', 'out']);
  const key = `${randomOf(random, ['a/', 'b/', ''])}${randomBelow(random, 50)}`;
  const index = log.size;
  const actions = { read: 's3:GetObject', delete: 's3:DeleteObject', tag: 's3:PutObjectTagging' };
  const action = (actions as Record<string, string>)[kind] ?? 's3:PutObject';
  const of = bucketTenant === tenant ? null : bucketTenant;
  const draft = { action, tenant, principal: 'alice', bucket, bucketTenant: of, key };
  const origin = {
    evidence: 'none',
    bytesIn: 0,
    bytesOut: 0,
    requestId: 'R',
    source: 's',
  } as const;
  const error = kind === 'refused' ? 'AccessDenied' : null;
  const status = error ? 403 : 200;
  const seal = { index, timeMs: index, storedBytes: 0, storedObjects: 0, cost: null };
  await log.append(
    { ...draft, ...origin, status, error },
    {
      ...seal,
      ...(kind === 'put' && { makesVersion: true }),
      ...(kind === 'delete' && { supersededSeq: 0 }),
      ...(kind === 'tag' && { amended: { seq: 0, attributes: 'x' } }),
    },
  );
  const isChange = ['put', 'delete', 'tag'].includes(kind);
  if (isChange) made.push({ index, tenant: of ?? tenant, bucket, key });
}

async function appendMany(count: number): Promise<void> {
  db.exec('BEGIN');
  for (let i = 0; i < count; i++) await append();
  await log.flush();
  db.exec('COMMIT');
}

function open(read: Reader = db.tx): ChangeLog {
  const onAltered = (index: number) => void found.push(index);
  const search = new RecordSearch({ read: db.tx, store: records, index: null, onAltered });
  return new ChangeLog({ read, records, search, onAltered });
}

function expected({ tenant, bucket, prefix, after }: Omit<ChangeQuery, 'limit'>): number[] {
  return made
    .filter((one) => one.tenant === tenant && one.index > after)
    .filter((one) => bucket === undefined || one.bucket === bucket)
    .filter((one) => one.key.startsWith(prefix))
    .map(({ index }) => index);
}

async function readAll(changes: ChangeLog, query: Omit<ChangeQuery, 'limit'>) {
  const told: number[] = [];
  const altered: number[] = [];
  for (let after = query.after; ; ) {
    const limit = 1 + randomBelow(random, 300);
    const page = await changes.read({ ...query, after, limit });
    expect(page.changes.length).toBeLessThanOrEqual(limit);
    expect(page.through).toBeGreaterThanOrEqual(after);
    told.push(...page.changes.map(({ index }) => index));
    altered.push(...page.altered);
    // What comes while it is read may come with it.
    if (page.isEnd) return { told, altered };
    expect(page.through).toBeGreaterThan(after);
    after = page.through;
  }
}

beforeAll(async () => {
  db.exec(schema);
  log = await RecordLog.open(db.tx);
  records = new RecordStore(db.tx, async () => Buffer.alloc(0));
  await appendMany(9000);
});
afterAll(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

it('tells exactly what was changed, from any cursor, to many, while the log grows', async () => {
  const changes = open();
  for (let round = 0; round < 30; round++) {
    const queries = Array.from({ length: 5 }, () => ({
      tenant: randomOf(random, ['cms', 'atlas', 'nobody']),
      bucket: randomOf(random, [undefined, 'raw', 'out']),
      prefix: randomOf(random, ['', 'a/', 'b/1', 'zz']),
      after: randomOf(random, [-1, log.size - 1 - randomBelow(random, 4000)]),
    }));
    const all = await Promise.all(queries.map((query) => readAll(changes, query)));
    for (const [i, { told, altered }] of all.entries()) {
      expect(told).toEqual(expected(queries[i] as ChangeQuery));
      expect(altered).toEqual([]);
    }
    await appendMany(randomOf(random, [1, 10, 700]));
  }
  changes.close();
});

const { signal } = new AbortController();

it('wakes those whom a change or a right concerns, nobody else, and all at the end', async () => {
  const changes = open();
  const all = { tenant: 'cms', bucket: undefined, prefix: '' };
  const at = await changes.newest();
  await changes.read({ ...all, after: at, limit: 1 });
  const wait = (of: object, scopes: string[], after = at) =>
    changes.waitPast({ ...all, after, ...of }, scopes, 60_000, signal);
  const before = made.length;
  const quiet = wait({ tenant: 'nobody' }, ['nobody', 'bucket:nobody/x']);
  const elsewhere = wait({ bucket: 'out', prefix: 'none/' }, ['cms']);
  const later = wait({}, ['other'], at + 1000);
  const waits = [wait({}, []), wait({ bucket: 'raw', prefix: 'a/' }, [])];
  for (const of of ['', 'a/']) {
    const fitting = ({ tenant, bucket, key }: Made) =>
      tenant === 'cms' && key.startsWith(of) && (of === '' || bucket === 'raw');
    while (!made.slice(before).some(fitting)) await appendMany(1);
  }
  for (const through of await Promise.all(waits)) {
    expect(through).toBeGreaterThanOrEqual(at);
    expect(through).toBeLessThan(log.size);
  }
  // There is nothing for the others, and they are past that.
  expect(changes.followers).toBe(3);
  changes.wakeOf('elsewhere');
  expect(changes.followers).toBe(3);
  changes.wakeOf('cms');
  const passed = (await elsewhere) as number;
  expect(passed).toBeGreaterThanOrEqual(made[before]?.index ?? 0);
  expect(changes.followers).toBe(2);
  changes.close();
  expect(await Promise.all([quiet, later])).toEqual([null, null]);
  expect(await wait({}, [], at + 5000)).toBeNull();
  const gone = new AbortController();
  const left = open().waitPast({ ...all, after: log.size }, [], 60_000, gone.signal);
  gone.abort();
  await left;
});

it('gathers for those of a tenant together, and ends with the gateway', async () => {
  const changes = open();
  const gathered = ['cms', 'cms', 'atlas'].map((one) => changes.gather(one, 60_000, signal));
  expect(changes.followers).toBe(3);
  changes.close();
  await Promise.all(gathered);
  expect(changes.followers).toBe(0);
});

it('reads what is new once for all who ask meanwhile', async () => {
  let reads = 0;
  const changes = open({
    ...db.tx,
    get: (sql, ...values) => {
      reads += 1;
      return db.tx.get(sql, ...values);
    },
  });
  const query = { tenant: 'cms', bucket: undefined, prefix: '', after: log.size - 1, limit: 10 };
  await changes.read(query);
  await appendMany(5);
  const first = changes.read(query);
  const others = Array.from({ length: 600 }, () => changes.read(query));
  const [page, ...pages] = await Promise.all([first, ...others]);
  for (const one of pages) expect(one).toEqual(page);
  expect(reads).toBeLessThanOrEqual(4);
});

it.each(['old', 'new'])(
  'says which %s records are not what was recorded, to their tenants',
  async (which) => {
    const changes = open();
    const read = { tenant: 'cms', bucket: undefined, prefix: '', limit: 1 };
    // From here on what is new is in memory.
    await changes.read({ ...read, after: log.size });
    if (which === 'new') await appendMany(100);
    const victim = made.findLast(({ tenant }) => tenant === 'cms') as Made;
    const sql = `UPDATE records SET record = replace(record, '"key"', '"kez"') WHERE idx = ?`;
    await db.tx.run(sql, victim.index);
    const query = { ...read, after: victim.index - 10 };
    if (which === 'new') {
      // Whoever waits for other changes of the tenant is told of it, too.
      const waiting = { ...query, prefix: 'none', after: victim.index - 1 };
      expect(await changes.waitPast(waiting, [], 60_000, signal)).toBe(victim.index - 1);
    }
    const { told, altered } = await readAll(changes, query);
    const others = expected(query).filter((index) => index !== victim.index);
    expect(told).toEqual(others);
    expect(altered).toEqual([victim.index]);
    expect(found).toContain(victim.index);
    const stranger = await readAll(changes, { ...query, tenant: 'nobody' });
    expect(stranger.altered).toEqual([]);
  },
);

it('takes no text of a record for a member of it', () => {
  const record = { action: 's3:PutObject', bucket: 'b', key: '"version":1', index: 1, tenant: 't' };
  expect(changeOf(JSON.stringify(record))).toBeUndefined();
});
