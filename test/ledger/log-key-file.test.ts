// The file of the keys that sign the log: damaged, of others, or of another log, it signs nothing.

import { randomUUID } from 'node:crypto';
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listLogKeys } from '#bursar/audit/log/log-keys.js';
import { LogKeyFile } from '#bursar/ledger/log-key-file.js';
import { signerOf } from '#bursar/ledger/log-signing.js';
import { commitOf, type LedgerFixture, openLedger } from './fixture.ts';

let fixture: LedgerFixture;
let path: string;
beforeEach(async () => {
  fixture = await openLedger();
  path = join(tmpdir(), `bursar-log-keys-${randomUUID()}.json`);
});
afterEach(async () => {
  await fixture.close();
  rmSync(path, { force: true });
});

const open = (origin?: string) => LogKeyFile.open({ path, read: fixture.read, origin });

/** A log that the file's key signs. */
async function begin(): Promise<LogKeyFile> {
  const file = await open();
  await fixture.ledger.signLog(file.keys);
  return file;
}

function idsOf(file: LogKeyFile): string[] {
  return file.keys.map((key) => signerOf(key).key.id);
}

async function rotate(file: LogKeyFile, retireMs: number): Promise<void> {
  const key = await file.add('bursar/test');
  await fixture.ledger.commit(commitOf({ kind: 'rotateLogKey', key, retireMs }));
}

describe('the file of log keys', () => {
  it('is made at the first start, for its owner alone, with the instance’s origin', async () => {
    const file = await begin();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const [row] = await fixture.read.all<{ instance: string }>('SELECT instance FROM gateway');
    expect(file.keys.map(({ name }) => name)).toEqual([`bursar/${row?.instance}`]);
    expect((await listLogKeys(fixture.read)).map(({ key }) => key.id)).toEqual(idsOf(file));
    expect(idsOf(await open())).toEqual(idsOf(file));
  });

  it('has the origin that was chosen, for good', async () => {
    const file = await open('log.example.org/one');
    await fixture.ledger.signLog(file.keys);
    expect(file.keys[0]?.name).toBe('log.example.org/one');
    expect(idsOf(await open('log.example.org/one'))).toEqual(idsOf(file));
    await expect(open('log.example.org/two')).rejects.toThrow('cannot become log.example.org/two');
  });

  it('of a start that was cut short before the log was signed is made anew', async () => {
    const ids = idsOf(await open());
    expect(idsOf(await open())).not.toEqual(ids);
  });

  it('that is left of another log does not sign this one', async () => {
    const ids = idsOf(await begin());
    await fixture.close();
    fixture = await openLedger();
    const file = await begin();
    expect(idsOf(file)).not.toEqual(ids);
    const other = readFileSync(path);
    await fixture.close();
    fixture = await openLedger();
    await begin();
    writeFileSync(path, other);
    await expect(open()).rejects.toThrow(/lacks key [0-9a-f]{8}, which signs this log/);
  });

  it('is missed when the log was signed before', async () => {
    await begin();
    rmSync(path);
    await expect(open()).rejects.toThrow('is missing');
  });

  it('that is torn at any byte is refused, or is what it was', async () => {
    const file = await begin();
    const whole = readFileSync(path);
    for (let length = 0; length < whole.length; length += 7) {
      writeFileSync(path, whole.subarray(0, length));
      await expect(open()).rejects.toThrow(`key file ${path}`);
    }
    // Its last byte is a newline.
    writeFileSync(path, whole.subarray(0, -1));
    expect(idsOf(await open())).toEqual(idsOf(file));
  });

  it.each<[string, (text: string) => string]>([
    ['another origin', (text) => text.replace(/bursar\/[0-9a-f]{8}/, 'bursar/00000000')],
    ['another id', (text) => text.replace(/"id": "[0-9a-f]{8}"/, '"id": "00000000"')],
    ['another version', (text) => text.replace('"version": 1', '"version": 2')],
    ['no keys', (text) => text.replace('"keys"', '"others"')],
    ['a key that is none', (text) => text.replace(/[A-Za-z0-9+/]{20}/, '????????????????????')],
  ])('with %s is refused', async (_what, edit) => {
    await begin();
    writeFileSync(path, edit(readFileSync(path, 'utf8')));
    await expect(open()).rejects.toThrow(`key file ${path}`);
  });

  it('that others may read is refused', async () => {
    await begin();
    chmodSync(path, 0o640);
    await expect(open()).rejects.toThrow('chmod 600');
  });

  it('keeps the last key for the overlap, and drops it with the next rotation', async () => {
    const file = await begin();
    const [first] = idsOf(file);
    await rotate(file, Date.now() + 3_600_000);
    expect(idsOf(await open())).toEqual([first, idsOf(file)[1]]);
    await rotate(file, 0);
    await rotate(file, 0);
    const [, , third, fourth] = (await listLogKeys(fixture.read)).reverse();
    expect(idsOf(await open())).toEqual([third, fourth].map((row) => row?.key.id));
  });

  it('that was put back to before a rotation is refused, though its key still signs', async () => {
    const file = await begin();
    const before = readFileSync(path);
    await rotate(file, Date.now() + 3_600_000);
    writeFileSync(path, before);
    await expect(open()).rejects.toThrow(`lacks key ${idsOf(file)[1]}, which signs this log`);
  });

  it('of a rotation that was cut short signs with the key of before', async () => {
    const file = await begin();
    const [first] = idsOf(file);
    await file.add('bursar/test');
    await fixture.reopen();
    const opened = await open();
    await fixture.ledger.signLog(opened.keys);
    await expect.poll(() => fixture.checkpoints.length).toBe(2);
    const [row, ...others] = await listLogKeys(fixture.read);
    expect(row?.key.id).toBe(first);
    expect(others).toEqual([]);
  });

  it('loses what is revoked', async () => {
    const file = await begin();
    const [first = ''] = idsOf(file);
    await rotate(file, Date.now() + 3_600_000);
    await fixture.ledger.commit(commitOf({ kind: 'revokeLogKey', id: first }));
    file.remove(first);
    expect(idsOf(await open())).toHaveLength(1);
    expect(readFileSync(path, 'utf8')).not.toContain(first);
  });
});
