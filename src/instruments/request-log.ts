// One line of the log for each request that has ended. Invariant: it is made of what is observed
// alone, where nothing is with which another could act; a request that took too long has its stages
// besides.
import type { Logger } from './logger.ts';
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import { type StageClock, stages } from './stage-clock.ts';

export interface RequestLogOptions {
  logger: Logger;
  /** Whether requests that were not slow are logged, too. */
  isOn: boolean;
  /**
   * A request is slow from this time on. The time that its client took for the bodies does not
   * count.
   */
  slowMs: number;
}

export class RequestLog implements RequestObserver {
  readonly #logger: Logger;
  readonly #isOn: boolean;
  readonly #slowMs: number;

  constructor({ logger, isOn, slowMs }: RequestLogOptions) {
    this.#logger = logger;
    this.#isOn = isOn && logger.isLevelEnabled('info');
    this.#slowMs = slowMs;
  }

  observe(request: ObservedRequest): void {
    const { durationMs, clock } = request;
    if (durationMs - clock.msIn('stream') >= this.#slowMs) {
      const line = { ...describe(request), stagesMs: describeStages(clock) };
      this.#logger.warn(line, 'slow request');
    } else if (this.#isOn) {
      this.#logger.info(describe(request), 'request');
    }
  }
}

/** What there is none of is left out. */
function describe(request: ObservedRequest): object {
  const { trace, clock } = request;
  return {
    requestId: request.id,
    traceId: trace?.traceId,
    way: request.way,
    method: request.method,
    operation: request.operation ?? undefined,
    tenant: request.tenant ?? undefined,
    principal: request.principal ?? undefined,
    bucket: request.bucket ?? undefined,
    store: request.store ?? undefined,
    status: request.status,
    error: request.error ?? undefined,
    bytesIn: request.bytesIn,
    bytesOut: request.bytesOut,
    durationMs: toMicros(request.durationMs),
    firstByteMs: toMicros(clock.firstByteMs),
    receipt: request.index ?? undefined,
    source: request.source,
  };
}

function describeStages(clock: StageClock): Record<string, number> {
  const times: Record<string, number> = {};
  for (const stage of stages) times[stage] = toMicros(clock.msIn(stage));
  return times;
}

/** Milliseconds to three digits. */
function toMicros(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
