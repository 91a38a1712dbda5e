// A page of a list by name, read in slices in which others have their turns: a page of the longest
// rows is megabytes, each row of which is verified as it is read.
import { Pace } from '../core/pace.ts';

/** A run of a listing: at most `limit` entries whose names come after `after` ('' begins). */
export interface Page {
  after: string;
  limit: number;
}

/** So many of the longest rows take a few milliseconds. */
const sliceRows = 64;

/** The rows that `read` gives for the whole page; those of a slice are from one moment. */
export async function readInTurns<T extends { name: string }>(
  { after, limit }: Page,
  read: (slice: Page) => Promise<T[]>,
): Promise<T[]> {
  const rows: T[] = [];
  const pace = new Pace();
  for (let last = after; rows.length < limit; ) {
    const asked = Math.min(sliceRows, limit - rows.length);
    const slice = await read({ after: last, limit: asked });
    rows.push(...slice);
    if (slice.length < asked) break;
    last = slice.at(-1)?.name ?? last;
    await pace.rest();
  }
  return rows;
}
