// The memory of bytes that came from a socket and were copied to where they belong.

/** ES2024, which the types of ES2023 do not know; Node has had it since 21. */
type Transferable = ArrayBuffer & { transfer(bytes: number): ArrayBuffer };

/** Less is not worth the call. */
const leastBytes = 4096;

/**
 * Frees the memory of `bytes` now, where nothing else lies in it; they are empty afterwards, so
 * nobody may still read them. Left to the garbage collector, the buffers of a large body make it
 * mark the whole heap for every 30 MB that come, which took a third of the processor time of a PUT
 * of 16 MiB on Node 24.
 */
export function discard(bytes: Buffer): void {
  const { buffer } = bytes;
  if (bytes.length < leastBytes || bytes.length !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) (buffer as Transferable).transfer(0);
}
