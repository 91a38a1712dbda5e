// What the gateway's own parts tell the instruments: what is kept in memory of those who ask and of
// their buckets, and what turned out to be damaged.
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { type CacheCounts, watchCaches, watchIntegrity } from '../instruments/state-metrics.ts';
import type { Health } from './health.ts';
import { type Connections, closeReasons } from './http/connections.ts';
import type { IntegrityCounter } from './integrity-counter.ts';
import type { RequestServices } from './services.ts';

export interface GatewayParts {
  services: Pick<
    RequestServices,
    'bucketMetrics' | 'buckets' | 'cors' | 'objectMemory' | 'snapshots' | 'stores'
  >;
  /** Of credentials. */
  caches: Readonly<Record<string, CacheCounts>>;
  integrity: IntegrityCounter;
  health: () => Promise<Health>;
  /** Of each address. */
  connections: readonly Pick<Connections, 'count' | 'closed'>[];
}

export function watchGateway(
  registry: MetricRegistry,
  { services, caches, integrity, health, connections }: GatewayParts,
): void {
  const { buckets, cors, objectMemory, snapshots, stores } = services;
  services.bucketMetrics.watch(registry);
  watchCaches(registry, { ...caches, buckets, cors, objects: objectMemory, snapshots });
  watchIntegrity(registry, () => integrity.counts(stores.all()));
  registry.gauge({
    name: 'bursar_health',
    help: 'Whether reads and writes are possible, as /_/health says: 1, or 0.',
    collect: async () => {
      const { reads, writes } = await health();
      return Object.entries({ reads, writes }).map(([of, is]) => [{ of }, Number(is)] as const);
    },
  });
  watchConnections(registry, connections);
}

export function watchConnections(
  registry: MetricRegistry,
  connections: GatewayParts['connections'],
): void {
  registry.gauge({
    name: 'bursar_connections',
    help: 'Connections of clients that are open.',
    collect: () => connections.reduce((sum, { count }) => sum + count, 0),
  });
  registry.counter({
    name: 'bursar_connections_closed_total',
    help: 'Connections that the gateway closed by itself, by reason.',
    collect: () =>
      closeReasons.map((reason) => {
        const count = connections.reduce((sum, { closed }) => sum + closed[reason], 0);
        return [{ reason }, count] as const;
      }),
  });
}
