// What probes write: bytes that no server can compress or find twice, made once. Invariant: an
// object of any size takes no memory of its own, and what is read is compared with what was
// written, every byte.
import { randomFillSync } from 'node:crypto';

const blockBytes = 8 * 1024 * 1024;
const pieceBytesMax = 1024 * 1024;
/**
 * Odd, so that a piece begins elsewhere in the block each time, and never at a boundary of a
 * store's.
 */
const stepBytes = 2_097_143;

export class Content {
  /** Made before anything is timed. */
  readonly #block = randomFillSync(Buffer.allocUnsafeSlow(blockBytes));

  /** So many bytes of the object with this number, from an offset on: at most a piece. */
  piece(number: number, offset: number, sizeBytes: number): Buffer {
    const index = Math.floor(offset / pieceBytesMax);
    const begin = ((number * 7919 + index) * stepBytes) % (blockBytes - pieceBytesMax);
    const within = offset % pieceBytesMax;
    const end = Math.min(within + sizeBytes, pieceBytesMax);
    return this.#block.subarray(begin + within, begin + end);
  }

  /** A part of the object, or all of it; to be sent once. */
  body(number: number, offset: number, sizeBytes: number): Buffer | Iterable<Buffer> {
    if (offset === 0 && sizeBytes <= pieceBytesMax) return this.piece(number, 0, sizeBytes);
    return this.#pieces(number, offset, sizeBytes);
  }

  *#pieces(number: number, offset: number, sizeBytes: number): Generator<Buffer> {
    for (let done = 0; done < sizeBytes; ) {
      const piece = this.piece(number, offset + done, sizeBytes - done);
      yield piece;
      done += piece.length;
    }
  }

  /** Whether what came is what the object has there. */
  matches(number: number, offset: number, bytes: Uint8Array): boolean {
    for (let done = 0; done < bytes.length; ) {
      const piece = this.piece(number, offset + done, bytes.length - done);
      if (!piece.equals(bytes.subarray(done, done + piece.length))) return false;
      done += piece.length;
    }
    return true;
  }
}
