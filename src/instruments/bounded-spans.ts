// What keeps finished spans until they are exported, bounded and counted: around the batching of
// the OpenTelemetry SDK, which drops without saying so. Invariant: each span that was sampled is
// counted once, as exported, as dropped because too many waited, or as failed; and nobody waits for
// it.
import type { Context } from '@opentelemetry/api';
import type { ReadableSpan, Span, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace';

export interface SpanCounts {
  exported: number;
  /** Too many were waiting. */
  dropped: number;
  /** The collector did not take them. */
  failed: number;
}

type OnExported = Parameters<SpanExporter['export']>[1];

export class BoundedSpans implements SpanProcessor {
  readonly counts: SpanCounts = { exported: 0, dropped: 0, failed: 0 };
  readonly #waitingMax: number;
  #waiting = 0;
  readonly #batches: SpanProcessor;

  /** `batch` makes what collects spans for an exporter, of at most `waitingMax` that wait. */
  constructor(
    waitingMax: number,
    exporter: SpanExporter,
    batch: (exporter: SpanExporter) => SpanProcessor,
  ) {
    this.#waitingMax = waitingMax;
    this.#batches = batch({
      export: (spans, onExported) => this.#export(exporter, spans, onExported),
      shutdown: () => exporter.shutdown(),
    });
  }

  /** Spans that wait to be exported. */
  get waiting(): number {
    return this.#waiting;
  }

  onStart(_span: Span, _parent: Context): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting >= this.#waitingMax) {
      this.counts.dropped++;
      return;
    }
    this.#waiting++;
    this.#batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }

  #export(exporter: SpanExporter, spans: ReadableSpan[], onExported: OnExported): void {
    this.#waiting -= spans.length;
    exporter.export(spans, (result) => {
      this.counts[result.code === 0 ? 'exported' : 'failed'] += spans.length;
      onExported(result);
    });
  }
}
