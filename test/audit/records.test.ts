// The records' table: appended in order, and searched by any combination of what is known.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RecordDraft } from '#bursar/audit/record.js';
import { appendRecord, type RecordQuery, searchRecords } from '#bursar/audit/records.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

let db: OpenDatabase;

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
  const seal = { index, timeMs: 1000 * index, storedBytes: 0, storedObjects: 0 };
  await appendRecord(db.tx, draft, seal);
}

async function search(query: Partial<RecordQuery>): Promise<number[]> {
  const { records } = await searchRecords(db.tx, { tenant: 'one', limit: 100, ...query });
  return records.map((record) => JSON.parse(record).index);
}

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
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

  it('have one place in the log each', async () => {
    await expect(append(3)).rejects.toThrow('UNIQUE');
  });
});
