// Who measures requests, as one: gives each its clock, counts those under way, and tells all observers
// of its end. Invariant: each request that began ends once.
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import { StageClock } from './stage-clock.ts';

export class Instruments implements RequestObserver {
  readonly #observers: readonly RequestObserver[];
  /** Requests that have begun and not ended. */
  underWay = 0;

  constructor(observers: readonly RequestObserver[]) {
    this.#observers = observers;
  }

  /** A request has come in. */
  begin(): StageClock {
    this.underWay++;
    return new StageClock();
  }

  /** It has ended. */
  observe(request: ObservedRequest): void {
    this.underWay--;
    for (const observer of this.#observers) observer.observe(request);
  }
}
