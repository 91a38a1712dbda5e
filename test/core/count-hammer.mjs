// A thread that adds to a shared count and takes from it as fast as it can; see
// shared-count.test.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { SharedCount } from '#bursar/core/shared-count.js';

const { memory, gate, threads, taken } = workerData;
const count = new SharedCount(memory);

// All begin together.
const word = new Int32Array(gate);
Atomics.add(word, 0, 1);
while (Atomics.load(word, 0) < threads);

let sum = 0;
for (let i = 0; i < taken; i++) {
  count.add(1);
  sum += count.take(i % 5);
}
parentPort.postMessage(sum);
