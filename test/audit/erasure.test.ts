// Erasing records in the database and in the archive: what opened them is gone, and nothing else.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { eraseRecords, readErasure, readNextErasure } from '#bursar/audit/erasure.js';
import { rootOf } from '#bursar/audit/log/merkle.js';
import { readEntries, storedTiles } from '#bursar/audit/log/stored-tiles.js';
import { firstSince } from '#bursar/audit/record-times.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { openDatabase } from '#bursar/core/database.js';
import { type ArchiveRig, openArchiveRig } from './archive/archive-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const size = 600;
let rig: ArchiveRig;

beforeEach(async () => {
  rig = await openArchiveRig();
  await rig.fill(size);
  await rig.archive();
});
afterEach(() => rig.close());

/** As the ledger does it, in one transaction. */
async function erase(indexes: number[], tenant?: string) {
  const [first] = indexes;
  const owner = tenant ?? (await rig.records.readRecord(first ?? 0))?.tenant ?? '';
  const db = openDatabase(rig.fixture.path, { readonly: false, cacheKib: 1024 });
  db.exec('BEGIN IMMEDIATE');
  const act = { byIndex: size, summedEnd: size };
  const fault = await eraseRecords(db.tx, { tenant: owner, indexes }, act);
  db.exec(fault ? 'ROLLBACK' : 'COMMIT');
  db.close();
  return fault;
}

describe('an erasure', () => {
  it('is of records wherever they are, and leaves others and the tree as they were', async () => {
    const { read } = rig.fixture;
    const root = await rootOf(storedTiles(read), size);
    const entries = await readEntries(read, 0, 256);
    const before = await rig.records.readRun(0, size);
    expect(await erase([7, 300, 599])).toBeNull();
    for (const { index, opened } of await rig.records.readRun(0, size)) {
      expect(opened).toEqual([7, 300, 599].includes(index) ? null : before[index]?.opened);
    }
    for (const [from, erased] of [
      [0, [7, 300, 599]],
      [520, [599]],
    ] as const) {
      const texts = await rig.records.readTexts(from, size);
      expect(texts.flatMap(({ index, opened }) => (opened ? [] : index))).toEqual(erased);
    }
    expect(await rootOf(storedTiles(read), size)).toEqual(root);
    expect(await readEntries(read, 0, 256)).toEqual(entries);
    expect(await readErasure(read, 300, 'one')).toBe(size);
    expect(await readErasure(read, 301, 'one')).toBeUndefined();
    expect(await readNextErasure(read, -1)).toEqual({ byIndex: size, indexes: [7, 300, 599] });
    expect(await readNextErasure(read, size)).toBeUndefined();
  });

  it.each([
    ['of another tenant', [7, 8], 'somebody-else', 'NoSuchRecord'],
    ['that is not there', [7, size], undefined, 'NoSuchRecord'],
  ])('that names a record %s erases none', async (_which, indexes, tenant, code) => {
    expect(await erase(indexes, tenant)).toMatchObject({ code });
    expect((await rig.records.readRecord(7))?.opened).not.toBeNull();
  });

  it.each([7, 599])('of what is erased already is refused: record %i', async (index) => {
    expect(await erase([index])).toBeNull();
    expect(await erase([index - 1, index])).toMatchObject({ code: 'RecordErased' });
    expect((await rig.records.readRecord(index - 1))?.opened).not.toBeNull();
  });

  it('is found by nothing, also in the archive', async () => {
    const search = new RecordSearch({ read: rig.fixture.read, store: rig.records, index: null });
    const all = await search.find({ tenant: null, limit: 1000 });
    expect(all.records).toHaveLength(size);
    await erase([7, 599]);
    const left = await search.find({ tenant: null, limit: 1000 });
    expect(left.records).toEqual(all.records.filter((_, index) => index !== 7 && index !== 599));
  });
});

describe('a time', () => {
  it('leads to the first record that is not before it, in the archive and behind it', async () => {
    const run = await rig.records.readRun(0, size);
    const { read } = rig.fixture;
    for (const at of [0, 1, 200, 255, 256, 300, 511, 512, 599]) {
      const timeMs = run[at]?.timeMs ?? 0;
      const expected = run.find((one) => one.timeMs >= timeMs)?.index;
      expect(await firstSince(read, rig.records, timeMs)).toBe(expected);
    }
    expect(await firstSince(read, rig.records, 0)).toBe(0);
    expect(await firstSince(read, rig.records, Number.MAX_SAFE_INTEGER)).toBe(size);
  });
});
