// Which requests are traced. Invariant: a client may keep its request from being traced, where the
// operator lets parents have a say; but that more are traced than the operator wants, it achieves
// neither by its flag nor by its choice of a trace id, unless the operator trusts what it sends.
// Specification: OpenTelemetry's "Tracing SDK", Sampler; W3C Trace Context, section 4.
import { trace as api, type Context, ROOT_CONTEXT } from '@opentelemetry/api';
import type { Sampler, SamplingResult } from '@opentelemetry/sdk-trace';

export interface RequestSamplerOptions {
  /** Decides of traces that begin here. */
  root: Sampler;
  newTraceId: () => string;
  /** What a client decided counts, too. */
  isParentBased: boolean;
  /** And may have requests traced that otherwise would not be. */
  isTrusting: boolean;
}

type Question = Parameters<Sampler['shouldSample']>;

/** `SamplingDecision` of the SDK. */
const no: SamplingResult = { decision: 0 };
const yes: SamplingResult = { decision: 2 };

export class RequestSampler implements Sampler {
  readonly #options: RequestSamplerOptions;

  constructor(options: RequestSamplerOptions) {
    this.#options = options;
  }

  shouldSample(context: Context, ownTraceId: string, ...rest: Rest<Question>): SamplingResult {
    const { root, newTraceId, isParentBased, isTrusting } = this.#options;
    const parent = api.getSpanContext(context);
    const isWanted = ((parent?.traceFlags ?? 0) & 1) === 1;
    // A stage, or a try, of a request: what holds for the whole.
    if (parent && parent.isRemote !== true) return isWanted ? yes : no;
    if (parent && isParentBased) {
      if (!isWanted) return no;
      if (isTrusting) return yes;
    }
    // Samplers go by the trace id, and somebody else chose this one.
    const traceId = parent && !isTrusting ? newTraceId() : ownTraceId;
    return root.shouldSample(ROOT_CONTEXT, traceId, ...rest);
  }

  toString(): string {
    return `RequestSampler{${this.#options.root.toString()}}`;
  }
}

type Rest<T extends unknown[]> = T extends [unknown, unknown, ...infer R] ? R : never;
