// One measured transfer: a request, tried up to six times as the studies did, and the sample that
// comes of it. Invariant: every transfer that began ends in one sample, kept before the next one
// begins; unless the probe itself ends it.
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs, nowMs } from '../../core/clock.ts';
import type { Sample, Series } from '../sample.ts';
import { type Answer, type Exchange, type ProbeLine, reasonOf } from './probe-line.ts';
import { ProbeEnd, type Spending, type Work } from './spending.ts';

/** Garfinkel 2007 and Palankar 2008 count availability after up to 5 retries. */
export const retriesMax = 5;

/** What a transfer is about, as its sample says it. */
export interface Measured
  extends Pick<Sample, 'kind' | 'sizeBytes' | 'pair' | 'threads' | 'parallelParts'> {
  series: Series;
}

export interface Tries {
  retries: number;
  error: string | null;
  firstByteMs: number;
  answer: Answer | null;
}

export interface TransferContext {
  spending: Spending;
  signal: AbortSignal;
  retryPauseMs: { min: number; max: number };
  /** Resolves when the sample cannot be lost any more. */
  keep(sample: Sample): Promise<void>;
}

/** After one of these codes a server will refuse all later requests as well. */
const finalCodes: ReadonlySet<string> = new Set([
  ...[
    'AccessDenied',
    'InvalidAccessKeyId',
    'SignatureDoesNotMatch',
    'NoSuchBucket',
    'InvalidBucketName',
  ],
  ...['PermanentRedirect', 'AuthorizationHeaderMalformed', 'AllAccessDisabled', 'ExpiredToken'],
]);

/**
 * The whole of it: tries, and its sample. Rejects with `ProbeEnd`, or when no sample can be kept.
 */
export async function measure(
  context: TransferContext,
  { target }: ProbeLine,
  measured: Measured,
  work: () => Promise<{ tries: Tries; cost: bigint }>,
): Promise<Tries> {
  const timeMs = nowMs();
  const beganMs = monotonicMs();
  const { tries, cost } = await work();
  const durationMs = monotonicMs() - beganMs;
  const { retries, error, firstByteMs } = tries;
  // A server that refuses these credentials is available for others: this is no measure of it.
  if (error !== null && finalCodes.has(codeOf(tries.answer))) throw new ProbeEnd('refused', error);
  await context.keep({
    ...{ timeMs, target: target.name, durationMs, firstByteMs, retries, error },
    ...measured,
    ...(target.prices && { costPicodollars: String(cost) }),
  });
  return tries;
}

/** Tries a request until it succeeds, at most six times. Rejects with `ProbeEnd`. */
export async function attempt(
  context: TransferContext,
  line: ProbeLine,
  given: { work: Work; exchange: () => Omit<Exchange, 'signal'>; check?: (answer: Answer) => void },
): Promise<{ tries: Tries; cost: bigint }> {
  const { spending, signal } = context;
  let cost = 0n;
  for (let retries = 0; ; retries++) {
    signal.throwIfAborted();
    cost += spending.spend(line.target.prices, given.work);
    const beganMs = monotonicMs();
    let answer: Answer | null = null;
    let error: string;
    try {
      answer = await line.exchange({ ...given.exchange(), signal });
      error = failureOf(answer);
      if (error === '') {
        given.check?.(answer);
        return { tries: { retries, error: null, firstByteMs: answer.firstByteMs, answer }, cost };
      }
    } catch (thrown) {
      signal.throwIfAborted();
      error = reasonOf(thrown);
    }
    endIfSpent(answer);
    if (retries === retriesMax || !mayPass(given.exchange().method, answer)) {
      const firstByteMs = answer?.firstByteMs ?? monotonicMs() - beganMs;
      return { tries: { retries, error, firstByteMs, answer }, cost };
    }
    const { min, max } = context.retryPauseMs;
    const bound = Math.min(max, min * 2 ** retries);
    await sleep(Math.random() * bound, undefined, { signal });
  }
}

/** '': none. */
function failureOf(answer: Answer): string {
  const { status } = answer;
  if (status >= 200 && status < 300) return '';
  const code = codeOf(answer);
  return code === '' ? `HTTP ${status}` : `HTTP ${status} ${code}`;
}

/** The code in S3's error document. */
export function codeOf(answer: Answer | null): string {
  return /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(answer?.text ?? '')?.[1] ?? '';
}

/** A budget that is used up is not the server's failure: there is nothing to measure any more. */
function endIfSpent(answer: Answer | null): void {
  if (codeOf(answer) !== 'QuotaExceeded') return;
  const reset = /<Reset>([0-9TZ:.-]{1,32})<\/Reset>/.exec(answer?.text ?? '')?.[1];
  throw new ProbeEnd('spent', `the gateway's limit is used up${reset ? ` until ${reset}` : ''}`);
}

/** Whether a failure may pass: for a read also that what was just written is not there. */
function mayPass(method: string, answer: Answer | null): boolean {
  if (!answer) return true;
  const { status } = answer;
  if (status >= 500 || status === 408 || status === 429) return true;
  if (status >= 200 && status < 300) return true;
  return method === 'GET' && status === 404 && codeOf(answer) !== 'NoSuchBucket';
}
