// Tags of objects as requests bring them, in a header or in a document: "Categorizing your storage
// using tags" of the Amazon S3 user guide, `x-amz-tagging` and PutObjectTagging of the S3 API reference.
import type { Attributes, Tags, Version } from '../catalog/versions.ts';
import { invalidArgument, Refusal } from '../core/errors.ts';
import { tagKeyLengthMax, tagsMax, tagValueLengthMax } from '../core/limits.ts';
import { header, type S3Request } from './request.ts';
import { childOf, parseXml, textOf, type XmlNode } from './xml.ts';

export const noTags: Tags = [];

/** The tags of a version; none of one that is not there. */
export function tagsOf(version: Pick<Version, 'attributes'> | undefined): Tags {
  if (!version) return noTags;
  return (JSON.parse(version.attributes) as Attributes).tags ?? noTags;
}

/** The tags of `x-amz-tagging`, written as a URL's query. Throws `Refusal` InvalidTag or BadRequest. */
export function readTags(request: S3Request): Tags {
  const text = header(request, 'x-amz-tagging');
  if (text === undefined || text === '') return noTags;
  return checkTags(text.split('&').map(readTag));
}

/** The tags of a `Tagging` document. Throws `Refusal` MalformedXML, InvalidTag or BadRequest. */
export function parseTagging(body: Buffer, max = tagsMax): Tags {
  const set = childOf(parseXml(body, 'Tagging'), 'TagSet');
  if (!set) throw new Refusal('MalformedXML');
  return checkTags(set.children.map(parseTag), max);
}

function parseTag(node: XmlNode): readonly [string, string] {
  const name = textOf(node, 'Key');
  const value = textOf(node, 'Value');
  if (node.name !== 'Tag' || name === undefined || value === undefined) {
    throw new Refusal('MalformedXML');
  }
  return checkTag(name, value);
}

function checkTags(tags: Tags, max = tagsMax): Tags {
  if (tags.length > max) {
    const message = `${max === tagsMax ? 'Object' : 'Bucket'} tags cannot be greater than ${max}`;
    throw new Refusal('BadRequest', { message });
  }
  if (new Set(tags.map(([name]) => name)).size < tags.length) {
    throw invalidTag('Cannot provide multiple Tags with the same key');
  }
  return tags;
}

/** Does a copy bring tags of its own, instead of the source's? Throws `Refusal` InvalidArgument. */
export function replacesTags(request: S3Request): boolean {
  const text = header(request, 'x-amz-tagging-directive');
  if (text === undefined || text === 'COPY') return false;
  if (text === 'REPLACE') return true;
  throw invalidArgument('x-amz-tagging-directive', text, 'Unknown tagging directive.');
}

// Letters, spaces and digits of all scripts, and what AWS names besides them.
const tagForm = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

function readTag(text: string): readonly [string, string] {
  const equals = text.indexOf('=');
  const name = decode(equals < 0 ? text : text.slice(0, equals));
  const value = equals < 0 ? '' : decode(text.slice(equals + 1));
  return checkTag(name, value);
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
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw invalidTag('The tags are not encoded as the query of a URL');
  }
}

function invalidTag(message: string): Refusal {
  return new Refusal('InvalidTag', { message });
}
