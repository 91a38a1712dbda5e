// Packs of old records that their store does not give back: what is told of them, what is still
// compared, and what is not lost with them.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { findPart } from '#bursar/audit/archive/archived-tiles.js';
import { PackFailure } from '#bursar/audit/archive/pack-failure.js';
import { type KeptRecord, type ReadPart, RecordStore } from '#bursar/audit/record-store.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import type { Difference } from '#bursar/audit/verify/record-fields.js';
import { decodeManifest, type ExtentRun } from '#bursar/core/manifest.js';
import { Archiver } from '#bursar/ledger/archive/archiver.js';
import { partReader, readingOnce } from '#bursar/ledger/archive/part-reader.js';
import type { Maintenance } from '#bursar/ledger/commit.js';
import { IntentPool } from '#bursar/ledger/intent-pool.js';
import { walkRecords } from '../../tooling/deep-records.ts';
import { type ArchiveRig, openArchiveRig } from './archive-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rig: ArchiveRig;
const size = 520;

/** Of two packs with a tile each: records 0 to 255, and 256 to 511. */
let records: KeptRecord[];
let files: { path: string; bytes: Buffer }[];

beforeAll(async () => {
  rig = await openArchiveRig();
  await rig.fill(size);
  records = await rig.records.readRun(0, size);
  await rig.archive();
  files = await Promise.all(
    [0, 1].map(async (tile) => {
      const path = rig.tiering.fileOf(await extentOf(tile));
      return { path, bytes: readFileSync(path) };
    }),
  );
});

afterEach(() => {
  for (const { path, bytes } of files) writeFileSync(path, bytes);
});

afterAll(() => rig.close());

async function extentOf(tile: number, { fixture }: ArchiveRig = rig): Promise<ExtentRun> {
  const part = await findPart(fixture.read, tile);
  const [run] = decodeManifest(part?.manifest ?? Buffer.alloc(0));
  if (!run) throw new Error(`tile ${tile} is in no pack`);
  return run;
}

function lose(tile: number): void {
  rmSync(files[tile]?.path ?? '');
}

const nameOf = (store: number) => `store-${store}`;

const readPart: ReadPart = (part) => partReader(rig.tiering.reader, nameOf)(part);

/** Without what was read before. */
function freshStore(read = readPart): RecordStore {
  return new RecordStore(rig.fixture.read, read);
}

/** Archives packs of two tiles, with what the ledger is asked for in the hands of `maintain`. */
async function archiveBy(
  { fixture, tiering }: ArchiveRig,
  maintain: (work: Maintenance) => Promise<number>,
): Promise<string[]> {
  const told: string[] = [];
  const archiver = new Archiver({
    ...{ path: fixture.path, read: fixture.read, ledger: { maintain } },
    intents: new IntentPool(fixture.ledger),
    writer: tiering.writer,
    readPart: partReader(tiering.reader, nameOf),
    ...{ store: 1, afterMs: 0, intervalMs: 1000, tilesPerPack: 2 },
    mayArchive: () => true,
    onError: (error) => told.push((error as Error).message),
  });
  await archiver.archive();
  return told;
}

describe('a pack that is not there', () => {
  it('is named with its store, and others are read', async () => {
    const id = (await extentOf(0)).id.toString('hex');
    lose(0);
    const store = freshStore();
    const error = await store.readRecord(200).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(PackFailure);
    expect(error).toMatchObject({
      message: `the pack of records 0 to 255 has lost its extent ${id} in store store-1`,
      ...{ kind: 'missing', store: 1 },
    });
    expect(await store.readRecord(300)).toEqual(records[300]);
  });

  it('is asked for once by a verification, which compares all else', async () => {
    lose(0);
    const { read, edit } = rig.fixture;
    let asked = 0;
    const store = freshStore(
      readingOnce(
        (part) => {
          asked += part.first === 0 ? 1 : 0;
          return readPart(part);
        },
        () => true,
      ),
    );
    // The log's tree is compared with the leaves of the lost records, too.
    const sql = 'SELECT hex(hashes) AS hashes FROM log_tiles WHERE level = 0 AND idx = 0';
    const { hashes = '' } = (await read.get<{ hashes: string }>(sql)) ?? {};
    const put = (hex: string) =>
      edit(`UPDATE log_tiles SET hashes = x'${hex}' WHERE level = 0 AND idx = 0`);
    put(`${'00'.repeat(32)}${hashes.slice(64)}`);
    const { differences, silent, ...report } = await verify(store);
    put(hashes);
    expect(report).toEqual({ size, erased: 0, unread: 256 });
    expect(silent).toEqual(Array.from({ length: 256 }, (_, i) => i));
    const places = differences.map(({ where }) => where);
    expect(places).toEqual(['record 0', 'tile 0/0 of the log', 'records 0 to 255']);
    // What asks for single records, as the catalog's comparison does, is told what is known.
    for (const index of [0, 100, 255]) {
      await expect(store.readRecord(index)).rejects.toThrow(PackFailure);
    }
    expect(asked).toBe(1);
  });

  it('is not called lost where its store is not configured', async () => {
    const { differences, silent, ...report } = await verify(
      freshStore(readingOnce(readPart, () => false)),
    );
    expect(report).toEqual({ size, erased: 0, unread: 512 });
    expect(silent).toHaveLength(512);
    expect(differences).toEqual([]);
  });

  it('ends a page of a search that has found something, and is told by the next', async () => {
    lose(1);
    const { read } = rig.fixture;
    const search = new RecordSearch({ read, store: freshStore(), index: null });
    const find = (pastIndex: number) => search.find({ tenant: null, limit: 1000, pastIndex });
    const { records: found, nextIndex } = await find(-1);
    expect([found.length, nextIndex]).toEqual([256, 255]);
    await expect(find(255)).rejects.toThrow('the pack of records 256 to 511 has lost');
    const behind = await find(511);
    expect([behind.records.length, behind.nextIndex]).toEqual([size - 512, null]);
  });
});

describe('a pack that is lost before all of its records have left the database', () => {
  it.each([
    ['first', []],
    ['second', [0]],
  ])('is packed anew from its %s tile on', async (_, gone) => {
    const own = await openArchiveRig();
    const { ledger, read } = own.fixture;
    await own.fill(size);
    const before = await own.records.readRun(0, size);
    const died = archiveBy(own, async (work) => {
      if (work.kind === 'archiveTile' && work.tile === gone.length) throw new Error('dies');
      return ledger.maintain(work);
    });
    await expect(died).rejects.toThrow('dies');
    rmSync(own.tiering.fileOf(await extentOf(0, own)));
    const told = await archiveBy(own, (work) => ledger.maintain(work));
    expect(told).toEqual([expect.stringContaining('the pack of records 0 to 511 has lost')]);
    // The second begins a pack that is not full yet.
    await own.fill(800);
    await archiveBy(own, (work) => ledger.maintain(work));
    expect(await read.all('SELECT idx FROM archived_tiles')).toHaveLength(2 + gone.length);
    const store = new RecordStore(read, partReader(own.tiering.reader, nameOf));
    const from = 256 * gone.length;
    expect(await store.readRun(from, size - from)).toEqual(before.slice(from));
    if (gone.length > 0) {
      await expect(store.readRecord(255)).rejects.toThrow('the pack of records 0 to 255 has lost');
    }
    const rows = await read.all<{ state: number }>(
      "SELECT state FROM extents WHERE tenant = '_records' ORDER BY state",
    );
    expect(rows.map(({ state }) => state)).toEqual(gone.length > 0 ? [1, 1] : [1, 2]);
    await own.close();
  });
});

describe('a pack in whose place is', () => {
  it.each([
    ['another', (_: Buffer, other: Buffer) => other],
    ['a part of it', (own: Buffer) => own.subarray(0, own.length / 2)],
    ['nothing', () => Buffer.alloc(0)],
    ['one with a bit flipped', (own: Buffer) => flip(own)],
  ])('%s gives no record, and is named', async (_, replace) => {
    const [first, second] = files as [(typeof files)[0], (typeof files)[0]];
    writeFileSync(first.path, replace(first.bytes, second.bytes));
    const { differences, unread } = await verify(freshStore(readingOnce(readPart, () => true)));
    expect(unread).toBe(256);
    expect(differences).toEqual([
      {
        where: 'records 0 to 255',
        what: expect.stringMatching(/^the pack of records 0 to 255 is damaged in store store-1: /),
      },
    ]);
    expect(await freshStore().readRun(256, size)).toEqual(records.slice(256));
  });
});

function flip(bytes: Buffer): Buffer {
  const flipped = Buffer.from(bytes);
  flipped[3000] = (flipped[3000] as number) ^ 1;
  return flipped;
}

/** `silent`: the records that say nothing. */
async function verify(store: RecordStore) {
  const differences: Difference[] = [];
  const silent: number[] = [];
  const report = await walkRecords({
    ...{ read: rig.fixture.read, store },
    tell: (difference) => differences.push(difference),
    onRecord: async () => {},
    onUnread: async (index) => void silent.push(index),
  });
  return { ...report, differences, silent };
}
