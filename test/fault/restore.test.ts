// A lost data folder is restored from a backup that is older than what its S3 store was given
// (docs/admin/backup.md): nothing that was acknowledged there is missing, and the store is writable
// again.
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { buckets, changeAfter, fillBefore, lookAt, mounts, put } from './restore-content.ts';

interface Report {
  backup: { id: string };
  log: { before: string; now: string };
  stores: Record<string, unknown> & { isWhole: boolean; lost: { count: number } };
  unknown: string[];
}

describeWithTool(versitygw, 'a data folder that was lost after its backup', (path) => {
  let rig: RebuildRig;
  const folder = mkdtempSync(join(tmpdir(), 'bursar-backups-'));
  const place = join(folder, 'place');
  let seen: Record<string, unknown>;
  let receipt: string;
  let report: Report;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await fillBefore(rig.client);
    const { headers } = await put(rig.client, '/near/with a receipt', 5);
    const index = String(headers['x-bursar-receipt']);
    const proof = await ask(rig.client, 'GET', `/_/v1/receipts/${index}`);
    receipt = join(folder, 'receipt.json');
    writeFileSync(receipt, proof.body);
    const key = await ask(rig.client, 'GET', '/_/log/key');
    writeFileSync(join(folder, 'log.key'), key.body);
    const made = await rig.backUp(place);
    expect(made.code, made.stderr).toBe(0);
    await changeAfter(rig.client);
    seen = {};
    for (const bucket of [...buckets, ...mounts]) seen[bucket] = await lookAt(rig.client, bucket);
    await rig.kill();
    rig.loseFolder();
  }, 300_000);
  afterAll(async () => {
    await rig?.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  it('refuses to be restored without the stores that buckets are in', async () => {
    const { code, stderr } = await rig.runPlain(['restore', place, '--data', rig.dataDir]);
    expect(code).toBe(1);
    expect(stderr).toContain('buckets are in store s3, which is not configured');
    const served = await rig.runPlain(['serve', '--data', rig.dataDir]);
    expect(served.stderr).toContain('a restore to');
  });

  it('is restored with all that its S3 store was given since, also after a kill', async () => {
    for (const step of [
      'putting the database back',
      'comparing versions',
      'writing the new journal',
    ]) {
      await rig.killAt(['restore', place], step);
      expect(readdirSync(rig.dataDir)).not.toContain('bursar.db');
    }
    const { code, stdout, stderr } = await rig.run(['restore', place, '--json']);
    expect(code, stderr).toBe(0);
    report = JSON.parse(stdout) as Report;
    expect(report.stores).toMatchObject({ isWhole: true, lost: { count: 0 } });
    expect(report.log.now).toMatch(/\/restored-\d{8}T\d{6}Z$/);
    expect(readdirSync(rig.dataDir)).not.toContain('restore-unfinished');
  }, 120_000);

  it('shows every version, tag, lock and setting as it was', async () => {
    await rig.serve(['--sweep-interval', '200ms', '--sweep-grace', '0s']);
    for (const bucket of [...buckets, ...mounts]) {
      expect(await lookAt(rig.client, bucket), bucket).toEqual(seen[bucket]);
    }
    const gone = await rig.client.send('GET', '/gone');
    expect(gone.status).toBe(404);
    // It was given to another after the backup.
    expect(JSON.stringify(seen.plain)).toContain('<ID>default/heir</ID>');
  }, 60_000);

  it('ends with the store ready and writable, and its log signed under another name', async () => {
    const health = JSON.parse((await rig.client.send('GET', '/_/v1/health')).body.toString());
    expect(health.stores).toMatchObject({ local: { ready: true }, s3: { ready: true } });
    expect(health.log).toMatchObject({ ready: true });
    for (const bucket of buckets) await put(rig.client, `/${bucket}/written again`, 12);
    await ask(rig.client, 'DELETE', '/plain/written again');
    const { headers } = await put(rig.client, '/plain/again', 3);
    const index = String(headers['x-bursar-receipt']);
    await ask(rig.client, 'GET', `/_/v1/receipts/${index}`);
  });

  it('has receipts that still verify, and records that tell the same as the catalog', async () => {
    const flags = ['verify', 'receipt', receipt, '--key', join(folder, 'log.key')];
    const verified = await rig.runPlain(flags);
    expect(verified.code, verified.stderr + verified.stdout).toBe(0);
    await rig.stopGateway();
    const deep = await rig.runPlain(['verify', 'deep', '--data', rig.dataDir]);
    expect(deep.code, deep.stderr + deep.stdout).toBe(0);
  }, 60_000);

  it('can be joined with its store also when an older database was put back by hand', async () => {
    // The whole folder, as `cp` makes a backup of it; then one more write.
    const kept = join(folder, 'copied');
    cpSync(rig.dataDir, kept, { recursive: true });
    await rig.serve();
    await put(rig.client, '/plain/one more write', 99);
    await ask(rig.client, 'DELETE', '/plain/2');
    await rig.kill();
    rmSync(rig.dataDir, { recursive: true });
    cpSync(kept, rig.dataDir, { recursive: true });
    const { code, stderr } = await rig.run(['restore', '--here']);
    expect(code, stderr).toBe(0);
    await rig.serve();
    expect((await rig.client.send('GET', '/plain/one more write')).status).toBe(200);
    expect((await rig.client.send('GET', '/plain/2')).status).toBe(404);
    await put(rig.client, '/plain/and another', 100);
  }, 60_000);
});
