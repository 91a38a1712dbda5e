// What an HTTP thread has in common with the others, so that together they are one gateway. With
// one thread there is the same, and nobody else.
import type { LeaseSource } from '../../quota/leases/lease-holder.ts';
import { makeRateTable } from '../../quota/rate-table.ts';

/** Memory of all threads. */
export interface SharedMemory {
  /** What is left of rates. */
  rates: SharedArrayBuffer;
}

export interface ThreadLinks {
  /** The number of the thread: 0 is the main one. */
  thread: number;
  shared: SharedMemory;
  /** Has the other threads give up what they have free of limits. */
  recall: NonNullable<LeaseSource['recall']>;
}

export function makeSharedMemory(): SharedMemory {
  return { rates: makeRateTable() };
}
