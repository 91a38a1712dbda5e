// What of the log strangers are given, and what they can cost.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseEntries } from '#bursar/audit/log/entries.js';
import { hashLeaf, rootOf } from '#bursar/audit/log/merkle.js';
import { RecordLog } from '#bursar/audit/record-log.js';
import { type OpenDatabase, openDatabase, type Reader } from '#bursar/core/database.js';
import { LogTiles } from '#bursar/gateway/log/public-log.js';
import { schema } from '#bursar/ledger/schema.js';

const size = 700;
const folder = mkdtempSync(join(tmpdir(), 'bursar-log-tiles-'));
let db: OpenDatabase;
let root: Buffer;

beforeAll(async () => {
  db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  db.exec('BEGIN');
  const log = await RecordLog.open(db.tx);
  for (let index = 0; index < size; index++) {
    const draft = {
      ...{ action: 's3:PutObject', tenant: 'cms', principal: 'alice', evidence: 'none' as const },
      ...{ bytesIn: 0, bytesOut: 0, requestId: `${index}`, source: 'test', status: 200 },
    };
    await log.append(draft, { index, timeMs: index, storedBytes: 0, storedObjects: 0, cost: null });
  }
  await log.flush();
  root = log.root();
  db.exec('COMMIT');
});

afterAll(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

function open(given: { signed?: number; waitingMax?: number; read?: Reader } = {}): LogTiles {
  const { signed = size, read = db.tx, ...more } = given;
  return new LogTiles({ read, signedSize: () => signed, ...more });
}

/** A reader that counts what it is asked. */
function counted(): { read: Reader; count(): number } {
  let count = 0;
  const read: Reader = {
    get: (...args) => {
      count += 1;
      return db.tx.get(...args);
    },
    all: (...args) => {
      count += 1;
      return db.tx.all(...args);
    },
  };
  return { read, count: () => count };
}

const tile = (index: number, width: number, level: number | 'entries' = 0) => {
  return { level, index, width };
};
const notFound = { code: 'NotFound' };

describe('tiles for everybody', () => {
  it('are all that the tree is made of, and lead to its root', async () => {
    const tiles = open();
    const readTile = async (level: number, index: number, width: number) =>
      (await tiles.open({ level, index, width }, false)).body;
    expect(await rootOf({ readTile }, size)).toEqual(root);
  });

  it('have the hashes of the entries that are given for them', async () => {
    const tiles = open();
    for (const [index, width] of [
      ...[[0, 256] as const, [1, 256] as const, [1, 7] as const, [2, 188] as const],
    ]) {
      const { body } = await tiles.open(tile(index, width), false);
      const bundle = await tiles.open(tile(index, width, 'entries'), false);
      const entries = parseEntries(bundle.body) ?? [];
      expect(entries).toHaveLength(width);
      expect(Buffer.concat(entries.map(hashLeaf))).toEqual(body);
    }
  });

  it.each([
    ['beyond the log', tile(3, 1)],
    ['wider than the log', tile(2, 189)],
    ['full where the log has a part', tile(2, 256)],
    ['of a level that the log does not reach', tile(0, 1, 2)],
    ['of the highest level', tile(0, 1, 63)],
    ['far beyond', tile(Number.MAX_SAFE_INTEGER, 1)],
    ['of entries beyond the log', tile(2, 189, 'entries')],
  ])('are not there %s', async (_title, name) => {
    const { read, count } = counted();
    await expect(open({ read }).open(name, false)).rejects.toMatchObject(notFound);
    expect(count()).toBe(0);
  });

  it('are not given beyond what is signed, though the records are there', async () => {
    const tiles = open({ signed: 300 });
    await expect(tiles.open(tile(1, 256), false)).rejects.toMatchObject(notFound);
    await expect(tiles.open(tile(1, 45), false)).rejects.toMatchObject(notFound);
    await expect(tiles.open(tile(1, 45, 'entries'), false)).rejects.toMatchObject(notFound);
    expect((await tiles.open(tile(1, 44), false)).body).toHaveLength(44 * 32);
  });

  it('of each width are the beginning of the wider ones, also once they are full', async () => {
    const { body: full } = await open().open(tile(0, 256), false);
    for (const width of [1, 2, 100, 255]) {
      const { body } = await open({ signed: width }).open(tile(0, width), false);
      expect(body).toEqual(full.subarray(0, width * 32));
      expect((await open().open(tile(0, width), false)).body).toEqual(body);
    }
  });

  it('are compressed where the client takes that and there is something to gain', async () => {
    const tiles = open();
    const plain = await tiles.open(tile(0, 256, 'entries'), false);
    const small = await tiles.open(tile(0, 256, 'entries'), true);
    expect(small.isCompressed).toBe(true);
    expect(gunzipSync(small.body)).toEqual(plain.body);
    expect(small.body.length).toBeLessThan(plain.body.length / 2);
    const hashes = await tiles.open(tile(0, 256), true);
    expect(hashes).toMatchObject({ isCompressed: false });
  });
});

describe('what strangers cost', () => {
  it('is one reading of a tile, however many ask for it', async () => {
    const { read, count } = counted();
    const tiles = open({ read, waitingMax: 1 });
    const asked = Array.from({ length: 50 }, () => tiles.open(tile(2, 188, 'entries'), false));
    const files = await Promise.all(asked);
    expect(count()).toBe(1);
    expect(new Set(files).size).toBe(1);
    await tiles.open(tile(2, 188, 'entries'), false);
    expect(count()).toBe(1);
  });

  it('is bounded: of too many at once the first are served, others told to slow down', async () => {
    const tiles = open({ waitingMax: 5 });
    const widths = Array.from({ length: 20 }, (_, i) => i + 1);
    const outcomes = await Promise.allSettled(
      widths.map((width) => tiles.open(tile(2, width, 'entries'), false)),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(
      widths.map((width) => (width <= 5 ? 'fulfilled' : 'rejected')),
    );
    expect(outcomes[5]).toMatchObject({ reason: { code: 'SlowDown' } });
    expect((await tiles.open(tile(2, 6, 'entries'), false)).body.length).toBeGreaterThan(0);
  });

  it('is nothing more when a reading fails: the next one reads again', async () => {
    let isBroken = true;
    const read: Reader = {
      get: (...args) => db.tx.get(...args),
      all: (...args) => (isBroken ? Promise.reject(new Error('the disk')) : db.tx.all(...args)),
    };
    const tiles = open({ read, waitingMax: 1 });
    await expect(tiles.open(tile(2, 9, 'entries'), false)).rejects.toThrow('the disk');
    isBroken = false;
    expect((await tiles.open(tile(2, 9, 'entries'), false)).body.length).toBeGreaterThan(0);
  });
});
