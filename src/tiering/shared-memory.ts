// Copying into memory that threads share. V8 copies there a byte at a time where source and target
// are not aligned alike, as what comes from a socket never is: 15 times as long as memcpy, which
// `Buffer.fill` is when all that it fills with is there.

/** Copies `bytes`, all of them, to `into` from `at` on, where there must be room. */
export function copyIntoShared(into: Buffer, at: number, bytes: Buffer): void {
  if (bytes.length > 0) into.fill(bytes, at, at + bytes.length);
}
