// Entry bundles: up to 256 entries, each after its length in two bytes, the higher first (C2SP
// tlog-tiles).
import { tileWidth } from './merkle.ts';

/** The most that a length of two bytes tells. */
export const entryBytesMax = 65_535;

/** Throws for an entry that is too long, and for more than a bundle holds. */
export function renderEntries(entries: readonly Uint8Array[]): Buffer {
  if (entries.length > tileWidth) throw new RangeError(`a bundle of ${entries.length} entries`);
  const parts = entries.flatMap((entry) => {
    if (entry.length > entryBytesMax) throw new RangeError(`an entry of ${entry.length} bytes`);
    const length = Buffer.allocUnsafe(2);
    length.writeUInt16BE(entry.length);
    return [length, entry];
  });
  return Buffer.concat(parts);
}

/** undefined: it is no bundle. */
export function parseEntries(bundle: Uint8Array): Uint8Array[] | undefined {
  const entries: Uint8Array[] = [];
  for (let at = 0; at < bundle.length; ) {
    if (at + 2 > bundle.length || entries.length === tileWidth) return undefined;
    const length = (bundle[at] as number) * 256 + (bundle[at + 1] as number);
    at += 2;
    if (at + length > bundle.length) return undefined;
    entries.push(bundle.subarray(at, at + length));
    at += length;
  }
  return entries;
}
