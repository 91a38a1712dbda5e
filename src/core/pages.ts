// A list that is read a page at a time, so that no list has to be in memory whole.

/**
 * Gives the pages one after the other. `read`: reads what comes after the last row of the page
 * before; undefined: from the first on. A page without rows is the end.
 */
export async function* pages<R>(read: (last: R | undefined) => Promise<R[]>): AsyncGenerator<R[]> {
  for (let page = await read(undefined); page.length > 0; page = await read(page.at(-1))) {
    yield page;
  }
}
