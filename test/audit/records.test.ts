// The records' table: appended in order, and searched by any combination of what is known.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RecordDraft } from '#bursar/audit/record.js';
import { RecordLog } from '#bursar/audit/record-log.js';
import { type RecordQuery, searchRecords } from '#bursar/audit/records.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

let db: OpenDatabase;
let log: RecordLog;

async function append(index: number, more: Partial<RecordDraft> = {}): Promise<void> {
  const draft: RecordDraft = {
    action: 's3:GetObject',
    tenant: 'one',
    principal: 'alice',
    accessKeyId: null,
    evidence: 'none',
    bucket: 'data',
    key: 'k',
    target: null,
    bytesIn: 0,
    bytesOut: 0,
    sizeBytes: null,
    etag: null,
    sha256: null,
    class: null,
    range: null,
    requestId: 'R',
    source: 'a test',
    status: 200,
    error: null,
    ...more,
  };
  const seal = { index, timeMs: 1000 * index, storedBytes: 0, storedObjects: 0, cost: null };
  await log.append(draft, seal);
}

async function appendMany(
  first: number,
  count: number,
  tenant: string,
  bucketTenant: string | null = null,
): Promise<void> {
  db.exec('BEGIN');
  for (let index = first; index < first + count; index++) {
    await append(index, { tenant, bucketTenant });
  }
  await log.flush();
  db.exec('COMMIT');
}

async function search(query: Partial<RecordQuery>): Promise<number[]> {
  const { records } = await searchRecords(db.tx, { tenant: 'one', limit: 100, ...query });
  return records.map((record) => JSON.parse(record).index);
}

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  log = await RecordLog.open(db.tx);
  await append(0);
  await append(1, { tenant: 'two' });
  await append(2, { principal: 'bob', key: 'k/\u{10000}' });
  await append(3, { action: 's3:PutObject', bucket: 'logs', key: 'k0' });
  await append(4, { key: null, bucket: null });
  await append(5, { key: 'k/1' });
});
afterEach(() => db.close());

describe('the records', () => {
  it.each([
    [{}, [0, 2, 3, 4, 5]],
    [{ tenant: null }, [0, 1, 2, 3, 4, 5]],
    [{ tenant: 'three' }, []],
    [{ principal: 'bob' }, [2]],
    [{ bucket: 'data' }, [0, 2, 5]],
    [{ action: 's3:PutObject' }, [3]],
    [{ prefix: 'k/' }, [2, 5]],
    [{ prefix: 'k' }, [0, 2, 3, 5]],
    [{ prefix: '\u{10ffff}' }, []],
    [{ prefix: '' }, [0, 2, 3, 4, 5]],
    [{ fromMs: 2000 }, [2, 3, 4, 5]],
    [{ toMs: 2000 }, [0]],
    [{ fromMs: 2000, toMs: 5000 }, [2, 3, 4]],
    [{ afterIndex: 2 }, [3, 4, 5]],
    [{ bucket: 'data', prefix: 'k/', principal: 'alice', fromMs: 1, toMs: 9000 }, [5]],
  ])('asked for %j are %j', async (query, found) => {
    expect(await search(query)).toEqual(found);
  });

  it('about a bucket of another tenant are found from both sides, in the order of the log', async () => {
    await append(6, { tenant: 'two', bucketTenant: 'one' });
    await append(7, { bucketTenant: 'two' });
    await append(8, { tenant: 'two', principal: 'bob', bucketTenant: 'three' });
    expect(await search({})).toEqual([0, 2, 3, 4, 5, 6, 7]);
    expect(await search({ tenant: 'two' })).toEqual([1, 6, 7, 8]);
    expect(await search({ tenant: 'three' })).toEqual([8]);
    expect(await search({ otherTenant: 'two' })).toEqual([6, 7]);
    expect(await search({ requesterTenant: 'two' })).toEqual([6]);
    expect(await search({ requesterTenant: 'one' })).toEqual([0, 2, 3, 4, 5, 7]);
    // A namesake in another tenant is another one.
    expect(await search({ requesterTenant: 'one', principal: 'bob' })).toEqual([2]);
    const first = await searchRecords(db.tx, { tenant: 'one', limit: 6 });
    expect(first.nextIndex).toBe(6);
    expect(await search({ afterIndex: 6 })).toEqual([7]);
  });

  it('of others about its buckets count among the 10,000 that are looked at of a tenant', async () => {
    await appendMany(6, 10_000, 'two', 'one');
    await appendMany(10_006, 10_000, 'two');
    await append(20_006, { bucket: 'rare' });
    const rare = { tenant: 'one', bucket: 'rare', limit: 100 };
    const first = await searchRecords(db.tx, rare);
    expect(first).toEqual({ records: [], nextIndex: 10_005 });
    const second = await searchRecords(db.tx, { ...rare, afterIndex: 10_005 });
    expect(second.records).toHaveLength(1);
  });

  it('come in pages that join to the whole', async () => {
    const found: number[] = [];
    let afterIndex: number | undefined;
    for (;;) {
      const page = await searchRecords(db.tx, { tenant: 'one', limit: 2, afterIndex });
      found.push(...page.records.map((record) => JSON.parse(record).index));
      if (page.nextIndex === null) break;
      afterIndex = page.nextIndex;
    }
    expect(found).toEqual([0, 2, 3, 4, 5]);
  });

  it('are looked at 10,000 at a time, of the asked tenant: a page can be empty and not the last', async () => {
    await appendMany(6, 10_000, 'two');
    await appendMany(10_006, 10_000, 'one');
    await append(20_006, { bucket: 'rare' });

    const rare = { tenant: 'one', bucket: 'rare', limit: 100 };
    const first = await searchRecords(db.tx, rare);
    // Five of the asked tenant come before the many.
    expect(first).toEqual({ records: [], nextIndex: 10_006 + 9_994 });
    const second = await searchRecords(db.tx, { ...rare, afterIndex: Number(first.nextIndex) });
    expect(second.records.map((record) => JSON.parse(record).index)).toEqual([20_006]);
    expect(second.nextIndex).toBeNull();

    const all = { ...rare, tenant: null };
    expect(await searchRecords(db.tx, all)).toEqual({ records: [], nextIndex: 9_999 });
    expect((await searchRecords(db.tx, { ...all, afterIndex: 9_999 })).nextIndex).toBe(19_999);
    expect((await searchRecords(db.tx, { ...all, afterIndex: 10_006 })).nextIndex).toBeNull();
  });

  it('of a time are found at once, wherever they are in the log', async () => {
    await appendMany(6, 30_000, 'two');
    await append(30_006, { bucket: 'late' });
    const late = { tenant: null, bucket: 'late', limit: 100 };
    const since = await searchRecords(db.tx, { ...late, fromMs: 30_006_000 });
    expect(since.records).toHaveLength(1);
    expect(since.nextIndex).toBeNull();
    const before = await searchRecords(db.tx, { ...late, fromMs: 6000, toMs: 9_000_000 });
    expect(before).toEqual({ records: [], nextIndex: null });
    expect(await search({ fromMs: 40_000_000 })).toEqual([]);
    expect(await search({ toMs: 0 })).toEqual([]);
  });

  it('have one place in the log each', async () => {
    await expect(append(3)).rejects.toThrow('record 3 cannot be leaf 6');
  });
});
