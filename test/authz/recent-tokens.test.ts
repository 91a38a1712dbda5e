// What was verified before: how often that was of use.
import { expect, it } from 'vitest';
import { RecentTokens } from '#bursar/authz/recent-tokens.js';

it('counts what it gave, and what was verified for it', () => {
  const recent = new RecentTokens<{ goodUntilMs: number }>({ index: 0 });
  expect(recent.find('one', 0)).toBeUndefined();
  recent.keep('one', { goodUntilMs: 10 }, recent.asOf);
  expect(recent.find('one', 5)).toBeDefined();
  // Too late for it: it is verified anew.
  expect(recent.find('one', 10)).toBeUndefined();
  expect([recent.hits, recent.misses, recent.entries]).toEqual([1, 1, 1]);
  recent.clear(1);
  expect([recent.hits, recent.misses, recent.entries]).toEqual([1, 1, 0]);
});
