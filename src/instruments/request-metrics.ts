// What is counted of every request: by operation, status and tenant, and how long it took.
// Invariants: a request costs a few additions to plain numbers, found by one look-up each of its
// operation, its tenant and its store; and there are no more series than operations, stores and the
// first tenants.
import { bytesPerSecondBounds, Histogram, secondBounds } from './histogram.ts';
import type { Labels, MetricRegistry } from './metric-registry.ts';
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import { bandOf, sizeBands } from './size-band.ts';
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

/** By the first digit of a status. `none`: nothing was sent, the client had gone. */
const statusClasses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const;
const succeeded = statusClasses.indexOf('2xx');

/** Operations that move an object's bytes, and which of a request's bytes these are. */
const movedBytes: Readonly<Record<string, 'bytesIn' | 'bytesOut'>> = {
  GetObject: 'bytesOut',
  PutObject: 'bytesIn',
  UploadPart: 'bytesIn',
};

/** Those of one store and size band. */
class Transfers {
  readonly labels: Labels;
  readonly seconds = new Histogram(secondBounds);
  readonly firstByteSeconds = new Histogram(secondBounds);
  readonly bytesPerSecond = new Histogram(bytesPerSecondBounds);

  constructor(labels: Labels) {
    this.labels = labels;
  }
}

/**
 * What is counted of the requests for one operation. Counting makes no object, but for the first
 * transfer of a store and size band.
 */
class OperationMeter {
  readonly labels: Labels;
  /**
   * Of requests that moved no object's bytes: those for other operations, and those that failed.
   */
  readonly seconds = new Histogram(secondBounds);
  /** In the order of `stages`. */
  readonly stageMs = new Float64Array(stages.length);
  bytesIn = 0;
  bytesOut = 0;
  readonly #tenants: NameSlots;
  /** By status class, and within it by the tenant's slot. */
  readonly #requests: Float64Array;
  readonly #requestLabels: Labels[] = [];
  readonly #moved: 'bytesIn' | 'bytesOut' | undefined;
  readonly #bandsByStore = new Map<string, (Transfers | undefined)[]>();

  constructor(operation: string, tenants: NameSlots) {
    this.labels = { operation };
    this.#tenants = tenants;
    this.#requests = new Float64Array(statusClasses.length * tenants.size);
    this.#moved = movedBytes[operation];
  }

  count(request: ObservedRequest, tenantSlot: number): void {
    const { status, clock, durationMs } = request;
    const statusClass = Math.min(Math.trunc(status / 100), statusClasses.length - 1);
    const index = statusClass * this.#tenants.size + tenantSlot;
    this.#requests[index] = (this.#requests[index] as number) + 1;
    this.bytesIn += request.bytesIn;
    this.bytesOut += request.bytesOut;
    for (let place = 0; place < stages.length; place++) {
      this.stageMs[place] = (this.stageMs[place] as number) + (clock.times[place] as number);
    }
    const seconds = durationMs / 1000;
    const isWhole = statusClass === succeeded && request.error === null;
    if (this.#moved === undefined || !isWhole) {
      this.seconds.record(seconds);
      return;
    }
    const bytes = request[this.#moved];
    const transfers = this.#transfersOf(request.store ?? '', bytes);
    transfers.seconds.record(seconds);
    transfers.firstByteSeconds.record(clock.firstByteMs / 1000);
    if (bytes > 0 && seconds > 0) transfers.bytesPerSecond.record(bytes / seconds);
  }

  #transfersOf(store: string, bytes: number): Transfers {
    let bands = this.#bandsByStore.get(store);
    if (!bands) {
      bands = [];
      this.#bandsByStore.set(store, bands);
    }
    const band = bandOf(bytes);
    bands[band] ??= new Transfers({ ...this.labels, size: sizeBands[band] as string, store });
    return bands[band];
  }

  /** Of all stores and size bands that there have been. */
  *transfers(): Iterable<Transfers> {
    for (const bands of this.#bandsByStore.values()) {
      for (const transfers of bands) if (transfers) yield transfers;
    }
  }

  /** Requests by status class, of all tenants. */
  *requestsByStatus(): Iterable<readonly [Labels, number]> {
    const { size } = this.#tenants;
    for (const [statusClass, status] of statusClasses.entries()) {
      let count = 0;
      for (let slot = 0; slot < size; slot++)
        count += this.#requests[statusClass * size + slot] ?? 0;
      if (count > 0) yield [{ ...this.labels, status }, count];
    }
  }

  /** The same by tenant. */
  *requestsByTenant(): Iterable<readonly [Labels, number]> {
    const { size } = this.#tenants;
    for (const [index, count] of this.#requests.entries()) {
      if (count === 0) continue;
      this.#requestLabels[index] ??= {
        ...this.labels,
        status: statusClasses[Math.trunc(index / size)] as string,
        tenant: this.#tenants.nameOf(index % size),
      };
      yield [this.#requestLabels[index], count];
    }
  }
}

const nobodySlot = 0;
/** What slot `nobodySlot` and the last one are called. */
const nobody = '';
const others = 'other';

/**
 * Small numbers for names that come up, so that what is counted by them are plain arrays: a name
 * has one slot for good, and there are never more slots than were asked for.
 */
class NameSlots {
  readonly #slots = new Map<string, number>();
  readonly #names: string[] = [nobody];
  readonly #othersSlot: number;
  /** Slots there can be: of `namesMax` names, of none, and of all that come later. */
  readonly size: number;

  constructor(namesMax: number) {
    this.size = namesMax + 2;
    this.#othersSlot = namesMax + 1;
    // One that is called so must not make a second series of that name.
    this.#slots.set(others, this.#othersSlot);
  }

  /**
   * Returns a slot from 0 to `size` - 1. `isNew` says whether the name may take a slot if it has
   * none.
   */
  slotOf(name: string | null, isNew: boolean): number {
    if (name === null) return nobodySlot;
    return this.#slots.get(name) ?? (isNew ? this.#take(name) : this.#othersSlot);
  }

  #take(name: string): number {
    const slot = this.#names.length;
    if (slot === this.#othersSlot) return slot;
    this.#names.push(name);
    this.#slots.set(name, slot);
    return slot;
  }

  nameOf(slot: number): string {
    return this.#names[slot] ?? others;
  }
}
