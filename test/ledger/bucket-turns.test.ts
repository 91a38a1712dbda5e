// Turns of buckets: of tenants one after the other, of each a few at once.
import { expect, it } from 'vitest';
import { BucketTurns } from '#bursar/ledger/bucket-turns.js';

it('gives tenants their turns one after the other, however many buckets one has', () => {
  const turns = new BucketTurns<number>();
  for (let bucketId = 1; bucketId <= 100; bucketId++) {
    turns.begin({ tenant: 'large', bucketId, cursor: 0 });
  }
  turns.begin({ tenant: 'small', bucketId: 101, cursor: 0 });
  const order: number[] = [];
  for (let i = 0; i < 4; i++) {
    const turn = turns.take(1);
    if (!turn) throw new Error('there is none');
    order.push(turn.bucketId);
    turns.end(turn, turn.cursor + 1);
  }
  expect(order).toEqual([1, 101, 2, 101]);
});

it('gives at most so many buckets of a tenant their turns at once', () => {
  const turns = new BucketTurns<number>();
  for (const bucketId of [1, 2, 3]) turns.begin({ tenant: 'one', bucketId, cursor: 0 });
  turns.begin({ tenant: 'two', bucketId: 4, cursor: 0 });
  const taken = [turns.take(2), turns.take(2), turns.take(2), turns.take(2)];
  expect(taken.map((turn) => turn?.bucketId)).toEqual([1, 4, 2, undefined]);
});

it('begins anew what was put in its turn, and begins nothing twice', () => {
  const turns = new BucketTurns<number>();
  const bucket = { tenant: 'one', bucketId: 1 };
  turns.begin({ ...bucket, cursor: 0 });
  const turn = turns.take(1);
  if (!turn) throw new Error('there is none');
  turns.begin({ ...bucket, cursor: 7 });
  turns.end(turn, 5);
  expect(turns.take(1)?.cursor).toBe(5);
  turns.put({ ...bucket, cursor: 0 });
  turns.end(turn, 6);
  expect(turns.take(1)?.cursor).toBe(0);
  turns.end(turn, null);
  expect(turns.take(1)).toBeUndefined();
});
