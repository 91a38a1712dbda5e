// The newest checkpoint of the audit log beside the journal in a store: by it a database is found
// to be older than what was signed, though the store was told of no change since.
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkpointOf } from '#bursar/audit/log/checkpoint.js';
import { Keyring } from '#bursar/core/keyring.js';
import { type Head, openObject, sealObject } from '#bursar/ledger/journal/format.js';
import type { JournalOptions } from '#bursar/ledger/journal/journal.js';
import type { LogKey } from '#bursar/ledger/log-signing.js';
import { type S3Rig, startS3Rig } from '../../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../../tooling/tools.ts';
import { commitOf, keyring, putOf } from '../fixture.ts';
import { JournalRig } from './journal-rig.ts';

function newKey(name: string): LogKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { name, privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString() };
}

describeWithTool(versitygw, 'the checkpoint in a store', (path) => {
  let s3: S3Rig;
  let rig: JournalRig;
  let key: LogKey;
  let olderCopies: string[];

  beforeAll(async () => {
    s3 = await startS3Rig(path);
  }, 60_000);
  afterAll(() => s3?.stop(), 60_000);
  beforeEach(async () => {
    rig = await JournalRig.start(s3);
    key = newKey('log.test/one');
    olderCopies = [];
    await rig.fixture.ledger.signLog([key]);
  });
  afterEach(async () => {
    s3.proxy.choose = () => undefined;
    await rig.close();
  });

  const newestNote = () => rig.fixture.checkpoints.at(-1) ?? null;
  const open = (options: Partial<JournalOptions> = {}) =>
    rig.open({ newestNote, onOlderCopy: (reason) => olderCopies.push(reason), ...options });
  const openAgain = async () => {
    rig.errors.length = 0;
    const journal = await open();
    await journal.looked;
    return journal;
  };
  const reopen = async () => {
    await rig.journal.close();
    return openAgain();
  };
  /** A change of which the store is told nothing. */
  const putLocally = async (what: string): Promise<void> => {
    const { index } = (await rig.fixture.ledger.commit(putOf(what))) as { index: number };
    await expect.poll(() => checkpointOf(newestNote() as string)?.size).toBe(index + 1);
  };
  const place = async (): Promise<{ generation: string; name: string }> => {
    const { generation } = (await rig.replay()).report;
    return { generation, name: 'checkpoint' };
  };
  const fullName = async () => `journal/${(await place()).generation}/checkpoint`;
  const read = async (): Promise<string | undefined> => {
    const bytes = await rig.store.getObject(await fullName());
    if (!bytes) return undefined;
    const { head } = openObject(keyring, await place(), bytes);
    return (head as Extract<Head, { kind: 'checkpoint' }>).note;
  };
  const sealed = async (note: string, keys = keyring): Promise<Buffer> =>
    sealObject(keys, await place(), [JSON.stringify({ kind: 'checkpoint', note, timeMs: 1 })]);

  it('is written while the log grows, and at the end', async () => {
    await open({ checkpointMs: 20 });
    await putLocally('a');
    await expect.poll(read).toBe(newestNote());
    await putLocally('b');
    await expect.poll(read).toBe(newestNote());
    await rig.journal.close();
    await open();
    await rig.journal.looked;
    await putLocally('c');
    await rig.journal.close();
    expect(await read()).toBe(newestNote());
    const { report } = await rig.replay();
    expect(report).toMatchObject({ damaged: [], missing: [], foreign: [] });
    expect(rig.errors).toEqual([]);
  });

  it('is written once for each, and never to a place that is not ours', async () => {
    let isOurs = true;
    let puts = 0;
    s3.proxy.choose = ({ method, target }) => {
      if (method === 'PUT' && target.endsWith('/checkpoint')) puts++;
      return undefined;
    };
    const confirmOwner = async () => {
      if (!isOurs) throw new Error('not ours');
    };
    const journal = await open({ checkpointMs: 10, confirmOwner });
    await journal.flushed(await rig.put('far'));
    await putLocally('a');
    await expect.poll(read).toBe(newestNote());
    const before = puts;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(puts).toBe(before);
    isOurs = false;
    await putLocally('b');
    await expect.poll(() => String(rig.errors)).toContain('not ours');
    expect([puts, rig.errors.length]).toEqual([before, 1]);
  });

  it('that cannot be written stops nothing, is told of once, and is written later', async () => {
    const journal = await open({ checkpointMs: 20 });
    await journal.looked;
    let refused = 0;
    s3.proxy.choose = ({ method, target }) => {
      if (method !== 'PUT' || !target.endsWith('/checkpoint')) return undefined;
      refused++;
      return { kind: 'status', status: 403, code: 'AccessDenied' };
    };
    await putLocally('a');
    await expect.poll(() => refused, { timeout: 20_000 }).toBeGreaterThan(3);
    await journal.flushed(await rig.put('far'));
    expect(journal.state()).toMatchObject({ ready: true, reason: null });
    expect(rig.errors).toHaveLength(1);
    expect(String(rig.errors)).toContain('the checkpoint of the log was not written');
    s3.proxy.choose = () => undefined;
    await expect.poll(read, { timeout: 20_000 }).toBe(newestNote());
  });

  it('may be older than the log, or not be there: a crash leaves it so', async () => {
    await open();
    await rig.journal.looked;
    await putLocally('a');
    const older = await sealed(newestNote() as string);
    await putLocally('b');
    await reopen();
    await rig.journal.close();
    for (const bytes of [older, undefined]) {
      if (bytes) await rig.store.putObject(await fullName(), bytes);
      else await rig.store.removeObject(await fullName());
      const journal = await reopen();
      expect(journal.state()).toMatchObject({ ready: true, reason: null });
    }
    expect([olderCopies, rig.errors]).toEqual([[], []]);
  });

  describe('of a log that the database is older than', () => {
    beforeEach(async () => {
      const journal = await open();
      await journal.flushed(await rig.put('far'));
      await journal.close();
      await rig.keepCopy();
      await open();
      await rig.journal.looked;
      for (const what of ['a', 'b', 'c']) await putLocally(what);
      await rig.journal.close();
      expect(await read()).toBe(newestNote());
      await rig.goBackToCopy();
    });

    const expectOlder = (told: RegExp): void => {
      expect(olderCopies).toEqual([expect.stringMatching(told)]);
      expect(rig.journal.state().ready).toBe(false);
      expect(() => rig.journal.admit({ mustBeSafe: false })).toThrow();
    };

    it('stops it, and stays', async () => {
      const told = newestNote();
      await openAgain();
      expectOlder(/store remote: its checkpoint is of 8 records, and 5 are here/);
      await rig.fixture.ledger.signLog([key]);
      await putLocally('other');
      await rig.journal.close();
      expect(await read()).toBe(told);
    });

    it('stops it when it has grown beyond that', async () => {
      await rig.fixture.ledger.signLog([key]);
      for (const what of ['d', 'e', 'f', 'g']) await putLocally(what);
      await openAgain();
      expectOlder(/its checkpoint is of 8 records, and the first 8 here are others/);
      await rig.journal.close();
    });

    it('stops it when other records have come to be as many', async () => {
      await rig.fixture.ledger.signLog([key]);
      for (const what of ['d', 'e', 'f']) await putLocally(what);
      await openAgain();
      expectOlder(/the first 8 here are others/);
    });

    it('stops it when the log had another name, or other keys, after the copy', async () => {
      const head = checkpointOf(newestNote() as string);
      const root = head?.root.toString('base64');
      const note = `log.test/later\n8\n${root}\n\n— log.test/later ${root}\n`;
      await rig.store.putObject(await fullName(), await sealed(note));
      await openAgain();
      expectOlder(/its checkpoint is of log log.test\/later, which the database does not know/);
    });

    it('goes on once the log has another name, and writes its own', async () => {
      await rig.fixture.ledger.signLog([key]);
      const other = newKey('log.test/two');
      const renamed = commitOf({ kind: 'rotateLogKey', key: other, retireMs: 0 });
      expect(await rig.fixture.ledger.commit(renamed)).toMatchObject({ ok: true });
      await putLocally('d');
      const journal = await openAgain();
      expect(journal.state()).toMatchObject({ ready: true, reason: null });
      await rig.journal.close();
      expect(await read()).toBe(newestNote());
      expect(newestNote()).toContain('log.test/two');
      expect([olderCopies, rig.errors]).toEqual([[], []]);
    });
  });

  describe('that somebody without the keys has put there', () => {
    const far = 'x'.repeat(43);
    const note = `log.test/one\n999999\n${far}=\n\n— log.test/one ${far}=\n`;
    const planted: [string, () => Promise<Buffer>][] = [
      ['garbage', async () => Buffer.from('no checkpoint')],
      ['nothing', async () => Buffer.alloc(0)],
      ['a note in the clear', async () => Buffer.from(note)],
      [
        'the one of a gateway with other keys',
        () => sealed(note, new Keyring([{ epoch: 1, key: Buffer.alloc(32, 8) }])),
      ],
      [
        'the one of another journal of ours',
        async () => {
          const generation = '001999999999999-0123abcd';
          const lines = [JSON.stringify({ kind: 'checkpoint', note, timeMs: 1 })];
          return sealObject(keyring, { generation, name: 'checkpoint' }, lines);
        },
      ],
      [
        'another object of the journal',
        async () => {
          const { generation } = await place();
          return (await rig.store.getObject(`journal/${generation}/begin`)) as Buffer;
        },
      ],
      [
        'one longer than any',
        async () => Buffer.concat([await sealed(note), Buffer.alloc(70_000)]),
      ],
      ['one that fills memory', async () => Buffer.alloc(65 * 1024 * 1024)],
    ];

    it.each(planted)('stops nothing, is told of and replaced: %s', async (_, make) => {
      await open();
      await putLocally('a');
      await rig.journal.close();
      await rig.store.putObject(await fullName(), await make());
      const journal = await reopen();
      expect(journal.state()).toMatchObject({ ready: true, reason: null, lostObjects: 0 });
      expect(olderCopies).toEqual([]);
      expect(rig.errors).toHaveLength(1);
      expect(String(rig.errors)).toContain('its checkpoint of the log does not open');
      await putLocally('b');
      await rig.journal.close();
      expect(await read()).toBe(newestNote());
    });
  });
});
