// What is shipped of a database while others write it: at each moment the backup and the segments
// on top of it are the database as it was committed, whatever SQLite did to its log meanwhile.
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createBackup } from '#bursar/backup/create.js';
import { openFolderPlace } from '#bursar/backup/folder-place.js';
import { readManifest } from '#bursar/backup/manifest.js';
import { PieceSealer } from '#bursar/backup/pieces.js';
import type { BackupPlace } from '#bursar/backup/place.js';
import { pruneBackups } from '#bursar/backup/prune.js';
import { putDatabaseBack } from '#bursar/backup/put-back.js';
import { segmentName } from '#bursar/backup/shipping/segment.js';
import { Shipper } from '#bursar/backup/shipping/shipper.js';
import { bringForward, type Forwarding } from '#bursar/backup/shipping/stream-reader.js';
import { checkDatabase, type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { schema } from '#bursar/ledger/schema.js';
import { randomBelow, randomBytesOf, seededRandom } from '../../fuzz/seeded-random.ts';

const keyring = new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]);
const sealer = new PieceSealer(keyring);
const quiet = { onProgress: () => {} };

let root: string;
let databaseFile: string;
let db: OpenDatabase;
let place: BackupPlace;
let shipper: Shipper;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'bursar-shipping-'));
  databaseFile = join(root, 'bursar.db');
  db = openDatabase(databaseFile, { readonly: false, cacheKib: 1024 });
  // Begins anew after 40 pages, and not after 8,192.
  db.exec('PRAGMA wal_autocheckpoint = 40');
  db.exec(schema);
  db.exec('CREATE TABLE things (id INTEGER PRIMARY KEY, body BLOB)');
  place = openFolderPlace(join(root, 'place'), { mayMake: true });
  shipper = await Shipper.open({ folder: root, databaseFile, place, sealer });
});
afterEach(() => {
  shipper.close();
  db.close();
  rmSync(root, { recursive: true, force: true });
});

async function backUp(): Promise<string> {
  const folder = {
    path: root,
    databaseFile,
    storeFolder: join(root, 'extents'),
    keptCheckpointFile: join(root, 'log-checkpoint'),
  };
  const { manifest } = await createBackup({
    ...{ folder, keyring, place, workFolder: root, extents: 'none', sealKeys: null },
    ...{ bytesPerSecond: 1e9, ...quiet },
  });
  return manifest.id;
}

const restored = () => join(root, 'restored.db');

/** Of a backup, with what was shipped on top of it. */
async function restore(id: string, until = Number.POSITIVE_INFINITY): Promise<Forwarding> {
  const manifest = await readManifest(place, sealer, id);
  if (!manifest) throw new Error('there is no such backup');
  const source = { place, sealer, manifest, databaseFile: restored(), ...quiet };
  await putDatabaseBack(source);
  return bringForward({ ...source, until });
}

async function contentOf(path: string): Promise<unknown> {
  const copy = openDatabase(path, { readonly: true, cacheKib: 1024 });
  try {
    return {
      things: await copy.tx.all('SELECT id, hex(body) AS body FROM things ORDER BY id'),
      tables: await copy.tx.all('SELECT name, sql FROM sqlite_schema ORDER BY name'),
    };
  } finally {
    copy.close();
  }
}

async function expectRestored(id: string): Promise<Forwarding> {
  const told = await restore(id);
  // Looked at in another place: opening it makes a log beside it.
  const looked = join(root, 'looked.db');
  for (const end of ['-wal', '-shm']) rmSync(looked + end, { force: true });
  copyFileSync(restored(), looked);
  expect(checkDatabase(looked)).toEqual([]);
  expect(await contentOf(looked)).toEqual(await contentOf(databaseFile));
  return told;
}

async function put(id: number, body: Buffer): Promise<void> {
  await db.tx.run('INSERT OR REPLACE INTO things VALUES (?, ?)', id, body);
}

/** What a busy gateway does to its database. */
async function change(random: () => number): Promise<void> {
  const kind = randomBelow(random, 100);
  if (kind < 60) await put(randomBelow(random, 200), randomBytesOf(random, 40_000 * random()));
  else if (kind < 80) await db.tx.run('DELETE FROM things WHERE id = ?', randomBelow(random, 200));
  else if (kind < 90) {
    // More than the cache holds: pages get into the log that are never committed.
    db.exec('BEGIN IMMEDIATE');
    for (let i = 0; i < 80; i++) await put(1000 + i, Buffer.alloc(30_000, i));
    db.exec(kind < 88 ? 'ROLLBACK' : 'COMMIT');
  } else if (kind < 95) await db.tx.run('DELETE FROM things WHERE id >= 1000');
  else if (kind < 98) db.exec('VACUUM');
  else db.emptyLog(0);
}

describe('a stream of segments', () => {
  it.each(process.env.BURSAR_FULL ? [1, 2, 3, 4, 5, 6] : [1, 3])(
    'brings a backup to each state that was committed, seed %i',
    async (seed) => {
      const random = seededRandom(seed);
      let base: string | null = null;
      let stream: string | null = null;
      let restores = 0;
      for (let step = 0; step < 200; step++) {
        await change(random);
        const kind = randomBelow(random, 20);
        if (kind === 0 && step % 3 === 0) base = await backUp();
        await shipper.lookForBackups();
        if (kind > 14) continue;
        await shipper.ship();
        const { state } = shipper;
        if (state.stream !== stream) base = null;
        stream = state.stream;
        if (state.stream !== null && state.safeMs === null && base === null) {
          base = await backUp();
          await change(random);
          await shipper.lookForBackups();
          await shipper.ship();
          // A change may have begun another one.
          if (shipper.state.safeMs === null) base = null;
          stream = shipper.state.stream;
        }
        if (base === null || kind > 2) continue;
        const told = await expectRestored(base);
        expect(told).toMatchObject({ isTorn: false, problem: null });
        if (told.reached?.seq === shipper.state.seq) restores++;
      }
      expect(restores).toBeGreaterThan(4);
    },
    120_000,
  );

  it('is put on a backup only as far as it is whole', async () => {
    await put(1, Buffer.from('one'));
    await shipper.ship();
    const id = await backUp();
    await put(2, Buffer.from('two'));
    // It does not know of the backup yet: this segment may be older than its copy.
    await shipper.ship();
    expect(await restore(id)).toMatchObject({ reached: null, isTorn: true });
    await shipper.lookForBackups();
    await shipper.ship();
    await expectRestored(id);
    for (const text of ['three', 'four', 'five']) {
      await put(3, Buffer.from(text));
      await shipper.ship();
    }
    const { stream, seq } = shipper.state;
    const name = join(place.name, segmentName(stream as string, seq - 1));
    const sealed = (await place.read(segmentName(stream as string, seq - 1))) as Buffer;
    // What another one had, what is altered, what is cut.
    const other = (await place.read(segmentName(stream as string, seq - 2))) as Buffer;
    const altered = Buffer.from(sealed);
    altered[altered.length - 1] = (altered.at(-1) as number) ^ 1;
    for (const bytes of [other, altered, sealed.subarray(0, 100), Buffer.alloc(0)]) {
      writeFileSync(name, bytes);
      const told = await restore(id);
      expect(told).toMatchObject({ isTorn: true, reached: { seq: seq - 2 } });
      expect(told.problem).not.toBeNull();
      expect(await restore(id, seq - 2)).toMatchObject({ isTorn: false, problem: null });
      expect(checkDatabase(restored())).toEqual([]);
    }
    rmSync(name);
    expect(await restore(id)).toMatchObject({ isTorn: false, reached: { seq: seq - 2 } });
    writeFileSync(name, sealed);
    await expectRestored(id);
  });

  it('begins anew where it may have missed something, and asks for a backup', async () => {
    expect(shipper.state.stream).toBeNull();
    await put(1, Buffer.from('one'));
    await shipper.ship();
    const first = shipper.state;
    expect(first).toMatchObject({ seq: 0, safeMs: null, wantsBackup: true });
    // So much that the log begins anew several times between two looks.
    for (let i = 0; i < 400; i++) await put(i % 7, Buffer.alloc(20_000, i));
    await shipper.ship();
    expect(shipper.state.stream).not.toBe(first.stream);
    const id = await backUp();
    await shipper.lookForBackups();
    await shipper.ship();
    expect(shipper.state).toMatchObject({ wantsBackup: false, safeMs: expect.any(Number) });
    await expectRestored(id);
  });

  it('waits as long as the place is away, and loses nothing', async () => {
    await put(1, Buffer.from('one'));
    await shipper.ship();
    const id = await backUp();
    await shipper.lookForBackups();
    await shipper.ship();
    const { write } = place;
    place.write = () => Promise.reject(new Error('away'));
    const { safeMs } = shipper.state;
    for (let i = 0; i < 60; i++) {
      await put(i, Buffer.alloc(9000, i));
      await expect(shipper.ship()).rejects.toThrow('away');
    }
    expect(shipper.state.safeMs).toBe(safeMs);
    expect(shipper.state.waitingBytes).toBeGreaterThan(0);
    place.write = write;
    await shipper.ship();
    expect(shipper.state.waitingBytes).toBe(0);
    await expectRestored(id);
  });

  it('is kept by a prune as far as a kept backup needs it', async () => {
    await put(1, Buffer.from('one'));
    await shipper.ship();
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) {
      ids.push(await backUp());
      await shipper.lookForBackups();
      await put(2, Buffer.alloc(100, i));
      await shipper.ship();
    }
    const folder = join(place.name, 'streams', shipper.state.stream as string);
    expect(readdirSync(folder)).toHaveLength(3);
    const keepSinceMs = Number.POSITIVE_INFINITY;
    const prune = () => pruneBackups({ place, sealer, keep: 1, keepSinceMs, ...quiet });
    await prune();
    expect(readdirSync(folder)).toEqual(['0000000003']);
    await expectRestored(ids[2] as string);
    // One that no backup is of is kept while it is the newest, and goes when another is.
    for (let i = 0; i < 400; i++) await put(i % 7, Buffer.alloc(20_000, i));
    await shipper.ship();
    await put(1, Buffer.from('two'));
    await shipper.ship();
    await prune();
    expect(readdirSync(join(place.name, 'streams'))).toHaveLength(2);
    await backUp();
    await prune();
    expect(readdirSync(folder)).toEqual([]);
  });
});
