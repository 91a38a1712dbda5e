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
  readonly #lifecycleEnds = new Counter({
    name: 'bursar_lifecycle_ends_total',
    help: 'Versions and uploads that lifecycle rules ended, since the start.',
    labelNames: ['kind'],
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

  /** The audit log, asked when somebody reads. What witnesses are called stands in the log as well. */
  watchLog(
    head: Readonly<{ size: number; refusal: string | null }>,
    witnesses: { state(): readonly { name: string; cosignedSize: number | null }[] },
  ): void {
    const registers = [this.#registry];
    new Gauge({
      name: 'bursar_log_signed',
      help: '1: the audit log is signed. 0: it is not, and writes are refused.',
      registers,
      collect() {
        this.set(head.refusal === null ? 1 : 0);
      },
    });
    new Gauge({
      name: 'bursar_log_records',
      help: 'Records of the audit log that are signed for.',
      registers,
      collect() {
        this.set(head.size);
      },
    });
    new Gauge({
      name: 'bursar_log_cosigned_records',
      help: 'Records of the newest checkpoint that the witness cosigned.',
      labelNames: ['witness'],
      registers,
      collect() {
        for (const { name, cosignedSize } of witnesses.state()) {
          this.set({ witness: name }, cosignedSize ?? 0);
        }
      },
    });
  }

  countAlarm(percent: number): void {
    this.#alarms.inc({ percent: String(percent) });
  }

  countRefusal(meter: string, window: string): void {
    this.#refusals.inc({ meter, window });
  }

  /** `kind`: current versions, noncurrent ones, or uploads. */
  countLifecycleEnds(kind: string, count: number): void {
    this.#lifecycleEnds.inc({ kind }, count);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }
}
