// UTF-8 with one reading only (RFC 3629): bytes that are none are refused instead of replaced,
// since two readers that replace them see one text where there were two.

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The text of the bytes, with a byte order mark where there is one; undefined: they are no UTF-8.
 */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
