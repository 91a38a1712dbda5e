// A connection to the server of a store: made when it is needed, kept for the next request, used for
// one at a time. The bodies of answers are read by the kernel's call straight into the buffers of who
// asked. Invariant: after `drop`, and after the last call of an exchange, nothing is written to its
// buffers and nothing is sent from them.
// Specification: RFC 9112.
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { AttemptFailure } from './failure.ts';
import { AnswerParser, type AnswerSink } from './http-answer.ts';

export interface HttpRequest {
  method: string;
  /** All up to the body. */
  head: string;
  /** The body: unchanged until the exchange ends. */
  pieces: readonly Buffer[];
}

/** Who asked. One of `onEnd` and `onError` comes, once and last, unless the request is dropped. */
export interface Exchange extends AnswerSink {
  /** There is a connection: the request is on its way. */
  onSending(): void;
  /** The connection has taken more of the body. */
  onSent(isAll: boolean): void;
  /** The answer is whole. */
  onEnd(): void;
  onError(error: unknown): void;
}

/** Where it is connected to; one for all clients of a store, so that TLS sessions are resumed. */
export class HttpOrigin {
  readonly #options: { host: string; port: number };
  readonly #isTls: boolean;
  #session: Buffer | undefined;

  /** `http://host:port` or `https://host:port`. */
  constructor(origin: string) {
    const { protocol, hostname, port } = new URL(origin);
    this.#isTls = protocol === 'https:';
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    this.#options = { host, port: Number(port) || (this.#isTls ? 443 : 80) };
  }

  /** Begins to connect; `onOpen` is called when a request can be sent. */
  open(onread: { buffer: () => Buffer; callback: (bytes: number) => boolean }, onOpen: () => void) {
    const options = { ...this.#options, onread };
    if (!this.#isTls) return connect({ ...options, noDelay: true }, onOpen);
    const { host } = options;
    const servername = isIP(host) ? '' : host;
    const session = this.#session;
    const tls = { ...options, servername, session, ALPNProtocols: ['http/1.1'] };
    const socket = connectTls(tls, onOpen).setNoDelay(true);
    return socket.on('session', (next) => {
      this.#session = next;
    });
  }
}

/** How long a connection without a request is kept: S3 closes it after some 20 seconds. */
const idleMs = 10_000;
/** Sent at once, so that a connection which is slow is told from one that is still. */
const stepBytes = 256 * 1024;

/** Where heads are read to, of all connections: what is read is taken before the next read. */
const scratch = Buffer.allocUnsafeSlow(16 * 1024);

export class HttpClient {
  readonly #origin: HttpOrigin;
  #socket: Socket | null = null;
  #exchange: Exchange | null = null;
  #parser: AnswerParser | null = null;
  /** The next read goes straight to the exchange's room. */
  #isDirect = false;
  #isSent = false;

  constructor(origin: HttpOrigin) {
    this.#origin = origin;
  }

  /** Sends a request, when the one before has ended. */
  send(request: HttpRequest, exchange: Exchange): void {
    this.#exchange = exchange;
    this.#parser = new AnswerParser(request.method, exchange);
    if (this.#socket) this.#begin(this.#socket, request, exchange);
    else this.#open(request, exchange);
  }

  /** Ends the connection, and the request that is on it: its exchange hears no more. */
  drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#exchange = null;
    this.#isDirect = false;
    socket?.destroy();
  }

  #open(request: HttpRequest, exchange: Exchange): void {
    const onread = {
      buffer: () => this.#room(),
      callback: (bytes: number) => this.#read(socket, bytes),
    };
    const socket = this.#origin.open(onread, () => {
      if (this.#exchange === exchange) this.#begin(socket, request, exchange);
    });
    this.#socket = socket;
    socket.setTimeout(idleMs, () => {
      if (!this.#exchange) this.#lose(socket, null);
    });
    socket.on('error', (error) => this.#lose(socket, error));
    socket.on('end', () => this.#end(socket));
    socket.on('close', () => this.#end(socket));
  }

  #begin(socket: Socket, { head, pieces }: HttpRequest, exchange: Exchange): void {
    this.#isSent = pieces.length === 0;
    exchange.onSending();
    socket.cork();
    socket.write(head, 'latin1');
    if (this.#isSent) exchange.onSent(true);
    else this.#sendFrom(socket, exchange, pieces, 0);
    socket.uncork();
  }

  #sendFrom(socket: Socket, exchange: Exchange, pieces: readonly Buffer[], first: number): void {
    let bytes = 0;
    let next = first;
    while (next < pieces.length && bytes < stepBytes) bytes += (pieces[next++] as Buffer).length;
    const isAll = next === pieces.length;
    const sent = (error?: Error | null): void => {
      // Errors come by the socket's own event.
      if (error || this.#exchange !== exchange) return;
      this.#isSent = isAll;
      exchange.onSent(isAll);
      if (!isAll && this.#exchange === exchange) this.#sendFrom(socket, exchange, pieces, next);
    };
    socket.cork();
    for (let i = first; i < next; i++) {
      socket.write(pieces[i] as Buffer, i === next - 1 ? sent : undefined);
    }
    socket.uncork();
  }

  /** Where the next read goes. */
  #room(): Buffer {
    const room = this.#exchange && this.#parser?.room();
    this.#isDirect = !!room;
    return room || scratch;
  }

  /** Takes what was read; says whether to read on. */
  #read(socket: Socket, bytes: number): boolean {
    const exchange = this.#exchange;
    const parser = this.#parser as AnswerParser;
    if (socket !== this.#socket) return false;
    if (!exchange) {
      // An answer that nobody asked for.
      this.drop();
      return false;
    }
    try {
      if (this.#isDirect) parser.took(bytes);
      else parser.push(scratch.subarray(0, bytes));
    } catch (error) {
      this.#lose(socket, error);
      return false;
    }
    if (parser.isDone && this.#exchange === exchange) this.#finish();
    return true;
  }

  #end(socket: Socket): void {
    if (socket !== this.#socket) return;
    if (this.#exchange && this.#parser?.end()) this.#finish();
    else this.#lose(socket, new AttemptFailure('reset', 'the server closed the connection'));
  }

  #finish(): void {
    const exchange = this.#exchange as Exchange;
    this.#exchange = null;
    // A server that answers before all is sent has refused it: the rest is not sent any more.
    if (!this.#isSent || !this.#parser?.isPersistent) this.drop();
    exchange.onEnd();
  }

  #lose(socket: Socket, error: unknown): void {
    if (socket !== this.#socket) return;
    const exchange = this.#exchange;
    this.drop();
    exchange?.onError(error);
  }
}
