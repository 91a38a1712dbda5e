// What is rare enough to be counted where it happens, and the audit log's state. Invariant: it
// names no tenant, account or bucket, and there are no more series than there are meters, windows,
// percentages and witnesses.
import { Counter } from 'prom-client';
import type { MetricRegistry } from './metric-registry.ts';
import { QuotaRefusals } from './quota-refusals.ts';

export class Metrics {
  readonly registry: MetricRegistry;
  readonly #alarms: Counter;
  readonly #refusals: QuotaRefusals;
  readonly #lifecycleEnds: Counter;
  readonly #lifecycleMoves: Counter;
  readonly #tooLargeMoves: Counter;

  constructor(registry: MetricRegistry) {
    this.registry = registry;
    const { registers } = registry;
    this.#alarms = new Counter({
      name: 'bursar_budget_alarms_total',
      help: 'Limits that were used up to this percentage, since the start.',
      labelNames: ['percent'],
      registers,
    });
    this.#refusals = new QuotaRefusals(registry);
    this.#lifecycleEnds = new Counter({
      name: 'bursar_lifecycle_ends_total',
      help: 'Versions and uploads that lifecycle rules ended, since the start.',
      labelNames: ['kind'],
      registers,
    });
    this.#lifecycleMoves = new Counter({
      name: 'bursar_lifecycle_moves_total',
      help: 'Versions that lifecycle rules moved into another storage class, since the start.',
      labelNames: ['kind'],
      registers,
    });
    this.#tooLargeMoves = new Counter({
      name: 'bursar_lifecycle_too_large_total',
      help: 'Times that a version was due to be moved and stayed, since it has too many extents.',
      registers,
    });
  }

  /** What records and limits go by, and whether the system's clock has stepped from it. */
  watchClock(clock: { readonly stepMs: number }): void {
    this.registry.gauge({
      name: 'bursar_clock_step_seconds',
      help:
        'How far the system clock has stepped, and is not followed until it is back or ' +
        'confirmed.',
      collect: () => clock.stepMs / 1000,
    });
  }

  /** The verification of who may what. */
  watchRights(watch: { readonly failure: string | null }): void {
    this.registry.gauge({
      name: 'bursar_rights_verified',
      help: '1: rights are verified. 0: the last verification did not come to its end.',
      collect: () => (watch.failure === null ? 1 : 0),
    });
  }

  /**
   * The audit log, asked when somebody reads. What witnesses are called stands in the log as well.
   */
  watchLog(
    head: Readonly<{ size: number; refusal: string | null }>,
    witnesses: { state(): readonly { name: string; cosignedSize: number | null }[] },
  ): void {
    this.registry.gauge({
      name: 'bursar_log_signed',
      help: '1: the audit log is signed. 0: it is not, and writes are refused.',
      collect: () => (head.refusal === null ? 1 : 0),
    });
    this.registry.gauge({
      name: 'bursar_log_records',
      help: 'Records of the audit log that are signed for.',
      collect: () => head.size,
    });
    this.registry.gauge({
      name: 'bursar_log_cosigned_records',
      help: 'Records of the newest checkpoint that the witness cosigned.',
      collect: () =>
        witnesses
          .state()
          .map(({ name, cosignedSize }) => [{ witness: name }, cosignedSize ?? 0] as const),
    });
  }

  countAlarm(percent: number): void {
    this.#alarms.inc({ percent: String(percent) });
  }

  countRefusal(meter: string, window: string): void {
    this.#refusals.countRefusal(meter, window);
  }

  /** `kind`: current versions, noncurrent ones, or uploads. */
  countLifecycleEnds(kind: string, count: number): void {
    this.#lifecycleEnds.inc({ kind }, count);
  }

  countLifecycleMoves(kind: string, count: number): void {
    this.#lifecycleMoves.inc({ kind }, count);
  }

  countTooLargeMove(): void {
    this.#tooLargeMoves.inc();
  }
}
