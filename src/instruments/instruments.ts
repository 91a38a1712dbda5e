// All that measures requests, in one place: it gives each request its clock, counts those that are
// under way, and tells all observers of its end. Invariant: each request that began ends once.
import type { IncomingHttpHeaders } from 'node:http';
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import { noTracer, type RequestTrace, type RequestTracer } from './request-trace.ts';
import { StageClock } from './stage-clock.ts';

export class Instruments implements RequestObserver {
  readonly #observers: readonly RequestObserver[];
  readonly #tracer: RequestTracer;
  /** Requests that have begun and not ended. */
  underWay = 0;

  constructor(observers: readonly RequestObserver[], tracer: RequestTracer = noTracer) {
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
    return this.#tracer.begin(headers, clock);
  }

  /** It has ended. */
  observe(request: ObservedRequest): void {
    this.underWay--;
    request.trace?.end(request);
    for (const observer of this.#observers) observer.observe(request);
  }
}
