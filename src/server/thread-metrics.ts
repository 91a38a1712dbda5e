// The gauges of what each HTTP thread has of its own: of the gateway they are the sums.
import type { RequestServices } from '../gateway/services.ts';
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { watchNumbers, watchQueues } from '../instruments/state-metrics.ts';
import type { Memory } from './request-services.ts';

export function watchThread(
  registry: MetricRegistry,
  { services, buffers, digests }: Memory & { services: RequestServices },
): void {
  const { ledger, leaseHolder, intents, leases, objectMemory } = services;
  watchQueues(registry, {
    ledger: () => ledger.load.waiting,
    read_records: () => ledger.load.readsWaiting,
    buffers: () => buffers.waiting,
    digests: () => digests.pending,
    extent_ids: () => intents.waiting,
  });
  watchNumbers(registry, {
    bursar_buffers_in_use: ['Chunk buffers that have an owner.', () => buffers.inUse],
    bursar_buffers: ['Chunk buffers that there may be, 256 KiB each.', () => buffers.slots],
    bursar_object_memory_bytes: ['What small objects take in memory.', () => objectMemory.bytes],
    bursar_extent_ids_ready: ['Ids that uploads can take at once.', () => intents.ready],
    bursar_extents_being_read: ['Extents that the sweeper must spare.', () => leases.held],
    bursar_open_reservations: [
      'Requests under way that have a part of a limit set aside.',
      () => leaseHolder.open,
    ],
  });
}
