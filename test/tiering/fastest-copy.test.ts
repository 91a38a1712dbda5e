// Objects in two folder stores, any of which may answer: which one is read, and what happens where
// it is slow, breaks off, or has what is false.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { ObjectReader } from '#bursar/tiering/object-reader.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import { FolderStore } from '#bursar/tiering/stores/folder/folder-store.js';
import type { RemoteRead, RemoteStore } from '#bursar/tiering/stores/store.js';
import { Stores } from '#bursar/tiering/stores/stores.js';
import { C, MiB, makeBytes, makeFolder, makeRig, type Rig } from './rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const body = makeBytes(9 * MiB + 77);
const small = makeBytes(5000);
let folder: string;
let rig: Rig;
let stores: FolderStore[];
let objects: { large: WrittenObject; small: WrittenObject };
/** By store what has been read of it, and what each read waits for. */
let reads: Record<number, number>;
let delays: Record<number, (read: number) => Promise<unknown>>;
let suspects: string[];
let reader: ObjectReader;

beforeAll(async () => {
  folder = makeFolder();
  stores = await Promise.all(
    [2, 3].map((number) => {
      const root = join(folder, String(number));
      mkdirSync(root);
      const url = pathToFileURL(root).href;
      return FolderStore.open({ number, name: `disk${number}`, url, extentBytesMax: 4 * MiB });
    }),
  );
  for (const store of stores) await store.putObject('owner', Buffer.from('x'));
  rig = await makeRig({ remotes: stores });
  objects = {
    large: await rig.put(body, { store: 2 }),
    small: await rig.put(small, { store: 2 }),
  };
});

afterAll(async () => {
  await rig.close();
  for (const store of stores) await store.close();
  rmSync(folder, { recursive: true });
});

beforeEach(() => {
  rmSync(join(folder, '3', 'extents'), { recursive: true, force: true });
  cpSync(join(folder, '2', 'extents'), join(folder, '3', 'extents'), { recursive: true });
  [reads, delays, suspects] = [{ 2: 0, 3: 0 }, {}, []];
  const both = async () => [2, 3];
  const copies = {
    ...{ list: both, good: both },
    suspect: (_: Buffer, store: number, { kind }: { kind: string }) => {
      suspects.push(`${store} ${kind}`);
    },
  };
  const watched = new Stores(rig.store, stores.map(watch));
  const { keyring, digests, buffers } = rig;
  reader = new ObjectReader({ keyring, digests, buffers, copies, stores: watched });
});

/** The store itself, whose reads are counted, and wait. */
function watch(store: FolderStore): RemoteStore {
  const read = async (options: RemoteRead): Promise<void> => {
    const index = reads[store.number] ?? 0;
    reads[store.number] = index + 1;
    const aborted = new Promise<never>((_, reject) => {
      options.signal?.addEventListener('abort', () => reject(options.signal?.reason));
    });
    await Promise.race([delays[store.number]?.(index), aborted]);
    await store.read(options);
  };
  return new Proxy<RemoteStore>(store, {
    get(target, name) {
      if (name === 'read') return read;
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

async function get(object: WrittenObject): Promise<Buffer> {
  const pieces: Buffer[] = [];
  const inlineBody = async () => Buffer.alloc(0);
  const options = { tenant: 'cms', runs: object.runs, inlineBody, isAnyCopy: true };
  for await (const data of reader.read(options)) pieces.push(Buffer.from(data));
  expect(rig.buffers.inUse).toBe(0);
  return Buffer.concat(pieces);
}

const getSmall = () =>
  reader.openRemote('cms', objects.small.runs[0] as never, { isAnyCopy: true });

const never = () => new Promise<never>(() => {});

test('both are asked to begin with, and then the faster one', async () => {
  // More than the other takes on a machine that has much to do, and less than a second request
  // waits for.
  delays[2] = () => sleep(700);
  for (let i = 0; i < 3; i++) expect((await get(objects.large)).equals(body)).toBe(true);
  const before = { ...reads };
  for (let i = 0; i < 3; i++) expect((await get(objects.large)).equals(body)).toBe(true);
  // On a machine that is busy one may be asked of both.
  const [slow, fast] = [2, 3].map((store) => (reads[store] ?? 0) - (before[store] ?? 0));
  expect(slow).toBeLessThan(fast as number);
});

test('where one does not answer, the other does, for all that is behind it', async () => {
  // From its second read on it hangs, for ever.
  delays[2] = (index) => (index === 0 ? sleep(0) : never());
  for (let i = 0; i < 3; i++) expect((await get(objects.large)).equals(body)).toBe(true);
  expect(suspects).toEqual([]);
});

test('pieces of one chunk are whole where another store has given it', async () => {
  delays[2] = never;
  const [run] = objects.large.runs as [WrittenObject['runs'][number]];
  const pieceOf = (offset: number, length: number) => ({ ...run, offset, length });
  const runs = [pieceOf(C, 2000), pieceOf(C + 2000, 3000), pieceOf(C + 500, 100)];
  const expected = Buffer.concat(
    runs.map(({ offset, length }) => body.subarray(offset, offset + length)),
  );
  expect((await get({ ...objects.large, runs })).equals(expected)).toBe(true);
});

test('a small object is asked of the other where one does not answer', async () => {
  delays[2] = never;
  for (let i = 0; i < 3; i++) expect((await getSmall()).equals(small)).toBe(true);
});

test.each([
  ['a small object', getSmall, () => small],
  ['a large one', () => get(objects.large), () => body],
])('what the other lacks of %s is told, though the first answers', async (_, read, bytes) => {
  rmSync(join(folder, '3', 'extents'), { recursive: true });
  delays[2] = (index) => sleep(index === 0 ? 1500 : 0);
  expect((await read()).equals(bytes())).toBe(true);
  expect(new Set(suspects)).toEqual(new Set(['3 missing']));
});

test('what the slower one lacks is told, though the other answers', async () => {
  rmSync(join(folder, '3', 'extents'), { recursive: true });
  delays[3] = () => sleep(1100);
  delays[2] = () => sleep(1500);
  const [run] = objects.large.runs as [WrittenObject['runs'][number]];
  const runs = [{ ...run, store: 3, length: C }];
  expect((await get({ ...objects.large, runs })).equals(body.subarray(0, C))).toBe(true);
  expect(new Set(suspects)).toEqual(new Set(['3 missing']));
});

const extentsOf = (store: string) =>
  readdirSync(join(folder, store, 'extents'), { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile())
    .map((one) => join(one.parentPath, one.name));

test.each([
  ['missing', 'missing', (path: string) => rmSync(path)],
  ['cut', 'length', (path: string) => writeFileSync(path, readFileSync(path).subarray(0, C))],
  [
    'changed in the middle',
    'chunk',
    (path: string) => {
      const bytes = readFileSync(path);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
      writeFileSync(path, bytes);
    },
  ],
])('what is %s in one is read from the other, and told of the right one', async (_, __, spoil) => {
  for (const path of extentsOf('3')) spoil(path);
  for (let i = 0; i < 4; i++) {
    expect((await get(objects.large)).equals(body)).toBe(true);
    expect((await getSmall()).equals(small)).toBe(true);
  }
  expect(reads[3]).toBeGreaterThan(0);
  expect(suspects.length).toBeGreaterThan(0);
  expect(suspects.filter((one) => !one.startsWith('3 '))).toEqual([]);
});

test('what neither has is told as that, and gives all buffers back', async () => {
  const [path] = extentsOf('3');
  const aside = extentsOf('2').map((one) => [one, readFileSync(one)] as const);
  for (const one of extentsOf('3')) rmSync(one);
  for (const [one] of aside) rmSync(one);
  expect(path).toBeDefined();
  await expect(get(objects.large)).rejects.toMatchObject({ kind: 'missing' });
  await expect(getSmall()).rejects.toMatchObject({ kind: 'missing' });
  expect(rig.buffers.inUse).toBe(0);
  for (const [one, bytes] of aside) writeFileSync(one, bytes);
});

test('who leaves in the middle leaves nothing under way', async () => {
  delays[2] = () => sleep(50);
  delays[3] = () => sleep(50);
  const inlineBody = async () => Buffer.alloc(0);
  const options = { tenant: 'cms', runs: objects.large.runs, inlineBody, isAnyCopy: true };
  for (let i = 0; i < 5; i++) {
    const reading = reader.read(options);
    await reading.next();
    await reading.return();
    expect(rig.buffers.inUse).toBe(0);
  }
});

test('what comes behind is asked of another where the first is away', async () => {
  delays[2] = () => Promise.reject(new Refusal('ServiceUnavailable'));
  const runs = [1, 2, 3, 4].flatMap(() => objects.large.runs);
  const inlineBody = async () => Buffer.alloc(0);
  let length = 0;
  for await (const data of reader.read({ tenant: 'cms', runs, inlineBody })) {
    const at = length % body.length;
    expect(data.equals(body.subarray(at, at + data.length))).toBe(true);
    length += data.length;
  }
  expect(length).toBe(4 * body.length);
  expect(suspects).toEqual([]);
  // Of 12 runs only the first are asked for chunk by chunk.
  expect(reads[3]).toBeLessThan(60);
});

test('what comes behind is asked of the first again where the other is away', async () => {
  const away = () => Promise.reject(new Refusal('ServiceUnavailable'));
  delays[2] = (read) => (read === 0 ? away() : Promise.resolve());
  delays[3] = (read) => (read < 40 ? Promise.resolve() : away());
  const runs = Array.from({ length: 20 }, () => objects.large.runs).flat();
  const inlineBody = async () => Buffer.alloc(0);
  let length = 0;
  for await (const data of reader.read({ tenant: 'cms', runs, inlineBody })) {
    const at = length % body.length;
    expect(data.equals(body.subarray(at, at + data.length))).toBe(true);
    length += data.length;
  }
  expect(length).toBe(20 * body.length);
  // Those that were under way, of 60 runs, were asked for in vain.
  expect(reads[3]).toBeLessThan(60);
  expect(reads[2]).toBeGreaterThan(20);
});
