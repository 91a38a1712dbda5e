// What this room wants measured of a store, and asks of what was measured before it decides: the
// terms of the one set of measurements (instruments/store-meter.ts has it). Invariant: nothing that
// decides, whether to ask twice or how much at a time, counts or times anything by itself.
import { IntegrityError } from '../../core/errors.ts';

/** The purpose of a request. */
export type RequestKind = 'get' | 'put' | 'head' | 'delete' | 'list';
export type Direction = 'read' | 'write';
/** What the first request of a read waited for when a second one was due. */
export type HedgeCause = 'connect' | 'firstByte' | 'body';
/** Which of two requests for the same bytes gave the answer that was taken. */
export type HedgeWinner = 'first' | 'second' | 'nobody';
/** Why a second request that was due was not sent: too many already, or no connection is free. */
export type HedgeRefusal = 'share' | 'connections';

/** Since the start. */
export interface StoreCounts {
  requests: number;
  retries: Readonly<Record<string, number>>;
  failures: Readonly<Record<string, number>>;
  hedges: { sent: number; won: number; lost: number };
}

export interface StoreMeter {
  /** A request was sent, whatever became of it; one that got no connection was not. */
  sent(kind: RequestKind): void;
  /**
   * It succeeded: `bytes` of data moved, in so many milliseconds, of which the first passed before
   * the answer began; of a read that was asked twice, from the first of the two on.
   */
  answered(kind: RequestKind, bytes: number, durationMs: number, firstByteMs: number): void;
  /** A try failed. */
  failed(cause: string): void;
  /** What failed for this cause is tried again. */
  retried(cause: string): void;
  /** A second request is sent for a read. */
  hedged(cause: HedgeCause): void;
  /** Of the two, this one's answer was taken. */
  hedgeEnded(cause: HedgeCause, winner: HedgeWinner): void;
  hedgeRefused(refusal: HedgeRefusal): void;
  /** Milliseconds that 95% of the latest reads of about this size took; infinite while unknown. */
  slowMs(sizeBytes: number): number;
  /** A stream of transfers from or to the store begins. */
  openStream(direction: Direction): StreamMeter;
  readonly counts: StoreCounts;
}

/** The transfers of one stream, in rounds. */
export interface StreamMeter {
  /** Transfers under way at which the latest streams of this direction settled; null: none did. */
  readonly settledBefore: number | null;
  /** Of the round under way. */
  readonly transfers: number;
  /** A transfer of so many bytes came through. */
  passed(bytes: number): void;
  /** Ends the round; gives the bytes that came through in a millisecond of it. */
  endRound(): number;
  /** The stream ends; so many transfers under way were right for it. */
  settle(window: number): void;
}

const unmeasuredStream: StreamMeter = {
  settledBefore: null,
  transfers: 0,
  passed: () => {},
  endRound: () => 0,
  settle: () => {},
};

/** For what nobody looks at: no read is asked twice, and windows stay as they begin. */
export const unmeasured: StoreMeter = {
  sent: () => {},
  answered: () => {},
  failed: () => {},
  retried: () => {},
  hedged: () => {},
  hedgeEnded: () => {},
  hedgeRefused: () => {},
  slowMs: () => Number.POSITIVE_INFINITY,
  openStream: () => unmeasuredStream,
  counts: { requests: 0, retries: {}, failures: {}, hedges: { sent: 0, won: 0, lost: 0 } },
};

/** The cause by which it is counted, as a failed try and as one that was made again. */
export const damagedCause = 'damaged';

/** Counts an answer that failed verification and is asked for again. */
export function noteDamage(meter: StoreMeter): void {
  meter.failed(damagedCause);
  meter.retried(damagedCause);
}

/**
 * Runs `ask` a second time when the first one throws IntegrityError. What came over a network may
 * have been damaged on its way, or taken from a stale cache, so it is asked for once more before
 * what is stored is said to be damaged. What comes then is verified as the first was.
 */
export async function askAgain<T>(meter: StoreMeter, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    noteDamage(meter);
    return ask();
  }
}
