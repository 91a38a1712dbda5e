// What the gateway's own probe measured last, for Prometheus. Invariant: as many series as there
// are stores, sizes, kinds and results.
import { getOrMake } from '../core/maps.ts';
import { Histogram, secondBounds } from './histogram.ts';
import type { Labels, MetricRegistry } from './metric-registry.ts';
import type { Sample } from './sample.ts';
import { bandOf, sizeBands } from './size-band.ts';

export class ProbeMetrics {
  readonly #results = new Map<string, { labels: Labels; count: number }>();
  readonly #last = new Map<string, { labels: Labels; seconds: number }>();
  readonly #seconds = new Map<string, { labels: Labels; histogram: Histogram }>();

  constructor(registry: MetricRegistry) {
    registry.counter({
      name: 'bursar_probe_transfers_total',
      help: "Transfers of the gateway's own probe, by result: first_try, retried or failed.",
      collect: () => Array.from(this.#results.values(), ({ labels, count }) => [labels, count]),
    });
    registry.gauge({
      name: 'bursar_probe_last_seconds',
      help: "How long the last transfer of the gateway's own probe took that did not fail.",
      collect: () => Array.from(this.#last.values(), ({ labels, seconds }) => [labels, seconds]),
    });
    registry.histogram({
      name: 'bursar_probe_seconds',
      help: "How long transfers of the gateway's own probe took that did not fail.",
      collect: () =>
        Array.from(this.#seconds.values(), ({ labels, histogram }) => [labels, histogram]),
    });
  }

  add({ target, kind, series, sizeBytes, durationMs, retries, error }: Sample): void {
    const store = target.replace(/^gateway, store /, '');
    const size = series === 'latency' ? '4KB' : (sizeBands[bandOf(sizeBytes)] as string);
    const tried = retries === 0 ? 'first_try' : 'retried';
    const name = `${store}\n${kind}\n${size}`;
    const result = error === null ? tried : 'failed';
    const counted = getOrMake(this.#results, `${name}\n${result}`, () => {
      return { labels: { store, kind, size, result }, count: 0 };
    });
    counted.count++;
    if (error !== null) return;
    const labels = { store, kind, size };
    getOrMake(this.#last, name, () => ({ labels, seconds: 0 })).seconds = durationMs / 1000;
    const timed = getOrMake(this.#seconds, name, () => {
      return { labels, histogram: new Histogram(secondBounds) };
    });
    timed.histogram.record(durationMs / 1000);
  }
}
