// The HTTP server. Fastify owns it and answers the native API; every other path is S3's and goes
// straight to the pipeline, which owns the message's body: nothing of Fastify's touches it.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import Fastify, { type FastifyBaseLogger, LogController } from 'fastify';
import type { Network } from '../authz/grants/networks.ts';
import { Refusal } from '../core/errors.ts';
import { inlineStore } from '../core/manifest.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import type { Logger } from '../instruments/logger.ts';
import { takeCredentials } from './credentials.ts';
import { findEntrance } from './find/find-entrance.ts';
import { watchGateway } from './gateway-metrics.ts';
import { judge } from './health.ts';
import { AcceptedHosts, ShareHost } from './http/accepted-hosts.ts';
import { Connections } from './http/connections.ts';
import { Preflights } from './http/cross-origin.ts';
import {
  type Exchange,
  type ExchangeTerms,
  exchangeOf,
  lendExchange,
  type TimingAudience,
} from './http/exchange.ts';
import {
  type Answer,
  answerClientError,
  type Entry,
  type HttpServerOptions,
  openHttpServer,
} from './http/http-server.ts';
import { takePassedOn, tellKnown } from './http/pass-on.ts';
import { type DescribeRefusal, describeInXml } from './http/reply.ts';
import { IntegrityCounter } from './integrity-counter.ts';
import { closeServer, connectionBounds, listenAt, listeningOf } from './listening.ts';
import { registerNativeApi } from './native/api.ts';
import type { NativeDeps } from './native/deps.ts';
import { nativeDepsOf } from './native/gateway-deps.ts';
import { observeCalls } from './native/observed-call.ts';
import { describeInProblem, sendProblem } from './native/problem.ts';
import { nativeServerOptions } from './native/server-options.ts';
import { type Entrance, type Pipeline, serveRequest } from './s3/pipeline.ts';
import { s3Entrance } from './s3/s3-entrance.ts';
import type { RequestServices, Services } from './services.ts';
import { describeInWords, shareEntrance } from './share/share-entrance.ts';
import { describeInStsXml, serveSts } from './sts/sts.ts';
import { websiteEntrance } from './website/website-entrance.ts';
import { describeInPage } from './website/website-page.ts';

export interface GatewayOptions {
  services: Services;
  host: string;
  /** 0: any free port. */
  port: number;
  /** Names that requests may be sent to besides its own: accepted-hosts.ts. */
  acceptHosts: readonly string[];
  /** A connection on which nothing moves for so long is closed, milliseconds. */
  stallTimeoutMs: number;
  connectionsMax: number;
  /** What a client must send of a body on average, bytes a second; 0: however little. */
  minRate: number;
  /** Peers that are believed where a request came from. */
  trustedProxies: readonly Network[];
  /** Who is told how long the stages of a request took. */
  serverTiming: TimingAudience;
  /** Told where the gateway listens: `http://127.0.0.1:9000`. */
  onListening: (url: string) => void;
  /** An address for the native API, health and metrics alone; null: they are where all else is. */
  administration: AdministrationAddress | null;
  /** The Unix socket by which other HTTP threads pass requests on; null: there are none. */
  passedOnAt: string | null;
}

export interface AdministrationAddress {
  host: string;
  port: number;
  onListening: (url: string) => void;
}

export interface Gateway {
  /** What of the stored data turned out not to be what was written. */
  integrity: IntegrityCounter;
  /** Stops accepting, lets requests finish for `timeoutMs`, then cuts what is left. */
  close(timeoutMs: number): Promise<void>;
}

/** At the administration's own address. */
const administratorsMax = 64;
/** Connections of other threads, which are everybody's: each request says whose it is. */
const peersOfOthers = { peerOf: () => '', isProxy: () => true };

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { services, host } = options;
  const { logger, altered, metrics, instruments } = services;
  const credentials = takeCredentials(services);
  let isClosing = false;
  const integrity = new IntegrityCounter();
  const { stallTimeoutMs, connectionsMax, passedOnAt } = options;
  const { caches } = credentials;
  const bounds = connectionBounds(options);
  const connections = new Connections(bounds);
  const administration = options.administration && {
    ...options.administration,
    connections: new Connections({ ...bounds, connectionsMax: administratorsMax }),
  };
  const doors = administration ? [connections, administration.connections] : [connections];
  const health: NativeDeps['health'] = async () => {
    const { facts, detail } = await services.lookAtHealth();
    const integrityFailures = integrity.summarize((store) => services.stores.nameOf(store));
    const isUndamaged = Object.keys(integrityFailures).length === 0;
    return { ...judge({ ...facts, isUndamaged }), detail: { ...detail, integrityFailures } };
  };
  watchGateway(metrics.registry, {
    services,
    caches,
    integrity,
    health,
    connections: doors,
  });
  const pipeline = makePipeline(services, { logger, metrics, integrity });
  altered.begin((found) => {
    pipeline.onIntegrityFailure(found, 'none');
    void noteAltered(services, found.index).catch((error: unknown) => {
      logger.error({ err: error }, 'an altered record was not noted');
    });
  });
  services.sealFaults.onFound(({ what, table, fault }) => {
    integrity.count({ kind: 'row', store: inlineStore });
    logger.error({ kind: 'row', table, fault }, `not authentic: ${what}`);
  });
  const { serverTiming } = options;
  const common = { instruments, serverTiming };
  const terms: ExchangeTerms = { ...common, door: administration ? 'clients' : 'all' };
  /** The handler of Fastify's own server, which answers at both addresses. */
  let native: Handler = () => {};
  const openDoor = (
    given: Pick<HttpServerOptions, 'terms' | 'connections' | 'domains' | 'shareHost'>,
    listenHost: string,
  ) =>
    openHttpServer({
      ...given,
      answers: { ...answersOf(services, pipeline, credentials), native: behindFastify(native) },
      describers,
      websiteDomains: given.domains.length === 0 ? [] : services.websiteDomains,
      hosts: new AcceptedHosts({
        listenHost,
        publicUrl: services.publicUrl,
        domains: given.domains,
        acceptHosts: options.acceptHosts,
      }),
      stallTimeoutMs,
      isClosing: () => isClosing,
      follow: () => services.ledger.follow(),
    });
  const app = Fastify({
    ...nativeServerOptions,
    loggerInstance: quiet(logger),
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'requestId',
    }),
    genReqId: (raw) => (exchangeOf(raw) as Exchange).id,
    clientErrorHandler: (error, socket) =>
      answerClientError({ terms, connections }, error, socket as Socket),
    // While draining, a request on an open connection is served, and told to close.
    return503OnClosing: false,
    serverFactory: (handle) => {
      native = handle;
      const shareHost = new ShareHost(services);
      return openDoor({ terms, connections, domains: services.domains, shareHost }, host);
    },
  });
  /** Where the other HTTP threads pass on what they do not answer; they have bounded it. */
  const openPassedOn = async (socketPath: string): Promise<Server> => {
    const proxies = {
      ...peersOfOthers,
      locate: (raw: IncomingMessage) => bounds.proxies.locate(raw),
    };
    const unbounded = new Connections({ ...bounds, proxies, minRate: 0, connectionsMax: Infinity });
    const shareHost = new ShareHost(services);
    const own = { terms: { ...terms, onKnown: tellKnown }, connections: unbounded };
    const server = openDoor({ ...own, domains: services.domains, shareHost }, host);
    takePassedOn(server);
    server.on('clientError', (error, socket) => answerClientError(own, error, socket as Socket));
    await listenAt(server, { path: socketPath });
    return server;
  };
  observeCalls(app);
  app.setNotFoundHandler((request, reply) => sendProblem(request, reply, new Refusal('NotFound')));
  await registerNativeApi(
    app,
    nativeDepsOf(services, {
      ...credentials,
      health,
      onIntegrityFailure: pipeline.onIntegrityFailure,
      serveFind: ({ raw }) => {
        void serveRequest(
          pipeline,
          findEntrance(credentials.authenticator),
          exchangeOf(raw) as Exchange,
        );
      },
    }),
  );
  tellAddress(app.server, host, options.onListening);
  await app.listen({
    ...{ host, port: options.port },
    ...listeningOf(connectionsMax, passedOnAt !== null),
  });
  const passedOn = passedOnAt === null ? null : await openPassedOn(passedOnAt);
  const close = async (timeoutMs: number, inner: Server | null = null) => {
    isClosing = true;
    await Promise.all([
      closeServer(app.server, timeoutMs, () => app.close()),
      ...[inner, passedOn].map((door) => door && closeServer(door, timeoutMs)),
    ]);
  };
  if (!administration) return { integrity, close };
  const { connections: administrators, onListening, ...place } = administration;
  // Not before the other listens: whose names it has is known from then on.
  const own = {
    terms: { ...common, door: 'administration' as const },
    connections: administrators,
  };
  const noHost = { is: () => false };
  const inner = openDoor({ ...own, domains: [], shareHost: noHost }, place.host);
  inner.on('clientError', (error, socket) => answerClientError(own, error, socket as Socket));
  tellAddress(inner, place.host, onListening);
  try {
    await listenAt(inner, place);
  } catch (error) {
    await close(0);
    throw error;
  }
  return { integrity, close: (timeoutMs) => close(timeoutMs, inner) };
}

/** Before the first connection: what comes in may need to know it. */
function tellAddress(server: Server, host: string, onListening: (url: string) => void): void {
  server.once('listening', () => {
    const { port } = server.address() as AddressInfo;
    onListening(`http://${host.includes(':') ? `[${host}]` : host}:${port}`);
  });
}

/** For what has nothing to say but that something is wrong. */
function quiet(logger: Logger): FastifyBaseLogger {
  return logger.level === 'info' ? logger.child({}, { level: 'warn' }) : logger;
}

/** So that whoever asks for it later is told, too. */
async function noteAltered({ ledger, records }: Services, index: number): Promise<void> {
  const kept = await records.readRecord(index, () => false).catch(() => undefined);
  const { tenant = null, bucketTenant = null } = kept ?? {};
  await ledger.maintain({ kind: 'noteAltered', rows: [{ index, tenant, bucketTenant }] });
}

type Credentials = ReturnType<typeof takeCredentials>;

/** What the way of every request tells of what went wrong on it. */
export function makePipeline(
  services: RequestServices,
  {
    logger,
    metrics,
    integrity,
  }: Pick<Pipeline, 'metrics'> & {
    logger: Logger;
    integrity: Pick<IntegrityCounter, 'count'>;
  },
): Pipeline {
  return {
    services,
    metrics,
    onBug: (error, requestId) => logger.error({ err: error, requestId }, 'a request failed'),
    onIntegrityFailure: (error, requestId) => {
      if (error instanceof UnsealedRow) services.sealFaults.add(error.unsealed);
      integrity.count(error);
      const { kind, store } = error;
      logger.error({ err: error, kind, store, requestId }, 'stored data failed authentication');
    },
  };
}

/** What answers the ways in, but for the native API's. */
function answersOf(
  services: Services,
  pipeline: Pipeline,
  { authenticator }: Credentials,
): Omit<Record<Entry, Answer>, 'native'> {
  const { onBug } = pipeline;
  const behind = (entrance: Entrance): Answer => {
    return (exchange) => void serveRequest(pipeline, entrance, exchange);
  };
  const { ledger, rates, folding, sessions, directory } = services;
  const sts = { authenticator, sessions, ledger, rates, folding, onBug };
  const preflights = new Preflights({ services, authenticator, onBug });
  return {
    preflight: (exchange) => void preflights.serve(exchange),
    s3: behind(s3Entrance(services, authenticator)),
    share: behind(shareEntrance(services, directory)),
    website: behind(websiteEntrance(services, authenticator)),
    sts: (exchange) => void serveSts(sts, exchange),
  };
}

export const describers: Record<Entry, DescribeRefusal> = {
  native: describeInProblem,
  preflight: describeInXml,
  s3: describeInXml,
  share: describeInWords,
  sts: describeInStsXml,
  website: describeInPage,
};

type Handler = (raw: IncomingMessage, response: ServerResponse) => void;

function behindFastify(handle: Handler): Answer {
  return (exchange) => {
    lendExchange(exchange);
    handle(exchange.raw, exchange.response);
  };
}
