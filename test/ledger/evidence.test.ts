// Evidence is kept with its record, in one transaction: of each there is the other, or neither.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hashEvidence } from '#bursar/audit/evidence.js';
import type { Commit } from '#bursar/ledger/commit.js';
import { commitOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

const text = '{"parts":[],"v":1}';

function proven(commit: Commit): Commit {
  return {
    ...commit,
    record: { ...commit.record, evidenceHash: hashEvidence(text) },
    evidence: text,
  };
}

async function kept(): Promise<number[]> {
  const sql = 'SELECT idx FROM evidence ORDER BY idx';
  return (await fixture.read.all<{ idx: number }>(sql)).map(({ idx }) => idx);
}

async function named(): Promise<number[]> {
  const sql = 'SELECT idx, record FROM records ORDER BY idx';
  const rows = await fixture.read.all<{ idx: number; record: string }>(sql);
  return rows.filter(({ record }) => record.includes('"evidenceHash"')).map(({ idx }) => idx);
}

test('of a write, of a refused one, and of a read that waits for company', async () => {
  await fixture.ledger.commit(proven(putOf('a')));
  const missing = { kind: 'deleteBucket', bucketId: 99 } as const;
  expect(await fixture.ledger.commit(proven(commitOf(missing)))).toMatchObject({ ok: false });
  fixture.ledger.record(proven(commitOf({ kind: 'none' })));
  await fixture.ledger.commit(putOf('b'));
  await fixture.reopen();
  expect(await kept()).toHaveLength(3);
  expect(await named()).toEqual(await kept());
});

test('of a commit that fails by a bug there is neither; others have theirs', async () => {
  const broken = proven(putOf('a'));
  const change = { ...broken.change, object: null } as unknown as Commit['change'];
  const answers = await Promise.all([
    fixture.ledger.commit(proven(putOf('b'))),
    fixture.ledger.commit({ ...broken, change }),
    fixture.ledger.commit(proven(putOf('c'))),
  ]);
  expect(answers.map(({ ok }) => ok)).toEqual([true, false, true]);
  expect(fixture.failures).toHaveLength(1);
  expect(await kept()).toHaveLength(2);
  expect(await named()).toEqual(await kept());
});
