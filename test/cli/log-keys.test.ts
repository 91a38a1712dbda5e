// `bursar log rotate-key` and `bursar log revoke-key`: what the keys of before signed stays good,
// until they are revoked.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parseVerifier } from '#bursar/audit/log/note.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
});
afterAll(() => place.remove());

const keyFile = () => join(place.data, 'log-keys.json');

interface Rotation {
  id: string;
  verifier: string;
  retiresAt: string;
}

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args);
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
}

async function rotate(overlap: string): Promise<Rotation> {
  return JSON.parse(await run('log', 'rotate-key', '--overlap', overlap, '--json')) as Rotation;
}

async function publishedKeys() {
  const answer = await fetch(`${served.endpoint}/_/log/key`);
  const lines = (await answer.text()).trim().split('\n');
  return lines.map((line) => parseVerifier(line) ?? expect.fail(line));
}

/** Who signs now, by the ids in the checkpoint's signatures. */
async function signers(): Promise<string[]> {
  const note = await (await fetch(`${served.endpoint}/_/log/checkpoint`)).text();
  const lines = note.split('\n').filter((line) => line.startsWith('— '));
  return lines.map((line) => Buffer.from(line.split(' ')[2] ?? '', 'base64').toString('hex', 0, 4));
}

const receipt = (index: number) => run('receipt', 'show', String(index));

describe('the keys of the log', () => {
  test('follow each other: receipts of before stay good, and records say so', async () => {
    const [first] = await publishedKeys();
    const old = await receipt(0);
    const { id, verifier, retiresAt } = await rotate('1d');
    const daysLeft = (Date.parse(retiresAt) - Date.now()) / 86_400_000;
    expect(Math.abs(daysLeft - 1)).toBeLessThan(0.1);
    expect(await signers()).toEqual([id, first?.id]);
    const keys = await publishedKeys();
    expect(keys.map((key) => key.id)).toEqual([id, first?.id]);
    expect(verifyReceipt(old, { keys })).toMatchObject({ ok: true, index: 0 });
    const records = await run('records', '--action', 'bursar:RotateLogKey', '--json');
    expect(records).toContain(verifier);
    for (const text of [records, JSON.stringify(await publishedKeys())]) {
      expect(text).not.toContain('PRIVATE');
    }
    const last = await rotate('0s');
    expect(await signers()).toEqual([last.id]);
    expect(verifyReceipt(old, { keys: await publishedKeys() })).toMatchObject({ ok: true });
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);

    expect(await served.stop()).toBe(0);
    served = await place.serve();
    expect(await signers()).toEqual([last.id]);
    expect(verifyReceipt(await receipt(0), { keys: await publishedKeys() }).ok).toBe(true);
  });

  test('are not believed once they are revoked, and the last one cannot be', async () => {
    const [first] = await publishedKeys();
    const id = first?.id ?? '';
    const old = await receipt(0);
    const refused = await place.run(['log', 'revoke-key', id]);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('in use');
    await rotate('1d');
    await run('log', 'revoke-key', id);
    const keys = await publishedKeys();
    expect(keys.map((key) => key.id)).not.toContain(id);
    expect(verifyReceipt(old, { keys }).ok).toBe(false);
    expect(verifyReceipt(await receipt(0), { keys }).ok).toBe(true);
    expect(readFileSync(keyFile(), 'utf8')).not.toContain(`"${id}"`);
    expect(await run('records', '--action', 'bursar:RevokeLogKey', '--json')).toContain(id);
    expect((await place.run(['log', 'revoke-key', 'ffffffff'])).code).toBe(1);
  });

  test('of a file that is torn or lost stop the start, and say what is wrong', async () => {
    expect(await served.stop()).toBe(0);
    const whole = readFileSync(keyFile());
    writeFileSync(keyFile(), whole.subarray(0, whole.length / 2));
    await expect(place.serve()).rejects.toThrow('log-keys.json is not JSON');
    writeFileSync(keyFile(), whole);
    served = await place.serve();
    expect(await signers()).toHaveLength(1);
  });

  test('sign for one process on a folder: another is refused, and changes nothing', async () => {
    const before = readFileSync(keyFile());
    await expect(place.serve()).rejects.toThrow('is in use by another bursar process');
    expect(readFileSync(keyFile())).toEqual(before);
    expect(await signers()).toHaveLength(1);
  });
});
