// What a signature is about: the word for the body, the headers that it must cover, and their
// values as it has them. Invariant: a header that has a meaning and is not signed refuses the
// request.
// Specification: "Signature Calculations for the Authorization Header" of the Amazon S3 API
// reference.
import {
  canonicalHeaderValue,
  type Headers,
  headerNameOf,
  headerTextOf,
  type QueryPairs,
} from '../core/canonical-request.ts';
import { Refusal } from '../core/errors.ts';
import { unsignedPayload } from '../core/sigv4.ts';
import type { SignedRequest } from './authenticate.ts';
import type { Claim } from './claim.ts';
import { contentSha256 } from './payload.ts';

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
