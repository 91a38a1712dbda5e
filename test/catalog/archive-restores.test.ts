// Rows of versions that are restored from archives: which version they are of, whatever becomes of
// it, and what is done next.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sealObject } from '#bursar/catalog/authentic.js';
import { listEndingRestores, listWaitingRestores } from '#bursar/catalog/restore-rows.js';
import { dateMsMax } from '#bursar/core/clock.js';
import { newExtentId } from '#bursar/core/ids.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';

const dayMs = 1000;
const any = { ifMatch: null, ifNoneMatch: null };
let fixture: LedgerFixture;

beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

async function commit(change: Change): Promise<number | string> {
  const result = await fixture.ledger.commit(commitOf(change));
  return result.ok ? (result.index ?? -1) : result.code;
}

/** An object in the archive; gives its `seq`. */
async function put(key: string): Promise<number> {
  const { change } = putOf(key, { inlineId: newExtentId() });
  if (change.kind !== 'putObject') throw new Error(change.kind);
  const drafted = { ...change.object, tenant: 'one', class: 'cold' };
  return Number(await commit({ ...change, object: sealObject(keyring, drafted) }));
}

const begin = (key: string, seq: number, more: object = {}) =>
  commit({
    ...{ kind: 'beginRestore', bucketId: 1, key, seq, days: 1, delayMs: -1, dayMs },
    ...{ isThere: false, ...more },
  });
const finish = (key: string, seq: number) =>
  commit({ kind: 'finishRestore', bucketId: 1, key, seq, dayMs });
const remove = (key: string) => commit({ kind: 'deleteObject', bucketId: 1, key, conditions: any });
const seqsOf = async () =>
  (await fixture.read.all<{ seq: number }>('SELECT seq FROM restores ORDER BY seq')).map(
    ({ seq }) => seq,
  );
const nextMs = () => Date.now() + 60_000;

it('is refused where it was decided by what is not so any more', async () => {
  const seq = await put('k');
  expect(await begin('k', seq, { isThere: true })).toBe('SlowDown');
  expect(await begin('k', seq)).toEqual(expect.any(Number));
  expect(await begin('k', seq)).toBe('RestoreAlreadyInProgress');
  expect(await listWaitingRestores(fixture.read, nextMs(), 1)).toMatchObject([
    { seq, tenant: 'one' },
  ]);
});

it('lasts until a time that a date can say', async () => {
  const seq = await put('k');
  await begin('k', seq, { days: 2 ** 31 - 1 });
  await commit({ kind: 'finishRestore', bucketId: 1, key: 'k', seq, dayMs: 86_400_000 });
  const [found] = await listEndingRestores(fixture.read, dateMsMax, 9);
  expect(found?.expiresMs).toBe(dateMsMax);
});

it('ends with its version, and is of none that is not there', async () => {
  const seq = await put('k');
  await begin('k', seq);
  await remove('k');
  expect(await seqsOf()).toEqual([]);
  expect(await begin('k', seq)).toBe('NoSuchKey');
  fixture.edit(`INSERT INTO restores VALUES (${seq}, 1, 'k', 1, 0, NULL)`);
  expect(await finish('k', seq)).toBe('SlowDown');
});

it('goes on for a version that a snapshot holds', async () => {
  const seq = await put('k');
  await begin('k', seq);
  const bare = { prefix: '', expiresMs: null, lock: null };
  await commit({ kind: 'createSnapshot', bucketId: 1, name: 's', ...bare });
  await remove('k');
  expect(await finish('k', seq)).toEqual(expect.any(Number));
});

it('is of a renamed version, and stays of one that stays', async () => {
  const rename = (from: string, key: string, seq: number) =>
    commit({
      ...{ kind: 'renameObject', bucketId: 1, key, conditions: any, token: null },
      source: { key: from, seq },
    });
  const first = await put('a');
  await begin('a', first);
  const moved = Number(await rename('a', 'b', first));
  expect(await seqsOf()).toEqual([moved]);
  const bare = { prefix: '', expiresMs: null, lock: null };
  await commit({ kind: 'createSnapshot', bucketId: 1, name: 's', ...bare });
  const again = Number(await rename('b', 'c', moved));
  expect(await seqsOf()).toEqual([moved, again]);
});

it('is put off when its end fails, too', async () => {
  const seq = await put('k');
  await begin('k', seq);
  await finish('k', seq);
  const [due] = await listEndingRestores(fixture.read, nextMs(), 9);
  await fixture.ledger.maintain({ kind: 'deferRestore', seq, dueMs: nextMs() + 60_000 });
  expect(await listEndingRestores(fixture.read, nextMs(), 9)).toEqual([]);
  const [later] = await listEndingRestores(fixture.read, nextMs() + 120_000, 9);
  expect(later?.expiresMs).toBe(due?.expiresMs);
});
