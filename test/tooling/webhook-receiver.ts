// A webhook's server, for tests of what alarms tell.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  path: string;
  id: string;
  timestamp: number;
  signature: string;
  body: string;
}

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** A webhook's server, which answers as the test says. */
export class Receiver {
  readonly received: Received[] = [];
  answer: Answer = status(204);
  readonly #server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const { headers } = request;
    this.received.push({
      path: request.url ?? '',
      id: String(headers['webhook-id']),
      timestamp: Number(headers['webhook-timestamp']),
      signature: String(headers['webhook-signature']),
      body: Buffer.concat(pieces).toString(),
    });
    this.answer(response, request);
  });

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }

  get ids(): string[] {
    return this.received.map(({ id }) => id);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

export function status(code: number, headers: Record<string, string> = {}): Answer {
  return (response) => response.writeHead(code, headers).end();
}
