// The keys of one outside issuer, fetched when a token needs them. Invariant: however many tokens
// ask, known or forged, an issuer is asked once at a time, and not again within `retryMs`; so one
// that is down or hangs costs others nothing, and its own users one wait: after a failure they wait
// no more as long as its last keys are good, and else once in `retryMs`.
// Specification: OpenID Connect Core 1.0 section 10.1.1 (rotation of signing keys).
import type { CryptoKey, JSONWebKeySet, JWSHeaderParameters } from 'jose';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';

/** After this keys are fetched again, so that one which the issuer withdrew is noticed. */
export const keysFreshMs = 10 * 60_000;
/** While the issuer cannot be asked, its last keys are good for so long. */
export const keysKeptMs = 24 * 3600_000;
/**
 * How soon an issuer is asked again, for a key that is not among its last ones or after a failure.
 */
export const retryMs = 30_000;

/** All that a tenant's admin is told of it: more would show what is in the gateway's network. */
export const keysProblem = 'its keys could not be fetched: the operator has the reason in the log';

export type FetchKeys = () => Promise<JSONWebKeySet>;

/** What is known of an issuer's keys, for its tenant's admin. */
export interface KeysState {
  count: number;
  /** null: never. */
  fetchedAt: string | null;
  /**
   * Whether the last try failed, without the reason, which only the operator is told. Null: it did
   * not.
   */
  problem: string | null;
}

interface KeySet {
  find: (header: JWSHeaderParameters) => Promise<CryptoKey>;
  count: number;
  fetchedMs: number;
}

export class IssuerKeys {
  readonly #fetch: FetchKeys;
  readonly #onProblem: (reason: string) => void;
  #set: KeySet | null = null;
  #fetching: Promise<void> | null = null;
  #triedMs = Number.NEGATIVE_INFINITY;
  #goodUntilMs = Number.NEGATIVE_INFINITY;
  #problem: string | null = null;

  /** `onProblem` is told why a try failed. */
  constructor(fetch: FetchKeys, onProblem: (reason: string) => void = () => {}) {
    this.#fetch = fetch;
    this.#onProblem = onProblem;
  }

  get state(): KeysState {
    const { count = 0, fetchedMs } = this.#set ?? {};
    const fetchedAt = fetchedMs === undefined ? null : isoTime(fetchedMs);
    return { count, fetchedAt, problem: this.#problem };
  }

  /** Until then, what these keys verified needs not be verified again. */
  get goodUntilMs(): number {
    return this.#goodUntilMs;
  }

  /**
   * The key that a token's header names. Throws Refusal InvalidBearerToken, or an error of jose.
   */
  async find(header: JWSHeaderParameters, nowMs: number): Promise<CryptoKey> {
    if (nowMs >= this.#goodUntilMs) {
      const refreshed = this.#refresh(nowMs);
      if (!this.#problem || !this.#isGood(nowMs)) await refreshed;
    }
    try {
      return await this.#usable(nowMs).find(header);
    } catch (error) {
      const { errors } = await import('jose');
      const isNew = error instanceof errors.JWKSNoMatchingKey;
      if (!isNew || !(await this.#refresh(nowMs))) throw error;
      return this.#usable(nowMs).find(header);
    }
  }

  #usable(nowMs: number): KeySet {
    if (this.#set && this.#isGood(nowMs)) return this.#set;
    throw new Refusal('InvalidBearerToken', {
      message: 'The token cannot be verified: its issuer gives no keys at this time.',
      fields: { Reason: 'IssuerKeys' },
    });
  }

  #isGood(nowMs: number): boolean {
    return this.#set !== null && nowMs < this.#set.fetchedMs + keysKeptMs;
  }

  /** False: the issuer was asked a moment ago. */
  async #refresh(nowMs: number): Promise<boolean> {
    if (!this.#fetching) {
      if (nowMs < this.#triedMs + retryMs) return false;
      this.#triedMs = nowMs;
      this.#fetching = this.#load(nowMs).finally(() => {
        this.#fetching = null;
      });
    }
    await this.#fetching;
    return true;
  }

  async #load(nowMs: number): Promise<void> {
    try {
      const { createLocalJWKSet } = await import('jose');
      const keys = await this.#fetch();
      this.#set = { find: createLocalJWKSet(keys), count: keys.keys.length, fetchedMs: nowMs };
      this.#problem = null;
      this.#goodUntilMs = nowMs + keysFreshMs;
    } catch (error) {
      this.#problem = keysProblem;
      this.#onProblem(reasonOf(error as NodeJS.ErrnoException));
      this.#goodUntilMs = nowMs + retryMs;
    }
  }
}

/** Where several addresses were tried there is a code, and no message. */
function reasonOf({ message, code }: NodeJS.ErrnoException): string {
  return message || String(code);
}
