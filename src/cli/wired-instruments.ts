// The instruments, put together: who observes requests, and what is told of them.
import { Instruments } from '../instruments/instruments.ts';
import { MetricRegistry } from '../instruments/metric-registry.ts';
import { Metrics } from '../instruments/metrics.ts';
import type { RequestObserver } from '../instruments/observed-request.ts';
import { ProcessMetrics } from '../instruments/process-metrics.ts';
import { RequestMetrics } from '../instruments/request-metrics.ts';
import { type Closers, opened } from './closers.ts';
import { readVersion } from './version.ts';

export interface WiredInstruments {
  instruments: Instruments;
  metrics: Metrics;
}

/** Before the rooms, which register what they have to tell in `metrics.registry`. */
export function makeInstruments(
  closers: Closers,
  observers: readonly RequestObserver[] = [],
): WiredInstruments {
  const registry = new MetricRegistry();
  opened(closers, new ProcessMetrics(registry, readVersion()));
  const instruments = new Instruments([new RequestMetrics(registry), ...observers]);
  registry.gauge({
    name: 'bursar_requests_under_way',
    help: 'Requests that have begun and not ended.',
    collect: () => instruments.underWay,
  });
  return { instruments, metrics: new Metrics(registry) };
}
