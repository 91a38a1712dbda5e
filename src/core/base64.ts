// base64 with one reading only (RFC 4648, sections 3.5, 4 and 5): what is not the one text of its
// bytes is refused, with spare bits, spaces, missing or surplus padding, or letters of the other
// kind.

/** The bytes of base64 with padding; undefined: it is another text. */
export function decodeBase64(text: string): Buffer | undefined {
  return decode(text, 'base64');
}

/** The bytes of base64url without padding; undefined: it is another text. */
export function decodeBase64url(text: string): Buffer | undefined {
  return decode(text, 'base64url');
}

function decode(text: string, encoding: 'base64' | 'base64url'): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  return bytes.toString(encoding) === text ? bytes : undefined;
}
