// What a store has lost of a journal, and what somebody without the keys has put into it.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openObject, sealObject } from '#bursar/ledger/journal/format.js';
import { type S3Rig, startS3Rig } from '../../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../../tooling/tools.ts';
import { keyring } from '../fixture.ts';
import { bucketId, JournalRig } from './journal-rig.ts';

describeWithTool(versitygw, 'a journal in a store', (path) => {
  let s3: S3Rig;
  let rig: JournalRig;
  const all = { a: 'etag', b: 'etag', c: 'etag' };

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

  /** Three segments, each with an object; gives their names. */
  const tell = async (): Promise<[string, string, string]> => {
    const journal = await rig.open();
    for (const key of ['a', 'b', 'c']) await journal.flushed(await rig.put(key));
    return (await rig.files()).segments.slice(-3) as [string, string, string];
  };
  const restart = async () => {
    await rig.journal.close();
    return rig.open();
  };
  const refuseSnapshots = () => {
    s3.proxy.choose = ({ method, target }) =>
      method === 'PUT' && target.includes('/snapshot-')
        ? { kind: 'status', status: 403, code: 'AccessDenied' }
        : undefined;
  };

  describe('that has lost', () => {
    it('segments says so at the start, and has a snapshot in their place', async () => {
      const [, second, third] = await tell();
      await rig.journal.close();
      for (const name of [second, third]) await rig.store.removeObject(name);
      const journal = await rig.open();
      await until(() => journal.state().lostObjects > 0 && journal.state().whole);
      expect(journal.state()).toMatchObject({ lostObjects: 2, lost: [], ready: true });
      expect(String(rig.errors)).toContain(nameOf(second));
      expect(String(rig.errors)).toContain(nameOf(third));
      const { objects, report } = await rig.replay();
      expect(objects).toEqual(all);
      expect(report).toMatchObject({ missing: [], damaged: [], snapshotPages: 1 });
      await restart();
      await rig.journal.flushed(await rig.put('d'));
      expect(rig.journal.state()).toMatchObject({ lostObjects: 0, whole: true });
    });

    it('the newest segment is not whole before that, whatever follows', async () => {
      const [, , third] = await tell();
      await rig.store.removeObject(third);
      refuseSnapshots();
      const journal = await restart();
      await journal.flushed(await rig.put('d'));
      await until(() => journal.state().compactionReason !== null);
      expect(journal.state()).toMatchObject({ whole: false, lost: [nameOf(third)], ready: true });
      expect((await rig.replay()).report.missing).toEqual([third]);
    });

    it('what its newest segment said has another in its place', async () => {
      const [, , third] = await tell();
      const bytes = (await rig.store.getObject(third)) as Buffer;
      bytes[60] = (bytes[60] as number) ^ 1;
      await rig.store.putObject(third, bytes);
      const journal = await restart();
      await until(() => journal.state().lostObjects === 1 && journal.state().whole);
      expect((await rig.replay()).objects).toEqual(all);
    });

    it('the end of a policy does not bring it back', async () => {
      const journal = await rig.open();
      const put = (policy: string | null) =>
        rig.commit({ kind: 'putBucketPolicy', bucketId, policy });
      await journal.flushed(await put('{"Statement":[]}'));
      await journal.flushed(await put(null));
      const { segments } = await rig.files();
      await rig.store.removeObject(segments.at(-1) as string);
      const documents = async () => (await rig.replay()).staged[0]?.documents;
      expect(await documents()).toHaveProperty('policy');
      await restart();
      await until(() => rig.journal.state().lostObjects === 1 && rig.journal.state().whole);
      expect(await documents()).toEqual({});
    });

    it('something while it is written says so at the next look', async () => {
      const [first] = await tell();
      await rig.journal.close();
      const journal = await rig.open({ lookMs: 50 });
      await until(() => journal.state().ready);
      await rig.store.removeObject(first);
      await until(() => journal.state().lostObjects === 1 && journal.state().whole);
      expect((await rig.replay()).objects).toEqual(all);
      const { generation } = (await rig.replay()).report;
      for (const bytes of [undefined, Buffer.from('no marker')]) {
        const begin = `journal/${generation}/begin`;
        if (bytes) await rig.store.putObject(begin, bytes);
        else await rig.store.removeObject(begin);
        const { lostObjects } = journal.state();
        await until(() => journal.state().lostObjects > lostObjects && journal.state().whole);
        expect((await rig.replay()).objects).toEqual(all);
      }
    });

    it('its snapshot is not taken for one that has told nothing yet', async () => {
      const journal = await rig.open({ compactionBytes: 1 });
      await journal.flushed(await rig.put('a'));
      await until(async () => (await rig.files()).segments.length === 0);
      await journal.close();
      const { snapshots } = await rig.files();
      const complete = snapshots.find((name) => name.endsWith('-complete')) as string;
      await rig.store.removeObject(complete);
      expect((await rig.replay()).report.missing).toEqual([complete]);
      await rig.open();
      await until(() => rig.journal.state().lostObjects === 1 && rig.journal.state().whole);
      expect((await rig.replay()).objects).toEqual({ a: 'etag' });
    });
  });

  it('that 0.1.0 wrote, which kept no list of it, has a snapshot at once', async () => {
    await tell();
    await rig.journal.close();
    await rig.edit('DELETE FROM journal_objects');
    const journal = await rig.open();
    await until(async () => (await rig.replay()).report.snapshotPages === 1);
    await until(async () => (await rig.files()).segments.length === 0);
    expect(journal.state()).toMatchObject({ lostObjects: 0, whole: true });
    expect(rig.errors).toEqual([]);
    await journal.flushed(await rig.put('d'));
    const { objects, report } = await rig.replay();
    expect([objects, report.missing]).toEqual([{ ...all, d: 'etag' }, []]);
  });

  it('that 0.1.0 has served as an older copy has its own marker again', async () => {
    const [first] = await tell();
    const [, generation = ''] = first.split('/');
    const name = `journal/${generation}/begin`;
    const begin = async () => {
      const bytes = (await rig.store.getObject(name)) as Buffer;
      return openObject(keyring, { generation, name: 'begin' }, bytes).head;
    };
    const head = await begin();
    expect(head).toMatchObject({ kind: 'begin', instance: expect.any(String) });
    const { instance: _, snapshot: _2, ...older } = head as Record<string, unknown>;
    const lines = [JSON.stringify({ ...older, losses: 3 })];
    await rig.store.putObject(name, sealObject(keyring, { generation, name: 'begin' }, lines));
    await restart();
    await until(() => rig.journal.state().ready);
    expect(await begin()).toMatchObject({ ...head, losses: 3, timeMs: expect.any(Number) });
    expect(rig.journal.state()).toMatchObject({ lostObjects: 0, whole: true });
  });

  describe('into which somebody has put', () => {
    const far = '9'.repeat(16).padStart(20, '0').replace(/9/g, '8');
    const reopen = async () => {
      const journal = await restart();
      await until(() => journal.state().ready || journal.state().reason !== null);
      expect(journal.state()).toMatchObject({ ready: true, reason: null, lostObjects: 0 });
      await journal.flushed(await rig.put('d'));
      return { replayed: await rig.replay(), journal };
    };

    it('a segment of a later change goes on, and is restored', async () => {
      const [, , third] = await tell();
      const folder = third.slice(0, -41);
      const copy = (await rig.store.getObject(third)) as Buffer;
      await rig.store.putObject(`${folder}${far}-${far}`, Buffer.alloc(100));
      await rig.store.putObject(`${folder}${'9'.repeat(20)}-${'9'.repeat(20)}`, copy);
      await rig.store.putObject(`${folder}${'0'.repeat(20)}-${third.slice(-20)}`, copy);
      const { replayed } = await reopen();
      expect(replayed.objects).toEqual({ ...all, d: 'etag' });
      expect(replayed.report.missing).toEqual([]);
      // It may be the end of the journal, as far as its name says.
      expect(replayed.report.damaged).toEqual([`${folder}${far}-${far}`]);
    });

    it('a snapshot of a later change goes on, and is restored', async () => {
      const [, , third] = await tell();
      const folder = third.slice(0, -41);
      await rig.store.putObject(`${folder}snapshot-${far}-complete`, Buffer.alloc(100));
      await rig.store.putObject(`${folder}snapshot-${'0'.repeat(20)}-complete`, Buffer.alloc(9));
      const { replayed } = await reopen();
      expect(replayed.objects).toEqual({ ...all, d: 'etag' });
      expect(replayed.report.damaged).toEqual([`${folder}snapshot-${far}-complete`]);
    });

    it('the begin of a later journal goes on with its own', async () => {
      const [first] = await tell();
      const [, generation = ''] = first.split('/');
      const begin = (await rig.store.getObject(`journal/${generation}/begin`)) as Buffer;
      const later = ['999999999999999-00000000', '001999999999999-0123abcd'];
      for (const one of later) await rig.store.putObject(`journal/${one}/begin`, begin);
      await rig.store.putObject('journal/999999999999999-00000001/x', Buffer.from('x'));
      for (let i = 0; i < 30; i++) await rig.store.putObject(`journal/~${i}`, Buffer.alloc(1));
      const { replayed } = await reopen();
      expect(replayed.objects).toEqual({ ...all, d: 'etag' });
      expect(replayed.report).toMatchObject({ generation, damaged: [], missing: [] });
      for (const one of later) {
        expect(replayed.report.foreign).toContain(`journal/${one}/begin`);
      }
      expect(replayed.report.foreign).toHaveLength(32);
    });
  });

  it('tells what was swept lately: nobody can put it back as new', async () => {
    const seq = await rig.put('a');
    await rig.remove('a');
    await rig.fixture.ledger.maintain({ kind: 'purgeEnded', max: 10 });
    const rows = await rig.fixture.read.all<{ id: Buffer }>(
      'SELECT id FROM extents WHERE state = 2',
    );
    const ids = rows.map(({ id }) => id);
    await rig.fixture.ledger.maintain({ kind: 'noteSwept', ids });
    const journal = await rig.open({ compactionBytes: 1 });
    await journal.flushed(seq + 1);
    await until(async () => (await rig.replay()).report.snapshotPages > 0);
    expect((await rig.listGarbage()).size).toBe(1);
  });
});

function nameOf(full: string): string {
  return full.split('/').at(-1) as string;
}

async function until(check: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = Date.now() + 30_000;
  while (!(await check())) {
    if (Date.now() > endMs) throw new Error('it did not come to that');
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}
