// The verification of who may what while a gateway serves: that it could not be done is said until
// it is.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SealWatch } from '#bursar/ledger/seal-watch.js';
import { type LedgerFixture, openLedger, rootKey } from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

it('is tried again until it comes to its end, and says meanwhile why it did not', async () => {
  let isThere = false;
  const [errors, checks]: [unknown[], unknown[]] = [[], []];
  const watch = new SealWatch({
    check: () => ({ path: isThere ? fixture.path : '/nowhere/bursar.db', rootKeys: [rootKey] }),
    onChecked: (unsealed) => checks.push(unsealed),
    onError: (error) => errors.push(error),
    retryMs: 10,
  });
  try {
    expect(watch.failure).toBeNull();
    watch.begin();
    await vi.waitFor(() => expect(watch.failure).not.toBeNull(), 20_000);
    expect(checks).toEqual([]);
    isThere = true;
    await vi.waitFor(() => expect(checks).toEqual([[]]), 20_000);
    expect(watch.failure).toBeNull();
    // However often it was tried.
    expect(errors.length).toBe(1);
  } finally {
    await watch.close();
  }
});
