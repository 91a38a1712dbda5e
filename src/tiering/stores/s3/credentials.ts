// The credentials of a store, ready when a request is signed. Invariant: what `current` gives has
// not expired; it is loaded again in the background before it does, and at once when the server
// says that it has.
import { nowMs } from '../../../core/clock.ts';
import { AttemptFailure } from '../attempt-failure.ts';

/** The credentials in the SDK's form. */
export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  /** Absent: they do not expire. */
  expiration?: Date;
}

/** `true`: not those that an earlier call gave and the server has refused. */
export type LoadCredentials = (again: boolean) => Promise<Credentials>;

/** How long before they expire they are loaded again. Instance roles give new ones this early. */
const refreshAheadMs = 5 * 60_000;
/** How long before they expire they are not used any more, since a request takes its time. */
const spareMs = 10_000;
/** The pause between two loads from a source that fails. */
const refreshPauseMs = 1000;
/** The pause between two loads after refusals for which the credentials may not be the reason. */
const doubtPauseMs = 10_000;

export class CredentialSource {
  readonly #load: LoadCredentials;
  #known: Credentials | undefined;
  #loading: Promise<Credentials> | null = null;
  #triedMs = Number.NEGATIVE_INFINITY;

  constructor(load: LoadCredentials) {
    this.#load = load;
  }

  /** Undefined: there are none yet, or they have expired; then `refresh` must be awaited. */
  get current(): Credentials | undefined {
    const leftMs = timeLeftMs(this.#known);
    if (leftMs < refreshAheadMs && nowMs() - this.#triedMs > refreshPauseMs) {
      // Whoever needs them asks again and meets the error, if it lasts.
      this.refresh().catch(() => null);
    }
    return leftMs > spareMs ? this.#known : undefined;
  }

  /** Loads them, once for all callers of the moment. Rejects with AttemptFailure `credentials`. */
  refresh(again = false): Promise<Credentials> {
    this.#loading ??= this.#ask(again).finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  /** To be called when the server refused these. False: others have taken their place by now. */
  invalidate(refused: Credentials): boolean {
    if (this.#known !== refused) return false;
    this.#known = undefined;
    this.refresh(true).catch(() => null);
    return true;
  }

  /**
   * To be called when the server denied what was asked with these. They may lack the right, or the
   * sessions of their role may have been revoked; AWS answers both in the same words. So they are
   * still used, and loaded again meanwhile.
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
