// What an HTTP thread besides the main one serves: all that S3 clients ask, in any store, and share
// links. The rest it passes on to the main thread, which has what there is but once: the native
// API, STS, how often an address may ask for preflights, and proofs that are good once. Invariant:
// a request is passed on before anything is counted for it, and before a byte of its body was read.
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '../instruments/logger.ts';
import { takeCredentials } from './credentials.ts';
import { AcceptedHosts, ShareHost } from './http/accepted-hosts.ts';
import { Connections, type ConnectionTerms } from './http/connections.ts';
import type { ExchangeTerms } from './http/exchange.ts';
import { type Answer, answerClientError, openHttpServer } from './http/http-server.ts';
import type { MainThread } from './http/pass-on.ts';
import type { IntegrityCounter } from './integrity-counter.ts';
import { type Entrance, type Pipeline, serveRequest } from './s3/pipeline.ts';
import { s3Entrance } from './s3/s3-entrance.ts';
import { describers, makePipeline } from './server.ts';
import type { RequestServices } from './services.ts';
import { shareEntrance } from './share/share-entrance.ts';
import { websiteEntrance } from './website/website-entrance.ts';

export interface HttpThreadOptions {
  services: RequestServices;
  terms: ExchangeTerms;
  bounds: ConnectionTerms;
  logger: Logger;
  metrics: Pipeline['metrics'];
  integrity: Pick<IntegrityCounter, 'count'>;
  mainThread: MainThread;
  listenHost: string;
  acceptHosts: readonly string[];
  stallTimeoutMs: number;
  isClosing: () => boolean;
  follow: () => Promise<void> | null;
}

/** A server that does not listen yet, and what is known of its connections and credentials. */
export function openHttpThread(options: HttpThreadOptions): {
  server: Server;
  connections: Connections;
  caches: ReturnType<typeof takeCredentials>['caches'];
} {
  const { services, terms, mainThread } = options;
  const { authenticator, caches } = takeCredentials(services);
  const connections = new Connections(options.bounds);
  const pipeline = makePipeline(services, options);
  const passOn: Answer = (exchange) => mainThread.answer(exchange);
  const behind = (entrance: Entrance): Answer => {
    return (exchange) => {
      if (isOnce(exchange.raw)) passOn(exchange);
      else void serveRequest(pipeline, entrance, exchange);
    };
  };
  const server = openHttpServer({
    ...{ terms, connections, describers },
    answers: {
      ...{ native: passOn, sts: passOn, preflight: passOn },
      ...{
        share: behind(shareEntrance(services, services.directory)),
        s3: behind(s3Entrance(services, authenticator)),
        website: behind(websiteEntrance(services, authenticator)),
      },
    },
    domains: services.domains,
    websiteDomains: services.websiteDomains,
    shareHost: new ShareHost(services),
    hosts: new AcceptedHosts({
      listenHost: options.listenHost,
      publicUrl: services.publicUrl,
      domains: services.domains,
      acceptHosts: options.acceptHosts,
    }),
    stallTimeoutMs: options.stallTimeoutMs,
    isClosing: options.isClosing,
    follow: options.follow,
  });
  const door = { terms, connections };
  server.on('clientError', (error, socket) => answerClientError(door, error, socket as Socket));
  return { server, connections, caches };
}

/** Does it come with what is good only once: the proof of a write by a token that is bound? */
function isOnce({ method, headers }: IncomingMessage): boolean {
  if (method === 'GET' || method === 'HEAD') return false;
  return headers['signature-input'] !== undefined || headers.dpop !== undefined;
}
