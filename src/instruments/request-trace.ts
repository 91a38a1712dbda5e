// The trace of one request: what its requests to stores carry, and who is told of its end.
// Invariant: where nobody traces, a request costs one look at its headers, and a trace that a
// client began goes on to the store as it came (W3C Trace Context, section 3.4).

import type { IncomingHttpHeaders } from 'node:http';
import type { StoreTrace, TryTrace } from '../core/store-trace.ts';
import type { ObservedRequest } from './observed-request.ts';
import type { StageClock } from './stage-clock.ts';
import { readTraceContext, traceHeaders } from './trace-context.ts';

export interface RequestTrace extends StoreTrace {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** The request has ended. */
  end(request: ObservedRequest): void;
}

export interface RequestTracer {
  /** null: it belongs to no trace. */
  begin(headers: IncomingHttpHeaders, clock: StageClock): RequestTrace | null;
}

/** Nothing is recorded of it; the headers of its tries are all the same. */
export class PassedTrace implements RequestTrace {
  readonly traceId: string;
  readonly #try: TryTrace;

  constructor(traceId: string, headers: readonly string[]) {
    this.traceId = traceId;
    this.#try = { headers, end: () => {} };
  }

  begin(): TryTrace {
    return this.#try;
  }

  end(): void {}
}

/** The trace that a client began, where nobody traces; null: it is none. */
export function passOn(headers: IncomingHttpHeaders): RequestTrace | null {
  const context = readTraceContext(headers);
  if (!context) return null;
  const { traceId, traceparent, tracestate } = context;
  return new PassedTrace(traceId, traceHeaders(traceparent, tracestate));
}
