// What a restored database had not told its journals yet when it was copied: of that it knows more than a
// journal that it wrote itself and that ends before.
import { listOutbox } from '../../catalog/outbox.ts';
import type { Reader } from '../../core/database.ts';
import type { ForwardStore } from './stores.ts';

export class Pending {
  /** When they were changed, milliseconds, by name. */
  readonly #times = new Map<string, number>();

  static async read(read: Reader, stores: readonly ForwardStore[]): Promise<Pending> {
    const pending = new Pending();
    for (const { store, journal, isOwnJournal } of stores) {
      if (!isOwnJournal) continue;
      const rows = await listOutbox(read, store.number, Number.MAX_SAFE_INTEGER);
      for (const { seq, bucketId, key, versionId, timeMs } of rows) {
        if (seq > journal.lastSeq) {
          pending.#times.set(nameOf(bucketId, key, versionId), timeMs);
        }
      }
    }
    return pending;
  }

  /** When the bucket was changed; undefined: the journal knows. */
  ofBucket(bucketId: number): number | undefined {
    return this.#times.get(nameOf(bucketId, null, null));
  }

  ofVersion(bucketId: number, key: string, versionId: string | null): number | undefined {
    return this.#times.get(nameOf(bucketId, key, versionId));
  }
}

function nameOf(bucketId: number, key: string | null, versionId: string | null): string {
  return key === null ? String(bucketId) : `${bucketId}/${versionId ?? ''}/${key}`;
}
