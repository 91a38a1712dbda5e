// What waits in the catalog: how much, since when, and no more of it is counted than was asked for.
import { beforeEach, expect, test } from 'vitest';
import { countEnded, readCondemned, readIntents, readUntold } from '#bursar/catalog/backlog.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

let db: OpenDatabase;
beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
});

async function addExtent(store: number, state: number, changedMs: number): Promise<void> {
  const sql = 'INSERT INTO extents VALUES (randomblob(16), ?, NULL, ?, 0, ?, NULL, NULL)';
  await db.tx.run(sql, store, state, changedMs);
}

test('extents that wait are counted by store and state, and the oldest tells when', async () => {
  for (const [store, state, at] of [
    ...[
      [1, 2, 30],
      [1, 2, 20],
      [1, 2, 40],
      [2, 2, 10],
      [1, 0, 5],
      [1, 1, 1],
    ],
  ] as const) {
    await addExtent(store, state, at);
  }
  expect(await readCondemned(db.tx, 1, 10)).toEqual({ count: 3, oldestMs: 20 });
  expect(await readCondemned(db.tx, 1, 2)).toEqual({ count: 2, oldestMs: 20 });
  expect(await readCondemned(db.tx, 2, 10)).toEqual({ count: 1, oldestMs: 10 });
  expect(await readCondemned(db.tx, 3, 10)).toEqual({ count: 0, oldestMs: null });
  expect(await readIntents(db.tx, 1, 10)).toEqual({ count: 1, oldestMs: 5 });
});

test("changes that a journal lacks are its store's, the first since when", async () => {
  for (const [store, seq, timeMs] of [
    [2, 7, 70],
    [2, 8, 80],
    [3, 9, 90],
  ] as const) {
    await db.tx.run('INSERT INTO outbox VALUES (?, ?, ?, 1, NULL, NULL)', store, seq, timeMs);
  }
  expect(await readUntold(db.tx, 2, 10)).toEqual({ count: 2, oldestMs: 70 });
  expect(await readUntold(db.tx, 2, 1)).toEqual({ count: 1, oldestMs: 70 });
  expect(await readUntold(db.tx, 4, 10)).toEqual({ count: 0, oldestMs: null });
  expect(await countEnded(db.tx, 10)).toBe(0);
});
