// The walk of `verify deep` through the records, from the first to the last, without a slice
// between.

import { readLogSize } from '#bursar/audit/log/stored-tiles.js';
import { DeepRecords, type DeepRecordsOptions } from '#bursar/audit/verify/deep-records.js';

export type WalkOptions = Omit<DeepRecordsOptions, 'onSilent' | 'checkpoints'>;

/**
 * Gives how many records there are, and of these how many were erased, or are in packs not read.
 */
export async function walkRecords(
  options: WalkOptions,
): Promise<{ size: number; erased: number; unread: number }> {
  const records = new DeepRecords({ ...options, checkpoints: [], onSilent: async () => {} });
  const size = await readLogSize(options.read);
  while (records.next < size) await records.advance(size);
  await records.finish(size);
  return { size, erased: records.erased, unread: records.unread };
}
