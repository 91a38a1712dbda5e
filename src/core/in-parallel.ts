// Work on many items, a few at a time. Invariant: at most `width` are under way; after the first
// failure none is begun any more, and it rejects with that failure once those under way have ended.

/** Calls `work` for each item, in their order, at most `width` at a time. */
export async function inParallel<T>(
  items: Iterable<T> | AsyncIterable<T>,
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  let failure: { error: unknown } | null = null;
  let underWay = 0;
  let wake = (): void => {};
  const settled = (): void => {
    underWay--;
    wake();
  };
  const becomesFewerThan = async (max: number): Promise<void> => {
    while (underWay >= max) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  for await (const item of items) {
    underWay++;
    work(item)
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(settled);
    await becomesFewerThan(width);
    if (failure) break;
  }
  await becomesFewerThan(1);
  if (failure) throw (failure as { error: unknown }).error;
}
