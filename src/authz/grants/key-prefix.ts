// Where a key lies to a prefix that means a place, as scopes and grants have it: boundaries are at
// slashes. `raw/2026` is the object of this key and all below `raw/2026/`; `raw/2026/` only what
// begins so; '' is everything. Invariant: `raw/2026` never has anything to do with `raw/20260`.

const slash = 47;

export function liesIn(key: string, prefix: string): boolean {
  return key === prefix || liesBelow(key, prefix);
}

/** As `liesIn`, without the object whose key is the prefix itself where that has no slash. */
export function liesBelow(key: string, prefix: string): boolean {
  if (prefix === '') return true;
  if (!key.startsWith(prefix)) return false;
  const last = prefix.length - 1;
  return prefix.charCodeAt(last) === slash || key.charCodeAt(last + 1) === slash;
}
