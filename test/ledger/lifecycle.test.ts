// What lifecycle rules end: decided in the ledger's transaction, found by a walk in small slices.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type LifecycleRule, readLifecycle } from '#bursar/catalog/lifecycle.js';
import type { LifecyclePlace } from '#bursar/catalog/lifecycle-due.js';
import type { Amendment } from '#bursar/catalog/version-changes.js';
import { Refusal } from '#bursar/core/errors.js';
import { newUploadId } from '#bursar/core/ids.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import type { CommitResult, Maintenance } from '#bursar/ledger/commit.js';
import { type LifecycleOptions, LifecycleWorker } from '#bursar/ledger/lifecycle-worker.js';
import { SettingCache } from '#bursar/state/setting-cache.js';
import { commitOf, deleteOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

type EndDue = Extract<Maintenance, { kind: 'endDue' }>;

const book = 'aws-us-east-1-2026';
const calendarDayMs = 86_400_000;
const past = { dateMs: Date.UTC(2020, 0, 1) };

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(async () => {
  await fixture.close();
});

async function commit(change: Change, key: string | null = null): Promise<CommitResult> {
  const result = await fixture.ledger.commit(commitOf(change, key));
  expect(result).toMatchObject({ ok: true });
  return result;
}

async function put(key: string): Promise<number> {
  const result = await fixture.ledger.commit(putOf(key));
  expect(result).toMatchObject({ ok: true });
  return result.index as number;
}

function setRules(...rules: Partial<LifecycleRule>[]): Promise<CommitResult> {
  const whole = rules.map((rule, i) => ({ id: `r${i}`, isEnabled: true, filter: {}, ...rule }));
  const document = JSON.stringify({ rules: whole, transitionMinimum: 'varies_by_storage_class' });
  return commit({ kind: 'putBucketSetting', bucketId: 1, name: 'lifecycle', document });
}

const setVersioning = (versioning: 'Enabled' | 'Suspended') =>
  commit({ kind: 'setVersioning', bucketId: 1, versioning });

const amend = (key: string, amendment: Amendment, versionId?: string) =>
  commit({ kind: 'amendVersion', bucketId: 1, key, amendment, versionId }, key);

/** Gives how many were ended. */
function endDue(places: LifecyclePlace[], dayMs = calendarDayMs): Promise<number> {
  return fixture.ledger.maintain({ kind: 'endDue', bucketId: 1, places, dayMs, book });
}

/** Until days of a millisecond have passed. */
const aDay = () => new Promise((resolve) => setTimeout(resolve, 5));

interface Row {
  key: string;
  seq: number;
  isMarker: number;
  versionId: string | null;
}

function rowsOf(table: 'versions' | 'noncurrent_versions'): Promise<Row[]> {
  return fixture.read.all<Row>(
    `SELECT key, seq, is_marker AS isMarker, version_id AS versionId FROM ${table}
       ORDER BY key, seq DESC`,
  );
}

async function keysOf(table: 'versions' | 'noncurrent_versions'): Promise<string[]> {
  return (await rowsOf(table)).map(({ key, isMarker }) => (isMarker ? `${key} (marker)` : key));
}

interface Ended {
  action: string;
  key: string;
  status: number;
  error?: string;
}

/** The records of what rules did. */
async function ends(): Promise<Ended[]> {
  const rows = await fixture.read.all<{ record: string }>('SELECT record FROM records');
  return rows
    .map(({ record }) => JSON.parse(record))
    .filter(({ source }) => source === 'bursar serve');
}

async function stored(): Promise<{ bytes: number; objects: number } | undefined> {
  return fixture.read.get(
    `SELECT used_stored_bytes AS bytes, used_stored_objects AS objects FROM quota_accounts
       WHERE account = 'bucket:one/data'`,
  );
}

describe('what is due', () => {
  it('ends with a record in the owner’s name, and is not counted as stored any more', async () => {
    const seq = await put('a');
    await setRules({ id: 'old things', expiration: past });
    expect(await endDue([{ key: 'a', seq }])).toBe(1);
    expect(await keysOf('versions')).toEqual([]);
    expect(await ends()).toMatchObject([
      {
        ...{
          action: 's3:ExpireObject',
          tenant: 'one',
          principal: 'alice',
          bucket: 'data',
          key: 'a',
        },
        ...{ change: { rule: 'old things' }, cost: '0.00', status: 204, supersedes: seq },
        ...{ storedBytes: -10, storedObjects: -1, bucketOwner: 'alice' },
      },
    ]);
  });

  it('ends once, however often it is asked for and by however many rules', async () => {
    const place = { key: 'a', seq: await put('a') };
    await setRules({ expiration: past }, { expiration: { days: 1 } });
    expect(await endDue([place, place], 1)).toBe(1);
    expect(await endDue([place], 1)).toBe(0);
    expect(await ends()).toHaveLength(1);
  });

  it('ends whatever limits say', async () => {
    const place = { key: 'a', seq: await put('a') };
    await setRules({ expiration: past });
    for (const account of ['bucket:one/data', 'principal:one/alice', 'tenant:one']) {
      const limits = { spend: { total: '0' }, requests: { day: 0 }, storedBytes: { total: 0 } };
      await commit({ kind: 'setLimits', account, limits });
    }
    expect(await endDue([place])).toBe(1);
  });

  it('is not what is too young', async () => {
    const place = { key: 'a', seq: await put('a') };
    await setRules({ expiration: { days: 1 } });
    expect(await endDue([place])).toBe(0);
    await aDay();
    expect(await endDue([place], 1)).toBe(1);
  });

  it('is not what was put, tagged, deleted or freed of rules meanwhile', async () => {
    const filter = { tags: [['kind', 'scratch'] as const] };
    const place = { key: 'a', seq: await put('a') };
    await amend('a', { tags: [['kind', 'scratch']] });
    await setRules({ expiration: past, filter });
    await amend('a', { tags: [['kind', 'kept']] });
    expect(await endDue([place])).toBe(0);
    await amend('a', { tags: [['kind', 'scratch']] });
    await commit({ kind: 'putBucketSetting', bucketId: 1, name: 'lifecycle', document: null });
    expect(await endDue([place])).toBe(0);
    await setRules({ expiration: past, filter, isEnabled: false });
    expect(await endDue([place])).toBe(0);
    await setRules({ expiration: past, filter });
    await put('a');
    expect(await endDue([place])).toBe(0);
    await fixture.ledger.commit(deleteOf('a'));
    expect(await endDue([place])).toBe(0);
    expect(await ends()).toEqual([]);
  });

  it('is not what somebody made look due in the database', async () => {
    const place = { key: 'a', seq: await put('a') };
    const good = { key: 'b', seq: await put('b') };
    await setRules({ expiration: { days: 1 } });
    fixture.edit('UPDATE versions SET created_ms = 0');
    expect(await endDue([place, good])).toBe(0);
    expect(await keysOf('versions')).toEqual(['a', 'b']);
    expect(fixture.failures).toEqual([]);
  });
});

describe('in a bucket with versioning', () => {
  it('an object goes under a marker, then for good, then the marker goes, too', async () => {
    await setVersioning('Enabled');
    const seq = await put('a');
    await setRules({ expiration: { days: 1 }, noncurrent: { days: 1 } });
    await aDay();
    expect(await endDue([{ key: 'a', seq }], 1)).toBe(1);
    expect(await keysOf('versions')).toEqual(['a (marker)']);
    expect(await keysOf('noncurrent_versions')).toEqual(['a']);
    const [marker] = await rowsOf('versions');
    const places = [
      { key: 'a', seq: marker?.seq ?? 0 },
      { key: 'a', seq },
    ];
    await aDay();
    // The marker is not alone yet.
    expect(await endDue(places, 1)).toBe(1);
    expect(await keysOf('noncurrent_versions')).toEqual([]);
    expect(await endDue(places, 1)).toBe(1);
    expect(await keysOf('versions')).toEqual([]);
    expect((await ends()).map(({ action }) => action)).toEqual([
      ...['s3:CreateDeleteMarker', 's3:ExpireObject', 's3:ExpireObject'],
    ]);
    expect(await stored()).toEqual({ bytes: 0, objects: 0 });
    await commit({ kind: 'deleteBucket', bucketId: 1 });
  });

  it('a marker that is alone goes at once where a rule says so, others stay', async () => {
    await setVersioning('Enabled');
    await put('hidden');
    for (const key of ['alone', 'hidden']) await fixture.ledger.commit(deleteOf(key));
    await setRules({ expiration: { loneMarkers: true } });
    const places = (await rowsOf('versions')).map(({ key, seq }) => ({ key, seq }));
    expect(await endDue(places)).toBe(1);
    expect(await keysOf('versions')).toEqual(['hidden (marker)']);
  });

  it('suspended an object goes under the null marker, the null version for good', async () => {
    await put('a');
    await setVersioning('Enabled');
    await setVersioning('Suspended');
    await setRules({ expiration: past });
    const [row] = await rowsOf('versions');
    expect(await endDue([{ key: 'a', seq: row?.seq ?? 0 }])).toBe(1);
    expect(await rowsOf('versions')).toMatchObject([{ key: 'a', isMarker: 1, versionId: null }]);
    expect(await keysOf('noncurrent_versions')).toEqual([]);
    expect(await stored()).toEqual({ bytes: 0, objects: 0 });
  });

  it('the newest noncurrent versions stay, as many as the rule says', async () => {
    await setVersioning('Enabled');
    const seqs: number[] = [];
    for (let i = 0; i < 6; i++) seqs.push(await put('a'));
    await setRules({ noncurrent: { days: 1, newerVersions: 2 } });
    await aDay();
    const places = seqs.map((seq) => ({ key: 'a', seq }));
    expect(await endDue(places, 1)).toBe(3);
    expect((await rowsOf('noncurrent_versions')).map(({ seq }) => seq)).toEqual([seqs[4], seqs[3]]);
    expect((await rowsOf('versions')).map(({ seq }) => seq)).toEqual([seqs[5]]);
    expect(await stored()).toEqual({ bytes: 30, objects: 3 });
  });

  it('what became current again, since the marker over it was deleted, stays', async () => {
    await setVersioning('Enabled');
    const place = { key: 'a', seq: await put('a') };
    await fixture.ledger.commit(deleteOf('a'));
    await setRules({ noncurrent: { days: 1 } });
    const [marker] = await rowsOf('versions');
    const conditions = { ifMatch: null, ifNoneMatch: null };
    const versionId = marker?.versionId ?? '';
    await commit({ kind: 'deleteObject', bucketId: 1, key: 'a', versionId, conditions });
    await aDay();
    expect(await endDue([place], 1)).toBe(0);
    expect(await keysOf('versions')).toEqual(['a']);
  });
});

describe('object lock', () => {
  beforeEach(async () => {
    await commit({ ...deleteBucketOne });
    const lock = { objectLock: true } as const;
    const bucket = { kind: 'createBucket', tenant: 'one', name: 'data', owner: 'alice' } as const;
    await commit({ ...bucket, store: 1, ...lock });
  });
  const deleteBucketOne = { kind: 'deleteBucket', bucketId: 1 } as const;

  it.each([
    ['compliance', { retention: { mode: 'COMPLIANCE', untilMs: Date.UTC(2100, 0, 1) } }],
    ['governance', { retention: { mode: 'GOVERNANCE', untilMs: Date.UTC(2100, 0, 1) } }],
    ['a legal hold', { legalHold: true }],
  ] as [string, Amendment][])('wins over every rule: %s', async (_, amendment) => {
    const [bucket] = await fixture.read.all<{ id: number }>('SELECT id FROM buckets');
    const bucketId = bucket?.id ?? 0;
    const inBucket = (change: object) => commit({ ...change, bucketId } as Change);
    const putIn = async () => {
      const whole = putOf('a');
      const change = { ...whole.change, bucketId } as Change;
      return (await fixture.ledger.commit({ ...whole, change })).index as number;
    };
    const seq = await putIn();
    await inBucket({ kind: 'amendVersion', key: 'a', amendment });
    await putIn();
    const rules = [{ id: 'r', isEnabled: true, filter: {}, noncurrent: { days: 1 } }];
    const document = JSON.stringify({ rules, transitionMinimum: 'varies_by_storage_class' });
    await inBucket({ kind: 'putBucketSetting', name: 'lifecycle', document });
    await aDay();
    const places = [{ key: 'a', seq }];
    const work = { kind: 'endDue', bucketId, places, dayMs: 1, book } as const;
    expect(await fixture.ledger.maintain(work)).toBe(0);
    expect(await keysOf('noncurrent_versions')).toEqual(['a']);
    expect(await ends()).toEqual([]);
    const { read } = fixture;
    const [{ versionId = null } = {}] = await rowsOf('noncurrent_versions');
    if ('legalHold' in amendment) {
      const off = { versionId, amendment: { legalHold: false } };
      await inBucket({ kind: 'amendVersion', key: 'a', ...off });
      expect(await fixture.ledger.maintain(work)).toBe(1);
      expect(await read.all('SELECT 1 FROM noncurrent_versions')).toEqual([]);
    }
  });
});

async function begin(key: string): Promise<string> {
  const id = newUploadId();
  await commit({
    ...{ kind: 'createUpload', id, bucketId: 1, key, initiator: 'one/alice' },
    ...{ class: 'STANDARD', attributes: '{}', epoch: 1 },
  });
  return id;
}

describe('an upload that is not completed', () => {
  it('is aborted when its days have passed, with a record', async () => {
    const uploadId = await begin('a');
    await setRules({ abortDays: 1 });
    expect(await endDue([{ key: 'a', uploadId }])).toBe(0);
    await aDay();
    expect(await endDue([{ key: 'a', uploadId }], 1)).toBe(1);
    expect(await endDue([{ key: 'a', uploadId }], 1)).toBe(0);
    expect(await fixture.read.all('SELECT 1 FROM uploads')).toEqual([]);
    expect(await ends()).toMatchObject([
      { action: 's3:DeleteUpload', key: 'a', target: `uploads/${uploadId}`, status: 204 },
    ]);
  });
});

/** A worker that has asked for nothing yet. */
function workerOf(more: Partial<LifecycleOptions> = {}) {
  const ended: string[] = [];
  const errors: unknown[] = [];
  const { feed } = fixture.ledger;
  const state = { read: fixture.read, followed: { index: 0 } };
  const rules = new SettingCache('lifecycle', readLifecycle, state);
  feed.subscribe({
    apply: ({ index, events }) => {
      for (const event of events) rules.apply(event, index);
      state.followed.index = index;
    },
  });
  const worker = new LifecycleWorker({
    rules,
    read: fixture.read,
    ledger: fixture.ledger,
    dayMs: calendarDayMs,
    admit: () => {},
    bookOf: () => ({ name: book }),
    onMoved: ({ walk, count }) => ended.push(`${count} ${walk} moved`),
    onEnded: ({ walk, count }) => ended.push(`${count} ${walk}`),
    onError: (error) => errors.push(error),
    ...more,
  });
  feed.subscribe(worker);
  return { worker, ended, errors };
}

const columnsBehindSeq = `version_id, is_marker, size, etag, sha256, class, owner, created_ms,
  manifest, attributes, epoch, manifest_mac, row_mac, billed`;

/** Rows as they would be, without what makes them authentic. */
function fill(table: 'versions' | 'noncurrent_versions', count: number, key: string): void {
  const superseded = table === 'versions' ? '' : ', 1, 1';
  fixture.edit(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
       INSERT INTO ${table} SELECT 1, ${key}, 1000 + i, NULL, 0, 10, 'etag', NULL, 'STANDARD',
         'alice', 1, x'', '{}', 1, x'', x'', 10${superseded} FROM n`,
  );
}

describe('the worker', () => {
  it('ends at its start what is due, and at once what new rules make due', async () => {
    for (const key of ['a', 'b', 'c']) await put(key);
    await setRules({ expiration: past, filter: { prefix: 'a' } });
    const { worker, ended, errors } = workerOf();
    worker.start();
    await expect.poll(() => keysOf('versions')).toEqual(['b', 'c']);
    await setRules({ expiration: past, filter: { prefix: 'c' } });
    await expect.poll(() => keysOf('versions')).toEqual(['b']);
    await worker.stop();
    expect(ended).toEqual(['1 current', '1 current']);
    expect(errors).toEqual([]);
  });

  it('leaves of a versioned bucket in one pass nothing that it could have ended', async () => {
    await setVersioning('Enabled');
    for (const key of ['a', 'a', 'b']) await put(key);
    for (const key of ['a', 'b']) await fixture.ledger.commit(deleteOf(key));
    await setRules({ expiration: { loneMarkers: true }, noncurrent: { days: 1 } });
    await aDay();
    let passes = 0;
    let ended: string[] = [];
    const read = { all: fixture.read.all } as LedgerFixture['read'];
    read.get = (sql, ...values) => {
      // On a busy machine another may begin before the worker is stopped.
      const isPass = sql.includes("name = 'lifecycle'") && values[0] === 0;
      if (isPass && ended.length < 2) passes++;
      return fixture.read.get(sql, ...values);
    };
    const { worker, ended: those } = workerOf({ dayMs: 1000, read });
    ended = those;
    // The next pass is a second away then.
    const waitMs = 2010 + 1000 - (Date.now() % 1000);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    worker.start();
    await expect.poll(() => keysOf('versions')).toEqual([]);
    await worker.stop();
    expect(passes).toBe(1);
    expect(ended).toEqual(['3 noncurrent', '2 current']);
  });

  it('walks in slices of at most 100 rows, and asks for at most as many ends', async () => {
    const count = process.env.BURSAR_FULL ? 1_000_000 : 2500;
    fill('versions', count, "printf('k%07d', i)");
    fill('noncurrent_versions', count, "'k0000001'");
    fill('versions', 1, "'other'");
    await setRules(
      { expiration: past, filter: { prefix: 'k', sizeAbove: 10 } },
      { expiration: past, filter: { prefix: `k${'0'.repeat(5)}` } },
      { noncurrent: { days: 1, newerVersions: 100 }, filter: { tags: [['a', 'b']] } },
    );
    const rows: number[] = [];
    const works: EndDue[] = [];
    const keys = new Set<string>();
    const read = { get: fixture.read.get } as LedgerFixture['read'];
    read.all = async <R>(sql: string, ...values: never[]) => {
      const found = await fixture.read.all<R>(sql, ...values);
      rows.push(found.length);
      for (const row of found) keys.add((row as { key: string }).key);
      return found;
    };
    const maintain = async (work: Maintenance) => {
      works.push(work as EndDue);
      return 0;
    };
    const { worker, errors } = workerOf({ read, ledger: { maintain } });
    worker.start();
    const walked = () => rows.reduce((sum, one) => sum + one, 0);
    await expect.poll(walked, { timeout: 300_000 }).toBe(2 * count);
    await worker.stop();
    expect(Math.max(...rows)).toBe(100);
    expect(keys.size).toBe(count);
    expect(Math.max(...works.map(({ places }) => places.length))).toBe(99);
    expect(works.flatMap(({ places }) => places)).toHaveLength(99);
    expect(errors).toEqual([]);
  }, 400_000);

  it('aborts uploads one by one, since each may have very many parts', async () => {
    for (const key of ['a', 'b', 'c']) await begin(key);
    await setRules({ abortDays: 1 });
    const asked: number[] = [];
    const maintain = (work: Maintenance) => {
      asked.push((work as EndDue).places.length);
      return fixture.ledger.maintain(work);
    };
    await aDay();
    const { worker, ended } = workerOf({ dayMs: 1, ledger: { maintain } });
    worker.start();
    await expect.poll(() => fixture.read.all('SELECT id FROM uploads')).toEqual([]);
    await worker.stop();
    expect(asked).toEqual([1, 1, 1]);
    expect(ended).toEqual(['3 uploads']);
  });

  it('goes on with other buckets when one cannot be walked through', async () => {
    const other = { kind: 'createBucket', tenant: 'one', name: 'more', owner: 'alice' } as const;
    await commit({ ...other, store: 2 });
    await put('a');
    await setRules({ expiration: past });
    const document =
      '{"rules":[{"id":"r","isEnabled":true,"filter":{},"expiration":{"dateMs":0}}]}';
    await commit({ kind: 'putBucketSetting', bucketId: 2, name: 'lifecycle', document });
    const whole = putOf('b');
    const change = { ...whole.change, bucketId: 2 } as Change;
    await fixture.ledger.commit({ ...whole, change });
    const admit = (store: number) => {
      if (store === 1) throw new Error('the store is away');
    };
    const { worker, ended, errors } = workerOf({ admit });
    worker.start();
    await expect.poll(() => keysOf('versions')).toEqual(['a']);
    await worker.stop();
    expect(ended).toEqual(['1 current']);
    expect(errors).toEqual([new Error('the store is away')]);
  });

  it('walks through no bucket to its end before others have their turns', async () => {
    const other = { kind: 'createBucket', tenant: 'one', name: 'more', owner: 'alice' } as const;
    await commit({ ...other, store: 1 });
    fill('versions', 1000, "printf('k%04d', i)");
    fixture.edit(`INSERT INTO versions SELECT 2, 'last', seq + 5000, ${columnsBehindSeq}
      FROM versions WHERE key = 'k0001'`);
    const rule = { id: 'r', isEnabled: true, filter: {}, expiration: past };
    const document = JSON.stringify({ rules: [rule] });
    const setting = { kind: 'putBucketSetting', name: 'lifecycle', document } as const;
    for (const bucketId of [1, 2]) await commit({ ...setting, bucketId });
    const buckets: number[] = [];
    const maintain = async (work: Maintenance) => {
      buckets.push((work as EndDue).bucketId);
      return 0;
    };
    const { worker } = workerOf({ ledger: { maintain } });
    worker.start();
    await expect.poll(() => buckets.length).toBe(11);
    await worker.stop();
    expect(buckets).toEqual([1, 2, ...Array(9).fill(1)]);
  });

  it('asks for nothing after it was stopped', async () => {
    await put('a');
    const { worker, ended } = workerOf();
    worker.start();
    await worker.stop();
    await setRules({ expiration: past });
    await aDay();
    expect(ended).toEqual([]);
    expect(await keysOf('versions')).toEqual(['a']);
  });
});

describe('the worker that moves', () => {
  const intoCold = { transitions: [{ dateMs: past.dateMs, class: 'cold' }] };
  const whatever = { sizeAbove: 1 };
  const soon = { timeout: 20_000 };

  it('lets others have their turns where nothing is to be moved', async () => {
    fill('versions', 1000, "printf('k%04d', i)");
    await setRules({ ...intoCold, filter: { sizeAbove: 1000 } });
    let turn = 0;
    const count = setInterval(() => turn++, 0);
    const turns: number[] = [];
    const read = { get: fixture.read.get } as LedgerFixture['read'];
    read.all = (sql, ...values) => {
      if (sql.includes('FROM versions')) turns.push(turn);
      return fixture.read.all(sql, ...values);
    };
    const { worker } = workerOf({ read, move: async () => true });
    worker.start();
    await expect.poll(() => turns.length, soon).toBe(11);
    await worker.stop();
    clearInterval(count);
    expect(new Set(turns).size).toBe(11);
  });

  it('tries what failed again later, and what comes behind it at once', async () => {
    for (let i = 0; i < 20; i++) await put(`k${10 + i}`);
    await setRules({ ...intoCold, filter: whatever });
    const asked: string[] = [];
    const damaged = new Error('it is damaged');
    const move: LifecycleOptions['move'] = async (_, { place: { key } }) => {
      asked.push(key);
      if (key < 'k25') throw damaged;
      return true;
    };
    const { worker, ended, errors } = workerOf({ move });
    worker.start();
    await expect.poll(() => errors, soon).toEqual([damaged]);
    expect(asked).toHaveLength(20);
    expect(ended).toHaveLength(2);
    await setRules({ ...intoCold, filter: { ...whatever, prefix: 'k' } });
    await expect.poll(() => ended.length, soon).toBe(4);
    await worker.stop();
    expect(asked.slice(20)).toEqual(['k25', 'k26', 'k27', 'k28', 'k29']);
    expect(errors).toEqual([damaged]);
  });

  it('ends a walk in which a store is away', async () => {
    for (let i = 0; i < 20; i++) await put(`k${10 + i}`);
    await setRules({ ...intoCold, filter: whatever });
    let asked = 0;
    const away = new Refusal('ServiceUnavailable');
    const move = async () => {
      asked++;
      throw away;
    };
    const { worker, errors } = workerOf({ move });
    worker.start();
    await expect.poll(() => errors, soon).toEqual([away]);
    await worker.stop();
    expect(asked).toBeLessThan(10);
  });

  it('has a large version of one bucket hold up no other', async () => {
    const other = { kind: 'createBucket', tenant: 'one', name: 'more', owner: 'alice' } as const;
    await commit({ ...other, store: 1 });
    fill('versions', 1, "'large'");
    fixture.edit(`INSERT INTO versions SELECT 2, 'last', seq + 5000, ${columnsBehindSeq}
      FROM versions WHERE key = 'large'`);
    const rules = [{ id: 'r', isEnabled: true, filter: whatever, ...intoCold }];
    const setting = { kind: 'putBucketSetting', name: 'lifecycle' } as const;
    const document = JSON.stringify({ rules });
    for (const bucketId of [1, 2]) await commit({ ...setting, document, bucketId });
    const moved: string[] = [];
    const { worker } = workerOf({
      move: async (_, { place: { key } }, stopping) => {
        if (key === 'large') await new Promise((end) => stopping.addEventListener('abort', end));
        else moved.push(key);
        return true;
      },
    });
    worker.start();
    await expect.poll(() => moved, soon).toEqual(['last']);
    await worker.stop();
  });
});
