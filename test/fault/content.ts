// Contents of objects: bytes that look random, and are the same for the same seed.
import { createCipheriv, createHash } from 'node:crypto';
import type { Digest } from './s3-client.ts';

export const KiB = 1024;
export const MiB = 1024 * KiB;

export interface Content extends Digest {
  bytes: Buffer;
}

/** `sizeBytes` bytes in pieces of at most `pieceBytes`, never all in memory. */
export function* makePieces(
  seed: number,
  sizeBytes: number,
  pieceBytes = 64 * KiB,
): Generator<Buffer, void, void> {
  const zeros = Buffer.alloc(Math.min(pieceBytes, sizeBytes));
  const cipher = createCipheriv('aes-128-ctr', keyOf(seed), Buffer.alloc(16));
  for (let at = 0; at < sizeBytes; at += zeros.length) {
    yield cipher.update(zeros.subarray(0, Math.min(zeros.length, sizeBytes - at)));
  }
}

export function makeContent(seed: number, sizeBytes: number): Content {
  const bytes = Buffer.concat([...makePieces(seed, sizeBytes, 4 * MiB)]);
  return { bytes, sizeBytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** What `makePieces` of the same seed and size hashes to. */
export function digestOf(seed: number, sizeBytes: number): Digest {
  const sha256 = createHash('sha256');
  for (const piece of makePieces(seed, sizeBytes, 4 * MiB)) sha256.update(piece);
  return { sizeBytes, sha256: sha256.digest('hex') };
}

function keyOf(seed: number): Buffer {
  return createHash('sha256').update(String(seed)).digest().subarray(0, 16);
}
