// What the ledger's batches took: how many requests share one, how long a transaction is, and how
// long its commit, which is the one fsync of all of them. Invariant: numbers only, told along with
// the answers of a batch, so that measuring sends no message and waits for nothing.
import { Histogram } from './histogram.ts';

/**
 * Seconds: a fsync takes 20 microseconds on a disk with a battery, and a second on one in trouble.
 */
const secondsBounds = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
const requestsBounds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000];

export class LedgerMeter {
  readonly batchRequests = new Histogram(requestsBounds);
  /** Of the whole batch. */
  readonly batchSeconds = new Histogram(secondsBounds);
  /** Of that, to make it durable. */
  readonly commitSeconds = new Histogram(secondsBounds);
  /** The time from the beginning of a batch until the log is signed as the batch left it. */
  readonly signedSeconds = new Histogram(secondsBounds);
}
