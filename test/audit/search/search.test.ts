// Records are found by any combination of what they say, in the index and behind it alike.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RecordDraft } from '#bursar/audit/record.js';
import { blockWidth } from '#bursar/audit/search/positions.js';
import type { RecordQuery } from '#bursar/audit/search/terms.js';
import { SearchLog } from './search-log.ts';

vi.setConfig({ testTimeout: 30_000 });

const native = { tenant: 'five', bucket: null, key: null };
const records: Partial<RecordDraft>[] = [
  {},
  { tenant: 'two' },
  { principal: 'bob', key: 'k/\u{10000}', tokens: ['t1', 't2'], source: '2001:db8::1' },
  { action: 's3:PutObject', bucket: 'logs', key: 'k0', status: 403, error: 'AccessDenied' },
  { key: null, bucket: null },
  { key: 'k/1', tokens: ['t1'] },
  { tenant: 'two', bucketTenant: 'one' },
  { bucketTenant: 'two' },
  { tenant: 'two', principal: 'bob', bucketTenant: 'three' },
  { tenant: 'four', bucket: 'to', key: 'k/2', change: { source: { bucket: 'of', key: 'from/1' } } },
  { ...native, target: 'tenants/five/buckets/raw/snapshots/s' },
  { ...native, target: 'limits/bucket:five/raw' },
  { ...native, target: 'limits/prefix:five/raw/run1/' },
  { ...native, target: 'tenants/five/buckets/raw2' },
];

/** What follows lies in the second block: the index has the first, or also that. */
const first = blockWidth - 4;

describe.each([
  ['behind the index', first + records.length, false],
  ['in the index', 2 * blockWidth, true],
])('records %s', (_where, size, indexed) => {
  const log = new SearchLog();
  beforeAll(async () => {
    await log.fill(first);
    await log.append(records);
    await log.fill(size);
    if (indexed) await log.index();
  });
  afterAll(() => log.close());

  async function find(query: Partial<RecordQuery>): Promise<number[]> {
    const found: number[] = [];
    let pastIndex = query.pastIndex;
    for (;;) {
      const page = await log.search.find({ tenant: 'one', limit: 100, ...query, pastIndex });
      found.push(...page.records.map(({ index }) => index - first));
      if (page.nextIndex === null) return found;
      pastIndex = page.nextIndex;
    }
  }

  /** The same from the newest back. */
  async function findBack(query: Partial<RecordQuery>): Promise<number[]> {
    const found: number[] = [];
    let pastIndex: number | undefined;
    for (;;) {
      const asked = { tenant: 'one', limit: 100, ...query, pastIndex, isNewestFirst: true };
      const page = await log.search.find(asked);
      found.push(...page.records.map(({ index }) => index - first));
      if (page.nextIndex === null) return found;
      pastIndex = page.nextIndex;
    }
  }

  const second = (place: number): number => 1000 * (first + place);

  it.each<[Partial<RecordQuery>, number[]]>([
    [{}, [0, 2, 3, 4, 5, 6, 7]],
    [{ limit: 2 }, [0, 2, 3, 4, 5, 6, 7]],
    [{ tenant: 'two' }, [1, 6, 7, 8]],
    [{ tenant: 'three' }, [8]],
    [{ tenant: 'six' }, []],
    [{ tenant: 'five', bucket: 'raw' }, [10, 11, 12]],
    [{ tenant: 'five', bucket: 'buckets' }, []],
    [{ tenant: 'one', bucket: 'raw' }, []],
    [{ tenant: 'four' }, [9]],
    [{ tenant: 'four', bucket: 'to' }, [9]],
    [{ tenant: 'four', bucket: 'of' }, [9]],
    [{ tenant: 'four', prefix: 'from/' }, [9]],
    [{ tenant: 'four', key: 'from/1' }, [9]],
    [{ tenant: 'four', key: 'from/' }, []],
    [{ tenant: 'four', bucket: 'of', key: 'from/1' }, [9]],
    [{ tenant: 'four', bucket: 'to', key: 'from/1' }, []],
    [{ tenant: 'four', bucket: 'of', prefix: 'k/' }, []],
    [{ key: 'k/1' }, [5]],
    [{ key: 'k' }, [0, 6, 7]],
    [{ key: 'k/' }, []],
    [{ tenant: null, bucket: 'data' }, [0, 1, 2, 5, 6, 7, 8]],
    [{ otherTenant: 'two' }, [6, 7]],
    [{ tenant: 'two', bucketTenant: 'two', isByGuests: true }, [7]],
    [{ bucketTenant: 'one', isByGuests: true }, [6]],
    [{ tenant: null, isByGuests: true }, [6, 7, 8]],
    [{ requesterTenant: 'two' }, [6]],
    [{ requesterTenant: 'one' }, [0, 2, 3, 4, 5, 7]],
    [{ tenant: null, principal: 'bob' }, [2, 8]],
    [{ requesterTenant: 'one', principal: 'bob' }, [2]],
    [{ principal: 'bo' }, []],
    [{ bucket: 'data' }, [0, 2, 5, 6, 7]],
    [{ action: 's3:PutObject' }, [3]],
    [{ status: 403 }, [3]],
    [{ status: 200, bucket: 'logs' }, []],
    [{ token: 't1' }, [2, 5]],
    [{ token: 't2' }, [2]],
    [{ token: 't' }, []],
    [{ source: '2001:db8::1' }, [2]],
    [{ prefix: 'k/' }, [2, 5]],
    [{ prefix: 'k' }, [0, 2, 3, 5, 6, 7]],
    [{ prefix: 'k/1' }, [5]],
    [{ prefix: 'k/1/' }, []],
    [{ prefix: '\u{10ffff}' }, []],
    [{ prefix: '' }, [0, 2, 3, 4, 5, 6, 7]],
    [{ fromMs: second(2) }, [2, 3, 4, 5, 6, 7]],
    [{ toMs: second(2) }, [0]],
    [{ fromMs: second(2), toMs: second(5) }, [2, 3, 4]],
    [{ fromMs: second(0) * 10 }, []],
    [{ toMs: 0 }, []],
    [{ pastIndex: first + 2 }, [3, 4, 5, 6, 7]],
    [{ bucket: 'data', prefix: 'k/', principal: 'alice', token: 't1', fromMs: 1 }, [5]],
  ])('that fit %j are %j', async (query, found) => {
    expect(await find(query)).toEqual(found);
    if (query.pastIndex === undefined) expect(await findBack(query)).toEqual(found.toReversed());
  });
});

describe('a search', () => {
  it('looks at one block behind the index in one call: an empty page may not be last', async () => {
    const log = new SearchLog();
    await log.fill(2 * blockWidth);
    await log.append([{}]);
    const query = { tenant: 'one', limit: 10 };
    const page = await log.search.find(query);
    expect(page).toEqual({ records: [], nextIndex: blockWidth - 1 });
    expect(await log.search.countBehind()).toBe(2 * blockWidth + 1);
    await log.index();
    expect(await log.search.countBehind()).toBe(1);
    const { records: found, nextIndex } = await log.search.find(query);
    expect([found.length, nextIndex]).toEqual([1, null]);
    log.close();
  });

  it('finds what a plain reading of all records finds, whatever is asked', async () => {
    const log = new SearchLog();
    const random = generator(20261121);
    const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
    const letters = ['a', 'b', '/', 'ä', '\ud83d\ude00', '\ud83d\udc4d', '\uffff'];
    const text = (max: number) =>
      Array.from({ length: Math.floor(random() * max) }, () => pick(letters)).join('');
    const made = Array.from({ length: 2 * blockWidth + 700 }, (): Partial<RecordDraft> => {
      const key = `k${text(6)}`;
      const [tenant, other] = [pick(['x', 'y']), pick(['x', 'y', 'z'])];
      return {
        ...{ tenant, principal: pick(['p', 'q', 'r']), action: pick(['s3:A', 's3:B']), key },
        ...{ status: pick([200, 404]), bucketTenant: other === tenant ? null : other },
        ...{ tokens: pick([null, ['j'], ['j', 'l']]), source: pick(['1', '2']) },
      };
    });
    await log.append(made);
    await log.index();
    for (let i = 0; i < 200; i++) {
      const maybe = <T>(...all: T[]): T | undefined => (random() < 0.6 ? undefined : pick(all));
      const query: RecordQuery = {
        ...{ tenant: pick(['x', 'y', 'z', null]), principal: maybe('p', 'q', 'r') },
        ...{ action: maybe('s3:A', 's3:B'), prefix: maybe(`k${text(4)}`), status: maybe(200, 404) },
        ...{ token: maybe('j', 'l'), source: maybe('1', '2') },
        ...{ fromMs: maybe(random() * made.length * 1000), limit: 200 },
      };
      const expected = made.flatMap((one, index) => (isAskedFor(one, index, query) ? index : []));
      const { records: found } = await log.search.find(query);
      const indexes = found.map(({ index }) => index);
      expect(indexes).toEqual(expected.slice(0, indexes.length));
      if (indexes.length < query.limit) expect(indexes).toHaveLength(expected.length);
      const back: number[] = [];
      let pastIndex: number | undefined;
      for (let next: number | null = 0; next !== null; pastIndex = next ?? undefined) {
        const page = await log.search.find({ ...query, isNewestFirst: true, pastIndex });
        back.push(...page.records.map(({ index }) => index));
        next = page.nextIndex;
      }
      expect(back).toEqual(expected.toReversed());
    }
    log.close();
  });
});

function isAskedFor(one: Partial<RecordDraft>, index: number, query: RecordQuery): boolean {
  const { tenant, principal, action, prefix, status, token, source, fromMs } = query;
  if (tenant !== null && one.tenant !== tenant && one.bucketTenant !== tenant) return false;
  if (principal !== undefined && one.principal !== principal) return false;
  if (action !== undefined && one.action !== action) return false;
  if (prefix !== undefined && !one.key?.startsWith(prefix)) return false;
  if (status !== undefined && one.status !== status) return false;
  if (token !== undefined && !one.tokens?.includes(token)) return false;
  if (source !== undefined && one.source !== source) return false;
  return fromMs === undefined || 1000 * index >= fromMs;
}

/** Mulberry32. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
