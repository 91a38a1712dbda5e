// What an HTTP thread besides the main one serves: requests for objects in buckets on the local
// disk, by access keys without limits, which are nearly all requests of a busy gateway. All else it
// passes on to the main thread, which has what there is but once: the native API, STS and share
// links, tokens and proofs that are good once, amounts and rates of accounts, the disk's room for
// large bodies, and S3 stores.
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { localStore } from '../core/manifest.ts';
import type { Logger } from '../instruments/logger.ts';
import { takeCredentials } from './credentials.ts';
import { AcceptedHosts, ShareHost } from './http/accepted-hosts.ts';
import { Connections, type ConnectionTerms } from './http/connections.ts';
import type { ExchangeTerms } from './http/exchange.ts';
import { type Answer, answerClientError, openHttpServer } from './http/http-server.ts';
import type { MainThread } from './http/pass-on.ts';
import type { IntegrityCounter } from './integrity-counter.ts';
import type { AskedRequest } from './s3/asked.ts';
import type { AnyOperation } from './s3/operation.ts';
import { type Pipeline, serveRequest } from './s3/pipeline.ts';
import { s3Entrance } from './s3/s3-entrance.ts';
import { describers, makePipeline } from './server.ts';
import type { RequestServices } from './services.ts';

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
  /** Bodies of objects up to so many bytes take no room of the disk that is promised. */
  inlineBytesMax: number;
}

/** The operations that it serves by itself. */
const ownOperations: ReadonlySet<string> = new Set([
  ...['GetObject', 'HeadObject', 'PutObject', 'DeleteObject'],
  ...['ListObjects', 'ListObjectsV2', 'HeadBucket'],
]);

/** A server that does not listen yet, and what is known of its connections and credentials. */
export function openHttpThread(options: HttpThreadOptions): {
  server: Server;
  connections: Connections;
  caches: ReturnType<typeof takeCredentials>['caches'];
} {
  const { services, terms, mainThread, inlineBytesMax } = options;
  const { authenticator, caches } = takeCredentials(services);
  const connections = new Connections(options.bounds);
  const pipeline: Pipeline = {
    ...makePipeline(services, options),
    passOn: (asked, operation) => {
      if (isOwn(asked, operation, inlineBytesMax)) return false;
      mainThread.answer(asked.exchange);
      return true;
    },
  };
  const entrance = s3Entrance(services, authenticator);
  const passOn: Answer = (exchange) => mainThread.answer(exchange);
  const serve: Answer = (exchange) => {
    if (isPlain(exchange.raw) && !hasLimits(services)) {
      void serveRequest(pipeline, entrance, exchange);
    } else passOn(exchange);
  };
  const server = openHttpServer({
    ...{ terms, connections, describers },
    answers: { native: passOn, share: passOn, sts: passOn, preflight: passOn, s3: serve },
    domains: services.domains,
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

/** Which amounts and rates are left, only the main thread knows. */
function hasLimits({ leaseHolder, rates }: RequestServices): boolean {
  return leaseHolder.hasLimits || !rates.isEmpty;
}

const signed = 'AWS4-HMAC-SHA256 ';

/** Is it signed with an access key alone, or not at all? */
function isPlain({ method, url = '', headers }: IncomingMessage): boolean {
  const { authorization = signed, origin } = headers;
  return (
    method !== 'POST' &&
    origin === undefined &&
    authorization.startsWith(signed) &&
    headers['x-amz-security-token'] === undefined &&
    headers['signature-input'] === undefined &&
    !/[?&]x-(?:amz-security|bursar)-/i.test(url)
  );
}

function isOwn(asked: AskedRequest, { name }: AnyOperation, inlineBytesMax: number): boolean {
  const { bucket, who, request } = asked;
  if (!ownOperations.has(name) || who.delegation !== null) return false;
  if (bucket !== null && bucket.store !== localStore) return false;
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  // One that says nothing of its body is refused.
  if (name !== 'PutObject' || (length === undefined && coding === undefined)) return true;
  return Number(length) <= inlineBytesMax;
}
