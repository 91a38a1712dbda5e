// Listings as servers, and those in between, may give them: whatever is taken for a page is one of
// the place that was asked for, in order, and tells whether there is more.
import { describe, expect, it } from 'vitest';
import { AttemptFailure } from '#bursar/tiering/stores/attempt-failure.js';
import { type AskedPage, readPage } from '#bursar/tiering/stores/s3/list-page.js';
import { randomBelow, randomOf, seededRandom } from './seeded-random.ts';

const base = 'pre/';
const names = ['a', 'b', 'c', 'journal/', 'journal/1', 'journal/2', '\u{10000}', '\uffff', ''];

describe('pages of listings', () => {
  it.each([1, 2, 3])('are as asked, or refused (seed %s)', (seed) => {
    const random = seededRandom(seed);
    const pick = <T>(items: readonly T[]): T => randomOf(random, items);
    const maybe = <T>(value: T): T | undefined => (randomBelow(random, 8) ? value : undefined);
    let taken = 0;
    for (let i = 0; i < 3000; i++) {
      const keys = Array.from({ length: randomBelow(random, 4) }, () => pick(names));
      if (randomBelow(random, 2) === 0) keys.sort();
      const contents = keys.map((key) => ({
        Key: maybe(pick([base, base, base, 'other/']) + key),
        Size: pick([0, 1, 1, 1, -1, Number.NaN, 1.5, undefined]),
      }));
      const asked: AskedPage = {
        bucket: 'bucket',
        base,
        prefix: pick(['', '', 'journal/']),
        after: pick([undefined, undefined, 'b']),
        token: pick([undefined, 't']),
        emptyPages: pick([undefined, 999, 1000]),
      };
      const page = {
        $metadata: {},
        Name: pick(['bucket', 'bucket', 'bucket', 'other', undefined]),
        Prefix: pick([base + asked.prefix, base, undefined]),
        KeyCount: pick([undefined, contents.length, 2]),
        IsTruncated: pick([true, false, false, undefined]),
        NextContinuationToken: pick(['t', 'u', undefined]),
        Contents: maybe(contents),
      };
      try {
        const { objects, next } = readPage(page, asked);
        taken++;
        expect(page.Name).toBe('bucket');
        expect(objects).toHaveLength(page.Contents?.length ?? 0);
        const ours = objects.map(({ name }) => name).filter((name) => /^[a-z0-9/]+$/.test(name));
        expect(ours).toEqual([...new Set(ours)].sort());
        for (const { name, sizeBytes } of objects) {
          expect(name.startsWith(asked.prefix)).toBe(true);
          expect(name).not.toBe(asked.after);
          expect(sizeBytes).toBeGreaterThanOrEqual(0);
        }
        if (page.IsTruncated === false) expect(next).toBeNull();
        else expect(next?.token).not.toBe(asked.token);
      } catch (error) {
        if (!(error instanceof AttemptFailure)) throw error;
      }
    }
    expect(taken).toBeGreaterThan(50);
  });
});
