// One connection at a time to one target, as one thread of a client has it. Invariant: whatever the
// server does, an exchange ends: within the time it may take, having read no more than it may hold.
// No retries and no buffers of a library come between: they would be measured, not the server.
import type { Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher, errors } from 'undici';
import { monotonicMs } from '../../core/clock.ts';
import type { ProbeRequest, ProbeTarget } from './probe-target.ts';

export interface LineOptions {
  /** A connection for each request, so that making it is measured every time. */
  isFresh: boolean;
  /** A server that neither takes nor gives a byte for so long has failed. */
  silenceMsMax: number;
}

export interface Exchange extends ProbeRequest {
  /** The size of the body; 0 if absent. */
  sizeBytes?: number;
  body?: Buffer | Iterable<Buffer>;
  /** Told of each piece of a successful answer's body; false ends the exchange. */
  onPiece?: (piece: Buffer) => boolean;
  /** Bytes that a successful answer may have; the most that it may take follows from it. */
  answerBytesMax: number;
  signal: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The beginning of the body of an answer that `onPiece` was not told of. */
  text: string;
  bodyBytes: number;
  /** From the beginning of the exchange. Milliseconds. */
  firstByteMs: number;
}

/** Slower than this, on the average, an exchange is ended. */
const bytesPerMsMin = 100;
const tooLong = new Error('took too long');
const dropped = new Error('was dropped');
const textBytesMax = 4 * 1024 * 1024;
const errorTextBytesMax = 64 * 1024;

export class ProbeLine {
  readonly target: ProbeTarget;
  readonly #options: LineOptions;
  readonly #connector: buildConnector.connector;
  #client: Client | null = null;
  #isConnected = false;
  /** The last that was begun. */
  #socket: Socket | null = null;

  constructor(target: ProbeTarget, options: LineOptions) {
    this.target = target;
    this.#options = options;
    this.#connector = buildConnector({ timeout: options.silenceMsMax });
  }

  /**
   * Makes the connection that is to be kept, so that the first request after a pause does not have
   * to, and the second of a pair can be compared with it. Where none can be made the request will
   * tell.
   */
  async warm(signal: AbortSignal): Promise<void> {
    if (this.#options.isFresh || signal.aborted || (this.#client && this.#isConnected)) return;
    this.#drop();
    const { protocol, hostname, host, port } = new URL(this.target.origin);
    const end = (): void => this.#drop();
    signal.addEventListener('abort', end, { once: true });
    const socket = await new Promise<Socket | null>((resolve) => {
      this.#connect({ protocol, hostname, host, port }, (_error, made) => resolve(made));
    });
    signal.removeEventListener('abort', end);
    if (!socket) return;
    let ready: Socket | null = socket;
    this.#open((options, done) => {
      const made = ready;
      ready = null;
      // Undici sends nothing when it is called back before it has returned.
      if (made && !made.destroyed) queueMicrotask(() => done(null, made));
      else this.#connect(options, done);
    });
    this.#isConnected = true;
    socket.once('close', () => {
      // Before a request has taken it, nobody else looks after it.
      if (ready) this.#isConnected = false;
    });
    socket.on('error', () => {});
  }

  /**
   * Rejects with an Error whose message is for people; of those of the connection with a `code`.
   */
  async exchange(given: Exchange): Promise<Answer> {
    const { silenceMsMax } = this.#options;
    const connect: buildConnector.connector = (options, done) => this.#connect(options, done);
    const { method, body, sizeBytes = 0, answerBytesMax } = given;
    const { path, headers } = await this.target.sign(given);
    const client = this.#client ?? this.#open(connect);
    const movedBytes = sizeBytes + Math.min(answerBytesMax, 1024 ** 3);
    const ending = new AbortController();
    // While a connection is being made undici hears of no end.
    const end = (): void => {
      ending.abort(tooLong);
      this.#drop();
    };
    const timer = setTimeout(end, silenceMsMax + movedBytes / bytesPerMsMin);
    given.signal.addEventListener('abort', end, { once: true });
    const beganMs = monotonicMs();
    try {
      const answer = await client.request({
        method,
        path,
        headers: { ...headers, 'content-length': String(sizeBytes) },
        body: (body as Buffer | undefined) ?? null,
        signal: ending.signal,
      });
      const firstByteMs = monotonicMs() - beganMs;
      const { statusCode: status } = answer;
      const isTold = status >= 200 && status < 300 && given.onPiece !== undefined;
      const read = isTold
        ? await readTold(answer.body, given)
        : await readText(answer.body, status < 300 ? textBytesMax : errorTextBytesMax);
      return { status, headers: answer.headers, firstByteMs, ...read };
    } catch (error) {
      this.#drop();
      given.signal.throwIfAborted();
      throw ending.signal.aborted ? tooLong : error;
    } finally {
      clearTimeout(timer);
      given.signal.removeEventListener('abort', end);
      if (this.#options.isFresh) this.#drop();
    }
  }

  close(): void {
    this.#drop();
  }

  #connect(...given: Parameters<buildConnector.connector>): void {
    // Undici gives it, and its types do not say so.
    this.#socket = this.#connector(...given) as unknown as Socket;
  }

  #open(connect: buildConnector.connector): Client {
    const { silenceMsMax } = this.#options;
    const client = new Client(this.target.origin, {
      connect,
      pipelining: 1,
      headersTimeout: silenceMsMax,
      bodyTimeout: silenceMsMax,
    });
    client.on('connect', () => {
      if (client === this.#client) this.#isConnected = true;
    });
    client.on('disconnect', () => {
      if (client === this.#client) this.#isConnected = false;
    });
    this.#client = client;
    return client;
  }

  #drop(): void {
    // What is under way on it has ended, or is what failed.
    this.#client?.destroy().catch(() => {});
    this.#client = null;
    // A connection that is still being made is left to undici's timeout.
    this.#socket?.destroy(dropped);
    this.#socket = null;
    this.#isConnected = false;
  }
}

type Body = Dispatcher.ResponseData['body'];

async function readTold(
  body: Body,
  { onPiece, answerBytesMax }: Exchange,
): Promise<Pick<Answer, 'text' | 'bodyBytes'>> {
  let bodyBytes = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    bodyBytes += piece.length;
    if (bodyBytes > answerBytesMax) throw new Error('too many bytes came');
    if (onPiece?.(piece) === false) throw new Error('other bytes came');
  }
  return { text: '', bodyBytes };
}

async function readText(body: Body, bytesMax: number): Promise<Pick<Answer, 'text' | 'bodyBytes'>> {
  const pieces: Buffer[] = [];
  let bodyBytes = 0;
  for await (const piece of body as AsyncIterable<Buffer>) {
    bodyBytes += piece.length;
    if (bodyBytes > bytesMax) throw new Error('too many bytes came');
    pieces.push(piece);
  }
  return { text: Buffer.concat(pieces).toString('utf8'), bodyBytes };
}

/** The reason of a failure in a word or two, for samples and people. */
export function reasonOf(error: unknown): string {
  if (error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError) {
    return 'silence';
  }
  const { code, message } = error as { code?: unknown; message?: unknown };
  return typeof code === 'string' ? code : String(message);
}
