// Which commits are outdated by which changes, also over batches that are rolled back; and that
// nobody waits without end for others who change rights all the time.
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Change } from '#bursar/ledger/commands/index.js';
import type { Commit } from '#bursar/ledger/commit.js';
import { KnownRights } from '#bursar/ledger/known-rights.js';
import { RightsEpoch } from '#bursar/ledger/rights-epoch.js';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { commitOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

let fixture: LedgerFixture;
beforeAll(async () => {
  fixture = await openLedger();
});
afterAll(() => fixture.close());

const tenants = ['a', 'b'];
const names = ['x', 'y'];

/** A change that takes rights away, and whether a request of `commit` depends on them. */
interface Taking {
  change: Change;
  concerns: (commit: Commit) => boolean;
}

function takings(): Taking[] {
  return tenants.flatMap((tenant) => {
    const ofTenant = ({ record }: Commit) => [record.tenant, record.bucketTenant].includes(tenant);
    const group = { kind: 'deleteGroup', tenant, name: 'g' } as const;
    const whole: Taking = { change: group, concerns: ofTenant };
    const some = names.map((name): Taking => {
      const identity = { kind: 'deletePrincipal', tenant, name } as const;
      return {
        change: identity,
        concerns: ({ record }) => record.tenant === tenant && record.principal === name,
      };
    });
    return [whole, ...some];
  });
}

function requestOf(
  tenant: string,
  principal: string,
  bucketTenant: string,
  bucket: string,
): Commit {
  const commit = commitOf({ kind: 'none' });
  return { ...commit, record: { ...commit.record, tenant, principal, bucketTenant, bucket } };
}

it('a commit is outdated only by what concerns it and came after its decision', () => {
  const seed = Date.now() % 2 ** 31;
  const random = seededRandom(seed);
  const rights = new RightsEpoch();
  const all = takings();
  /** What is durable, and what the batch has besides, in order. */
  let durable: Taking['concerns'][] = [];
  let batch: Taking['concerns'][] = [];
  for (let step = 0; step < 3000; step++) {
    const dice = random();
    if (dice < 0.3) {
      // Of a bucket, the change's own record says which.
      const [tenant, bucket] = [randomOf(random, tenants), randomOf(random, names)];
      const isBucket = random() < 0.4;
      const taking = randomOf(random, all);
      const policy = { kind: 'putBucketPolicy', bucketId: 1, policy: null } as const;
      const change = isBucket ? policy : taking.change;
      const commit = { ...requestOf(tenant, 'x', tenant, bucket), change };
      batch.push(
        isBucket
          ? ({ record }) => record.bucketTenant === tenant && record.bucket === bucket
          : taking.concerns,
      );
      expect(rights.note(commit), `seed ${seed}`).toBe(durable.length + batch.length);
    } else if (dice < 0.4) {
      rights.settle();
      durable = [...durable, ...batch];
      batch = [];
    } else if (dice < 0.45) {
      rights.discard();
      batch = [];
    } else {
      const [tenant, other] = [randomOf(random, tenants), randomOf(random, tenants)];
      const commit = requestOf(tenant, randomOf(random, names), other, randomOf(random, names));
      const epoch = randomBelow(random, durable.length + batch.length + 1);
      const later = [...durable, ...batch].slice(epoch);
      const last = later.findLastIndex((concerns) => concerns(commit));
      const refused = rights.refuse({ ...commit, epoch });
      const expected = last < 0 ? null : { outdated: { epoch: epoch + last + 1 } };
      if (expected) expect(refused, `seed ${seed}`).toMatchObject(expected);
      else expect(refused, `seed ${seed}`).toBeNull();
    }
  }
});

it('what only adds outdates nothing, and what nobody decided is not asked', () => {
  const rights = new RightsEpoch();
  const group = { kind: 'createGroup', tenant: 'a', name: 'g' } as const;
  expect(rights.note(commitOf(group))).toBeUndefined();
  expect(rights.note(putOf('key'))).toBeUndefined();
  rights.note(commitOf({ kind: 'putBucketPolicy', bucketId: 1, policy: null }));
  expect(rights.refuse(putOf('key'))).toBeNull();
  expect(rights.refuse({ ...putOf('key'), epoch: 0 })).toMatchObject({ index: null });
});

it('a write gets through while the rights to its bucket are changed without a pause', async () => {
  const { ledger } = fixture;
  const { rights } = ledger;
  const send = (commit: Commit) => ledger.commit(commit);
  let isOver = false;
  let changes = 0;
  let decisions = 0;
  const again = async () => {
    const { epoch } = rights;
    decisions++;
    await setImmediate();
    return epoch;
  };
  const loops = Array.from({ length: 6 }, async () => {
    while (!isOver) {
      const change = commitOf({ kind: 'putBucketPolicy', bucketId: 1, policy: null });
      // As nobody decides it, only what it holds up is seen.
      const decision = { epoch: Number.MAX_SAFE_INTEGER, again };
      await rights.commit(send, change, decision);
      changes++;
    }
  });
  for (let i = 0; i < 40; i++) {
    const decision = { epoch: rights.epoch, again };
    const result = await rights.commit(send, putOf(`key-${i}`), decision);
    expect(result.ok).toBe(true);
  }
  isOver = true;
  await Promise.all(loops);
  expect(changes).toBeGreaterThan(40);
  expect(decisions).toBeGreaterThan(0);
});

it.each([8, 64])('of %i changes that outdate each other all are made', async (count) => {
  const { ledger } = fixture;
  const { rights } = ledger;
  const send = (commit: Commit) => ledger.commit(commit);
  const again = async () => {
    const { epoch } = rights;
    await setImmediate();
    return epoch;
  };
  const change = { kind: 'putBucketPolicy', bucketId: 1, policy: null } as const;
  const results = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const { record, ...rest } = commitOf(change);
      const commit = { ...rest, record: { ...record, principal: `writer-${i % 5}` } };
      return rights.commit(send, commit, { epoch: rights.epoch, again });
    }),
  );
  expect(results.filter(({ ok }) => !ok)).toEqual([]);
  const epochs = results.map((result) => result.ok && result.epoch);
  expect(new Set(epochs).size).toBe(count);
});

it('what memory does not follow is refused, in bounded time', async () => {
  const { ledger } = fixture;
  const send = (commit: Commit) => ledger.commit(commit);
  const { epoch } = ledger.rights;
  const rights = new KnownRights({ patienceMs: 100 });
  await ledger.commit(commitOf({ kind: 'putBucketPolicy', bucketId: 1, policy: null }));
  const decision = { epoch, again: async () => rights.epoch };
  const written = rights.commit(send, putOf('key'), decision);
  await expect(written).rejects.toMatchObject({ code: 'SlowDown' });
});
