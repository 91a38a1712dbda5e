// What an HTTP thread besides the main one serves: requests for objects in buckets on the local
// disk, and share links, which are nearly all requests of a busy gateway. All else it passes on to
// the main thread, which has what there is but once: the native API, STS and forms, proofs that are
// good once, and S3 stores. Invariant: a request is passed on
// before anything is counted for it, and before a byte of its body was read.
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { Refusal } from '../core/errors.ts';
import { localStore } from '../core/manifest.ts';
import type { Logger } from '../instruments/logger.ts';
import { takeCredentials } from './credentials.ts';
import { AcceptedHosts, ShareHost } from './http/accepted-hosts.ts';
import { Connections, type ConnectionTerms } from './http/connections.ts';
import type { ExchangeTerms } from './http/exchange.ts';
import { type Answer, answerClientError, openHttpServer } from './http/http-server.ts';
import type { MainThread } from './http/pass-on.ts';
import type { IntegrityCounter } from './integrity-counter.ts';
import { type Entrance, type Pipeline, serveRequest } from './s3/pipeline.ts';
import type { S3Request } from './s3/request.ts';
import { findOperation } from './s3/routes.ts';
import { s3Entrance } from './s3/s3-entrance.ts';
import { describers, makePipeline } from './server.ts';
import type { RequestServices } from './services.ts';
import { shareEntrance } from './share/share-entrance.ts';

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
  /** Are there stores that only the main thread has? */
  hasOtherStores: boolean;
}

/** The operations that it serves by itself. */
const ownOperations: ReadonlySet<string> = new Set([
  ...['GetObject', 'HeadObject', 'PutObject', 'CopyObject', 'DeleteObject', 'GetObjectAttributes'],
  ...['CreateMultipartUpload', 'UploadPart', 'UploadPartCopy', 'ListParts'],
  ...['CompleteMultipartUpload', 'AbortMultipartUpload', 'ListMultipartUploads'],
  ...['ListObjects', 'ListObjectsV2', 'ListObjectVersions', 'HeadBucket'],
]);

/** A server that does not listen yet, and what is known of its connections and credentials. */
export function openHttpThread(options: HttpThreadOptions): {
  server: Server;
  connections: Connections;
  caches: ReturnType<typeof takeCredentials>['caches'];
} {
  const { services, terms, mainThread } = options;
  const { authenticator, caches } = takeCredentials(services);
  const connections = new Connections(options.bounds);
  const pipeline: Pipeline = {
    ...makePipeline(services, options),
    passOn: ({ bucket, source, exchange }) => {
      const buckets = [bucket, source?.found.bucket];
      if (!buckets.some((one) => one && one.store !== localStore)) return false;
      mainThread.answer(exchange);
      return true;
    },
  };
  const passOn: Answer = (exchange) => mainThread.answer(exchange);
  const behind = (entrance: Entrance): Answer => {
    return (exchange) => {
      if (isOnce(exchange.raw) || mayCountTwice(exchange.raw, options)) passOn(exchange);
      else void serveRequest(pipeline, entrance, exchange);
    };
  };
  const s3 = s3Entrance(services, authenticator, (request, exchange) => {
    if (isOwn(request)) return false;
    passOn(exchange);
    return true;
  });
  const server = openHttpServer({
    ...{ terms, connections, describers },
    answers: {
      ...{ native: passOn, sts: passOn, preflight: passOn },
      ...{ share: behind(shareEntrance(services, services.directory)), s3: behind(s3) },
    },
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

/** Does it come with what is good only once: the proof of a write by a token that is bound? */
function isOnce({ method, headers }: IncomingMessage): boolean {
  if (method === 'GET' || method === 'HEAD') return false;
  return headers['signature-input'] !== undefined || headers.dpop !== undefined;
}

const signed = 'AWS4-HMAC-SHA256 ';

/**
 * Whether who asks is counted, by rates or as bearer of a token, before it is known whether the
 * bucket is in a store that only the main thread has.
 */
function mayCountTwice(
  { url = '', headers }: IncomingMessage,
  { services, hasOtherStores }: HttpThreadOptions,
): boolean {
  if (!hasOtherStores) return false;
  const { authorization = signed } = headers;
  const isByKey =
    authorization.startsWith(signed) &&
    headers['x-amz-security-token'] === undefined &&
    !/[?&]x-amz-security-|^\/_\//i.test(url);
  return !isByKey || !services.rates.isEmpty;
}

/** Headers that a presigned URL has in its query make of one such operation another. */
function isOwn(request: S3Request): boolean {
  // The answer to a page's request says what the bucket's rules allow the page.
  return request.headers.origin === undefined && ownOperations.has(operationNameOf(request));
}

/** The main thread says why there is none. */
function operationNameOf(request: S3Request): string {
  try {
    return findOperation(request).name;
  } catch (error) {
    if (error instanceof Refusal) return '';
    throw error;
  }
}
