// What the instruments are told of a request that has ended: one object, which metrics, log lines,
// samples and traces are all made of, so that they cannot tell different stories. Invariant:
// nothing with which another could act is in it, no query and no header.
import type { RequestTrace } from './request-trace.ts';
import type { StageClock } from './stage-clock.ts';

/** The way it came in by (ARCHITECTURE, "The way of a PUT"). */
export type Way = 's3' | 'share' | 'sts' | 'preflight' | 'website' | 'native' | 'open';

export interface ObservedRequest {
  readonly id: string;
  readonly way: Way;
  readonly method: string;
  /** `PutObject`, `DescribeToken`; null: it was refused before that was known. */
  operation: string | null;
  tenant: string | null;
  principal: string | null;
  bucket: string | null;
  /** Name of the store of the bucket; null: no store is concerned. */
  store: string | null;
  /** 0: none was sent, the client had gone. */
  status: number;
  /** Code of the error; null: none. */
  error: string | null;
  /** Why, as the client is told; null: there was no refusal. It may name keys. */
  message: string | null;
  /** What let it in, or refused it (`Decision.by`); null: that was not asked of rules. */
  rule: string | null;
  /** The tenant whose rules were asked. */
  ruleTenant: string | null;
  /** Bytes of the bodies, as far as they were transferred. */
  bytesIn: number;
  bytesOut: number;
  /** What it is estimated to cost by the price book, worked out when asked for; null: nothing. */
  budget: { readonly cost: bigint | null } | null;
  /** Log index of its record; null: not committed yet, or there is none. */
  index: number | null;
  /** Client address. */
  readonly source: string;
  /** What it belongs to, with its `traceId`; null: no trace. */
  readonly trace: RequestTrace | null;
  /** It has stopped. */
  readonly clock: StageClock;
  durationMs: number;
}

/**
 * An observer is told of every request once, when the request has ended. It must not throw, and
 * must keep no reference to the request.
 */
export interface RequestObserver {
  observe(request: ObservedRequest): void;
}
