// What the gateway's own parts tell the instruments: what is kept in memory of those who ask and of
// their buckets, and what turned out to be damaged.
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { type CacheCounts, watchCaches, watchIntegrity } from '../instruments/room-metrics.ts';
import type { Connections } from './connections.ts';
import type { IntegrityCounter } from './integrity-counter.ts';
import type { Rooms } from './rooms.ts';

export interface GatewayParts {
  rooms: Pick<Rooms, 'buckets' | 'cors' | 'stores'>;
  /** Of credentials. */
  caches: Readonly<Record<string, CacheCounts>>;
  integrity: IntegrityCounter;
  connections: Pick<Connections, 'count' | 'closed'>;
}

export function watchGateway(
  registry: MetricRegistry,
  { rooms, caches, integrity, connections }: GatewayParts,
): void {
  const { buckets, cors, stores } = rooms;
  watchCaches(registry, { ...caches, buckets, cors });
  watchIntegrity(registry, () => integrity.counts(stores.all()));
  registry.gauge({
    name: 'bursar_connections',
    help: 'Connections of clients that are open.',
    collect: () => connections.count,
  });
  registry.counter({
    name: 'bursar_connections_closed_total',
    help: 'Connections that the gateway closed by itself, by reason.',
    collect: () =>
      Object.entries(connections.closed).map(([reason, n]) => [{ reason }, n] as const),
  });
}
