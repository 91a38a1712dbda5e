// Backups in a bucket of a real S3 server: made, listed, verified, pruned and restored.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { put } from './restore-content.ts';

describeWithTool(versitygw, 'backups in an S3 bucket', (path) => {
  let rig: RebuildRig;
  const place = 's3://backend/backups';
  const flags = () => ['--s3-endpoint', rig.backend.endpoint, '--s3-path-style'];
  const backup = (...words: string[]) =>
    rig.runPlain(['backup', ...words, '--data', rig.dataDir, '--json', ...flags()]);

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await ask(rig.client, 'PUT', '/far');
    await ask(rig.client, 'PUT', '/near', { headers: { 'x-bursar-store': 'local' } });
    for (const name of ['far', 'near']) await put(rig.client, `/${name}/before`, 1);
  }, 60_000);
  afterAll(() => rig?.stop(), 60_000);

  it('are made, verified, pruned and restored', async () => {
    const store = await backup('create', 's3://backend/store');
    expect(store).toMatchObject({ code: 1, stderr: expect.stringContaining('is a store') });
    for (let i = 0; i < 2; i++) {
      const made = await backup('create', place);
      expect(made.code, made.stderr).toBe(0);
    }
    const verified = await backup('verify', place, '--all');
    expect(verified.code, verified.stderr).toBe(0);
    const pruned = await backup('prune', place, '--keep', '1');
    expect(pruned.code, pruned.stderr).toBe(0);
    expect(JSON.parse((await backup('list', place)).stdout)).toHaveLength(1);
    await put(rig.client, '/far/after', 2);
    await rig.kill();
    rig.loseFolder();
    const restored = await rig.run(['restore', place, ...flags()]);
    expect(restored.code, restored.stderr).toBe(0);
    await rig.serve();
    for (const name of ['far/before', 'far/after', 'near/before']) {
      expect((await rig.client.send('GET', `/${name}`)).status, name).toBe(200);
    }
  }, 120_000);
});
