// Tries a request again after it failed, with exponential back-off and full jitter. Invariant: the
// tries of one request are bounded, and so is every pause, so that no request hangs.
// Source: "Exponential Backoff And Jitter", AWS Architecture Blog.
import { setTimeout as sleep } from 'node:timers/promises';
import { AttemptFailure } from '../attempt-failure.ts';

export interface RetryPolicy {
  triesMax: number;
  /** The pause before the second try is random up to this; each later bound is twice as long. */
  pauseMsMin: number;
  pauseMsMax: number;
}

export const defaultRetryPolicy: RetryPolicy = { triesMax: 5, pauseMsMin: 50, pauseMsMax: 2000 };

/** Returns how many milliseconds to wait after so many failed tries. */
export function pauseMs(policy: RetryPolicy, failures: number, random = Math.random): number {
  return random() * Math.min(policy.pauseMsMax, policy.pauseMsMin * 2 ** (failures - 1));
}

/**
 * Runs `attempt` until it succeeds, throws something else than a passing AttemptFailure, or has
 * used up its tries: then throws the last failure. `onRetry` is called before each further try.
 * Only
 * for what may be done twice.
 */
export async function retry<T>(options: {
  policy: RetryPolicy;
  attempt: (earlierTries: number) => Promise<T>;
  onRetry: (failure: AttemptFailure) => void;
  signal?: AbortSignal;
}): Promise<T> {
  const { policy, attempt, onRetry, signal } = options;
  for (let tries = 1; ; tries++) {
    try {
      return await attempt(tries - 1);
    } catch (error) {
      const mayPass = error instanceof AttemptFailure && error.passing;
      if (!mayPass || tries >= policy.triesMax) throw error;
      onRetry(error);
      await sleep(pauseMs(policy, tries), undefined, { signal });
    }
  }
}
