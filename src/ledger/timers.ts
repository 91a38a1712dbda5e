// What the ledger is asked to do as time goes by, in small batches between which requests go first.
import { Repeated, untilLess } from '../core/repeated.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { runMax } from '../quota/roll-up/recent-use.ts';
import type { Ledger } from './ledger.ts';

interface TimerOptions {
  ledger: Pick<Ledger, 'maintain'>;
  onError: (error: unknown) => void;
}

const hourMs = 3_600_000;
const pauseMs = 5000;
/** One transaction's worth, so that requests never wait long for it. */
const batch = 200;
/** What one run adds up at most: half a million records. */
const runsMax = 2500;
/** What is added up while somebody waits for it. */
const awaitedRunsMax = 100;

/**
 * Has what is stored charged, now and at the begin of each hour of the clock. What was not charged
 * in time, since nobody ran, is charged at the next start; nothing is charged twice, because the
 * ledger knows until when it has charged (docs/admin/charges.md).
 */
export function chargeStorageHourly({
  ledger,
  onError,
  books,
  nowMs = () => steadyClock.nowMs(),
}: TimerOptions & {
  /** By number of store the names of the price books in force. */
  books: () => ReadonlyMap<number, string>;
  nowMs?: () => number;
}): Repeated {
  const work = (stopping: AbortSignal): Promise<void> => {
    const now = nowMs();
    const due = { beforeMs: now - (now % hourMs), max: batch, books: books() };
    return untilLess(batch, () => ledger.maintain({ kind: 'chargeStorage', ...due }), stopping);
  };
  return new Repeated({ work, pauseMs: () => hourMs - (Date.now() % hourMs), onError });
}

/**
 * Has reads that were folded recorded when their minute is over. Those of a minute in which the
 * gateway stopped are recorded at its next start.
 */
export function closeFoldsInTime({ ledger, onError }: TimerOptions): Repeated {
  const close = () => ledger.maintain({ kind: 'closeFolds', max: batch });
  const work = (stopping: AbortSignal) => untilLess(batch, close, stopping);
  return new Repeated({ work, pauseMs: () => pauseMs, onError });
}

/** Adds up usage by day behind the log. */
export function sumUsageBehind({ ledger, onError }: TimerOptions): Repeated {
  const work = (stopping: AbortSignal) => sumUsage(ledger, runsMax, stopping);
  return new Repeated({ work, pauseMs: () => pauseMs, onError });
}

/** Adds up what was recorded until now, or a large part of it. Rejects when the disk is full. */
export function catchUpUsage(ledger: Pick<Ledger, 'maintain'>): Promise<void> {
  return sumUsage(ledger, awaitedRunsMax);
}

/** Reads a bounded part of the log, however far the sums are behind it. */
async function sumUsage(
  ledger: Pick<Ledger, 'maintain'>,
  max: number,
  stopping?: AbortSignal,
): Promise<void> {
  for (let i = 0; i < max && !stopping?.aborted; i++) {
    if ((await ledger.maintain({ kind: 'sumUsage', max: runMax })) < runMax) return;
  }
}
