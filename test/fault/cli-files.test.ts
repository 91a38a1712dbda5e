// The files that commands write are there whole and durable, or not at all, whatever the disk does.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { Workplace } from '../cli/command.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describeWithTool(compiler, 'a command', (compilerPath) => {
  const place = new Workplace();
  const library = join(place.folder, 'fault-at.so');
  const faultFile = join(place.folder, 'fault-at');
  const written = join(place.folder, 'written');

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    await place.serve();
  });
  beforeEach(() => {
    rmSync(written, { recursive: true, force: true });
    mkdirSync(written);
  });
  afterAll(() => place.remove());

  async function runWith(fault: string, args: readonly string[]) {
    writeFileSync(faultFile, fault);
    const outcome = await place.run(args, { LD_PRELOAD: library, FAULT_AT: faultFile });
    expect(existsSync(faultFile), `${fault} was not met`).toBe(false);
    return outcome;
  }

  const newKey = ['key', 'new', '--out', join(written, 'key')];

  it.each([
    'write written/key 1 ENOSPC',
    'sync written/key 1 EIO',
    'link written/key 1 ENOSPC',
    // Of the second file, with the public key.
    'write written/key.pub 1 ENOSPC',
    'sync written/key.pub 1 EIO',
  ])('that makes a key leaves nothing where it cannot: %s', async (fault) => {
    const { code, stderr } = await runWith(fault, newKey);
    expect([code, stderr]).toEqual([1, expect.stringContaining('cannot write ')]);
    expect(readdirSync(written)).toEqual([]);
    expect((await place.run(newKey)).code).toBe(0);
    expect(readdirSync(written).sort()).toEqual(['key', 'key.pub']);
  });

  const bundle = join(written, 'bundle');
  const exportAll = ['audit', 'export', 'default', '--out', bundle];

  it.each([
    'write written/bundle 1 ENOSPC',
    'sync written/bundle 1 EIO',
    'rename written/bundle 1 EIO',
  ])('that exports records leaves what was there where it cannot: %s', async (fault) => {
    writeFileSync(bundle, 'from before');
    expect((await runWith(fault, exportAll)).code).toBe(1);
    expect(readdirSync(written)).toEqual(['bundle']);
    expect(readFileSync(bundle, 'utf8')).toBe('from before');
  });

  it.each([
    ['key', newKey],
    ['bundle', exportAll],
  ])('fails where the name of its %s is not durable', async (_title, args) => {
    // The file itself is synced before its folder is.
    const { code, stderr } = await runWith(`sync ${written} 2 EIO`, args);
    expect([code, stderr]).toEqual([1, expect.stringContaining('EIO')]);
  });
});
