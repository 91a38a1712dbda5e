// What is counted of the requests for one operation. Invariant: counting makes no object, but for
// the first transfer of a store and size band.
import { bytesPerSecondBounds, Histogram, secondBounds } from './histogram.ts';
import type { Labels } from './metric-registry.ts';
import type { NameSlots } from './name-slots.ts';
import type { ObservedRequest } from './observed-request.ts';
import { bandOf, sizeBands } from './size-band.ts';
import { stages } from './stage-clock.ts';

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
export class Transfers {
  readonly labels: Labels;
  readonly seconds = new Histogram(secondBounds);
  readonly firstByteSeconds = new Histogram(secondBounds);
  readonly bytesPerSecond = new Histogram(bytesPerSecondBounds);

  constructor(labels: Labels) {
    this.labels = labels;
  }

  count(bytes: number, durationMs: number, firstByteMs: number): void {
    const seconds = durationMs / 1000;
    this.seconds.record(seconds);
    this.firstByteSeconds.record(firstByteMs / 1000);
    if (bytes > 0 && seconds > 0) this.bytesPerSecond.record(bytes / seconds);
  }
}

export class OperationMeter {
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
    clock.addTo(this.stageMs);
    const isWhole = statusClass === succeeded && request.error === null;
    if (this.#moved === undefined || !isWhole) {
      this.seconds.record(durationMs / 1000);
    } else {
      const bytes = request[this.#moved];
      this.#transfersOf(request.store ?? '', bytes).count(bytes, durationMs, clock.firstByteMs);
    }
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
