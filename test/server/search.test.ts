// The search index is begun when it is worth its thread, and not again before the next start.
import { existsSync } from 'node:fs';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { blockWidth } from '#bursar/audit/search/positions.js';
import { openSearch } from '#bursar/server/search.js';
import { SearchLog } from '../audit/search/search-log.ts';

let log: SearchLog;
const warnings: string[] = [];

beforeEach(() => {
  log = new SearchLog();
});
afterEach(() => log.close());

function open(): ReturnType<typeof openSearch> {
  return openSearch({
    folder: { path: log.folder, databaseFile: log.logPath },
    read: log.db.tx,
    records: log.store,
    readPart: async () => Buffer.alloc(0),
    log: { warn: (text) => warnings.push(text) },
  });
}

it('finds records without an index until there is a whole block, and then with it', async () => {
  await log.append([{ key: 'first' }]);
  const { search, close } = await open();
  const find = async () => (await search.find({ tenant: null, prefix: 'first', limit: 9 })).records;
  expect(await find()).toHaveLength(1);
  expect(existsSync(log.indexPath)).toBe(false);
  await log.fill(blockWidth);
  await vi.waitFor(async () => expect(await search.countBehind()).toBe(0), { timeout: 20_000 });
  expect(await find()).toHaveLength(1);
  await close();
});

it('goes on at once with an index that is there', async () => {
  await log.fill(blockWidth);
  await log.index();
  await log.append([{}]);
  const { search, close } = await open();
  expect(await search.countBehind()).toBe(1);
  await close();
});
