// Kills a gateway at one system call after the other of what makes a record durable, signs it and
// publishes that. Whatever it acknowledged is in the log afterwards, and the log never forks.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';
import { LogRig } from './log-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-log-kill-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const wal = 'bursar.db-wal';
const kept = 'log-checkpoint';

describeWithTool(compiler, 'a gateway that is killed', (compilerPath) => {
  const library = join(root, 'fault-at.so');
  let rig: LogRig;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    rig = new LogRig(join(root, 'data'), library);
    await rig.serve();
  });
  afterAll(() => rig.kill());

  // One data folder through all of them: what was acknowledged before stays so.
  it.each([
    ['before it appends to the database', `write ${wal} 1 kill`],
    ['in the middle of a commit', `write ${wal} 40 kill`],
    ['before a commit is durable', `sync ${wal} 1 kill`],
    ['with a commit that is durable, and neither signed nor answered', `sync ${wal} 1 kill-after`],
    ['with a later commit of that kind', `sync ${wal} 25 kill-after`],
    ['with a checkpoint that is signed and not published', 'write socket: 1 kill'],
    ['between the answers of a batch', 'write socket: 30 kill-after'],
    ['before the kept checkpoint is written', `write ${kept} 1 kill`],
    ['before the kept checkpoint is durable', `sync ${kept} 1 kill`],
    ['before the kept checkpoint has its name', `rename ${kept} 1 kill`],
    ['when the kept checkpoint has its name', `rename ${kept} 1 kill-after`],
  ])('%s has everything in its log that it acknowledged, and has not forked', async (_, fault) => {
    const from = Math.max(0, ...rig.acknowledged.keys());
    await rig.load(100);
    expect(await rig.put()).toBe(200);
    rig.arm(fault);
    await rig.load(10_000);
    expect(rig.isStruck).toBe(true);
    await rig.kill();
    await rig.serve();
    await rig.check(from);
    expect(await rig.put()).toBe(200);
  });

  it('has filled tiles meanwhile', async () => {
    expect(Math.max(...rig.acknowledged.keys())).toBeGreaterThan(256);
    await rig.check();
  });
});
