// What a log must not get away with, as files: damage of each kind, and a past that is told anew.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Checkpoint } from '#bursar/audit/log/checkpoint.js';
import { renderEntries } from '#bursar/audit/log/entries.js';
import { verifyLog } from '#bursar/audit/verify/log.js';
import { folderSource, SourceFailure, urlSource } from '#bursar/audit/verify/log-source.js';
import type { Trust } from '#bursar/audit/verify/signed-checkpoint.js';
import { makeSigner, openingOf, RecordedLog, sourceOf, writeFiles } from './recorded-log.ts';

/** They are computed in well under a second, on a machine that has nothing else to do. */
vi.setConfig({ testTimeout: 60_000 });

const log = RecordedLog.of(600);
const trust: Trust = { keys: [log.signer.key] };
type Files = Map<string, Buffer>;

/** The verdict, and what was found on the way. */
async function judge(files: Files, kept: Checkpoint[] = [], given = trust): Promise<string[]> {
  const findings: string[] = [];
  const onFinding = (finding: string) => findings.push(finding);
  const found = await verifyLog(sourceOf(files), { trust: given, kept, onFinding });
  return found.ok ? ['true'] : [...findings, found.why];
}

/** Of a file, with some bytes of it changed. */
function change(files: Files, path: string, edit: (bytes: Buffer) => Buffer): Files {
  const bytes = files.get(path);
  if (!bytes) throw new Error(`there is no ${path}`);
  return new Map(files).set(path, edit(Buffer.from(bytes)));
}

const flip = (at: number) => (bytes: Buffer) => {
  bytes[at] = (bytes[at] as number) ^ 1;
  return bytes;
};

const without = (files: Files, path: string): Files => {
  const rest = new Map(files);
  expect(rest.delete(path)).toBe(true);
  return rest;
};

describe('a log', () => {
  it.each([0, 1, 2, 255, 256, 257, 511, 512, 513, 1000])(
    'of %i entries is true, and all of them were read',
    async (size) => {
      const small = RecordedLog.of(size);
      const seen: number[] = [];
      const found = await verifyLog(sourceOf(await small.files()), {
        trust: { keys: [small.signer.key] },
        kept: [],
        onProgress: (entries) => seen.push(entries),
      });
      expect(found).toMatchObject({ ok: true, size, origin: 'bursar/test' });
      expect(seen.at(-1) ?? 0).toBe(size);
    },
  );

  it('of three levels of tiles is true, and one byte of any level shows', {
    timeout: 60_000,
  }, async () => {
    const large = RecordedLog.of(65_537);
    const given = { keys: [large.signer.key] };
    const files = await large.files();
    const kept = [300, 65_535, 65_536, 65_537].map((size) => large.head(size));
    expect(await judge(files, await Promise.all(kept), given)).toEqual(['true']);
    expect(await judge(change(files, 'tile/1/000', flip(40)), [], given)).toEqual([
      'tile/1/000 is not what the checkpoint is of',
      expect.stringMatching(/findings: 1$/),
    ]);
    expect(await judge(change(files, 'tile/2/000.p/1', flip(4)), [], given)).toEqual([
      expect.stringMatching(/right edge/),
    ]);
    expect(await judge(change(files, 'tile/entries/123', flip(40)), [], given)).toEqual([
      'entry 31488 was altered',
      expect.stringMatching(/findings: 1$/),
    ]);
  });

  it('may have dropped the partial tiles that are full by now, and have grown', async () => {
    const grown = RecordedLog.of(1300, log.signer);
    const files = await grown.files();
    files.set('checkpoint', Buffer.from(await grown.checkpoint(600)));
    expect(files.has('tile/0/002.p/88')).toBe(false);
    expect(files.has('tile/1/000.p/2')).toBe(false);
    files.set('tile/1/000.p/2', Buffer.from(await log.tiles.readTile(1, 0, 2)));
    expect(await judge(files)).toEqual(['true']);
  });
});

describe('damage of a log', () => {
  const entry = 2 + (log.entries[0]?.length ?? 0);
  const swap = (bytes: Buffer) =>
    Buffer.concat([
      bytes.subarray(entry, 2 * entry),
      bytes.subarray(0, entry),
      bytes.subarray(2 * entry),
    ]);

  it.each<[string, string, (bytes: Buffer) => Buffer, RegExp]>([
    ['a flipped byte of a full tile', 'tile/0/001', flip(100), /^tile\/0\/001 is not what/],
    ['a flipped byte at the edge', 'tile/0/002.p/88', flip(100), /right edge/],
    ['a flipped byte above', 'tile/1/000.p/2', flip(0), /right edge/],
    ['a truncated tile', 'tile/0/001', (bytes) => bytes.subarray(32), /^tile\/0\/001 is not what/],
    ['an empty tile', 'tile/0/000', () => Buffer.alloc(0), /^tile\/0\/000 is not what/],
    ['a flipped byte of an entry', 'tile/entries/000', flip(50), /^entry 0 was altered$/],
    ['a flipped length', 'tile/entries/000', flip(1), /^tile\/entries\/000 is not what/],
    ['swapped entries', 'tile/entries/001', swap, /^entry 256 was altered$/],
    ['a removed entry', 'tile/entries/001', (b) => b.subarray(entry), /^tile\/entries\/001 is not/],
    [
      'an inserted entry',
      'tile/entries/002.p/88',
      (bytes) => Buffer.concat([bytes.subarray(0, entry), bytes]),
      /^tile\/entries\/002.p\/88 is not/,
    ],
    ['another size', 'checkpoint', (b) => replace(b, '\n600\n', '\n599\n'), /forged or damaged/],
    ['another root', 'checkpoint', (b) => flipRoot(b), /forged or damaged|not a signed/],
    [
      'an altered signature',
      'checkpoint',
      (b) => flipSignature(b),
      /forged or damaged|not a signed/,
    ],
    ['no signature', 'checkpoint', (b) => b.subarray(0, b.lastIndexOf('\n\n') + 2), /not a signed/],
    ['text behind the checkpoint', 'checkpoint', (b) => Buffer.concat([b, b]), /damaged|not a/],
  ])('is found: %s', async (_, path, edit, expected) => {
    const files = await log.files();
    const found = await judge(change(files, path, edit));
    expect(found[0]).toMatch(expected);
    expect(found.at(-1)).not.toBe('true');
  });

  it('is found: each file that is missing', async () => {
    const files = await log.files();
    expect(files.size).toBe(8);
    for (const path of files.keys()) {
      const found = await judge(without(files, path));
      expect(found[0], path).toMatch(path === 'checkpoint' ? /no file/ : /missing/);
    }
  });

  it('is found with each place of it, and counted', async () => {
    let files = await log.files();
    files = change(files, 'tile/entries/000', flip(50));
    files = change(files, 'tile/entries/002.p/88', flip(50));
    files = without(change(files, 'tile/0/001', flip(0)), 'tile/entries/001');
    expect((await judge(files)).toSorted()).toEqual([
      'entry 0 was altered',
      'entry 512 was altered',
      'it is not the log that was signed: findings: 3',
      'tile/0/001 is not what the checkpoint is of',
    ]);
  });

  it('is told in bounds, however much there is', async () => {
    const foreign = RecordedLog.of(1500);
    const leaves = foreign.entries.map(() => Buffer.from('no leaf of a record'));
    const files = await foreign.files();
    for (const [path, from] of [0, 256, 512, 768, 1024].map((at, i) => [`00${i}`, at] as const)) {
      files.set(`tile/entries/${path}`, renderEntries(leaves.slice(from, from + 256)));
    }
    const found = await judge(files, [], { keys: [foreign.signer.key] });
    expect(found).toHaveLength(1001);
    expect(found.at(-1)).toMatch(/findings: 1000 and more$/);
  });

  it('is an entry that is of no record, though it was signed', async () => {
    const openings = [openingOf(0), openingOf(1), openingOf(2)];
    const strange = new RecordedLog(openings.with(1, { ...openingOf(1), tenant: 'nobody"s' }));
    const found = await judge(await strange.files(), [], { keys: [strange.signer.key] });
    expect(found[0]).toBe('entry 1 is not of a record');
  });
});

describe('a log that tells another past', () => {
  const past = () => log.head(500);

  it('is true by itself when it was signed again, but not to who kept a checkpoint', async () => {
    const openings = [...log.openings];
    openings[123] = openingOf(123, { principal: 'mallory' });
    const rewritten = new RecordedLog(openings, log.signer);
    const files = await rewritten.files();
    expect(await judge(files)).toEqual(['true']);
    const why = 'the log was rewritten: its first 500 entries are not those of before';
    expect(await judge(files, [await past()])).toEqual([why]);
    // What was kept before the place that was rewritten does not show it.
    expect(await judge(files, [await log.head(123)])).toEqual(['true']);
    expect(await judge(files, [await log.head(123), await past()])).toEqual([why]);
  });

  it.each<[string, (openings: RecordedLog['openings']) => RecordedLog['openings']]>([
    ['removed', (all) => all.toSpliced(77, 1)],
    ['inserted', (all) => all.toSpliced(77, 0, openingOf(9999))],
    ['put in another order', (all) => [...all.slice(0, 77), ...all.slice(77).toReversed()]],
  ])('shows to who kept a checkpoint: a record was %s', async (_, edit) => {
    const rewritten = new RecordedLog(edit(log.openings), log.signer);
    const files = await rewritten.files();
    expect(await judge(files)).toEqual(['true']);
    expect((await judge(files, [await past()]))[0]).toMatch(/rewritten/);
  });

  it('shows where it was rolled back, or is as long and another', async () => {
    const files = await log.files(500);
    expect(await judge(files)).toEqual(['true']);
    expect(await judge(files, [await log.head()])).toEqual([
      'the log was rolled back: it has 500 entries, not 600',
    ]);
    const other = new RecordedLog(log.openings.slice(0, 500).with(499, openingOf(1)), log.signer);
    expect((await judge(await other.files(), [await past()]))[0]).toMatch(/rewritten/);
    expect(await judge(files, [await past(), await log.head(0)])).toEqual(['true']);
  });

  it('shows where it is another log altogether', async () => {
    const other = RecordedLog.of(700, makeSigner('bursar/other'));
    const given = { keys: [other.signer.key, log.signer.key] };
    const found = await judge(await other.files(), [await past()], given);
    expect(found[0]).toMatch(/what was kept is of another log, bursar\/test/);
  });
});

describe('where a log is read from', () => {
  const ends: (() => void | Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  async function serve(listener: RequestListener): Promise<string> {
    const server: Server = createServer(listener).listen(0, '127.0.0.1');
    await new Promise((done) => server.once('listening', done));
    ends.push(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/_/log`;
  }

  it('can be a folder', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-log-'));
    ends.push(() => rmSync(folder, { recursive: true }));
    writeFiles(folder, await log.files());
    expect(await verifyLog(folderSource(folder), { trust })).toMatchObject({ ok: true });
    rmSync(join(folder, 'tile/0/001'));
    mkdirSync(join(folder, 'tile/0/001'));
    await expect(verifyLog(folderSource(folder), { trust })).rejects.toThrow(SourceFailure);
    rmSync(join(folder, 'tile/0/001'), { recursive: true });
    writeFileSync(join(folder, 'tile/0/001'), Buffer.alloc(17_000_000));
    await expect(verifyLog(folderSource(folder), { trust })).rejects.toThrow(/too long/);
  });

  it('can be a web server, which may be busy for a moment', async () => {
    const files = await log.files();
    let asked = 0;
    const url = await serve((request, response) => {
      asked += 1;
      if (asked % 4 === 2) {
        response.writeHead(503).end('busy');
        return;
      }
      if (asked === 3) {
        response.destroy();
        return;
      }
      const bytes = files.get(String(request.url).slice('/_/log/'.length));
      response.writeHead(bytes ? 200 : 404).end(bytes);
    });
    expect(await verifyLog(urlSource(url), { trust })).toMatchObject({ ok: true, size: 600 });
    expect(await verifyLog(urlSource(`${url}/`), { trust })).toMatchObject({ ok: true, size: 600 });
    expect(await verifyLog(urlSource(`${url}/no`), { trust })).toMatchObject({ ok: false });
  });

  it('says what is wrong with a server, and takes no more from it than a log has', async () => {
    const closed = await serve(() => {});
    await ends.pop()?.();
    await expect(verifyLog(urlSource(closed), { trust })).rejects.toThrow(/cannot read .*REFUSED/);
    const forbidden = await serve((_, response) => response.writeHead(403).end('go away'));
    await expect(verifyLog(urlSource(forbidden), { trust })).rejects.toThrow(/403: go away$/);
    let sent = 0;
    const endless = await serve((_, response) => {
      const piece = Buffer.alloc(1024 * 1024);
      const more = (): void => {
        sent += piece.length;
        if (!response.destroyed) response.write(piece, more);
      };
      more();
    });
    await expect(verifyLog(urlSource(endless), { trust })).rejects.toThrow(/too long/);
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });
});

function replace(bytes: Buffer, text: string, by: string): Buffer {
  return Buffer.from(bytes.toString().replace(text, by));
}

const flipRoot = (bytes: Buffer) => flip(bytes.indexOf('\n600\n') + 6)(bytes);

/** In its midst: the first bytes are the key's id. */
const flipSignature = (bytes: Buffer) => flip(bytes.length - 40)(bytes);
