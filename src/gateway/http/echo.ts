// What refusals give back of a request. Invariant: whatever came, the document around it stays
// well-formed, and is not much larger than the largest head of a request.
import { toUSVString } from 'node:util';
import { headerBytesMax, targetBytesMax } from '../../core/limits.ts';

/** So many characters have room for the canonical form of nearly every request. */
const lengthMax = headerBytesMax + 2 * targetBytesMax;

/**
 * A text of a client's as an error document gives it back: cut where it is too long, and with
 * U+FFFD for halves of characters, which neither UTF-8 nor all readers of JSON have.
 */
export function echoed(text: string): string {
  const short = text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
  return toUSVString(short);
}

/** Characters that XML 1.0 has in no form, not by reference either (section 2.2). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const notInXml = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

/** The same for XML, with U+FFFD for what that cannot hold. */
export function echoedInXml(text: string): string {
  return echoed(text).replace(notInXml, '\ufffd');
}
