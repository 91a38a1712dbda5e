// What is stored by a writer that gets limits is counted in slices, in whichever run.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { countStored, readCounts } from '#bursar/ledger/stored-count.js';
import { countStoredSoon, sliceOf } from '#bursar/ledger/stored-upkeep.js';
import { readAccountState } from '#bursar/quota/leases/account-tables.js';
import { limitedAccountOf } from '#bursar/quota/limited-accounts.js';
import { commitOf, deleteOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

const account = 'writer:one/alice';
const objects = 12_000;
let fixture: LedgerFixture;

beforeEach(async () => {
  fixture = await openLedger();
  await fixture.ledger.commit(putOf('a'));
  const columns = `size, etag, sha256, class, owner, created_ms, manifest, attributes, epoch,
    manifest_mac, row_mac, billed`;
  await fixture.rewrite(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
      WHERE i < ${objects - 1})
    INSERT INTO versions SELECT bucket_id, printf('m%05d', i), seq, version_id, is_marker,
      ${columns} FROM n, versions WHERE key = 'a'`);
});
afterEach(() => fixture.close());

const limit = (limits: object | null) =>
  fixture.ledger.commit(commitOf({ kind: 'setLimits', account, limits }));
const levels = async () => {
  // Rows of accounts are written soon after.
  await fixture.ledger.maintain({ kind: 'writeAccounts' });
  const used = (await readAccountState(fixture.read, account))?.used;
  return [used?.storedBytes, used?.storedObjects];
};
const counted = async () => {
  const place = (await readCounts(fixture.read)).get(account);
  const limited = limitedAccountOf(account);
  if (!limited) throw new Error('no such account');
  const { storedBytes, storedObjects } = await countStored(fixture.read, limited, place);
  return { isWhole: !place, levels: [BigInt(storedBytes), BigInt(storedObjects)] };
};

it('is exact when it has ended, whatever is written meanwhile, over a restart', async () => {
  await limit({ storedBytes: { total: 1000 } });
  const before = await counted();
  expect(before.isWhole).toBe(false);
  expect(await levels()).toEqual(before.levels);
  // On both sides of where it has come to.
  for (const key of ['a1', 'm00000', 'z', 'z1']) await fixture.ledger.commit(putOf(key));
  for (const key of ['a', 'm00001', 'm11998', 'z1']) await fixture.ledger.commit(deleteOf(key));
  expect(await levels()).toEqual((await counted()).levels);
  await fixture.ledger.commit(sliceOf(account, 1000));
  await fixture.reopen();
  expect((await counted()).isWhole).toBe(false);
  const { ledger, read } = fixture;
  const [errors, recalled]: [unknown[], string[]] = [[], []];
  const upkeep = countStoredSoon({
    ...{ read, ledger, onError: (error) => errors.push(error) },
    recall: async (accounts) => void recalled.push(...accounts),
  });
  upkeep.start();
  await expect.poll(async () => (await counted()).isWhole, { timeout: 30_000 }).toBe(true);
  await upkeep.stop();
  expect([errors, fixture.failures, recalled]).toEqual([[], [], [account]]);
  const all = [BigInt(10 * objects), BigInt(objects)];
  expect([await levels(), (await counted()).levels]).toEqual([all, all]);
});

it('counts parts of many uploads in slices, whatever each has', async () => {
  const [account, uploads, partsOfEach] = ['prefix:one/data/u', 40, 500];
  await fixture.rewrite(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
      WHERE i < ${uploads})
    INSERT INTO uploads SELECT printf('id%02d', i), 1, printf('u%02d', i), 'one/alice', 0,
      'STANDARD', '{}', NULL, 1, x'' FROM n;
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${partsOfEach})
    INSERT INTO parts SELECT id, i, 7, '', NULL, 0, x'', 1, x'' FROM uploads, n`);
  const limits = { storedBytes: { total: 1000 } };
  await fixture.ledger.commit(commitOf({ kind: 'setLimits', account, limits }));
  const limited = limitedAccountOf(account);
  if (!limited) throw new Error('no such account');
  const sums: number[] = [];
  for (;;) {
    const place = (await readCounts(fixture.read)).get(account);
    sums.push((await countStored(fixture.read, limited, place)).storedBytes / 7);
    if (!place) break;
    await fixture.ledger.commit(sliceOf(account, 5000));
  }
  expect(sums.at(-1)).toBe(uploads * partsOfEach);
  for (const [i, sum] of sums.entries()) expect(sum - (sums[i - 1] ?? 0)).toBeLessThan(6500);
});

it('leaves an account that fails alone, and counts the others', async () => {
  const failing = 'prefix:one/data/m';
  const limits = { storedBytes: { total: 1000 } };
  for (const one of [failing, account]) {
    await fixture.ledger.commit(commitOf({ kind: 'setLimits', account: one, limits }));
  }
  const { ledger, read } = fixture;
  const errors: unknown[] = [];
  const upkeep = countStoredSoon({
    read,
    ledger: {
      commit: (commit, ...more) =>
        commit.change.kind === 'countStored' && commit.change.account === failing
          ? Promise.reject(new Error('it fails'))
          : ledger.commit(commit, ...more),
    },
    onError: (error) => errors.push(error),
    recall: async () => {},
  });
  upkeep.start();
  await expect.poll(async () => (await counted()).isWhole, { timeout: 30_000 }).toBe(true);
  await upkeep.stop();
  expect(errors).toEqual([new Error('it fails')]);
  expect([...(await readCounts(read)).keys()]).toEqual([failing]);
});

it('lets a rename bring to it what it has not come to, which reserved nothing', async () => {
  await fixture.ledger.commit(putOf('z'));
  await limit({ storedBytes: { total: 1000 } });
  expect((await counted()).isWhole).toBe(false);
  const sql = "SELECT seq FROM versions WHERE key = 'z'";
  const { seq = 0 } = (await fixture.read.get<{ seq: number }>(sql)) ?? {};
  const conditions = { ifMatch: null, ifNoneMatch: null };
  const { charge, ...commit } = commitOf({
    ...{ kind: 'renameObject', bucketId: 1, key: 'b', conditions },
    ...{ source: { key: 'z', seq }, token: null },
  });
  if (!charge) throw new Error('it has a charge');
  const accounts = [{ account, limited: ['storedBytes', 'storedObjects'] as const }];
  const settlement = { holder: 1, held: [{ accounts, amounts: {} }], isMixed: false };
  const renamed = await fixture.ledger.commit({ ...commit, charge: { ...charge, settlement } });
  expect(renamed.ok).toBe(true);
  expect(await levels()).toEqual((await counted()).levels);
  expect(fixture.failures).toEqual([]);
});

it('ends with its limits, and begins anew with others', async () => {
  await limit({ storedObjects: { total: 5 } });
  await limit({ storedObjects: { total: 7 } });
  expect((await counted()).isWhole).toBe(false);
  await limit(null);
  expect((await readCounts(fixture.read)).size).toBe(0);
  expect(await levels()).toEqual([0n, 0n]);
  await fixture.ledger.commit(sliceOf(account, 1000));
  expect(await levels()).toEqual([0n, 0n]);
});
