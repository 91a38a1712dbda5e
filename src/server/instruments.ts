// The instruments: who observes requests and what is told of them. The log is JSON lines on
// standard output; the SDK of OpenTelemetry is not loaded where no exporter is configured.
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { anonymousName } from '../authz/identity.ts';
import { defaultTenant } from '../core/principal.ts';
import { readVersion } from '../core/version.ts';
import { Instruments } from '../instruments/instruments.ts';
import { type Logger, LogWriter, makeLogger } from '../instruments/logger.ts';
import { MetricRegistry } from '../instruments/metric-registry.ts';
import { Metrics } from '../instruments/metrics.ts';
import { type Operator, OperatorLog } from '../instruments/operator-log.ts';
import { ProcessMetrics } from '../instruments/process-metrics.ts';
import { RecentEverywhere, RecentRequests } from '../instruments/recent-requests.ts';
import { RequestLog } from '../instruments/request-log.ts';
import { RequestMetrics } from '../instruments/request-metrics.ts';
import type { RequestTracer } from '../instruments/request-trace.ts';
import type { Sample } from '../instruments/sample.ts';
import { SampleLog } from '../instruments/sample-log.ts';
import { StoreMeters } from '../instruments/store-meter.ts';
import { watchStoreMeters } from '../instruments/store-metrics.ts';
import type { Tracing } from '../instruments/tracing.ts';
import { TrafficSampler } from '../instruments/traffic-sampler.ts';
import { failureCauses } from '../tiering/stores/attempt-failure.ts';
import { type Closers, opened } from './closers.ts';
import { dataFiles } from './folder/data-folder.ts';
import { probePrincipal } from './probe-account.ts';
import { type Config, readTracing } from './settings/config.ts';
import type { TracingChoice } from './settings/tracing-settings.ts';

export interface OpenInstruments {
  instruments: Instruments;
  metrics: Metrics;
  /** The measurements by which the stores' drivers decide. */
  meters: StoreMeters;
  logger: Logger;
  /** Takes whole lines for the log, which other threads have made. */
  writeLines: (lines: string) => void;
  /** Keeps samples that other threads have drawn. */
  keepSamples: (samples: readonly Sample[]) => void;
  /** The newest requests of all threads. */
  recentRequests: RecentEverywhere;
  log: OperatorLog;
}

/**
 * Throws `CommandFailure`. It comes first: whatever is opened later registers what it measures in
 * `metrics.registry`.
 */
export async function makeInstruments(
  config: Config,
  { operator, closers }: { operator: Operator; closers: Closers },
): Promise<OpenInstruments> {
  const registry = new MetricRegistry();
  opened(closers, new ProcessMetrics(registry, readVersion()));
  const tracer = await openTracer(config, { registry, closers });
  const { logger, requestLog, watch, writeLines } = openLog(config, closers);
  watch(registry);
  const samplers = await openTrafficSampler(config, registry, closers);
  // It is registered before the counters of requests, so that a request that is no longer under way
  // has been counted.
  registry.gauge({
    name: 'bursar_requests_under_way',
    help: 'Requests that have begun and not ended.',
    collect: () => instruments.underWay,
  });
  const recent = new RecentRequests({ anonymousName });
  const all = [new RequestMetrics(registry), requestLog, recent, ...samplers];
  const instruments = new Instruments(all, tracer);
  const meters = new StoreMeters(failureCauses);
  watchStoreMeters(registry, meters);
  const log = new OperatorLog(logger, operator);
  const keepSamples = (samples: readonly Sample[]) => samplers[0]?.keep(samples);
  const metrics = new Metrics(registry);
  const recentRequests = new RecentEverywhere(recent);
  return { instruments, metrics, meters, logger, writeLines, keepSamples, recentRequests, log };
}

/** How long a gateway that stops waits for its last lines to be written. */
const flushMsMax = 1000;
const standardOutput = 1;

interface OpenLog {
  writeLines: (lines: string) => void;
  logger: Logger;
  requestLog: RequestLog;
  watch(registry: MetricRegistry): void;
}

/** To be opened before everything that writes to it, so that it is closed after that. */
function openLog(
  { logLevel, requestLog: isOn, slowRequestMs: slowMs }: Config,
  closers: Closers,
): OpenLog {
  const writer = new LogWriter(standardOutput);
  closers.push(() => writer.flush(flushMsMax));
  process.once('exit', () => writer.flushSync());
  const logger = makeLogger(logLevel, writer);
  return {
    writeLines: (lines) => writer.write(lines),
    logger,
    requestLog: new RequestLog({ logger, isOn, slowMs }),
    watch: (registry) =>
      registry.counter({
        name: 'bursar_log_lines_dropped_total',
        help: 'Lines of the log that could not be written as fast as they came, or at all.',
        collect: () => writer.droppedLines,
      }),
  };
}

/** How long a gateway that stops waits for its last spans to be taken. */
const closeMsMax = 5000;

/** Throws `CommandFailure` when it is configured wrongly. */
export async function openTracer(
  { trustTraceparent }: Pick<Config, 'trustTraceparent'>,
  { registry, closers }: { registry: MetricRegistry; closers: Closers },
): Promise<RequestTracer | null> {
  const choice = readTracing();
  if (!choice) {
    watchTracing(registry, { counts: { exported: 0, dropped: 0, failed: 0 }, waiting: 0 });
    return null;
  }
  const { openTracing } = await import('../instruments/tracing.ts');
  const tracing = openTracing({
    ...choice,
    isTrusting: trustTraceparent,
    exporter: await makeExporter(choice.protocol),
    version: readVersion(),
  });
  closers.push(() => tracing.close(closeMsMax));
  watchTracing(registry, tracing);
  return tracing;
}

/** The exporter itself reads from the environment where it sends to, and with which headers. */
async function makeExporter(protocol: TracingChoice['protocol']): Promise<SpanExporter> {
  const { OTLPTraceExporter } =
    protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter();
}

function watchTracing(
  registry: MetricRegistry,
  tracing: Pick<Tracing, 'counts' | 'waiting'>,
): void {
  registry.counter({
    name: 'bursar_trace_spans_total',
    help:
      'Spans by what became of them; dropped: too many waited, failed: the collector did not ' +
      'take them.',
    collect: () => Object.entries(tracing.counts).map(([outcome, count]) => [{ outcome }, count]),
  });
  registry.gauge({
    name: 'bursar_trace_spans_waiting',
    help: 'Spans that wait to be exported.',
    collect: () => tracing.waiting,
  });
}

/** Of one of the threads. */
export function drawSamples(
  log: Pick<SampleLog, 'appendSoon' | 'close'>,
  { httpThreads }: Pick<Config, 'httpThreads'>,
): TrafficSampler {
  const passedOver = { tenant: defaultTenant, principal: probePrincipal };
  return new TrafficSampler(log, passedOver, httpThreads);
}

/** None where they are not wanted. Throws the system's error. */
async function openTrafficSampler(
  config: Pick<Config, 'trafficSamples' | 'data' | 'httpThreads'>,
  registry: MetricRegistry,
  closers: Closers,
): Promise<TrafficSampler[]> {
  if (!config.trafficSamples) return [];
  const log = await SampleLog.open(dataFiles(config.data).samplesFolder, { name: 'traffic' });
  const sampler = opened(closers, drawSamples(log, config));
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
