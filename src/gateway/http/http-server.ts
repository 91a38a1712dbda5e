// Where connections come in: one HTTP server for all ways, each of which answers what is its own.
// Where the administration has an address of its own, each address has a door, and knows what is
// behind it. Invariants: what is asked of a host that is not the gateway's is refused, whatever it
// is; each request that comes in is an exchange, which ends once; one runs when its answer is the
// next on its connection; and what is no request gets an answer with an id all the same.
// Specification: RFC 9112.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, messageOf, Refusal, statusOf } from '../../core/errors.ts';
import { headerBytesMax, pipelinedRequestsMax } from '../../core/limits.ts';
import { http } from '../../core/node-http.ts';
import { bucketOfHost, markExpectingContinue, repeatedHeader } from '../s3/request.ts';
import { isShareTarget } from '../share/share-url.ts';
import { isStsForm } from '../sts/sts.ts';
import { isWebsiteHost } from '../website/website-host.ts';
import type { AcceptedHosts, ShareHost } from './accepted-hosts.ts';
import type { Connections } from './connections.ts';
import { type Door, Exchange, type ExchangeTerms } from './exchange.ts';
import { type DescribeRefusal, describeInXml, sendRefusal } from './reply.ts';
import { renderErrorXml } from './xml.ts';

/** Answers one request, and sees to it that its exchange ends. */
export type Answer = (exchange: Exchange) => void;

/** The ways in: path and host tell which one a request takes. */
export type Entry = 'native' | 'share' | 'sts' | 'preflight' | 's3' | 'website';

export interface HttpServerOptions {
  terms: ExchangeTerms;
  connections: Connections;
  answers: Record<Entry, Answer>;
  /** How each way tells a refusal. */
  describers: Record<Entry, DescribeRefusal>;
  domains: readonly string[];
  /** The domains of websites. */
  websiteDomains: readonly string[];
  hosts: Pick<AcceptedHosts, 'accepts'>;
  /** Serves share links alone. */
  shareHost: Pick<ShareHost, 'is'>;
  stallTimeoutMs: number;
  /** Is what is open to be closed after its answer? */
  isClosing: () => boolean;
  /** Resolves when memory has all that was answered for until now; null: it has. */
  follow: () => Promise<void> | null;
}

const keepAliveTimeoutMs = 72_000;
const headersTimeoutMsMax = 30_000;
const headersCheckMs = 1000;

export function openHttpServer(options: HttpServerOptions): Server {
  const { terms, connections, describers, isClosing } = options;
  const followed = mapAnswers(options);
  const server = http.createServer(
    {
      maxHeaderSize: headerBytesMax,
      headersTimeout: Math.min(options.stallTimeoutMs, headersTimeoutMsMax),
      connectionsCheckingInterval: headersCheckMs,
      requestTimeout: 0,
      keepAliveTimeout: keepAliveTimeoutMs,
      // Who says no host is refused as others are, with an id.
      requireHostHeader: false,
    },
    (raw, response) => {
      const entry = entryOf(raw, options);
      const elsewhere = terms.door === 'all' ? null : misplaced(raw, entry, terms.door);
      const fault = faultOf(raw, entry, options) ?? elsewhere;
      const refuse = (exchange: Exchange) =>
        void refuseAtOnce(exchange, fault as Refusal, describers[entry]);
      take(entry, raw, response, fault ? refuse : followed[entry]);
    },
  );
  const take = (way: Entry, raw: IncomingMessage, response: ServerResponse, answer: Answer) => {
    const exchange = new Exchange(terms, way, connections.originOf(raw), raw, response);
    connections.begin(exchange);
    response.shouldKeepAlive &&= !isClosing();
    response.on('timeout', cutIfStalled);
    // Beyond its connections the gateway tells of its health, and of nothing else.
    const isHealth = way === 'native' && isHealthTarget(raw.url);
    const isServed = isHealth || connections.mayServe(exchange);
    runInTurn(exchange, isServed ? answer : refuseCrowded);
  };
  /** There are too many connections for this one. */
  const refuseCrowded = (exchange: Exchange): void => {
    exchange.response.shouldKeepAlive = false;
    const way = entryOf(exchange.raw, options);
    void refuseAtOnce(exchange, new Refusal('SlowDown'), describers[way]);
  };
  /**
   * Nothing has moved for the stall timeout: the client's fault, unless it waits for the gateway.
   */
  function cutIfStalled(this: ServerResponse, socket: Socket): void {
    const { req } = this;
    const mayRead = socket.writableLength > 0;
    // Where nobody has begun to read it, or has paused it, it is the gateway that is waited for.
    const maySend = !req.complete && req.readableFlowing === true;
    if (mayRead || maySend) connections.cut(socket, 'stalled');
    else socket.setTimeout(socket.timeout ?? 0);
  }
  server.on('connection', (socket: Socket) => connections.add(socket));
  server.on('close', () => connections.close());
  server.setTimeout(options.stallTimeoutMs);
  // Headers are bounded in bytes; a count that silently drops the rest would change what was
  // signed.
  server.maxHeadersCount = 0;
  server.on('checkContinue', (raw: IncomingMessage, response: ServerResponse) => {
    const entry = entryOf(raw, options);
    if (entry !== 'native') markExpectingContinue(raw);
    else if (!faultOf(raw, entry, options)) response.writeContinue();
    server.emit('request', raw, response);
  });
  // Node would refuse by itself, without an id.
  server.on('checkExpectation', (raw: IncomingMessage, response: ServerResponse) => {
    // RFC 9110 section 10.1.1.
    const refusal = new Refusal('ExpectationFailed');
    take('s3', raw, response, (exchange) => void refuseAtOnce(exchange, refusal, describeInXml));
  });
  // Nobody is connected to others here; Node would close the connection without a word.
  server.on('connect', (_raw, socket) => {
    answerClientError({ terms, connections }, new Error('CONNECT'), socket as Socket);
  });
  return server;
}

/** The answers, each given when what was answered for before is in memory. */
function mapAnswers({
  answers,
  follow,
}: Pick<HttpServerOptions, 'answers' | 'follow'>): Record<Entry, Answer> {
  const after = (answer: Answer): Answer => {
    return (exchange) => {
      const following = follow();
      if (following) void following.then(() => answer(exchange));
      else answer(exchange);
    };
  };
  const { native, share, sts, preflight, s3, website } = answers;
  return {
    ...{ native: after(native), share: after(share), sts: after(sts) },
    ...{ preflight: after(preflight), s3: after(s3), website: after(website) },
  };
}

const healthTarget = /^\/_\/health(?:\/read|\/live)?(?:\?|$)/;

function isHealthTarget(url = ''): boolean {
  return healthTarget.test(url);
}

async function refuseAtOnce(
  exchange: Exchange,
  refusal: Refusal,
  describe: DescribeRefusal,
): Promise<void> {
  await sendRefusal(exchange, refusal, describe);
  exchange.end();
}

/** Why a request is refused before anything of it is looked at; null: it is not. */
function faultOf(
  raw: IncomingMessage,
  entry: Entry,
  { connections, hosts, shareHost }: Pick<HttpServerOptions, 'connections' | 'hosts' | 'shareHost'>,
): Refusal | null {
  const { url = '', headers, rawHeaders, socket } = raw;
  const { host } = headers;
  // The others see to that themselves, where they see to what else a header may not be.
  if (entry === 'native') {
    const fault = repeatedHeader(rawHeaders);
    if (fault) return fault;
  }
  const forbidden = refuseServiceWorker(raw);
  if (forbidden) return forbidden;
  // HTTP/1.0 knows no hosts; and nobody proves anything by asking whether the gateway is well,
  // which load balancers ask by its address.
  if (host === undefined || isHealthTarget(url)) return null;
  // Nearly all messages of a connection are for the same.
  if (connections.hasHost(socket, host)) return null;
  if (shareHost.is(host)) return entry === 'share' ? null : refuseUnshared();
  if (hosts.accepts(host, socket.localAddress)) {
    connections.keepHost(socket, host);
    return null;
  }
  const message =
    `The gateway does not answer for the host ${host}. If that is one of its names, ` +
    'its operator says so with --accept-hosts.';
  return new Refusal('MisdirectedRequest', { message, fields: { Host: host } });
}

/**
 * Why a request is none that is answered; null: it is. A service worker would see all that its
 * origin is asked for, presigned URLs of others too. Browsers mark the request for its script,
 * which pages cannot leave out: Service Workers, section "Update".
 */
function refuseServiceWorker({ headers }: IncomingMessage): Refusal | null {
  const { 'service-worker': mark, 'sec-fetch-dest': destination } = headers;
  if (mark === undefined && destination !== 'serviceworker') return null;
  const message = 'Scripts of service workers are not served.';
  return new Refusal('AccessDenied', { message });
}

/**
 * What stays with clients where the administration has its own address: for anybody, without names.
 */
const publicTargets = ['/_/log/', '/.well-known/'] as const;

/** Why there is nothing of the kind at this address; null: there is. */
function misplaced(
  { url = '' }: IncomingMessage,
  entry: Entry,
  door: Exclude<Door, 'all'>,
): Refusal | null {
  const isNative = entry === 'native';
  if (door === 'administration') return isNative ? null : new Refusal('NotFound');
  const isPublic = !isNative || publicTargets.some((prefix) => url.startsWith(prefix));
  return isPublic ? null : new Refusal('NotFound');
}

function refuseUnshared(): Refusal {
  const message = 'This host is for share links alone.';
  return new Refusal('MisdirectedRequest', { message });
}

/** Where the host names a bucket, paths that are reserved otherwise are keys like any other. */
function entryOf(
  raw: IncomingMessage,
  {
    domains,
    websiteDomains,
    shareHost,
  }: Pick<HttpServerOptions, 'domains' | 'websiteDomains' | 'shareHost'>,
): Entry {
  const url = raw.url ?? '';
  const { host } = raw.headers;
  const isOfWebsite = host !== undefined && isWebsiteHost(host, websiteDomains);
  if (isOfWebsite) return raw.method === 'OPTIONS' ? 'preflight' : 'website';
  const isReserved = url === '/_' || url.startsWith('/_/') || url.startsWith('/.well-known/');
  const isForm = raw.method === 'POST' && !isReserved && isStsForm(raw);
  const s3 = raw.method === 'OPTIONS' ? 'preflight' : 's3';
  if (!isReserved && !isForm) return s3;
  if (isShareTarget(url) && shareHost.is(host)) return 'share';
  if (host === undefined || bucketOfHost(host, domains) !== null) return s3;
  if (isForm) return 'sts';
  return isShareTarget(url) ? 'share' : 'native';
}

/** Requests that wait on a connection for the answers before theirs. */
const waitingByConnection = new WeakMap<Socket, number>();

/**
 * Runs a request when its answer is the next on its connection. A pipelined one that ran before
 * would hold buffers for an answer that is told nothing of the connection, not even that it has
 * gone.
 */
function runInTurn(exchange: Exchange, answer: Answer): void {
  const { raw, response, clock } = exchange;
  if (response.socket) {
    answer(exchange);
    return;
  }
  const connection = raw.socket;
  const waiting = (waitingByConnection.get(connection) ?? 0) + 1;
  if (waiting > pipelinedRequestsMax) {
    connection.destroy();
    exchange.end();
    return;
  }
  waitingByConnection.set(connection, waiting);
  clock.enter('stream');
  const abandon = (): void => exchange.end();
  raw.once('close', abandon);
  response.once('socket', () => {
    raw.off('close', abandon);
    waitingByConnection.set(connection, (waitingByConnection.get(connection) ?? 1) - 1);
    clock.enter('parse');
    answer(exchange);
  });
}

/** Connections of which nothing more can be read. */
const unreadable = new WeakSet<Socket>();

/** Messages that are not HTTP, or too much of it: answered as S3 does, then cut. */
export function answerClientError(
  door: Pick<HttpServerOptions, 'terms' | 'connections'>,
  error: NodeJS.ErrnoException,
  socket: Socket,
): void {
  const begun = door.connections.newestOf(socket) ?? undefined;
  const isDue = begun !== undefined && !begun.response.writableEnded;
  const isInBody = isDue && !begun.raw.complete;
  const mayAnswer = begun?.response.headersSent === false && begun.response.socket !== null;
  // Who ends it in the midst of a body has gone.
  const isLost = isInBody && (!mayAnswer || error.code === 'HPE_INVALID_EOF_STATE');
  if (error.code === 'ECONNRESET' || isLost || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  if (isDue && !isInBody) {
    // The answer before it must neither have this one in its midst nor be taken for it.
    if (unreadable.has(socket)) return;
    unreadable.add(socket);
    begun.response.once('close', () => answerClientError(door, error, socket));
    return;
  }
  // What comes as the body of a request is that request's.
  refuseRaw(isInBody ? begun : beginUnread(door, socket), codeOfClientError(error), socket);
}

/** Answers where Node does not, and closes the connection. */
function refuseRaw(exchange: Exchange, code: ErrorCode, socket: Socket): void {
  const { id } = exchange;
  const body = renderErrorXml({ Code: code, Message: messageOf(code), RequestId: id });
  const head = [
    `HTTP/1.1 ${statusOf(code)} ${code}`,
    'Connection: close',
    'Content-Type: application/xml',
    'X-Content-Type-Options: nosniff',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `x-amz-request-id: ${id}`,
  ];
  exchange.clock.answer();
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  exchange.error = code;
  exchange.status = statusOf(code);
  exchange.bytesOut = Buffer.byteLength(body);
  exchange.end();
}

function beginUnread(
  { terms, connections }: Pick<HttpServerOptions, 'terms' | 'connections'>,
  socket: Socket,
): Exchange {
  const raw = new http.IncomingMessage(socket);
  return new Exchange(terms, 's3', connections.originOf(raw), raw, new http.ServerResponse(raw));
}

function codeOfClientError(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === 'HPE_HEADER_OVERFLOW') return 'RequestHeaderSectionTooLarge';
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'RequestTimeout';
  return 'BadRequest';
}
