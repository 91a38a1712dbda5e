// Records that went to the archive: what is promised of them stays true.
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  countArchivedTiles,
  eraseArchived,
  findPart,
} from '#bursar/audit/archive/archived-tiles.js';
import { ChangeLog } from '#bursar/audit/changes/change-log.js';
import { commitTo, renderLeaf } from '#bursar/audit/leaf.js';
import { hashLeaf, proveInclusion, rootFromInclusion, rootOf } from '#bursar/audit/log/merkle.js';
import { readEntries, storedTiles } from '#bursar/audit/log/stored-tiles.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { openDatabase } from '#bursar/core/database.js';
import { IntegrityError } from '#bursar/core/errors.js';
import { decodeManifest } from '#bursar/core/manifest.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { settings } from '#bursar/server/settings/settings.js';
import { commitOf, deleteOf, putOf } from '../../ledger/fixture.ts';
import { walkRecords } from '../../tooling/deep-records.ts';
import { type ArchiveRig, openArchiveRig } from './archive-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rig: ArchiveRig;

beforeEach(async () => {
  rig = await openArchiveRig();
});

afterEach(() => rig.close());

const hotCount = async () => {
  const sql = 'SELECT count(*) AS count FROM records';
  return (await rig.fixture.read.get<{ count: number }>(sql))?.count;
};

describe('the archive of records', () => {
  it('takes whole packs of old records, and leaves the newest where it is', async () => {
    await rig.fill(768);
    await rig.archive();
    // The third tile is full, but nothing is newer.
    expect(await countArchivedTiles(rig.fixture.read)).toBe(2);
    expect(await hotCount()).toBe(256);
    await rig.fill(769);
    await rig.archive();
    expect(await hotCount()).toBe(1);
    await rig.fixture.reopen();
    expect(await rig.fixture.ledger.commit(commitOf({ kind: 'none' }))).toMatchObject({
      index: 769,
    });
  });

  it('takes nothing that is young, and nothing that usage was not summed of', async () => {
    await rig.fill(600);
    await rig.archive({ afterMs: 3_600_000 });
    expect(await countArchivedTiles(rig.fixture.read)).toBe(0);
    rig.fixture.edit('UPDATE usage_progress SET next_idx = 300');
    await rig.archive();
    expect(await countArchivedTiles(rig.fixture.read)).toBe(1);
  });

  it('is late since a pack could have been made, and not while none can', async () => {
    await rig.fill(600);
    rig.fixture.edit('UPDATE records SET time_ms = time_ms - 60000');
    expect(await rig.archiver({ afterMs: 3_600_000 }).lateMs()).toBe(0);
    expect(await rig.archiver({ afterMs: settings.archiveAfterMs.parse('0') }).lateMs()).toBe(0);
    const archiver = rig.archiver({ afterMs: 10_000 });
    expect(await archiver.lateMs()).toBeGreaterThanOrEqual(50_000);
    await archiver.archive();
    expect(await archiver.lateMs()).toBe(0);
  });

  it('gives each record back as it was, by its index and in runs', async () => {
    await rig.fill(700);
    const before = await rig.records.readRun(0, 700);
    await rig.archive({ tilesPerPack: 2 });
    expect(await hotCount()).toBe(700 - 512);
    expect(await rig.records.readRun(0, 700)).toEqual(before);
    expect(await rig.records.readRun(250, 300)).toEqual(before.slice(250, 550));
    expect(await rig.records.readRecord(511)).toEqual(before[511]);
    expect(await rig.records.readRecord(700)).toBeUndefined();
    expect(await rig.records.readRun(690, 50)).toHaveLength(10);
    for (const from of [250, 600]) {
      const texts = (await rig.records.readTexts(from, 300)).map(({ opened }) => opened?.record);
      expect(texts).toEqual(before.slice(from, from + 300).map((one) => one.opened?.record));
    }
    const opened = before.at(300)?.opened;
    expect(JSON.parse(opened?.record ?? '').index).toBe(300);
  });

  it('tells who comes back late of the changes that are in it', async () => {
    const { read, ledger } = rig.fixture;
    for (const commit of [putOf('a'), putOf('b'), deleteOf('a')]) await ledger.commit(commit);
    await rig.fill(600);
    const told = async () => {
      const { records } = rig;
      const search = new RecordSearch({ read, store: records, index: null });
      const changes = new ChangeLog({ read, records, search, onAltered: () => {} });
      const all: string[] = [];
      for (let after = -1; ; ) {
        const query = { tenant: 'one', bucket: 'data', prefix: '', after, limit: 2 };
        const page = await changes.read(query);
        all.push(...page.changes.map(({ kind, key }) => `${kind} ${key}`));
        if (page.isEnd || page.through >= 599) return all;
        after = page.through;
      }
    };
    const before = await told();
    expect(before).toEqual(['created a', 'created b', 'removed a']);
    await rig.archive();
    expect(await hotCount()).toBeLessThan(600);
    expect(await told()).toEqual(before);
  });

  it('keeps evidence with its record', async () => {
    await rig.fill(300);
    const evidence = '{"signed":"é\\n","v":1}';
    rig.fixture.edit(`INSERT INTO evidence VALUES (7, '${evidence}')`);
    await rig.archive();
    expect((await rig.records.readRecord(7))?.opened?.evidence).toBe(evidence);
    expect((await rig.records.readRecord(8))?.opened?.evidence).toBeNull();
    expect(await rig.fixture.read.get('SELECT 1 FROM evidence')).toBeUndefined();
  });

  it('leaves the log as it was: entries, tiles, root and proofs', async () => {
    await rig.fill(700);
    const { read } = rig.fixture;
    const tiles = storedTiles(read);
    const entries = await readEntries(read, 1, 256);
    const root = await rootOf(tiles, 700);
    await rig.archive();
    expect(await readEntries(read, 1, 256)).toEqual(entries);
    expect(await readEntries(read, 1, 77)).toEqual(entries.slice(0, 77));
    expect(await rootOf(tiles, 700)).toEqual(root);
    const record = await rig.records.readRecord(300);
    if (!record?.opened) throw new Error('record 300 is not there');
    const { salt, record: text } = record.opened;
    const commitment = commitTo(salt, text).toString('base64url');
    const leaf = renderLeaf({ ...record.pseudonyms, commitment });
    const proof = await proveInclusion(tiles, 300, 700);
    expect(rootFromInclusion(hashLeaf(leaf), { index: 300, size: 700, proof })).toEqual(root);
  });

  it('gives back nothing of a record whose salt was erased, and all others', async () => {
    await rig.fill(300);
    const before = await rig.records.readRun(0, 256);
    await rig.archive();
    expect((await rig.records.readRecord(20))?.opened?.record).toBe(before[20]?.opened?.record);
    const editor = openDatabase(rig.fixture.path, { readonly: false, cacheKib: 1024 });
    expect(await eraseArchived(editor.tx, 20)).toBe(true);
    expect(await eraseArchived(editor.tx, 20)).toBe(false);
    editor.close();
    const erased = await rig.records.readRecord(20);
    expect(erased).toMatchObject({ index: 20, opened: null, tenant: 'one' });
    expect(erased?.commitment).toEqual(before[20]?.commitment);
    expect(await rig.records.readRecord(21)).toEqual(before[21]);
  });

  it('is in order for a verification, also where a record was erased', async () => {
    await rig.fill(300);
    const before = await rig.records.readRun(0, 256);
    expect(before[20]?.timeMs).toBeGreaterThan(before[0]?.timeMs ?? Infinity);
    await rig.archive();
    const erasing = commitOf({
      ...{ kind: 'eraseRecords', tenant: 'one', indexes: [20], reason: 'test' },
    });
    const change = { erased: [20], reason: 'test' };
    const record = { ...erasing.record, action: 'bursar:EraseRecords', change };
    const result = await rig.fixture.ledger.commit({ ...erasing, record });
    expect(result).toMatchObject({ ok: true, index: 300 });
    const verify = async () => {
      const differences: unknown[] = [];
      const report = await walkRecords({
        ...{ read: rig.fixture.read, store: rig.records },
        tell: (difference) => differences.push(difference),
        onRecord: async () => {},
        onUnread: async () => {},
      });
      return { ...report, differences };
    };
    expect(await verify()).toEqual({ size: 301, erased: 1, unread: 0, differences: [] });
    // Another, by hand, put down to the same act.
    rig.fixture.edit(
      "UPDATE records SET salt = NULL, record = '' WHERE idx = 260; INSERT INTO erasures " +
        'VALUES (260, 300)',
    );
    const what = 'it was erased, and record 300 is not of its erasure';
    const differences = [{ where: 'record 260', what }];
    expect(await verify()).toEqual({ size: 301, erased: 2, unread: 0, differences });
  });

  it('archives what was erased before as erased', async () => {
    await rig.fill(300);
    rig.fixture.edit("UPDATE records SET salt = NULL, record = '' WHERE idx = 9");
    const before = await rig.records.readRun(0, 256);
    expect(before[9]?.opened).toBeNull();
    await rig.archive();
    const after = await rig.records.readRun(0, 256);
    expect(after.map(({ opened }) => opened)).toEqual(before.map(({ opened }) => opened));
  });

  it('has no word of a record in the store', async () => {
    await rig.fill(300);
    await rig.archive();
    const part = await findPart(rig.fixture.read, 0);
    const [run] = decodeManifest(part?.manifest ?? Buffer.alloc(0));
    if (!run) throw new Error('the pack has no extent');
    const stored = readFileSync(rig.tiering.fileOf(run));
    for (const word of ['alice', 'k/1', 'STANDARD', 'principal']) {
      expect(stored.includes(word)).toBe(false);
    }
    expect(stored.length).toBeLessThan(256 * 300);
  });

  it('refuses what was changed: in the store, of a leaf, of a salt', async () => {
    await rig.fill(600);
    await rig.archive();
    const { fixture } = rig;
    fixture.edit(
      'UPDATE archived_tiles SET salts = (SELECT salts FROM archived_tiles WHERE idx = 1) ' +
        'WHERE idx = 0',
    );
    await expect(rig.records.readRecord(0)).rejects.toThrow(IntegrityError);
    fixture.edit(
      'UPDATE archived_tiles SET leaves = (SELECT leaves FROM archived_tiles WHERE idx = 0) ' +
        'WHERE idx = 1',
    );
    await expect(rig.records.readRecord(256)).rejects.toThrow(IntegrityError);
    const part = await findPart(fixture.read, 0);
    const [run] = decodeManifest(part?.manifest ?? Buffer.alloc(0));
    if (!run) throw new Error('the pack has no extent');
    const stored = readFileSync(rig.tiering.fileOf(run));
    stored[2000] = (stored[2000] as number) ^ 1;
    writeFileSync(rig.tiering.fileOf(run), stored);
    const fresh = new RecordStore(fixture.read, partReader(rig.tiering.reader, String));
    await expect(fresh.readRecord(3)).rejects.toThrow(IntegrityError);
  });
});
