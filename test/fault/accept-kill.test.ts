// `bursar database accept` that is killed at any of its writes and syncs has accepted all or
// nothing, and what it accepted is in the log once.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { checkDatabase, openDatabase } from '#bursar/core/database.js';
import { packed010 } from '../fixtures/contents-0.1.0.ts';
import { unpackFolder } from '../fixtures/packed-folder.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const main = resolve('app/main.js');
const root = mkdtempSync(join(tmpdir(), 'bursar-accept-kill-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const moments = ['write 1', 'write 2', 'write 5', 'write 9', 'sync 1', 'sync 2', 'sync 3'];

describeWithTool(compiler, 'an acceptance of edited rights that is killed', (cc) => {
  const library = join(root, 'fault-at.so');
  const faultFile = join(root, 'fault-at');
  const edited = join(root, 'edited');

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(cc, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    unpackFolder(packed010, edited);
    expect(run('migrate', edited)).toMatchObject({ status: 0 });
    const db = openDatabase(join(edited, 'data/bursar.db'), { readonly: false, cacheKib: 1024 });
    await db.tx.run("UPDATE principals SET role = 'admin' WHERE role = 'member'");
    db.close();
  });

  function run(command: string, folder: string, moment?: string) {
    if (moment) {
      const [call, number] = moment.split(' ');
      writeFileSync(faultFile, `${call} bursar.db ${number} kill`);
    }
    const env = {
      ...bareEnvironment(),
      ...(moment && { LD_PRELOAD: library, FAULT_AT: faultFile }),
    };
    const args = [main, 'database', ...command.split(' '), '--data', join(folder, 'data')];
    const { signal, status, stdout, stderr } = spawnSync(process.execPath, args, { env });
    const isMet = moment !== undefined && !existsSync(faultFile);
    rmSync(faultFile, { force: true });
    return { signal, status, isMet, said: `${stdout}${stderr}` };
  }

  async function accepted(folder: string): Promise<number> {
    const path = join(folder, 'data/bursar.db');
    expect(checkDatabase(path)).toEqual([]);
    const db = openDatabase(path, { readonly: true, cacheKib: 1024 });
    const sql = `SELECT count(*) AS n FROM records
      WHERE json_extract(record, '$.action') = 'bursar:AcceptRights'`;
    const row = await db.tx.get<{ n: number }>(sql);
    db.close();
    return row?.n ?? -1;
  }

  it('is whole or was not begun, and can be given again', async () => {
    expect(run('check', edited)).toMatchObject({ status: 1 });
    let killed = 0;
    for (const moment of moments) {
      const folder = mkdtempSync(join(root, 'folder-'));
      cpSync(edited, folder, { recursive: true });
      killed += Number(run('accept --yes', folder, moment).signal === 'SIGKILL');
      const { status, said } = run('check', folder);
      expect([moment, said, await accepted(folder)]).toEqual([moment, said, status === 0 ? 1 : 0]);
      expect(run('accept --yes', folder).status).toBe(0);
      expect(run('check', folder).status).toBe(0);
      expect(await accepted(folder)).toBe(1);
      rmSync(folder, { recursive: true });
    }
    expect(killed).toBeGreaterThan(2);
  });
});
