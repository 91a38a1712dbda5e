// Chains that were verified, kept so that the next request with the same token costs one look-up,
// however many links it has. Invariant: a chain is found only before it expires, and never after
// something was forgotten that it may depend on. Revocation is asked for each request by `jti`; a
// key or principal that is taken away calls `forgetAll`.
import { type Chain, type ChainOptions, verifyChain } from './chain.ts';

export interface VerifiedChainsOptions extends Omit<ChainOptions, 'nowMs'> {
  /** Bytes of the tokens in one of the two generations that are kept. */
  generationBytes?: number;
}

const MiB = 1024 * 1024;

/**
 * By its end, most of the last signature, a token is found without hashing all of it. Ends that are
 * equal may be made; what is found must be the whole text.
 */
const endLength = 64;

interface Kept {
  text: string;
  chain: Chain;
}

export class VerifiedChains {
  readonly #options: VerifiedChainsOptions;
  readonly #generationBytes: number;
  #young = new Map<string, Kept>();
  #youngBytes = 0;
  #old = new Map<string, Kept>();
  #epoch = 0;

  constructor(options: VerifiedChainsOptions) {
    this.#options = options;
    this.#generationBytes = options.generationBytes ?? 8 * MiB;
  }

  /** The chain of a token that was verified before and has not expired. */
  find(text: string, nowMs: number): Chain | undefined {
    const end = text.slice(-endLength);
    let kept = this.#young.get(end);
    if (kept?.text !== text) {
      kept = this.#old.get(end);
      if (kept?.text !== text) return undefined;
      this.#keep(text, kept.chain);
    }
    return nowMs < kept.chain.expiresAtMs ? kept.chain : undefined;
  }

  /** The same, verified now if it was not. Throws as `verifyChain` does. */
  async verify(text: string, nowMs: number): Promise<Chain> {
    const found = this.find(text, nowMs);
    if (found !== undefined) return found;
    const epoch = this.#epoch;
    const chain = await verifyChain(text, { ...this.#options, nowMs });
    // What was forgotten meanwhile may be what it was verified with.
    if (epoch === this.#epoch) this.#keep(text, chain);
    return chain;
  }

  forgetAll(): void {
    this.#epoch++;
    this.#young = new Map();
    this.#old = new Map();
    this.#youngBytes = 0;
  }

  #keep(text: string, chain: Chain): void {
    if (this.#youngBytes + text.length > this.#generationBytes) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#youngBytes = 0;
    }
    this.#young.set(text.slice(-endLength), { text, chain });
    this.#youngBytes += text.length;
  }
}
