// A gateway that dies at any step of archiving, or whose disk refuses any of its writes, loses no
// record, and leaves nothing behind. BURSAR_FULL=1 kills it between two readings, too, and refuses
// each write.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { rootOf } from '#bursar/audit/log/merkle.js';
import { storedTiles } from '#bursar/audit/log/stored-tiles.js';
import { type KeptRecord, RecordStore } from '#bursar/audit/record-store.js';
import { openDatabase, type Reader } from '#bursar/core/database.js';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { Sweeper } from '#bursar/ledger/sweeper.js';
import { BufferPool } from '#bursar/tiering/buffer-pool.js';
import { DigestPool } from '#bursar/tiering/digest-pool.js';
import { ObjectReader } from '#bursar/tiering/object-reader.js';
import { ReadLeases } from '#bursar/tiering/read-leases.js';
import { failureCauses } from '#bursar/tiering/stores/attempt-failure.js';
import { LocalStore } from '#bursar/tiering/stores/local-store.js';
import type { S3StoreOptions } from '#bursar/tiering/stores/s3/options.js';
import { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { Stores } from '#bursar/tiering/stores/stores.js';
import { openArchiveRig } from '../audit/archive/archive-rig.ts';
import { keyring, rootKey } from '../ledger/fixture.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { compiler } from './compiler.ts';
import { findStrayExtents } from './extents-on-disk.ts';

const isFull = process.env.BURSAR_FULL === '1';
vi.setConfig({ testTimeout: isFull ? 900_000 : 300_000, hookTimeout: 60_000 });

const size = 520;
const run = resolve(import.meta.dirname, 'archive-run.mjs');
const folder = mkdtempSync(join(tmpdir(), 'bursar-archive-'));
const template = join(folder, 'template.db');
const data = join(folder, 'data');
const database = join(data, 'bursar.db');

/** Where packs go; null: to the local disk. */
let place: Pick<
  S3StoreOptions,
  'number' | 'name' | 'url' | 'endpoint' | 'region' | 'credentials'
> | null = null;
let records: KeptRecord[];
let root: Buffer;
let places = 0;

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

/**
 * Archives in a process of its own, which kills itself at this step; gives its steps, if it did
 * not.
 */
function archive(killAt: number): string[] | undefined {
  const args = [run, database, join(data, 'extents'), '2', String(killAt)];
  if (place) args.push(JSON.stringify(place));
  // The S3 SDK's own, of versions of Node that it will leave.
  const env = { ...process.env, NODE_NO_WARNINGS: '1' };
  const { signal, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
  if (signal === 'SIGKILL') return undefined;
  expect(stderr).toBe('');
  return JSON.parse(stdout) as string[];
}

async function openStores(): Promise<{ stores: Stores; remote: S3Store | null }> {
  const local = await LocalStore.open(join(data, 'extents'));
  const meter = new StoreMeter({ causes: failureCauses });
  const remote = place && (await S3Store.open({ ...place, meter }));
  return { stores: new Stores(local, remote ? [remote] : []), remote };
}

async function withRecords(
  work: (store: RecordStore, read: Reader, stores: Stores) => Promise<void>,
) {
  const db = openDatabase(database, { readonly: true, cacheKib: 1024 });
  const buffers = new BufferPool({});
  const digests = new DigestPool({ buffers });
  const { stores, remote } = await openStores();
  const reader = new ObjectReader({ keyring, stores, digests, buffers });
  await work(new RecordStore(db.tx, partReader(reader, String)), db.tx, stores);
  await remote?.close();
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
  await withRecords(async (_, read, stores) => {
    await stores.local.removeTemporary();
    const sweeper = new Sweeper({
      read,
      ledger,
      stores,
      maySweep: () => true,
      journaled: () => [],
      isWhole: () => true,
      mayLink: () => true,
      leases: new ReadLeases(),
      graceMs: -1000,
    });
    await sweeper.sweep();
  });
  await ledger.close();
}

function restore(): void {
  rmSync(data, { recursive: true, force: true });
  cpSync(template, database);
  if (place) place.url = `s3://packs/${++places}`;
}

async function expectArchived(): Promise<void> {
  const rest = archive(-1);
  expect(rest?.at(-1)).toBe('end');
  await expectAllThere();
  await sweep();
  if (!place) expect(await findStrayExtents(data)).toEqual([]);
  await withRecords(async (_, read, { remotes }) => {
    for (const store of remotes) {
      const names: string[] = [];
      for await (const { id } of store.list()) names.push(id.toString('hex'));
      const alive = 'SELECT lower(hex(id)) AS id FROM extents WHERE state = 1';
      expect(names).toEqual((await read.all<{ id: string }>(alive)).map(({ id }) => id));
    }
    const count = async (table: string) =>
      (await read.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`))?.n;
    expect([await count('records'), await count('record_packs')]).toEqual([size - 512, 1]);
  });
}

const steps = [
  ...['write', 'declareExtents', 'digest', 'seal', 'read back', 'read back', 'enterPack'],
  ...['archiveTile', 'archiveTile', 'end'],
];

async function killAtEach(): Promise<void> {
  restore();
  const taken = archive(-1) ?? [];
  // Which extents are coming is declared while they are sent.
  expect(taken.toSorted()).toEqual(steps.toSorted());
  await expectAllThere();
  for (const [killAt, step] of taken.entries()) {
    // What was only read leaves nothing that another read could meet.
    if (!isFull && step === 'read back' && taken[killAt - 1] === step) continue;
    restore();
    expect(archive(killAt)).toBeUndefined();
    await expectAllThere();
    await expectArchived();
  }
}

describe('archiving, killed before any step', () => {
  it('loses no record, leaves nothing behind, and goes on where it was', killAtEach);
});

describeWithTool(versitygw, 'archiving to an S3 store, killed before any step', (path) => {
  let backend: S3Backend;
  beforeAll(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('packs');
    const { endpoint, region, credentials } = backend;
    place = { number: 2, name: 'cold', url: '', endpoint, region, credentials };
  });
  afterAll(async () => {
    place = null;
    await backend.stop();
  });

  it('loses no record, leaves nothing behind, and goes on where it was', killAtEach);
});

describeWithTool(compiler, 'archiving on a disk that refuses a write', (cc) => {
  const library = join(folder, 'fault-at.so');
  const faultFile = join(folder, 'fault-at');

  beforeAll(() => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(cc, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  });

  /** False: there are fewer such calls. */
  function archiveUnder(call: string, number: number): boolean {
    writeFileSync(faultFile, `${call} /data/ ${number} ENOSPC`);
    const args = [run, database, join(data, 'extents'), '2', '-1'];
    const env = { ...bareEnvironment(), LD_PRELOAD: library, FAULT_AT: faultFile };
    const { signal } = spawnSync(process.execPath, args, { env });
    expect(signal).toBeNull();
    const isMet = !existsSync(faultFile);
    rmSync(faultFile, { force: true });
    return isMet;
  }

  it.each([
    ['any', isFull ? 1 : 67],
    ['sync', isFull ? 1 : 7],
  ])('of kind %s, whichever it is, loses no record and goes on later', async (call, step) => {
    let met = 0;
    for (let number = 1; ; number += step) {
      restore();
      if (!archiveUnder(call, number)) break;
      met++;
      await expectAllThere();
      await expectArchived();
    }
    console.info(`${met} faults of kind ${call}`);
    expect(met).toBeGreaterThan(1);
  });
});
