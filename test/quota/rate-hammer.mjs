// A thread that takes of rates in shared memory as fast as it can; see rate-table.test.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { RateTable } from '#bursar/quota/rate-table.js';
import { Rates } from '#bursar/quota/rates.js';

const { memory, gate, threads, tries, pieceBytes, limits } = workerData;
const table = new RateTable(memory);
const rates = new Rates(table);
for (const [account, rate] of Object.entries(limits)) rates.setLimits(account, { rate });
const bytes = table.bucket(table.enter('a'), 'bytes', limits.a.bytes);

// All begin together.
const word = new Int32Array(gate);
Atomics.add(word, 0, 1);
while (Atomics.load(word, 0) < threads);

const beginNs = process.hrtime.bigint();
let [admitted, both, moved] = [0, 0, 0];
for (let i = 0; i < tries; i++) {
  if (rates.admit(['a']) === null) admitted += 1;
  if (typeof rates.queue(['b', 'slow'], 0) === 'number') both += 1;
  for (let j = 0; j < 5; j++) rates.queue(['owing'], 1e8);
  if (bytes.takeAhead(pieceBytes)) moved += pieceBytes;
}
parentPort.postMessage({ admitted, both, moved, beginNs, endNs: process.hrtime.bigint() });
