// Moments that the undelete windows of buckets show, as indexes of the log: a bucket as of a moment
// is the bucket as of the last record that was made up to then. Invariant: only what the bucket's
// window holds is shown, as of now.
import { lastUntil } from '../audit/record-times.ts';
import { beginOf, type UndeleteWindow } from '../catalog/undelete-window.ts';
import type { Reader } from '../core/database.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { SettingCache } from './setting-cache.ts';

/** What is known of a moment does not change, so that any of them can be forgotten. */
const momentsMax = 1000;

export class KeptMoments {
  readonly #read: Reader;
  readonly #windows: Pick<SettingCache<UndeleteWindow>, 'find'>;
  /** Indexes by moments that are over. */
  readonly #indexes = new Map<number, number>();

  constructor(read: Reader, windows: Pick<SettingCache<UndeleteWindow>, 'find'>) {
    this.#read = read;
    this.#windows = windows;
  }

  /** Whether the bucket as of this record is what it was at a moment that is kept. */
  async keeps(bucketId: number, index: number): Promise<boolean> {
    const window = await this.#windows.find(bucketId);
    if (!window) return false;
    // It was so until the next record was made.
    const rows = await this.#read.all<{ index: number; timeMs: number }>(
      'SELECT idx AS "index", time_ms AS timeMs FROM records WHERE idx IN (?, ?)',
      ...[index, index + 1],
    );
    const next = rows.find((row) => row.index === index + 1);
    if (next) return next.timeMs > beginOf(window, steadyClock.nowMs());
    return rows.length === 1;
  }

  /** The index that shows the bucket as of then; null: it is not kept. */
  async find(bucketId: number, timeMs: number): Promise<number | null> {
    const window = await this.#windows.find(bucketId);
    const nowMs = steadyClock.nowMs();
    if (!window || timeMs < beginOf(window, nowMs) || timeMs >= nowMs) return null;
    const known = this.#indexes.get(timeMs);
    if (known !== undefined) return known;
    const index = await lastUntil(this.#read, timeMs);
    // Records of the same moment may still come where none was made after it.
    const sql = 'SELECT 1 FROM records WHERE idx = ?';
    if (await this.#read.get(sql, index + 1)) {
      if (this.#indexes.size >= momentsMax) this.#indexes.clear();
      this.#indexes.set(timeMs, index);
    }
    return index;
  }
}
