// What the instruments see of calls of the native API. A call is Fastify's; its exchange is found
// by its message. Without an HTTP server before it, as where the API is tried alone, it has none.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Stage } from '../../instruments/stage-clock.ts';
import { exchangeOf } from '../http/exchange.ts';
import type { Identity } from './deps.ts';
import { healthPaths } from './metrics-routes.ts';

/** Routes that ask nobody who they are have no action to be named by. */
const openOperations: ReadonlyMap<string | undefined, string> = new Map([
  ['/_/v1/openapi.json', 'GetApiDescription'],
  ...healthPaths.map((path) => [path, 'GetHealth'] as const),
  ['/_/metrics', 'GetMetrics'],
  ['/_/log/checkpoint', 'GetLogCheckpoint'],
  ['/_/log/key', 'GetLogKey'],
  ['/_/log/tile/*', 'GetLogTile'],
  ['/.well-known/jwks.json', 'GetKeys'],
  ['/.well-known/openid-configuration', 'GetConfiguration'],
]);

/** Has all routes that are added to `app` after this observed, and what no route is for. */
export function observeCalls(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const exchange = exchangeOf(request.raw);
    if (!exchange) return done();
    const { url, schema } = request.routeOptions;
    const open = openOperations.get(url);
    if (open !== undefined) exchange.way = 'open';
    exchange.operation = open ?? (schema as { operationId?: string })?.operationId ?? null;
    // The body comes next.
    exchange.clock.enter('stream');
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    const exchange = exchangeOf(request.raw);
    if (!exchange) return done(null, payload);
    const { clock, method } = exchange;
    clock.enter('firstByte');
    const { serverTiming } = exchange;
    if (serverTiming !== undefined) reply.header('server-timing', serverTiming);
    const isSent = typeof payload === 'string' || Buffer.isBuffer(payload);
    if (isSent && method !== 'HEAD') exchange.bytesOut = Buffer.byteLength(payload);
    clock.answer();
    clock.enter('stream');
    done(null, payload);
  });
}

/** From now on the call is in this stage. */
export function enterStage(request: FastifyRequest, stage: Stage): void {
  exchangeOf(request.raw)?.clock.enter(stage);
}

/** Who calls is known. */
export function knowCaller(request: FastifyRequest, who: Identity, bytesIn: number): void {
  const exchange = exchangeOf(request.raw);
  if (!exchange) return;
  exchange.know(who);
  exchange.bytesIn = bytesIn;
}

/** The call has this record: its receipt, for who called. Null: it has none of its own. */
export function tellRecord(
  request: FastifyRequest,
  reply: FastifyReply,
  index: number | null,
): void {
  if (index === null) return;
  reply.header('x-bursar-receipt', String(index));
  const exchange = exchangeOf(request.raw);
  if (exchange) exchange.index = index;
}
