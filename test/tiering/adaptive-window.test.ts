// The window of transfers under way: it grows while that brings something, comes back, and leaves
// to the next stream what it found.
import { expect, it } from 'vitest';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { AdaptiveWindow } from '#bursar/tiering/adaptive-window.js';

/** One store, whose clock moves as its transfers do. */
class Store {
  nowMs = 0;
  readonly meter = new StoreMeter({ clock: () => this.nowMs });

  /**
   * Sends transfers in one stream, at a rate by how many are under way; gives the window's sizes.
   */
  send(
    rateOf: (size: number) => number,
    options: { min: number; max: number; transfers: number; isLimit?: boolean },
  ): number[] {
    const window = new AdaptiveWindow({ ...options, stream: this.meter.openStream('read') });
    const sizes: number[] = [];
    for (let i = 0; i < options.transfers; i++) {
      if (options.isLimit ?? true) window.limit();
      this.nowMs += 1000 / rateOf(window.size);
      window.passed(1000);
      sizes.push(window.size);
    }
    window.close();
    return sizes;
  }
}

it('grows while throughput grows with it, and stays at its bound', () => {
  const sizes = new Store().send((size) => size, { min: 4, max: 8, transfers: 200 });
  expect(sizes[0]).toBe(4);
  expect(sizes.at(-1)).toBe(8);
  expect(Math.max(...sizes)).toBe(8);
  expect(sizes).toEqual([...sizes].sort());
});

it('comes back to where more brought nothing', () => {
  const sizes = new Store().send((size) => Math.min(size, 6), {
    min: 4,
    max: 16,
    transfers: 2000,
  });
  const most = sizes.slice(200).filter((size) => size === 6).length;
  expect(most).toBeGreaterThan(1200);
  expect(Math.max(...sizes)).toBe(7);
  expect(Math.min(...sizes)).toBe(4);
});

it('never shrinks below its bound', () => {
  const sizes = new Store().send((size) => 1 / size, { min: 4, max: 8, transfers: 1000 });
  expect(Math.min(...sizes)).toBe(4);
  expect(Math.max(...sizes)).toBe(5);
});

it('stays when something else holds the stream back, and tells the next stream nothing', () => {
  const store = new Store();
  const options = { min: 4, max: 8, transfers: 200 };
  const sizes = store.send((size) => size, { ...options, isLimit: false });
  expect(new Set(sizes)).toEqual(new Set([4]));
  expect(store.meter.streams.read.current).toBeNull();
});

it('begins where the streams before it settled, each direction by itself', () => {
  const store = new Store();
  const options = { min: 4, max: 8, transfers: 400 };
  store.send((size) => Math.min(size, 6), options);
  expect(store.meter.streams.read.current).toBe(6);
  expect(store.send((size) => Math.min(size, 6), options)[0]).toBe(6);
  expect(store.meter.openStream('write').settledBefore).toBeNull();
});

it('comes down from where others were when the store has changed', () => {
  const store = new Store();
  const options = { min: 4, max: 8, transfers: 400 };
  store.send((size) => size, options);
  expect(store.meter.streams.read.current).toBe(8);
  const sizes = store.send((size) => Math.min(size, 5), options);
  expect(sizes[0]).toBe(8);
  expect(sizes.at(-1)).toBe(5);
});

it('does not come down by many losses that are small by themselves', () => {
  const store = new Store();
  const options = { min: 4, max: 8, transfers: 2000 };
  store.send((size) => size, options);
  const sizes = store.send((size) => 0.96 ** (8 - size), options);
  // One less may cost 4%, two less cost more than it may.
  expect(Math.min(...sizes)).toBe(6);
  expect(sizes.at(-1)).toBeGreaterThanOrEqual(7);
});
