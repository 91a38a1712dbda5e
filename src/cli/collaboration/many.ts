// Many calls of a gateway at once. It commits in batches, so that one call after the other would
// wait for a disk each time.
import { inParallel } from '../../core/in-parallel.ts';

const width = 32;

export function forEach<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  return inParallel(items, width, work);
}
