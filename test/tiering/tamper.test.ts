// What happens to a reader when stored bytes, or what the catalog says of them, were changed.
import { copyFileSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import type { ExtentRun } from '#bursar/core/manifest.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import { C, E, listOpenFiles, makeBytes, makeRig, type Rig } from './rig.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await makeRig({ epochs: 2 });
});
afterEach(async () => {
  expect(rig.buffers.inUse).toBe(0);
  expect(listOpenFiles(rig.dir)).toEqual([]);
  await rig.close();
});

const body = makeBytes(4 * C + 100);

/** Reads until it fails. */
async function readUntilError(object: WrittenObject, tenant = 'cms') {
  const seen: Buffer[] = [];
  const error: unknown = await rig.get(object, { tenant, see: (data) => seen.push(data) }).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return { bytes: Buffer.concat(seen), error };
}

function firstRun(object: WrittenObject): ExtentRun {
  return object.runs[0] as ExtentRun;
}

function change(object: WrittenObject, edit: (sealed: Buffer) => Buffer): void {
  const file = rig.fileOf(firstRun(object));
  writeFileSync(file, edit(readFileSync(file)));
}

it.each([0, 1, 2, 3, 4])(
  'of a bad chunk %i no byte is given out, and all before it are',
  async (i) => {
    const object = await rig.put(body);
    change(object, (sealed) => {
      const at = i * (C + 32) + 50;
      sealed[at] = (sealed[at] as number) ^ 4;
      return sealed;
    });
    const { bytes, error } = await readUntilError(object);
    expect(error).toBeInstanceOf(IntegrityError);
    expect(bytes.equals(body.subarray(0, i * C))).toBe(true);
  },
);

it('a bad chunk that the range does not need does no harm', async () => {
  const object = await rig.put(body);
  change(object, (sealed) => sealed.fill(0, 0, C));
  const read = await rig.get(object, { start: C, end: body.length });
  expect(read.equals(body.subarray(C))).toBe(true);
});

it('a tag alone that was changed is found', async () => {
  const object = await rig.put(body);
  change(object, (sealed) => sealed.fill(0, sealed.length - 1));
  expect((await readUntilError(object)).error).toBeInstanceOf(IntegrityError);
});

it.each([1, 32, 132, C, 2 * C + 164])(
  'a file that lost its last %i bytes gives none',
  async (n) => {
    const object = await rig.put(body);
    const file = rig.fileOf(firstRun(object));
    truncateSync(file, readFileSync(file).length - n);
    const { bytes, error } = await readUntilError(object);
    expect(error).toBeInstanceOf(IntegrityError);
    expect(bytes).toHaveLength(0);
  },
);

it('a file that grew gives none', async () => {
  const object = await rig.put(body);
  change(object, (sealed) => Buffer.concat([sealed, Buffer.alloc(1)]));
  const { bytes, error } = await readUntilError(object);
  expect(error).toBeInstanceOf(IntegrityError);
  expect(bytes).toHaveLength(0);
});

it("another extent's file in its place is found at the first chunk", async () => {
  const object = await rig.put(body);
  const other = await rig.put(body);
  copyFileSync(rig.fileOf(firstRun(other)), rig.fileOf(firstRun(object)));
  const { bytes, error } = await readUntilError(object);
  expect(error).toBeInstanceOf(IntegrityError);
  expect(bytes).toHaveLength(0);
});

it('a missing file is an integrity error that keeps its cause', async () => {
  const object = await rig.put(body);
  rmSync(rig.fileOf(firstRun(object)));
  const { error } = await readUntilError(object);
  expect(error).toBeInstanceOf(IntegrityError);
  expect((error as IntegrityError).cause).toMatchObject({ code: 'ENOENT' });
});

it('a second extent that is missing fails only when it is its turn', async () => {
  const large = makeBytes(E + C);
  const object = await rig.put(large);
  rmSync(rig.fileOf(object.runs[1] as ExtentRun));
  const { bytes, error } = await readUntilError(object);
  expect(error).toBeInstanceOf(IntegrityError);
  expect(bytes.equals(large.subarray(0, E))).toBe(true);
});

it.each<[string, Partial<ExtentRun>]>([
  ['a length of the extent one too small', { extentBytes: body.length - 1 }],
  ['a length of the extent one too large', { extentBytes: body.length + 1 }],
  ['an extent above 16 MiB', { extentBytes: E + 1, length: 1 }],
  ['the other algorithm', { algorithm: 1 }],
  ['an algorithm that does not exist', { algorithm: 9 }],
  ['another key epoch', { epoch: 1 }],
  ['a run beyond the end', { offset: 1, length: body.length }],
])('a manifest with %s is refused', async (_name, lie) => {
  const object = await rig.put(body);
  const run = { ...firstRun(object), ...lie };
  const { bytes, error } = await readUntilError({ ...object, runs: [run] });
  expect(error).toBeInstanceOf(IntegrityError);
  expect(bytes).toHaveLength(0);
});

it("one tenant's bytes do not verify as another's", async () => {
  const object = await rig.put(body);
  expect((await readUntilError(object, 'lhcb')).error).toBeInstanceOf(IntegrityError);
  const small = await rig.put(makeBytes(100));
  expect((await readUntilError(small, 'lhcb')).error).toBeInstanceOf(IntegrityError);
});

it('a key epoch that is gone is an error, not a wrong answer', async () => {
  const object = await rig.put(body);
  const run = { ...firstRun(object), epoch: 77 };
  const { error } = await readUntilError({ ...object, runs: [run] });
  expect(String(error)).toContain('no root key');
});

it.each<[string, (sealed: Buffer) => Buffer]>([
  ['flipped', (sealed) => Buffer.from(sealed).fill(0, 10, 20)],
  ['cut', (sealed) => sealed.subarray(0, sealed.length - 1)],
  ['longer', (sealed) => Buffer.concat([sealed, Buffer.alloc(32)])],
  ['empty', () => Buffer.alloc(0)],
])('an inline body that is %s is refused', async (_name, edit) => {
  const object = await rig.put(makeBytes(4096));
  const body = edit(Buffer.from(object.inline?.body ?? []));
  await expect(
    (async () => rig.reader.openInline('cms', firstRun(object), body))(),
  ).rejects.toBeInstanceOf(IntegrityError);
});

it('a reader that is left early gives its buffers and files back', async () => {
  const large = makeBytes(2 * E);
  const object = await rig.put(large);
  for (const pieces of [0, 1, 2, 64, 65]) {
    const read = rig.reader.read({
      tenant: 'cms',
      runs: object.runs,
      inlineBody: async () => Buffer.alloc(0),
    });
    for (let i = 0; i < pieces; i++) await read.next();
    expect(rig.buffers.inUse).toBeLessThanOrEqual(9);
    await read.return();
    expect(rig.buffers.inUse).toBe(0);
    expect(listOpenFiles(rig.dir)).toEqual([]);
  }
});
