// Goes on with counting what is stored under prefixes, and by writers, that got limits, where that
// is more than was counted when they were set. Invariants: each slice is a commit with its record,
// and is small, so that writers do not wait for it; a run that ends in the midst is gone on with
// from where it had come to.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { Repeated } from '../core/repeated.ts';
import { restAfter } from '../core/slice-pace.ts';
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
/** Rows of a slice, about: a transaction of some ten milliseconds. */
const slice = 5000;

export function countStoredSoon({ read, ledger, recall, onError }: CountOptions): Repeated {
  const work = async (stopping: AbortSignal): Promise<void> => {
    for (let before: string[] = []; ; ) {
      const accounts = [...(await readCounts(read)).keys()];
      const counted = before.filter((account) => !accounts.includes(account));
      // They were leased when less was known to be stored.
      if (counted.length > 0) void recall(counted).catch(onError);
      if (accounts.length === 0) return;
      before = accounts;
      // In turns, so that none waits until all before it are counted.
      for (const account of accounts) {
        if (stopping.aborted) return;
        const begunMs = monotonicMs();
        const result = await ledger.commit(sliceOf(account, slice));
        if (!result.ok) throw new Error(`${account} was not counted: ${result.code}`);
        await restAfter(monotonicMs() - begunMs);
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
