// The metrics for Prometheus: `/_/metrics` with the metrics token, and `/_/v1/metrics` for
// operators, which name tenants and accounts; and, where the administration has an address of its
// own, there `/_/metrics` for anybody, who is told of nobody. Invariants: who sends credentials is
// never answered as if there were none; and of texts for strangers so many are on their way at
// most, however many ask and however slowly they read.
// Specification: Prometheus's text format 0.0.4; RFC 6750 for the token.
import { finished } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { Refusal } from '../../core/errors.ts';
import type { NativeDeps } from './deps.ts';
import { isMetricsToken } from './metrics-token.ts';
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
    answerType: textType,
    answer: { type: 'string' },
    run: async ({ deps: { metrics } }) => ({ answer: String(await metrics.read('operator')) }),
  },
];

/** Throws `Refusal` SlowDown where too many strangers read, InvalidBearerToken where none may. */
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
