// What the cache of buckets gives is never older than the last change that was answered, and what it
// keeps is bounded.
import { expect, it } from 'vitest';
import { BucketCache } from '#bursar/catalog/bucket-cache.js';
import type { Reader } from '#bursar/core/database.js';

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
  const cache = new BucketCache(read as unknown as Reader);
  const slow = cache.find('cms', 'raw');
  stored = { name: 'raw', policy: 'new', ...unset };
  cache.forget('cms', 'raw');
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
  const cache = new BucketCache(read as unknown as Reader);
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
  for (let i = 0; i < 1000; i++) cache.forget('cms', `bucket-${i}`);
  await findAll(100);
  expect(await findAll(100)).toBe(0);
});
