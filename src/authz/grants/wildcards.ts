// Texts with wildcards: `*` is any run of units, `?` any one UTF-16 unit. A pattern is kept as the
// segments between its stars. Invariant: matching goes over the text once; only segments with `?`
// can cost their length at each place, and their total is bounded (bounds.ts).

/** Stands for `?` in a segment: half a surrogate pair, which no text that we read contains. */
export const anyUnit = '\ud800';

/** The segments of a pattern in which nothing is escaped. */
export function wildcardSegments(text: string): string[] {
  return text.replaceAll('?', anyUnit).split('*');
}

export function matchesSegments(segments: readonly string[], text: string): boolean {
  const first = segments[0] as string;
  if (segments.length === 1) return text.length === first.length && fitsAt(first, text, 0);
  const last = segments[segments.length - 1] as string;
  const end = text.length - last.length;
  if (end < first.length || !fitsAt(first, text, 0) || !fitsAt(last, text, end)) return false;
  let at = first.length;
  for (let i = 1; i < segments.length - 1; i++) {
    const segment = segments[i] as string;
    at = find(segment, text, at);
    if (at < 0) return false;
    at += segment.length;
  }
  return at <= end;
}

function fitsAt(segment: string, text: string, at: number): boolean {
  if (!segment.includes(anyUnit)) return text.startsWith(segment, at);
  if (at + segment.length > text.length) return false;
  for (let i = 0; i < segment.length; i++) {
    if (segment[i] !== anyUnit && segment[i] !== text[at + i]) return false;
  }
  return true;
}

/** Where the segment first fits, from `from` on; -1: nowhere. */
function find(segment: string, text: string, from: number): number {
  if (!segment.includes(anyUnit)) return text.indexOf(segment, from);
  for (let at = from; at + segment.length <= text.length; at++) {
    if (fitsAt(segment, text, at)) return at;
  }
  return -1;
}
