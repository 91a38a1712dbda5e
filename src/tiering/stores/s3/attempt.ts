// One try of one request on its way: what the connection tells, turned into one outcome. Invariant:
// the outcome comes once; after it, nothing of the answer is looked at any more, and nothing is
// written to where its body belongs, so that who abandons a try can give its buffers to another.
// Specification: RFC 9110; "Error responses" of the Amazon S3 API reference.
import { AttemptFailure, errorElement, failureOfAnswer, failureOfError } from './failure.ts';
import type { AnswerHeaders, AnswerSink } from './http-answer.ts';
import type { Exchange, HttpClient } from './http-client.ts';

/**
 * Takes a success. What its functions throw becomes the outcome of the try. `onHead` throws when
 * the head is not that of what was asked for.
 */
export type AnswerBody = AnswerSink;

/** A success, or a refusal that has a meaning: 404 of a key, 412, 416. */
export interface Answer {
  status: number;
  headers: AnswerHeaders;
}

/** What a try waits for. */
export type Phase = 'connect' | 'send' | 'firstByte' | 'body';

export interface AttemptOptions {
  method: string;
  /** That it is sent with, by who made it. */
  client: HttpClient;
  body?: AnswerBody;
  /** Called once, before `done` settles. */
  onSettled: (outcome: Outcome) => void;
}

/** `answered`: properly, whatever it was; `abandoned`: by us, so that nobody knows. */
export type Outcome = AttemptFailure | 'answered' | 'abandoned';

/** Of an error document. */
const textBytesMax = 64 * 1024;
/** What must have come of a body for a try to have moved. */
const stepBytes = 64 * 1024;
/** What nobody looks at goes here. */
const waste = Buffer.allocUnsafeSlow(16 * 1024);

export class Attempt implements Exchange {
  readonly done: Promise<Answer>;
  /** Ticks of the patrol since something moved. */
  idleTicks = 0;
  readonly #options: AttemptOptions;
  #phase: Phase = 'connect';
  #answer: Answer | null = null;
  /** Takes the body of the answer; null: it is text. */
  #body: AnswerBody | null = null;
  #text: Buffer | null = null;
  #textBytes = 0;
  /** Of the answer's body since the last step. */
  #comeBytes = 0;
  #isSettled = false;
  #resolve: (answer: Answer) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** Ends the try, if it has not ended: its answer is of no use any more. */
  abandon(error: unknown): void {
    this.#stop('abandoned', error);
  }

  /** Ends the try as a failure, if it has not ended. */
  fail(failure: AttemptFailure): void {
    this.#stop(failure, failure);
  }

  onSending(): void {
    this.#enter('send');
  }

  onSent(isAll: boolean): void {
    this.idleTicks = 0;
    if (isAll && this.#phase === 'send') this.#enter('firstByte');
  }

  onHead(status: number, headers: AnswerHeaders): void {
    if (this.#phase === 'send' && status < 300) {
      this.fail(new AttemptFailure('early-answer', `HTTP ${status} before the body was sent`));
      return;
    }
    this.#enter('body');
    this.#answer = { status, headers };
    if (status >= 300) return;
    this.#body = this.#options.body ?? null;
    this.#guard(() => this.#body?.onHead(status, headers));
  }

  room(): Buffer {
    if (this.#isSettled) return waste;
    if (this.#body) return this.#body.room();
    this.#text ??= Buffer.allocUnsafe(textBytesMax);
    return this.#text.subarray(this.#textBytes);
  }

  took(bytes: number): void {
    if (this.#isSettled) return;
    this.#comeBytes += bytes;
    if (this.#comeBytes >= stepBytes) {
      this.#comeBytes = 0;
      this.idleTicks = 0;
    }
    if (this.#body) {
      this.#guard(() => this.#body?.took(bytes));
      return;
    }
    this.#textBytes += bytes;
    if (this.#textBytes < textBytesMax) return;
    const failure = this.#judge(this.#answer as Answer);
    this.fail(failure ?? new AttemptFailure('wrong-body', 'a document that does not end'));
  }

  onEnd(): void {
    const answer = this.#answer as Answer;
    const failure = this.#body ? undefined : this.#judge(answer);
    if (failure) {
      this.#settle(failure, failure);
      return;
    }
    this.#isSettled = true;
    this.#options.onSettled('answered');
    this.#resolve(answer);
  }

  onError(error: unknown): void {
    let failure = failureOfError(error);
    // The head had come: what broke off was the body.
    if (failure.reason === 'reset' && this.#phase === 'body') {
      failure = new AttemptFailure('truncated', failure.message, { cause: error });
    }
    this.#settle(failure, failure);
  }

  /** What an answer without data means, by its status and its error document. */
  #judge({ status }: Answer): AttemptFailure | undefined {
    const text = this.#text?.toString('utf8', 0, this.#textBytes) ?? '';
    const code = errorElement(text, 'Code');
    if (status < 300) {
      if (!text.includes('<Error')) return undefined;
      const message = `HTTP ${status} with the error ${code}`;
      return new AttemptFailure('error-in-200', message, { code });
    }
    if (status === 412 || status === 416) return undefined;
    if (status === 404) {
      // Something that is no S3 server says 404 too: that must not be taken for a missing key.
      if (code === 'NoSuchKey' || this.#options.method === 'HEAD') return undefined;
    }
    return failureOfAnswer(status, code, errorElement(text, 'Message') ?? '');
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.idleTicks = 0;
  }

  /** What `step` throws is the outcome. */
  #guard(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#stop(error instanceof AttemptFailure ? error : 'answered', error);
    }
  }

  #stop(outcome: Outcome, error: unknown): void {
    if (this.#isSettled) return;
    // First, for once it is settled another may send with it.
    this.#options.client.drop();
    this.#settle(outcome, error);
  }

  #settle(outcome: Outcome, error: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#options.onSettled(outcome);
    this.#reject(error);
  }
}
