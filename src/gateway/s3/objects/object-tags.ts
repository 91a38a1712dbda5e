// Tags of objects as requests bring them, in a header or in a document: "Categorizing your storage
// using tags" of the Amazon S3 user guide, `x-amz-tagging` and PutObjectTagging of the S3 API
// reference.
import type { Attributes, Tags, Version } from '../../../catalog/versions.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { tagKeyLengthMax, tagsMax, tagValueLengthMax } from '../../../core/limits.ts';
import { childOf, parseXml, textOf, type XmlNode } from '../../http/xml.ts';
import type { S3Request } from '../request.ts';

export const noTags: Tags = [];

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
  const set = childOf(parseXml(body, 'Tagging'), 'TagSet');
  if (!set) throw new Refusal('MalformedXML');
  const tags = set.children.map(parseTag);
  checkCount(tags, max);
  if (repeats(tags)) throw invalidTag('Cannot provide multiple Tags with the same key');
  return tags;
}

function parseTag(node: XmlNode): readonly [string, string] {
  const name = textOf(node, 'Key');
  const value = textOf(node, 'Value');
  if (node.name !== 'Tag' || name === undefined || value === undefined) {
    throw new Refusal('MalformedXML');
  }
  return checkTag(name, value);
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
  try {
    return checkTag(decode(name), decode(value));
  } catch (error) {
    throw error instanceof URIError ? badHeader(headerText) : error;
  }
}

/** Throws `Refusal` InvalidTag. */
function checkTag(name: string, value: string): readonly [string, string] {
  if (name === '' || name.length > tagKeyLengthMax || !tagForm.test(name)) {
    throw invalidTag('The TagKey you have provided is invalid');
  }
  if (value.length > tagValueLengthMax || !tagForm.test(value)) {
    throw invalidTag('The TagValue you have provided is invalid');
  }
  if (/^aws:/i.test(name)) throw invalidTag('System tags cannot be added/updated by requester');
  return [name, value];
}

function decode(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}

function invalidTag(message: string): Refusal {
  return new Refusal('InvalidTag', { message });
}
