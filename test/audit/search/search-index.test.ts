// The index follows the log in a thread of its own, and can be lost, damaged or another log's: it
// is made anew. What was erased is in none of its bytes.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { archiveTile, enterPack } from '#bursar/audit/archive/archived-tiles.js';
import { PackFailure } from '#bursar/audit/archive/pack-failure.js';
import { eraseRecords } from '#bursar/audit/erasure.js';
import { type ReadPart, RecordStore } from '#bursar/audit/record-store.js';
import { Indexer } from '#bursar/audit/search/indexer.js';
import { blockWidth } from '#bursar/audit/search/positions.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { SearchIndexReader } from '#bursar/audit/search/search-index.js';
import { openDatabase } from '#bursar/core/database.js';
import { IntegrityError } from '#bursar/core/errors.js';
import { SearchLog } from './search-log.ts';

vi.setConfig({ testTimeout: 30_000 });

let log: SearchLog;
let failures: string[];
let mended: number[];
let comparingMs: number;

beforeEach(async () => {
  failures = [];
  mended = [];
  comparingMs = 3_600_000;
  log = new SearchLog();
  await log.append([{ principal: 'secret-name', key: 'secret-key/1' }, { key: 'open-key' }]);
  await log.fill(2 * blockWidth);
});
afterEach(() => log.close());

function open(readPart: ReadPart = async () => Buffer.alloc(0)): Promise<Indexer> {
  return Indexer.open({
    ...{ logPath: log.logPath, indexPath: log.indexPath, intervalMs: 10, comparingMs },
    readPart,
    onError: (reason) => failures.push(reason),
    onMended: (block) => mended.push(block),
  });
}

/** Until all whole blocks are indexed. */
async function indexed({ index }: Indexer, records: number): Promise<void> {
  await vi.waitFor(async () => expect(await index.end()).toBe(records), { timeout: 20_000 });
}

async function countOf(index: SearchIndexReader, principal: string): Promise<number> {
  const search = new RecordSearch({ read: log.db.tx, store: log.store, index });
  return (await search.find({ tenant: null, principal, limit: 10 })).records.length;
}

/** Of all files of the index. */
function bytes(): string {
  const files = readdirSync(log.folder).filter((name) => name.startsWith('search.db'));
  return files.map((name) => readFileSync(join(log.folder, name), 'latin1')).join('\n');
}

describe('the search index', () => {
  it('is made of a log that is there, follows it, and goes on where it was', async () => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await log.fill(3 * blockWidth);
    await indexed(first, 3 * blockWidth);
    await first.close();
    await log.fill(4 * blockWidth);
    const second = await open();
    expect(await second.index.end()).toBeGreaterThanOrEqual(3 * blockWidth);
    await indexed(second, 4 * blockWidth);
    await second.close();
    expect(failures).toEqual([]);
  });

  it.each<[string, () => void]>([
    ['deleted', () => rmSync(log.indexPath)],
    ['torn', () => writeFileSync(log.indexPath, readFileSync(log.indexPath).subarray(0, 5000))],
    ['something else', () => writeFileSync(log.indexPath, 'not an index')],
  ])('is made anew when its file is %s', async (_how, damage) => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await first.close();
    damage();
    const second = await open();
    await indexed(second, 2 * blockWidth);
    expect(await countOf(second.index, 'secret-name')).toBe(1);
    await second.close();
  });

  it('is made anew when the log beside it is another', async () => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await first.close();
    const other = new SearchLog();
    await other.append([{ principal: 'somebody-else' }]);
    await other.fill(2 * blockWidth);
    writeFileSync(other.indexPath, readFileSync(log.indexPath));
    await other.index();
    const index = new SearchIndexReader(other.indexPath);
    const search = new RecordSearch({ read: other.db.tx, store: other.store, index });
    const query = { tenant: null, limit: 10 };
    expect((await search.find({ ...query, principal: 'somebody-else' })).records).toHaveLength(1);
    index.close();
    other.close();
  });

  it('is made anew when the log was put back from a backup and is shorter', async () => {
    const shorter = new SearchLog();
    await shorter.append([{ principal: 'alice' }]);
    await log.index();
    writeFileSync(shorter.indexPath, readFileSync(log.indexPath));
    await shorter.index();
    const index = new SearchIndexReader(shorter.indexPath);
    expect(await index.end()).toBe(0);
    index.close();
    shorter.close();
  });

  it('has nothing of what was erased in any byte of its files, and finds all else', async () => {
    const indexer = await open();
    await indexed(indexer, 2 * blockWidth);
    expect(bytes()).toContain('secret-name');
    expect(bytes()).toContain('secret-key');
    log.db.exec('BEGIN');
    const act = { byIndex: 2 * blockWidth, summedEnd: 2 * blockWidth };
    expect(await eraseRecords(log.db.tx, { tenant: 'one', indexes: [0] }, act)).toBeNull();
    log.db.exec('COMMIT');
    // At once, whether the index knows of it or not.
    expect(await countOf(indexer.index, 'secret-name')).toBe(0);
    await vi.waitFor(() => expect(bytes()).not.toMatch(/secret-(name|key)/), { timeout: 20_000 });
    expect(await countOf(indexer.index, 'alice')).toBe(1);
    await indexer.close();
    expect(failures).toEqual([]);
  });

  it('does an erasure that it did not see at its next start', async () => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await first.close();
    log.db.exec('BEGIN');
    const act = { byIndex: 2 * blockWidth, summedEnd: 2 * blockWidth };
    await eraseRecords(log.db.tx, { tenant: 'one', indexes: [0] }, act);
    log.db.exec('COMMIT');
    expect(bytes()).toContain('secret-name');
    const second = await open();
    await vi.waitFor(() => expect(bytes()).not.toMatch(/secret-(name|key)/), { timeout: 20_000 });
    await second.close();
    expect(existsSync(log.indexPath)).toBe(true);
  });

  it('does one in a log that was put back to before another, which it had done', async () => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await first.close();
    const editor = openDatabase(log.indexPath, { readonly: false, cacheKib: 1024 });
    editor.exec(`UPDATE erased SET by_idx = ${3 * blockWidth}`);
    editor.close();
    const second = await open();
    log.db.exec('BEGIN');
    const act = { byIndex: 2 * blockWidth, summedEnd: 2 * blockWidth };
    await eraseRecords(log.db.tx, { tenant: 'one', indexes: [0] }, act);
    log.db.exec('COMMIT');
    await indexed(second, 2 * blockWidth);
    await vi.waitFor(() => expect(bytes()).not.toMatch(/secret-(name|key)/), { timeout: 20_000 });
    await second.close();
  });

  it('opens while the store of the archive does not answer', async () => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await first.close();
    await log.fill(2 * blockWidth + 1);
    await archiveFirst((2 * blockWidth) / 256);
    const second = await Indexer.open({
      ...{ logPath: log.logPath, indexPath: log.indexPath, intervalMs: 10, comparingMs },
      onMended: (block) => mended.push(block),
      readPart: () => Promise.reject(new Error('it is away')),
      onError: (reason) => failures.push(reason),
    });
    expect(await second.index.end()).toBe(2 * blockWidth);
    await second.close();
    expect(failures).toEqual([]);
  });
});

/** So many tiles, in a pack that is nowhere. */
async function archiveFirst(tiles: number): Promise<void> {
  const pack = { first: 0, nonce: Buffer.alloc(16), manifest: Buffer.alloc(0) };
  log.db.exec('BEGIN');
  await enterPack(log.db.tx, { ...pack, ends: Array.from({ length: tiles }, (_, i) => i) });
  for (let tile = 0; tile < tiles; tile++) await archiveTile(log.db.tx, tile);
  log.db.exec('COMMIT');
}

describe('the search index of records whose pack is lost', () => {
  const lost: ReadPart = async (part) => {
    const extent = { id: 'ab', store: { number: 2, name: 'cold' } };
    throw new PackFailure(part, extent, new IntegrityError('', { kind: 'missing' }));
  };

  beforeEach(async () => {
    const first = await open();
    await indexed(first, 2 * blockWidth);
    await first.close();
    await archiveFirst(blockWidth / 256);
  });

  /** What a search answers, or why it fails. */
  function find(principal: string, { index }: Indexer) {
    const store = new RecordStore(log.db.tx, lost);
    const search = new RecordSearch({ read: log.db.tx, store, index });
    const found = search.find({ tenant: null, principal, limit: 10 });
    return found.then(({ records }) => records.length, String);
  }

  it('keeps nothing of what is erased of them, and leads to them', async () => {
    const indexer = await open(lost);
    expect(await find('nobody', indexer)).toBe(0);
    log.db.exec('BEGIN');
    const act = { byIndex: 2 * blockWidth, summedEnd: 2 * blockWidth };
    expect(await eraseRecords(log.db.tx, { tenant: 'one', indexes: [0] }, act)).toBeNull();
    log.db.exec('COMMIT');
    await vi.waitFor(() => expect(bytes()).not.toMatch(/secret-(name|key)/), { timeout: 20_000 });
    expect(await find('nobody', indexer)).toContain('the pack of records 0 to 4095 has lost');
    await indexer.close();
    expect(failures).toEqual([expect.stringContaining('block 0 cannot be read')]);
  });

  it('is made anew with all others in it', async () => {
    await log.append([{ principal: 'somebody' }]);
    await log.fill(3 * blockWidth);
    rmSync(log.indexPath);
    const indexer = await open(lost);
    await indexed(indexer, 3 * blockWidth);
    expect(await find('somebody', indexer)).toContain('the pack of records 0 to 4095 has lost');
    const behind = new RecordSearch({ read: log.db.tx, store: log.store, index: indexer.index });
    const query = { tenant: null, principal: 'somebody', limit: 10, pastIndex: blockWidth - 1 };
    expect((await behind.find(query)).records).toHaveLength(1);
    await indexer.close();
    expect(failures).toEqual([expect.stringContaining('block 0 cannot be read')]);
  });
});

describe('an index that somebody changed', () => {
  function tamper(sql: string): void {
    const db = openDatabase(log.indexPath, { readonly: false, cacheKib: 1024, isDerived: true });
    db.exec(sql);
    db.close();
  }

  /** What an admin of the tenant finds, with what the index led to in vain. */
  async function findAll(tenant: string | null, { index }: Indexer) {
    const search = new RecordSearch({ read: log.db.tx, store: log.store, index: null });
    const doubted: number[] = [];
    search.use({ index, onFalse: (block) => doubted.push(block) });
    const found: { index: number; tenant: string }[] = [];
    let pastIndex: number | undefined;
    for (let next: number | null = -1; next !== null; pastIndex = next ?? undefined) {
      const page = await search.find({ tenant, pastIndex, limit: 1000 });
      found.push(...page.records.map(({ text }) => JSON.parse(String(text))));
      next = page.nextIndex;
    }
    return { found, doubted };
  }

  it('shows a tenant no record of another, and is mended where it led to one', async () => {
    await log.append([{ tenant: 'mine' }, { tenant: 'mine' }]);
    await log.fill(3 * blockWidth);
    const indexer = await open();
    await indexed(indexer, 3 * blockWidth);
    expect((await findAll('mine', indexer)).found).toHaveLength(2);
    tamper(`INSERT OR REPLACE INTO postings
      SELECT 'c:mine', block, places FROM postings WHERE term = 'c:filler'`);
    const { found, doubted } = await findAll('mine', indexer);
    expect(found).toEqual([]);
    expect(doubted.length).toBeGreaterThanOrEqual(3);
    for (const block of doubted) indexer.doubt(block);
    await vi.waitFor(() => expect(mended.toSorted()).toEqual([0, 1, 2]), { timeout: 20_000 });
    const { found: again, doubted: none } = await findAll('mine', indexer);
    expect([again.map(({ tenant }) => tenant), none]).toEqual([['mine', 'mine'], []]);
    await indexer.close();
  });

  it.each([
    ['a term', "DELETE FROM postings WHERE term = 'p:secret-name'"],
    ['a place', "UPDATE postings SET places = x'0500' WHERE term = 'p:secret-name'"],
    ['a key', "DELETE FROM keys WHERE prefix = CAST('secret-key/1' AS BLOB)"],
  ])('and hides %s, is mended when its block is compared', async (_what, sql) => {
    comparingMs = 20;
    const indexer = await open();
    await indexed(indexer, 2 * blockWidth);
    const { index } = indexer;
    const search = new RecordSearch({ read: log.db.tx, store: log.store, index });
    const query = { tenant: null, principal: 'secret-name', prefix: 'secret-key/1', limit: 10 };
    expect((await search.find(query)).records).toHaveLength(1);
    tamper(sql);
    await vi.waitFor(() => expect(mended).toContain(0), { timeout: 20_000 });
    expect((await search.find(query)).records).toHaveLength(1);
    await indexer.close();
    expect([failures, new Set(mended)]).toEqual([[], new Set([0])]);
  });

  it('is not mended where it is what it should be', async () => {
    comparingMs = 1;
    const indexer = await open();
    await indexed(indexer, 2 * blockWidth);
    await new Promise((done) => setTimeout(done, 500));
    await indexer.close();
    expect([failures, mended]).toEqual([[], []]);
  });

  it.each([
    [
      'text',
      "UPDATE records SET record = replace(record, 'secret-name', 'other-name') WHERE idx = 0",
    ],
    ['salt', "UPDATE records SET salt = x'00000000000000000000000000000000' WHERE idx = 0"],
    [
      'place',
      'UPDATE records SET idx = -1 WHERE idx = 0; UPDATE records SET idx = 0 WHERE idx = 1',
    ],
  ])('marks a record whose %s was changed in the log’s database', async (_what, sql) => {
    const indexer = await open();
    await indexed(indexer, 2 * blockWidth);
    const query = { tenant: null, limit: 3 };
    const altered: number[] = [];
    const searching = { read: log.db.tx, store: log.store };
    const onAltered = (one: number) => void altered.push(one);
    const plain = new RecordSearch({ ...searching, index: null, onAltered });
    const search = new RecordSearch({ ...searching, index: indexer.index, onAltered });
    expect((await search.find(query)).records).toHaveLength(3);
    log.db.exec(sql);
    for (const one of [search, plain]) {
      const { records } = await one.find(query);
      expect(records[0]).toEqual({ index: 0, text: null });
      expect(records.slice(1).every(({ text }) => text !== null)).toBe(true);
      expect((await one.find({ ...query, tenant: 'nobody' })).records).toEqual([]);
    }
    expect(new Set(altered)).toEqual(new Set([0]));
    await indexer.close();
  });
});
