// The bound on memory for object data.
import { expect, it } from 'vitest';
import { BufferPool, viewSlot } from '#bursar/tiering/buffer-pool.js';
import { C, MiB } from './rig.ts';

it('gives no more bytes than its bound', () => {
  const pool = new BufferPool({ bytesMax: 2 * MiB });
  const held = [];
  for (let buffer = pool.tryAcquire(); buffer; buffer = pool.tryAcquire()) held.push(buffer);
  expect(held).toHaveLength(7);
  expect(pool.arena.byteLength).toBeLessThanOrEqual(2 * MiB);
  expect(pool.inUse).toBe(7);
});

it('slots do not overlap, and other threads see the same bytes by number', () => {
  const pool = new BufferPool({ bytesMax: 1 * MiB });
  const a = pool.tryAcquire();
  const b = pool.tryAcquire();
  if (!a || !b) throw new Error('no slots');
  a.bytes.fill(1);
  b.bytes.fill(2);
  expect(a.bytes.length).toBe(C + 32);
  expect(viewSlot(pool.arena, a.slot).every((byte) => byte === 1)).toBe(true);
  expect(viewSlot(pool.arena, b.slot).every((byte) => byte === 2)).toBe(true);
});

it('who waits longest is served first, and nobody overtakes', async () => {
  const pool = new BufferPool({ bytesMax: 300 * 1024 });
  const first = await pool.acquire();
  const order: number[] = [];
  const waits = [1, 2, 3].map(async (n) => {
    const buffer = await pool.acquire();
    order.push(n);
    expect(pool.tryAcquire()).toBeNull();
    pool.release(buffer);
  });
  expect(pool.waiting).toBe(3);
  pool.release(first);
  await Promise.all(waits);
  expect(order).toEqual([1, 2, 3]);
  expect(pool.inUse).toBe(0);
});

it('who waits too long is told to slow down, and leaves the queue', async () => {
  const pool = new BufferPool({ bytesMax: 300 * 1024, waitMsMax: 1 });
  const held = await pool.acquire();
  await expect(pool.acquire()).rejects.toMatchObject({ code: 'SlowDown' });
  expect(pool.waiting).toBe(0);
  pool.release(held);
  expect(pool.inUse).toBe(0);
});

it('a slot given back twice is a bug that shows', async () => {
  const pool = new BufferPool({ bytesMax: 300 * 1024 });
  const buffer = await pool.acquire();
  pool.release(buffer);
  expect(() => pool.release(buffer)).toThrow('released twice');
});

it('a slot that comes back is used before a fresh one', async () => {
  const pool = new BufferPool({ bytesMax: 4 * MiB });
  const buffer = await pool.acquire();
  pool.release(buffer);
  expect(await pool.acquire()).toBe(buffer);
});
