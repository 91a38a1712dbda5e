// Random objects and random queries about them.
import type { Described } from '#bursar/search/facts.js';
import { parseQuery, type Query } from '#bursar/search/query.js';
import { randomBelow, randomOf } from '../fuzz/seeded-random.ts';

type Random = () => number;

export const detectors = ['CMS', 'ATLAS', 'LHCb', 'ALICE', 'zoë \u{1f52d}'];
const dates = ['2026-01-31', '2026-02-01T00:00:00Z', '2026-02-30', 'soon'];
const runs = ['1', '2', '10', '1e1', '-3.5', '007', 'x', ''];

/** What a key has, so that much of it is equal to that of others. */
export function randomVersion(random: Random, key: string): Described {
  const metadata: Record<string, string> = {};
  if (randomBelow(random, 3) > 0) metadata.run = randomOf(random, runs);
  if (randomBelow(random, 3) > 0) metadata.taken = randomOf(random, dates);
  // Longer than what is indexed of a value.
  if (randomBelow(random, 4) === 0) metadata.note = 'n'.repeat(120 + randomBelow(random, 20));
  const tags = randomBelow(random, 4) > 0 ? [['detector', randomOf(random, detectors)]] : [];
  return {
    ...{ key, sizeBytes: randomBelow(random, 20), etag: `e${randomBelow(random, 5)}` },
    ...{ sha256: null, class: randomOf(random, ['STANDARD', 'GLACIER']), owner: 'alice' },
    createdMs: Date.UTC(2026, 0, 1 + randomBelow(random, 60)),
    attributes: JSON.stringify({ headers: { 'content-type': 'text/plain' }, metadata, tags }),
  };
}

const comparisons: ((random: Random) => string)[] = [
  (random) => `tag.detector = "${randomOf(random, detectors)}"`,
  (random) => `tag.detector like "${randomOf(random, ['A*', '*S', 'C?S', '*', 'zo*'])}"`,
  (random) => `meta.run ${orderOf(random)} ${randomOf(random, ['1', '10', '-3.5', '7'])}`,
  (random) => `meta.run ${orderOf(random)} "${randomOf(random, runs)}"`,
  (random) => `meta.taken ${orderOf(random)} 2026-02-01`,
  (random) => `meta.note ${orderOf(random)} "${'n'.repeat(118 + randomBelow(random, 24))}"`,
  (random) => `size ${orderOf(random)} ${randomBelow(random, 20)}`,
  (random) => `modified ${orderOf(random)} ${randomBelow(random, 60)}d`,
  (random) => `key ${orderOf(random)} "k${randomBelow(random, 10)}"`,
  (random) => `key like "k${randomBelow(random, 10)}*"`,
  (random) => `class in ("GLACIER", "${randomOf(random, ['STANDARD', 'OTHER'])}")`,
  (random) => `${randomOf(random, ['meta.run', 'tag.detector', 'sha256', 'type'])} exists`,
  (random) => `etag = "e${randomBelow(random, 6)}"`,
];

function orderOf(random: Random): string {
  return randomOf(random, ['=', '!=', '<', '<=', '>', '>=']);
}

export function randomText(random: Random, depth = 0): string {
  const kind = depth > 3 ? 0 : randomBelow(random, 6);
  if (kind < 3) return randomOf(random, comparisons)(random);
  if (kind === 3) return `not ${randomText(random, depth + 1)}`;
  const word = kind === 4 ? ' and ' : ' or ';
  const parts = Array.from({ length: 2 + randomBelow(random, 2) }, () => {
    return randomText(random, depth + 1);
  });
  return `(${parts.join(word)})`;
}

export const nowMs = Date.UTC(2026, 2, 2);

/** undefined: it has more comparisons than a query may have. */
export function randomQuery(random: Random): { text: string; query: Query } | undefined {
  const text = randomText(random);
  try {
    return { text, query: parseQuery(text, nowMs) };
  } catch {
    return undefined;
  }
}
