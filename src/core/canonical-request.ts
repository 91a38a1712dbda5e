// The canonical form of a request that Signature V4 signs, shared by verifying and signing.
// Invariant: the text holds only the characters U+0000 to U+00FF and stands for its Latin-1 bytes;
// paths and queries are percent-encoded, and header values are Latin-1 because Node reads and
// writes header bytes so. What is hashed are therefore exactly the bytes that went over the wire.
// Specification: "Signature Calculations for the Authorization Header" of the Amazon S3 API
// reference; for S3 a path is encoded once and never normalized.
import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';

export type QueryPairs = ReadonlyArray<readonly [string, string]>;

/**
 * Header values by lower-case names, as Node has them, which joins the values of a header that is
 * repeated.
 */
export type Headers = Readonly<Record<string, string | undefined>>;

export interface CanonicalParts {
  method: string;
  /** Decoded, begins with '/'. */
  path: string;
  /** Encoded as it came; absent: as S3 encodes it. */
  sentPath?: string;
  query: QueryPairs;
  /** Sorted, lower-case. */
  headerNames: readonly string[];
  /** Already canonical, in the order of `headerNames`. */
  headerValues: readonly string[];
  /** The value that stands for the body: a digest or a word such as UNSIGNED-PAYLOAD. */
  payload: string;
}

const signatureParameter = 'X-Amz-Signature';

const unreserved = new Uint8Array(128);
const encodings: string[] = [];
for (let byte = 0; byte < 256; byte++) {
  const letter = String.fromCharCode(byte);
  const plain = /^[A-Za-z0-9._~-]$/.test(letter);
  if (plain) unreserved[byte] = 1;
  encodings.push(plain ? letter : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`);
}

const slash = 0x2f;

/**
 * Percent-encodes the UTF-8 bytes of `text`, all but A-Z a-z 0-9 - . _ ~ and, where `keepSlash`,
 * '/'. A lone surrogate counts as U+FFFD, as everywhere in UTF-8.
 */
export function percentEncode(text: string, keepSlash: boolean): string {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 127 || (unreserved[code] === 0 && !(keepSlash && code === slash))) {
      return encodeBytes(text, keepSlash);
    }
  }
  return text;
}

function encodeBytes(text: string, keepSlash: boolean): string {
  let out = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    out += keepSlash && byte === slash ? '/' : encodings[byte];
  }
  return out;
}

/** The encoded pairs but X-Amz-Signature, sorted by encoded name, then by encoded value. */
export function canonicalQuery(query: QueryPairs): string {
  if (query.length === 0) return '';
  const pairs: Array<[string, string]> = [];
  for (const [name, value] of query) {
    if (name === signatureParameter) continue;
    pairs.push([percentEncode(name, false), percentEncode(value, false)]);
  }
  if (pairs.length > 1) pairs.sort(comparePairs);
  let out = '';
  for (const [name, value] of pairs) out += out === '' ? `${name}=${value}` : `&${name}=${value}`;
  return out;
}

function comparePairs(a: readonly [string, string], b: readonly [string, string]): number {
  if (a[0] !== b[0]) return a[0] < b[0] ? -1 : 1;
  if (a[1] !== b[1]) return a[1] < b[1] ? -1 : 1;
  return 0;
}

/**
 * The name, as Node has it, of the header that a query parameter stands for; undefined: of none.
 */
export function headerNameOf(parameter: string): string | undefined {
  return headerName.test(parameter) ? parameter.toLowerCase() : undefined;
}

/** RFC 9110 section 5.1. */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** A decoded query value as a header would bring it: its UTF-8 bytes, each as one character. */
export function headerTextOf(value: string): string {
  for (let i = 0; i < value.length; i++) {
    if (value.charCodeAt(i) > 127) return Buffer.from(value, 'utf8').toString('latin1');
  }
  return value;
}

/** Trimmed, with every run of spaces and tabs as one space. */
export function canonicalHeaderValue(value: string): string {
  const untidy =
    value.includes('  ') || value.includes('\t') || value.startsWith(' ') || value.endsWith(' ');
  return untidy ? value.replace(/[ \t]+/g, ' ').replace(/^ | $/g, '') : value;
}

/** The canonical request, as Latin-1 text. */
export function canonicalRequest(parts: CanonicalParts): string {
  let headers = '';
  let signedHeaders = '';
  for (let i = 0; i < parts.headerNames.length; i++) {
    const name = parts.headerNames[i] as string;
    headers += `${name}:${parts.headerValues[i]}\n`;
    signedHeaders += i === 0 ? name : `;${name}`;
  }
  const path = parts.sentPath ?? percentEncode(parts.path, true);
  const query = parts.query.length === 0 ? '' : canonicalQuery(parts.query);
  return `${parts.method}\n${path}\n${query}\n${headers}\n${signedHeaders}\n${parts.payload}`;
}

/** SHA-256 of Latin-1 text's bytes, in hexadecimal. */
export function digestLatin1(text: string): string {
  return hash('sha256', Buffer.from(text, 'latin1'), 'hex');
}
