// What limits refused, by meter and window: what each thread counts is added up in one text.
import type { Labels, MetricRegistry } from './metric-registry.ts';

export class QuotaRefusals {
  readonly #counts = new Map<string, [Labels, number]>();

  constructor(registry: MetricRegistry) {
    registry.counter({
      name: 'bursar_quota_refusals_total',
      help: 'Requests that a limit refused, since the start.',
      collect: () => this.#counts.values(),
    });
  }

  countRefusal(meter: string, window: string): void {
    const key = `${meter} ${window}`;
    const [labels, count] = this.#counts.get(key) ?? [{ meter, window }, 0];
    this.#counts.set(key, [labels, count + 1]);
  }
}
