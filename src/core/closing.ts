// What ends with the block that opened it: `using _file = atEnd(() => closeSync(file))`. Not for
// the way of a request, where what TypeScript makes of it would be several calls more
// (docs/decisions/0081-stages-of-a-request.md).

/** Calls `end` at the end of the block, however it ends. */
export function atEnd(end: () => void): Disposable {
  return { [Symbol.dispose]: end };
}

/** Likewise, and waits for it: for `await using`. */
export function afterwards(end: () => Promise<void>): AsyncDisposable {
  return { [Symbol.asyncDispose]: end };
}
