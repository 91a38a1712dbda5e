import { randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import {
  bucket,
  emptyLike,
  listed,
  newId,
  piecesOf,
  readWhole,
  type S3Rig,
  startS3Rig,
} from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

describeWithTool(versitygw, 'an S3 store', (path) => {
  let rig: S3Rig;
  let store: S3Store;
  const url = `s3://${bucket}/an odd/préfix+%2F~`;

  beforeAll(async () => {
    rig = await startS3Rig(path);
    store = await rig.open({ url });
  });
  afterAll(() => rig?.stop());

  /** The file in which the server keeps an extent. */
  function fileOf(id: Buffer): string {
    const name = id.toString('hex');
    const { dataDir } = rig.backend;
    return join(dataDir, bucket, 'an odd/préfix+%2F~/extents', name.slice(30), name);
  }

  it('keeps extents, and nothing else, in the storage class that it was told', async () => {
    const classed = await rig.open({ storageClass: 'REDUCED_REDUNDANCY' });
    const sent: [string, unknown][] = [];
    rig.proxy.choose = ({ method, target, headers }) => {
      const [name = ''] = /extents|owner/.exec(target) ?? [];
      if (method === 'PUT') sent.push([name, headers['x-amz-storage-class']]);
      return undefined;
    };
    await classed.put(newId(), piecesOf([100]));
    await classed.putObject('owner', Buffer.from('us'));
    await store.put(newId(), piecesOf([100]));
    rig.proxy.choose = () => undefined;
    expect(sent).toEqual([
      ['extents', 'REDUCED_REDUNDANCY'],
      ['owner', undefined],
      ['extents', undefined],
    ]);
  });

  it('gives back what was put, piece by piece, however both were cut', async () => {
    const id = newId();
    const pieces = piecesOf([262_176, 1, 262_176, 70_000, 3]);
    await store.put(id, pieces);
    const whole = Buffer.concat(pieces);
    for (const [position, sizes] of [
      [0, [whole.length]],
      [0, [1, 262_175, whole.length - 262_176]],
      [262_176, [1, 262_176]],
      [whole.length - 1, [1]],
      [17, [100_000, 100_000, 1, 1]],
    ] as const) {
      const into = emptyLike(piecesOf(sizes));
      const filled: number[] = [];
      await store.read({
        id,
        sizeBytes: whole.length,
        position,
        into,
        filled: (index) => {
          filled.push(index);
        },
      });
      const got = Buffer.concat(into);
      expect(got.equals(whole.subarray(position, position + got.length))).toBe(true);
      expect(filled).toEqual(sizes.map((_, index) => index));
    }
  });

  it('writes to nothing but the pieces', async () => {
    const id = newId();
    const pieces = piecesOf([1000]);
    await store.put(id, pieces);
    const around = Buffer.alloc(3000, 7);
    const into = [around.subarray(500, 900), around.subarray(2000, 2600)];
    await store.read({ id, sizeBytes: 1000, position: 0, into });
    const expected = Buffer.alloc(3000, 7);
    pieces[0]?.copy(expected, 500, 0, 400);
    pieces[0]?.copy(expected, 2000, 400);
    expect(around.equals(expected)).toBe(true);
  });

  it('says of a missing extent that it is missing', async () => {
    await expect(readWhole(store, newId(), 10)).rejects.toMatchObject({
      name: 'IntegrityError',
      kind: 'missing',
      store: 2,
    });
    expect(await store.readEnd(newId(), 10)).toBeUndefined();
  });

  it('says of an extent that is shorter or longer than it must be', async () => {
    for (const sizeBytes of [0, 999, 1001]) {
      const id = newId();
      await store.put(id, piecesOf([1000]));
      if (sizeBytes < 1000) truncateSync(fileOf(id), sizeBytes);
      else writeFileSync(fileOf(id), Buffer.alloc(sizeBytes));
      for (const [position, length] of [
        [0, 1000],
        [0, 10],
        [990, 10],
      ] as const) {
        const into = [Buffer.alloc(length)];
        const read = store.read({ id, sizeBytes: 1000, position, into });
        await expect(read).rejects.toThrow(IntegrityError);
        await expect(read).rejects.toMatchObject({ kind: 'length', store: 2 });
        expect(into[0]?.equals(Buffer.alloc(length))).toBe(true);
      }
    }
  });

  it('gives the end of an extent, or all of it', async () => {
    const id = newId();
    const [bytes = Buffer.alloc(0)] = piecesOf([1000]);
    await store.put(id, [bytes]);
    for (const [maxBytes, from] of [
      [1, 999],
      [100, 900],
      [1000, 0],
      [5000, 0],
    ] as const) {
      const end = await store.readEnd(id, maxBytes);
      expect(end?.sizeBytes).toBe(1000);
      expect(end?.bytes.equals(bytes.subarray(from))).toBe(true);
    }
  });

  it('forgets what is removed, and forgives removing it twice', async () => {
    const id = newId();
    await store.put(id, piecesOf([10]));
    await store.remove(id);
    await store.remove(id);
    await expect(readWhole(store, id, 10)).rejects.toThrow(IntegrityError);
  });

  it('writes no extent over another', async () => {
    const id = newId();
    const pieces = piecesOf([1000]);
    await store.put(id, pieces);
    const again = store.put(id, piecesOf([1000]));
    await expect(again).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect((await readWhole(store, id, 1000)).equals(pieces[0] as Buffer)).toBe(true);
  });

  it('replaces an extent where it is asked to', async () => {
    const id = newId();
    const [first, second] = [piecesOf([1000]), piecesOf([2000])];
    await store.put(id, first);
    await store.replace(id, second);
    expect((await readWhole(store, id, 2000)).equals(second[0] as Buffer)).toBe(true);
  });

  it('lists all extents of its prefix and no others, over pages', async () => {
    const single = await rig.open();
    const beside = await rig.open({ url: `s3://${bucket}` });
    const ids = Array.from({ length: 1010 }, () => newId());
    let next = 0;
    const put = async (): Promise<void> => {
      for (let id = ids[next++]; id; id = ids[next++]) await single.put(id, piecesOf([7]));
    };
    await Promise.all(Array.from({ length: 16 }, put));
    await single.putObject('extents/00/no-id', Buffer.from('x'));
    await beside.put(newId(), piecesOf([7]));
    const expected = Object.fromEntries(ids.map((id) => [id.toString('hex'), 7]));
    expect(await listed(single)).toEqual(expected);
  });

  it('keeps small objects beside the extents, in order of name', async () => {
    const names = ['journal/1/a', 'journal/1/b', 'journal/10/a', 'owner'];
    for (const name of [...names].reverse()) {
      expect(await store.putObject(name, Buffer.from(`${name}!`))).toBe('stored');
    }
    expect((await store.getObject('owner'))?.toString()).toBe('owner!');
    expect(await store.getObject('none')).toBeUndefined();
    await store.putObject('owner', Buffer.from('another'));
    expect((await store.getObject('owner'))?.toString()).toBe('another');
    const list = async (prefix: string, after?: string): Promise<string[]> => {
      const found: string[] = [];
      for await (const { name } of store.listObjects(prefix, after)) found.push(name);
      return found;
    };
    expect(await list('journal/')).toEqual(names.slice(0, 3));
    expect(await list('journal/', 'journal/1/a')).toEqual(names.slice(1, 3));
    await store.removeObject('journal/1/b');
    expect(await list('journal/1/')).toEqual(['journal/1/a']);
  });

  it('says of an object that is there that it exists, and leaves it', async () => {
    expect(await store.putObject('mark', Buffer.from('first'), { ifAbsent: true })).toBe('stored');
    expect(await store.putObject('mark', Buffer.from('second'), { ifAbsent: true })).toBe('exists');
    expect((await store.getObject('mark'))?.toString()).toBe('first');
  });

  it('knows its own object again when the answer to the first try was lost', async () => {
    let left = 1;
    rig.proxy.choose = ({ method }) =>
      method === 'PUT' && left-- > 0 ? { kind: 'reset', at: 'answer' } : undefined;
    expect(await store.putObject('lost', Buffer.from('mine'), { ifAbsent: true })).toBe('stored');
    left = 1;
    expect(await store.putObject('lost', Buffer.from('other'), { ifAbsent: true })).toBe('exists');
    rig.proxy.choose = () => undefined;
  });

  it('stores and gives back an empty object', async () => {
    await store.putObject('empty', Buffer.alloc(0));
    expect(await store.getObject('empty')).toEqual(Buffer.alloc(0));
  });

  it('lets go of the pieces when a read is abandoned', async () => {
    const id = newId();
    await store.put(id, piecesOf([262_176, 262_176]));
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 100 });
    const abort = new AbortController();
    const into = [Buffer.alloc(262_176), Buffer.alloc(262_176)];
    const { signal } = abort;
    const read = store.read({ id, sizeBytes: 524_352, position: 0, into, signal });
    setTimeout(() => abort.abort(new Error('the client left')), 30);
    await expect(read).rejects.toThrow('the client left');
    expect(store.state().inFlight).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, 150));
    for (const piece of into) expect(piece.equals(Buffer.alloc(262_176))).toBe(true);
    rig.proxy.choose = () => undefined;
    const late = store.read({ id, sizeBytes: 524_352, position: 0, into, signal });
    await expect(late).rejects.toThrow('the client left');
  });

  it('leaves nothing at a signal that many reads had', async () => {
    const id = newId();
    await store.put(id, piecesOf([1000]));
    const { signal } = new AbortController();
    for (let i = 0; i < 20; i++) {
      const into = [Buffer.alloc(1000)];
      await store.read({ id, sizeBytes: 1000, position: 0, into, signal });
    }
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('has no more requests under way than it may, and serves the others in turn', async () => {
    const narrow = await rig.open({ connectionsMax: 1 });
    const id = newId();
    await narrow.put(id, piecesOf([1000]));
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 10 });
    const order: number[] = [];
    const reads = Array.from({ length: 10 }, async (_, index) => {
      await readWhole(narrow, id, 1000);
      order.push(index);
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(narrow.state()).toMatchObject({ inFlight: 1, waiting: 9 });
    await Promise.all(reads);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(narrow.state()).toMatchObject({ inFlight: 0, waiting: 0 });
    rig.proxy.choose = () => undefined;
  });

  it('refuses what comes after it was closed, and what was under way', async () => {
    const closed = await rig.open();
    rig.proxy.choose = () => ({ kind: 'stall', at: 'answer' });
    const pending = closed.getObject('name');
    const failed = expect(pending).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    await new Promise((resolve) => setTimeout(resolve, 20));
    await closed.close();
    await failed;
    rig.proxy.choose = () => undefined;
    await expect(closed.getObject('name')).rejects.toMatchObject({ code: 'ServiceUnavailable' });
  });

  it('leaves nothing of its probes', () => {
    const files = readdirSync(rig.backend.dataDir, { recursive: true, withFileTypes: true });
    const probes = files.filter((file) => file.isFile() && /probe/.test(file.parentPath));
    expect(probes).toEqual([]);
  });

  it('refuses pieces without room and ids of another length', async () => {
    const open = await rig.open();
    const into = [Buffer.alloc(0), Buffer.alloc(1)];
    const read = open.read({ id: newId(), sizeBytes: 1, position: 0, into });
    await expect(read).rejects.toThrow('empty');
    await expect(open.put(randomBytes(15), piecesOf([1]))).rejects.toThrow('15 bytes');
  });
});
