// Kills a gateway at one system call after the other of an erasure. Afterwards all of its records
// are erased and an act tells of it, or none is; the log is what it was; and what was erased is in
// no file.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';
import { LogRig } from './log-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-erasure-kill-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const wal = 'bursar.db-wal';
const erasures = '/_/v1/tenants/default/erasures';

describeWithTool(compiler, 'a gateway that is killed in an erasure', (compilerPath) => {
  const library = join(root, 'fault-at.so');
  let rig: LogRig;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    rig = new LogRig(join(root, 'data'), library);
    await rig.serve();
  });
  afterAll(() => rig.kill());

  /** Of records with keys that begin so. */
  async function indexesOf(prefix: string): Promise<number[]> {
    const query: [string, string][] = [
      ['prefix', prefix],
      ['limit', '1000'],
    ];
    const { body } = await rig.client.send('GET', '/_/v1/records', { query });
    return JSON.parse(body.toString()).records.map(({ index }: { index: number }) => index);
  }

  /** Those that say that they erased one of these. */
  async function actsOn(indexes: readonly number[]): Promise<number> {
    const query: [string, string][] = [
      ['action', 'bursar:EraseRecords'],
      ['status', '200'],
    ];
    const { body } = await rig.client.send('GET', '/_/v1/records', { query });
    const acts: { change: { erased: number[] } }[] = JSON.parse(body.toString()).records;
    return acts.filter(({ change }) => change.erased.some((one) => indexes.includes(one))).length;
  }

  async function erase(indexes: readonly number[]): Promise<number> {
    const headers = { 'content-type': 'application/json' };
    const body = Buffer.from(JSON.stringify({ indexes, reason: 'a test' }));
    return (await rig.client.send('POST', erasures, { headers, body })).status;
  }

  function filesWith(text: string): string[] {
    const files = readdirSync(rig.dataDir).filter((name) => name.includes('.db'));
    return files.filter((name) => readFileSync(join(rig.dataDir, name)).includes(text));
  }

  let round = 0;
  it.each([
    ['before it writes', `write ${wal} 1 kill`],
    ['before it is durable', `sync ${wal} 1 kill`],
    ['when it is durable, and not answered', `sync ${wal} 1 kill-after`],
    ['while pages of before are forgotten', 'sync bursar.db 1 kill'],
    ['when the answer is about to be sent', 'write socket: 1 kill'],
  ])('%s has erased all of it or nothing', async (_, fault) => {
    round += 1;
    const prefix = `private-${round}-`;
    for (let i = 0; i < 10; i++) {
      await rig.client.send('PUT', `/log/${prefix}${i}`, { body: Buffer.from('x') });
      // The catalog has the names of what is there.
      await rig.client.send('DELETE', `/log/${prefix}${i}`);
    }
    const indexes = await indexesOf(prefix);
    expect(indexes).toHaveLength(20);
    // Adds up what they charged, so that the erasure is the next that is written.
    await rig.client.send('GET', '/_/v1/usage/tenant:default/by/day');
    rig.arm(fault);
    const status = await erase(indexes).catch(() => null);
    await rig.kill();
    await rig.serve();
    const left = await indexesOf(prefix);
    expect([0, indexes.length]).toContain(left.length);
    expect(await actsOn(indexes)).toBe(left.length === 0 ? 1 : 0);
    if (status === 200) expect(left).toEqual([]);
    if (left.length === 0)
      await vi.waitFor(() => expect(filesWith(`"key":"${prefix}`)).toEqual([]), 20_000);
    await rig.check(Number.POSITIVE_INFINITY);
    expect(await erase(left.length > 0 ? left : [])).toBe(left.length > 0 ? 200 : 400);
    expect(await indexesOf(prefix)).toEqual([]);
    await vi.waitFor(() => expect(filesWith(`"key":"${prefix}`)).toEqual([]), { timeout: 20_000 });
  });
});
