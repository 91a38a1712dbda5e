// The ledger's batches: what is answered is committed, in one order, and a bug in one request is
// that request's alone.
import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { newExtentId } from '#bursar/core/ids.js';
import { readUsage } from '#bursar/quota/usage.js';
import { commitOf, deleteOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

async function indexes(): Promise<number[]> {
  const rows = await fixture.read.all<{ idx: number }>('SELECT idx FROM records ORDER BY idx');
  return rows.map(({ idx }) => idx);
}

async function keys(): Promise<string[]> {
  const rows = await fixture.read.all<{ key: string }>('SELECT key FROM versions ORDER BY key');
  return rows.map(({ key }) => key);
}

/** What the bucket has used. */
async function usage() {
  await fixture.ledger.writeAccounts();
  return readUsage(fixture.read, 'bucket:one/data');
}

describe('a batch', () => {
  it('answers each commit with its own place in the log, and all are there', async () => {
    const names = Array.from({ length: 500 }, (_, i) => `k${String(i).padStart(3, '0')}`);
    const answers = await Promise.all(names.map((key) => fixture.ledger.commit(putOf(key))));
    expect(answers.map(({ ok }) => ok)).not.toContain(false);
    // Three records are of the tenant, its principal and the bucket.
    expect(answers.map(({ index }) => index)).toEqual(names.map((_, i) => i + 3));
    expect(await keys()).toEqual(names);
    expect(await indexes()).toEqual(Array.from({ length: 503 }, (_, i) => i));
    expect(await usage()).toMatchObject({
      requests: 503,
      storedBytes: 5000,
      storedObjects: 500,
    });
  });

  it('charges nothing for a write that is refused by a damaged object', async () => {
    await fixture.ledger.commit(putOf('k'));
    fixture.edit("UPDATE versions SET etag = 'another'");
    const before = await usage();
    const commit = putOf('k');
    if (commit.change.kind === 'putObject') commit.change.conditions.ifMatch = ['another'];
    expect(await fixture.ledger.commit(commit)).toMatchObject({ code: 'BursarIntegrityError' });
    expect(await usage()).toEqual(before);
    const row = await fixture.read.get<{ record: string }>(
      'SELECT record FROM records ORDER BY idx DESC',
    );
    expect(JSON.parse(row?.record ?? '')).toMatchObject({ error: 'BursarIntegrityError' });
    expect(row?.record).not.toContain('"cost"');
  });

  it('with a request that fails by a bug fails that alone, and counts nothing of it', async () => {
    const taken = newExtentId();
    const commits = Array.from({ length: 20 }, (_, i) =>
      // The second use of an extent's id is a bug that the database finds.
      putOf(`k${i}`, { inlineId: i === 5 || i === 11 ? taken : newExtentId() }),
    );
    const answers = await Promise.all(commits.map((commit) => fixture.ledger.commit(commit)));
    const failed = answers.flatMap((answer, i) => (answer.ok ? [] : [[i, answer.code]]));
    expect(failed).toEqual([[11, 'InternalError']]);
    expect(answers[11]).toMatchObject({ index: null });
    expect(fixture.failures.filter((text) => text.includes('UNIQUE'))).toHaveLength(1);
    expect((await keys()).length).toBe(19);
    expect(await keys()).not.toContain('k11');
    // No hole in the log where the failed one would have been.
    expect(await indexes()).toEqual(Array.from({ length: 22 }, (_, i) => i));
    expect(await usage()).toMatchObject({
      requests: 22,
      storedBytes: 190,
      storedObjects: 19,
    });
    expect(fixture.fatal).toEqual([]);
  });

  it('of refusals records each, charges its request, and changes nothing', async () => {
    const { ledger } = fixture;
    await ledger.commit(putOf('k'));
    const put = putOf('k');
    if (put.change.kind === 'putObject') put.change.conditions.ifNoneMatch = ['*'];
    const answer = await ledger.commit(put);
    expect(answer).toMatchObject({ ok: false, code: 'PreconditionFailed', index: 4 });
    const row = await fixture.read.get<{ record: string }>(
      'SELECT record FROM records WHERE idx = 4',
    );
    expect(JSON.parse(row?.record ?? '')).toMatchObject({
      status: 412,
      error: 'PreconditionFailed',
      storedBytes: 0,
      storedObjects: 0,
    });
    const used = await usage();
    expect(used).toMatchObject({ requests: 5, storedBytes: 10, storedObjects: 1 });
  });

  it('records and charges nothing of what is to be tried again', async () => {
    const { ledger, bucketId } = fixture;
    const before = await usage();
    const { change } = putOf('copy');
    if (change.kind !== 'putObject') throw new Error('this is no PUT');
    const { conditions, object } = change;
    const source = { bucketId, key: 'gone', seq: 1 };
    const commit = commitOf({ kind: 'copyObject', bucketId, key: 'k', conditions, source, object });
    expect(await ledger.commit(commit)).toEqual({ ok: false, code: 'SlowDown', index: null });
    expect(await usage()).toEqual(before);
    expect(await indexes()).toEqual([0, 1, 2]);
  });

  it.each(["'a lot'", '-1', '1e300', '9e15'])(
    'deletes and overwrites an object whose size was edited to %s, and counts on',
    async (size) => {
      const { ledger } = fixture;
      for (const key of ['deleted', 'overwritten']) await ledger.commit(putOf(key));
      fixture.edit(`UPDATE versions SET size = ${size}`);
      expect(await ledger.commit(deleteOf('deleted'))).toMatchObject({ ok: true });
      expect(await ledger.commit(putOf('overwritten'))).toMatchObject({ ok: true });
      // Nobody knows the sizes that they had: those twenty bytes stay counted.
      const used = await usage();
      expect(used).toMatchObject({ storedObjects: 1, storedBytes: 30 });
    },
  );

  it('keeps the order in which requests came', async () => {
    const { ledger } = fixture;
    const answers = await Promise.all([
      ledger.commit(putOf('k')),
      ledger.commit(deleteOf('k')),
      ledger.commit(putOf('k')),
      ledger.commit(deleteOf('k')),
    ]);
    expect(answers.map(({ index }) => index)).toEqual([3, 4, 5, 6]);
    expect(await fixture.read.all('SELECT 1 FROM versions')).toEqual([]);
  });
});

describe('while a batch takes long', () => {
  /** Another writer keeps the ledger from its database until `meanwhile` is over. */
  async function holdUp(meanwhile: () => Promise<void>): Promise<void> {
    const holder = openDatabase(fixture.path, { readonly: false, cacheKib: 1024 });
    holder.exec('BEGIN IMMEDIATE');
    await meanwhile();
    holder.exec('ROLLBACK');
    holder.close();
  }

  it('reads are recorded before what was asked for after them, and in their order', async () => {
    const { ledger } = fixture;
    const commits: Promise<unknown>[] = [];
    const read = (name: string) => ledger.record(commitOf({ kind: 'none' }, name));
    await holdUp(async () => {
      commits.push(ledger.commit(putOf('first')));
      await setTimeout(10);
      read('read 1');
      commits.push(ledger.commit(putOf('second')));
      // Longer than reads wait for company.
      await setTimeout(100);
      read('read 2');
      commits.push(ledger.commit(putOf('third')));
      await setTimeout(100);
    });
    await Promise.all(commits);
    const rows = await fixture.read.all<{ key: string }>(
      `SELECT record ->> 'key' AS key FROM records WHERE idx >= 3 ORDER BY idx`,
    );
    const keys = rows.map(({ key }) => key);
    expect(keys.filter((key) => key !== 'read 2')).toEqual(['first', 'read 1', 'second', 'third']);
    expect(keys.filter((key) => key !== 'second')).toEqual(['first', 'read 1', 'read 2', 'third']);
  });

  it('readers wait once very many of their records do, however long they have', async () => {
    const { ledger } = fixture;
    let awaited: Promise<unknown> | null = null;
    await holdUp(async () => {
      void ledger.commit(putOf('first'));
      await setTimeout(10);
      for (let i = 0; i < 20_000; i++) ledger.record(commitOf({ kind: 'none' }));
      await setTimeout(100);
      awaited = ledger.record(commitOf({ kind: 'none' }, 'one more'));
    });
    expect(awaited).not.toBeNull();
    await awaited;
    expect(ledger.load).toMatchObject({ waiting: 0, readsWaiting: 0 });
  });
});

describe('a ledger that cannot go on', () => {
  it('says why, as of a database that another program keeps locked', async () => {
    const stuck = await openLedger();
    const holder = openDatabase(stuck.path, { readonly: false, cacheKib: 1024 });
    holder.exec('BEGIN IMMEDIATE');
    void stuck.ledger.commit(putOf('k'));
    await expect.poll(() => stuck.fatal.length, { timeout: 30_000 }).toBeGreaterThan(0);
    holder.close();
    rmSync(dirname(stuck.path), { recursive: true });
    expect(stuck.fatal[0]).toContain('database is locked');
  }, 40_000);
});

describe('the log', () => {
  it('goes on where it was after the gateway stopped, and its time never goes back', async () => {
    await fixture.ledger.commit(putOf('before'));
    await fixture.reopen();
    const answer = await fixture.ledger.commit(putOf('after'));
    expect(answer.index).toBe(4);
    const rows = await fixture.read.all<{ timeMs: number }>(
      'SELECT time_ms AS timeMs FROM records ORDER BY idx',
    );
    const times = rows.map(({ timeMs }) => timeMs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  it('has every read that was recorded before the ledger was closed', async () => {
    for (let i = 0; i < 1500; i++) fixture.ledger.record(commitOf({ kind: 'none' }, `read-${i}`));
    await fixture.reopen();
    const rows = await fixture.read.all(`SELECT 1 FROM records WHERE record ->> 'action' = 'none'`);
    expect(rows).toHaveLength(1500);
  });

  it('records reads soon even when nothing else happens', async () => {
    fixture.ledger.record(commitOf({ kind: 'none' }, 'alone'));
    await expect.poll(indexes).toEqual([0, 1, 2]);
  });
});

describe('an upload to a store', () => {
  it('that was declared by a former run of the gateway is refused once it was swept', async () => {
    const storedId = newExtentId();
    const declare = { kind: 'declareExtents' as const, store: 1, ids: [storedId] };
    await fixture.ledger.maintain(declare);
    await fixture.reopen();
    const sweep = { kind: 'condemnIntents', expiredBeforeMs: 0, max: 10 } as const;
    expect(await fixture.ledger.maintain(sweep)).toBe(1);
    const answer = await fixture.ledger.commit(putOf('late', { storedId }));
    expect(answer).toMatchObject({ ok: false, code: 'RequestTimeout' });
    expect(await keys()).toEqual([]);
  });

  it('that this run declared is not swept before its time', async () => {
    const storedId = newExtentId();
    const declare = { kind: 'declareExtents' as const, store: 1, ids: [storedId] };
    await fixture.ledger.maintain(declare);
    const sweep = { kind: 'condemnIntents', expiredBeforeMs: 0, max: 10 } as const;
    expect(await fixture.ledger.maintain(sweep)).toBe(0);
    expect(await fixture.ledger.commit(putOf('in time', { storedId }))).toMatchObject({ ok: true });
    const late = { ...sweep, expiredBeforeMs: Date.now() + 1000 };
    expect(await fixture.ledger.maintain(late)).toBe(0);
  });
});
