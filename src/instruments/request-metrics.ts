// What is counted of every request: by operation, status and tenant, and how long it took.
// Invariants: a request costs a few additions to plain numbers, found by one look-up each of its
// operation, its tenant and its store; and there are no more series than operations, stores and the
// first tenants.
import type { Histogram } from './histogram.ts';
import type { Labels, MetricRegistry } from './metric-registry.ts';
import { NameSlots, nobodySlot } from './name-slots.ts';
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import { OperationMeter, type Transfers } from './operation-meter.ts';
import { stages } from './stage-clock.ts';

/** Tenants that are told apart; those that come later are one, `other`. */
export const namedTenantsMax = 50;
/** More than there are operations. */
const operationsMax = 400;
/** Of requests that were refused before it was known. */
const unknownOperation = 'unknown';

export class RequestMetrics implements RequestObserver {
  readonly #tenants = new NameSlots(namedTenantsMax);
  readonly #operations = new NameSlots(operationsMax);
  /** By the operation's slot. */
  readonly #meters: (OperationMeter | undefined)[] = [];

  constructor(registry: MetricRegistry) {
    registry.counter({
      name: 'bursar_requests_total',
      help: 'Requests that have ended.',
      collect: (audience) =>
        this.#each(audience === 'operator' ? requestsByTenant : requestsByStatus),
    });
    registry.histogram({
      name: 'bursar_request_duration_seconds',
      help: 'From when a request was taken up to the end of its answer.',
      collect: () => this.#each(durations),
    });
    registry.histogram({
      name: 'bursar_request_first_byte_seconds',
      help: 'From when a transfer was taken up to the first byte of its answer.',
      collect: () => this.#each((meter) => transfers(meter, (one) => one.firstByteSeconds)),
    });
    registry.histogram({
      name: 'bursar_transfer_bytes_per_second',
      help: "An object's bytes that a request moved, by its duration.",
      collect: () => this.#each((meter) => transfers(meter, (one) => one.bytesPerSecond)),
    });
    registry.counter({
      name: 'bursar_request_stage_seconds_total',
      help: 'Time that requests spent in each stage of their way.',
      collect: () => this.#each(stageSeconds),
    });
    registry.counter({
      name: 'bursar_request_body_bytes_total',
      help: 'Bytes of bodies that came in and went out.',
      collect: () => this.#each(bodyBytes),
    });
  }

  observe(request: ObservedRequest): void {
    const slot = this.#operations.slotOf(request.operation, true);
    const meter = this.#meters[slot] ?? this.#addMeter(slot);
    const { tenant, status } = request;
    // Strangers are refused for tenants that are none, and must not take the places of those that
    // are.
    const isServed = status >= 200 && status < 400;
    meter.count(request, this.#tenants.slotOf(tenant, isServed));
  }

  #addMeter(slot: number): OperationMeter {
    const name = slot === nobodySlot ? unknownOperation : this.#operations.nameOf(slot);
    const meter = new OperationMeter(name, this.#tenants);
    this.#meters[slot] = meter;
    return meter;
  }

  *#each<T>(seriesOf: (meter: OperationMeter) => Series<T>): Series<T> {
    for (const meter of this.#meters) if (meter) yield* seriesOf(meter);
  }
}

type Series<T> = Iterable<readonly [Labels, T]>;

function requestsByStatus(meter: OperationMeter): Series<number> {
  return meter.requestsByStatus();
}

function requestsByTenant(meter: OperationMeter): Series<number> {
  return meter.requestsByTenant();
}

function* durations(meter: OperationMeter): Series<Histogram> {
  yield [meter.labels, meter.seconds];
  yield* transfers(meter, ({ seconds }) => seconds);
}

function* transfers(
  meter: OperationMeter,
  histogramOf: (transfers: Transfers) => Histogram,
): Series<Histogram> {
  for (const one of meter.transfers()) yield [one.labels, histogramOf(one)];
}

function* stageSeconds({ labels, stageMs }: OperationMeter): Series<number> {
  for (const [index, stage] of stages.entries()) {
    yield [{ ...labels, stage }, (stageMs[index] as number) / 1000];
  }
}

function* bodyBytes({ labels, bytesIn, bytesOut }: OperationMeter): Series<number> {
  yield [{ ...labels, direction: 'in' }, bytesIn];
  yield [{ ...labels, direction: 'out' }, bytesOut];
}
