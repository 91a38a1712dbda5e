import { describe, expect, it } from 'vitest';
import {
  AttemptFailure,
  type FailureCause,
  failureCauses,
} from '#bursar/tiering/stores/attempt-failure.js';
import { failureOfAnswer, failureOfError } from '#bursar/tiering/stores/s3/failure.js';
import { defaultRetryPolicy, pauseMs, retry } from '#bursar/tiering/stores/s3/retry.js';

const policy = { triesMax: 5, pauseMsMin: 1, pauseMsMax: 2 };

/** Runs an attempt that always fails for this reason, and counts. */
async function countTries(reason: FailureCause, signal?: AbortSignal) {
  let tries = 0;
  const retried: FailureCause[] = [];
  const earlier: number[] = [];
  const error = await retry({
    policy,
    signal,
    attempt: async (earlierTries) => {
      tries++;
      earlier.push(earlierTries);
      throw new AttemptFailure(reason, 'as ever');
    },
    onRetry: (failure) => retried.push(failure.reason),
  }).catch((failure: unknown) => failure);
  return { tries, retried, earlier, error };
}

describe('retries', () => {
  it('try five times at most, and throw the last failure', async () => {
    const { tries, retried, earlier, error } = await countTries('http-500');
    expect(tries).toBe(5);
    expect(earlier).toEqual([0, 1, 2, 3, 4]);
    expect(retried).toEqual(Array.from({ length: 4 }, () => 'http-500'));
    expect(error).toMatchObject({ reason: 'http-500' });
  });

  it.each(failureCauses)('of %s happen only where another try may succeed', async (cause) => {
    const lasting: FailureCause[] = ['denied', 'no-bucket', 'unfit'];
    const { tries } = await countTries(cause);
    expect(tries).toBe(lasting.includes(cause) ? 1 : 5);
  });

  it('never repeat what failed by a bug', async () => {
    let tries = 0;
    const attempt = async (): Promise<void> => {
      tries++;
      throw new TypeError('a bug');
    };
    await expect(retry({ policy, attempt, onRetry: () => {} })).rejects.toThrow('a bug');
    expect(tries).toBe(1);
  });

  it('end in a pause when they are abandoned', async () => {
    const abort = new AbortController();
    const tried = retry({
      policy: { triesMax: 5, pauseMsMin: 1e9, pauseMsMax: 1e9 },
      signal: abort.signal,
      attempt: async () => {
        setTimeout(() => abort.abort(), 5);
        throw new AttemptFailure('reset', 'once');
      },
      onRetry: () => {},
    });
    await expect(tried).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('pause at random, up to a bound that doubles until it is capped', () => {
    const bounds = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => pauseMs(defaultRetryPolicy, n, () => 1));
    expect(bounds).toEqual([50, 100, 200, 400, 800, 1600, 2000, 2000]);
    expect(pauseMs(defaultRetryPolicy, 4, () => 0)).toBe(0);
    expect(pauseMs(defaultRetryPolicy, 4, () => 0.5)).toBe(200);
  });
});

describe('failures', () => {
  it.each<[number, string | undefined, FailureCause]>([
    [500, 'InternalError', 'http-500'],
    [503, 'SlowDown', 'http-503'],
    [429, undefined, 'http-503'],
    [507, undefined, 'http-other'],
    [501, 'NotImplemented', 'unfit'],
    [301, 'PermanentRedirect', 'unfit'],
    [404, undefined, 'unfit'],
    [404, 'NoSuchBucket', 'no-bucket'],
    [403, 'AccessDenied', 'denied'],
    [403, 'SignatureDoesNotMatch', 'credentials'],
    [403, 'InvalidAccessKeyId', 'credentials'],
    [403, 'RequestTimeTooSkewed', 'clock'],
    [400, 'ExpiredToken', 'expired'],
    [400, 'BadDigest', 'damaged'],
    [400, 'RequestTimeout', 'stall'],
    [409, 'ConditionalRequestConflict', 'conflict'],
  ])('HTTP %i %s counts as %s', (status, code, cause) => {
    expect(failureOfAnswer(status, code, '').reason).toBe(cause);
  });

  it.each<[string, FailureCause]>([
    ['ECONNREFUSED', 'refused'],
    ['ENOTFOUND', 'unreachable'],
    ['ECONNRESET', 'reset'],
    ['UND_ERR_SOCKET', 'reset'],
    ['UND_ERR_CONNECT_TIMEOUT', 'timeout-connect'],
    ['CERT_HAS_EXPIRED', 'unreachable'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'unreachable'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unreachable'],
  ])('%s counts as %s', (code, cause) => {
    expect(failureOfError(Object.assign(new Error('it failed'), { code })).reason).toBe(cause);
  });

  it.each<[FailureCause, boolean]>([
    ['refused', true],
    ['stall', true],
    ['http-503', true],
    ['denied', false],
    ['credentials', true],
    ['expired', true],
    ['clock', true],
    ['conflict', false],
    ['wrong-body', true],
    ['damaged', false],
  ])('%s is the fault of the server: %s', (cause, isFault) => {
    expect(new AttemptFailure(cause, '').serverFault).toBe(isFault);
  });

  it('that ask for fewer requests are known', () => {
    expect(failureOfAnswer(503, 'SlowDown', '').slowDown).toBe(true);
    expect(failureOfAnswer(429, undefined, '').slowDown).toBe(true);
    expect(failureOfAnswer(503, 'ServiceUnavailable', '').slowDown).toBe(false);
  });
});
