// Checks a page of a listing against what was asked for. Invariant: what is not listed is not
// there, because an answer that may lack something, or that tells of another place, counts as a
// failed try. The sweeper and a rebuild take an object that is missing here for one that is gone.
// Specification: "ListObjectsV2" of the Amazon S3 API reference, general purpose buckets.
import type { ListObjectsV2CommandOutput } from '@aws-sdk/client-s3';
import { AttemptFailure } from '../attempt-failure.ts';

/** Where a page begins: after a name, or where the page before it ended. */
export interface PageStart {
  /** Names are relative to the store's prefix; those of the page come after this one. */
  after?: string;
  token?: string;
  /** How many pages in a row were empty without being the last. */
  emptyPages?: number;
}

export interface AskedPage extends PageStart {
  bucket: string;
  /** The store's own prefix. */
  base: string;
  /** Relative to the store's prefix. */
  prefix: string;
}

export interface ListedPage {
  objects: { name: string; sizeBytes: number }[];
  next: PageStart | null;
}

/** Servers give empty pages for what was deleted. One that never ends is given up after these. */
const emptyPagesMax = 1000;
/** Printable ASCII, which all names are that a gateway gives. */
const plainName = /^[\x20-\x7e]*$/;

/** Throws AttemptFailure when the page is not what was asked for. */
export function readPage(page: ListObjectsV2CommandOutput, asked: AskedPage): ListedPage {
  const { bucket, base, prefix } = asked;
  // Any other document, such as an error, would be read as an empty list.
  if (page.Name !== bucket) throw new AttemptFailure('error-in-200', 'a list that is none');
  const whole = base + prefix;
  const isEncoded = page.EncodingType === 'url';
  const nameOf = (text: string): string => (isEncoded ? decodeName(text) : text);
  if (nameOf(page.Prefix ?? whole) !== whole) throw wrong(`a list of ${page.Prefix}`);
  const contents = page.Contents ?? [];
  // A document that was cut short may read like a shorter list.
  if ((page.KeyCount ?? 0) > contents.length) {
    throw wrong(`a list of ${contents.length} names that announces ${page.KeyCount}`);
  }
  let { after } = asked;
  const objects = contents.map(({ Key, Size }) => {
    const full = Key === undefined ? '' : nameOf(Key);
    if (!full.startsWith(whole) || !Number.isSafeInteger(Size) || (Size as number) < 0) {
      throw wrong(`the list of ${whole} has ${Key} of ${Size} bytes`);
    }
    const name = full.slice(base.length);
    // XML may have changed characters of other names, and so their order. No gateway gives such
    // names, but whoever may write to the bucket can: they are listed, and decide nothing.
    if (!plainName.test(name)) return { name, sizeBytes: Size as number };
    // S3 orders by bytes, and some servers by UTF-16: for these names the order is the same.
    if (after !== undefined && name <= after) {
      throw wrong(`the list has ${name} behind ${after}`);
    }
    after = name;
    return { name, sizeBytes: Size as number };
  });
  return { objects, next: nextPage(page, { ...asked, after }) };
}

/** Goes by the token, since a page may be empty without being the last. */
function nextPage(page: ListObjectsV2CommandOutput, asked: AskedPage): PageStart | null {
  if (page.IsTruncated === false) return null;
  const { NextContinuationToken: token } = page;
  if (page.IsTruncated === undefined || token === undefined) throw wrong('a list that breaks off');
  const emptyPages = page.Contents?.length ? 0 : (asked.emptyPages ?? 0) + 1;
  if (token === asked.token || emptyPages > emptyPagesMax) throw wrong('a list that never ends');
  return { after: asked.after, token, emptyPages };
}

/** Decodes a name of an answer with `encoding-type=url`. One that is no UTF-8 stays as it is. */
function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return encoded;
  }
}

function wrong(message: string): AttemptFailure {
  return new AttemptFailure('wrong-body', message);
}
