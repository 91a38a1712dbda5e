// Tracing, put together: nothing of OpenTelemetry's SDK is loaded where no exporter is configured.
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { readVersion } from '../core/version.ts';
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { noTracer, type RequestTracer } from '../instruments/request-trace.ts';
import type { Tracing } from '../instruments/tracing.ts';
import type { Closers } from './closers.ts';
import { type Config, readTracing } from './config.ts';
import type { TracingChoice } from './tracing-settings.ts';

/** How long a gateway that stops waits for its last spans to be taken. */
const closeMsMax = 5000;

/** Throws `CommandFailure` when it is configured wrongly. */
export async function openTracer(
  { trustTraceparent }: Pick<Config, 'trustTraceparent'>,
  { registry, closers }: { registry: MetricRegistry; closers: Closers },
): Promise<RequestTracer> {
  const choice = readTracing();
  if (!choice) {
    watchTracing(registry, { counts: { exported: 0, dropped: 0, failed: 0 }, waiting: 0 });
    return noTracer;
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

/** Where it sends to, and with which headers, it reads from the environment itself. */
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
    help: 'Spans by what became of them; dropped: too many waited, failed: the collector did not take them.',
    collect: () => Object.entries(tracing.counts).map(([outcome, count]) => [{ outcome }, count]),
  });
  registry.gauge({
    name: 'bursar_trace_spans_waiting',
    help: 'Spans that wait to be exported.',
    collect: () => tracing.waiting,
  });
}
