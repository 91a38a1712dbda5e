// What the cache of buckets gives is never older than the last change that was answered.
import { expect, it } from 'vitest';
import { BucketCache } from '#bursar/catalog/bucket-cache.js';
import type { Reader } from '#bursar/core/database.js';

it('does not keep what was read before a change and came after it', async () => {
  let stored = { name: 'raw', policy: 'old' };
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
  stored = { name: 'raw', policy: 'new' };
  cache.forget('cms', 'raw');
  letGo();
  expect(await slow).toMatchObject({ policy: 'old' });
  expect(await cache.find('cms', 'raw')).toMatchObject({ policy: 'new' });
});
