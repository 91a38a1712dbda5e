// S3 lists keys in the order of their UTF-8 bytes, which is the order of code points. JavaScript's
// own string comparison orders UTF-16 units instead, so it must never decide between two keys.

/** The least text greater than every text that begins with `text`; null when there is none. */
export function textSuccessor(text: string): string | null {
  const points = Array.from(text);
  for (;;) {
    const last = points.pop();
    if (last === undefined) return null;
    const point = last.codePointAt(0) as number;
    if (point === 0x10ffff) continue;
    const next = point === 0xd7ff ? 0xe000 : point + 1;
    return points.join('') + String.fromCodePoint(next);
  }
}

/** Compares by UTF-8 bytes: negative, zero or positive. */
export function compareText(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
