// CRC-64/NVME (NVM Express base specification, 64-bit CRC; the default of newer S3 clients), table
// driven, eight bytes a step. @aws-sdk/crc64-nvme does the same, but gives its result only through
// a promise, and a small PUT is hashed synchronously; the tests hold the two against each other.
// Invariant: the state is two words, high then low, before the final inversion.

const polynomialHigh = 0x9a6c9329 | 0;
const polynomialLow = 0xac4bc9b5 | 0;

/** `table[slice * 256 + byte]`: what a byte becomes after slice + 1 bytes have gone by. */
function buildTables(): { high: Int32Array; low: Int32Array } {
  const high = new Int32Array(8 * 256);
  const low = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crcHigh = 0;
    let crcLow = byte;
    for (let slice = 0; slice < 8; slice++) {
      for (let bit = 0; bit < 8; bit++) {
        const carry = -(crcLow & 1);
        crcLow = ((crcLow >>> 1) | (crcHigh << 31)) ^ (polynomialLow & carry);
        crcHigh = (crcHigh >>> 1) ^ (polynomialHigh & carry);
      }
      high[slice * 256 + byte] = crcHigh;
      low[slice * 256 + byte] = crcLow;
    }
  }
  return { high, low };
}

const tables = buildTables();

/** Folds `bytes` into `state`, which begins as two words of ones. */
export function updateCrc64(state: Int32Array, bytes: Uint8Array): void {
  const { high: h, low: l } = tables;
  let high = state[0] as number;
  let low = state[1] as number;
  let at = 0;
  for (const end = bytes.length - 7; at < end; at += 8) {
    // Each index is below 2,048 by its mask, so no look-up can be undefined.
    const a = 1792 + ((low ^ bytes[at]!) & 255);
    const b = 1536 + (((low >>> 8) ^ bytes[at + 1]!) & 255);
    const c = 1280 + (((low >>> 16) ^ bytes[at + 2]!) & 255);
    const d = 1024 + ((low >>> 24) ^ bytes[at + 3]!);
    const e = 768 + ((high ^ bytes[at + 4]!) & 255);
    const f = 512 + (((high >>> 8) ^ bytes[at + 5]!) & 255);
    const g = 256 + (((high >>> 16) ^ bytes[at + 6]!) & 255);
    const i = (high >>> 24) ^ bytes[at + 7]!;
    high = h[a]! ^ h[b]! ^ h[c]! ^ h[d]! ^ h[e]! ^ h[f]! ^ h[g]! ^ h[i]!;
    low = l[a]! ^ l[b]! ^ l[c]! ^ l[d]! ^ l[e]! ^ l[f]! ^ l[g]! ^ l[i]!;
  }
  for (; at < bytes.length; at++) {
    const i = (low ^ bytes[at]!) & 255;
    low = ((low >>> 8) | (high << 24)) ^ l[i]!;
    high = (high >>> 8) ^ h[i]!;
  }
  state[0] = high;
  state[1] = low;
}
