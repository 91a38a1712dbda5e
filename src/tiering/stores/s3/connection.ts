// The way of requests to one S3 server: signed by us, sent with undici, one slot each, watched by
// one patrol, counted, and held against the server when they fail. Invariant: whatever the server
// does, a request ends within the timeouts and tries it has, and its slot is given back once.

import type { S3Client } from '@aws-sdk/client-s3';
import { Pool } from 'undici';
import { percentEncode } from '../../../core/canonical-request.ts';
import { nowMs } from '../../../core/clock.ts';
import { signRequest } from '../../../core/sigv4.ts';
import type { StoreAddress } from './address.ts';
import { type Answer, type AnswerBody, Attempt, type Outcome, type Phase } from './attempt.ts';
import { Breaker, type BreakerState, refusalOf } from './breaker.ts';
import { CredentialSource, type Credentials } from './credentials.ts';
import {
  AttemptFailure,
  createFailureCounts,
  type FailureCause,
  type FailureCounts,
  failureOfError,
} from './failure.ts';
import { RequestSlots } from './request-slots.ts';
import { type RetryPolicy, retry } from './retry.ts';

export interface StoreRequest {
  method: 'GET' | 'PUT' | 'HEAD' | 'DELETE';
  /** Relative to the store's prefix, decoded. */
  name: string;
  /** Signed, besides `host`. */
  headers?: Readonly<Record<string, string>>;
  pieces?: readonly Buffer[];
  body?: AnswerBody;
  signal?: AbortSignal;
  /** Sent even while the breaker is open, to find out whether it may close. */
  isTrial?: boolean;
}

type Admission = Pick<StoreRequest, 'signal' | 'isTrial'>;

/** Milliseconds without progress until a try is given up. */
export interface Timeouts {
  connectMs: number;
  firstByteMs: number;
  stallMs: number;
}

export interface ConnectionOptions {
  address: StoreAddress;
  client: S3Client;
  connectionsMax: number;
  timeouts: Timeouts;
  retryPolicy: RetryPolicy;
  breaker: { failuresMax: number; pauseMsMin: number; pauseMsMax: number };
  /** Finds out whether a server that was down is back. */
  trial: () => Promise<void>;
  onBreaker: (state: BreakerState, failure?: AttemptFailure) => void;
}

/** How long a connection without a request is kept: S3 closes it after some 20 seconds. */
const idleMs = 10_000;
/** How long a request waits for a slot: as long as one that hangs can hold it, and some more. */
const slotWaitFactor = 2;

const phaseFailures: Record<Phase, { cause: FailureCause; message: string }> = {
  connect: { cause: 'timeout-connect', message: 'no connection in time' },
  send: { cause: 'stall', message: 'the server takes no more bytes' },
  firstByte: { cause: 'timeout-first-byte', message: 'no answer in time' },
  body: { cause: 'stall', message: 'no more bytes come' },
};

export class Connection {
  readonly retries: FailureCounts = createFailureCounts();
  readonly failures: FailureCounts = createFailureCounts();
  readonly slots: RequestSlots;
  readonly breaker: Breaker;
  readonly credentials: CredentialSource;
  requests = 0;
  lastFailure: { reason: FailureCause; message: string; timeMs: number } | undefined;
  readonly #options: ConnectionOptions;
  readonly #pool: Pool;
  readonly #underWay = new Set<Attempt>();
  readonly #tickMs: number;
  readonly #ticksMax: Record<Phase, number>;
  #patrol: NodeJS.Timeout | null = null;

  constructor(options: ConnectionOptions) {
    const { address, client, connectionsMax, timeouts, breaker, trial, onBreaker } = options;
    this.#options = options;
    const { connectMs, firstByteMs, stallMs } = timeouts;
    this.slots = new RequestSlots(
      connectionsMax,
      slotWaitFactor * (connectMs + firstByteMs + stallMs),
    );
    this.credentials = new CredentialSource((again) =>
      (client.config.credentials as LoadCredentials)({ forceRefresh: again }),
    );
    this.breaker = new Breaker({
      ...breaker,
      trial,
      onChange: (state, failure) => {
        if (state === 'open') this.slots.refuseWaiting(this.breaker.refusal());
        onBreaker(state, failure);
      },
    });
    // Its own timeouts run in steps of half a second. The patrol's count ticks of a timer instead
    // of looking at the clock, so that a busy event loop is not taken for a slow server.
    this.#pool = new Pool(address.origin, {
      connectTimeout: connectMs,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleMs,
    });
    const shortestMs = Math.min(connectMs, firstByteMs, stallMs);
    this.#tickMs = Math.min(250, Math.max(5, Math.floor(shortestMs / 8)));
    const ticksOf = (ms: number): number => Math.ceil(ms / this.#tickMs);
    this.#ticksMax = {
      connect: ticksOf(connectMs),
      send: ticksOf(stallMs),
      firstByte: ticksOf(firstByteMs),
      body: ticksOf(stallMs),
    };
  }

  /**
   * Runs `attempt`, which may be done twice, until it succeeds or is given up: then it throws the
   * last AttemptFailure, or what else `attempt` threw.
   */
  retry<T>(attempt: (earlierTries: number) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { retryPolicy: policy } = this.#options;
    const onRetry = (failure: AttemptFailure): void => {
      this.retries[failure.reason]++;
    };
    return retry({ policy, attempt, onRetry, signal });
  }

  /** The same for clients: Refusal ServiceUnavailable or SlowDown when the server cannot. */
  async persist<T>(
    attempt: (earlierTries: number) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    try {
      return await this.retry(attempt, signal);
    } catch (error) {
      throw error instanceof AttemptFailure ? refusalOf(error) : error;
    }
  }

  /** One try. Rejects with AttemptFailure, Refusal when the breaker is open, or what `body` threw. */
  async exchange(request: StoreRequest): Promise<Answer> {
    const credentials = await this.admit(request);
    return this.begin(request, credentials).done;
  }

  /** Waits for a slot and gives what to sign with. Who called it must `begin`. */
  async admit({ signal, isTrial }: Admission): Promise<Credentials> {
    signal?.throwIfAborted();
    if (!isTrial) this.breaker.admit();
    const credentials = this.credentials.current ?? (await this.#loadCredentials());
    if (!this.slots.tryTake()) await this.slots.take(signal);
    return credentials;
  }

  /** Sends a request, for which the caller has taken a slot; gives the slot back when it is over. */
  begin(request: StoreRequest, credentials: Credentials): Attempt {
    const { method, pieces, signal } = request;
    const path = `${this.#options.address.pathStart}${request.name}`;
    const headers = this.#sign(request, path, credentials);
    const stop = signal && ((): void => attempt.abandon(signal.reason));
    const attempt = new Attempt({
      method,
      pieces,
      body: request.body,
      onSettled: (_, outcome) => {
        if (stop) signal.removeEventListener('abort', stop);
        this.#underWay.delete(attempt);
        this.slots.release();
        this.#account(outcome);
        if (outcome instanceof AttemptFailure && outcome.reason === 'credentials') {
          this.credentials.invalidate();
        }
      },
    });
    this.requests++;
    this.#underWay.add(attempt);
    this.#patrol ??= setInterval(() => this.#look(), this.#tickMs).unref();
    if (stop) signal.addEventListener('abort', stop);
    const body = attempt.requestBody as Buffer | null;
    this.#pool.dispatch({ method, path: percentEncode(path, true), headers, body }, attempt);
    return attempt;
  }

  /** One try through the SDK's client, admitted and counted like any other. */
  async send<T>(admission: Admission, call: () => Promise<T>): Promise<T> {
    await this.admit(admission);
    this.requests++;
    try {
      const answer = await call();
      this.#account('answered');
      return answer;
    } catch (error) {
      const failure = failureOfError(error);
      this.#account(failure);
      throw failure;
    } finally {
      this.slots.release();
    }
  }

  /** Ends all that is under way, as failed. */
  async close(): Promise<void> {
    this.breaker.close();
    clearInterval(this.#patrol ?? undefined);
    const error = new AttemptFailure('reset', 'the store is closed');
    this.slots.refuseWaiting(refusalOf(error));
    for (const attempt of this.#underWay) attempt.abandon(refusalOf(error));
    await this.#pool.destroy();
  }

  async #loadCredentials(): Promise<Credentials> {
    try {
      return await this.credentials.refresh();
    } catch (error) {
      this.#account(error as AttemptFailure);
      throw error;
    }
  }

  #sign(request: StoreRequest, path: string, credentials: Credentials): string[] {
    const { method, headers, pieces } = request;
    const { accessKeyId, secretAccessKey: secret, sessionToken } = credentials;
    const { host, region } = this.#options.address;
    const signed: Record<string, string> = { host, ...headers };
    if (sessionToken !== undefined) signed['x-amz-security-token'] = sessionToken;
    const scope = { accessKeyId, secret, region };
    const added = signRequest({ ...scope, method, path, headers: signed, timeMs: nowMs() });
    const all: string[] = [];
    for (const name in signed) all.push(name, signed[name] as string);
    for (const name in added) all.push(name, added[name] as string);
    if (pieces) all.push('content-length', String(countBytes(pieces)));
    return all;
  }

  #look(): void {
    if (this.#underWay.size === 0) {
      clearInterval(this.#patrol ?? undefined);
      this.#patrol = null;
      return;
    }
    for (const attempt of this.#underWay) {
      if (++attempt.idleTicks <= this.#ticksMax[attempt.phase]) continue;
      const { cause, message } = phaseFailures[attempt.phase];
      attempt.fail(new AttemptFailure(cause, message));
    }
  }

  #account(outcome: Outcome): void {
    if (outcome === 'abandoned') return;
    if (outcome === 'answered') {
      this.breaker.succeed();
      return;
    }
    this.failures[outcome.reason]++;
    this.lastFailure = { reason: outcome.reason, message: outcome.message, timeMs: nowMs() };
    if (outcome.serverFault) this.breaker.fail(outcome);
    else this.breaker.succeed();
  }
}

type LoadCredentials = (options: { forceRefresh: boolean }) => Promise<Credentials>;

export function countBytes(pieces: readonly Buffer[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}
