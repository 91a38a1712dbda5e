// What the gateway's own parts tell the instruments: what is kept in memory of those who ask and of
// their buckets, and what turned out to be damaged.
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { type CacheCounts, watchCaches, watchIntegrity } from '../instruments/room-metrics.ts';
import type { IntegrityCounter } from './integrity-counter.ts';
import type { Rooms } from './rooms.ts';

export interface GatewayParts {
  rooms: Pick<Rooms, 'buckets' | 'cors' | 'stores'>;
  /** Of credentials. */
  caches: Readonly<Record<string, CacheCounts>>;
  integrity: IntegrityCounter;
}

export function watchGateway(
  registry: MetricRegistry,
  { rooms, caches, integrity }: GatewayParts,
): void {
  const { buckets, cors, stores } = rooms;
  watchCaches(registry, { ...caches, buckets, cors });
  watchIntegrity(registry, () => integrity.counts(stores.all()));
}
