// Chains that were verified, kept so that the next request with the same token costs one look-up,
// however many links it has. Invariant: a chain is found only before it expires, and never after
// something was forgotten that it may depend on. Revocation is asked for each request by `jti`; a
// key or principal that is taken away calls `forgetAll`.
import { RecentTokens } from '../recent-tokens.ts';
import { type Chain, type ChainOptions, verifyChain } from './chain.ts';

export interface VerifiedChainsOptions extends Omit<ChainOptions, 'nowMs'> {
  /** Bytes of the tokens in one of the two generations that are kept. */
  generationBytes?: number;
}

const MiB = 1024 * 1024;

export class VerifiedChains {
  readonly #options: VerifiedChainsOptions;
  readonly #recent: RecentTokens<{ chain: Chain; goodUntilMs: number }>;

  constructor(options: VerifiedChainsOptions) {
    this.#options = options;
    this.#recent = new RecentTokens(options.generationBytes ?? 8 * MiB);
  }

  /** How often it was of use. */
  get cache(): Pick<RecentTokens<never>, 'hits' | 'misses' | 'entries'> {
    return this.#recent;
  }

  /** The chain of a token that was verified before and has not expired. */
  find(text: string, nowMs: number): Chain | undefined {
    return this.#recent.find(text, nowMs)?.chain;
  }

  /** The same, verified now if it was not. Throws as `verifyChain` does. */
  async verify(text: string, nowMs: number): Promise<Chain> {
    const found = this.find(text, nowMs);
    if (found !== undefined) return found;
    const { epoch } = this.#recent;
    const chain = await verifyChain(text, { ...this.#options, nowMs });
    this.#recent.keep(text, { chain, goodUntilMs: chain.expiresAtMs }, epoch);
    return chain;
  }

  forgetAll(): void {
    this.#recent.forgetAll();
  }
}
