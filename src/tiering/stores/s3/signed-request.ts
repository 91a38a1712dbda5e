// A request to an S3 store as it goes over the wire: its target and its headers, signed.
// Invariant: all headers that have a meaning are signed; the body is not (UNSIGNED-PAYLOAD), for it
// is authenticated from end to end, and a checksum in a signed header guards it on the way.
// Specification: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
// reference; RFC 9112, section 2.1.
import { percentEncode } from '../../../core/canonical-request.ts';
import { signRequest } from '../../../core/sigv4.ts';
import type { StoreAddress } from './address.ts';
import type { Credentials } from './credentials.ts';

export interface RequestParts {
  method: string;
  /** Relative to the store's prefix, decoded. */
  name: string;
  headers?: Readonly<Record<string, string>>;
}

/**
 * All of a request up to its body, of which there is none when `bodyBytes` is undefined. Throws when
 * a header value cannot be sent.
 */
export function signStoreRequest(
  { method, name, headers }: RequestParts,
  { host, region, pathStart }: StoreAddress,
  { accessKeyId, secretAccessKey: secret, sessionToken }: Credentials,
  timeMs: number,
  bodyBytes?: number,
): string {
  const path = pathStart + name;
  const signed: Record<string, string> = { host, ...headers };
  if (sessionToken !== undefined) signed['x-amz-security-token'] = sessionToken;
  const request = { accessKeyId, secret, region, method, path, headers: signed, timeMs };
  const added = signRequest(request);
  let head = `${method} ${percentEncode(path, true)} HTTP/1.1\r\n`;
  for (const key in signed) head += `${key}: ${signed[key]}\r\n`;
  for (const key in added) head += `${key}: ${added[key]}\r\n`;
  if (bodyBytes !== undefined) head += `content-length: ${bodyBytes}\r\n`;
  return `${head}\r\n`;
}
