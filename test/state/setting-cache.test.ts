// Settings in memory: read and parsed once, also that there is none, until they are changed.
import { beforeEach, expect, it } from 'vitest';
import type { Reader } from '#bursar/core/database.js';
import { SettingCache } from '#bursar/state/setting-cache.js';

/** By bucket. */
let documents: Map<number, string>;
let reads: number;
let parsed: string[];
let cache: SettingCache<string[]>;

const followed = { index: 0 };

/** Tells the cache of a change of the setting, as the feed does. */
function tellOf(bucketId: number): void {
  cache.apply({ kind: 'setting', bucketId, name: 'lifecycle' }, followed.index + 1);
  followed.index += 1;
}

beforeEach(() => {
  [documents, reads, parsed] = [new Map(), 0, []];
  const get = async (_: string, bucketId: number) => {
    reads++;
    const document = documents.get(bucketId);
    return document === undefined ? undefined : { document };
  };
  const parse = (document: string) => {
    parsed.push(document);
    return document.split(' ');
  };
  const state = { read: { get } as unknown as Reader, followed };
  cache = new SettingCache('lifecycle', parse, state);
});

it('is read and parsed once, and then there at once', async () => {
  documents.set(1, 'a b');
  expect(await cache.find(1)).toEqual(['a', 'b']);
  expect(cache.find(1)).toEqual(['a', 'b']);
  expect(await cache.find(2)).toBeNull();
  expect(cache.find(2)).toBeNull();
  expect([reads, parsed]).toEqual([2, ['a b']]);
  expect([cache.hits, cache.misses, cache.entries]).toEqual([2, 2, 2]);
});

it('is what it was set to once it is told', async () => {
  expect(await cache.find(1)).toBeNull();
  documents.set(1, 'new');
  tellOf(1);
  expect(await cache.find(1)).toEqual(['new']);
  documents.delete(1);
  tellOf(1);
  expect(await cache.find(1)).toBeNull();
});

it('is not kept as it was before a change that came while it was read', async () => {
  documents.set(1, 'old');
  const found = cache.find(1);
  documents.set(1, 'new');
  tellOf(1);
  expect(await found).toEqual(['old']);
  expect(await cache.find(1)).toEqual(['new']);
});

it('does not grow beyond its bound, however large documents are', async () => {
  const large = 'x'.repeat(1024 * 1024);
  for (let id = 1; id <= 10; id++) documents.set(id, large);
  for (let id = 1; id <= 10; id++) await cache.find(id);
  expect(cache.find(10)).toEqual([large]);
  expect(cache.find(1)).toBeInstanceOf(Promise);
});

it('is pushed out by no other that is set again and again', async () => {
  documents.set(1, 'kept');
  await cache.find(1);
  documents.set(2, 'x'.repeat(1024 * 1024));
  for (let times = 0; times < 20; times++) {
    await cache.find(2);
    tellOf(2);
  }
  expect(cache.find(1)).toEqual(['kept']);
});
