// What is told of a record when it is appended is what whoever reads its text adds up.
import { expect, test } from 'vitest';
import { type RecordDraft, type RecordSeal, renderRecord } from '#bursar/audit/record.js';
import { useOf } from '#bursar/ledger/recorded-use.js';
import { type Part, partsOf, partsOfUse } from '#bursar/quota/roll-up/charged-record.js';
import { RecentUse } from '#bursar/quota/roll-up/recent-use.js';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';

const random = seededRandom(19);
const timeMs = Date.parse('2026-11-30T23:59:59.500Z');
const sources = ['192.0.2.1'];

const buckets: Partial<RecordDraft>[] = [
  {},
  { bucket: 'data' },
  { bucket: 'data', bucketOwner: 'alice' },
  { bucket: 'data', bucketOwner: 'bob' },
  { bucket: 'data', bucketOwner: 'bob', bucketTenant: 'two' },
];
const folds: RecordDraft['folded'][] = [
  null,
  {
    reads: 7,
    firstRead: '2026-11-29T23:59:00.000Z',
    lastRead: '2026-11-29T23:59:59.999Z',
    sources,
  },
];

function randomDraft(): RecordDraft {
  return {
    action: randomOf(random, ['s3:GetObject', 's3:PutObject']),
    tenant: randomOf(random, ['one', 'two']),
    principal: randomOf(random, ['alice', 'bob']),
    evidence: 'none',
    tokens: randomOf(random, [null, ['t1', 't2']]),
    ...randomOf(random, buckets),
    bytesIn: randomBelow(random, 5000),
    bytesOut: randomBelow(random, 5_000_000_000),
    class: randomOf(random, [null, 'STANDARD', 'GLACIER']),
    folded: randomOf(random, folds),
    ...{ requestId: 'r', source: '192.0.2.1', status: 200 },
  };
}

function randomSeal(index: number): RecordSeal {
  const storedObjects = randomBelow(random, 3) - 1;
  return {
    index,
    timeMs: timeMs + randomBelow(random, 1000),
    ...{ storedBytes: storedObjects * randomBelow(random, 10_000), storedObjects },
    cost: randomOf(random, [null, 0n, 1n, 400_000n, 9_007_199_254_740_993n]),
    storageCost: randomOf(random, [undefined, 0n, 12n]),
    priced: randomOf(random, [null, { book: 'b' }, { book: 'b', price: 'get' }]),
  };
}

test('of each record, whatever it says', () => {
  let charged = 0;
  for (let i = 0; i < 3000; i++) {
    const [draft, seal] = [randomDraft(), randomSeal(i)];
    const use = useOf(draft, seal);
    expect(use ? partsOfUse(use) : []).toEqual(partsOf(renderRecord(draft, seal)));
    charged += use ? 1 : 0;
  }
  expect(charged).toBeGreaterThan(1000);
});

function sumsOf(parts: readonly Part[]): Map<string, unknown> {
  const sums = new Map<string, Omit<Part, 'account' | 'day' | 'action' | 'class'>>();
  for (const { account, day, action, class: of, ...part } of parts) {
    const name = [account, day, action, of].join(' ');
    const sum = sums.get(name);
    sums.set(name, {
      requests: part.requests + (sum?.requests ?? 0),
      ingressBytes: part.ingressBytes + (sum?.ingressBytes ?? 0),
      egressBytes: part.egressBytes + (sum?.egressBytes ?? 0),
      storedBytes: part.storedBytes + (sum?.storedBytes ?? 0),
      storedObjects: part.storedObjects + (sum?.storedObjects ?? 0),
      spend: part.spend + (sum?.spend ?? 0n),
    });
  }
  return sums;
}

test('of a run of records together, which is taken once, from its first on', () => {
  const recent = new RecentUse();
  const texts: string[] = [];
  const append = (index: number): void => {
    const [draft, seal] = [randomDraft(), randomSeal(index)];
    recent.note(index, useOf(draft, seal));
    texts.push(renderRecord(draft, seal));
  };
  for (let index = 40; index < 640; index++) append(index);
  expect(recent.take(39)).toBeUndefined();
  const parts: Part[] = [];
  let next = 40;
  for (let run = recent.take(next); run; run = recent.take(next)) {
    expect(run.count).toBeLessThanOrEqual(200);
    parts.push(...run.parts());
    next += run.count;
    if (next === 640) append(next);
  }
  expect(next).toBe(641);
  expect(sumsOf(parts)).toEqual(sumsOf(texts.flatMap(partsOf)));
  expect(recent.take(40)).toBeUndefined();
});

test('of nothing that was rolled back, nor across a gap', () => {
  const recent = new RecentUse();
  for (const index of [0, 1, 2]) recent.note(index, null);
  recent.discard();
  expect(recent.take(0)).toBeUndefined();
  for (const index of [2, 3, 9]) recent.note(index, null);
  expect(recent.take(2)?.count).toBe(2);
  expect(recent.take(4)).toBeUndefined();
  expect(recent.take(9)?.count).toBe(1);
});
