// A request to an S3 store as it goes over the wire: its target and its headers, signed.
// Invariant: all headers that have a meaning are signed; the body is not (UNSIGNED-PAYLOAD), for it
// is authenticated from end to end, and a checksum in a signed header guards it on the way.
// Specification: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
// reference.
import { percentEncode } from '../../../core/canonical-request.ts';
import { signRequest } from '../../../core/sigv4.ts';
import type { StoreAddress } from './address.ts';
import type { Credentials } from './credentials.ts';

export interface RequestParts {
  method: string;
  /** Relative to the store's prefix, decoded. */
  name: string;
  /** A parameter without a value, such as `restore`. */
  query?: string;
  headers?: Readonly<Record<string, string>>;
}

export interface SignedRequest {
  /** Percent-encoded. */
  path: string;
  /** Alternating names and values. */
  headers: string[];
}

export function signStoreRequest(
  { method, name, query, headers }: RequestParts,
  { host, region, pathStart }: StoreAddress,
  { accessKeyId, secretAccessKey: secret, sessionToken }: Credentials,
  timeMs: number,
): SignedRequest {
  const path = pathStart + name;
  const signed: Record<string, string> = { host, ...headers };
  if (sessionToken !== undefined) signed['x-amz-security-token'] = sessionToken;
  const request = { accessKeyId, secret, region, method, path, headers: signed, timeMs };
  const added = signRequest(query === undefined ? request : { ...request, query: [[query, '']] });
  const all: string[] = [];
  for (const key in signed) all.push(key, signed[key] as string);
  for (const key in added) all.push(key, added[key] as string);
  const target = percentEncode(path, true);
  return { path: query === undefined ? target : `${target}?${query}=`, headers: all };
}
