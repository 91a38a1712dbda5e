// The window of transfers under way: it grows while that brings something, and comes back.
import { expect, it } from 'vitest';
import { AdaptiveWindow } from '#bursar/tiering/adaptive-window.js';

/** Sends transfers through a store whose throughput depends on how many are under way. */
function send(
  rateOf: (size: number) => number,
  options: { first: number; max: number; transfers: number; isLimit?: boolean },
): number[] {
  let nowMs = 0;
  const window = new AdaptiveWindow({ ...options, clock: () => nowMs });
  const sizes: number[] = [];
  for (let i = 0; i < options.transfers; i++) {
    if (options.isLimit ?? true) window.limit();
    nowMs += 1000 / rateOf(window.size);
    window.passed(1000);
    sizes.push(window.size);
  }
  return sizes;
}

it('grows while throughput grows with it, and stays at its bound', () => {
  const sizes = send((size) => size, { first: 4, max: 8, transfers: 200 });
  expect(sizes[0]).toBe(4);
  expect(sizes.at(-1)).toBe(8);
  expect(Math.max(...sizes)).toBe(8);
  expect(sizes).toEqual([...sizes].sort());
});

it('comes back to where more brought nothing', () => {
  const sizes = send((size) => Math.min(size, 6), { first: 4, max: 16, transfers: 2000 });
  const most = sizes.slice(200).filter((size) => size === 6).length;
  expect(most).toBeGreaterThan(1200);
  expect(Math.max(...sizes)).toBe(7);
  expect(Math.min(...sizes)).toBe(4);
});

it('never shrinks below where it began', () => {
  const sizes = send((size) => 1 / size, { first: 4, max: 8, transfers: 1000 });
  expect(Math.min(...sizes)).toBe(4);
  expect(Math.max(...sizes)).toBe(5);
});

it('stays when something else holds the stream back', () => {
  const sizes = send((size) => size, { first: 4, max: 8, transfers: 200, isLimit: false });
  expect(new Set(sizes)).toEqual(new Set([4]));
});
