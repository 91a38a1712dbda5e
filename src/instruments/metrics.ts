// What Prometheus reads at `/_/metrics`. Invariant: anybody may read it, so it names no tenant, account
// or bucket, and there are no more series than there are meters, windows and percentages.
// Specification: the Prometheus text format 0.0.4.
import { Counter, Gauge, Registry } from 'prom-client';

export class Metrics {
  readonly #registry = new Registry();
  readonly #alarms = new Counter({
    name: 'bursar_budget_alarms_total',
    help: 'Limits that were used up to this percentage, since the start.',
    labelNames: ['percent'],
    registers: [this.#registry],
  });
  readonly #refusals = new Counter({
    name: 'bursar_quota_refusals_total',
    help: 'Requests that a limit refused, since the start.',
    labelNames: ['meter', 'window'],
    registers: [this.#registry],
  });

  /** `open`: how many reservations there are, asked when somebody reads. */
  constructor({ open }: { open: () => number }) {
    new Gauge({
      name: 'bursar_open_reservations',
      help: 'Requests under way that have a part of a limit set aside.',
      registers: [this.#registry],
      collect() {
        this.set(open());
      },
    });
  }

  countAlarm(percent: number): void {
    this.#alarms.inc({ percent: String(percent) });
  }

  countRefusal(meter: string, window: string): void {
    this.#refusals.inc({ meter, window });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }
}
