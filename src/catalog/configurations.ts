// Settings of which a bucket has several, each under an id: JSON of all of them, by id. Pure.

/** What is asked for: a configuration, or that there is none of its id. */
export interface AskedConfiguration<T> {
  id: string;
  config: T | null;
}

/** All that are stored; null: there are none. */
export function parseConfigurations<T>(document: string | null): T[] {
  return document === null ? [] : (JSON.parse(document) as T[]);
}

/** What is stored where `before` was; undefined: there are too many, or there is none to remove. */
export function mergeConfiguration(
  { id, config }: AskedConfiguration<{ id: string }>,
  before: string | null,
  { max, lengthMax = Number.POSITIVE_INFINITY }: { max: number; lengthMax?: number },
): string | null | undefined {
  const known = parseConfigurations<{ id: string }>(before);
  const others = known.filter((one) => one.id !== id);
  if (config === null && others.length === known.length) return undefined;
  const all = config === null ? others : [...others, config];
  if (all.length > max) return undefined;
  const sorted = all.sort((one, other) => (one.id < other.id ? -1 : 1));
  const document = sorted.length === 0 ? null : JSON.stringify(sorted);
  return document !== null && document.length > lengthMax ? undefined : document;
}
