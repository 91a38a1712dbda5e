// Chains that were verified, kept so that the next request with the same token costs one look-up,
// however many links it has. Invariant: a chain is found only before it expires, and never after
// something was changed that it may depend on. Revocation is asked for each request by `jti`; where
// a key or principal is taken away, whoever gave `recent` clears it.
import type { RecentTokens } from '../recent-tokens.ts';
import { type Chain, type ChainOptions, verifyChain } from './chain.ts';

export type RecentChains = RecentTokens<{ chain: Chain; goodUntilMs: number }>;

export interface VerifiedChainsOptions extends Omit<ChainOptions, 'nowMs'> {
  /** Where they are kept. */
  recent: RecentChains;
}

export class VerifiedChains {
  readonly #options: VerifiedChainsOptions;
  readonly #recent: RecentChains;

  constructor(options: VerifiedChainsOptions) {
    this.#options = options;
    this.#recent = options.recent;
  }

  /** How often it was of use. */
  get cache(): Pick<RecentTokens<never>, 'hits' | 'misses' | 'entries'> {
    return this.#recent;
  }

  /** The chain of a token that was verified before and has not expired. */
  find(text: string, nowMs: number): Chain | undefined {
    return this.#recent.find(text, nowMs)?.chain;
  }

  /**
   * Gives the chain, and verifies it where that was not done before. Throws as `verifyChain` does.
   */
  async verify(text: string, nowMs: number): Promise<Chain> {
    const found = this.find(text, nowMs);
    if (found !== undefined) return found;
    const { asOf } = this.#recent;
    const chain = await verifyChain(text, { ...this.#options, nowMs });
    this.#recent.keep(text, { chain, goodUntilMs: chain.expiresAtMs }, asOf);
    return chain;
  }
}
