// Sets of records within one block of the search index: 4096 records, each a bit. Kept as a list of
// places where they are few, else as the bits themselves. Pure.

/** Records in a block: as many as 16 tiles of the log have. */
export const blockWidth = 4096;
const words = blockWidth / 32;
const bitsBytes = blockWidth / 8;
/** A longer list takes as much room as the bits. */
const listedMax = bitsBytes / 2 - 1;

/** The set of a block's records, as bits. */
export type Bits = Uint32Array;

export function allBits(): Bits {
  return new Uint32Array(words).fill(0xffff_ffff);
}

/** `places` must be in order, each once. */
export function packPlaces(places: readonly number[]): Buffer {
  if (places.length <= listedMax) {
    const packed = Buffer.allocUnsafe(2 * places.length);
    for (let i = 0; i < places.length; i++) packed.writeUInt16LE(places[i] as number, 2 * i);
    return packed;
  }
  const packed = Buffer.alloc(bitsBytes);
  for (const place of places) packed[place >>> 3] = (packed[place >>> 3] ?? 0) | (1 << (place & 7));
  return packed;
}

/** Leaves in `bits` only what is in the packed set too. */
export function intersect(bits: Bits, packed: Buffer): void {
  if (packed.length === bitsBytes) {
    for (let i = 0; i < words; i++) bits[i] = (bits[i] as number) & packed.readUInt32LE(4 * i);
    return;
  }
  const kept = new Uint32Array(words);
  for (let at = 0; at < packed.length; at += 2) {
    const place = packed.readUInt16LE(at);
    const word = place >>> 5;
    kept[word] = (kept[word] as number) | ((bits[word] as number) & (1 << (place & 31)));
  }
  bits.set(kept);
}

/** The places in order, from `from` to before `to`. */
export function* placesOf(bits: Bits, from: number, to: number): Generator<number> {
  for (let word = from >>> 5; word < words; word++) {
    for (let left = bits[word] as number; left !== 0; left &= left - 1) {
      const place = word * 32 + (31 - Math.clz32(left & -left));
      if (place >= to) return;
      if (place >= from) yield place;
    }
  }
}
