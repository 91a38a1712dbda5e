// Samples of real traffic, as `serve` keeps them, and what Prometheus reads of that.
import { defaultTenant } from '../authz/identity-changes.ts';
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { SampleLog } from '../instruments/sample-log.ts';
import { TrafficSampler } from '../instruments/traffic-sampler.ts';
import { type Closers, opened } from './closers.ts';
import type { Config } from './config.ts';
import { dataFiles } from './data-folder.ts';
import { probePrincipal } from './probe-account.ts';

/** None where they are not wanted. Throws the system's error. */
export async function openTrafficSampler(
  { trafficSamples, data }: Pick<Config, 'trafficSamples' | 'data'>,
  registry: MetricRegistry,
  closers: Closers,
): Promise<TrafficSampler[]> {
  if (!trafficSamples) return [];
  const log = await SampleLog.open(dataFiles(data).samplesFolder, { name: 'traffic' });
  const sampler = opened(
    closers,
    new TrafficSampler(log, { tenant: defaultTenant, principal: probePrincipal }),
  );
  const { counts } = sampler;
  registry.counter({
    name: 'bursar_traffic_samples_total',
    help: 'Samples of transfers that were written, and that could not be.',
    collect: () => [
      [{ result: 'written' }, counts.samples],
      [{ result: 'dropped' }, counts.dropped],
    ],
  });
  return [sampler];
}
