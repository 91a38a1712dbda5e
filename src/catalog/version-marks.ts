// Tells every thread that reads whether what a key is now, or was at a snapshot, may have changed
// since it was read, at the price of one load from shared memory. The ledger's connection marks the
// keys of whose versions it writes the current one, or takes away or changes one that a snapshot
// holds, by triggers, so that no statement can forget it. Invariant: a word is odd from the first
// write to a row of one of its keys until that transaction has ended, and is another even number
// afterwards. So what was read while the word was even is the committed state for as long as the
// word is unchanged. Several keys share a word: that one of them changed costs the others a read.
import type { OpenDatabase } from '../core/database.ts';

/** A power of two. */
const wordCount = 65_536;

/** The words that threads share, all zero: nothing has changed yet. */
export function makeVersionMarks(): SharedArrayBuffer {
  return new SharedArrayBuffer(wordCount * Int32Array.BYTES_PER_ELEMENT);
}

/** Which word marks this key (FNV-1a over the bucket's id and the key's UTF-16 code units). */
function wordOf(bucketId: number, key: string): number {
  let hash = Math.imul(0x811c9dc5 ^ bucketId, 0x01000193);
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 16)) & (wordCount - 1);
}

/** The ledger's end: marks what its connection writes. */
export class VersionMarker {
  readonly #words: Int32Array;
  /** Those that the transaction has made odd. */
  readonly #odd = new Set<number>();

  constructor(db: OpenDatabase, marks: SharedArrayBuffer) {
    this.#words = new Int32Array(marks);
    db.define('bursar_mark_version', (bucketId, key) => {
      const word = wordOf(bucketId as number, key as string);
      if (this.#odd.has(word)) return null;
      this.#odd.add(word);
      Atomics.add(this.#words, word, 1);
      return null;
    });
    // A row that another takes the place of is deleted, which has to be seen.
    db.exec(`PRAGMA recursive_triggers = ON; ${triggers}`);
  }

  /** After each COMMIT, before anybody is answered, and after each ROLLBACK. */
  settle(): void {
    for (const word of this.#odd) Atomics.add(this.#words, word, 1);
    this.#odd.clear();
  }
}

/**
 * What a key was at a living snapshot does not change when a version ends or is changed, since that
 * or an image of it is held; so it changes with the held rows alone, and not by one that is added.
 */
const triggers = [
  ['versions', 'INSERT', 'NEW'],
  ['versions', 'DELETE', 'OLD'],
  ['versions', 'UPDATE', 'OLD'],
  // One that moves into another class is the same, but for where and how it can be read.
  ['noncurrent_versions', 'UPDATE', 'OLD'],
  ['held_versions', 'DELETE', 'OLD'],
  ['held_versions', 'UPDATE', 'OLD'],
]
  .map(
    ([table, event, row]) => `CREATE TEMP TRIGGER mark_${table}_${event} AFTER ${event}
      ON main.${table} BEGIN SELECT bursar_mark_version(${row}.bucket_id, ${row}.key); END;`,
  )
  .join('\n');

/** When something was read, in the terms of the marks. */
export interface Mark {
  word: number;
  value: number;
}

/** The readers' end. */
export class VersionMarks {
  readonly #words: Int32Array;

  constructor(marks: SharedArrayBuffer) {
    this.#words = new Int32Array(marks);
  }

  /** To be taken before the key is read. Null: it is being written, so that nothing can be kept. */
  take(bucketId: number, key: string): Mark | null {
    const word = wordOf(bucketId, key);
    const value = Atomics.load(this.#words, word);
    return value % 2 === 0 ? { word, value } : null;
  }

  /** Whether what was read after the mark was taken is still the committed state. */
  holds({ word, value }: Mark): boolean {
    return Atomics.load(this.#words, word) === value;
  }
}
