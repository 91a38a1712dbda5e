// Rows of accounts that are behind the log: what a run that died had recorded is charged by the
// next one, once, and nobody can change how much that is.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { readCharged } from '#bursar/ledger/seal-roots.js';
import { verifySealedState } from '#bursar/ledger/sealed-state.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { readUsage } from '#bursar/quota/usage.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf, rootKey } from './fixture.ts';

const bucket = 'bucket:one/data';

let fixture: LedgerFixture;
let folder: string;
beforeEach(async () => {
  fixture = await openLedger();
  folder = mkdtempSync(join(tmpdir(), 'bursar-unwritten-'));
});
afterEach(async () => {
  await fixture.close();
  rmSync(folder, { recursive: true });
});

/** The database as a power cut would leave it: rows that are behind, with the records of five. */
async function copyBehind(): Promise<string> {
  for (let i = 0; i < 20; i++) {
    const keys = [0, 1, 2, 3, 4].map((n) => `k${i}-${n}`);
    await fixture.ledger.writeAccounts();
    await Promise.all(keys.map((key) => fixture.ledger.commit(putOf(key))));
    const path = join(folder, `${i}.db`);
    for (const end of ['', '-wal']) cpSync(`${fixture.path}${end}`, `${path}${end}`);
    if ((await read(path)).behind > 0) return path;
  }
  throw new Error('the rows of accounts were never behind');
}

async function read(path: string) {
  using db = openDatabase(path, { readonly: false, cacheKib: 1024 });
  const sql = 'SELECT count(*) AS size FROM records';
  const size = (await db.tx.get<{ size: number }>(sql))?.size ?? 0;
  const { requests, storedBytes } = await readUsage(db.tx, bucket);
  db.exec('BEGIN');
  const { unsealed } = await verifySealedState(db, keyring);
  db.exec('ROLLBACK');
  const behind = size - (await readCharged(db.tx, size));
  return { size, behind, requests, storedBytes, unsealed: unsealed.map(({ what }) => what) };
}

function edit(path: string, sql: string): void {
  using db = openDatabase(path, { readonly: false, cacheKib: 1024 });
  db.exec(sql);
}

/** Starts on it, and ends. */
async function start(path: string): Promise<void> {
  const told: string[] = [];
  const tell = (reason: string) => void told.push(reason);
  const ledger = await Ledger.open({
    ...{ path, priceBooks: [...readPriceBooks()], rootKeys: [rootKey] },
    ...{ onFatal: tell, onFailure: tell, onUnsealed: () => {}, onAlarms: () => {} },
    onCheckpoint: () => {},
  });
  await ledger.close();
  expect(told).toEqual([]);
}

describe('rows of accounts that are behind the log', () => {
  it('have all that was recorded after the next start, and no more after another', async () => {
    const path = await copyBehind();
    const before = await read(path);
    expect(before.unsealed).toEqual([]);
    expect(before.requests + before.behind).toBe(before.size);
    const { size } = before;
    const whole = { ...before, behind: 0, requests: size, storedBytes: (size - 3) * 10 };
    for (const _ of ['once', 'again']) {
      await start(path);
      expect(await read(path)).toEqual(whole);
    }
  });

  it('are what they are where somebody says that they have less', async () => {
    const path = await copyBehind();
    const before = await read(path);
    const digits = String(before.size - before.behind);
    const other = String(Number(digits) - 1).padStart(digits.length, '0');
    const [from, to] = [digits, other].map((text) => Buffer.from(`*${text}`).toString('hex'));
    edit(
      path,
      `UPDATE records SET roots = unhex(replace(hex(roots), upper('${from}'), upper('${to}')))
        WHERE idx = (SELECT max(idx) FROM records)`,
    );
    expect((await read(path)).unsealed).not.toEqual([]);
    await start(path);
    expect((await read(path)).requests).toBe(before.requests);
  });

  it('are left alone where they are not authentic, and nobody else is', async () => {
    const path = await copyBehind();
    const before = await read(path);
    edit(path, "UPDATE quota_accounts SET used_requests = 1 WHERE account = 'tenant:one'");
    const unsealed = ['what tenant:one has used is not what was stored'];
    expect((await read(path)).unsealed).toEqual(unsealed);
    await start(path);
    const after = await read(path);
    expect(after.requests).toBe(before.size);
    expect(after.unsealed).toEqual(unsealed);
  });

  it('are written where a clean stop ends the run, and before who asks reads them', async () => {
    await fixture.ledger.commit(putOf('a'));
    await fixture.ledger.writeAccounts();
    expect((await readUsage(fixture.read, bucket)).requests).toBe(4);
    await fixture.ledger.commit(putOf('b'));
    await fixture.reopen();
    expect((await readUsage(fixture.read, bucket)).requests).toBe(5);
    expect(await read(fixture.path)).toMatchObject({ behind: 0, unsealed: [] });
  });

  it('are not behind what is charged in another way than a record says', async () => {
    const limits = { requests: { month: 100 } };
    const change = { kind: 'setLimits', account: bucket, limits } as const;
    await Promise.all([fixture.ledger.commit(putOf('a')), fixture.ledger.commit(commitOf(change))]);
    const size = 5;
    expect(await readCharged(fixture.read, size)).toBe(size);
  });
});
