// A number that threads take from at once.
import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { SharedCount } from '#bursar/core/shared-count.js';

it('gives what there is, and no more', () => {
  const count = new SharedCount();
  count.add(100);
  expect([count.take(60), count.take(60), count.take(60)]).toEqual([60, 40, 0]);
  count.add(2 ** 45);
  expect([count.value, count.take(1)]).toEqual([2 ** 45, 1]);
});

it('is shared by threads, which together take what was added', async () => {
  const [threads, taken] = [3, 100_000];
  const memory = SharedCount.sharedMemory();
  const gate = new SharedArrayBuffer(4);
  const workerData = { memory, gate, threads, taken };
  const script = join(import.meta.dirname, 'count-hammer.mjs');
  const workers = Array.from({ length: threads }, () => new Worker(script, { workerData }));
  const counts = await Promise.all(workers.map((worker) => once(worker, 'message')));
  const sum = counts.reduce((all, [one]) => all + one, 0);
  expect(sum + new SharedCount(memory).value).toBe(threads * taken);
});
