// base64 with one reading only (RFC 4648, sections 3.5, 4 and 5): what is not the one text of its
// bytes is refused, with spare bits, spaces, missing or surplus padding, or letters of the other
// kind.

/** The bytes of base64 with padding; undefined: it is another text. */
export function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

/** The bytes of base64url without padding; undefined: it is another text. */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
