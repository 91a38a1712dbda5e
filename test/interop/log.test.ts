// Other people's verifiers on our log and receipts: they accept what a gateway really made, and
// refuse every kind of damage that our own verifier refuses too. The program is
// test/interop/main.go.
import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { parseEntries, renderEntries } from '#bursar/audit/log/entries.js';
import { ed25519 } from '#bursar/audit/log/note.js';
import { parseProof, renderProof } from '#bursar/audit/log/proof-text.js';
import { parseReceipt, renderReceipt } from '#bursar/audit/receipt.js';
import { verifyLog } from '#bursar/audit/verify/log.js';
import { folderSource } from '#bursar/audit/verify/log-source.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import type { Trust } from '#bursar/audit/verify/signed-checkpoint.js';
import { parseVerifiers } from '#bursar/audit/verify/trusted-keys.js';
import { type Connection, callApi } from '#bursar/cli/api-client.js';
import { entriesOf, type Files, makeLog, signerOf } from '../audit/log/made-log.ts';
import { Workplace } from '../cli/command.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, goVerifiers } from '../tooling/tools.ts';

interface Verdict {
  ok: boolean;
  error?: string;
  origin?: string;
  size?: number;
  index?: number;
}

/** It runs processes, and others run, too. */
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describeWithTool(goVerifiers, 'verifiers in Go', (program) => {
  const work = new Workplace();
  const scratch = mkdtempSync(join(tmpdir(), 'bursar-interop-'));
  const log = join(scratch, 'log');
  const key = join(log, 'key');
  let gateway: ServedGateway;
  let connection: Connection;
  let trust: Trust;
  let receipts: string[];
  /** Of the log when it was smaller. */
  let oldCheckpoint: string;

  beforeAll(async () => {
    gateway = await startServedGateway({ args: ['--prices', 'none'] });
    const { endpoint, accessKeyId, secretAccessKey } = gateway;
    connection = { endpoint, accessKeyId, secretAccessKey, region: 'us-east-1' };
    const list = () => callApi(connection, { method: 'GET', path: ['tenants'] });
    await list();
    oldCheckpoint = join(scratch, 'old-checkpoint');
    await exportLog();
    cpSync(join(log, 'checkpoint'), oldCheckpoint);
    for (let i = 0; i < 30; i += 1) await Promise.all(Array.from({ length: 10 }, list));
    const { size } = await exportLog();
    expect(size).toBeGreaterThan(300);
    const keys = parseVerifiers(readFileSync(key, 'utf8'), ed25519);
    trust = { keys: keys ?? [] };
    receipts = [];
    for (const index of [1, 2, 255, 256, size - 1]) {
      receipts.push(await readReceipt(index));
    }
  });

  afterAll(async () => {
    await gateway?.stop();
    await work.remove();
    rmSync(scratch, { recursive: true });
  });

  async function readReceipt(index: number): Promise<string> {
    const path = ['receipts', String(index)];
    return (await callApi(connection, { method: 'GET', path })).text;
  }

  async function exportLog(): Promise<{ size: number }> {
    const args = ['log', 'export', log, '--from', `${gateway.endpoint}/_/log`, '--json'];
    const { code, stdout, stderr } = await work.run(args);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    return JSON.parse(stdout) as { size: number };
  }

  /** What the program says; its exit code must say the same. */
  function judge(...args: string[]): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      execFile(program, args, (error, stdout, stderr) => {
        try {
          const verdict = JSON.parse(stdout) as Verdict;
          expect(error === null).toBe(verdict.ok);
          resolve(verdict);
        } catch (cause) {
          reject(new Error(`${program} ${args.join(' ')}: ${stdout}${stderr}`, { cause }));
        }
      });
    });
  }

  async function judgeReceipt(text: string): Promise<Verdict> {
    const file = join(scratch, 'receipt');
    writeFileSync(file, text);
    return judge('receipt', file, key);
  }

  it('accept the log of a gateway, and that it extends an older checkpoint', async () => {
    const verdict = await judge('log', log, key, oldCheckpoint);
    expect(verdict).toMatchObject({ ok: true, origin: trust.keys[0]?.name });
    expect(verdict.size).toBeGreaterThan(300);
    expect(await verifyLog(folderSource(log), { trust })).toMatchObject({ ok: true });
  });

  it('accept the log as the gateway serves it', async () => {
    const verdict = await judge('log', `${gateway.endpoint}/_/log`, key, oldCheckpoint);
    expect(verdict).toMatchObject({ ok: true, origin: trust.keys[0]?.name });
  });

  it('accept its receipts', async () => {
    for (const text of receipts) {
      const { index } = parseProof(text) ?? {};
      expect(await judgeReceipt(text)).toMatchObject({ ok: true, index });
      expect(verifyReceipt(text, trust)).toMatchObject({ ok: true, index });
    }
  });

  it('accept both keys while both sign, and old receipts by the old one', async () => {
    const [before] = receipts;
    const path = ['log', 'keys', 'rotations'];
    await callApi(connection, { method: 'POST', path, body: { overlapSeconds: 3600 } });
    await exportLog();
    const lines = readFileSync(key, 'utf8').trim().split('\n');
    expect(lines).toHaveLength(2);
    const after = await readReceipt(300);
    const [one, file] = [join(scratch, 'one-key'), join(scratch, 'receipt')];
    for (const line of lines) {
      writeFileSync(one, `${line}\n`);
      expect(await judge('log', log, one, oldCheckpoint)).toMatchObject({
        ok: line === lines[1],
      });
      expect(await judge('log', log, one)).toMatchObject({ ok: true });
      writeFileSync(file, after);
      expect(await judge('receipt', file, one)).toMatchObject({ ok: true, index: 300 });
      writeFileSync(file, before as string);
      expect(await judge('receipt', file, one)).toMatchObject({ ok: line === lines[1] });
    }
  });

  it('accept the receipt of the published vectors', async () => {
    const { receipt, key: published } = JSON.parse(
      readFileSync('docs/formats/log-vectors.json', 'utf8'),
    ) as { receipt: string; key: { verifier: string } };
    const [file, keys] = [join(scratch, 'receipt'), join(scratch, 'keys')];
    writeFileSync(file, receipt);
    writeFileSync(keys, `${published.verifier}\n`);
    expect(await judge('receipt', file, keys)).toMatchObject({ ok: true, index: 1 });
  });

  function replace(file: string, change: (text: string) => string): void {
    const before = readFileSync(file, 'utf8');
    const after = change(before);
    expect(after).not.toBe(before);
    writeFileSync(file, after);
  }

  function flip(file: string, at: number): void {
    const bytes = readFileSync(file);
    bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(file, bytes);
  }

  function rebundle(file: string, change: (entries: Uint8Array[]) => Uint8Array[]): void {
    const entries = parseEntries(readFileSync(file));
    if (!entries) throw new Error(`${file} is no bundle`);
    writeFileSync(file, renderEntries(change(entries)));
  }

  const damage: [string, (dir: string) => void][] = [
    ['a byte of a tile is another', (dir) => flip(join(dir, 'tile/0/000'), 4000)],
    ['a byte of an entry is another', (dir) => flip(join(dir, 'tile/entries/000'), 60)],
    [
      'two entries have changed places',
      (dir) =>
        rebundle(join(dir, 'tile/entries/000'), ([a, b, ...rest]) => [b, a, ...rest] as Buffer[]),
    ],
    ['a tile is too short', (dir) => truncateSync(join(dir, 'tile/0/000'), 8192 - 32)],
    [
      'an entry is missing',
      (dir) => rebundle(join(dir, 'tile/entries/000'), ([, ...rest]) => rest),
    ],
    [
      'the checkpoint has another size',
      (dir) => replace(join(dir, 'checkpoint'), (text) => text.replace(/\n(\d+)\n/, '\n1$1\n')),
    ],
    [
      'the checkpoint has another root',
      (dir) =>
        replace(join(dir, 'checkpoint'), (text) =>
          text.replace(/(\n\d+\n)(.)/, (_, before, letter) => before + other(letter)),
        ),
    ],
    [
      'the checkpoint has another signature',
      (dir) =>
        replace(join(dir, 'checkpoint'), (text) =>
          text.replace(/(.)(.{8}=\n)$/, (_, letter, after) => other(letter) + after),
        ),
    ],
  ];

  it.each(damage)('refuse a log where %s, as we do', async (_, spoil) => {
    const dir = join(scratch, 'damaged');
    cpSync(log, dir, { recursive: true });
    try {
      spoil(dir);
      expect(await judge('log', dir, key)).toMatchObject({ ok: false });
      expect(await verifyLog(folderSource(dir), { trust })).toMatchObject({ ok: false });
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  const forgeries: [string, (text: string) => string][] = [
    ['record', (text) => reopen(text, (record) => record.replace('"status":2', '"status":4'))],
    [
      'proof',
      (text) => {
        const { proof, ...rest } = parsed(text);
        return renderProof({ ...rest, proof: proof.map((hash) => Buffer.from(hash).fill(1, 9)) });
      },
    ],
    ['index', (text) => renderProof({ ...parsed(text), index: parsed(text).index ^ 1 })],
  ];

  it.each(forgeries)('refuse a receipt with another %s, as we do', async (_, forge) => {
    for (const text of receipts) {
      const forged = forge(text);
      expect(forged).not.toBe(text);
      expect(await judgeReceipt(forged)).toMatchObject({ ok: false });
      expect(verifyReceipt(forged, trust)).toMatchObject({ ok: false });
    }
  });

  function parsed(text: string) {
    const proof = parseProof(text);
    if (!proof) throw new Error('this is no proof');
    return proof;
  }

  function reopen(text: string, change: (record: string) => string): string {
    const receipt = parseReceipt(text);
    if (!receipt) throw new Error('this is no receipt');
    return renderReceipt({ ...receipt, record: change(receipt.record) });
  }

  it.each([0, 1, 255, 256, 257, 65_535, 65_536, 65_537])(
    'accept a log of %i entries',
    async (size) => {
      const dir = join(scratch, 'made');
      const signer = signerOf('log.example/made');
      writeFiles(dir, await makeLog(entriesOf(size), signer));
      try {
        expect(await judge('log', dir, join(dir, 'key'))).toMatchObject({
          ok: true,
          ...(size > 0 && { size }),
        });
      } finally {
        rmSync(dir, { recursive: true });
      }
    },
  );

  it('refuse entries that are not of records, however long, as we do', async () => {
    const dir = join(scratch, 'long');
    const long = [...entriesOf(1), Buffer.alloc(65_535, 'a'), Buffer.alloc(0)];
    const strange = signerOf('log.example/long');
    writeFiles(dir, await makeLog(long, strange));
    const error = expect.stringContaining('entry 1 of its bundle is not of a record');
    expect(await judge('log', dir, join(dir, 'key'))).toMatchObject({ ok: false, error });
    const given = { trust: { keys: [strange.key] } };
    expect(await verifyLog(folderSource(dir), given)).toMatchObject({ ok: false });
  });

  it('refuse a log that was rewritten and signed anew, by an old checkpoint', async () => {
    const [dir, before] = [join(scratch, 'rewritten'), join(scratch, 'before')];
    const signer = signerOf('log.example/rewritten');
    const entries = entriesOf(600);
    writeFiles(before, await makeLog(entries.slice(0, 400), signer));
    const others = [...entries.slice(0, 100), ...entriesOf(500, 'others')];
    writeFiles(dir, await makeLog(others, signer));
    const keys = join(dir, 'key');
    expect(await judge('log', dir, keys)).toMatchObject({ ok: true, size: 600 });
    const old = join(before, 'checkpoint');
    expect(await judge('log', dir, keys, old)).toMatchObject({ ok: false });
    writeFiles(dir, await makeLog(entries, signer));
    expect(await judge('log', dir, keys, old)).toMatchObject({ ok: true, size: 600 });
  });
});

function other(letter: string): string {
  return letter === 'A' ? 'B' : 'A';
}

function writeFiles(dir: string, files: Files): void {
  for (const [path, bytes] of files) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), bytes);
  }
}
