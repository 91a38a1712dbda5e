// What a signature is about: the word for the body and what that means, the headers that it must
// cover, and their values as it has them. Invariants: a header that has a meaning and is not signed
// refuses the request; a word that this file does not know does, too, and is never taken for an
// unsigned body.
// Specification: "Signature Calculations for the Authorization Header" of the Amazon S3 API
// reference, and the values of x-amz-content-sha256 there.
import { Buffer } from 'node:buffer';
import {
  canonicalHeaderValue,
  type Headers,
  headerNameOf,
  headerTextOf,
  type QueryPairs,
} from '../core/canonical-request.ts';
import { invalidArgument, Refusal } from '../core/errors.ts';
import { emptySha256, unsignedPayload } from '../core/sigv4.ts';
import type { SignedRequest } from './authenticate.ts';
import type { ChunkSeed } from './aws-chunked.ts';
import type { Claim } from './claim.ts';

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

/** What stands for the body in the canonical request. */
export function readPayloadWord({ where }: Claim, { headers, query }: SignedRequest): string {
  if (where !== 'header') return queryPayloadWord(headers, query);
  const word = headers[contentSha256];
  if (word !== undefined) return word;
  throw new Refusal('InvalidRequest', {
    message: `Missing required header for this request: ${contentSha256}`,
  });
}

/**
 * What stands for the body in a presigned request: the parameter, else the header, else
 * UNSIGNED-PAYLOAD. Whichever it is becomes the last line of the canonical request and is signed by
 * that, even where SDKs leave the header's name out of SignedHeaders.
 */
function queryPayloadWord(headers: Headers, query: QueryPairs): string {
  for (const [name, value] of query) {
    if (name === 'X-Amz-Content-Sha256' || name === contentSha256) return value;
  }
  return headers[contentSha256] ?? unsignedPayload;
}

/** The names of headers that have a meaning for us. */
const meaningful = /^x-(?:amz|bursar)-/;

/**
 * Throws Refusal AccessDenied if a header with a meaning, or `host`, is not signed. Counting
 * suffices: every signed name that is present is one of the request's.
 */
export function checkAllSigned(request: SignedRequest, claim: Claim, payloadWord: string): void {
  const { headers } = request;
  const { signedHeaders } = claim;
  let present = 0;
  for (const name in headers) if (meaningful.test(name)) present++;
  let signed = 0;
  for (const name of signedHeaders) {
    if (meaningful.test(name) && Object.hasOwn(headers, name)) signed++;
  }
  if (present === signed && signedHeaders.includes('host')) return;

  const unsigned = Object.keys(headers).filter((name) => {
    if (signedHeaders.includes(name)) return false;
    // In a presigned request the canonical form's last line may have signed it: see above.
    const bound = claim.where === 'query' && headers[contentSha256] === payloadWord;
    return meaningful.test(name) && !(name === contentSha256 && bound);
  });
  if (!signedHeaders.includes('host')) unsigned.unshift('host');
  if (unsigned.length === 0) return;
  throw new Refusal('AccessDenied', {
    message: 'There were headers present in the request which were not signed',
    fields: { HeadersNotSigned: unsigned.join(', ') },
  });
}

/** The signed headers' values; `complete` is false if the request lacks one of them. */
export function headerValues(
  request: SignedRequest,
  { where, signedHeaders }: Claim,
): { texts: string[]; complete: boolean } {
  const texts: string[] = [];
  let complete = true;
  const { headers } = request;
  for (const name of signedHeaders) {
    // What objects inherit is no header.
    let value = Object.hasOwn(headers, name) ? headers[name] : undefined;
    if (value === undefined && where === 'query') value = headerInQuery(request.query, name);
    if (value === undefined) {
      complete = false;
      texts.push('');
    } else if (value.includes(', ')) {
      texts.push(joinRepeated(request.rawHeaders, name) ?? canonicalHeaderValue(value));
    } else {
      texts.push(canonicalHeaderValue(value));
    }
  }
  return { texts, complete };
}

/**
 * A signed header that a presigned URL carries itself, as the AWS SDK for JavaScript v2 has them:
 * S3 takes it from the query. The host that a request is sent to is nowhere but in its header.
 */
function headerInQuery(query: QueryPairs, name: string): string | undefined {
  if (name === 'host') return undefined;
  const found = query.find(([parameter]) => headerNameOf(parameter) === name);
  return found && headerTextOf(found[1]);
}

/** Node joins a repeated header with ', ', the canonical form with ','. undefined: not repeated. */
function joinRepeated(rawHeaders: readonly string[], name: string): string | undefined {
  const values: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if ((rawHeaders[i] as string).toLowerCase() !== name) continue;
    values.push(canonicalHeaderValue(rawHeaders[i + 1] as string));
  }
  return values.length > 1 ? values.join(',') : undefined;
}
