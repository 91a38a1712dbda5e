// Goes on with counting what is stored under prefixes, and by writers, that got limits, where that
// is more than was counted when they were set. Invariants: each slice is a commit with its record,
// and is small, so that writers do not wait for it; a run that ends in the midst is gone on with
// from where it had come to.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { Repeated } from '../core/repeated.ts';
import { restAfter, SlicePace } from '../core/slice-pace.ts';
import { limitedAccountOf } from '../quota/limited-accounts.ts';
import type { Commit } from './commit.ts';
import type { Ledger } from './ledger.ts';
import { readCounts } from './stored-count.ts';

interface CountOptions {
  read: Reader;
  ledger: Pick<Ledger, 'commit'>;
  /** Has all threads give up what they have free of accounts. */
  recall: (accounts: readonly string[]) => Promise<unknown>;
  onError: (error: unknown) => void;
}

const pauseMs = 500;
/** Slices are paced in steps of so many rows. */
const stepRows = 100;
/** Of steps: up to 5,000 rows, in a transaction of some ten milliseconds. */
const pacing = { first: 20, most: 50, longMs: 20 };
/** An account that cannot be counted is left alone for so long: each try may be a record. */
const failedPauseMs = 5 * 60_000;

export function countStoredSoon({ read, ledger, recall, onError }: CountOptions): Repeated {
  const pace = new SlicePace(pacing);
  /** Accounts that could not be counted, and when they are tried again. */
  const failed = new Map<string, number>();
  let before: string[] = [];
  const countOn = async (account: string): Promise<void> => {
    const begunMs = monotonicMs();
    const result = await ledger.commit(sliceOf(account, pace.rows * stepRows));
    if (!result.ok) throw new Error(`${account} was not counted: ${result.code}`);
    const tookMs = monotonicMs() - begunMs;
    pace.note(tookMs);
    await restAfter(tookMs);
  };
  const work = async (stopping: AbortSignal): Promise<void> => {
    for (;;) {
      const accounts = [...(await readCounts(read)).keys()];
      const counted = before.filter((account) => !accounts.includes(account));
      for (const account of counted) failed.delete(account);
      // They were leased when less was known to be stored.
      if (counted.length > 0) void recall(counted).catch(onError);
      before = accounts;
      const due = accounts.filter((account) => (failed.get(account) ?? 0) <= monotonicMs());
      if (due.length === 0) return;
      // In turns, so that none waits until all before it are counted.
      for (const account of due) {
        if (stopping.aborted) return;
        try {
          await countOn(account);
        } catch (error) {
          failed.set(account, monotonicMs() + failedPauseMs);
          onError(error);
        }
      }
    }
  };
  return new Repeated({ work, pauseMs: () => pauseMs, onError });
}

/** It is nobody's request, and nobody is charged for it. */
export function sliceOf(account: string, max: number): Commit {
  const tenant = limitedAccountOf(account)?.tenant ?? defaultTenant;
  return {
    change: { kind: 'countStored', account, max },
    charge: null,
    record: draftRecord(unasked(tenant, rootPrincipal), ownOrigin(), {
      action: 'bursar:CountStored',
      target: `limits/${account}`,
      status: 200,
    }),
  };
}
