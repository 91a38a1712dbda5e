// What all threads see of each store over a network at once: words of memory that they share, by
// the store's number.
import { breakerWords } from '../../tiering/stores/breaker.ts';

/** Manifests have a byte for the number. */
const numbers = 256;
const journalAt = breakerWords;
const wordsPerStore = breakerWords + 1;

export interface StoreWords {
  breaker: Int32Array;
  /** What its journal refuses. */
  refusals: Int32Array;
}

export function makeStoreWords(): SharedArrayBuffer {
  return new SharedArrayBuffer(numbers * wordsPerStore * Int32Array.BYTES_PER_ELEMENT);
}

export function storeWordsOf(memory: SharedArrayBuffer, store: number): StoreWords {
  const begin = store * wordsPerStore;
  const words = new Int32Array(memory).subarray(begin, begin + wordsPerStore);
  return { breaker: words.subarray(0, breakerWords), refusals: words.subarray(journalAt) };
}
