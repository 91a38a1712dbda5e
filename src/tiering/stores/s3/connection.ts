// Sends requests to one S3 server: it signs them, sends each with undici on a connection of its
// own, watches that they go on, counts them, and tells the circuit breaker of failures. Invariant:
// whatever the server does, a request ends within the timeouts and tries it has, and its slot is
// given back once.
import { buildConnector, Client } from 'undici';
import { monotonicMs, nowMs } from '../../../core/clock.ts';
import { AttemptFailure, type FailureCause } from '../attempt-failure.ts';
import { Breaker, type BreakerOptions, type BreakerState, refusalOf } from '../breaker.ts';
import type { StoreMeter } from '../store-meter.ts';
import type { StoreTally } from '../store-tally.ts';
import type { StoreAddress } from './address.ts';
import {
  type Answer,
  type AnswerBody,
  Attempt,
  countBytes,
  type Outcome,
  type Phase,
} from './attempt.ts';
import { ClientSlots } from './client-slots.ts';
import { CredentialSource, type Credentials, type LoadCredentials } from './credentials.ts';
import { failureOfError } from './failure.ts';
import { type RetryPolicy, retry } from './retry.ts';
import { signStoreRequest } from './signed-request.ts';

export interface StoreRequest {
  method: 'GET' | 'PUT' | 'HEAD' | 'DELETE' | 'POST';
  /** Relative to the store's prefix, decoded. */
  name: string;
  /** See `RequestParts`. */
  query?: string;
  /** Headers that are signed besides `host`. */
  headers?: Readonly<Record<string, string>>;
  pieces?: readonly Buffer[];
  body?: AnswerBody;
  /** The refusals that count as answers. The default depends on the method. */
  answers?: readonly number[];
  signal?: AbortSignal;
  /** Whether it is sent even while the breaker is open, to find out whether that may close. */
  isTrial?: boolean;
  /** The tally in which the request is counted and traced; by default the store's own. */
  tally?: StoreTally;
  /** How many tries of the request came before this one; default 0. */
  earlierTries?: number;
  /** The slow try beside which this one asks for the same bytes. */
  secondOf?: Attempt;
}

type Applicant = Pick<StoreRequest, 'signal' | 'isTrial'>;

/** What is needed to send a request. */
export interface Admission {
  client: Client;
  credentials: Credentials;
}

/** After how many milliseconds without progress a try is given up. */
export interface Timeouts {
  connectMs: number;
  firstByteMs: number;
  stallMs: number;
}

export interface ConnectionOptions {
  /** Name of the store. */
  store: string;
  meter: StoreMeter;
  address: StoreAddress;
  /** See `CredentialSource`. */
  loadCredentials: LoadCredentials;
  connectionsMax: number;
  timeouts: Timeouts;
  retryPolicy: RetryPolicy;
  breaker: Pick<BreakerOptions, 'failuresMax' | 'pauseMsMin' | 'pauseMsMax' | 'words'>;
  /** The tally of requests that belong to no operation. */
  tally: StoreTally;
  /** Finds out whether a server that was down is back; null: another thread does. */
  trial: BreakerOptions['trial'];
  onBreaker: (state: BreakerState, failure?: AttemptFailure) => void;
  /** See `S3StoreOptions`. */
  confirmPlace?: (() => Promise<void>) | undefined;
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

/** Source: "Amazon S3 pricing" and "Billing for Amazon S3 error responses". */
const billedAs = { GET: 'get', HEAD: 'get', PUT: 'put', DELETE: 'free', POST: 'put' } as const;
/** A POST is a question that moves no data, as a HEAD is. */
const measuredAs = {
  GET: 'get',
  HEAD: 'head',
  PUT: 'put',
  DELETE: 'delete',
  POST: 'head',
} as const;
/** The SDK does not tell how many bytes came. */
const noBytes = { sentBytes: 0, receivedBytes: 0 };
/** The errors of the SDK that say that there was no connection for a request. */
const unsentCauses: ReadonlySet<FailureCause> = new Set<FailureCause>([
  'credentials',
  'no-descriptors',
  'refused',
  'timeout-connect',
  'unreachable',
]);

export class Connection {
  readonly slots: ClientSlots;
  readonly breaker: Breaker;
  readonly credentials: CredentialSource;
  lastFailure: { reason: FailureCause; message: string; timeMs: number } | undefined;
  readonly #options: ConnectionOptions;
  readonly #underWay = new Set<Attempt>();
  readonly #closing = new AbortController();
  readonly #tickMs: number;
  readonly #ticksMax: Record<Phase, number>;
  #patrol: NodeJS.Timeout | null = null;

  constructor(options: ConnectionOptions) {
    const { address, connectionsMax, timeouts, breaker, trial, onBreaker } = options;
    this.#options = options;
    const { connectMs, firstByteMs, stallMs } = timeouts;
    // Shared, so that TLS sessions are resumed from one connection to the next.
    const connect = buildConnector({ timeout: connectMs });
    this.slots = new ClientSlots({
      max: connectionsMax,
      waitMsMax: slotWaitFactor * (connectMs + firstByteMs + stallMs),
      // Undici's own timeouts run in steps of half a second; the patrol watches instead.
      open: () =>
        new Client(address.origin, {
          connect,
          headersTimeout: 0,
          bodyTimeout: 0,
          keepAliveTimeout: idleMs,
        }),
    });
    this.credentials = new CredentialSource(options.loadCredentials);
    this.breaker = new Breaker({
      ...breaker,
      trial,
      onChange: (state, failure) => {
        if (state === 'open') this.slots.refuseWaiting(this.breaker.refusal());
        onBreaker(state, failure);
      },
    });
    // Ticks are counted instead of looking at the clock, so that a busy event loop is not taken for
    // a slow server.
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
      this.#options.meter.retried(failure.reason);
    };
    return retry({ policy, attempt, onRetry, signal });
  }

  /**
   * The same for requests of clients: rejects with Refusal ServiceUnavailable or SlowDown where the
   * server could not serve it.
   */
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

  /**
   * Rejects when the store's place belongs to another gateway by now: then what is missing in it
   * was not lost.
   */
  async confirmPlace(): Promise<void> {
    await this.#options.confirmPlace?.();
  }

  /**
   * Makes one try. Rejects with AttemptFailure, with the Refusal of an open breaker, or with what
   * `body` threw.
   */
  async exchange(request: StoreRequest): Promise<Answer> {
    return this.begin(request, await this.admit(request)).done;
  }

  /** Waits for a connection. The caller must call `begin` then. */
  async admit({ signal, isTrial }: Applicant): Promise<Admission> {
    signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    if (!isTrial) this.breaker.admit();
    const credentials = this.credentials.current ?? (await this.#loadCredentials());
    const free = this.slots.tryTake();
    if (free) return { credentials, client: free };
    const client = await this.slots.take(signal);
    if (!isTrial && this.breaker.state !== 'closed') this.#refuseAll(client);
    return { credentials, client };
  }

  /** Another thread has opened the breaker meanwhile. */
  #refuseAll(client: Client): never {
    const refusal = this.breaker.refusal();
    this.slots.release(client, false);
    this.slots.refuseWaiting(refusal);
    throw refusal;
  }

  /** Sends a request that was admitted. */
  begin(request: StoreRequest, admission: Admission): Attempt {
    const { method, pieces, signal } = request;
    const { client, credentials } = admission;
    const { address, store } = this.#options;
    const { path, headers } = signStoreRequest(request, address, credentials, nowMs());
    if (pieces) headers.push('content-length', String(countBytes(pieces)));
    const traced = request.tally?.trace?.begin({
      store,
      host: address.host,
      method,
      earlierTries: request.earlierTries ?? 0,
      isSecond: request.secondOf !== undefined,
    });
    // These headers are not signed, since proxies on the way may change them.
    if (traced) headers.push(...traced.headers);
    const stop = signal && ((): void => attempt.abandon(signal.reason));
    const attempt = new Attempt({
      method,
      pieces,
      body: request.body,
      answers: request.answers ?? answersTo(request),
      sinceMs: request.secondOf?.sinceMs ?? monotonicMs(),
      onSettled: (outcome) => {
        if (stop) signal.removeEventListener('abort', stop);
        this.#underWay.delete(attempt);
        this.slots.release(client, attempt.isUnsent);
        this.#count(request, attempt);
        this.#measure(method, attempt, outcome);
        traced?.end(attempt.status, failureIn(outcome));
        this.#account(outcome, credentials);
      },
    });
    this.#underWay.add(attempt);
    this.#patrol ??= setInterval(() => this.#look(), this.#tickMs).unref();
    if (stop) signal.addEventListener('abort', stop);
    if (signal?.aborted) attempt.abandon(signal.reason);
    const body = attempt.requestBody as Buffer | null;
    client.dispatch({ method, path, headers, body }, attempt);
    return attempt;
  }

  /**
   * Makes one listing through the SDK's client, which is admitted and counted like any other try,
   * except that its bytes are not counted.
   */
  async send<T>(applicant: Applicant, call: (closing: AbortSignal) => Promise<T>): Promise<T> {
    const { client, credentials } = await this.admit(applicant);
    const { meter } = this.#options;
    const startMs = monotonicMs();
    try {
      const answer = await call(this.#closing.signal);
      const durationMs = monotonicMs() - startMs;
      meter.answered('list', 0, durationMs, durationMs);
      this.#countListing('put');
      this.#account('answered', credentials);
      return answer;
    } catch (error) {
      const failure = failureOfError(error);
      if (!unsentCauses.has(failure.reason)) {
        this.#countListing(failure.reason.startsWith('http-') ? 'free' : 'put');
      }
      this.#account(failure, credentials);
      throw failure;
    } finally {
      this.slots.release(client, false);
    }
  }

  /** Counts a failure. */
  note(failure: AttemptFailure): void {
    const { reason, message } = failure;
    this.#options.meter.failed(reason);
    this.lastFailure = { reason, message, timeMs: nowMs() };
  }

  /** Ends all requests that are under way, as failed. */
  async close(): Promise<void> {
    const refusal = refusalOf(new AttemptFailure('reset', 'the store is closed'));
    this.#closing.abort(refusal);
    this.breaker.close();
    clearInterval(this.#patrol ?? undefined);
    this.slots.refuseWaiting(refusal);
    for (const attempt of this.#underWay) attempt.abandon(refusal);
    await this.slots.close();
  }

  async #loadCredentials(): Promise<Credentials> {
    try {
      return await this.credentials.refresh();
    } catch (error) {
      this.#account(error as AttemptFailure, null);
      throw error;
    }
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

  /** Counts as Amazon bills: all requests that were sent, except those answered with a 5xx. */
  #count({ method, tally = this.#options.tally }: StoreRequest, attempt: Attempt): void {
    if (!attempt.isSent) return;
    this.#options.meter.sent(measuredAs[method]);
    tally.count(attempt.isServersFailure ? 'free' : billedAs[method], attempt);
  }

  #countListing(billed: 'put' | 'free'): void {
    this.#options.meter.sent('list');
    this.#options.tally.count(billed, noBytes);
  }

  /** Only successes are measured: how long a failure takes says nothing of the store's speed. */
  #measure(method: StoreRequest['method'], attempt: Attempt, outcome: Outcome): void {
    if (outcome !== 'answered' || (attempt.status ?? 300) >= 300) return;
    const { sentBytes, receivedBytes, durationMs, firstByteMs } = attempt;
    const bytes = method === 'PUT' ? sentBytes : receivedBytes;
    this.#options.meter.answered(measuredAs[method], bytes, durationMs, firstByteMs);
  }

  #account(outcome: Outcome, credentials: Credentials | null): void {
    if (outcome === 'abandoned') return;
    if (outcome === 'answered') {
      this.breaker.succeed();
      return;
    }
    this.note(outcome);
    // Credentials that were replaced meanwhile say nothing of those that are used now.
    if (outcome.reason === 'denied' && credentials) this.credentials.doubt(credentials);
    if (outcome.isOfCredentials && credentials && !this.credentials.invalidate(credentials)) return;
    if (outcome.serverFault) this.breaker.fail(outcome);
    else this.breaker.succeed();
  }
}

const answersToPut = [412];
const answersToRange = [404, 416];
const answersToOthers = [404];
/** It was asked for already. */
const answersToPost = [404, 409];

/** The refusals that a request may be answered with; any other is a failed try. */
function answersTo({ method, headers }: StoreRequest): readonly number[] {
  if (method === 'PUT') return answersToPut;
  if (method === 'POST') return answersToPost;
  return headers?.range === undefined ? answersToOthers : answersToRange;
}

/** Returns the cause by which a try failed, for its trace. */
function failureIn(outcome: Outcome): string | null {
  if (outcome === 'answered') return null;
  return outcome === 'abandoned' ? outcome : outcome.reason;
}
