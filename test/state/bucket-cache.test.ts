// What the cache of buckets gives is never older than the last change that was answered, and what
// it keeps is bounded.
import { expect, it } from 'vitest';
import type { Reader } from '#bursar/core/database.js';
import { BucketCache } from '#bursar/state/bucket-cache.js';

const followed = { index: 0 };

/** Tells the cache of a change of the bucket, as the feed does. */
function tellOf(cache: BucketCache, name: string): void {
  cache.apply({ kind: 'bucket', tenant: 'cms', name }, followed.index + 1);
  followed.index += 1;
}

it('does not keep what was read before a change and came after it', async () => {
  const unset = { objectLock: null, publicAccess: null };
  let stored = { name: 'raw', policy: 'old', ...unset };
  let letGo = () => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const read = {
    get: async () => {
      const row = stored;
      if (row.policy === 'old') await gate;
      return row;
    },
  };
  const cache = new BucketCache(read as unknown as Reader, followed);
  const slow = cache.find('cms', 'raw');
  stored = { name: 'raw', policy: 'new', ...unset };
  tellOf(cache, 'raw');
  letGo();
  expect(await slow).toMatchObject({ policy: 'old' });
  expect(await cache.find('cms', 'raw')).toMatchObject({ policy: 'new' });
});

it('keeps so many buckets only as their policies have room together', async () => {
  const policy = 'x'.repeat(20 * 1024);
  let reads = 0;
  const read = {
    get: async (_sql: string, tenant: string, name: string) => {
      reads += 1;
      return { tenant, name, policy, objectLock: null, publicAccess: null };
    },
  };
  const cache = new BucketCache(read as unknown as Reader, followed);
  const findAll = async (count: number): Promise<number> => {
    const before = reads;
    for (let i = 0; i < count; i++) await cache.find('cms', `bucket-${i}`);
    return reads - before;
  };
  await findAll(100);
  expect(await findAll(100)).toBe(0);
  expect([cache.hits, cache.misses, cache.entries]).toEqual([100, 100, 100]);
  await findAll(1000);
  expect(await findAll(1000)).toBeGreaterThan(800);
  for (let i = 0; i < 1000; i++) tellOf(cache, `bucket-${i}`);
  await findAll(100);
  expect(await findAll(100)).toBe(0);
});

/** Counts reads of a database where the names that begin with `there` are there. */
function countingReader(): { read: Reader; count: () => number } {
  let reads = 0;
  const unset = { policy: null, objectLock: null, publicAccess: null };
  const get = async (_sql: string, tenant: string, name: string) => {
    reads += 1;
    return name.startsWith('there') ? { tenant, name, ...unset } : undefined;
  };
  const count = () => {
    const since = reads;
    reads = 0;
    return since;
  };
  return { read: { get, all: async () => [] } as unknown as Reader, count };
}

it('knows of a name that is not there until a bucket of that name was made', async () => {
  const { read, count } = countingReader();
  const cache = new BucketCache(read, followed);
  await cache.find('cms', 'missing');
  expect(await cache.find('cms', 'missing')).toBeUndefined();
  expect([count(), cache.entries]).toEqual([1, 0]);
  tellOf(cache, 'others');
  await cache.find('cms', 'missing');
  expect(count()).toBe(0);
  tellOf(cache, 'missing');
  await cache.find('cms', 'missing');
  expect(count()).toBe(1);
});

it('reads as often for refusals, whether there is a bucket or not', async () => {
  const { read, count } = countingReader();
  const cache = new BucketCache(read, followed);
  const refuse = async (name: string) => {
    await cache.find('cms', name);
    await cache.levelRefusal('cms', name);
    return count();
  };
  await cache.find('cms', 'there-used');
  count();
  expect([await refuse('there-new'), await refuse('missing')]).toEqual([1, 1]);
  expect([await refuse('there-new'), await refuse('missing')]).toEqual([0, 0]);
  for (let i = 0; i < 10_000; i++) await refuse(`missing-${i}`);
  // Those were pushed out of what is known of refusals, and no bucket out of memory.
  expect([await refuse('there-new'), await refuse('missing')]).toEqual([1, 1]);
  await cache.find('cms', 'there-used');
  await cache.find('cms', 'there-new');
  expect([count(), cache.entries]).toEqual([0, 2]);
});
