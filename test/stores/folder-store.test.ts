// A store in a folder: what was put is given back, listings are in the order of names, and a disk
// that hangs, has lost a file or is not mounted refuses what is asked of it and stops nothing else.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IntegrityError, Refusal } from '#bursar/core/errors.js';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { failureCauses } from '#bursar/tiering/stores/attempt-failure.js';
import { FolderStore } from '#bursar/tiering/stores/folder/folder-store.js';
import { emptyLike, newId, piecesOf, sizeOf } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

describe('a store in a folder', () => {
  const parent = mkdtempSync(join(tmpdir(), 'bursar-folder-'));
  let root: string;
  let store: FolderStore;
  let count = 0;

  beforeEach(async () => {
    root = join(parent, `a disk %2F é ${count++}`);
    mkdirSync(root);
    store = await open();
    await store.putObject('owner', Buffer.from('us'));
  });
  afterEach(() => store.close());
  afterAll(() => rmSync(parent, { recursive: true, force: true }));

  async function open(options: Partial<Parameters<typeof FolderStore.open>[0]> = {}) {
    return FolderStore.open({
      number: 2,
      name: 'folder',
      url: pathToFileURL(root).href,
      meter: new StoreMeter({ causes: failureCauses }),
      ...options,
    });
  }

  function fileOf(id: Buffer): string {
    const name = id.toString('hex');
    return join(root, 'extents', name.slice(30), name);
  }

  /** What an extent's read ends with. */
  async function readOf(from: FolderStore, id: Buffer, sizeBytes: number): Promise<unknown> {
    const into = [Buffer.alloc(sizeBytes)];
    return from.read({ id, sizeBytes, position: 0, into }).then(
      () => into[0],
      (error: unknown) => error,
    );
  }

  it('gives back what was put, piece by piece, however both were cut', async () => {
    const id = newId();
    const pieces = piecesOf([262_176, 1, 262_176, 2_000_000, 0, 3]);
    await store.put(id, pieces);
    const whole = Buffer.concat(pieces);
    for (const [position, sizes] of [
      [0, [whole.length]],
      [262_176, [1, 1_500_000, 7]],
      [whole.length - 1, [1]],
    ] as const) {
      const into = sizes.map((size) => Buffer.from(new SharedArrayBuffer(size)));
      const filled: number[] = [];
      const call = { id, sizeBytes: whole.length, position, into };
      await store.read({ ...call, filled: (index) => filled.push(index) });
      const end = position + sizeOf(into);
      expect(Buffer.concat(into).equals(whole.subarray(position, end))).toBe(true);
      expect(filled).toEqual(sizes.map((_, index) => index));
    }
    const end = await store.readEnd(id, 10);
    expect(end).toEqual({ bytes: whole.subarray(-10), sizeBytes: whole.length });
    expect(await store.readEnd(newId(), 10)).toBeUndefined();
    expect(readdirSync(join(root, 'temporary'))).toEqual([]);
  });

  it('says what is missing or of another length, and only where the place is ours', async () => {
    const [id, other] = [newId(), newId()];
    await store.put(id, piecesOf([1000]));
    expect(await readOf(store, other, 1000)).toMatchObject({ kind: 'missing', store: 2 });
    expect(await readOf(store, id, 999)).toMatchObject({ kind: 'length', store: 2 });
    truncateSync(fileOf(id), 500);
    expect(await readOf(store, id, 1000)).toBeInstanceOf(IntegrityError);
    const lost = await open({
      confirmPlace: () => Promise.reject(new Refusal('ServiceUnavailable')),
    });
    expect(await readOf(lost, other, 1000)).toBeInstanceOf(Refusal);
    await lost.close();
  });

  it('never writes over an extent, and lets the first writer of a name win', async () => {
    const id = newId();
    const pieces = piecesOf([1000]);
    await store.put(id, pieces);
    await expect(store.put(id, emptyLike(pieces))).rejects.toBeInstanceOf(Refusal);
    expect(await readOf(store, id, 1000)).toEqual(pieces[0]);
    const racers = Array.from({ length: 8 }, (_, i) => Buffer.from(`racer ${i}`));
    const put = (bytes: Buffer) => store.putObject('journal/1', bytes, { ifAbsent: true });
    const outcomes = await Promise.all(racers.map(put));
    expect(outcomes.filter((one) => one === 'stored')).toHaveLength(1);
    const winner = racers[outcomes.indexOf('stored')];
    expect(await store.getObject('journal/1')).toEqual(winner);
    expect(await store.putObject('journal/1', Buffer.from('over'))).toBe('stored');
    expect(await store.getObject('journal/1')).toEqual(Buffer.from('over'));
    await store.removeObject('journal/1');
    await store.removeObject('journal/1');
    expect(await store.getObject('journal/1')).toBeUndefined();
  });

  it('replaces an extent by a whole one, or leaves it as it is', async () => {
    const id = newId();
    const [first, second, third] = [piecesOf([1000]), piecesOf([2000]), piecesOf([3000])];
    await store.replace(id, first);
    expect(await readOf(store, id, 1000)).toEqual(first[0]);
    await store.replace(id, second);
    expect(await readOf(store, id, 2000)).toEqual(second[0]);
    const temporary = join(root, 'temporary');
    rmdirSync(temporary);
    writeFileSync(temporary, '');
    await expect(store.replace(id, third)).rejects.toThrow();
    expect(await readOf(store, id, 2000)).toEqual(second[0]);
  });

  it('lists names in the order of their bytes, after any name, as they sort', async () => {
    const letters = ['a', '-', '.', '0', 'é', '/b', '/-'];
    const names = new Set<string>();
    for (let i = 0; i < 120; i++) {
      const parts = Array.from({ length: 1 + (i % 4) }, () => letters[randomBytes(1)[0]! % 7]);
      names.add(`journal/x${i % 7}${parts.join('')}`.replace(/\/$/, ''));
    }
    const stored: string[] = [];
    // One of the prefixes below is that of a folder, which this is not.
    names.add('journal/x1a');
    for (const name of [...names].reverse()) {
      // A name cannot be a file and a folder at once, which a gateway's names never are.
      const clash = stored.some((one) => one.startsWith(`${name}/`) || name.startsWith(`${one}/`));
      if (clash) continue;
      await store.putObject(name, Buffer.from('x'));
      stored.push(name);
    }
    stored.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const list = async (prefix: string, after?: string): Promise<string[]> => {
      const found: string[] = [];
      for await (const { name } of store.listObjects(prefix, after)) found.push(name);
      return found;
    };
    for (const prefix of ['', 'journal/', 'journal/x3', 'journal/x1a/', 'nothing/']) {
      for (const after of [undefined, '', 'journal/x2', ...stored.slice(0, 40)]) {
        const expected = [...stored, 'owner'].filter(
          (name) => name.startsWith(prefix) && (after === undefined || name > after),
        );
        expect([prefix, after, await list(prefix, after)]).toEqual([prefix, after, expected]);
      }
    }
  });

  it('lists extents where they belong, and nothing else', async () => {
    const ids = [newId(), newId(), newId()];
    for (const id of ids) await store.put(id, piecesOf([10]));
    writeFileSync(join(root, 'extents', 'stray'), '');
    const misplaced = join(root, 'extents', 'zz');
    mkdirSync(misplaced);
    writeFileSync(join(misplaced, newId().toString('hex')), '');
    const found: string[] = [];
    for await (const { id, sizeBytes } of store.list())
      found.push(`${id.toString('hex')} ${sizeBytes}`);
    expect(found.sort()).toEqual(ids.map((id) => `${id.toString('hex')} 10`).sort());
  });

  it('makes nothing where its disk is not mounted, and goes on when it is back', async () => {
    const id = newId();
    await store.put(id, piecesOf([1000]));
    const away = `${root} away`;
    renameSync(root, away);
    mkdirSync(root);
    await expect(store.put(newId(), piecesOf([10]))).rejects.toBeInstanceOf(Refusal);
    expect(await store.getObject('owner')).toBeUndefined();
    expect(readdirSync(root)).toEqual([]);
    // As where a start has met the mount point and left a folder.
    mkdirSync(join(root, 'temporary'));
    await expect(store.put(newId(), piecesOf([10]))).rejects.toBeInstanceOf(Refusal);
    expect(existsSync(join(root, 'extents'))).toBe(false);
    rmdirSync(join(root, 'temporary'));
    rmdirSync(root);
    renameSync(away, root);
    await expect.poll(() => readOf(store, id, 1000)).toBeInstanceOf(Buffer);
  });

  it('is refused where there is no such folder', async () => {
    const url = pathToFileURL(join(root, 'none')).href;
    const missing = await open({ url });
    expect(missing.state()).toMatchObject({ ready: false, breaker: 'open' });
    expect(missing.state().lastFailure?.message).toContain('mount its disk');
    await expect(missing.put(newId(), piecesOf([10]))).rejects.toBeInstanceOf(Refusal);
    mkdirSync(join(root, 'none'));
    await expect.poll(() => missing.state().ready).toBe(true);
    await missing.close();
  });

  it('gives up a file that the disk keeps, and serves all others meanwhile', async () => {
    const slow = await open({ stallTimeoutMs: 300, connectionsMax: 3 });
    const [hanging, other] = [newId(), newId()];
    await slow.put(hanging, piecesOf([1000]));
    await slow.put(other, piecesOf([1000]));
    // Who opens a pipe to read waits until somebody writes to it.
    rmSync(fileOf(hanging));
    execFileSync('mkfifo', [fileOf(hanging)]);
    const reads = [readOf(slow, hanging, 1000), readOf(slow, hanging, 1000)];
    expect(await readOf(slow, other, 1000)).toBeInstanceOf(Buffer);
    for (const read of await Promise.all(reads)) expect(read).toBeInstanceOf(Refusal);
    expect(slow.state()).toMatchObject({ inFlight: 2, lastFailure: { reason: 'stall' } });
    expect(await readOf(slow, other, 1000)).toBeInstanceOf(Buffer);
    // With the last thread kept as well, nobody waits for longer.
    expect(await readOf(slow, hanging, 1000)).toBeInstanceOf(Refusal);
    expect(await readOf(slow, other, 1000)).toBeInstanceOf(Refusal);
    closeSync(openSync(fileOf(hanging), 'r+'));
    await expect.poll(() => slow.state().inFlight).toBe(0);
    await expect.poll(() => readOf(slow, other, 1000)).toBeInstanceOf(Buffer);
    await slow.close();
  });

  it('ends a read at once when nobody wants it any more, and writes to nothing then', async () => {
    const id = newId();
    await store.put(id, piecesOf([5_000_000]));
    const ending = new AbortController();
    const into = [Buffer.alloc(1_000_000), Buffer.alloc(4_000_000)];
    const filled = (): void => ending.abort(new Error('gone'));
    const call = { id, sizeBytes: 5_000_000, position: 0, into, filled };
    await expect(store.read({ ...call, signal: ending.signal })).rejects.toThrow('gone');
    const kept = Buffer.from(into[1] as Buffer);
    await expect.poll(() => store.state().inFlight).toBe(0);
    expect(kept.equals(into[1] as Buffer)).toBe(true);
  });

  it('removes what a killed process left, and nothing that may be under way', async () => {
    const [old, young] = ['old', 'young'].map((name) => join(root, 'temporary', name));
    for (const file of [old, young]) writeFileSync(file as string, 'half');
    utimesSync(old as string, 1, 1);
    await (await open()).close();
    expect(readdirSync(join(root, 'temporary'))).toEqual(['young']);
  });
});
