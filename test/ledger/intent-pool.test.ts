// Ids of extents: each is an intent in the catalog before anybody gets it.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import type { Maintenance } from '#bursar/ledger/commit.js';
import { IntentPool } from '#bursar/ledger/intent-pool.js';
import { type LedgerFixture, openLedger } from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

async function find(id: Buffer) {
  return fixture.read.get<{ store: number; state: number; tenant: string | null }>(
    'SELECT store, state, tenant FROM extents WHERE id = ?',
    id,
  );
}

it('every id that is given is an intent of its store, and nobody gets it twice', async () => {
  const pool = new IntentPool(fixture.ledger);
  const seen = new Set<string>();
  const take = async (store: number) => {
    const id = await pool.take(store);
    expect(await find(id)).toEqual({ store, state: 0, tenant: null });
    seen.add(id.toString('hex'));
  };
  await Promise.all(Array.from({ length: 1500 }, (_, i) => take(1 + (i % 2))));
  expect(seen.size).toBe(1500);
});

it('most ids are given at once, without a commit', async () => {
  const pool = new IntentPool(fixture.ledger);
  let waits = 0;
  for (let i = 0; i < 300; i++) {
    const id = pool.take(1);
    if (id instanceof Promise) waits++;
    await id;
    // What comes in between gives the pool its time.
    await fixture.ledger.maintain({ kind: 'forgetCompleted', beforeMs: 0, max: 1 });
  }
  expect(waits).toBe(1);
});

it('what a run took and never wrote is condemned with its other intents', async () => {
  await new IntentPool(fixture.ledger).take(2);
  await fixture.reopen();
  const condemned = await fixture.ledger.maintain({
    kind: 'condemnIntents',
    expiredBeforeMs: 0,
    max: 1000,
  });
  const left = await fixture.read.all('SELECT 1 FROM extents WHERE state = 0');
  expect(condemned).toBeGreaterThan(0);
  expect(left).toEqual([]);
});

it('a ledger that cannot declare refuses who waits, and is asked again later', async () => {
  let isFull = true;
  let declarations = 0;
  const pool = new IntentPool({
    maintain: (work: Maintenance) => {
      declarations++;
      if (isFull) throw new Refusal('ServiceUnavailable');
      return fixture.ledger.maintain(work);
    },
  });
  const takes = [pool.take(1), pool.take(1)];
  for (const take of takes) {
    await expect(take).rejects.toMatchObject({ code: 'ServiceUnavailable' });
  }
  expect(declarations).toBe(1);
  isFull = false;
  const id = await pool.take(1);
  expect(await find(id)).toMatchObject({ state: 0 });
});
