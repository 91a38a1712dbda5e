// The bound on memory for object data.
import { expect, it } from 'vitest';
import { BufferPool, type ChunkBuffer, viewSlot } from '#bursar/tiering/buffer-pool.js';
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

const alice = { tenant: 'cms', principal: 'cms/alice' };
const bob = { tenant: 'atlas', principal: 'atlas/bob' };
const dora = { tenant: 'cms', principal: 'cms/dora' };

/** A pool of so many slots, all of which are alice's. */
function makeAlices(slots: number) {
  const pool = new BufferPool({ bytesMax: slots * 260 * 1024, loanMsMin: 0 });
  const held: ChunkBuffer[] = [];
  for (let b = pool.tryAcquire(alice); b; b = pool.tryAcquire(alice)) held.push(b);
  expect(held).toHaveLength(slots);
  return { pool, held };
}

it('gives a free slot to the tenant that has fewest, then to the principal', async () => {
  const { pool, held } = makeAlices(3);
  const order: string[] = [];
  const wait = async (party: typeof alice) => {
    const buffer = await pool.acquire(party);
    order.push(party.principal);
    return buffer;
  };
  const waits = [alice, alice, dora, bob].map(wait);
  for (const buffer of held) pool.release(buffer);
  const granted = await Promise.all(waits.slice(2));
  // One each: then alice has none either, and has waited longest.
  expect(order).toEqual(['atlas/bob', 'cms/dora', 'cms/alice']);
  for (const buffer of granted) pool.release(buffer);
  for (const buffer of await Promise.all(waits.slice(0, 2))) pool.release(buffer);
  expect(pool.inUse).toBe(0);
});

it('calls back what is lent to who has most, for who has fewer, not as many', async () => {
  const { pool, held } = makeAlices(3);
  for (const buffer of held) pool.lend(buffer, () => pool.release(buffer), true);
  const others = await Promise.all([pool.acquire(bob), pool.acquire(alice)]);
  expect(pool.inUse).toBe(3);
  for (const buffer of others) pool.release(buffer);
});

it('keeps the last slots from read-ahead', () => {
  const pool = new BufferPool({ bytesMax: 16 * 260 * 1024 });
  let ahead = 0;
  while (pool.tryAcquire(alice, true)) ahead++;
  expect([pool.slots, ahead]).toEqual([16, 14]);
  expect(pool.tryAcquire(bob)).not.toBeNull();
});
