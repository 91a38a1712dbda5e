// What is discarded: the memory of bytes that lie in it alone.
import { expect, it } from 'vitest';
import { discard } from '#bursar/core/spent-bytes.js';

it('frees bytes that have their memory to themselves', () => {
  const bytes = Buffer.alloc(65_536, 1);
  discard(bytes);
  expect(bytes.length).toBe(0);
});

it.each([
  ['of which others have a part', () => Buffer.alloc(65_536, 1).subarray(1)],
  ['that threads share', () => Buffer.from(new SharedArrayBuffer(65_536)).fill(1)],
  ['that are few', () => Buffer.alloc(4095, 1)],
  ['of the pool', () => Buffer.from('x'.repeat(4000))],
  ['that were freed before', () => Buffer.alloc(0)],
])('leaves alone bytes %s', (_, make) => {
  const bytes = make();
  const before = Buffer.from(bytes);
  discard(bytes);
  expect(bytes.equals(before)).toBe(true);
});
