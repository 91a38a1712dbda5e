// The index of objects by itself: it leads to all that fit a query, in the order of keys, whatever
// was put, changed and removed before; and nothing stays in it of what an object said before.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { compareText } from '#bursar/core/text-order.js';
import { CandidateReader } from '#bursar/search/candidates.js';
import { type Described, Facts, fits } from '#bursar/search/facts.js';
import { ObjectIndexWriter, type ObjectNow } from '#bursar/search/object-index.js';
import { spanOf } from '#bursar/search/plan.js';
import { postingsOf } from '#bursar/search/postings.js';
import { parseQuery, type Query } from '#bursar/search/query.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { nowMs, randomQuery, randomVersion } from './random-queries.ts';

const folder = mkdtempSync(join(tmpdir(), 'bursar-objects-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

async function openIndex(metadata: 'all' | readonly string[] = 'all') {
  const path = join(folder, `${files++}.db`);
  const writer = await ObjectIndexWriter.open(path, metadata, async () => true);
  const put = async (versions: readonly (readonly [string, Described | undefined])[]) => {
    await writer.write(async () => {
      const now = versions.map(([key, version]): [string, ObjectNow] => {
        const row = version && { ...version, bucketId: 1, isMarker: 0 };
        return [key, { bucketId: 1, key, version: row }];
      });
      await writer.put([...new Map(now).values()]);
      return { through: 0, commitment: null, scan: null };
    });
  };
  return { path, writer, put, reader: new CandidateReader(path, metadata) };
}

/** All that the index leads to, page by page; null: to nothing. */
async function candidatesOf(reader: CandidateReader, query: Query, max: number) {
  const { from, below } = spanOf(query);
  const all: string[] = [];
  for (let at = { from, exclusive: false }; ; ) {
    const found = await reader.find({ bucketId: 1, query, below, max, isBlind: false, ...at });
    if (!found) return null;
    all.push(...found.keys);
    if (found.through === null) return all;
    expect(found.keys.at(-1)).toBe(found.through);
    at = { from: found.through, exclusive: true };
  }
}

describe('the index of objects', () => {
  it.each([1, 2, 3, 4])('leads to all that fit, after random changes (%i)', async (seed) => {
    const random = seededRandom(seed);
    const { path, put, reader } = await openIndex(seed === 4 ? ['run'] : 'all');
    const metadata = seed === 4 ? ['run'] : 'all';
    const model = new Map<string, Described>();
    let led = 0;
    for (let round = 0; round < 12; round++) {
      const changes: [string, Described | undefined][] = [];
      for (let i = 0; i < 40; i++) {
        const key = `k${randomBelow(random, 150)}`;
        const version = randomBelow(random, 4) > 0 ? randomVersion(random, key) : undefined;
        changes.push([key, version]);
        if (version) model.set(key, version);
        else model.delete(key);
      }
      await put(changes);
      for (let i = 0; i < 60; i++) {
        const asked = randomQuery(random);
        if (!asked) continue;
        const found = await candidatesOf(reader, asked.query, 1 + randomBelow(random, 40));
        if (!found) continue;
        led++;
        expect(found, asked.text).toEqual([...new Set(found)].sort(compareText));
        const fitting = [...model.values()].filter((one) => fits(asked.query, new Facts(one)));
        const missed = fitting.map(({ key }) => key).filter((key) => !found.includes(key));
        expect(missed, asked.text).toEqual([]);
      }
    }
    expect(led).toBeGreaterThan(200);
    using db = openDatabase(path, { readonly: true, cacheKib: 1024 });
    const { count } = (await db.tx.get<{ count: number }>(
      'SELECT count(*) AS count FROM postings',
    )) as { count: number };
    const wanted = [...model.values()].map((one) => postingsOf(one, metadata).length);
    expect(count).toBe(wanted.reduce((sum, one) => sum + one, 0));
  });

  it('asks both of two tags, and of a range no more than it leaves', async () => {
    const { put, reader } = await openIndex();
    const version = (i: number): Described => ({
      ...{ key: `k${String(i).padStart(5, '0')}`, sizeBytes: i, etag: 'e', sha256: null },
      ...{ class: 'STANDARD', owner: 'alice', createdMs: nowMs },
      attributes: JSON.stringify({
        ...{ headers: {}, metadata: {} },
        tags: [
          ['a', String(i % 2)],
          ['b', String(i % 50)],
        ],
      }),
    });
    await put(Array.from({ length: 2000 }, (_, i) => [version(i).key, version(i)]));
    const two = parseQuery('tag.a = "0" and tag.b = "10"', nowMs);
    const keys = Array.from({ length: 40 }, (_, i) => version(10 + 50 * i).key);
    expect(await candidatesOf(reader, two, 7)).toEqual(keys);
    const few = parseQuery('tag.a = "0" and size >= 1990', nowMs);
    expect(await candidatesOf(reader, few, 1000)).toHaveLength(5);
    const none = parseQuery('tag.a = "0" and tag.c = "1"', nowMs);
    expect(await candidatesOf(reader, none, 1000)).toEqual([]);
  });

  it('gives hundreds of keys at once, however many ranges they are in', async () => {
    const { put, reader } = await openIndex();
    const version = (i: number) => {
      const attributes = JSON.stringify({ headers: {}, metadata: { pad: String(i) }, tags: [] });
      const key = `k${String(i).padStart(5, '0')}`;
      return { ...randomVersion(seededRandom(1), key), attributes };
    };
    await put(Array.from({ length: 1100 }, (_, i) => [version(i).key, version(i)]));
    const ranges = (count: number) =>
      parseQuery(Array.from({ length: count }, (_, i) => `meta.pad >= -${i}`).join(' or '), nowMs);
    const asked = {
      bucketId: 1,
      from: '',
      below: null,
      exclusive: false,
      max: 1000,
      isBlind: false,
    };
    expect((await reader.find({ ...asked, query: ranges(22) }))?.keys).toHaveLength(1000);
    // Who may not know how many there are is led by no range.
    expect(await reader.find({ ...asked, query: ranges(1), isBlind: true })).toBeNull();
    // What would be sorted for each page is bounded for all ranges together.
    expect(await candidatesOf(reader, ranges(50), 1000)).toBeNull();
    const same = parseQuery(Array.from({ length: 50 }, () => 'size >= 0').join(' or '), nowMs);
    const found = await reader.find({ ...asked, query: same });
    expect([found?.keys.length, found?.plan.any.length]).toEqual([1000, 1]);
  });

  it('does not lead by metadata that is not indexed', async () => {
    const { put, reader } = await openIndex(['run']);
    await put([['k', randomVersion(seededRandom(9), 'k')]]);
    const find = (text: string) => candidatesOf(reader, parseQuery(text, nowMs), 10);
    expect(await find('meta.run exists')).not.toBeNull();
    expect(await find('meta.taken exists')).toBeNull();
  });

  it('is not used before all objects are in it, and begun anew for other metadata', async () => {
    const { path, writer, put, reader } = await openIndex();
    await put([['k', randomVersion(seededRandom(9), 'k')]]);
    const query = parseQuery('size >= 0', nowMs);
    expect(await candidatesOf(reader, query, 10)).toEqual(['k']);
    writer.close();
    const other = await ObjectIndexWriter.open(path, ['run'], async () => true);
    expect(await other.state()).toMatchObject({ through: 0, scan: { bucketId: 0, key: '' } });
    other.close();
    const again = new CandidateReader(path, ['run']);
    expect(await candidatesOf(again, query, 10)).toBeNull();
    again.close();
  });
});
