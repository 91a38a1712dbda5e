// Work on many items, a few at a time. Invariant: at most `width` are under way; after the first
// failure none is begun any more, and it rejects with that failure once those under way have ended.

/** Calls `work` for each item, in their order, at most `width` at a time. */
export async function inParallel<T>(
  items: Iterable<T> | AsyncIterable<T>,
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  let failure: { error: unknown } | null = null;
  const underWay = new Set<Promise<void>>();
  for await (const item of items) {
    const one = work(item)
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => underWay.delete(one));
    underWay.add(one);
    if (underWay.size >= width) await Promise.race(underWay);
    if (failure) break;
  }
  await Promise.all(underWay);
  if (failure) throw (failure as { error: unknown }).error;
}
