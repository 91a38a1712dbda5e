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

/** The first unit of UTF-16 from which on units and code points differ in their order. */
const firstSurrogate = 0xd800;

/** Compares by UTF-8 bytes: negative, zero or positive. */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const one = a.charCodeAt(i);
    const other = b.charCodeAt(i);
    if (one === other) continue;
    if (one < firstSurrogate && other < firstSurrogate) return one - other;
    return Buffer.compare(Buffer.from(a), Buffer.from(b));
  }
  return a.length - b.length;
}
