// Texts that may be queries: each is one, or is refused in words, in bounded time; and what is one
// can be planned and evaluated.
import { expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { Facts, fits } from '#bursar/search/facts.js';
import { planOf, runsOf, spanOf } from '#bursar/search/plan.js';
import { parseQuery, queryLengthMax } from '#bursar/search/query.js';
import { nowMs, randomText, randomVersion } from '../search/random-queries.ts';
import { fuzz, fuzzMs, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

const base = fuzzMs > 0 ? Date.now() % 1e9 : 109;
const pieces = [
  ...['and', 'or', 'not', 'in', 'like', 'exists', '(', ')', ',', '=', '!=', '<', '<=', '>', '>='],
  ...['size', 'key', 'modified', 'tag.', 'meta.', 'tag."', 'meta.run', '"', '\\', '"a"', '1', '-'],
  ...['30d', '1GB', '1e400', '2026-02-30', '2026-01-01T00:00:00Z', '\u0000', '\ud800', '*', '\n'],
  ...['9'.repeat(50), '('.repeat(40), 'not '.repeat(40), 'ß', '\u{1f52d}', "'", ';', '--'],
];

it('is a query or refused', { timeout: fuzzTimeoutMs }, async () => {
  await fuzz(base, 4000, (random) => {
    let text = randomBelow(random, 3) === 0 ? randomText(random) : '';
    for (let i = randomBelow(random, 30); i > 0; i--) {
      const at = randomBelow(random, text.length + 1);
      const piece = randomOf(random, pieces);
      const cut = randomBelow(random, 4) === 0 ? 1 + randomBelow(random, 5) : 0;
      text = `${text.slice(0, at)} ${piece} ${text.slice(at + cut)}`;
    }
    try {
      const query = parseQuery(text, nowMs);
      expect(text.length).toBeLessThanOrEqual(queryLengthMax);
      expect(typeof fits(query, new Facts(randomVersion(random, 'k1')))).toBe('boolean');
      const count = () => randomBelow(random, 100_000);
      planOf(query, { isIndexed: () => randomBelow(random, 5) > 0, count });
      expect(runsOf(query).length).toBeLessThanOrEqual(64);
      spanOf(query);
    } catch (error) {
      expect(error, text).toBeInstanceOf(Refusal);
    }
  });
});
