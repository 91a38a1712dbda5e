// The metrics for Prometheus, and the health of the gateway. `/_/metrics` with the metrics token,
// and `/_/v1/metrics` for operators, name tenants and accounts. Where the administration has an
// address of its own, anybody may read `/_/metrics` there, and is told no names. Invariants: who
// sends credentials is never answered as if there were none; and the number of texts that are being
// sent to strangers is bounded, however many ask and however slowly they read.
// Specification: Prometheus's text format 0.0.4; RFC 6750 for the token.

import { createHash, timingSafeEqual } from 'node:crypto';
import { finished } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { Refusal } from '../../core/errors.ts';
import { readVersion } from '../../core/version.ts';
import type { NativeDeps } from './deps.ts';
import { routeTable } from './route.ts';

/** The media type of what the registry writes. */
const textType = 'text/plain; version=0.0.4; charset=utf-8';

const strangersMax = 16;

export const metricsRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/metrics',
    action: 'bursar:GetMetrics',
    summary: 'All metrics, by tenant and account too, as Prometheus reads them.',
    answerType: textType,
    answer: { type: 'string' },
    run: async ({ deps: { metrics } }) => ({ answer: String(await metrics.read('operator')) }),
  },
]);

/**
 * Throws `Refusal` SlowDown where too many strangers read already, and InvalidBearerToken where
 * strangers may not read at all.
 */
export function addMetrics(native: FastifyInstance, deps: NativeDeps): void {
  const { metrics, metricsToken } = deps;
  const hidden = { schema: { hide: true } };
  let strangers = 0;
  native.get('/_/metrics', hidden, async (request, reply) => {
    const { headers } = request;
    const audience = isMetricsToken(headers.authorization, metricsToken) ? 'operator' : 'everybody';
    if (audience === 'everybody') {
      if (!deps.isAdministration(request)) throw unknown();
      if (strangers === strangersMax) throw new Refusal('SlowDown');
      strangers++;
      finished(reply.raw, () => {
        strangers--;
      });
    }
    const text = await metrics.read(audience);
    return reply.type(textType).header('cache-control', 'no-store').send(text);
  });
}

function unknown(): Refusal {
  const message = 'Metrics are for who sends the metrics token: Authorization: Bearer TOKEN.';
  return new Refusal('InvalidBearerToken', { message });
}

/**
 * Whether a request brings the metrics token, with which machines that watch the gateway are told
 * numbers and names. `authorization` is the header of the request, and `token` that of the
 * settings. False: the request brings no credentials. Throws `Refusal` InvalidBearerToken for other
 * ones.
 */
function isMetricsToken(authorization: string | undefined, token: string | undefined): boolean {
  if (authorization === undefined) return false;
  const [, given] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
  const isRight =
    given !== undefined && token !== undefined && timingSafeEqual(digest(given), digest(token));
  if (!isRight) throw new Refusal('InvalidBearerToken');
  return true;
}

/** A digest, so that texts of different lengths can be compared in constant time. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

// Health. `/_/health` answers load balancers 200 where reads and writes are possible,
// `/_/health/read` where reads are, and `/_/health/live` always, for what restarts a process that
// has died. Strangers are told in words what is wrong; numbers are for the metrics token, and for
// operators at `/_/v1/health`.

const version = readVersion();

export const healthRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/health',
    action: 'bursar:GetHealth',
    summary: 'What `/_/health` says, with numbers, reasons and versions.',
    answer: {
      type: 'object',
      additionalProperties: true,
      properties: {
        ready: { type: 'boolean' },
        reads: { type: 'boolean' },
        writes: { type: 'boolean' },
        problems: { type: 'array', items: { type: 'string' } },
      },
    },
    run: async ({ deps }) => {
      const { detail, ...health } = await deps.health();
      return { answer: { ready: health.writes, ...health, ...detail, version } };
    },
  },
]);

/** The paths at which the gateway tells its health to anybody. */
export const healthPaths = ['/_/health', '/_/health/read', '/_/health/live'] as const;

export function addHealth(native: FastifyInstance, deps: NativeDeps): void {
  const hidden = { schema: { hide: true } };
  const [both, read, live] = healthPaths;
  for (const [url, needed] of [
    [both, 'writes'],
    [read, 'reads'],
  ] as const) {
    native.get(url, hidden, async ({ headers }, reply) => {
      const isOperator = isMetricsToken(headers.authorization, deps.metricsToken);
      const { detail, ...health } = await deps.health();
      const ready = health[needed];
      const numbers = isOperator ? { ...detail, version } : {};
      reply.code(ready ? 200 : 503).header('cache-control', 'no-store');
      return reply.send({ ready, ...health, ...numbers });
    });
  }
  // The process ends with its ledger's thread, so one that answers is alive.
  native.get(live, hidden, async (_request, reply) =>
    reply.header('cache-control', 'no-store').send({ live: true }),
  );
}
