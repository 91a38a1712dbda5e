// Signed requests over a plain socket, for clients that behave as no HTTP library lets them.
import { connect, type Socket } from 'node:net';
import { signRequest } from '#bursar/core/sigv4.js';
import type { Target } from '../fault/s3-client.ts';

export class RawClient {
  readonly #target: Target;
  readonly #url: URL;
  readonly #sockets: Socket[] = [];

  constructor(target: Target) {
    this.#target = target;
    this.#url = new URL(target.endpoint);
  }

  /** A connection on which nothing has been sent. Errors end it, as they would any client's. */
  connect(): Socket {
    const socket = connect(Number(this.#url.port), this.#url.hostname);
    socket.on('error', () => undefined);
    this.#sockets.push(socket);
    return socket;
  }

  /**
   * The head of a signed request, with the empty line behind it.
   *
   * @param target a path that is the same encoded and decoded, and `?` with parameters of which the
   *   same is true
   * @param headers `x-amz-content-sha256` is UNSIGNED-PAYLOAD if absent
   */
  head(method: string, target: string, headers: Record<string, string> = {}): string {
    const { pathname, searchParams } = new URL(target, this.#url);
    const all = { host: this.#url.host, ...headers };
    const payloadHash = headers['x-amz-content-sha256'];
    const signed = signRequest({
      accessKeyId: this.#target.accessKeyId,
      secret: this.#target.secretAccessKey,
      region: 'us-east-1',
      method,
      path: pathname,
      query: [...searchParams],
      headers: all,
      ...(payloadHash !== undefined && { payloadHash }),
      timeMs: Date.now(),
    });
    const lines = Object.entries({ ...all, ...signed }).map(([name, value]) => `${name}: ${value}`);
    return `${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
  }

  /** Drops all its connections. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Resolves when the other side has ended or broken the connection. Something must read it. */
export function ended(socket: Socket): Promise<void> {
  if (socket.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    socket.once('end', resolve);
    socket.once('close', () => resolve());
  });
}
