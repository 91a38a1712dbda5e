import { expect, it } from 'vitest';
import { newExtentId } from '#bursar/core/ids.js';
import { ReadLeases } from '#bursar/tiering/read-leases.js';

const run = (id: Buffer) => ({
  id,
  store: 1,
  algorithm: 2,
  epoch: 1,
  extentBytes: 10,
  offset: 0,
  length: 10,
  trailerBytes: 0,
});

it('an extent is held until its last reader is done', () => {
  const leases = new ReadLeases();
  const [a, b] = [newExtentId(), newExtentId()];
  const first = leases.hold([run(a), run(b)]);
  const second = leases.hold([run(a)]);
  first();
  expect([leases.isHeld(a), leases.isHeld(b)]).toEqual([true, false]);
  second();
  expect(leases.isHeld(a)).toBe(false);
});

it('releasing twice frees nobody else', () => {
  const leases = new ReadLeases();
  const id = newExtentId();
  const first = leases.hold([run(id)]);
  leases.hold([run(id)]);
  first();
  first();
  expect(leases.isHeld(Buffer.from(id))).toBe(true);
});

it('an extent named twice by one object is held and released as one', () => {
  const leases = new ReadLeases();
  const id = newExtentId();
  const release = leases.hold([run(id), run(id)]);
  expect(leases.isHeld(id)).toBe(true);
  release();
  expect(leases.isHeld(id)).toBe(false);
});
