// Where a version of a class with tiers is to be, by when it was read.
import { describe, expect, it } from 'vitest';
import { Lifecycle } from '#bursar/catalog/lifecycle.js';
import { findDueMove } from '#bursar/catalog/lifecycle-moves.js';
import { chainsOf, dueTier, type TieringConfig, type Uses } from '#bursar/catalog/tiers.js';

const dayMs = 86_400_000;
const day = (n: number) => n * dayMs;
const rowOf = (name: string, tier?: object) => ({
  ...{ name, definition: JSON.stringify({ aliases: [], tier }), createdMs: 0 },
});
const chains = chainsOf([
  rowOf('cold', { of: 'smart', archive: 'DEEP_ARCHIVE_ACCESS' }),
  rowOf('cool', { of: 'smart', afterDays: 30 }),
  rowOf('archive', { of: 'smart', archive: 'ARCHIVE_ACCESS' }),
  rowOf('other'),
  rowOf('cooler', { of: 'smart', afterDays: 90 }),
  rowOf('smart'),
  rowOf('stray', { of: 'gone', afterDays: 1 }),
]);
const chain = chains.get('smart');
if (!chain) throw new Error('no chain');

const configs: TieringConfig[] = [
  {
    ...{ id: 'off', isEnabled: false, filter: {} },
    tierings: [{ tier: 'DEEP_ARCHIVE_ACCESS', days: 180 }],
  },
  {
    ...{ id: 'a', isEnabled: true, filter: { prefix: 'k', tags: [['kind', 'raw']] } },
    tierings: [{ tier: 'ARCHIVE_ACCESS', days: 120 }],
  },
  {
    ...{ id: 'b', isEnabled: true, filter: { prefix: 'k' } },
    tierings: [{ tier: 'ARCHIVE_ACCESS', days: 150 }],
  },
];

interface Asked {
  in?: string;
  at: number;
  reads?: [number, number | null];
  size?: number;
  key?: string;
  raw?: boolean;
  superseded?: number;
  since?: number;
  restored?: boolean;
}

function due({ at, reads, superseded, ...asked }: Asked) {
  const { restored: isRestored = false } = asked;
  const { in: of = 'smart', size = 200_000, key = 'k', raw = true, since = 0 } = asked;
  const uses: Uses = {
    of: reads && {
      usedMs: day(reads[0]),
      beforeMs: reads[1] === null ? null : day(reads[1]),
    },
    sinceMs: day(since),
  };
  const version = {
    ...{ key, class: of, sizeBytes: size, createdMs: 0, isMarker: false },
    ...{ supersededMs: superseded === undefined ? null : day(superseded) },
    tags: () => (raw ? ([['kind', 'raw']] as const) : []),
  };
  return dueTier(version, {
    chain: chain as never,
    configs,
    uses,
    isRestored,
    timeMs: day(at),
    dayMs,
  });
}

it('is told of each class of a chain, and of none without a first class', () => {
  expect(chain.tiers.map((tier) => tier.class)).toEqual(['cool', 'cooler', 'archive', 'cold']);
  expect(chains.get('cold')).toBe(chain);
  expect([chains.has('other'), chains.has('stray')]).toEqual([false, false]);
});

describe('a version', () => {
  it.each([
    ['stays while it is read', { at: 29 }, null],
    ['moves when its days are over', { at: 30 }, 'cool'],
    ['counts from its last read', { at: 59, reads: [30, null] }, null],
    ['counts from when it became noncurrent', { at: 59, superseded: 30 }, null],
    ['counts from when reads are noted', { at: 59, since: 30 }, null],
    ['goes as far as it is due', { at: 90 }, 'cooler'],
    ['goes on from a tier', { in: 'cool', at: 90 }, 'cooler'],
    ['does not come back by itself', { in: 'cooler', at: 100, reads: [99, 2] }, null],
    [
      'comes back when it was read on two days',
      { in: 'cooler', at: 100, reads: [99, 80] },
      'smart',
    ],
    ['does not where its last read is long ago', { in: 'cool', at: 60, reads: [30, 20] }, null],
    ['stays where it is small', { at: 90, size: 131_071 }, null],
    ['is archived as the first configuration that fits says', { at: 120 }, 'archive'],
    ['is archived by another where a tag is missing', { at: 149, raw: false }, 'cooler'],
    ['and is then', { at: 150, raw: false }, 'archive'],
    ['is not archived where none fits', { at: 500, key: 'other' }, 'cooler'],
    ['leaves no archive by itself', { in: 'archive', at: 130, reads: [129, 128] }, null],
    [
      'leaves an archive where it was restored',
      { in: 'archive', at: 200, restored: true },
      'smart',
    ],
    ['is in no archive that is not enabled', { in: 'archive', at: 900 }, null],
  ] as const)('%s', (_, asked, to) => {
    expect(due(asked as Asked)?.class ?? null).toBe(to);
  });
});

it('is where a rule has it be, in whatever tier it lies', async () => {
  const rule = { id: 'r', isEnabled: true, filter: {}, transitions: [{ class: 'smart', days: 1 }] };
  const rules = new Lifecycle({ rules: [rule], transitionMinimum: 'all_storage_classes_128K' });
  const bucket = { id: 1, versioning: 'Enabled' as const };
  const terms = { bucket, rules, chains, tierings: configs, timeMs: day(100), dayMs };
  const rowIn = (of: string) => ({
    ...{ key: 'k', seq: 7, class: of, sizeBytes: 200_000, createdMs: 0, isMarker: 0 },
    ...{ supersededMs: null, attributes: JSON.stringify({ headers: {}, metadata: {} }) },
  });
  const found = { usedMs: day(99), beforeMs: null };
  const read = { get: async <T>() => found as T, all: async () => [] };
  expect(await findDueMove(read, terms, rowIn('STANDARD'))).toMatchObject({ class: 'smart' });
  expect(await findDueMove(read, terms, rowIn('cool'))).toBeNull();
  expect(await findDueMove(read, terms, rowIn('other'))).toMatchObject({ class: 'smart' });
});
