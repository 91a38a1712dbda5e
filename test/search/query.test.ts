// The language of queries: what means what, and what is refused where.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { Facts, fits, isLike } from '#bursar/search/facts.js';
import { parseQuery } from '#bursar/search/query.js';

const nowMs = Date.UTC(2026, 10, 27);
const version = {
  ...{ key: 'run7/a.root', sizeBytes: 2_000_000_000, etag: 'abc', sha256: null },
  ...{ class: 'STANDARD', owner: 'alice', createdMs: Date.UTC(2026, 10, 20) },
  attributes: JSON.stringify({
    headers: { 'content-type': 'application/x-root' },
    metadata: { run: '1042', taken: '2026-11-01T12:00:00+02:00', note: 'say "hi"', temp: '-3.5e1' },
    tags: [
      ['detector', 'CMS'],
      ['my name', 'x'],
    ],
  }),
};
const holds = (text: string) => fits(parseQuery(text, nowMs), new Facts(version));

describe('a query', () => {
  it.each([
    'meta.run >= 1000 and tag.detector = "CMS" and size > 1GB and modified < 30d',
    'meta.run = 1042.0',
    'META.run = 1 or meta.RUN in (1, 1042)'.replace('META', 'meta'),
    'meta.temp < 0 and meta.temp = -35',
    'meta.taken = 2026-11-01T10:00:00Z',
    'meta.taken > 2026-11-01 and meta.taken < 2026-11-02',
    'size = 2GB and size < 2GiB and size >= 2e9',
    'key like "run7/*.root" and key like "run?/?.root"',
    'type = "application/x-root"',
    'tag."my name" = "x"',
    'meta.note = "say \\"hi\\""',
    'NOT size < 1 AND (class = "GLACIER" OR owner = "alice")',
    'sha256 exists or etag exists',
    'not meta.gone exists and not meta.gone != 5',
    'modified > 6d and modified >= 2026-11-20 and modified <= 2026-11-20T00:00:00Z',
    'meta.run < "11"',
  ])('holds: %s', (text) => expect(holds(text)).toBe(true));

  it.each([
    'meta.run > 1042',
    'meta.run = "1042.0"',
    'meta.gone != 5',
    // What is no number is none that differs.
    'meta.note != 5',
    'tag.detector = "cms"',
    'modified < 6d',
    'key like "run7/?.roo"',
    'sha256 = "ab"',
    'size = 1 and size = 2000000000 or size = 2',
  ])('does not hold: %s', (text) => expect(holds(text)).toBe(false));

  it.each([
    ['', 1],
    ['size', 5],
    ['size >', 7],
    ['size > "1"', 8],
    ['size > 1XB', 8],
    ['size > 1GB and', 15],
    ['size > 1GB size > 2', 12],
    ['(size > 1', 1],
    ['size > 1)', 9],
    ['nothing = 1', 1],
    ['meta. = 1', 6],
    ['key = 5', 7],
    ['meta.a = "b', 10],
    ['meta.a = "b\\n"', 13],
    ['modified < 2026-02-30', 12],
    ['modified = 5', 12],
    ['size in ()', 10],
    ['size in (1', 9],
    ['tag.a like 5', 12],
    ['size = 1 ; drop', 10],
    ['size = 1e999', 8],
    [`size = ${'9'.repeat(40)}`, 8],
    [`${'('.repeat(20)}size = 1${')'.repeat(20)}`, 18],
    [`${'not '.repeat(5000)}size = 1`, 4097],
    [Array.from({ length: 70 }, () => 'size=1').join(' or '), 646],
  ])('is refused where it cannot be read: %s', (text, at) => {
    let refusal: unknown;
    try {
      parseQuery(text, nowMs);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(Refusal);
    const { code, message } = refusal as Refusal;
    expect(code).toBe('InvalidInput');
    expect(message).toContain(`at character ${at}:`);
  });

  it('takes a time that patterns cannot make long', () => {
    expect(isLike('a'.repeat(5000), `${'a*'.repeat(40)}b`)).toBe(false);
    expect(isLike('', '***')).toBe(true);
    expect(isLike('\u{1f52d}', '?')).toBe(true);
  });
});
