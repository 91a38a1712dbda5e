// The credentials of a store, ready when a request is signed. Invariant: what `current` gives has
// not expired; it is loaded again in the background before it does, and at once when the server
// says that it has.
import { nowMs } from '../../../core/clock.ts';
import { AttemptFailure } from './failure.ts';

/** The credentials in the SDK's form. */
export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  /** Absent: they do not end. */
  expiration?: Date;
}

/** How long before their end new ones are asked for. Instance roles give new ones this early. */
const refreshAheadMs = 5 * 60_000;
/** The time before their end in which they might expire on the way, in milliseconds. */
const spareMs = 10_000;
/** Between two questions to a source that fails. */
const refreshPauseMs = 1000;
/** Between two because of refusals that need not be for the credentials. */
const doubtPauseMs = 10_000;

export class CredentialSource {
  readonly #load: (again: boolean) => Promise<Credentials>;
  #known: Credentials | undefined;
  #loading: Promise<Credentials> | null = null;
  #triedMs = Number.NEGATIVE_INFINITY;

  /** `load(true)` must not give what an earlier call gave and the server has refused. */
  constructor(load: (again: boolean) => Promise<Credentials>) {
    this.#load = load;
  }

  /** Undefined: there are none yet, or they have expired; then `refresh` must be waited for. */
  get current(): Credentials | undefined {
    const leftMs = timeLeftMs(this.#known);
    if (leftMs < refreshAheadMs && nowMs() - this.#triedMs > refreshPauseMs) {
      // Whoever needs them asks again and meets the error, if it lasts.
      this.refresh().catch(() => null);
    }
    return leftMs > spareMs ? this.#known : undefined;
  }

  /** Loads them; many callers share one question. Rejects with AttemptFailure `credentials`. */
  refresh(again = false): Promise<Credentials> {
    this.#loading ??= this.#ask(again).finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  /** The server has refused these. False: others have taken their place by now. */
  invalidate(refused: Credentials): boolean {
    if (this.#known !== refused) return false;
    this.#known = undefined;
    this.refresh(true).catch(() => null);
    return true;
  }

  /**
   * The server has denied what was asked with these. That may be for what they may do, or since the
   * sessions of a role were revoked, which AWS says in the same words: they are used on, and loaded
   * again beside that.
   */
  doubt(denied: Credentials): void {
    if (this.#known !== denied || nowMs() - this.#triedMs < doubtPauseMs) return;
    this.refresh(true).catch(() => null);
  }

  async #ask(again: boolean): Promise<Credentials> {
    this.#triedMs = nowMs();
    try {
      this.#known = await this.#load(again);
      return this.#known;
    } catch (cause) {
      const message = `no credentials: ${(cause as Error).message}`;
      throw new AttemptFailure('credentials', message, { cause });
    }
  }
}

function timeLeftMs(credentials: Credentials | undefined): number {
  if (!credentials) return 0;
  const { expiration } = credentials;
  return expiration ? expiration.getTime() - nowMs() : Number.POSITIVE_INFINITY;
}
