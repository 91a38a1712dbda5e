// A migration that is killed at any of its writes, syncs and renames leaves a database that is
// whole, of the schema before or after a step, and goes on from there; in the end it was done and
// recorded once. So does one of which the disk refuses a write.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { checkDatabase, openDatabase } from '#bursar/core/database.js';
import { oldestSchema, schemaVersion, steps } from '#bursar/ledger/migrations/steps.js';
import { packed010 } from '../fixtures/contents-0.1.0.ts';
import { unpackFolder } from '../fixtures/packed-folder.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 60_000 });

const main = resolve('app/main.js');
const root = mkdtempSync(join(tmpdir(), 'bursar-migration-kill-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** With BURSAR_FULL=1 many more than some of each kind. */
const isFull = process.env.BURSAR_FULL === '1';
const moments = isFull
  ? [...range('sync', 30, 1), ...range('write', 75, 4), 'rename 1']
  : ['sync 2', 'sync 5', 'sync 8', 'write 3', 'write 90', 'write 160', 'write 200', 'rename 1'];

function range(call: string, count: number, every: number): string[] {
  return Array.from({ length: count }, (_, i) => `${call} ${1 + i * every}`);
}

describeWithTool(compiler, 'a migration that is killed', (cc) => {
  const library = join(root, 'fault-at.so');
  const faultFile = join(root, 'fault-at');
  beforeAll(() => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(cc, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  });

  /** Runs it; true: it was killed at the moment, or met the other fault and said so. */
  function migrate(data: string, moment: string | null, fault = 'kill'): boolean {
    if (moment !== null) {
      const [call, number] = moment.split(' ');
      writeFileSync(faultFile, `${call} bursar.db ${number} ${fault}`);
    }
    const env = { ...bareEnvironment(), LD_PRELOAD: library, FAULT_AT: faultFile };
    const args = [main, 'database', 'migrate', '--data', data];
    const { signal, status, stderr } = spawnSync(process.execPath, args, { env });
    const isMet = moment !== null && !existsSync(faultFile);
    rmSync(faultFile, { force: true });
    if (fault !== 'kill' && isMet && status !== 0) {
      // Said in a line, as what is no bug.
      expect(`${moment}: ${stderr}`).not.toContain('\n    at ');
      expect(`${moment}: ${stderr}`).toContain('nothing of it is lost');
      return true;
    }
    if (signal === null) expect(`${status}${stderr}`).toMatch(/^0/);
    return signal === 'SIGKILL';
  }

  async function look(path: string): Promise<{ version: number; recorded: number }> {
    const db = openDatabase(path, { readonly: false, cacheKib: 1024 });
    const sql = `SELECT count(*) AS n FROM records
      WHERE json_extract(record, '$.action') = 'bursar:MigrateDatabase'`;
    const found = { version: db.userVersion(), recorded: (await db.tx.get<{ n: number }>(sql))?.n };
    db.close();
    expect(checkDatabase(path)).toEqual([]);
    return found as { version: number; recorded: number };
  }

  it('goes on at the next start, wherever it was', async () => {
    let killed = 0;
    let folder = '';
    for (const moment of moments) {
      if (folder === '') {
        folder = mkdtempSync(join(root, 'folder-'));
        unpackFolder(packed010, folder);
      }
      const data = join(folder, 'data');
      const path = join(data, 'bursar.db');
      const wasKilled = migrate(data, moment);
      killed += Number(wasKilled);
      const { version, recorded } = await look(path);
      expect(version).toBeGreaterThanOrEqual(oldestSchema);
      expect(recorded).toBe(version === schemaVersion ? steps.length : 0);
      // Every copy that has its name is whole.
      for (const name of readdirSync(data)) {
        if (/\.records-\d+$/.test(name)) expect(checkDatabase(join(data, name))).toEqual([]);
      }
      if (version < schemaVersion) continue;
      // Done, or killed after the last step: nothing is done a second time.
      expect(migrate(data, null)).toBe(false);
      expect(await look(path)).toEqual({ version: schemaVersion, recorded: steps.length });
      expect(readdirSync(data).filter((name) => name.includes('unfinished'))).toEqual([]);
      rmSync(folder, { recursive: true });
      folder = '';
    }
    if (folder !== '') {
      const data = join(folder, 'data');
      migrate(data, null);
      expect(await look(join(data, 'bursar.db'))).toMatchObject({ version: schemaVersion });
      expect(existsSync(join(data, 'bursar.db'))).toBe(true);
    }
    expect(killed).toBeGreaterThan(isFull ? 40 : 4);
  });

  it('of which the disk refuses a write, says so and goes on when it is run again', async () => {
    const refused = isFull
      ? [...range('any', 90, 3), ...range('sync', 10, 1)]
      : ['make 1', 'write 2', 'write 60', 'write 150', 'sync 1', 'sync 5', 'rename 1'];
    let failed = 0;
    for (const moment of refused) {
      const folder = mkdtempSync(join(root, 'folder-'));
      unpackFolder(packed010, folder);
      const data = join(folder, 'data');
      failed += Number(migrate(data, moment, 'ENOSPC'));
      const { version, recorded } = await look(join(data, 'bursar.db'));
      expect([moment, recorded]).toEqual([moment, version === schemaVersion ? steps.length : 0]);
      migrate(data, null);
      const done = await look(join(data, 'bursar.db'));
      expect(done).toEqual({ version: schemaVersion, recorded: steps.length });
      expect(readdirSync(data).filter((name) => name.includes('unfinished'))).toEqual([]);
      for (const name of readdirSync(data)) {
        if (/\.records-\d+$/.test(name)) expect(checkDatabase(join(data, name))).toEqual([]);
      }
      rmSync(folder, { recursive: true });
    }
    expect(failed).toBeGreaterThan(2);
  });
});
