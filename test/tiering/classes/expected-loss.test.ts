// What classes are expected to lose, against figures that were worked out by hand, and what
// definitions are taken for one.
import { describe, expect, test } from 'vitest';
import {
  type ClassDefinition,
  decodeDefinition,
  encodeDefinition,
  findMisfit,
} from '#bursar/tiering/classes/class-definition.js';
import { explainClass, type ShownLeg } from '#bursar/tiering/classes/class-words.js';
import { expectLoss, shareInWords } from '#bursar/tiering/classes/expected-loss.js';

const place = (annualLoss: number | null, ...domains: string[]) => ({ annualLoss, domains });
const day = 24;

describe('the expected loss', () => {
  test('of one copy is what its store declares', () => {
    expect(expectLoss([place(0.03, 'disk1')], day)).toEqual({
      annualLoss: expect.closeTo(0.03, 12),
      groups: [[0]],
    });
    expect(expectLoss([place(0.03)], day)).toMatchObject({ annualLoss: expect.closeTo(0.03, 12) });
    expect(expectLoss([place(0, 'disk1')], day)).toMatchObject({ annualLoss: 0 });
    expect(expectLoss([place(1, 'disk1')], day)).toMatchObject({ annualLoss: 1 });
  });

  test('of two independent copies is 2 λ₁ λ₂ T', () => {
    const found = expectLoss([place(1e-3, 'geneva'), place(2e-3, 'lyon')], day);
    // Of rates so small, λ is the loss itself to a part in a thousand.
    const wanted = 2 * 1e-3 * 2e-3 * (day / 8766);
    expect(found).toMatchObject({ groups: [[0], [1]] });
    expect('annualLoss' in found && found.annualLoss / wanted).toBeCloseTo(1, 2);
  });

  test('of three is 3 λ³ T², and grows with the time of repair', () => {
    const places = ['a', 'b', 'c'].map((domain) => place(1e-2, domain));
    const lossIn = (hours: number) => {
      const found = expectLoss(places, hours);
      return 'annualLoss' in found ? found.annualLoss : Number.NaN;
    };
    const wanted = 3 * 0.01005033585 ** 3 * (day / 8766) ** 2;
    expect(lossIn(day) / wanted).toBeCloseTo(1, 6);
    expect(lossIn(10 * day) / lossIn(day)).toBeCloseTo(100, 4);
  });

  test('of copies that share a domain is that of the best alone, also by way of another', () => {
    const site = [place(0.03, 'disk1', 'site1'), place(0.01, 'disk2', 'site1')];
    expect(expectLoss(site, day)).toEqual({
      annualLoss: expect.closeTo(0.01, 12),
      groups: [[0, 1]],
    });
    const chain = [place(0.03, 'a'), place(0.02, 'b'), place(0.01, 'b', 'a')];
    expect(expectLoss(chain, day)).toMatchObject({ groups: [[0, 1, 2]] });
    const apart = [...site, place(0.01, 'lyon')];
    expect(expectLoss(apart, day)).toMatchObject({ groups: [[0, 1], [2]] });
  });

  test('is not said where too little is declared', () => {
    expect(expectLoss([place(0.1, 'a'), place(null, 'b')], day)).toEqual({
      ...{ unknown: 'annualLoss', index: 1 },
    });
    expect(expectLoss([place(0.1, 'a'), place(0.1)], day)).toEqual({
      ...{ unknown: 'domains', index: 1 },
    });
  });

  test.each([
    [0, 'none'],
    [1, '1 in 1'],
    [0.4, '1 in 2.5'],
    [0.03, '1 in 33'],
    [0.001, '1 in 1,000'],
    [1e-7, '1 in 10⁷'],
    [5.476e-9, '1 in 1.8 × 10⁸'],
    [1e-12, '1 in 10¹²'],
  ])('of %s is written as %s', (share, words) => expect(shareInWords(share)).toBe(words));
});

const definition: ClassDefinition = {
  aliases: ['ONEZONE_IA'],
  durability: { legs: [{ store: 'near' }, { store: 'far' }], ack: 1, repairHours: 24 },
  availability: { answer: 'any', maxOfflineHoursPerMonth: 168 },
  access: 'online',
  restoreWithinHours: null,
  loss: 'report',
  minimum: { days: 30, bytes: 4096 },
};

function leg(store: string, more: Partial<ShownLeg> = {}): ShownLeg {
  const declared = { annualLoss: 0.001, kind: 'online', storageClass: null } as const;
  return { store, ...declared, domains: [store], usdPerGbMonth: '0.023', ...more };
}

test('a class is explained in words', () => {
  const far = leg('far', { storageClass: 'STANDARD_IA', usdPerGbMonth: '0.0125' });
  const { sentences, expectedAnnualLoss } = explainClass(definition, [leg('near'), far]);
  expect(sentences).toEqual([
    '2 copies: near (near); far (far).',
    'A write is acknowledged when 1 of 2 is durable; the rest follows.',
    'Expected loss: 1 in 1.8 × 10⁸ objects a year if near loses 1 in 1,000, far loses 1 in 1,000 ' +
      'a year and repair takes a day, as declared, not as measured.',
    'It may be unavailable 7 days a month. The fastest copy answers.',
    'It is read at once.',
    'An object that is lost is reported, and is gone.',
    'A GB and month: near costs $0.023; far as STANDARD_IA costs $0.0125.',
    'An object is charged for 30 days at least.',
    'An object is charged as 4096 bytes at least.',
  ]);
  expect(expectedAnnualLoss).toBeCloseTo(5.48e-9, 10);
});

test('what an archive of S3 among several copies is for is said', () => {
  const far = leg('far', { kind: 'archive', storageClass: 'GLACIER' });
  const online = explainClass(definition, [leg('near'), far]).sentences.join(' ');
  expect(online).toContain('No request is answered from far. A copy that is lost is made again');
  const restored = { ...definition, access: 'restore', restoreWithinHours: 12 } as const;
  const near = leg('near', { kind: 'archive', storageClass: 'GLACIER' });
  const { sentences } = explainClass(restored, [near, far]);
  expect(sentences).toContain(
    'A restore asks one of near and far for an object, and another where that has lost it.',
  );
});

test('of a store that declares nothing, nothing is made up', () => {
  const { sentences, expectedAnnualLoss } = explainClass(
    { ...definition, durability: { legs: [{ store: 'near' }], ack: 1, repairHours: 24 } },
    [leg('near', { annualLoss: null, domains: [], usdPerGbMonth: null })],
  );
  expect(expectedAnnualLoss).toBeNull();
  expect(sentences[0]).toBe('One copy, in near.');
  expect(sentences).toContain('The expected loss cannot be said: near declares no annual loss.');
  expect(sentences).toContain('A GB and month: near has no price now.');
});

describe('a definition', () => {
  test('is read as it was written', () => {
    expect(decodeDefinition(encodeDefinition(definition))).toEqual(definition);
    expect(findMisfit(definition)).toBeNull();
  });

  const odd = (change: object) => JSON.stringify({ ...definition, ...change });
  test.each([
    ['no JSON', '{'],
    ['null', 'null'],
    ['no legs', odd({ durability: { legs: [], ack: 1, repairHours: 1 } })],
    ['legs that are none', odd({ durability: { legs: [1], ack: 1, repairHours: 1 } })],
    ['more to acknowledge than legs', odd({ durability: { ...definition.durability, ack: 3 } })],
    ['nobody to acknowledge', odd({ durability: { ...definition.durability, ack: 0 } })],
    ['one store twice', odd({ durability: { ...definition.durability, legs: [1, 2].map(twice) } })],
    ['an alias that is none', odd({ aliases: ['STANDARD'] })],
    ['an alias twice', odd({ aliases: ['GLACIER', 'GLACIER'] })],
    ['another access', odd({ access: 'later' })],
    ['a restore of what is online', odd({ restoreWithinHours: 12 })],
    ['a restore without an end', odd({ access: 'restore' })],
    [
      'more hours than a month has',
      odd({ availability: { answer: 'any', maxOfflineHoursPerMonth: 745 } }),
    ],
    ['a minimum below zero', odd({ minimum: { days: -1, bytes: 0 } })],
    ['a number as text', odd({ minimum: { days: '1', bytes: 0 } })],
  ])('is not taken with %s', (_, text) => expect(decodeDefinition(text)).toBeNull());
});

function twice(): object {
  return { store: 'near' };
}
