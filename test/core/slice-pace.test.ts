// How many rows background work takes at a time, by how long the slices before took.
import { describe, expect, it } from 'vitest';
import { SlicePace } from '#bursar/core/slice-pace.js';

describe('a pace of slices', () => {
  it('takes less where a slice took long, and at least one row', () => {
    const pace = new SlicePace({ first: 8, most: 32, longMs: 4 });
    const taken = [5, 4.1, 100, 9, 9].map((ms) => {
      pace.note(ms);
      return pace.rows;
    });
    expect(taken).toEqual([4, 2, 1, 1, 1]);
  });

  it('takes more where slices are short, up to its most', () => {
    const pace = new SlicePace({ first: 8, most: 10, longMs: 4 });
    const taken = [1, 3, 1.9, 0.1].map((ms) => {
      pace.note(ms);
      return pace.rows;
    });
    expect(taken).toEqual([9, 9, 10, 10]);
  });
});
