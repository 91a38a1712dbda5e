// The HTTP server. Fastify owns it and answers the native API; every other path is S3's and goes
// straight to the pipeline, which owns the message's body: nothing of Fastify's touches it.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import Fastify, { type FastifyInstance, LogController } from 'fastify';
import type { RecordStore } from '../audit/record-store.ts';
import type { RecordSearch } from '../audit/search/record-search.ts';
import type { Directory } from '../authz/directory.ts';
import type { Network } from '../authz/grants/networks.ts';
import { type ErrorCode, messageOf, statusOf } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import { headerBytesMax, pipelinedRequestsMax } from '../core/limits.ts';
import type { RootKeyFile } from '../core/root-keys.ts';
import type { Sealer } from '../core/sealing.ts';
import type { Instruments } from '../instruments/instruments.ts';
import type { Metrics } from '../instruments/metrics.ts';
import type { LogKeyFile } from '../ledger/log-key-file.ts';
import type { UsageRollUp } from '../ledger/usage-roll-up.ts';
import type { PriceBooks } from '../quota/prices/price-books.ts';
import type { AlarmTeller } from './alarms/alarm-teller.ts';
import { takeCredentials } from './credentials.ts';
import { Preflights } from './cross-origin.ts';
import { DataVerifier } from './data-verifier.ts';
import { watchGateway } from './gateway-metrics.ts';
import { IntegrityCounter } from './integrity-counter.ts';
import { registerNativeApi } from './native/api.ts';
import { nativeDepsOf } from './native/rooms.ts';
import { nativeServerOptions } from './native/server-options.ts';
import { type Entrance, type Pipeline, serveRequest } from './pipeline.ts';
import { bucketOfHost, markExpectingContinue } from './request.ts';
import type { Rooms } from './rooms.ts';
import { s3Entrance } from './s3-entrance.ts';
import { shareEntrance } from './share-entrance.ts';
import { isShareTarget } from './share-url.ts';
import { isStsForm, serveSts } from './sts.ts';
import { TrustedProxies } from './trusted-proxies.ts';
import { renderErrorXml } from './xml.ts';

export interface GatewayOptions {
  rooms: Rooms;
  directory: Directory;
  sealer: Sealer;
  rootKeys: RootKeyFile;
  logKeys: LogKeyFile;
  usageRollUp: Pick<UsageRollUp, 'catchUp'>;
  records: RecordStore;
  search: RecordSearch;
  alarms: Pick<AlarmTeller, 'stateOf' | 'test'>;
  metrics: Metrics;
  instruments: Instruments;
  priceBooks: PriceBooks;
  host: string;
  /** 0: any free port. */
  port: number;
  /** A connection on which nothing moves for so long is closed, milliseconds. */
  stallTimeoutMs: number;
  connectionsMax: number;
  /** Peers that are believed where a request came from. */
  trustedProxies: readonly Network[];
  logLevel: string;
  /** Told where the gateway listens: `http://127.0.0.1:9000`. */
  onListening: (url: string) => void;
  /** What `/_/health` tells besides being ready. */
  health: () => Promise<{ ready: boolean } & Record<string, unknown>>;
}

export interface Gateway {
  /** Stops accepting, lets requests finish for `timeoutMs`, then cuts what is left. */
  close(timeoutMs: number): Promise<void>;
}

const keepAliveTimeoutMs = 72_000;
const headersTimeoutMsMax = 30_000;
const headersCheckMs = 1000;
const idleCheckMs = 100;

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { rooms, directory, sealer, rootKeys, logKeys, health, host } = options;
  const { authenticator, sessions, tokenKeys, followers, caches } = takeCredentials(
    rooms,
    directory,
  );
  const state = { closing: false };
  const integrity = new IntegrityCounter();
  watchGateway(options.metrics.registry, { rooms, caches, integrity });
  const proxies = new TrustedProxies(options.trustedProxies);
  const pipeline: Pipeline = {
    rooms,
    metrics: options.metrics,
    proxies,
    onBug: (error, requestId) => app.log.error({ err: error, requestId }, 'a request failed'),
    onIntegrityFailure: (error, requestId) => {
      integrity.count(error);
      const { kind, store } = error;
      app.log.error({ err: error, kind, store, requestId }, 'stored data failed authentication');
    },
  };
  const taken = (answer: Answer): Answer => {
    return (raw, response) => {
      response.shouldKeepAlive &&= !state.closing;
      response.on('timeout', cutIfStalled);
      inTurn(response, () => answer(raw, response));
    };
  };
  const behind = (entrance: Entrance): Answer =>
    taken((raw, response) => void serveRequest(pipeline, entrance, raw, response));
  const { onBug } = pipeline;
  const sts = { authenticator, sessions, ledger: rooms.ledger, proxies, onBug };
  const preflights = new Preflights({ rooms, authenticator, proxies, onBug });
  const answers = {
    preflight: taken((raw, response) => void preflights.serve(raw, response)),
    s3: behind(s3Entrance(rooms, authenticator)),
    share: behind(shareEntrance(rooms.read, directory)),
    sts: taken((raw, response) => void serveSts(sts, raw, response)),
  };
  const app = Fastify({
    ...nativeServerOptions,
    logger: { level: options.logLevel },
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: newRequestId,
    clientErrorHandler: answerClientError,
    // While draining, a request on an open connection is served, and told to close.
    return503OnClosing: false,
    serverFactory: (native) => createHttpServer(options, { ...answers, native }),
  });
  const { ledger, read, stores } = rooms;
  const native = nativeDepsOf({
    ledger,
    read,
    stores,
    grants: rooms.grants,
    mounts: rooms.mounts,
    buckets: rooms.buckets,
    log: rooms.log,
    witnesses: rooms.witnesses,
    desk: {
      setLimits: (account, limits) => {
        rooms.desk.setLimits(account, limits);
        rooms.rates.setLimits(account, limits);
      },
    },
    publicUrl: rooms.publicUrl,
    outside: rooms.outside,
    directory,
    followers: [rooms.grants, rooms.mounts, rooms.readRecording, ...followers],
    tokenKeys,
    revocations: rooms.revocations,
    sealer,
    rootKeys,
    logKeys,
    keyring: rooms.keyring,
    health: async () => ({
      ...(await health()),
      integrityFailures: integrity.summarize((store) => stores.nameOf(store)),
    }),
    authenticator,
    proxies,
    verifier: new DataVerifier(rooms),
    usageRollUp: options.usageRollUp,
    records: options.records,
    search: options.search,
    alarms: options.alarms,
    priceBooks: options.priceBooks,
    metrics: options.metrics.registry,
    onIntegrityFailure: pipeline.onIntegrityFailure,
  });
  await registerNativeApi(app, native);
  // Before the first connection: what comes in may need to know it.
  app.server.once('listening', () => {
    const { port } = app.server.address() as AddressInfo;
    options.onListening(`http://${host.includes(':') ? `[${host}]` : host}:${port}`);
  });
  await app.listen({ host, port: options.port });
  return {
    close: (timeoutMs) => {
      state.closing = true;
      return closeServer(app, timeoutMs);
    },
  };
}

type Answer = (raw: IncomingMessage, response: ServerResponse) => void;

/** The ways in: path and host tell which one a request takes. */
type Way = 'native' | 'share' | 'sts' | 'preflight' | 's3';

/** One server for all. */
function createHttpServer(options: GatewayOptions, answers: Record<Way, Answer>): Server {
  const { domains } = options.rooms;
  const server = createServer(
    {
      maxHeaderSize: headerBytesMax,
      headersTimeout: Math.min(options.stallTimeoutMs, headersTimeoutMsMax),
      connectionsCheckingInterval: headersCheckMs,
      requestTimeout: 0,
      keepAliveTimeout: keepAliveTimeoutMs,
    },
    (raw, response) => answers[wayOf(raw, domains)](raw, response),
  );
  server.setTimeout(options.stallTimeoutMs);
  server.maxConnections = options.connectionsMax;
  // Headers are bounded in bytes; a count that silently drops the rest would change what was
  // signed.
  server.maxHeadersCount = 0;
  server.on('checkContinue', (raw: IncomingMessage, response: ServerResponse) => {
    if (wayOf(raw, domains) === 'native') response.writeContinue();
    else markExpectingContinue(raw);
    server.emit('request', raw, response);
  });
  return server;
}

/** Where the host names a bucket, paths that are reserved otherwise are keys like any other. */
function wayOf(raw: IncomingMessage, domains: readonly string[]): Way {
  const url = raw.url ?? '';
  const isReserved = url === '/_' || url.startsWith('/_/') || url.startsWith('/.well-known/');
  const isForm = !isReserved && isStsForm(raw);
  const s3 = raw.method === 'OPTIONS' ? 'preflight' : 's3';
  if (!isReserved && !isForm) return s3;
  if (bucketOfHost(raw.headers.host ?? '', domains) !== null) return s3;
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
function inTurn(response: ServerResponse, run: () => void): void {
  const connection = response.req.socket;
  if (response.socket) {
    run();
    return;
  }
  const waiting = (waitingByConnection.get(connection) ?? 0) + 1;
  if (waiting > pipelinedRequestsMax) {
    connection.destroy();
    return;
  }
  waitingByConnection.set(connection, waiting);
  response.once('socket', () => {
    waitingByConnection.set(connection, (waitingByConnection.get(connection) ?? 1) - 1);
    run();
  });
}

/** Nothing has moved for the stall timeout: the client's fault, unless it waits for the gateway. */
function cutIfStalled(this: ServerResponse, socket: Socket): void {
  const { req } = this;
  const mayRead = socket.writableLength > 0;
  const maySend = !req.complete && !req.isPaused();
  if (mayRead || maySend) socket.destroy();
  else socket.setTimeout(socket.timeout ?? 0);
}

async function closeServer(app: FastifyInstance, timeoutMs: number): Promise<void> {
  // A connection that goes idle after the close has begun would otherwise hold it up.
  const idle = setInterval(() => app.server.closeIdleConnections(), idleCheckMs);
  const all = setTimeout(() => app.server.closeAllConnections(), timeoutMs);
  await app.close();
  clearInterval(idle);
  clearTimeout(all);
}

/** Messages that are not HTTP, or too much of it: answered as S3 does, then cut. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const code = codeOfClientError(error);
  const body = renderErrorXml({ Code: code, Message: messageOf(code), RequestId: newRequestId() });
  const head = [
    `HTTP/1.1 ${statusOf(code)} ${code}`,
    'Connection: close',
    'Content-Type: application/xml',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

function codeOfClientError(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === 'HPE_HEADER_OVERFLOW') return 'RequestHeaderSectionTooLarge';
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'RequestTimeout';
  return 'BadRequest';
}
