// The rows of copies: what a restore enters, which may be read, and what waits for how long.
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  adoptCopies,
  declareCopies,
  deferCopies,
  enterCopies,
  listCopyWork,
  listGood,
  listReadable,
  listWaiting,
  listWaitingOf,
  noteMade,
  suspectCopies,
} from '#bursar/catalog/extent-copies.js';
import { listWholeExtents } from '#bursar/catalog/extents.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { newExtentId } from '#bursar/core/ids.js';
import { schema } from '#bursar/ledger/schema.js';

let db: OpenDatabase;
const id = newExtentId();

beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
});
afterEach(() => db.close());

it('what a backup has as declared is entered as what the store says', async () => {
  await declareCopies(db.tx, { ids: [id], stores: [2, 3], timeMs: 1 });
  expect(await listReadable(db.tx, id)).toEqual([]);
  await enterCopies(db.tx, id, { good: [3], due: [2] }, 5);
  expect(await listGood(db.tx, id)).toEqual([3]);
  // What is known of a copy already is not made another.
  await enterCopies(db.tx, id, { good: [], due: [3] }, 6);
  expect(await listGood(db.tx, id)).toEqual([3]);
});

it('a copy that is due may be read, after those that are good', async () => {
  await declareCopies(db.tx, { ids: [id], stores: [2, 3], timeMs: 1 });
  await adoptCopies(db.tx, [id], [[3]], 5);
  expect(await listReadable(db.tx, id)).toEqual([3, 2]);
});

it('what nobody uses any more is told so, and waits as long as it is deferred', async () => {
  await enterCopies(db.tx, id, { good: [3], due: [2] }, 5);
  expect(await listCopyWork(db.tx, 5, 10)).toMatchObject([{ store: 2, tries: 0, isAlive: 0 }]);
  expect(await deferCopies(db.tx, [{ id, store: 2, dueMs: 100 }])).toBe(1);
  expect(await listCopyWork(db.tx, 99, 10)).toEqual([]);
  expect(await listCopyWork(db.tx, 100, 10)).toMatchObject([{ store: 2, tries: 1 }]);
});

it('a store has whole what is there alone, and copies that are not suspect', async () => {
  const list = async (store: number) => {
    const found: string[] = [];
    for await (const page of listWholeExtents(db.tx, store)) {
      found.push(...page.map((one) => `${one.id.toString('hex')} ${one.isElsewhere}`));
    }
    return found;
  };
  const alone = newExtentId();
  const sql = 'INSERT INTO extents (id, store, state, refs, changed_ms) VALUES (?, 1, 1, 1, 5)';
  for (const one of [id, alone]) await db.tx.run(sql, one);
  await enterCopies(db.tx, id, { good: [1, 2], due: [] }, 5);
  const [copied, only] = [`${id.toString('hex')} 1`, `${alone.toString('hex')} 0`];
  expect(await list(1)).toEqual([copied, only]);
  const local = { id, store: 1 };
  await suspectCopies(db.tx, { kind: 'suspectCopies', copies: [local] }, { timeMs: 6 });
  expect(await list(1)).toEqual([only]);
  expect(await list(2)).toEqual([`${id.toString('hex')} 0`]);
  await noteMade(db.tx, [local], 7);
  expect(await list(1)).toEqual([copied, only]);
});

it('one that waits is listed by its store, that of the data folder as well', async () => {
  db.exec("INSERT INTO stores (number, name, location) VALUES (2, 'disk1', '')");
  await enterCopies(db.tx, id, { good: [], due: [1, 2] }, 5);
  const waiting = [{ place: 'local' }, { place: 'disk1' }];
  expect(await listWaiting(db.tx, null, 10)).toMatchObject(waiting);
  expect(await listWaitingOf(db.tx, id)).toMatchObject(waiting);
  const first = (await listWaiting(db.tx, null, 1))[0] ?? null;
  expect(await listWaiting(db.tx, first, 10)).toMatchObject(waiting.slice(1));
});
