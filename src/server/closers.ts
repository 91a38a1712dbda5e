// Functions that close what was opened, in the order of opening.
export type Closers = (() => void | Promise<void>)[];

/** Has `resource` closed with the others. Gives `resource` back. */
export function opened<T extends { close(): void | Promise<void> }>(
  closers: Closers,
  resource: T,
): T {
  closers.push(() => resource.close());
  return resource;
}

/** Closes in reverse order. */
export async function closeAll(closers: Closers): Promise<void> {
  for (let close = closers.pop(); close; close = closers.pop()) await close();
}
