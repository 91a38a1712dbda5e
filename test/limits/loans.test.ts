// Buffers on loan to slow clients: nobody is cut while there is room, and nobody is kept out by
// them.
import { expect, it, vi } from 'vitest';
import { BufferPool, type ChunkBuffer } from '#bursar/tiering/buffer-pool.js';
import { KiB } from '../fault/content.ts';

vi.setConfig({ testTimeout: 30_000 });

/** A pool whose slots are all taken. */
async function makeFullPool(slots: number): Promise<{ pool: BufferPool; held: ChunkBuffer[] }> {
  const pool = new BufferPool({ bytesMax: slots * 260 * KiB, loanMsMin: 0 });
  const held: ChunkBuffer[] = [];
  for (let buffer = pool.tryAcquire(); buffer; buffer = pool.tryAcquire()) held.push(buffer);
  expect(held).toHaveLength(slots);
  return { pool, held };
}

it('calls back the oldest loan for a stream that waits, and no more than are wanted', async () => {
  const { pool, held } = await makeFullPool(3);
  const recalled: number[] = [];
  for (const buffer of held) {
    pool.lend(buffer, () => {
      recalled.push(buffer.slot);
      pool.release(buffer);
    });
  }
  const granted = await pool.acquire();
  expect(recalled).toEqual([held[0]?.slot]);
  expect(granted.slot).toBe(held[0]?.slot);
});

it('never calls back a buffer that its owner keeps', async () => {
  const { pool, held } = await makeFullPool(2);
  const [kept, lent] = held as [ChunkBuffer, ChunkBuffer];
  pool.lend(kept, () => {
    throw new Error('a kept buffer was called back');
  });
  pool.keep(kept);
  pool.lend(lent, () => pool.release(lent));
  expect((await pool.acquire()).slot).toBe(lent.slot);
});

it('does not call back another loan while one that was called back is still to come', async () => {
  const { pool, held } = await makeFullPool(2);
  const recalled: ChunkBuffer[] = [];
  for (const buffer of held) pool.lend(buffer, () => recalled.push(buffer));
  const waiting = pool.acquire();
  // Long enough for several rounds.
  await new Promise((resolve) => setTimeout(resolve, 4000));
  expect(recalled).toHaveLength(1);
  pool.release(recalled[0] as ChunkBuffer);
  await waiting;
});
