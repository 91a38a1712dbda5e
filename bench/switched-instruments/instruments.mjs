// instruments/instruments.ts that measures a request as far as the mode says when it comes in.
import { Instruments as Real } from '#bursar/instruments/instruments.js';
import { RequestMetrics } from '#bursar/instruments/request-metrics.js';
import { StageClock } from '#bursar/instruments/stage-clock.js';
import { state } from './periods.mjs';

/** Nobody is told of its stages before the request has ended. */
class UntoldClock extends StageClock {
  describe() {
    return undefined;
  }
}

class NoClock extends UntoldClock {
  enter() {
    return 'parse';
  }

  during(_stage, waiting) {
    return waiting;
  }

  answer() {}

  end() {
    return 0;
  }
}

const noClock = new NoClock();

export class Instruments extends Real {
  #metricsAlone;

  constructor(observers, tracer) {
    super(observers, tracer);
    this.#metricsAlone = new Real(observers.filter((one) => one instanceof RequestMetrics));
  }

  begin() {
    const { mode } = state;
    if (mode === 'none') return noClock;
    if (mode === 'all') return super.begin();
    this.#metricsAlone.underWay++;
    return new UntoldClock();
  }

  trace(headers, clock) {
    return clock === noClock ? null : super.trace(headers, clock);
  }

  observe(request) {
    const { clock } = request;
    state.ended++;
    if (clock === noClock) return;
    state.measured++;
    if (clock instanceof UntoldClock) this.#metricsAlone.observe(request);
    else super.observe(request);
  }
}
