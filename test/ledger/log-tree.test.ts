// The log's tree under the ledger's thread: whatever is appended, rolled back and opened again, it
// is the tree of the records that are there. Moments are seeded.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { rootOf, tileWidth, widthOfTile } from '#bursar/audit/log/merkle.js';
import { readEntries, readLogSize, storedTiles } from '#bursar/audit/log/stored-tiles.js';
import { RecordLog, readPseudonym } from '#bursar/audit/record-log.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { hashTree, readLeaves, sha256 } from './log-sheet.ts';

vi.setConfig({ testTimeout: 60_000 });

let db: OpenDatabase;
let log: RecordLog;

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 16 * 1024 });
  db.exec(schema);
  log = await RecordLog.open(db.tx);
});
afterEach(() => db.close());

async function append(tenant: string, bucketTenant: string | null = null): Promise<void> {
  const index = log.size;
  const draft = {
    ...{ action: 's3:GetObject', tenant, principal: 'alice', evidence: 'none' as const },
    ...{ bucket: 'data', bucketTenant, key: `k${index}`, bytesIn: 0, bytesOut: 0 },
    ...{ requestId: 'R', source: 'a test', status: 200 },
  };
  const seal = { index, timeMs: 1000, storedBytes: 0, storedObjects: 0, cost: null };
  await log.append(draft, seal);
}

async function commit(count: number, tenant = 'one'): Promise<void> {
  db.exec('BEGIN');
  for (let i = 0; i < count; i++) await append(tenant);
  await log.flush();
  db.exec('COMMIT');
}

/** Tiles of all levels and entries are those of the leaves, in a tree of `size`. */
async function checkTiles(leaves: readonly Buffer[]): Promise<void> {
  const tiles = storedTiles(db.tx);
  const size = leaves.length;
  for (let level = 0; tileWidth ** level <= size; level++) {
    const span = tileWidth ** level;
    for (let index = 0; widthOfTile(level, index, size) > 0; index++) {
      const width = widthOfTile(level, index, size);
      const expected = Array.from({ length: width }, (_, i) => {
        const first = (index * tileWidth + i) * span;
        return hashTree(leaves.slice(first, first + span));
      });
      const tile = Buffer.from(await tiles.readTile(level, index, width));
      expect(tile.equals(Buffer.concat(expected))).toBe(true);
      if (level > 0) continue;
      const entries = await readEntries(db.tx, index, width);
      expect(entries.map((entry) => sha256(Buffer.of(0), entry))).toEqual(expected);
    }
  }
}

describe('the tree', () => {
  it('of no record has the root of no leaf', () => {
    expect(log.size).toBe(0);
    expect(log.root()).toEqual(sha256());
  });

  it('is that of the records after any batches, rollbacks and restarts', async () => {
    const random = seededRandom(20261121);
    let before: Buffer[] = [];
    for (let round = 0; round < 40; round++) {
      const act = randomBelow(random, 4);
      const count =
        randomBelow(random, 5) === 0 ? randomBelow(random, 400) : randomBelow(random, 9);
      db.exec('BEGIN');
      for (let i = 0; i < count; i++) {
        const bucketTenant =
          randomBelow(random, 6) === 0 ? `tenant${randomBelow(random, 5)}` : null;
        await append(`asker${randomBelow(random, 4)}`, bucketTenant);
      }
      const isKept = act > 0;
      if (isKept || randomBelow(random, 2) === 0) await log.flush();
      db.exec(isKept ? 'COMMIT' : 'ROLLBACK');
      if (!isKept) await log.discard();
      if (act === 1) log = await RecordLog.open(db.tx);
      const leaves = await readLeaves(db.tx);
      expect(leaves).toHaveLength(before.length + (isKept ? count : 0));
      expect(sha256(...leaves.slice(0, before.length))).toEqual(sha256(...before));
      expect(log.size).toBe(leaves.length);
      expect(log.root()).toEqual(hashTree(leaves));
      before = leaves;
    }
    await checkTiles(before);
    expect(await rootOf(storedTiles(db.tx), before.length)).toEqual(log.root());
  });

  it.each([255, 256, 257, 512])(
    'of %i records is the same once it is opened again',
    async (size) => {
      await commit(size);
      const leaves = await readLeaves(db.tx);
      expect(log.root()).toEqual(hashTree(leaves));
      log = await RecordLog.open(db.tx);
      expect(log.root()).toEqual(hashTree(leaves));
      await commit(3);
      const more = await readLeaves(db.tx);
      expect(log.root()).toEqual(hashTree(more));
      await checkTiles(more);
    },
  );

  it('of 65,536 records and around has tiles on three levels', async () => {
    for (const count of [65_535, 1, 1]) {
      await commit(count);
      expect((await RecordLog.open(db.tx)).root()).toEqual(log.root());
      expect(await rootOf(storedTiles(db.tx), log.size)).toEqual(log.root());
    }
    expect(log.root()).toEqual(hashTree(await readLeaves(db.tx)));
    const tiles = await db.tx.all('SELECT level, count(*) AS count FROM log_tiles GROUP BY level');
    expect(tiles).toEqual([
      { level: 0, count: 256 },
      { level: 1, count: 1 },
    ]);
    const [root] = await db.tx.all<{ root: Buffer }>('SELECT root FROM log_tiles WHERE level = 1');
    expect(await storedTiles(db.tx).readTile(2, 0, 1)).toEqual(root?.root);
  });

  it('has tiles of the widths that there are, and no others', async () => {
    await commit(300);
    const tiles = storedTiles(db.tx);
    const missing = [
      ...([
        [0, 1, 45],
        [0, 1, 256],
        [0, 2, 1],
        [0, 9, 1],
        [1, 0, 2],
      ] as const),
      ...([
        [1, 1, 1],
        [2, 0, 1],
        [9, 0, 1],
      ] as const),
    ];
    for (const [level, index, width] of missing) {
      await expect(tiles.readTile(level, index, width)).rejects.toThrow('no');
    }
    await expect(readEntries(db.tx, 1, 45)).rejects.toThrow('no 45 entries');
  });

  it('gives a partial tile of before also once the tile is full', async () => {
    await commit(10);
    const tiles = storedTiles(db.tx);
    const partial = await tiles.readTile(0, 0, 10);
    await commit(250);
    expect(await tiles.readTile(0, 0, 10)).toEqual(partial);
  });
});

describe('a record', () => {
  it('that is not the next leaf is not appended', async () => {
    const seal = { index: 1, timeMs: 0, storedBytes: 0, storedObjects: 0, cost: null };
    const draft = {
      ...{ action: 'a', tenant: 'one', principal: 'p', evidence: 'none' as const },
      ...{ bytesIn: 0, bytesOut: 0, requestId: 'R', source: 's', status: 200 },
    };
    await expect(log.append(draft, seal)).rejects.toThrow('record 1 cannot be leaf 0');
    expect(await readLogSize(db.tx)).toBe(0);
  });

  it('names its tenant by one pseudonym for ever, which nothing tells but the table', async () => {
    await commit(1, 'one');
    await commit(1, 'two');
    const names = [await readPseudonym(db.tx, 'one'), await readPseudonym(db.tx, 'two')];
    expect(new Set(names).size).toBe(2);
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{22}$/);
    log = await RecordLog.open(db.tx);
    await commit(1, 'one');
    const entries = (await readEntries(db.tx, 0, 3)).map((entry) => JSON.parse(entry.toString()));
    expect(entries.map(({ t }) => t)).toEqual([names[0], names[1], names[0]]);
    expect(await readPseudonym(db.tx, 'three')).toBeUndefined();
  });

  it('whose batch was rolled back leaves no pseudonym behind', async () => {
    db.exec('BEGIN');
    await append('late');
    const first = await readPseudonym(db.tx, 'late');
    db.exec('ROLLBACK');
    await log.discard();
    await commit(1, 'late');
    const second = await readPseudonym(db.tx, 'late');
    expect(second).not.toBe(first);
    expect(JSON.parse(String((await readEntries(db.tx, 0, 1))[0]))).toMatchObject({ t: second });
  });

  it('has a salt of its own', async () => {
    await commit(600);
    const rows = await db.tx.all<{ salt: Buffer }>('SELECT salt FROM records');
    expect(rows.every(({ salt }) => salt.length === 16)).toBe(true);
    expect(new Set(rows.map(({ salt }) => salt.toString('hex'))).size).toBe(600);
  });
});

describe('a database', () => {
  it.each([
    ['a record is missing at the end of a tile', 'DELETE FROM records WHERE idx = 299'],
    ['a record is missing within', 'DELETE FROM records WHERE idx = 280'],
    ['a tile is missing', 'DELETE FROM log_tiles'],
    ['a hash in a tile is another', 'UPDATE log_tiles SET hashes = zeroblob(8192)'],
    ["a tile's root is another", 'UPDATE log_tiles SET root = zeroblob(32)'],
    ['a pseudonym is missing', 'DELETE FROM log_tenants'],
  ])('where %s is not what was signed', async (_what, sql) => {
    await commit(300);
    const root = log.root();
    db.exec(sql);
    const opened = await RecordLog.open(db.tx).catch(() => null);
    expect(opened?.root()).not.toEqual(root);
  });
});
