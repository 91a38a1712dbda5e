// What the listing operations share: their parameters, the url encoding of keys, and continuation.

import type { Position } from '../../../catalog/listing.ts';
import { percentEncode } from '../../../core/canonical-request.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { listKeysMax } from '../../../core/limits.ts';
import type { XmlElements } from '../../http/xml.ts';
import { parameter, type S3Request } from '../request.ts';

export type EncodeKey = (key: string) => string;

export interface ListingParameters {
  prefix: string;
  delimiter: string;
  max: number;
  encodingType: string | undefined;
  encode: EncodeKey;
}

/** Throws `Refusal` InvalidArgument. */
export function listingParameters(request: S3Request, maxName: string): ListingParameters {
  const encodingType = parameter(request, 'encoding-type');
  if (encodingType !== undefined && encodingType !== 'url') {
    throw invalidArgument(
      'encoding-type',
      encodingType,
      'Invalid Encoding Method specified in Request',
    );
  }
  return {
    prefix: parameter(request, 'prefix') ?? '',
    delimiter: parameter(request, 'delimiter') ?? '',
    max: Math.min(parseCount(request, maxName, listKeysMax), listKeysMax),
    encodingType,
    encode: encodingType === 'url' ? (key) => percentEncode(key, true) : (key) => key,
  };
}

/** A non-negative whole number. Throws `Refusal` InvalidArgument. */
export function parseCount(request: S3Request, name: string, fallback: number): number {
  const text = parameter(request, name);
  if (text === undefined || text === '') return fallback;
  if (!/^\d{1,10}$/.test(text) || Number(text) > 0x7fffffff) {
    const message = `Argument ${name} must be an integer between 0 and 2147483647`;
    throw invalidArgument(name, text, message);
  }
  return Number(text);
}

export function commonPrefixes(prefixes: readonly string[], encode: EncodeKey): XmlElements[] {
  return prefixes.map((prefix) => ({ Prefix: encode(prefix) }));
}

/** An opaque continuation token for a position. */
export function encodeToken(position: Position): string {
  return Buffer.from(`${position.kind === 'key' ? 'k' : 'p'}${position.text}`).toString(
    'base64url',
  );
}

/** Throws `Refusal` InvalidArgument for what `encodeToken` never made. */
export function decodeToken(token: string): Position {
  // As on S3, nothing is said of an empty one.
  if (token === '') {
    const fields = { ArgumentName: 'continuation-token' };
    throw new Refusal('InvalidArgument', { message: wrongToken, fields });
  }
  const bytes = Buffer.from(token, 'base64url');
  const text = bytes.toString('utf8');
  const kind = text[0] === 'k' ? 'key' : 'prefix';
  const isOurs = (text[0] === 'k' || text[0] === 'p') && Buffer.from(text).equals(bytes);
  if (isOurs && bytes.toString('base64url') === token) return { kind, text: text.slice(1) };
  throw invalidArgument('continuation-token', token, wrongToken);
}

const wrongToken = 'The continuation token provided is incorrect';

/**
 * Where a client's own marker stands. As on S3, one that is a folded prefix, or a key under it,
 * passes all keys under it.
 */
export function markerPosition(
  marker: string,
  { prefix, delimiter }: { prefix: string; delimiter: string },
): Position | null {
  if (marker === '') return null;
  if (delimiter !== '' && marker.startsWith(prefix)) {
    const cut = marker.indexOf(delimiter, prefix.length);
    if (cut >= 0) return { kind: 'prefix', text: marker.slice(0, cut + delimiter.length) };
  }
  return { kind: 'key', text: marker };
}

/** The same of `start-after`, which passes a folded prefix only where it is one. */
export function startPosition(
  startAfter: string,
  within: { prefix: string; delimiter: string },
): Position | null {
  const position = markerPosition(startAfter, within);
  return position && position.text !== startAfter ? { kind: 'key', text: startAfter } : position;
}

/** `tenant/name` as S3's owner element, which has no name for people since 2025. */
export function ownerElement(id: string): XmlElements {
  return { ID: id };
}

/** The same of who began an upload, which still has one. */
export function initiatorElement(id: string): XmlElements {
  return { ID: id, DisplayName: id };
}

/** What S3 names a bucket by in policies and in what lists buckets. */
export function bucketArn(name: string): string {
  return `arn:aws:s3:::${name}`;
}

/** An `uploadId` that a route demands. */
export function uploadIdOf(request: S3Request): string {
  const id = parameter(request, 'uploadId') ?? '';
  if (id.length === 0 || id.length > 128) throw new Refusal('NoSuchUpload');
  return id;
}
