// The metrics for Prometheus: `/_/metrics` for anybody, who is told of nobody; the same with the
// metrics token, and `/_/v1/metrics` for operators, which name tenants and accounts too. Invariants: who
// sends credentials is never answered as if there were none; and of texts for strangers so many are on
// their way at most, however many ask and however slowly they read.
// Specification: Prometheus's text format 0.0.4; RFC 6750 for the token.
import { createHash, timingSafeEqual } from 'node:crypto';
import { finished } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { Refusal } from '../../core/errors.ts';
import type { Audience } from '../../instruments/metric-registry.ts';
import type { NativeDeps } from './deps.ts';
import type { NativeRoute } from './route.ts';

/** What the registry writes. */
const textType = 'text/plain; version=0.0.4; charset=utf-8';

const strangersMax = 16;

export const metricsRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/metrics',
    action: 'bursar:GetMetrics',
    summary: 'All metrics, by tenant and account too, as Prometheus reads them.',
    status: 200,
    answerType: textType,
    answer: { type: 'string' },
    run: async ({ deps: { metrics } }) => ({ answer: String(await metrics.read('operator')) }),
  },
];

/** Throws `Refusal` SlowDown where too many strangers read. */
export function addMetrics(native: FastifyInstance, { metrics, metricsToken }: NativeDeps): void {
  const hidden = { schema: { hide: true } };
  let strangers = 0;
  native.get('/_/metrics', hidden, async ({ headers }, reply) => {
    const audience = audienceOf(headers.authorization, metricsToken);
    if (audience === 'everybody') {
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

/** Throws `Refusal` InvalidBearerToken for credentials that are not the token. */
function audienceOf(authorization: string | undefined, token: string | undefined): Audience {
  if (authorization === undefined) return 'everybody';
  const [, given] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
  const isRight =
    given !== undefined && token !== undefined && timingSafeEqual(digest(given), digest(token));
  if (!isRight) throw new Refusal('InvalidBearerToken');
  return 'operator';
}

/** Equal lengths, for texts that need not have them. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
