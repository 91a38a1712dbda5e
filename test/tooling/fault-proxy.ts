// A proxy in front of a real S3 server that injects faults: of the connection, of the request on
// its way up, of the answer on its way down. Invariant: without a fault, what passes is what was
// sent, header for header and byte for byte; each fault that was injected is counted.
import http, {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export type Fault =
  /** The connection is reset: in mid-upload, when the server has done it, or in mid-download. */
  | { kind: 'reset'; at: 'upload' | 'answer' | 'download'; afterBytes?: number }
  /** Nothing moves any more, on an open connection; a download begins after `delayMs`. */
  | { kind: 'stall'; at: 'upload' | 'answer' | 'download'; afterBytes?: number; delayMs?: number }
  | { kind: 'slow-first-byte'; delayMs: number }
  /** An error document. `carriedOut`: the server has done what it was asked for all the same. */
  | { kind: 'status'; status: number; code: string; carriedOut?: boolean }
  /**
   * A success that the server did not give. `carriedOut`: the server has done what it was asked for
   * all the same.
   */
  | {
      kind: 'lie';
      status: number;
      headers?: Record<string, string>;
      body?: string;
      carriedOut?: boolean;
    }
  /** The answer is another: its body, where it is short text, or headers of it. */
  | { kind: 'rewrite'; body?: (text: string) => string; headers?: Record<string, string> }
  /** A bit of the body is another. */
  | { kind: 'flip'; at: 'upload' | 'download'; offset?: number }
  /** The connection ends before the announced length. */
  | { kind: 'truncate'; afterBytes: number }
  /** Fewer bytes are announced and come. */
  | { kind: 'shorten'; byBytes: number }
  /** The length is not announced. */
  | { kind: 'no-length' }
  /** Another range is announced, and comes. */
  | { kind: 'other-range' }
  /** The whole object comes instead of the range. */
  | { kind: 'no-range' }
  /** A success, with an error document as its body. */
  | { kind: 'error-in-200'; keepHeaders?: boolean }
  /** A success, with the page of something that is no S3 server. */
  | { kind: 'portal' }
  /** An answer that is not HTTP. */
  | { kind: 'garbage' };

export interface ProxiedRequest {
  /** Counted from 0 over the life of the proxy. */
  index: number;
  method: string;
  /** With the query. */
  target: string;
  headers: http.IncomingHttpHeaders;
}

export type ChooseFault = (request: ProxiedRequest) => Fault | undefined;

const errorDocument = (code: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code>` +
  '<Message>injected</Message><RequestId>0</RequestId></Error>';

export class FaultProxy {
  /** Which fault a request meets. Default: none. */
  choose: ChooseFault = () => undefined;
  requests = 0;
  /** Requests by method. */
  readonly methods: Record<string, number> = {};
  /** Of bodies: what came from clients, and what was written to them. */
  readonly bytes = { up: 0, down: 0 };
  /** Injected faults by kind. */
  readonly faults: Record<string, number> = {};
  readonly #upstreamPort: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;

  private constructor(upstreamPort: number) {
    this.#upstreamPort = upstreamPort;
  }

  /** In front of the server at a loopback port. */
  static async start(upstreamPort: number): Promise<FaultProxy> {
    const proxy = new FaultProxy(upstreamPort);
    await proxy.accept();
    return proxy;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Connections of clients that are open now. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Connections are refused from now on, and the open ones are reset. */
  async refuse(): Promise<void> {
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  /** Connections are taken again, at the same port. */
  async accept(): Promise<void> {
    if (this.#server) return;
    const server = createServer((request, response) => this.#serve(request, response));
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.keepAliveTimeout = 60_000;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    await this.refuse();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url: target = '', headers } = request;
    const fault = this.choose({ index: this.requests++, method, target, headers });
    this.methods[method] = (this.methods[method] ?? 0) + 1;
    if (fault) this.faults[fault.kind] = (this.faults[fault.kind] ?? 0) + 1;
    this.#countBodies(request, response);
    if (fault?.kind === 'status' && !fault.carriedOut) {
      request.resume().once('end', () => sendDocument(response, fault.status, fault.code));
      return;
    }
    if (fault?.kind === 'lie' && !fault.carriedOut) {
      request.resume().once('end', () => lie(response, fault));
      return;
    }
    const upstream = http.request({
      host: '127.0.0.1',
      port: this.#upstreamPort,
      method,
      path: target,
      headers: rawHeadersFor(request, fault),
      // One connection for each: what one request did to its own does not reach the next.
      agent: false,
    });
    let isAnswered = false;
    upstream.on('response', (answer) => {
      isAnswered = true;
      this.#answer(answer, response, fault);
    });
    // A server that answers early may take no more of the body: then its answer counts.
    upstream.on('error', () => {
      if (!isAnswered) response.socket?.resetAndDestroy();
    });
    response.once('close', () => upstream.destroy());
    sendUp(request, upstream, fault);
  }

  #countBodies(request: IncomingMessage, response: ServerResponse): void {
    const take = request.push.bind(request);
    request.push = (chunk, encoding) => {
      this.bytes.up += chunk?.length ?? 0;
      return take(chunk, encoding);
    };
    for (const name of ['write', 'end'] as const) {
      const send = response[name].bind(response) as (...given: unknown[]) => never;
      response[name] = (...given: unknown[]) => {
        const [body] = given;
        if (typeof body === 'string' || Buffer.isBuffer(body)) this.bytes.down += body.length;
        return send(...given);
      };
    }
  }

  #answer(answer: IncomingMessage, response: ServerResponse, fault: Fault | undefined): void {
    response.sendDate = false;
    const { statusCode = 0 } = answer;
    switch (fault?.kind) {
      case undefined:
      case 'flip':
        break;
      case 'reset':
      case 'stall':
        if (fault.at === 'download') {
          const cut = () => cutBody(answer, response, fault.afterBytes ?? 0, fault.kind);
          if (fault.kind === 'stall' && fault.delayMs) setTimeout(cut, fault.delayMs).unref();
          else cut();
        } else if (fault.at === 'answer' && fault.kind === 'reset') {
          answer.resume();
          response.socket?.resetAndDestroy();
        }
        return;
      case 'slow-first-byte':
        setTimeout(() => relay(answer, response), fault.delayMs).unref();
        return;
      case 'status':
        answer.resume().once('end', () => sendDocument(response, fault.status, fault.code));
        return;
      case 'lie':
        answer.resume().once('end', () => lie(response, fault));
        return;
      case 'truncate':
        cutBody(answer, response, fault.afterBytes, 'end');
        return;
      case 'rewrite':
        rewrite(answer, response, fault);
        return;
      case 'shorten':
        shorten(answer, response, fault.byBytes);
        return;
      case 'no-length':
        response.writeHead(statusCode, withoutHeader(answer.rawHeaders, 'content-length'));
        answer.pipe(response);
        return;
      case 'other-range': {
        const headers = withoutHeader(answer.rawHeaders, 'content-range');
        const moved = answer.headers['content-range']?.replace(/\d+/, (n) => String(Number(n) + 1));
        response.writeHead(statusCode, [...headers, 'content-range', moved ?? 'bytes 1-1/2']);
        answer.pipe(response);
        return;
      }
      case 'error-in-200':
        answer.resume().once('end', () => {
          const kept = withoutHeader(answer.rawHeaders, 'content-length');
          sendDocument(response, 200, 'InternalError', fault.keepHeaders ? kept : undefined);
        });
        return;
      case 'portal': {
        const page = '<html><body>Please log in</body></html>';
        const headers = ['content-type', 'text/html', 'content-length', `${page.length}`];
        answer.resume();
        response.writeHead(200, headers).end(page);
        return;
      }
      case 'garbage':
        answer.resume();
        response.socket?.end('this is not HTTP\r\n\r\n');
        return;
    }
    relay(answer, response, fault);
  }
}

/** The request's headers as they came; without its range where that is the fault. */
function rawHeadersFor(request: IncomingMessage, fault: Fault | undefined): string[] {
  const { rawHeaders } = request;
  return fault?.kind === 'no-range' ? withoutHeader(rawHeaders, 'range') : rawHeaders;
}

function withoutHeader(rawHeaders: readonly string[], name: string): string[] {
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [key = '', value = ''] = rawHeaders.slice(i, i + 2);
    if (key.toLowerCase() !== name) kept.push(key, value);
  }
  return kept;
}

function sendUp(
  request: IncomingMessage,
  upstream: http.ClientRequest,
  fault: Fault | undefined,
): void {
  const at = fault && 'at' in fault && fault.at === 'upload' ? fault : undefined;
  if (!at) {
    request.pipe(upstream);
    return;
  }
  let got = 0;
  request.on('data', (chunk: Buffer) => {
    if (at.kind === 'flip') {
      flipBit(chunk, (at.offset ?? 0) - got);
      upstream.write(chunk);
    }
    got += chunk.length;
    if (at.kind === 'flip' || got < (at.afterBytes ?? 1)) return;
    if (at.kind === 'reset') request.socket.resetAndDestroy();
    else request.pause();
  });
  request.on('end', () => upstream.end());
}

function flipBit(chunk: Buffer, offset: number): void {
  if (offset >= 0 && offset < chunk.length) chunk[offset] = (chunk[offset] as number) ^ 1;
}

function relay(answer: IncomingMessage, response: ServerResponse, fault?: Fault): void {
  response.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
  if (fault?.kind !== 'flip' || fault.at !== 'download') {
    answer.pipe(response);
    return;
  }
  let got = 0;
  answer.on('data', (chunk: Buffer) => {
    flipBit(chunk, (fault.offset ?? 0) - got);
    got += chunk.length;
    response.write(chunk);
  });
  answer.on('end', () => response.end());
}

/** So many bytes of the body, and then the connection is reset, ended, or still. */
function cutBody(
  answer: IncomingMessage,
  response: ServerResponse,
  afterBytes: number,
  how: 'reset' | 'stall' | 'end',
): void {
  response.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
  let left = afterBytes;
  const cut = (): void => {
    if (how === 'end') response.socket?.end();
    // What was written is given time to leave: a reset takes back what has not been read.
    if (how === 'reset') setTimeout(() => response.socket?.resetAndDestroy(), 20);
  };
  const take = (chunk: Buffer): void => {
    const part = chunk.subarray(0, left);
    left -= part.length;
    response.write(part);
    if (left > 0) return;
    answer.off('data', take);
    answer.resume();
    response.write('', cut);
  };
  if (afterBytes === 0) {
    response.flushHeaders();
    response.write('', cut);
    answer.resume();
    return;
  }
  answer.on('data', take);
}

function rewrite(
  answer: IncomingMessage,
  response: ServerResponse,
  { body, headers = {} }: Extract<Fault, { kind: 'rewrite' }>,
): void {
  const pieces: Buffer[] = [];
  answer.on('data', (chunk: Buffer) => pieces.push(chunk));
  answer.on('end', () => {
    const bytes = Buffer.concat(pieces);
    const sent = body ? Buffer.from(body(bytes.toString())) : bytes;
    let kept = body ? withoutHeader(answer.rawHeaders, 'content-length') : answer.rawHeaders;
    if (body) kept.push('content-length', `${sent.length}`);
    for (const name in headers)
      kept = [...withoutHeader(kept, name), name, headers[name] as string];
    response.writeHead(answer.statusCode ?? 0, kept).end(sent);
  });
}

function shorten(answer: IncomingMessage, response: ServerResponse, byBytes: number): void {
  const pieces: Buffer[] = [];
  answer.on('data', (chunk: Buffer) => pieces.push(chunk));
  answer.on('end', () => {
    const body = Buffer.concat(pieces);
    const kept = body.subarray(0, Math.max(0, body.length - byBytes));
    const headers = withoutHeader(answer.rawHeaders, 'content-length');
    response.writeHead(answer.statusCode ?? 0, [...headers, 'content-length', `${kept.length}`]);
    response.end(kept);
  });
}

function lie(
  response: ServerResponse,
  { status, headers, body = '' }: Extract<Fault, { kind: 'lie' }>,
): void {
  response.writeHead(status, { ...headers, 'content-length': body.length }).end(body);
}

function sendDocument(
  response: ServerResponse,
  status: number,
  code: string,
  headers: string[] = ['content-type', 'application/xml'],
): void {
  const body = errorDocument(code);
  response.writeHead(status, [...headers, 'content-length', `${body.length}`]);
  response.end(body);
}
