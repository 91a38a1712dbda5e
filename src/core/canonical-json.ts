// Canonical JSON: RFC 8785 (JCS). JSON.stringify writes strings and numbers as it demands; what is
// left is the order of members, by UTF-16 code units. Pure.

/** Of what JSON can say. Throws a RangeError where it is nested so deeply that it cannot be honest. */
export function canonicalize(value: unknown, depthMax = 64): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depthMax === 0) throw new RangeError('the value is nested too deeply');
  if (Array.isArray(value)) {
    return `[${value.map((one) => canonicalize(one, depthMax - 1)).join(',')}]`;
  }
  const members = Object.entries(value)
    .filter(([, one]) => one !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, one]) => `${JSON.stringify(name)}:${canonicalize(one, depthMax - 1)}`);
  return `{${members.join(',')}}`;
}

/** What canonical JSON says; undefined: it is none, of which there is exactly one for each value. */
export function parseCanonical(bytes: Uint8Array): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    return canonicalize(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}
