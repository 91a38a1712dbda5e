// Traces of requests, by the packages of OpenTelemetry: a span for the request, one for each stage
// that took time, one for each try at a store. Loaded only where an exporter is configured.
// Invariants: a span names no key, no query, no header and no credential; what is done for a trace
// neither delays nor fails a request, and holds a bounded number of spans.
// Specification: OpenTelemetry's semantic conventions for HTTP spans, as far as they are stable and
// ask for nothing that would name keys (`url.path`, `url.query`); W3C Trace Context.

import type { IncomingHttpHeaders } from 'node:http';
import {
  trace as api,
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
} from '@opentelemetry/api';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  RandomIdGenerator,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { TracedTry, TryTrace } from '../core/store-trace.ts';
import { BoundedSpans, type SpanCounts } from './bounded-spans.ts';
import type { ObservedRequest } from './observed-request.ts';
import { PassedTrace, type RequestTrace, type RequestTracer } from './request-trace.ts';
import { type StageClock, stages } from './stage-clock.ts';
import { readTraceContext, type TraceContext, traceHeaders } from './trace-context.ts';
import { RequestSampler } from './trace-sampler.ts';

export interface TracingOptions {
  exporter: SpanExporter;
  /** The share of requests without a trace that begin one, 0 to 1. */
  share: number;
  isParentBased: boolean;
  isTrusting: boolean;
  version: string;
  /** Of the OpenTelemetry SDK's batches; default: as it has them. */
  batches: { waitingMax: number; spansMax?: number; intervalMs?: number; exportMsMax?: number };
}

export interface Tracing extends RequestTracer {
  begin(...of: Parameters<RequestTracer['begin']>): RequestTrace;
  readonly counts: SpanCounts;
  /** Spans that wait to be exported. */
  readonly waiting: number;
  /** Exports what waits, for so long at most. */
  close(timeoutMs: number): Promise<void>;
}

/** Shorter stages are no spans of their own, milliseconds. */
const stageMsMin = 0.1;

export function openTracing(options: TracingOptions): Tracing {
  const { exporter, share, isParentBased, isTrusting, version, batches } = options;
  const ids = new RandomIdGenerator();
  const spans = new BoundedSpans(
    batches.waitingMax,
    exporter,
    (counted) =>
      new BatchSpanProcessor({
        exporter: counted,
        maxQueueSize: batches.waitingMax,
        maxExportBatchSize: batches.spansMax,
        scheduledDelayMillis: batches.intervalMs,
        exportTimeoutMillis: batches.exportMsMax,
      }),
  );
  const own = resourceFromAttributes({ 'service.name': 'bursar', 'service.version': version });
  const provider = new TracerProvider({
    resource: own.merge(detectResources({ detectors: [envDetector] })),
    sampler: new RequestSampler({
      root: new TraceIdRatioBasedSampler(share),
      newTraceId: () => ids.generateTraceId(),
      isParentBased,
      isTrusting,
    }),
    idGenerator: ids,
    spanProcessors: [spans],
  });
  const tracer = provider.getTracer('bursar', version);
  return {
    begin: (headers, clock) => beginTrace(tracer, headers, clock),
    counts: spans.counts,
    get waiting() {
      return spans.waiting;
    },
    close: (timeoutMs) => closeWithin(provider, timeoutMs),
  };
}

function beginTrace(tracer: Tracer, headers: IncomingHttpHeaders, clock: StageClock): RequestTrace {
  const client = headers.traceparent === undefined ? null : readTraceContext(headers);
  const parent = client ? api.setSpanContext(ROOT_CONTEXT, spanContextOf(client)) : ROOT_CONTEXT;
  const span = tracer.startSpan(
    'request',
    { kind: SpanKind.SERVER, startTime: clock.startedMs },
    parent,
  );
  const tracestate = client?.tracestate;
  if (span.isRecording()) return new SpanTrace(tracer, span, parent, tracestate);
  return new PassedTrace(span.spanContext().traceId, headersOf(span, tracestate));
}

/** The trace of a request that is recorded. */
class SpanTrace implements RequestTrace {
  readonly traceId: string;
  readonly #tracer: Tracer;
  readonly #span: Span;
  readonly #context: Context;
  readonly #tracestate: string | undefined;

  constructor(tracer: Tracer, span: Span, parent: Context, tracestate: string | undefined) {
    this.traceId = span.spanContext().traceId;
    this.#tracer = tracer;
    this.#span = span;
    this.#context = api.setSpan(parent, span);
    this.#tracestate = tracestate;
  }

  begin({ store, host, method, earlierTries, isSecond }: TracedTry): TryTrace {
    const attributes: Record<string, string | number | boolean> = {
      'http.request.method': method,
      ...serverOf(host),
      'bursar.store': store,
    };
    if (earlierTries > 0) attributes['http.request.resend_count'] = earlierTries;
    if (isSecond) attributes['bursar.hedge'] = true;
    const span = this.#tracer.startSpan(
      method,
      { kind: SpanKind.CLIENT, attributes },
      this.#context,
    );
    return {
      headers: headersOf(span, this.#tracestate),
      end: (status, failure) => {
        if (status !== null) span.setAttribute('http.response.status_code', status);
        if (failure === 'abandoned') span.setAttribute('error.type', failure);
        else if (failure !== null) fail(span, failure);
        span.end();
      },
    };
  }

  end(request: ObservedRequest): void {
    const span = this.#span;
    const { clock, status, error, durationMs } = request;
    span.updateName(request.operation ?? request.method);
    span.setAttributes(attributesOf(request));
    if (status === 0) fail(span, 'no_answer');
    else if (status >= 500) fail(span, error ?? String(status));
    this.#endStages(clock);
    span.end(clock.startedMs + durationMs);
  }

  /**
   * A stage is left and entered again; as spans they lie one behind the other, each as long as it
   * was.
   */
  #endStages(clock: StageClock): void {
    let sinceMs = clock.startedMs;
    for (const stage of stages) {
      const stageMs = clock.msIn(stage);
      const startTime = sinceMs;
      sinceMs += stageMs;
      if (stageMs < stageMsMin) continue;
      this.#tracer.startSpan(stage, { startTime }, this.#context).end(sinceMs);
    }
  }
}

function attributesOf(request: ObservedRequest): Record<string, string | number | undefined> {
  const { id, way, tenant, principal, bucket, store, index, error } = request;
  return {
    'http.request.method': request.method,
    'http.response.status_code': request.status || undefined,
    'client.address': request.source,
    'bursar.request_id': id,
    'bursar.way': way,
    'bursar.tenant': tenant ?? undefined,
    'bursar.principal': principal ?? undefined,
    'bursar.bucket': bucket ?? undefined,
    'bursar.store': store ?? undefined,
    'bursar.error': error ?? undefined,
    'bursar.receipt': index ?? undefined,
    'bursar.bytes_in': request.bytesIn,
    'bursar.bytes_out': request.bytesOut,
  };
}

/** `[::1]:9000`, `archive.example`. */
function serverOf(host: string): Record<string, string | number> {
  const [, address = host, port] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(host) ?? [];
  return { 'server.address': address, ...(port ? { 'server.port': Number(port) } : {}) };
}

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

function spanContextOf({ traceId, spanId, isSampled, tracestate }: TraceContext) {
  const traceState = tracestate === undefined ? undefined : createTraceState(tracestate);
  return { traceId, spanId, traceFlags: isSampled ? 1 : 0, isRemote: true, traceState };
}

function headersOf(span: Span, tracestate: string | undefined): string[] {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return traceHeaders(`00-${traceId}-${spanId}-0${traceFlags & 1}`, tracestate);
}

async function closeWithin(provider: TracerProvider, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  // What the collector does not take is counted, and nobody's business any more.
  await Promise.race([provider.shutdown().catch(() => {}), late]);
  clearTimeout(timer);
}
