// System calls that fail once under what makes, signs and keeps the log, keys that are rotated
// meanwhile, and a clock that is set back. Whatever was acknowledged is in the log afterwards, and
// the log never forks.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';
import { LogRig } from './log-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-log-faults-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const wal = 'bursar.db-wal';
const kept = 'log-checkpoint';
const keys = 'log-keys.json';

describeWithTool(compiler, 'a gateway', (compilerPath) => {
  const library = join(root, 'fault-at.so');
  let rig: LogRig;
  let from: number;
  /** Where those of a kind began. */
  let begun: number;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    rig = new LogRig(join(root, 'data'), library);
    await rig.serve();
  });
  afterAll(() => rig.kill());

  /** Puts of before the fault; the first index that is to be checked. */
  async function begin(): Promise<void> {
    from = Math.max(0, ...rig.acknowledged.keys());
    for (let i = 0; i < 5; i++) expect(await rig.put()).toBe(200);
    await rig.readCheckpoint();
  }

  function markBegin(): void {
    begun = Math.max(0, ...rig.acknowledged.keys());
  }

  async function restartAndCheck(env: Record<string, string> = {}): Promise<void> {
    await rig.kill();
    await rig.serve(env);
    await rig.check(from);
    expect(await rig.put()).toBe(200);
  }

  describe('goes on', () => {
    beforeAll(markBegin);

    it.each([
      ['there is no room for a commit once', `write ${wal} 3 ENOSPC`],
      ['the kept checkpoint cannot be written once', `write ${kept} 1 ENOSPC`],
      ['the kept checkpoint cannot be synced once', `sync ${kept} 1 EIO`],
      ['the kept checkpoint cannot have its name once', `rename ${kept} 1 EIO`],
    ])('when %s, with all in its log that it acknowledged', async (_, fault) => {
      await begin();
      rig.arm(fault);
      for (let i = 0; !rig.isStruck && i < 1000; i++) await rig.load(50);
      expect(rig.isStruck).toBe(true);
      expect(await rig.put()).toBe(200);
      await rig.check(from);
    });

    it('and has all of it in its log when it is served again', async () => {
      from = begun;
      await restartAndCheck();
    });
  });

  describe('stops', () => {
    it.each([
      ['a commit cannot be synced', `sync ${wal} 1 EIO`],
      ['a later commit cannot be synced', `sync ${wal} 15 EIO`],
    ])('when %s, and nothing was acknowledged that is not there', async (_, fault) => {
      await begin();
      rig.arm(fault);
      await rig.load(10_000);
      expect(rig.isStruck).toBe(true);
      await expect(rig.put()).rejects.toThrow();
      await restartAndCheck();
    });
  });

  describe('whose key cannot be replaced', () => {
    beforeAll(markBegin);

    it.each([
      ['for want of room', `write ${keys} 1 ENOSPC`, 503],
      ['as the file is not synced', `sync ${keys} 1 EIO`, 500],
      ['as the file has not its name', `rename ${keys} 1 EIO`, 500],
    ])('%s signs with that of before, and can be asked again', async (_, fault, status) => {
      await begin();
      rig.arm(fault);
      expect(await rig.rotateKey(3600)).toBe(status);
      expect(rig.isStruck).toBe(true);
      expect(await rig.put()).toBe(200);
      await rig.check(from);
      expect(await rig.rotateKey(3600)).toBe(201);
      await rig.check(from);
    });

    it('signs with the newest when it is served again', async () => {
      from = begun;
      await restartAndCheck();
    });

    it.each([
      ['before its file has its name', `rename ${keys} 1 kill`],
      ['when its file has its name', `rename ${keys} 1 kill-after`],
      ['before its record is durable', `sync ${wal} 1 kill`],
      ['when its record is durable', `sync ${wal} 1 kill-after`],
    ])('being killed %s signs as the database says after that', async (_, fault) => {
      await begin();
      rig.arm(fault);
      await expect(rig.rotateKey(0)).rejects.toThrow();
      expect(rig.isStruck).toBe(true);
      await restartAndCheck();
    });
  });

  it('whose clock was set back goes on in its log, in which time does not go back', async () => {
    await begin();
    const before = (await rig.readTimes()).at(-1) as string;
    await restartAndCheck({ CLOCK_BACK_S: '600' });
    const times = await rig.readTimes();
    expect(times).toEqual([...times].sort());
    // It is that of the last record, as long as the clock is behind it.
    expect(times.at(-1)).toBe(before);
    await restartAndCheck();
    expect((await rig.readTimes()).at(-1)).not.toBe(before);
  });
});
