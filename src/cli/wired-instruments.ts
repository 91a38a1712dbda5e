// The instruments, put together: who observes requests, and what is told of them.

import { readVersion } from '../core/version.ts';
import { Instruments } from '../instruments/instruments.ts';
import type { Logger } from '../instruments/logger.ts';
import { MetricRegistry } from '../instruments/metric-registry.ts';
import { Metrics } from '../instruments/metrics.ts';
import { ProcessMetrics } from '../instruments/process-metrics.ts';
import { RequestMetrics } from '../instruments/request-metrics.ts';
import { StoreMeters } from '../instruments/store-meter.ts';
import { watchStoreMeters } from '../instruments/store-metrics.ts';
import { failureCauses } from '../tiering/stores/s3/failure.ts';
import { type Closers, opened } from './closers.ts';
import type { Config } from './config.ts';
import { openLog } from './wired-request-log.ts';
import { openTracer } from './wired-tracing.ts';
import { openTrafficSampler } from './wired-traffic-sampler.ts';

export interface WiredInstruments {
  instruments: Instruments;
  metrics: Metrics;
  /** What the stores' drivers decide by. */
  meters: StoreMeters;
  logger: Logger;
}

/** Throws `CommandFailure`. Before the rooms, which register what they have to tell in `metrics.registry`. */
export async function makeInstruments(config: Config, closers: Closers): Promise<WiredInstruments> {
  const registry = new MetricRegistry();
  opened(closers, new ProcessMetrics(registry, readVersion()));
  const tracer = await openTracer(config, { registry, closers });
  const { logger, requestLog, watch } = openLog(config, closers);
  watch(registry);
  const sampler = await openTrafficSampler(config, registry, closers);
  // Told before requests are counted: those that are not under way any more have been.
  registry.gauge({
    name: 'bursar_requests_under_way',
    help: 'Requests that have begun and not ended.',
    collect: () => instruments.underWay,
  });
  const all = [new RequestMetrics(registry), requestLog, ...sampler];
  const instruments = new Instruments(all, tracer);
  const meters = new StoreMeters(failureCauses);
  watchStoreMeters(registry, meters);
  return { instruments, metrics: new Metrics(registry), meters, logger };
}
