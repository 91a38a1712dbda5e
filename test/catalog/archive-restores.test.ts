// Rows of versions that are restored from archives: which version they are of, whatever becomes of
// it, and what is done next, in whose turn.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sealObject } from '#bursar/catalog/authentic.js';
import { listEndingRestores, listWaitingRestores } from '#bursar/catalog/restore-rows.js';
import { dateMsMax } from '#bursar/core/clock.js';
import type { Reader } from '#bursar/core/database.js';
import { newExtentId } from '#bursar/core/ids.js';
import { ArchiveRestores, type ArchiveServices } from '#bursar/gateway/archive-restores.js';
import { LogHead } from '#bursar/gateway/log/log-head.js';
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
    ...{ kind: 'beginRestore', bucketId: 1, key, seq, days: 1, tier: 'Bulk', delayMs: -1, dayMs },
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
  fixture.edit(`INSERT INTO restores VALUES (${seq}, 1, 'k', 1, 0, NULL, 'Bulk')`);
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

/** Restores that wait, of versions that are not there any more, in the order of `due_ms`. */
const addWaiting = (bucketId: number, from: number, count: number) =>
  fixture.edit(`WITH RECURSIVE n(i) AS (
      SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})
    INSERT INTO restores
      SELECT ${from} + i, ${bucketId}, 'k', 1, ${from} + i, NULL, 'Bulk' FROM n`);

it('is listed by bucket, and no more rows are read than are listed', async () => {
  addWaiting(1, 100, 9);
  addWaiting(7, 50, 9);
  fixture.edit(`INSERT INTO restores VALUES
    (10, 1, 'k', 1, 0, 5, 'Bulk'), (11, 3, 'k', 1, 9000, NULL, 'Bulk')`);
  const waiting = await listWaitingRestores(fixture.read, 8000, 2);
  expect(waiting.map(({ seq, bucketId, tenant }) => [seq, bucketId, tenant])).toEqual([
    ...[50, 51].map((seq) => [seq, 7, null]),
    ...[100, 101].map((seq) => [seq, 1, 'one']),
  ]);
  const planned: string[] = [];
  const all = async (sql: string, ...values: number[]) => {
    const steps = await fixture.read.all<{ detail: string }>(
      `EXPLAIN QUERY PLAN ${sql}`,
      ...values,
    );
    planned.push(...steps.map(({ detail }) => detail));
    return [];
  };
  const planning = { ...fixture.read, all } as Reader;
  await listWaitingRestores(planning, 8000, 2);
  await listEndingRestores(planning, 8000, 2);
  expect(planned.filter((step) => /SCAN (r|restores|buckets)\b/.test(step))).toEqual([]);
  expect(planned).toContainEqual(expect.stringContaining('(bucket_id=? AND due_ms<?)'));
  expect(planned).toContainEqual(expect.stringContaining('restores_ending (due_ms<?)'));
});

function restoresOf(log: LogHead): ArchiveRestores {
  const { ledger, read } = fixture;
  return new ArchiveRestores({ ledger, read, keyring, log, dayMs } as unknown as ArchiveServices);
}

it('waits for one turn of each other tenant, however much they have asked for', async () => {
  const tenants = ['b', 'c', 'd', 'e'];
  for (const name of tenants) {
    await commit({ kind: 'createTenant', name, membersCreateBuckets: true });
    const alice = { tenant: name, name: 'alice', principalKind: 'person', role: 'member' } as const;
    await commit({ kind: 'createPrincipal', ...alice, groups: [] });
    const bucket = { tenant: name, name: 'data', owner: 'alice', store: 1 };
    await commit({ kind: 'createBucket', ...bucket });
  }
  const ids = (await fixture.read.all<{ id: number }>('SELECT id FROM buckets ORDER BY id')).map(
    ({ id }) => id,
  );
  expect(ids).toHaveLength(5);
  const last = ids.pop() ?? 0;
  for (const [i, id] of ids.entries()) addWaiting(id, 1000 * (i + 1), 120);
  addWaiting(last, 9000, 1);
  fixture.edit(`CREATE TABLE gone (seq);
    CREATE TRIGGER goes AFTER DELETE ON restores BEGIN INSERT INTO gone VALUES (old.seq); END`);
  const failures: unknown[] = [];
  const restores = restoresOf(new LogHead());
  // One run ends when all have ended their turns at the same time.
  while (failures.length === 0 && (await seqsOf()).length > 0) {
    await restores.run((failure) => failures.push(failure));
  }
  expect(failures).toEqual([]);
  const gone = (await fixture.read.all<{ seq: number }>('SELECT seq FROM gone ORDER BY rowid')).map(
    ({ seq }) => seq,
  );
  expect(gone).toHaveLength(4 * 120 + 1);
  for (const i of ids.keys()) {
    expect(gone.indexOf(9000)).toBeLessThan(gone.indexOf(1000 * (i + 1) + 119));
  }
});

it('pauses where it cannot even be put off, and ends with the log', async () => {
  addWaiting(1, 100, 50);
  for (const what of ['DELETE', 'UPDATE']) {
    fixture.edit(`CREATE TRIGGER no_${what} BEFORE ${what} ON restores
      BEGIN SELECT RAISE(FAIL, 'full'); END`);
  }
  const failures: unknown[] = [];
  const stop = new AbortController();
  // Of one try: its own, and that it could not be put off. The pause is longer than this.
  const stopSoon = (failure: unknown) => {
    if (failures.push(failure) === 2) setTimeout(() => stop.abort(), 200);
  };
  await restoresOf(new LogHead()).run(stopSoon, stop.signal);
  expect(failures).toHaveLength(2);
  const log = new LogHead();
  await restoresOf(log).run((failure) => {
    failures.push(failure);
    log.refuse('it is another log');
  });
  expect(failures).toHaveLength(4);
});
