// An export has the whole log and nothing else, whatever came before it and whatever it is given.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exportLog, type LogTarget } from '#bursar/audit/log/log-export.js';
import { verifyLog } from '#bursar/audit/verify/log.js';
import type { LogSource } from '#bursar/audit/verify/log-source.js';
import { urlSource } from '#bursar/audit/verify/log-source.js';
import { openFolderTarget } from '#bursar/cli/log-export-targets.js';
import { entriesOf, type Files, makeLog, serveStatically, signerOf } from './made-log.ts';

const signer = signerOf('log.example/bursar');
const trust = { keys: [signer.key] };
const keyText = 'the key, as it is published\n';
const many = entriesOf(65_800);

function sourceOf(files: Files): LogSource {
  return { read: async (path) => files.get(path) };
}

/** A target in memory, that notes what is done to it. */
function targetOf(files: Files) {
  const steps: string[] = [];
  const target: LogTarget = {
    ...sourceOf(files),
    write: async (path, bytes) => {
      steps.push(path);
      files.set(path, Buffer.from(bytes));
    },
    settle: async () => void steps.push('settle'),
    dropPartials: async (path) => {
      steps.push(`drop ${path}`);
      for (const name of files.keys()) if (name.startsWith(`${path}.p/`)) files.delete(name);
    },
  };
  return { target, steps };
}

function exportTo(target: LogTarget, from: Files, more: { isWhole?: boolean } = {}) {
  return exportLog({ log: sourceOf(from), target, trust, keyText, ...more });
}

function expectSame(exported: Files, log: Files): void {
  const expected = new Map(log).set('key', Buffer.from(keyText));
  expect([...exported.keys()].sort()).toEqual([...expected.keys()].sort());
  for (const [path, bytes] of expected) expect(exported.get(path)?.equals(bytes)).toBe(true);
}

const logs = new Map<number, Files>();
async function logOf(size: number): Promise<Files> {
  const made = logs.get(size) ?? (await makeLog(many.slice(0, size), signer));
  logs.set(size, made);
  return made;
}

/** Where others run, too. */
const timeout = 60_000;

describe('an export', { timeout }, () => {
  it.each([0, 1, 255, 256, 257, 65_535, 65_536, 65_537])(
    'of a log of %i entries has all its files, and verifies',
    async (size) => {
      const files: Files = new Map();
      const report = await exportTo(targetOf(files).target, await logOf(size));
      expect(report).toMatchObject({ origin: signer.key.name, size, sizeBefore: null });
      expectSame(files, await logOf(size));
      expect(await verifyLog(sourceOf(files), { trust })).toMatchObject({ ok: true, size });
    },
  );

  it('that goes on writes only what is new, and the checkpoint last', async () => {
    const files: Files = new Map();
    const { target, steps } = targetOf(files);
    await exportTo(target, await logOf(65_535));
    steps.length = 0;
    const report = await exportTo(target, await logOf(65_537));
    expect(report).toMatchObject({ size: 65_537, sizeBefore: 65_535, files: 7 });
    expect(steps.slice(0, 6).sort()).toEqual([
      'tile/0/255',
      'tile/0/256.p/1',
      'tile/1/000',
      'tile/2/000.p/1',
      'tile/entries/255',
      'tile/entries/256.p/1',
    ]);
    expect(steps.slice(6)).toEqual([
      'settle',
      'checkpoint',
      'settle',
      'drop tile/0/255',
      'drop tile/entries/255',
      'drop tile/1/000',
    ]);
    expectSame(files, await logOf(65_537));
    steps.length = 0;
    expect(await exportTo(target, await logOf(65_537))).toMatchObject({ files: 0, bytes: 0 });
    expect(steps.filter((step) => !step.startsWith('drop'))).toEqual(['settle', 'settle']);
  });

  it('keeps partial tiles whose full one is not there yet', async () => {
    const files: Files = new Map();
    const { target } = targetOf(files);
    for (const size of [3, 5]) await exportTo(target, await logOf(size));
    expect([...files.keys()].filter((path) => path.startsWith('tile/0'))).toEqual([
      'tile/0/000.p/3',
      'tile/0/000.p/5',
    ]);
  });

  it('that was cut short at any step is no export, and is made whole by the next', async () => {
    const [small, large] = [await logOf(300), await logOf(1000)];
    let cuts = 0;
    for (let writes = 0; ; writes += 1) {
      const files: Files = new Map();
      const { target } = targetOf(files);
      await exportTo(target, small);
      let left = writes;
      const failing: LogTarget = {
        ...target,
        write: async (path, bytes) => {
          if (left-- === 0) throw new Error('no space left');
          await target.write(path, bytes);
        },
      };
      const error = await exportTo(failing, large).catch((reason) => reason);
      if (!(error instanceof Error)) break;
      cuts += 1;
      expect(error.message).toBe('no space left');
      expect(files.get('checkpoint')).toEqual(small.get('checkpoint'));
      expect(await verifyLog(sourceOf(files), { trust })).toMatchObject({ ok: true, size: 300 });
      const { files: written } = await exportTo(target, large);
      expect(await verifyLog(sourceOf(files), { trust })).toMatchObject({ ok: true, size: 1000 });
      // What the first had written is not written again.
      expect(written).toBeLessThanOrEqual(8 - writes);
    }
    expect(cuts).toBe(8);
  });

  it('has no checkpoint whose files are not durable', async () => {
    const [small, large] = [await logOf(300), await logOf(1000)];
    const files: Files = new Map();
    const { target } = targetOf(files);
    await exportTo(target, small);
    const settle = () => Promise.reject(new Error('input/output error'));
    await expect(exportTo({ ...target, settle }, large)).rejects.toThrow('input/output error');
    expect(files.get('checkpoint')).toEqual(small.get('checkpoint'));
  });

  it('gives way to another that has ended meanwhile', async () => {
    const files: Files = new Map();
    const { target } = targetOf(files);
    await exportTo(target, await logOf(300));
    const settle = async () => void (await exportTo(target, await logOf(1000)));
    const late = exportTo({ ...target, settle }, await logOf(600));
    await expect(late).rejects.toThrow('another export');
    expect(await verifyLog(sourceOf(files), { trust })).toMatchObject({ ok: true, size: 1000 });
  });

  it('with --all brings back what was lost or altered', async () => {
    const log = await logOf(1000);
    const files: Files = new Map();
    const { target } = targetOf(files);
    await exportTo(target, log);
    files.delete('tile/0/001');
    files.set('tile/entries/002', Buffer.from('something else'));
    files.delete('tile/1/000.p/3');
    expect(await exportTo(target, log, { isWhole: true })).toMatchObject({ files: 3 });
    expectSame(files, log);
  });

  it('takes what is missing as a partial tile from the full one', async () => {
    const log = new Map(await logOf(300));
    const more = await logOf(600);
    for (const path of ['tile/0/001', 'tile/entries/001']) {
      log.delete(`${path}.p/44`);
      log.set(path, more.get(path) as Buffer);
    }
    const files: Files = new Map();
    await exportTo(targetOf(files).target, log);
    expectSame(files, await logOf(300));
  });
});

describe('an export refuses', { timeout }, () => {
  const damage: [string, (files: Files) => void][] = [
    ['a tile with another byte', (files) => flip(files, 'tile/0/001', 100)],
    ['a tile of the edge with another byte', (files) => flip(files, 'tile/0/003.p/232', 31)],
    ['a tile above with another byte', (files) => flip(files, 'tile/1/000.p/3', 40)],
    ['an entry with another byte', (files) => flip(files, 'tile/entries/002', 30)],
    ['a tile that is too short', (files) => cut(files, 'tile/0/001', 32)],
    ['a bundle with an entry less', (files) => cut(files, 'tile/entries/001', 85)],
    ['a missing tile', (files) => files.delete('tile/0/000')],
    ['a missing bundle', (files) => files.delete('tile/entries/003.p/232')],
    [
      'a bundle in the place of another',
      (files) => swap(files, 'tile/entries/001', 'tile/entries/002'),
    ],
    ['another size', (files) => rewrite(files, '\n1000\n', '\n1001\n')],
    ['another origin', (files) => rewrite(files, 'log.example/bursar\n', 'log.example/b\n')],
    ['no checkpoint', (files) => files.delete('checkpoint')],
  ];

  it.each(damage)('a log with %s, and leaves what was there', async (_, spoil) => {
    const log = new Map(await logOf(1000));
    spoil(log);
    const files: Files = new Map();
    const { target } = targetOf(files);
    await expect(exportTo(target, log)).rejects.toMatchObject({ name: 'LogDamage' });
    expect(files.has('checkpoint')).toBe(false);
    // All that was written is of the true log.
    for (const [path, bytes] of files) {
      expect((await logOf(1000)).get(path)?.equals(bytes), path).toBe(true);
    }
  });

  it('a log that was rolled back, or rewritten and signed anew', async () => {
    const files: Files = new Map();
    const { target } = targetOf(files);
    await exportTo(target, await logOf(600));
    const before = new Map(files);
    await expect(exportTo(target, await logOf(599))).rejects.toThrow('rolled back');
    const other = entriesOf(1000, 'other');
    const rewritten = await makeLog([...many.slice(0, 598), ...other.slice(598)], signer);
    await expect(exportTo(target, rewritten)).rejects.toThrow('rewritten');
    const sameSize = await makeLog(other.slice(0, 600), signer);
    await expect(exportTo(target, sameSize)).rejects.toThrow('rewritten');
    expect(files).toEqual(before);
  });

  it('a log of another name, and one that is signed by a stranger', async () => {
    const files: Files = new Map();
    const { target } = targetOf(files);
    await exportTo(target, await logOf(3));
    const others = [signerOf('other.example/log'), signerOf(signer.key.name, 'a stranger')];
    for (const other of others) {
      const log = await makeLog(many.slice(0, 5), other);
      await expect(exportTo(target, log)).rejects.toMatchObject({ name: 'LogDamage' });
      const options = { log: sourceOf(log), target, trust: { keys: [other.key] }, keyText };
      if (other.key.name !== signer.key.name) {
        await expect(exportLog(options)).rejects.toThrow('other.example/log');
      }
    }
  });
});

describe('an export to a folder', { timeout }, () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-export-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function readAll(): Files {
    const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
    return new Map(paths.map((path) => [path, readFileSync(join(folder, path))]));
  }

  it('over HTTP has the files that a static server serves, and they verify there', async () => {
    const log = await logOf(1000);
    const server = await serveStatically((path) => log.get(path));
    const target = await openFolderTarget(join(folder, 'log'));
    await exportLog({ log: urlSource(server.url), target, trust, keyText });
    await target.close();
    await server.close();
    const exported = readAll();
    expectSame(new Map([...exported].map(([path, bytes]) => [path.slice(4), bytes])), log);
    expect(statSync(join(folder, 'log/checkpoint')).mode & 0o777).toBe(0o644);
    const copy = await serveStatically((path) => exported.get(`log/${path}`));
    expect(await verifyLog(urlSource(copy.url), { trust })).toMatchObject({ ok: true, size: 1000 });
    await copy.close();
  });

  it('reads nothing again that it has', async () => {
    let files: Files = new Map();
    const server = await serveStatically((path) => files.get(path));
    for (const size of [1000, 1300]) {
      files = await logOf(size);
      server.asked.length = 0;
      const target = await openFolderTarget(folder);
      await exportLog({ log: urlSource(server.url), target, trust, keyText });
      await target.close();
    }
    await server.close();
    const tiles = server.asked.filter((path) => /^tile\/(0|entries)/.test(path));
    expect(tiles.sort()).toEqual([
      'tile/0/003',
      'tile/0/004',
      'tile/0/005.p/20',
      'tile/entries/003',
      'tile/entries/004',
      'tile/entries/005.p/20',
    ]);
    // The partial tiles of before are gone, but for the one whose full one is not there yet.
    const files1000 = await logOf(1000);
    const kept = 'tile/1/000.p/3';
    expectSame(readAll(), new Map(files).set(kept, files1000.get(kept) as Buffer));
  });

  it('leaves nothing behind of one that was killed', async () => {
    const killed = await openFolderTarget(folder);
    await killed.write('tile/0/000.p/1', Buffer.alloc(32));
    await exportTo(await openFolderTarget(folder), await logOf(300));
    const target = await openFolderTarget(folder);
    await exportTo(target, await logOf(300));
    await target.close();
    expect(readdirSync(folder).sort()).toEqual(['checkpoint', 'key', 'tile']);
  });
});

function flip(files: Files, path: string, at: number): void {
  const bytes = Buffer.from(files.get(path) as Buffer);
  bytes[at] = (bytes[at] as number) ^ 1;
  files.set(path, bytes);
}

function cut(files: Files, path: string, count: number): void {
  files.set(path, (files.get(path) as Buffer).subarray(0, -count));
}

function swap(files: Files, one: string, other: string): void {
  const [first, second] = [files.get(one) as Buffer, files.get(other) as Buffer];
  files.set(one, second).set(other, first);
}

function rewrite(files: Files, from: string, to: string): void {
  const text = (files.get('checkpoint') as Buffer).toString();
  files.set('checkpoint', Buffer.from(text.replace(from, to)));
}
