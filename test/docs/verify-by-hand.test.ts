// The script of docs/audit/verify-by-hand.md, exactly as it stands there, on receipts of a served
// gateway, and on the same receipts with one thing changed in each.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { renderVerifier } from '#bursar/audit/log/note.js';
import { parseReceipt, renderReceipt } from '#bursar/audit/receipt.js';
import {
  cosign,
  makeSigner,
  makeWitness,
  openingOf,
  RecordedLog,
} from '../audit/verify/recorded-log.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { cryptographyPython, describeWithTool, runTool, ToolFailure } from '../tooling/tools.ts';
import { blocksOf, readPage, root } from './markdown.ts';

const timeoutMs = 60_000;
const main = join(root, 'app/main.js');
const script = blocksOf(readPage('docs/audit/verify-by-hand.md').text).find(
  ({ language }) => language === 'python',
)?.code as string;

it('the script has under 80 lines and needs one package', () => {
  expect(script.trimEnd().split('\n').length).toBeLessThan(80);
  const imports = script.match(/^(?:import|from) .*$/gm);
  expect(imports).toEqual([
    'import base64, hashlib, json, sys',
    expect.stringMatching(/^from cryptography\./),
  ]);
});

describeWithTool(cryptographyPython, 'the script', (python) => {
  let folder: string;
  const made = RecordedLog.of(300);
  const madeKey = renderVerifier(made.signer.key);

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-by-hand-'));
    writeFileSync(join(folder, 'verify.py'), script);
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  let files = 0;
  async function verify(receipt: string | Buffer, key: string): Promise<unknown> {
    const file = join(folder, `${files++}.tlog-proof`);
    writeFileSync(file, receipt);
    const env = { PATH: process.env.PATH, PYTHONUTF8: '1' };
    return JSON.parse(await runTool(python, [join(folder, 'verify.py'), file, key], env));
  }

  async function refusal(receipt: string | Buffer, key = madeKey): Promise<string> {
    const error = await verify(receipt, key).then(
      () => 'it was believed',
      (reason) => reason,
    );
    expect(error).toBeInstanceOf(ToolFailure);
    return (error as ToolFailure).output;
  }

  it('believes receipts of a gateway, whoever signed besides', { timeout: timeoutMs }, async () => {
    const gateway = await startServedGateway();
    try {
      const env = environmentOf(gateway);
      const bursar = (...args: string[]) => runTool(process.execPath, [main, ...args], env);
      for (const name of ['cms', 'lab', 'third']) await bursar('tenant', 'create', name);
      const key = await (await fetch(`${gateway.endpoint}/_/log/key`)).text();
      for (const index of [0, 2]) {
        const receipt = await bursar('receipt', 'show', String(index));
        expect(await verify(receipt, key.trim())).toMatchObject({ index, principal: 'admin' });
        expect(await refusal(receipt)).toMatch(/refused: not a receipt of the log bursar\/test/);
      }
    } finally {
      await gateway.stop();
    }
  });

  it('believes any place in a log, and what others signed besides', {
    timeout: timeoutMs,
  }, async () => {
    const note = await made.checkpoint();
    const lines = cosign(note, makeWitness('one')) + cosign(note, makeWitness(made.origin));
    for (const index of [0, 255, 256, 299]) {
      const receipt = await made.receipt(index, note + lines);
      expect(await verify(receipt, madeKey)).toEqual(
        JSON.parse(String(made.openings[index]?.record)),
      );
    }
    const mounted = new RecordedLog([openingOf(0, { bucketTenant: 'lab' })], made.signer);
    const found = await verify(await mounted.receipt(0), madeKey);
    expect(found).toMatchObject({ bucketTenant: 'lab' });
  });

  it('refuses a receipt with anything changed', { timeout: timeoutMs }, async () => {
    const receipt = await made.receipt(257);
    const parts = parseReceipt(receipt);
    if (!parts) throw new Error('no receipt');
    const lines = receipt.split('\n');
    const at = (line: number, edit: (text: string) => string) =>
      lines.with(line, edit(String(lines[line]))).join('\n');
    const last = lines.length - 2;
    const changed: Record<string, string> = {
      'the first line': at(0, (text) => text.replace('v1', 'v2')),
      'the index': at(2, () => 'index 258'),
      'a hash': at(3, (text) => swapLetter(text, 5)),
      'unused bits of a hash': at(3, (text) => text.replace(/.=$/, next)),
      'a missing hash': lines.toSpliced(3, 1).join('\n'),
      'a surplus hash': lines.toSpliced(3, 0, String(lines[3])).join('\n'),
      'the origin': receipt.replace(`\n${made.origin}\n`, '\nbursar/tesu\n'),
      'the size': receipt.replace('\n300\n', '\n301\n'),
      'the signature': at(last, (text) => swapLetter(text, text.length - 20)),
      'the key id': at(last, (text) => swapLetter(text, text.lastIndexOf(' ') + 1)),
      'the last newline': receipt.slice(0, -1),
      'the record': renderReceipt({ ...parts, record: parts.record.replace('alice', 'mallo') }),
      'the salt': renderReceipt({ ...parts, salt: Buffer.alloc(16) }),
      'the tenant': renderReceipt({ ...parts, tenant: 'A'.repeat(22) }),
      "the bucket's tenant": renderReceipt({ ...parts, bucketTenant: 'A'.repeat(22) }),
      'evidence that the record has not': renderReceipt({ ...parts, evidence: { v: 1 } }),
      'another index in both': renderReceipt({ ...parts, index: 256 }),
    };
    const refused = Object.entries(changed).map(async ([what, text]) => {
      expect(text, what).not.toBe(receipt);
      expect(await refusal(text), what).not.toBe('');
    });
    await Promise.all(refused);
    for (const wrong of ['hello', '{}', '', Buffer.of(0xff, 0xfe), 'a\n\nb\n\nc\n']) {
      const said = await refusal(wrong);
      expect(said).toMatch(/refused: /);
      expect(said).not.toMatch(/Traceback/);
    }
    expect(await refusal(receipt, 'key')).toMatch(/refused: the key is no verifier line/);
    const other = makeSigner(made.origin);
    expect(await refusal(receipt, renderVerifier(other.key))).toMatch(/not signed with this key/);
    const forged = { ...other.key, id: made.signer.key.id };
    expect(await refusal(receipt, renderVerifier(forged))).toMatch(/InvalidSignature/);
  });
});

/** Another letter of base64 there. */
function swapLetter(text: string, at: number): string {
  return text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
}

/** The last letter of 32 bytes has two bits that mean nothing. */
function next(end: string): string {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  return `${letters[letters.indexOf(end.charAt(0)) + 1]}=`;
}

function environmentOf({ endpoint, accessKeyId, secretAccessKey }: ServedGateway) {
  return {
    PATH: process.env.PATH,
    BURSAR_ENDPOINT: endpoint,
    BURSAR_ACCESS_KEY_ID: accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: secretAccessKey,
  };
}
