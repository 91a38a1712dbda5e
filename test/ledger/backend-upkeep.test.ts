import { describe, expect, it } from 'vitest';
import { BackendUpkeep } from '#bursar/ledger/backend-upkeep.js';
import type { Commit, CommitResult } from '#bursar/ledger/commit.js';

const terms = {
  stores: { nameOf: (number: number) => `store-${number}` },
  bookOf: (number: number) => ({ name: `book-${number}` }),
};

/** A ledger that takes what it is given, or not. */
function makeLedger() {
  const commits: Commit[] = [];
  const ledger = {
    commits,
    isFull: false,
    commit: async (commit: Commit): Promise<CommitResult> => {
      if (ledger.isFull) return { ok: false, code: 'ServiceUnavailable', index: null };
      commits.push(commit);
      return { ok: true, index: commits.length, timeMs: 0 };
    },
  };
  return ledger;
}

const moved = { sentBytes: 5, receivedBytes: 7 };

describe('what the gateway asks of its stores for itself', () => {
  it('is told once, by store, for no tenant, and charges nobody', async () => {
    const ledger = makeLedger();
    const upkeep = new BackendUpkeep(ledger);
    upkeep.tallyOf(2).count('put', moved);
    upkeep.tallyOf(3).count('get', moved);
    upkeep.start(terms);
    await upkeep.tell();
    await upkeep.tell();
    expect(ledger.commits).toHaveLength(1);
    const [commit] = ledger.commits;
    expect(commit).toMatchObject({ change: { kind: 'none' }, charge: null });
    expect(commit?.record.action).toBe('bursar:BackendCost');
    const counts = { puts: 0, gets: 0, frees: 0, ...moved };
    expect(commit?.backend).toEqual({
      tenant: null,
      uses: [
        { ...counts, puts: 1, store: 'store-2', book: 'book-2' },
        { ...counts, gets: 1, store: 'store-3', book: 'book-3' },
      ],
    });
    await upkeep.close();
    expect(ledger.commits).toHaveLength(1);
  });

  it('is kept for the next time while it cannot be recorded', async () => {
    const ledger = makeLedger();
    const upkeep = new BackendUpkeep(ledger);
    upkeep.start(terms);
    ledger.isFull = true;
    upkeep.tallyOf(2).count('free', moved);
    await upkeep.tell();
    upkeep.tallyOf(2).count('free', moved);
    ledger.isFull = false;
    await upkeep.close();
    expect(ledger.commits).toHaveLength(1);
    const [use] = ledger.commits[0]?.backend?.uses ?? [];
    expect(use).toMatchObject({ frees: 2, sentBytes: 10, receivedBytes: 14 });
  });

  it('has what operations asked after they were recorded', async () => {
    const ledger = makeLedger();
    const upkeep = new BackendUpkeep(ledger);
    upkeep.start(terms);
    upkeep.add([{ store: 2, puts: 1, gets: 0, frees: 3, ...moved }]);
    await upkeep.close();
    expect(ledger.commits[0]?.backend?.uses).toMatchObject([{ puts: 1, frees: 3 }]);
  });

  it('makes no record while there is nothing, or nobody knows the prices yet', async () => {
    const ledger = makeLedger();
    const upkeep = new BackendUpkeep(ledger);
    upkeep.tallyOf(2).count('put', moved);
    await upkeep.close();
    const idle = new BackendUpkeep(ledger);
    idle.start(terms);
    await idle.close();
    expect(ledger.commits).toEqual([]);
  });
});
