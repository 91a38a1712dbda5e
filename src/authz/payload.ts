// How a request's body is protected: what `x-amz-content-sha256` says of it.
// Invariant: a word that this file does not know is refused, never taken for an unsigned body.
// Specification: "Authenticating Requests: Using the Authorization Header" of the Amazon S3 API
// reference, overview, the values of x-amz-content-sha256.
import { Buffer } from 'node:buffer';
import { invalidArgument, Refusal } from '../core/errors.ts';
import { emptySha256, unsignedPayload } from '../core/sigv4.ts';
import type { ChunkSeed } from './aws-chunked.ts';

export type Payload =
  /** UNSIGNED-PAYLOAD, or presigned without x-amz-content-sha256. */
  | { kind: 'unsigned' }
  /** The digest of the whole body is signed. */
  | { kind: 'sha256'; sha256: Buffer }
  /** STREAMING-AWS4-HMAC-SHA256-PAYLOAD, with or without -TRAILER. */
  | { kind: 'signed-chunks'; trailer: boolean; seed: ChunkSeed }
  /** STREAMING-UNSIGNED-PAYLOAD-TRAILER. */
  | { kind: 'unsigned-chunks' };

export const contentSha256 = 'x-amz-content-sha256';

/** Of the many requests without a body. */
const emptyPayload: Payload = { kind: 'sha256', sha256: Buffer.from(emptySha256, 'hex') };

const hexDigest = /^[0-9a-fA-F]{64}$/;
const signedChunks = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD';
const signedChunksTrailer = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER';
const unsignedChunksTrailer = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';

/**
 * What a value of x-amz-content-sha256 means. `seed` is what the request's own signature seeds
 * those of its chunks with, null where it cannot: of SigV4A's no chunks are known. Throws
 * NotImplemented for other STREAMING- words, InvalidArgument for any other word.
 */
export function readPayload(word: string, seed: ChunkSeed | null): Payload {
  switch (word) {
    case emptySha256:
      return emptyPayload;
    case unsignedPayload:
      return { kind: 'unsigned' };
    case unsignedChunksTrailer:
      return { kind: 'unsigned-chunks' };
    case signedChunks:
    case signedChunksTrailer:
      if (seed === null) break;
      return { kind: 'signed-chunks', trailer: word === signedChunksTrailer, seed };
  }
  if (hexDigest.test(word)) return { kind: 'sha256', sha256: Buffer.from(word, 'hex') };
  if (word.startsWith('STREAMING-')) {
    throw new Refusal('NotImplemented', { fields: { Header: contentSha256 } });
  }
  throw invalidArgument(
    contentSha256,
    word,
    'x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, ' +
      `${signedChunks}, ${signedChunksTrailer}, or a valid sha256 value.`,
  );
}
