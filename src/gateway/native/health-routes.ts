// Health: `/_/health` for load balancers, 200 where reads and writes are possible; `/_/health/read`
// for reads alone, `/_/health/live` for whoever restarts what has died. Strangers are told what is
// wrong in words; numbers are for the metrics token, and for operators at `/_/v1/health`.
// Invariant: who sends credentials is never answered as if there were none.
import type { FastifyInstance } from 'fastify';
import { readVersion } from '../../core/version.ts';
import type { NativeDeps } from './deps.ts';
import { isMetricsToken } from './metrics-token.ts';
import type { NativeRoute } from './route.ts';

const version = readVersion();

export const healthRoutes: NativeRoute[] = [
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
];

/** The paths at which the gateway tells how it is, without asking who wants to know. */
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
  // A ledger that has died takes the process with it, so to answer is to live.
  native.get(live, hidden, async (_request, reply) =>
    reply.header('cache-control', 'no-store').send({ live: true }),
  );
}
