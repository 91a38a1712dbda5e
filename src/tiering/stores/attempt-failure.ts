// Why one try of a call to a store failed, by names that all drivers share. The class of a failure
// decides by which name it is counted, whether the call is tried again, and whether the circuit
// breaker is told. Invariant: failures are counted by the fixed names below, so that there are few
// metrics.

export const failureCauses = [
  'refused',
  'no-descriptors',
  'unreachable',
  'reset',
  'timeout-connect',
  'timeout-first-byte',
  'stall',
  'truncated',
  'http-500',
  'http-502',
  'http-503',
  'http-504',
  'http-other',
  'error-in-200',
  'unproven',
  'early-answer',
  'wrong-length',
  'wrong-range',
  'wrong-body',
  'damaged',
  'conflict',
  'credentials',
  'expired',
  'clock',
  'denied',
  'no-bucket',
  'unfit',
  'full',
  'io',
] as const;
export type FailureCause = (typeof failureCauses)[number];

/** Causes for which the same request will fail again: the configuration or the rights are wrong. */
const lasting: ReadonlySet<FailureCause> = new Set(['denied', 'no-bucket', 'unfit']);
/** Causes that say nothing against the server: it answered properly, or is not what failed. */
const proper: ReadonlySet<FailureCause> = new Set([
  ...lasting,
  'conflict',
  'damaged',
  'no-descriptors',
  'unproven',
  'full',
]);
/** Causes for which the server refuses us until we have other credentials. */
const ofCredentials: ReadonlySet<FailureCause> = new Set(['credentials', 'expired']);

/** One try failed. Clients never see it: they get a Refusal with this as its cause. */
export class AttemptFailure extends Error {
  override readonly name = 'AttemptFailure';
  readonly reason: FailureCause;
  /** Whether the server asks for fewer requests. */
  readonly slowDown: boolean;
  /** The server's error code, where it gave one. */
  readonly code: string | undefined;

  constructor(
    reason: FailureCause,
    message: string,
    detail: { slowDown?: boolean; code?: string; cause?: unknown } = {},
  ) {
    super(message, { cause: detail.cause });
    this.reason = reason;
    this.slowDown = detail.slowDown ?? false;
    this.code = detail.code;
  }

  /** Whether another try may succeed. */
  get passing(): boolean {
    return !lasting.has(this.reason);
  }

  /** Whether all requests will fail for now, which opens the circuit breaker. */
  get serverFault(): boolean {
    return !proper.has(this.reason);
  }

  /** Whether other credentials may help. */
  get isOfCredentials(): boolean {
    return ofCredentials.has(this.reason);
  }
}
