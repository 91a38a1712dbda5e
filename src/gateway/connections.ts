// The connections that are open, and the newest exchange of each: who is too slow is found here.
// Invariant: a client is blamed only for time in which the gateway would have read what it sent; what
// the gateway's own limits, memory and stores take is nobody's fault. So it costs a request nothing:
// once in a while all connections are looked at.
import type { Socket } from 'node:net';
import type { Exchange } from './exchange.ts';

/** Why the gateway closed a connection by itself. */
export type CloseReason = 'stalled' | 'slow';

export interface ConnectionTerms {
  /** What a client must send of a body on average, bytes a second; 0: however little. */
  minRate: number;
  /** On average over so long, milliseconds. */
  rateWindowMs: number;
}

export interface Connection {
  /** Null: no request has come yet. */
  newest: Exchange | null;
  /** Whose body is timed; for how long it has been waited for, and from which byte on. */
  timed: Exchange | null;
  waitedMs: number;
  fromBytes: number;
}

const ticksPerWindow = 20;
const tickMsMax = 1000;

export class Connections {
  readonly #terms: ConnectionTerms;
  readonly #open = new Map<Socket, Connection>();
  readonly #tickMs: number;
  readonly #timer: NodeJS.Timeout;
  /** How many were closed, by reason. */
  readonly closed: Record<CloseReason, number> = { stalled: 0, slow: 0 };

  constructor(terms: ConnectionTerms) {
    this.#terms = terms;
    this.#tickMs = Math.min(Math.ceil(terms.rateWindowMs / ticksPerWindow), tickMsMax);
    this.#timer = setInterval(() => this.#look(), this.#tickMs).unref();
  }

  get count(): number {
    return this.#open.size;
  }

  add(socket: Socket): void {
    this.#open.set(socket, { newest: null, timed: null, waitedMs: 0, fromBytes: 0 });
    socket.once('close', () => this.#open.delete(socket));
  }

  /** A request has come in. */
  begin(exchange: Exchange): void {
    const connection = this.#open.get(exchange.raw.socket);
    if (connection) connection.newest = exchange;
  }

  newestOf(socket: Socket): Exchange | null {
    return this.#open.get(socket)?.newest ?? null;
  }

  cut(socket: Socket, reason: CloseReason): void {
    this.closed[reason] += 1;
    socket.destroy();
  }

  /** Looks no more. */
  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    if (this.#terms.minRate === 0) return;
    for (const [socket, connection] of this.#open) {
      if (this.#isSlow(socket, connection)) this.cut(socket, 'slow');
    }
  }

  /** Has less of a body come than must, in as much waiting for it as a window has? */
  #isSlow(socket: Socket, connection: Connection): boolean {
    const { newest } = connection;
    if (!newest || newest.raw.complete || newest.hasEnded) return false;
    if (connection.timed !== newest) {
      connection.timed = newest;
      connection.waitedMs = 0;
      connection.fromBytes = socket.bytesRead;
    }
    // Nobody reads it now: it is the gateway that is waited for.
    if (newest.raw.readableFlowing !== true) return false;
    // Where this thread was held up, that is not the client's time.
    connection.waitedMs += this.#tickMs;
    const { minRate, rateWindowMs } = this.#terms;
    if (connection.waitedMs < rateWindowMs) return false;
    const cameBytes = socket.bytesRead - connection.fromBytes;
    connection.waitedMs = 0;
    connection.fromBytes = socket.bytesRead;
    return cameBytes * 1000 < minRate * rateWindowMs;
  }
}
