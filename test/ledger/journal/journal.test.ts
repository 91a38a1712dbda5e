import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Reader } from '#bursar/core/database.js';
import { Refusal } from '#bursar/core/errors.js';
import { type S3Rig, startS3Rig } from '../../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../../tooling/tools.ts';
import { bucketId, JournalRig } from './journal-rig.ts';

/** Waits until `check` holds. */
async function until(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const endMs = Date.now() + 20_000;
  while (!(await check())) {
    if (Date.now() > endMs) throw new Error(`still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

describeWithTool(versitygw, 'the journal of an S3 store', (path) => {
  let s3: S3Rig;
  let rig: JournalRig;

  beforeAll(async () => {
    s3 = await startS3Rig(path);
  }, 60_000);
  afterAll(() => s3?.stop(), 60_000);
  beforeEach(async () => {
    rig = await JournalRig.start(s3);
  });
  afterEach(async () => {
    s3.proxy.choose = () => undefined;
    await rig.close();
  });

  const hasSnapshot = async (): Promise<boolean> => {
    const { snapshots } = await rig.files();
    return snapshots.some((name) => name.endsWith('-complete'));
  };

  it('has a change in the store when it calls it flushed', async () => {
    const journal = await rig.open();
    await rig.put('a');
    await rig.put('b', 'first');
    await rig.put('b', 'second');
    await journal.flushed(await rig.remove('a'));
    const { objects, buckets, report } = await rig.replay();
    expect(objects).toEqual({ b: 'second' });
    expect(buckets).toEqual(['far']);
    expect(report).toMatchObject({ damaged: [], missing: [], foreign: [] });
  });

  it('forgets the secret of a tenant that is deleted, in all that is in the store', async () => {
    const journal = await rig.open();
    const made = { name: 'gone', membersCreateBuckets: true, sealedKey: Buffer.alloc(63, 7) };
    await journal.flushed(await rig.commit({ kind: 'createTenant', ...made }));
    const { segments: before } = await rig.files();
    expect(before.length).toBeGreaterThan(0);
    await journal.flushed(await rig.commit({ kind: 'deleteTenant', name: 'gone' }));
    await until(async () => {
      const { segments } = await rig.files();
      return (await hasSnapshot()) && !segments.some((name) => before.includes(name));
    }, 'a snapshot has taken the place of what told the secret');
  });

  it('writes what nobody waits for soon, and forgets it in the outbox', async () => {
    const journal = await rig.open();
    journal.note(await rig.put('a'));
    await until(async () => (await rig.outboxRows()) === 0, 'the outbox is empty');
    expect((await rig.replay()).objects).toEqual({ a: 'etag' });
  });

  it('answers for a write while its place was seen to be ours a moment before', async () => {
    let looks = 0;
    let isTaken = false;
    const confirmOwner = async () => {
      looks++;
      if (isTaken) throw new Refusal('ServiceUnavailable');
    };
    const journal = await rig.open({ confirmOwner });
    const isOwned = (): boolean => {
      const look = journal.owned();
      look?.catch(() => null);
      return look === null;
    };
    await until(async () => {
      await journal.flushed(await rig.put('a'));
      return isOwned();
    }, 'the look of a segment counts');
    isTaken = true;
    await until(() => !isOwned(), 'it counts no more');
    looks = 0;
    const asked = await Promise.allSettled(Array.from({ length: 50 }, () => journal.owned()));
    for (const { status } of asked) expect(status).toBe('rejected');
    expect(looks).toBeLessThan(10);
    isTaken = false;
    await journal.owned();
  });

  it('tells of many changes of a key once', async () => {
    let seq = 0;
    for (let i = 0; i < 50; i++) seq = await rig.put('a', `etag ${i}`);
    const journal = await rig.open();
    await journal.flushed(seq);
    expect((await rig.files()).segments).toHaveLength(1);
    const [only] = (await rig.files()).segments;
    const bytes = await rig.store.getObject(only as string);
    // One entry and its bucket's, not fifty.
    expect(bytes?.length).toBeLessThan(1500);
    expect((await rig.replay()).objects).toEqual({ a: 'etag 49' });
  });

  it('says nothing of buckets in other stores', async () => {
    const journal = await rig.open();
    const { tenant, owner } = { tenant: 'one', owner: 'alice' };
    await rig.commit({ kind: 'createBucket', tenant, name: 'near', owner, store: 1 });
    await journal.flushed(await rig.put('a'));
    expect((await rig.replay()).buckets).toEqual(['far']);
    await until(async () => (await rig.outboxRows()) === 0, 'the outbox is empty');
  });

  it('goes on after an end at any point with what the outbox has', async () => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    await journal.close();
    await rig.put('b');
    await rig.remove('a');
    await rig.fixture.reopen();
    await (await rig.open()).flushed(await rig.put('c'));
    expect((await rig.replay()).objects).toEqual({ b: 'etag', c: 'etag' });
  });

  it('tells a deletion from a write, whichever segment is read again', async () => {
    // Each segment seems to fail, though the server has stored it, and cannot be read back: so it
    // is written twice.
    let faults = 0;
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    s3.proxy.choose = ({ method, target }) =>
      method !== 'DELETE' && target.includes('/journal/') && faults++ < 10
        ? { kind: 'status', status: 500, code: 'InternalError', carriedOut: true }
        : undefined;
    await journal.flushed(await rig.remove('a')).catch(() => {});
    const last = await rig.put('b');
    await until(async () => {
      await journal.flushed(last).catch(() => {});
      return journal.state().safeSeq >= last;
    }, 'flushed');
    expect((await rig.replay()).objects).toEqual({ b: 'etag' });
    expect(faults).toBeGreaterThan(5);
  });

  it.each([
    ['a 412', { kind: 'status', status: 412, code: 'PreconditionFailed' }],
    ['an empty 200', { kind: 'lie', status: 200 }],
    ['a 204', { kind: 'lie', status: 204, headers: { etag: '"0"' } }],
  ] as const)('does not take %s for a segment that is stored', async (_, fault) => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    s3.proxy.choose = ({ method, target }) =>
      method === 'PUT' && target.includes('/journal/') ? fault : undefined;
    const removed = await rig.remove('a');
    await expect(journal.flushed(removed)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(journal.state().safeSeq).toBeLessThan(removed);
    s3.proxy.choose = () => undefined;
    await until(() => journal.state().safeSeq >= removed, 'the segment is written');
    expect((await rig.replay()).objects).toEqual({});
  });

  it('refuses what cannot be made safe while the store is down, then recovers', async () => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    await s3.backend.kill();
    try {
      const seq = await rig.put('b');
      await expect(journal.flushed(seq)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
      expect(() => journal.admit({ mustBeSafe: true })).toThrow(
        expect.objectContaining({ code: 'ServiceUnavailable' }),
      );
      expect(() => journal.admit({ mustBeSafe: false })).not.toThrow();
      expect(journal.state()).toMatchObject({ ready: false });
      expect(rig.errors).toHaveLength(1);
    } finally {
      await s3.backend.restart();
    }
    await until(() => journal.state().ready, 'the journal is written again');
    expect((await rig.replay()).objects).toEqual({ a: 'etag', b: 'etag' });
    expect(() => journal.admit({ mustBeSafe: true })).not.toThrow();
  });

  it('writes what is left when it is closed', async () => {
    const journal = await rig.open();
    journal.note(await rig.put('a'));
    await journal.close();
    expect(await rig.outboxRows()).toBe(0);
    expect((await rig.replay()).objects).toEqual({ a: 'etag' });
  });

  it('puts a snapshot in the place of old segments', async () => {
    const journal = await rig.open({ compactionBytes: 10 * 16 * 1024 });
    for (let i = 0; i < 40; i++) {
      await journal.flushed(await rig.put(`key ${i}`, `etag ${i}`));
      if (i % 4 === 0) await journal.flushed(await rig.remove(`key ${i}`));
    }
    await until(async () => {
      const { segments, snapshots } = await rig.files();
      const complete = snapshots.filter((name) => name.endsWith('-complete'));
      return complete.length === 1 && segments.length < 20;
    }, 'one snapshot, and old segments are gone');
    await journal.close();
    const { objects, report } = await rig.replay();
    const left = Array.from({ length: 40 }, (_, i) => i).filter((i) => i % 4 !== 0);
    expect(objects).toEqual(Object.fromEntries(left.map((i) => [`key ${i}`, `etag ${i}`])));
    expect(report).toMatchObject({ missing: [], damaged: [], snapshotPages: 1 });
  });

  it('goes on behind a snapshot after a restart', async () => {
    const journal = await rig.open({ compactionBytes: 1 });
    await journal.flushed(await rig.put('a'));
    await journal.flushed(await rig.put('b'));
    await until(hasSnapshot, 'there is a snapshot');
    await journal.close();
    const again = await rig.open();
    await again.flushed(await rig.remove('a'));
    await again.flushed(await rig.put('c'));
    expect((await rig.replay()).objects).toEqual({ b: 'etag', c: 'etag' });
    expect((await rig.replay()).report).toMatchObject({ missing: [], damaged: [] });
  });

  it('misses a segment that is not there, and names it', async () => {
    const journal = await rig.open();
    const newest: string[] = [];
    for (const key of ['a', 'b', 'c']) {
      await journal.flushed(await rig.put(key));
      newest.push((await rig.files()).segments.at(-1) as string);
    }
    await rig.store.removeObject(newest[1] as string);
    const { report, objects } = await rig.replay();
    expect(report.missing).toEqual([newest[1]]);
    expect(objects).toEqual({ a: 'etag', c: 'etag' });
  });

  it('is read again where an answer was damaged on its way', async () => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    await rig.put('b');
    await journal.flushed(await rig.remove('a'));
    // Each object is altered the first time that it is given.
    const given = new Set<string>();
    s3.proxy.choose = ({ method, target }) => {
      if (method !== 'GET' || target.includes('list-type') || given.has(target)) return undefined;
      given.add(target);
      return { kind: 'flip', at: 'download', offset: 60 };
    };
    const { objects, report } = await rig.replay();
    expect(objects).toEqual({ b: 'etag' });
    expect(report).toMatchObject({ damaged: [], missing: [] });
    expect(given.size).toBeGreaterThan(2);
    expect(rig.store.meter.counts.retries.damaged).toBe(given.size);
  });

  it('takes nothing from an object that was altered, or is in another’s place', async () => {
    const journal = await rig.open();
    const newest: string[] = [];
    for (const key of ['a', 'b', 'c']) {
      await journal.flushed(await rig.put(key));
      newest.push((await rig.files()).segments.at(-1) as string);
    }
    const [first, second, third] = newest as [string, string, string];
    const bytes = (await rig.store.getObject(first)) as Buffer;
    await rig.store.putObject(third, bytes);
    bytes[40] = (bytes[40] as number) ^ 1;
    await rig.store.putObject(second, bytes);
    await rig.store.putObject(`${first.slice(0, -41)}something`, Buffer.from('else'));
    const { report, objects } = await rig.replay();
    expect(report.damaged.sort()).toEqual([second, third]);
    expect(report.foreign).toEqual([`${first.slice(0, -41)}something`]);
    expect(objects).toEqual({ a: 'etag' });
  });

  it('does not go on with an older copy that has written records since', async () => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    await rig.keepCopy();
    await journal.flushed(await rig.put('b'));
    await journal.close();
    await rig.goBackToCopy();
    for (let i = 0; i < 20; i++) await rig.commit({ kind: 'none' });
    const again = await rig.open();
    await until(() => again.state().reason !== null, 'it notices');
    expect(again.state().reason).toMatch(/older copy/);
    expect(() => again.admit({ mustBeSafe: false })).toThrow(
      expect.objectContaining({ code: 'ServiceUnavailable' }),
    );
    const before = await rig.names();
    await expect(again.flushed(await rig.put('c'))).rejects.toMatchObject({
      code: 'ServiceUnavailable',
    });
    expect(await rig.names()).toEqual(before);
    expect((await rig.replay()).objects).toEqual({ a: 'etag', b: 'etag' });
  });

  it('does not go on with an older copy when only a snapshot is newer', async () => {
    const journal = await rig.open({ compactionBytes: 1 });
    await rig.keepCopy();
    await journal.flushed(await rig.put('a'));
    await until(async () => (await rig.files()).segments.length === 0, 'a snapshot has all');
    await journal.close();
    await rig.goBackToCopy();
    for (let i = 0; i < 20; i++) await rig.commit({ kind: 'none' });
    const again = await rig.open();
    await until(() => again.state().reason !== null, 'it notices');
    expect(again.state().reason).toMatch(/older copy/);
  });

  it('begins no other journal in a store that a database has told of its changes', async () => {
    await rig.keepCopy();
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    await journal.close();
    await rig.goBackToCopy();
    const again = await rig.open();
    await until(() => again.state().ready || again.state().reason !== null, 'it is decided');
    expect(again.state().reason).toMatch(/older copy/);
    expect((await rig.replay()).objects).toEqual({ a: 'etag' });
  });

  it('goes on when it ended between a segment and the news of it', async () => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a'));
    const seq = await rig.put('b');
    await rig.keepCopy();
    await journal.flushed(seq);
    await journal.close();
    await rig.goBackToCopy();
    await (await rig.open()).flushed(await rig.put('c'));
    expect((await rig.replay()).objects).toEqual({ a: 'etag', b: 'etag', c: 'etag' });
  });

  it('is told of buckets that come and go', async () => {
    const journal = await rig.open();
    const owner = 'alice';
    await rig.commit({ kind: 'createBucket', tenant: 'one', name: 'brief', owner, store: 2 });
    await journal.flushed(await rig.put('a'));
    expect((await rig.replay()).buckets).toEqual(['far', 'brief']);
    await rig.remove('a');
    await journal.flushed(await rig.commit({ kind: 'deleteBucket', bucketId }));
    const { buckets, objects } = await rig.replay();
    expect(buckets).toEqual(['brief']);
    expect(objects).toEqual({});
  });

  it('does not take over a row that was edited, and keeps what it had', async () => {
    const journal = await rig.open();
    await journal.flushed(await rig.put('a', 'true'));
    const seq = await rig.put('a', 'later');
    await rig.edit("UPDATE versions SET etag = 'forged' WHERE etag = 'later'");
    await journal.flushed(seq);
    expect(journal.state().damagedRows).toBe(1);
    expect((await rig.replay()).objects).toEqual({ a: 'true' });
  });

  it('keeps its segments while the catalog has rows that were edited', async () => {
    await rig.put('a', 'true');
    await rig.edit("UPDATE versions SET etag = 'forged' WHERE etag = 'true'");
    const seq = await rig.put('b');
    const journal = await rig.open({ compactionBytes: 1 });
    await journal.flushed(seq);
    await until(() => journal.state().compactionReason !== null, 'it says why');
    expect(journal.state()).toMatchObject({ ready: true, reason: null });
    const { segments, snapshots } = await rig.files();
    expect(segments).toHaveLength(1);
    expect(snapshots.filter((name) => name.endsWith('complete'))).toEqual([]);
    expect((await rig.replay()).objects).toEqual({ b: 'etag' });
  });

  it('remembers it also of what is let go of while the snapshot is read', async () => {
    const seq = await rig.put('gone');
    await rig.put('kept');
    await rig.remove('gone');
    const { ledger, read } = rig.fixture;
    const purging: Reader = {
      get: (...query) => read.get(...query),
      all: async <T>(...query: Parameters<Reader['all']>) => {
        const rows = await read.all<T>(...query);
        if (/FROM extents|FROM ended_versions/.test(query[0])) {
          await ledger.maintain({ kind: 'purgeEnded', max: 10 });
        }
        return rows;
      },
    };
    const journal = await rig.open({ compactionBytes: 1, read: purging });
    await journal.flushed(seq);
    await until(async () => (await rig.replay()).report.snapshotPages > 0, 'there is a snapshot');
    expect((await rig.listGarbage()).size).toBe(1);
  });

  it('tells of each version by its id, of markers, and of what ended', async () => {
    const journal = await rig.open();
    await rig.put('a', 'before');
    await rig.setVersioning('Enabled');
    const first = await rig.putVersion('a', 'first');
    const second = await rig.putVersion('a', 'second');
    const third = await rig.putVersion('a', 'third');
    await rig.remove('a');
    const marker = rig.versionId;
    await journal.flushed(await rig.remove('a', second));
    const named = async () =>
      (await rig.replay()).versions.map(({ versionId, etag, isMarker }) => {
        return [versionId, isMarker ? 'marker' : etag];
      });
    const older = [
      [null, 'before'],
      [first, 'first'],
      [third, 'third'],
    ];
    expect(await named()).toEqual([...older, [marker, 'marker']]);
    await rig.setVersioning('Suspended');
    await journal.flushed(await rig.put('a', 'suspended'));
    const kept = [...older.slice(1), [marker, 'marker'], [null, 'suspended']];
    expect(await named()).toEqual(kept);
    await journal.flushed(await rig.remove('a', 'null'));
    expect(await named()).toEqual(kept.slice(0, -1));
  });

  it('tells what became of a version last, and of what is set of its bucket', async () => {
    const journal = await rig.open();
    await rig.setVersioning('Enabled');
    const objectLock = JSON.stringify({ default: { mode: 'GOVERNANCE', days: 1 } });
    const set = (name: 'objectLock' | 'cors' | 'ownership', document: string | null) =>
      rig.commit({ kind: 'putBucketSetting', bucketId, name, document });
    await set('objectLock', objectLock);
    await set('cors', '[1]');
    await set('ownership', 'ObjectWriter');
    await rig.commit({ kind: 'putBucketPolicy', bucketId, policy: '{"a":1}' });
    const versionId = await rig.putVersion('a');
    await journal.flushed(await rig.put('a'));
    const retention = { mode: 'COMPLIANCE', untilMs: Date.now() + 86_400_000_000 } as const;
    const amended = { kind: 'amendVersion', bucketId, key: 'a', versionId } as const;
    await rig.commit({ ...amended, amendment: { tags: [['k', 'v']] } });
    const locked = { ...amended, amendment: { retention }, bypassGovernance: true };
    await journal.flushed(await rig.commit(locked));
    const { versions, staged } = await rig.replay();
    expect(JSON.parse(versions[0]?.attributes ?? '')).toMatchObject({
      ...{ metadata: { a: 'b' }, tags: [['k', 'v']] },
      retention,
    });
    expect(staged[0]).toMatchObject({
      ...{ versioning: 'Enabled', objectLock, ownership: 'ObjectWriter', publicAccess: null },
      documents: { cors: '[1]', policy: '{"a":1}' },
    });
    await journal.flushed(await set('cors', null));
    expect((await rig.replay()).staged[0]?.documents).toEqual({ policy: '{"a":1}' });
  });

  it('has every version in a snapshot, whatever changes places while it is read', async () => {
    await rig.setVersioning('Enabled');
    const ids: string[] = [];
    for (let i = 0; i < 120; i++) ids.push(await rig.putVersion('a', `etag ${i}`));
    const seq = await rig.put('b');
    const { read } = rig.fixture;
    let movedSeq = 0;
    const moving: Reader = {
      get: (...query) => read.get(...query),
      all: async <T>(...query: Parameters<Reader['all']>) => {
        const rows = await read.all<T>(...query);
        // The oldest version was not read yet; it becomes the current one.
        if (query[0].includes('noncurrent_versions') && movedSeq === 0) {
          for (const id of ids.slice(1)) movedSeq = await rig.remove('a', id);
        }
        return rows;
      },
    };
    const journal = await rig.open({ compactionBytes: 1, read: moving });
    await journal.flushed(seq);
    await until(async () => movedSeq > 0 && (await hasSnapshot()), 'there is a snapshot');
    await journal.flushed(movedSeq);
    await journal.close();
    const { objects, versions, report } = await rig.replay();
    expect(report.snapshotPages).toBeGreaterThan(0);
    expect(objects).toEqual({ a: 'etag 0', b: 'etag' });
    expect(versions.map(({ versionId }) => versionId)[0]).toBe(ids[0]);
  });

  it('remembers in a snapshot which extents belong to nothing', async () => {
    await rig.put('swept');
    await rig.put('purged');
    await rig.put('kept');
    await rig.remove('swept');
    await rig.fixture.ledger.maintain({ kind: 'purgeEnded', max: 10 });
    const seq = await rig.remove('purged');
    const journal = await rig.open({ compactionBytes: 1 });
    await journal.flushed(seq);
    await until(hasSnapshot, 'there is a snapshot');
    await journal.close();
    expect((await rig.listGarbage()).size).toBe(2);
  });
});
