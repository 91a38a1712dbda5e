// The local store: whole files or none.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readSync, rmSync, statSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IntegrityError, Refusal } from '#bursar/core/errors.js';
import { newExtentId } from '#bursar/core/ids.js';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { LocalLeg } from '#bursar/tiering/stores/local-leg.js';
import { FolderSync, LocalStore } from '#bursar/tiering/stores/local-store.js';
import { MadeFolders } from '#bursar/tiering/stores/made-folders.js';
import { fileOf, listFiles, listOpenFiles, makeBytes, makeFolder } from '../tiering/rig.ts';

let dir: string;
let store: LocalStore;
beforeEach(async () => {
  dir = makeFolder();
  store = await LocalStore.open(dir);
});
afterEach(() => {
  expect(listOpenFiles(dir)).toEqual([]);
  rmSync(dir, { recursive: true });
});

async function write(id: Buffer, bytes: Buffer): Promise<void> {
  const file = await store.create(id);
  await file.write(bytes, 0);
  await file.finish();
}

async function listIds(from = store): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of from.list()) ids.push(id.toString('hex'));
  return ids.sort();
}

it('an extent is measured when it is durable, and not when it is given up', async () => {
  const meter = new StoreMeter();
  store = await LocalStore.open(dir, { meter });
  const given = await store.create(newExtentId());
  await given.write(makeBytes(10), 0);
  await given.abort();
  expect(meter.requests.put).toBe(0);
  await write(newExtentId(), makeBytes(100_000));
  expect(meter.requests.put).toBe(1);
  // 32 KiB to 4 MiB.
  const [, , measured] = meter.times.put;
  expect(measured?.seconds.sum).toBeGreaterThanOrEqual(measured?.firstByteSeconds.sum ?? Infinity);
  expect(measured?.bytesPerSecond.sum).toBeGreaterThan(0);
});

it('an extent is there when it is finished, not before', async () => {
  const id = newExtentId();
  const bytes = makeBytes(100_000);
  const file = await store.create(id);
  await file.write(bytes.subarray(50_000), 50_000);
  await file.write(bytes.subarray(0, 50_000), 0);
  await expect(store.open(id)).rejects.toBeInstanceOf(IntegrityError);
  expect(await listIds()).toEqual([]);
  await file.finish();

  const source = await store.open(id);
  expect(source.sizeBytes).toBe(100_000);
  const into = Buffer.alloc(100_000);
  expect(readSync(source.descriptor, into, 0, 100_000, 0)).toBe(100_000);
  expect(into.equals(bytes)).toBe(true);
  await source.close();
});

it('an aborted extent leaves no file', async () => {
  const id = newExtentId();
  const file = await store.create(id);
  await file.write(makeBytes(1000), 0);
  await file.abort();
  await file.abort();
  expect(listFiles(dir)).toEqual([]);
});

it('an abort after finish keeps the extent', async () => {
  const id = newExtentId();
  const file = await store.create(id);
  await file.finish();
  await file.abort();
  expect(await listIds()).toEqual([id.toString('hex')]);
});

describe('as a leg', () => {
  const readOf = (id: Buffer, sizeBytes: number) => {
    const into = Buffer.alloc(sizeBytes);
    const read = new LocalLeg(store).read({ id, sizeBytes, position: 0, into: [into] });
    return read.then(() => into);
  };

  it('keeps what a replacement that failed late has put there', async () => {
    const id = newExtentId();
    const bytes = makeBytes(1000);
    await write(id, makeBytes(10));
    const failed = Object.assign(new Error('no descriptors'), { code: 'EMFILE' });
    const sync = vi.spyOn(FolderSync.prototype, 'sync').mockRejectedValueOnce(failed);
    await expect(new LocalLeg(store).replace(id, [bytes])).rejects.toBeInstanceOf(Refusal);
    sync.mockRestore();
    expect((await readOf(id, 1000)).equals(bytes)).toBe(true);
    expect(listFiles(dir)).toEqual([id.toString('hex')]);
  });

  it('counts a file as damaged that alone cannot be read', async () => {
    const [id, other] = [newExtentId(), newExtentId()];
    await write(id, makeBytes(10));
    rmSync(fileOf(dir, id));
    symlinkSync(fileOf(dir, id), fileOf(dir, id));
    await expect(readOf(id, 10)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    await write(other, makeBytes(10));
    const damaged = { name: 'IntegrityError', kind: 'missing', isRefused: true };
    await expect(readOf(id, 10)).rejects.toMatchObject(damaged);
    expect(await new LocalLeg(store).readEnd(id, 10)).toBe(undefined);
    await new LocalLeg(store).replace(id, [makeBytes(10)]);
    expect(await readOf(id, 10)).toHaveLength(10);
  });
});

it('an id is written once', async () => {
  const id = newExtentId();
  const file = await store.create(id);
  await expect(store.create(id)).rejects.toMatchObject({ code: 'EEXIST' });
  await file.abort();
});

it('an extent that is absent can be removed', async () => {
  const id = newExtentId();
  await store.remove(id);
  await write(id, makeBytes(1));
  await store.remove(id);
  await store.remove(id);
  expect(await listIds()).toEqual([]);
});

it('many finished at once are all found by another process', async () => {
  // Ids that share folders, so that folder fsyncs are shared and folders are made in a race.
  const ids = Array.from({ length: 60 }, (_, i) => {
    const id = newExtentId();
    id[14] = i % 2;
    id[15] = i % 3;
    return id;
  });
  await Promise.all(ids.map((id) => write(id, makeBytes(10))));
  const expected = ids.map((id) => id.toString('hex')).sort();
  expect(await listIds(await LocalStore.open(dir))).toEqual(expected);
});

it("files lie in two levels of folders, named by the id's random end", async () => {
  const id = Buffer.from('0193500fbb4a7000a1b2c3d4e5f60718', 'hex');
  await write(id, makeBytes(1));
  expect(fileOf(dir, id)).toBe(path.join(dir, '07', '18', id.toString('hex')));
  expect(existsSync(fileOf(dir, id))).toBe(true);
});

it('a killed writer leaves only a temporary file, which is removed', async () => {
  const script = `
    const { LocalStore } = await import('#bursar/tiering/stores/local-store.js');
    const store = await LocalStore.open(process.argv[1]);
    const done = await store.create(Buffer.alloc(16, 1));
    await done.finish();
    const file = await store.create(Buffer.alloc(16, 2));
    await file.write(Buffer.alloc(1000), 0);
    process.kill(process.pid, 'SIGKILL');
  `;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', script, dir]);
  expect(ended.signal).toBe('SIGKILL');

  const after = await LocalStore.open(dir);
  expect(await listIds(after)).toEqual(['01'.repeat(16)]);
  expect(readdirSync(path.join(dir, 'temporary'))).toEqual(['02'.repeat(16)]);
  expect(await after.removeTemporary()).toBe(1);
  expect(await after.removeTemporary()).toBe(0);
  expect(await listIds(after)).toEqual(['01'.repeat(16)]);
});

it('nobody but the owner can read an extent', async () => {
  const id = newExtentId();
  await write(id, makeBytes(1));
  expect(statSync(fileOf(dir, id)).mode & 0o777).toBe(0o600);
});

it('a new store makes its folders, however deep', async () => {
  const deep = path.join(dir, 'a', 'b', 'c');
  const made = await LocalStore.open(deep);
  expect(await listIds(made)).toEqual([]);
});

it('a store where it cannot be says so', async () => {
  await write(Buffer.alloc(16, 3), makeBytes(1));
  const inFile = path.join(fileOf(dir, Buffer.alloc(16, 3)), 'store');
  await expect(LocalStore.open(inFile)).rejects.toMatchObject({ code: 'ENOTDIR' });
});

// The proc file system opens folders and refuses to fsync them: a real failing fsync.
it.runIf(process.platform === 'linux')(
  'a failed fsync goes to onFatal and is not tried again',
  async () => {
    const errors: unknown[] = [];
    const folders = new FolderSync((error) => {
      errors.push(error);
      throw new Error('stopped', { cause: error });
    });
    await expect(folders.sync('/proc/self')).rejects.toThrow('stopped');
    expect(errors).toMatchObject([{ syscall: 'fsync' }]);
  },
);

it('a folder that another thread has made is durable before an extent in it is', async () => {
  const memory = MadeFolders.sharedMemory();
  const open = () => LocalStore.open(dir, { made: new MadeFolders(memory) });
  const [one, other] = [await open(), await open()];
  const put = async (to: LocalStore, second: number) => {
    const id = newExtentId();
    id.set([0xab, second], id.length - 2);
    const file = await to.create(id);
    await file.finish();
  };
  const sync = vi.spyOn(FolderSync.prototype, 'sync');
  const synced = () => sync.mock.calls.splice(0).map(([folder]) => path.relative(dir, folder));
  for (const store of [one, other]) await put(store, 1);
  expect(synced()).toEqual(['ab/01', 'ab', '', 'ab/01', 'ab', '']);
  await put(other, 1);
  expect(synced()).toEqual(['ab/01']);
  await put(one, 2);
  expect(synced()).toEqual(['ab/02', 'ab', '']);
  await put(other, 2);
  expect(synced()).toEqual(['ab/02', 'ab', '']);
  await put(other, 2);
  expect(synced()).toEqual(['ab/02']);
  sync.mockRestore();
});

it('folders are not taken to be durable while one of them is being made', () => {
  const made = new MadeFolders();
  made.count(0xab, () => expect([made.begun(0xab), made.settled(0xab)]).toEqual([1, null]));
  expect([made.begun(0xab), made.settled(0xab), made.settled(0xac)]).toEqual([1, 1, 0]);
  const fail = () => {
    throw new Error('no room');
  };
  expect(() => made.count(0xab, fail)).toThrow('no room');
  expect(made.settled(0xab)).toBe(2);
});
