// All that measures requests, in one place: it gives each request its clock, counts those that are
// under way, and tells all observers of its end. Invariant: each request that began ends once.
import type { IncomingHttpHeaders } from 'node:http';
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import { passOn, type RequestTrace, type RequestTracer } from './request-trace.ts';
import { StageClock } from './stage-clock.ts';

export class Instruments implements RequestObserver {
  readonly #observers: readonly RequestObserver[];
  /** null: nobody traces. */
  readonly #tracer: RequestTracer | null;
  /** Requests that have begun and not ended. */
  underWay = 0;

  constructor(observers: readonly RequestObserver[], tracer: RequestTracer | null = null) {
    this.#observers = observers;
    this.#tracer = tracer;
  }

  /** A request has come in. */
  begin(): StageClock {
    this.underWay++;
    return new StageClock();
  }

  /** The trace that a request belongs to, by its headers; null: none. */
  trace(headers: IncomingHttpHeaders, clock: StageClock): RequestTrace | null {
    if (this.#tracer) return this.#tracer.begin(headers, clock);
    return headers.traceparent === undefined ? null : passOn(headers);
  }

  /** It goes on where other instruments measure it. */
  leave(): void {
    this.underWay--;
  }

  /** It has ended. */
  observe(request: ObservedRequest): void {
    this.underWay--;
    request.trace?.end(request);
    for (const observer of this.#observers) observer.observe(request);
  }
}
