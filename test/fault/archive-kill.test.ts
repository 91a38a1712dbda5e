// A gateway that dies at any step of archiving loses no record, and leaves nothing behind. BURSAR_FULL=1
// kills it between two readings, too.
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { rootOf } from '#bursar/audit/log/merkle.js';
import { storedTiles } from '#bursar/audit/log/stored-tiles.js';
import { type KeptRecord, RecordStore } from '#bursar/audit/record-store.js';
import { openDatabase, type Reader } from '#bursar/core/database.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { Sweeper } from '#bursar/ledger/sweeper.js';
import { BufferPool } from '#bursar/tiering/buffer-pool.js';
import { DigestPool } from '#bursar/tiering/digest-pool.js';
import { ObjectReader } from '#bursar/tiering/object-reader.js';
import { ReadLeases } from '#bursar/tiering/read-leases.js';
import { LocalStore } from '#bursar/tiering/stores/local-store.js';
import { Stores } from '#bursar/tiering/stores/stores.js';
import { openArchiveRig } from '../audit/archive-rig.ts';
import { keyring, rootKey } from '../ledger/fixture.ts';
import { findStrayExtents } from './extents-on-disk.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const isFull = process.env.BURSAR_FULL === '1';
const size = 520;
const run = resolve(import.meta.dirname, 'archive-run.mjs');
const folder = mkdtempSync(join(tmpdir(), 'bursar-archive-'));
const template = join(folder, 'template.db');
const data = join(folder, 'data');
const database = join(data, 'bursar.db');

let records: KeptRecord[];
let root: Buffer;

beforeAll(async () => {
  const rig = await openArchiveRig();
  await rig.fill(size);
  records = await rig.records.readRun(0, size);
  root = await rootOf(storedTiles(rig.fixture.read), size);
  rig.fixture.edit('PRAGMA wal_checkpoint(TRUNCATE)');
  copyFileSync(rig.fixture.path, template);
  await rig.close();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Archives in a process of its own, which kills itself at this step; gives its steps, if it did not. */
function archive(killAt: number): string[] | undefined {
  const args = [run, database, join(data, 'extents'), '2', String(killAt)];
  const { signal, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (signal === 'SIGKILL') return undefined;
  expect(stderr).toBe('');
  return JSON.parse(stdout) as string[];
}

async function withRecords(work: (store: RecordStore, read: Reader) => Promise<void>) {
  const db = openDatabase(database, { readonly: true, cacheKib: 1024 });
  const buffers = new BufferPool({});
  const digests = new DigestPool({ buffers });
  const stores = new Stores(await LocalStore.open(join(data, 'extents')));
  const reader = new ObjectReader({ keyring, stores, digests, buffers });
  await work(new RecordStore(db.tx, partReader(reader, String)), db.tx);
  await digests.close();
  db.close();
}

async function expectAllThere(): Promise<void> {
  await withRecords(async (store, read) => {
    expect(await store.readRun(0, size)).toEqual(records);
    expect(await rootOf(storedTiles(read), size)).toEqual(root);
  });
}

/** As the next run of the gateway does. */
async function sweep(): Promise<void> {
  const ledger = await Ledger.open({
    path: database,
    rootKeys: [rootKey],
    priceBooks: [],
    onFatal: () => {},
    onFailure: () => {},
  });
  await withRecords(async (_, read) => {
    const local = await LocalStore.open(join(data, 'extents'));
    await local.removeTemporary();
    const sweeper = new Sweeper({
      read,
      ledger,
      stores: new Stores(local),
      maySweep: () => true,
      leases: new ReadLeases(),
      intervalMs: 1000,
      graceMs: -1000,
      onError: () => {},
    });
    await sweeper.sweep();
  });
  await ledger.close();
}

function restore(): void {
  rmSync(data, { recursive: true, force: true });
  cpSync(template, database);
}

describe('archiving, killed before any step', () => {
  it('loses no record, leaves nothing behind, and goes on where it was', async () => {
    restore();
    const steps = archive(-1) ?? [];
    expect(steps).toEqual([
      ...['write', 'declareExtents', 'finish', 'read back', 'read back', 'enterPack'],
      ...['archiveTile', 'archiveTile', 'end'],
    ]);
    await expectAllThere();
    for (const [killAt, step] of steps.entries()) {
      // What was only read leaves nothing that another read could meet.
      if (!isFull && step === 'read back' && steps[killAt - 1] === step) continue;
      restore();
      expect(archive(killAt)).toBeUndefined();
      await expectAllThere();
      const rest = archive(-1);
      expect(rest?.at(-1)).toBe('end');
      await expectAllThere();
      await sweep();
      expect(await findStrayExtents(data)).toEqual([]);
      await withRecords(async (_, read) => {
        expect(await read.get('SELECT count(*) AS count FROM records')).toEqual({
          count: size - 512,
        });
        expect(await read.get('SELECT count(*) AS count FROM record_packs')).toEqual({ count: 1 });
      });
    }
  });
});
