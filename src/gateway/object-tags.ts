// Tags of objects as requests bring them: "Categorizing your storage using tags" of the Amazon S3
// user guide, and `x-amz-tagging` of the S3 API reference.
import type { Attributes, Tags, Version } from '../catalog/versions.ts';
import { invalidArgument, Refusal } from '../core/errors.ts';
import { tagKeyLengthMax, tagsMax, tagValueLengthMax } from '../core/limits.ts';
import { header, type S3Request } from './request.ts';

export const noTags: Tags = [];

/** The tags of a version; none of one that is not there. */
export function tagsOf(version: Pick<Version, 'attributes'> | undefined): Tags {
  if (!version) return noTags;
  return (JSON.parse(version.attributes) as Attributes).tags ?? noTags;
}

/** The tags of `x-amz-tagging`, written as a URL's query. Throws `Refusal` InvalidTag. */
export function readTags(request: S3Request): Tags {
  const text = header(request, 'x-amz-tagging');
  if (text === undefined || text === '') return noTags;
  const tags = text.split('&').map(readTag);
  if (tags.length > tagsMax) throw invalidTag(`Object tags cannot be greater than ${tagsMax}`);
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
