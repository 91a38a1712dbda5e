// What a client says about an object besides its bytes: system headers, user metadata, and tags,
// in a header or in a document. Kept as it came and given back as it was. Specification: "Working
// with object metadata" and "Categorizing your storage using tags" of the Amazon S3 user guide,
// `x-amz-tagging` and PutObjectTagging of the S3 API reference.
import type { Bucket } from '../../../catalog/buckets.ts';
import type { Attributes, Tags, Version } from '../../../catalog/versions.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import {
  metadataBytesMax,
  tagKeyLengthMax,
  tagsMax,
  tagValueLengthMax,
} from '../../../core/limits.ts';
import { principalId } from '../../../core/principal.ts';
import { childOf, parseXml, textOf, type XmlNode } from '../../http/xml.ts';
import type { S3Request } from '../request.ts';
import { checksumHeader } from './checksum-headers.ts';
import { keptText } from './encoded-words.ts';

const systemHeaders = [
  'content-type',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'expires',
];
/** Given back to who reads the object, and followed where its bucket is read as a website. */
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
    const sent = joinRepeated(request, name, request.headers[name] ?? '');
    // As on S3, a form's field is a text as it is.
    const value = request.form ? sent : keptText(sent);
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

/** Where a version redirects to; undefined: nowhere. */
export function redirectOf({ attributes }: Pick<Version, 'attributes'>): string | undefined {
  return (JSON.parse(attributes) as Attributes).headers[redirectHeader];
}

/** The headers of what is copied, without those that are not. */
export function copiedHeaders({ headers }: Attributes): Attributes['headers'] {
  const { [redirectHeader]: _, ...copied } = headers;
  return copied;
}

/**
 * Attributes as the row of a version has them, which says who wrote it where that is not the
 * bucket's owner (`tenant/name`, also of an upload its initiator).
 */
export function withWriter(attributes: Attributes, writer: string, bucket: Bucket): string {
  const isOwners = writer === principalId(bucket.tenant, bucket.owner);
  return JSON.stringify(isOwners ? attributes : { ...attributes, writer });
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

export const noTags: Tags = [];

/** The access control list of a version; undefined: it has none of its own, or is not there. */
export function aclOf(version: Pick<Version, 'attributes'> | undefined): Attributes['acl'] {
  return version && (JSON.parse(version.attributes) as Attributes).acl;
}

/** The tags of a version; none of one that is not there. */
export function tagsOf(version: Pick<Version, 'attributes'> | undefined): Tags {
  if (!version) return noTags;
  return (JSON.parse(version.attributes) as Attributes).tags ?? noTags;
}

/**
 * The tags of `x-amz-tagging`, written as a URL's query. Throws `Refusal` InvalidTag, BadRequest,
 * or InvalidArgument for what cannot be decoded and for a tag that is there twice.
 */
export function readTags(request: S3Request): Tags {
  const text = request.headers[tagging];
  if (text === undefined || text === '') return noTags;
  // As in any query, nothing between two `&` is nothing.
  const pairs = text.split('&').filter((one) => one !== '');
  const tags = pairs.map((one) => readTag(one, text));
  checkCount(tags, tagsMax);
  if (repeats(tags)) throw badHeader(text);
  return tags;
}

const tagging = 'x-amz-tagging';

function badHeader(text: string): Refusal {
  const message =
    `The header '${tagging}' shall be encoded as UTF-8 then URLEncoded URL query parameters ` +
    'without tag name duplicates.';
  return invalidArgument(tagging, text, message);
}

/** The tags of a `Tagging` document. Throws `Refusal` MalformedXML, InvalidTag or BadRequest. */
export function parseTagging(body: Buffer, max = tagsMax): Tags {
  const tagging = parseXml(body, 'Tagging');
  // As on S3, `<Tagging/>` is no tags.
  if (tagging.children.length === 0) return noTags;
  const set = childOf(tagging, 'TagSet');
  if (!set) throw new Refusal('MalformedXML');
  return parseTagSet(set, max);
}

/** The same of the element that has them. */
export function parseTagSet(set: XmlNode, max: number): Tags {
  const reserved = max === tagsMax ? reservedOfObjects : reservedOfBuckets;
  const tags = set.children.map((node) => parseTag(node, reserved));
  checkCount(tags, max);
  const repeated = tags.find(([name], i) => tags.findIndex((other) => other[0] === name) < i);
  if (repeated) throw invalidTag('Cannot provide multiple Tags with the same key', repeated[0]);
  return tags;
}

const reservedOfObjects = 'Your TagKey cannot be prefixed with aws:';
const reservedOfBuckets = 'System tags cannot be added/updated by requester';

function parseTag(node: XmlNode, reserved: string): readonly [string, string] {
  const name = textOf(node, 'Key');
  const value = textOf(node, 'Value');
  if (node.name !== 'Tag' || name === undefined || value === undefined) {
    throw new Refusal('MalformedXML');
  }
  return checkTag(name, value, reserved);
}

/** Throws `Refusal` BadRequest. */
function checkCount(tags: Tags, max: number): void {
  if (tags.length <= max) return;
  const message = `${max === tagsMax ? 'Object' : 'Bucket'} tags cannot be greater than ${max}`;
  throw new Refusal('BadRequest', { message });
}

function repeats(tags: Tags): boolean {
  return new Set(tags.map(([name]) => name)).size < tags.length;
}

/** Does a copy bring tags of its own, instead of the source's? Throws `Refusal` InvalidArgument. */
export function replacesTags(request: S3Request): boolean {
  const text = request.headers['x-amz-tagging-directive'];
  if (text === undefined || text === 'COPY') return false;
  if (text === 'REPLACE') return true;
  throw invalidArgument('x-amz-tagging-directive', text, 'Unknown tagging directive.');
}

// Letters, spaces and digits of all scripts, and what AWS names besides them.
const tagForm = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

/** One tag of a header. Throws `Refusal` InvalidTag or InvalidArgument. */
function readTag(text: string, headerText: string): readonly [string, string] {
  const equals = text.indexOf('=');
  const [name, value] = equals < 0 ? [text, ''] : [text.slice(0, equals), text.slice(equals + 1)];
  if (value.includes('=')) throw badHeader(headerText);
  try {
    return checkTag(decode(name), decode(value));
  } catch (error) {
    throw error instanceof URIError ? badHeader(headerText) : error;
  }
}

/** Throws `Refusal` InvalidTag. */
function checkTag(
  name: string,
  value: string,
  reserved = reservedOfObjects,
): readonly [string, string] {
  if (name === '' || name.length > tagKeyLengthMax || !tagForm.test(name)) {
    throw invalidTag('The TagKey you have provided is invalid', name);
  }
  if (value.length > tagValueLengthMax || !tagForm.test(value)) {
    throw invalidTag('The TagValue you have provided is invalid', name, value);
  }
  if (/^aws:/i.test(name)) throw invalidTag(reserved, name);
  return [name, value];
}

function decode(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}

function invalidTag(message: string, TagKey: string, TagValue?: string): Refusal {
  return new Refusal('InvalidTag', {
    message,
    fields: { TagKey, ...(TagValue !== undefined && { TagValue }) },
  });
}
