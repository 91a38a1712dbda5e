// One try of one request: it turns undici's callbacks into one outcome. Invariant: there is exactly
// one outcome, and after it no more of the answer is read, so that whoever abandons a try can reuse
// its buffers at once.
// Specification: RFC 9110 and 9112; "Error responses" of the Amazon S3 API reference.
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { monotonicMs } from '../../../core/clock.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import { errorElement, failureOfAnswer, failureOfError } from './failure.ts';

/** Takes the bytes of a successful answer. An error that it throws is the outcome of the try. */
export interface AnswerBody {
  /** Called with the head of a success. Throws when it is not what was asked for. */
  begin(status: number, headers: IncomingHttpHeaders): void;
  /** Called with the next bytes, which may be used only during the call. */
  take(bytes: Buffer): void;
  /** Called when all bytes have come that the head announced. */
  end(): void;
}

/** A success, or a refusal that the caller expects, such as 404 for a key, 412 or 416. */
export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
}

/** The phases in which a try waits. */
export type Phase = 'connect' | 'send' | 'firstByte' | 'body';

export interface AttemptOptions {
  method: string;
  /** The bytes that are sent. */
  pieces?: readonly Buffer[];
  body?: AnswerBody;
  /** The refusals that count as answers to this request. Any other is a failure. Default: none. */
  answers?: readonly number[];
  /** When the request began, or the try that this one is a second request for. */
  sinceMs: number;
  /** Called once, before `done` settles. */
  onSettled: (outcome: Outcome) => void;
}

/**
 * `answered`: the server answered properly, whatever it said. `abandoned`: we ended the try, so
 * nobody knows what the server would have said.
 */
export type Outcome = AttemptFailure | 'answered' | 'abandoned';

/** The most bytes of an error document. */
const textBytesMax = 64 * 1024;
/**
 * How many bytes of a body are handed over at once, and must have moved for a try to count as
 * moving.
 */
const stepBytes = 64 * 1024;

export class Attempt implements Dispatcher.DispatchHandler {
  readonly done: Promise<Answer>;
  /** The body as undici takes it. */
  readonly requestBody: Buffer | Iterable<Buffer> | null;
  /** The ticks of the patrol since bytes last moved. */
  idleTicks = 0;
  /** Whether we ended it while it still waited for a connection. */
  isUnsent = false;
  /** Whether it has a connection, and its first bytes are on their way. */
  isSent = false;
  /** The time from the beginning to the head of the answer, in milliseconds. */
  firstByteMs = 0;
  /** The bytes of both bodies that have moved, until the outcome. */
  sentBytes = 0;
  receivedBytes = 0;
  /** When the request began, or the try that this one is a second request for. */
  readonly sinceMs: number;
  readonly #options: AttemptOptions;
  #phase: Phase = 'connect';
  #controller: Dispatcher.DispatchController | null = null;
  #answer: Answer | null = null;
  #text: Buffer[] = [];
  #textBytes = 0;
  /** The bytes of the answer's body since the last step. */
  #comeBytes = 0;
  #isSettled = false;
  #resolve: (answer: Answer) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.sinceMs = options.sinceMs;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.requestBody = this.#bodyOf(options.pieces ?? []);
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** The status of the answer; null: none has come. */
  get status(): number | null {
    return this.#answer?.status ?? null;
  }

  /** The time from the beginning until now, in milliseconds. */
  get durationMs(): number {
    return monotonicMs() - this.sinceMs;
  }

  /** Whether the server has answered that it failed itself (5xx). */
  get isServersFailure(): boolean {
    return (this.status ?? 0) >= 500;
  }

  /** Ends the try, unless it has ended. To be called when its answer is not needed any more. */
  abandon(error: unknown): void {
    this.#stop('abandoned', error);
  }

  /** Ends the try as a failure, unless it has ended. */
  fail(failure: AttemptFailure): void {
    this.#stop(failure, failure);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isSettled) {
      controller.abort(new Error('the try was abandoned before it was sent'));
      return;
    }
    this.isSent = true;
    const { requestBody: body } = this;
    const streamed = body !== null && !Buffer.isBuffer(body);
    if (Buffer.isBuffer(body)) this.sentBytes = body.length;
    this.#enter(streamed ? 'send' : 'firstByte');
  }

  onResponseStart(_: unknown, status: number, headers: IncomingHttpHeaders): void {
    if (this.#isSettled || status < 200) return;
    if (this.#phase === 'send' && status < 300) {
      this.fail(new AttemptFailure('early-answer', `HTTP ${status} before the body was sent`));
      return;
    }
    this.#enter('body');
    this.firstByteMs = this.durationMs;
    this.#answer = { status, headers };
    if (status < 300) this.#guard(() => this.#options.body?.begin(status, headers));
  }

  onResponseData(_: unknown, bytes: Buffer): void {
    if (this.#isSettled) return;
    this.receivedBytes += bytes.length;
    this.#comeBytes += bytes.length;
    if (this.#comeBytes >= stepBytes) {
      this.#comeBytes = 0;
      this.idleTicks = 0;
    }
    const { body } = this.#options;
    if (body && (this.#answer as Answer).status < 300) {
      this.#guard(() => body.take(bytes));
      return;
    }
    this.#textBytes += bytes.length;
    this.#text.push(bytes);
    if (this.#textBytes <= textBytesMax) return;
    const failure = this.#judge(this.#answer as Answer);
    this.fail(failure ?? new AttemptFailure('wrong-body', 'a document that does not end'));
  }

  onResponseEnd(): void {
    if (this.#isSettled) return;
    const answer = this.#answer as Answer;
    if (answer.status < 300 && this.#options.body) {
      if (!this.#guard(() => this.#options.body?.end())) return;
    } else {
      const failure = this.#judge(answer);
      if (failure) {
        this.#settle(failure, failure);
        return;
      }
    }
    this.#isSettled = true;
    this.#options.onSettled('answered');
    this.#resolve(answer);
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#isSettled) return;
    let failure = failureOfError(error);
    // The head had come, so it was the body that broke off.
    if (failure.reason === 'reset' && this.#phase === 'body') {
      failure = new AttemptFailure('truncated', failure.message, { cause: error });
    }
    this.#settle(failure, failure);
  }

  /** Returns what an answer without data means, by its status and its error document. */
  #judge({ status }: Answer): AttemptFailure | undefined {
    const text = Buffer.concat(this.#text).toString('utf8');
    const code = errorElement(text, 'Code');
    if (status < 300) {
      if (!text.includes('<Error')) return undefined;
      const message = `HTTP ${status} with the error ${code}`;
      return new AttemptFailure('error-in-200', message, { code });
    }
    if (this.#options.answers?.includes(status)) {
      // A server that does not speak S3 answers 404, too, which must not be taken for a missing
      // key.
      if (status !== 404 || code === 'NoSuchKey' || this.#options.method === 'HEAD') {
        return undefined;
      }
    }
    return failureOfAnswer(status, code, errorElement(text, 'Message') ?? '');
  }

  #bodyOf(pieces: readonly Buffer[]): Buffer | Iterable<Buffer> | null {
    const [first] = pieces;
    if (!first) return null;
    if (countBytes(pieces) > stepBytes) return { [Symbol.iterator]: () => this.#send() };
    // It is sent in one step, since copying it costs less than another write to the socket.
    return pieces.length === 1 ? first : Buffer.concat(pieces);
  }

  /** Sends in small steps, so that a slow connection can be told from one that stands still. */
  *#send(): Generator<Buffer, void, void> {
    for (const piece of this.#options.pieces as readonly Buffer[]) {
      for (let at = 0; at < piece.length; at += stepBytes) {
        this.idleTicks = 0;
        this.sentBytes += Math.min(stepBytes, piece.length - at);
        yield piece.subarray(at, at + stepBytes);
      }
    }
    if (this.#phase === 'send') this.#enter('firstByte');
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.idleTicks = 0;
  }

  /** Returns whether `step` succeeded. If it threw, the error is the outcome. */
  #guard(step: () => void): boolean {
    try {
      step();
      return true;
    } catch (error) {
      this.#stop(error instanceof AttemptFailure ? error : 'answered', error);
      return false;
    }
  }

  #stop(outcome: Outcome, error: unknown): void {
    this.isUnsent = this.#phase === 'connect';
    this.#settle(outcome, error);
    this.#controller?.abort(asError(error));
  }

  #settle(outcome: Outcome, error: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#options.onSettled(outcome);
    this.#reject(error);
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error('abandoned', { cause: error });
}

export function countBytes(pieces: readonly Buffer[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}
