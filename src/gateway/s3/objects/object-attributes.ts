// What a client says about an object besides its bytes: system headers, user metadata, class. Kept
// as it came and given back as it was ("Working with object metadata" of the Amazon S3 user guide).
import type { Attributes } from '../../../catalog/versions.ts';
import { Refusal } from '../../../core/errors.ts';
import { metadataBytesMax } from '../../../core/limits.ts';
import type { S3Request } from '../request.ts';
import { checksumHeader } from './checksum-headers.ts';

const systemHeaders = [
  'content-type',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'expires',
];
/** Given back to who reads the object; there are no websites that would follow it. */
const redirectHeader = 'x-amz-website-redirect-location';
const metadataPrefix = 'x-amz-meta-';
const defaultType = 'binary/octet-stream';

/** Throws `Refusal` MetadataTooLarge or InvalidRedirectLocation. */
export function readAttributes(request: S3Request): Attributes {
  const headers: Record<string, string> = {};
  for (const name of systemHeaders) {
    const value = request.headers[name];
    if (value !== undefined) headers[name] = value;
  }
  headers['content-type'] ||= defaultType;
  Object.assign(headers, readRedirect(request));
  const encoding = headers['content-encoding'];
  if (encoding !== undefined) {
    // The transfer's own framing is not part of the object.
    const kept = encoding
      .split(',')
      .filter((token) => token.trim().toLowerCase() !== 'aws-chunked');
    if (kept.length > 0) headers['content-encoding'] = kept.join(',').trim();
    else delete headers['content-encoding'];
  }
  // Names are the client's: one of them may be `__proto__`.
  const metadata: Record<string, string> = Object.create(null);
  let metadataBytes = 0;
  for (const name in request.headers) {
    if (!name.startsWith(metadataPrefix)) continue;
    const value = joinRepeated(request, name, request.headers[name] ?? '');
    // Node reads header bytes as Latin-1: one character is one byte.
    metadataBytes += name.length - metadataPrefix.length + value.length;
    metadata[name.slice(metadataPrefix.length)] = value;
  }
  if (metadataBytes > metadataBytesMax) {
    const fields = { Size: String(metadataBytes), MaxSizeAllowed: String(metadataBytesMax) };
    throw new Refusal('MetadataTooLarge', { fields });
  }
  return { headers, metadata };
}

/** S3 joins the values of a name that is given twice by a comma alone, Node by comma and space. */
function joinRepeated({ rawHeaders }: S3Request, name: string, value: string): string {
  if (!value.includes(', ')) return value;
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values.length > 1 ? values.join(',') : value;
}

/**
 * Where the request redirects to: of each object its own, which no copy takes over. Throws
 * `Refusal` InvalidRedirectLocation.
 */
export function readRedirect(request: S3Request): Record<string, string> {
  const location = request.headers[redirectHeader];
  if (location === undefined) return {};
  if (!/^(\/|https?:\/\/)/.test(location)) throw new Refusal('InvalidRedirectLocation');
  return { [redirectHeader]: location };
}

/** The headers of what is copied, without those that are not. */
export function copiedHeaders({ headers }: Attributes): Attributes['headers'] {
  const { [redirectHeader]: _, ...copied } = headers;
  return copied;
}

export const standardClass = 'STANDARD';
const awsClasses = new Set([
  'REDUCED_REDUNDANCY',
  'STANDARD_IA',
  'ONEZONE_IA',
  'INTELLIGENT_TIERING',
  'GLACIER',
  'GLACIER_IR',
  'DEEP_ARCHIVE',
  'EXPRESS_ONEZONE',
]);

/** The storage class asked for. Throws `Refusal` InvalidStorageClass or NotImplemented. */
export function readClass(request: S3Request): string {
  const asked = request.headers['x-amz-storage-class'] ?? standardClass;
  if (asked === standardClass) return asked;
  if (!awsClasses.has(asked)) throw new Refusal('InvalidStorageClass');
  throw new Refusal('NotImplemented', { fields: { Header: 'x-amz-storage-class' } });
}

/** The response headers that give an object's attributes back. */
export function attributeHeaders(attributes: Attributes): Record<string, string> {
  const headers: Record<string, string> = { ...attributes.headers };
  for (const name in attributes.metadata) {
    headers[metadataPrefix + name] = attributes.metadata[name] as string;
  }
  return headers;
}

/** The response headers of an object's checksum. */
export function checksumHeaders(attributes: Attributes): Record<string, string> {
  const { checksum } = attributes;
  if (!checksum) return {};
  return {
    [checksumHeader(checksum.algorithm)]: checksum.value,
    'x-amz-checksum-type': checksum.type,
  };
}
