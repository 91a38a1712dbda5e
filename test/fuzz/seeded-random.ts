// Randomness that repeats: a fuzz test that fails names the seed, and the seed alone fails it
// again.
// Invariant: the same seed gives the same numbers on every machine. The generator is mulberry32.

/** Uniform numbers in [0, 1), the same for the same 32-bit seed. */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A whole number in [0, bound). */
export function randomBelow(random: () => number, bound: number): number {
  return Math.floor(random() * bound);
}

/** One element of a list that is not empty. */
export function randomOf<T>(random: () => number, items: readonly T[]): T {
  return items[randomBelow(random, items.length)] as T;
}

/** `count` random bytes. */
export function randomBytesOf(random: () => number, count: number): Buffer {
  const bytes = Buffer.allocUnsafe(count);
  for (let i = 0; i < count; i++) bytes[i] = randomBelow(random, 256);
  return bytes;
}

/** How long a fuzz loop goes on, in milliseconds; 0 without BURSAR_FUZZ_SECONDS. */
export const fuzzMs = Number(process.env.BURSAR_FUZZ_SECONDS ?? 0) * 1000;

/** A timeout for `it(…, fuzzTimeoutMs)` that a long run, or one at full length, does not exceed. */
export const fuzzTimeoutMs = (process.env.BURSAR_FULL === '1' ? 600_000 : 60_000) + 2 * fuzzMs;

/**
 * Runs `fn` for the seeds seedBase, seedBase + 1, …: `iterations` of them, and more until
 * BURSAR_FUZZ_SECONDS have passed. A failure is thrown again with its seed in the message.
 */
export async function fuzz(
  seedBase: number,
  iterations: number,
  fn: (random: () => number, seed: number) => void | Promise<void>,
): Promise<void> {
  const end = performance.now() + fuzzMs;
  for (let i = 0; i < iterations || performance.now() < end; i++) {
    const seed = seedBase + i;
    try {
      await fn(seededRandom(seed), seed);
    } catch (error) {
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  }
}
