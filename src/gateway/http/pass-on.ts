// Requests that come in on one thread and are answered by another, the gateway's main thread: it
// listens on a Unix socket in the data folder, which only the gateway's own user can reach.
// Invariants: the message goes on as it came, so that what is signed of it stays so; the main
// thread knows the client's address as if the client had come to it; no client can claim one; and
// one request is one exchange for the instruments, that of the thread that answers.
import type { ClientRequest, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { http } from '../../core/node-http.ts';
import { isKnownSender } from './connections.ts';
import type { Exchange } from './exchange.ts';
import { hasBody } from './message-body.ts';

/** Says which addresses the client's connection has: its own and, behind a blank, the gateway's. */
const peerHeader = 'bursar-peer';

/** Says in an answer that the client's connection is to end with it. */
const closeHeader = 'bursar-close';

/** Headers of one connection, which say nothing of the next: RFC 9110 section 7.6.1. */
const ownHeaders: ReadonlySet<string> = new Set(['connection', 'keep-alive', peerHeader]);
/** An answer is framed anew. */
const ownAnswerHeaders: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'transfer-encoding', closeHeader],
]);
const justPeer: ReadonlySet<string> = new Set([peerHeader]);

/**
 * A connection for each request: over one that is kept, a request could meet the main thread just
 * as it closes what has idled, and `maxFreeSockets: 0` means the default to Node, not none.
 */
class UnkeptConnections extends http.Agent {
  override keepSocketAlive(): boolean {
    return false;
  }
}

/**
 * With it the main thread says, before the body has come, that it knows who asks: so the thread
 * that has the connection keeps it where others give way. It goes no further.
 */
const knownStatus = 102;

/** What the main thread does where it knows who asks (`ExchangeTerms.onKnown`). */
export function tellKnown(exchange: Exchange): void {
  if (isKnownSender(exchange) && !exchange.response.headersSent) {
    exchange.response.writeProcessing();
  }
}

/** How other threads reach the main one. */
export class MainThread {
  readonly #socketPath: string;
  /** It asks for connections that stay: else the main thread would end the client's, too. */
  readonly #agent = new UnkeptConnections({ keepAlive: true, maxSockets: Infinity });

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /** Has the main thread answer a request of which no byte of the body was read. */
  answer(exchange: Exchange): void {
    const { raw, response } = exchange;
    if (response.destroyed) {
      // Who asked has left: of a body that never ends the main thread would wait for the rest.
      exchange.end();
      return;
    }
    exchange.leave();
    const { socket } = raw;
    const headers = without(ownHeaders, raw.rawHeaders);
    headers.push(peerHeader, `${socket.remoteAddress ?? ''} ${socket.localAddress ?? ''}`);
    const passed = this.#open(raw, headers);
    if (!passed) {
      response.destroy();
      return;
    }
    passed.on('continue', () => response.writeContinue());
    passed.on('information', ({ statusCode }) => {
      exchange.isOfKnown ||= statusCode === knownStatus;
    });
    passed.on('response', (answer) => sendOn(answer, response));
    passed.on('error', () => response.destroy());
    response.once('finish', () => {
      // Of a body that nobody read, the rest is in the way of the next request.
      raw.unpipe(passed);
      raw.resume();
    });
    response.once('close', () => passed.destroy());
    if (hasBody(raw)) {
      // Sends the head, byte by byte as it came; flushHeaders() would write it in UTF-8.
      passed.write(Buffer.alloc(0));
      raw.pipe(passed);
    } else passed.end();
  }

  /** null: Node sends no such message, though it has parsed it. */
  #open({ method, url }: IncomingMessage, headers: string[]): ClientRequest | null {
    try {
      return http.request({
        ...{ socketPath: this.#socketPath, agent: this.#agent, headers },
        ...{ method, path: url, setHost: false },
      });
    } catch {
      return null;
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}

function sendOn(answer: IncomingMessage, response: Exchange['response']): void {
  const { headers, rawHeaders } = answer;
  if (headers[closeHeader] !== undefined) response.shouldKeepAlive = false;
  response.sendDate = false;
  response.writeHead(
    answer.statusCode as number,
    answer.statusMessage ?? '',
    without(ownAnswerHeaders, rawHeaders),
  );
  answer.on('error', () => response.destroy());
  answer.pipe(response);
}

/** Names and values in turn. */
function without(names: ReadonlySet<string>, rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (!names.has(name.toLowerCase())) kept.push(name, rawHeaders[i + 1] as string);
  }
  return kept;
}

/** Takes what other threads pass on at this server as what their clients have sent. */
export function takePassedOn(server: Server): void {
  const take = (raw: IncomingMessage, response: ServerResponse): void => {
    const { headers, rawHeaders, socket } = raw;
    const peer = headers[peerHeader];
    if (typeof peer !== 'string') return;
    delete headers[peerHeader];
    raw.rawHeaders = without(justPeer, rawHeaders);
    const [remoteAddress = '', localAddress = ''] = peer.split(' ');
    defineAddresses(socket, { remoteAddress, localAddress });
    keepUntilAnswered(response);
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation']) {
    server.prependListener(event, take);
  }
}

/**
 * Where the client's connection is to end with this answer, the answer says so. This one stays: who
 * passed the request on may still be sending a body that nobody reads, and would not get an answer
 * over a connection that is closed.
 */
function keepUntilAnswered(response: ServerResponse): void {
  if (!response.shouldKeepAlive) response.setHeader(closeHeader, '1');
  Object.defineProperty(response, 'shouldKeepAlive', {
    get: () => true,
    set: (isKept: boolean) => {
      if (!isKept && !response.headersSent) response.setHeader(closeHeader, '1');
    },
  });
}

function defineAddresses(socket: Socket, addresses: Record<string, string>): void {
  for (const [name, value] of Object.entries(addresses)) {
    Object.defineProperty(socket, name, { value, configurable: true });
  }
}
