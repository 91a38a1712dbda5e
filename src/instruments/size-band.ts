// Bands of sizes: transfers about as large as the sizes that probes measure. The border between two
// bands is the geometric mean of their sizes: 32 B, 32 KiB, 4 MiB and 40 MiB.
import { probeSizes } from './sample.ts';

/** What metrics call them, smallest first. */
export const sizeBands = ['1B', '1KB', '1MB', '16MB', '100MB'] as const;

const borders: readonly number[] = probeSizes
  .slice(1)
  .map((size, index) => Math.sqrt(size * (probeSizes[index] as number)));

/** Index in `sizeBands` of so many bytes; a border belongs to the band above it. */
export function bandOf(bytes: number): number {
  let band = 0;
  while (band < borders.length && bytes >= (borders[band] as number)) band++;
  return band;
}
