// What a gateway ships while it serves is restored when its folder is lost (docs/admin/backup.md).
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { childrenOf } from '../tooling/child-processes.ts';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { health, native, place, shippingFlags, untilShipped } from './shipping-rig.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

describeWithTool(versitygw, 'a gateway that ships its changes', (path) => {
  let rig: RebuildRig;
  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve(shippingFlags(rig));
  });
  afterAll(() => rig?.stop());

  it('makes the backup that they are put on, and tells its lag', async () => {
    await untilShipped(rig.client);
    expect((await health(rig.client)).shipping).toMatchObject({ isLate: false, problem: null });
  });

  it('is restored with what no store tells, also when shipping was killed meanwhile', async () => {
    await ask(rig.client, 'PUT', '/near', { headers: { 'x-bursar-store': 'local' } });
    await native(rig.client, 'POST', '/tenants', { name: 'early' });
    const [child = 0] = childrenOf(rig.gateway.pid as number, 'ship-supervised');
    process.kill(child, 'SIGKILL');
    for (let i = 0; i < 20; i++) {
      await ask(rig.client, 'PUT', `/near/${i}`, { body: seededBytes(i, 5000) });
    }
    await native(rig.client, 'POST', '/tenants', { name: 'late' });
    await untilShipped(rig.client);
    await rig.kill();
    rig.loseFolder();
    const where = ['--s3-endpoint', rig.backend.endpoint, '--s3-path-style'];
    const { code, stdout, stderr } = await rig.run(['restore', place, '--json', ...where]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).shipped).toMatchObject({ segments: expect.any(Number) });
    await rig.serve(shippingFlags(rig));
    const tenants = JSON.stringify(await native(rig.client, 'GET', '/tenants'));
    expect(tenants).toContain('early');
    expect(tenants).toContain('late');
    for (let i = 0; i < 20; i++) {
      const { body } = await ask(rig.client, 'GET', `/near/${i}`);
      expect(body.equals(seededBytes(i, 5000))).toBe(true);
    }
    await untilShipped(rig.client);
    await rig.stopGateway();
    // A clean stop leaves one file.
    expect(existsSync(join(rig.dataDir, 'bursar.db-wal'))).toBe(false);
    const deep = await rig.runPlain(['verify', 'deep', '--data', rig.dataDir]);
    expect(deep.code, deep.stderr + deep.stdout).toBe(0);
  });
});
