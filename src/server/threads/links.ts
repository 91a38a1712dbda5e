// What an HTTP thread has in common with the others, so that together they are one gateway. With
// one thread there is the same, and nobody else.

import { SharedCount } from '../../core/shared-count.ts';
import type { LeaseSource } from '../../quota/leases/lease-holder.ts';
import { makeRateTable } from '../../quota/rate-table.ts';
import { MadeFolders } from '../../tiering/stores/made-folders.ts';
import { makeStoreWords } from './store-words.ts';

/** Memory of all threads. */
export interface SharedMemory {
  /** What is left of rates. */
  rates: SharedArrayBuffer;
  /** What has come of bodies that the disk has promised room: a `SharedCount`. */
  cameBytes: SharedArrayBuffer;
  /** Folders of the local store that were made: `MadeFolders`. */
  madeFolders: SharedArrayBuffer;
  /** What is known of stores over a network: store-words.ts. */
  storeWords: SharedArrayBuffer;
}

export interface ThreadLinks {
  /** The number of the thread: 0 is the main one. */
  thread: number;
  /** How many threads there are. */
  count: number;
  shared: SharedMemory;
  /** Has the other threads give up what they have free of limits. */
  recall: NonNullable<LeaseSource['recall']>;
}

export function makeSharedMemory(): SharedMemory {
  return {
    rates: makeRateTable(),
    cameBytes: SharedCount.sharedMemory(),
    madeFolders: MadeFolders.sharedMemory(),
    storeWords: makeStoreWords(),
  };
}
