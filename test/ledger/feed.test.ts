// The feed: what each commit changes of what is kept in memory, in the order of the log, applied
// before it resolves.
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { FeedEntry } from '#bursar/ledger/feed.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { commitOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

let fixture: LedgerFixture;
let entries: FeedEntry[];

beforeEach(async () => {
  fixture = await openLedger();
  entries = [];
});
afterEach(() => fixture.close());

const policyOf = (text: string) =>
  commitOf({ kind: 'putBucketPolicy', bucketId: 1, policy: JSON.stringify(text) });

it('tells in the order of the log, of one change at a time, before it resolves', async () => {
  const { ledger } = fixture;
  let underWay = 0;
  ledger.feed.subscribe({
    apply: async (entry) => {
      underWay++;
      expect(underWay).toBe(1);
      await setImmediate();
      await setImmediate();
      entries.push(entry);
      underWay--;
    },
  });
  const resolved = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const result = await ledger.commit(policyOf(`${i}`));
      return { index: result.index, told: entries.map(({ index }) => index) };
    }),
  );
  for (const { index, told } of resolved) expect(told).toContain(index);
  const indexes = entries.map(({ index }) => index);
  expect(indexes).toEqual(indexes.toSorted((a, b) => a - b));
  expect(indexes).toHaveLength(20);
});

it('tells nothing of what is not kept, of what is refused, and of nothing done', async () => {
  const { ledger } = fixture;
  ledger.feed.subscribe({ apply: (entry) => void entries.push(entry) });
  expect(await ledger.commit(putOf('key'))).toMatchObject({ ok: true });
  expect(await ledger.commit(commitOf({ kind: 'none' }))).toMatchObject({ ok: true });
  const missing = { kind: 'putBucketPolicy', bucketId: 99, policy: null } as const;
  expect(await ledger.commit(commitOf(missing))).toMatchObject({ code: 'NoSuchBucket' });
  const full = commitOf({ kind: 'deleteBucket', bucketId: 1 });
  expect(await ledger.commit(full)).toMatchObject({ code: 'BucketNotEmpty' });
  expect(entries).toEqual([]);
});

it('holds up no write that changes nothing in memory', async () => {
  const { ledger } = fixture;
  let letGo = (): void => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  ledger.feed.subscribe({ apply: () => held });
  let isAnswered = false;
  const changing = ledger.commit(policyOf('one')).then(() => {
    isAnswered = true;
  });
  for (let i = 0; i < 3; i++) {
    expect(await ledger.commit(putOf(`key-${i}`))).toMatchObject({ ok: true });
  }
  await sleep(20);
  expect(isAnswered).toBe(false);
  letGo();
  await changing;
});

it('reaches an epoch of rights when its change, and all before it, are applied', async () => {
  const { ledger } = fixture;
  const seen: number[] = [];
  ledger.feed.subscribe({
    apply: async () => {
      await setImmediate();
      seen.push(ledger.rights.epoch);
    },
  });
  await Promise.all([1, 2, 3].map((i) => ledger.commit(policyOf(`${i}`))));
  // While one is applied, those before it are reached.
  expect(seen).toEqual([0, 1, 2]);
  expect(ledger.rights.epoch).toBe(3);
});

it('ends the gateway where what changed cannot be applied', async () => {
  const { ledger, fatal } = fixture;
  ledger.feed.subscribe({ apply: () => Promise.reject(new Error('the rows are gone')) });
  const result = await ledger.commit(policyOf('one'));
  expect(result).toMatchObject({ ok: false, code: 'InternalError' });
  expect(fatal).toEqual([expect.stringContaining('the rows are gone')]);
});

it('is applied to the end before the ledger closes', async () => {
  const { ledger } = fixture;
  ledger.feed.subscribe({
    apply: async (entry) => {
      await sleep(30);
      entries.push(entry);
    },
  });
  void ledger.commit(policyOf('one'));
  await fixture.reopen();
  expect(entries).toHaveLength(1);
});

it('is counted alike at an end that joins later, and rights are known there', async () => {
  const { ledger } = fixture;
  const end = ledger.addEnd();
  // What is told meanwhile waits at the end for who joins by it.
  for (const text of ['before', 'and after']) await ledger.commit(policyOf(text));
  const host = { onFatal: () => {}, onFailure: () => {} };
  const other = await Ledger.join(end, host);
  const heard: number[] = [];
  other.feed.subscribe({ apply: ({ index }) => void heard.push(index) });
  const { index } = await ledger.commit(policyOf('the last'));
  await other.follow();
  expect(heard).toContain(index);
  expect(other.received).toBe(ledger.received);
  expect(other.rights.epoch).toBe(ledger.rights.epoch);
  const later = await Ledger.join(ledger.addEnd(), host);
  expect([later.received, later.rights.epoch]).toEqual([ledger.received, ledger.rights.epoch]);
  await Promise.all([other.close(), later.close()]);
});
