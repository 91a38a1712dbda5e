// A second machine follows what a gateway ships, and takes its place when that is gone
// (docs/admin/standby.md). Two processes on one machine stand for the two, with a real S3 server
// that has the store and the backups.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { bodyOf, expectAll, Load, prepare } from './acknowledged-load.ts';
import { compiler } from './compiler.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { listVersions } from './restore-content.ts';
import type { S3Client } from './s3-client.ts';
import { native, shippingFlags, untilShipped, waitMsMax } from './shipping-rig.ts';
import { Standby } from './standby-machine.ts';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 });

interface Pair {
  /** A gateway that ships. */
  rig: RebuildRig;
  standby: Standby;
  /** Of the standby, once it is served. */
  client?: S3Client;
}

/** For the tests of a block; `environment`: what the standby's processes have more. */
function setUpPair(path: string, environment: Record<string, string> = {}): Pair {
  const pair = {} as Pair;
  beforeAll(async () => {
    pair.rig = await RebuildRig.start(path);
    await pair.rig.serve(shippingFlags(pair.rig));
    pair.standby = new Standby(pair.rig, environment);
  });
  afterAll(async () => {
    pair.client?.close();
    await pair.standby?.remove();
    await pair.rig?.stop();
  });
  return pair;
}

async function serve(pair: Pair): Promise<S3Client> {
  pair.client = await pair.standby.serve();
  return pair.client;
}

describeWithTool(versitygw, 'a standby', (path) => {
  describe('of a gateway whose machine dies', () => {
    const pair = setUpPair(path);

    it('follows, is killed meanwhile, and promoted has all that was acknowledged', async () => {
      const { rig, standby } = pair;
      await prepare(rig.client);
      await native(rig.client, 'POST', '/tenants', { name: 'cms' });
      await untilShipped(rig.client);
      standby.follow();
      await standby.untilFollowed();
      const load = new Load(rig.client);
      for (let kills = 0; kills < 3; kills++) {
        await standby.kill();
        const { count } = load;
        await vi.waitUntil(() => load.count > count + 40, waitMsMax);
        standby.follow();
        await standby.untilFollowed();
      }
      await ask(rig.client, 'PUT', '/plain/frozen', { body: Buffer.from('as it was') });
      const snapshot = '/tenants/default/buckets/plain/snapshots/before';
      await native(rig.client, 'PUT', snapshot, {});
      await ask(rig.client, 'DELETE', '/plain/frozen');
      await native(rig.client, 'POST', '/tenants', { name: 'last' });
      await untilShipped(rig.client);
      await standby.untilFollowed();
      const served = await standby.run(['serve', '--listen', '127.0.0.1:0']);
      expect(served).toMatchObject({ code: 1 });
      await rig.kill();
      await load.end();
      for (const step of [
        'copying the database',
        'comparing versions',
        'writing the new journal',
      ]) {
        await standby.promote(step);
        expect(existsSync(join(standby.dataDir, 'bursar.db'))).toBe(false);
      }
      const promoted = await standby.promote();
      expect(promoted.code, promoted.stderr).toBe(0);
      expect(JSON.parse(promoted.stdout)).toMatchObject({
        stores: { isWhole: true, lost: { count: 0 } },
        placeProblem: null,
      });
      const again = await standby.promote();
      expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('it is promoted')]);
      const client = await serve(pair);
      const tenants = JSON.stringify(await native(client, 'GET', '/tenants'));
      expect(tenants).toContain('cms');
      expect(tenants).toContain('last');
      await expectAll(client, load);
      const mount = { bucketTenant: 'default', bucket: 'plain', at: 'before' };
      await native(client, 'PUT', '/tenants/default/mounts/plain-before', mount);
      expect((await ask(client, 'GET', '/plain-before/frozen')).body.toString()).toBe('as it was');
      expect((await client.send('GET', '/plain/frozen')).status).toBe(404);
      await ask(client, 'PUT', '/plain/after', { body: Buffer.from('after') });
    });

    it('is the owner of the stores: the dead one is refused them when it returns', async () => {
      await expect(pair.rig.serve()).rejects.toThrow('belongs to another data folder');
    });
  });

  describe('of a gateway that stands still', () => {
    const pair = setUpPair(path);

    it('takes its place: it acknowledges nothing more when it goes on', async () => {
      const { rig, standby } = pair;
      await prepare(rig.client);
      await untilShipped(rig.client);
      standby.follow();
      await standby.untilFollowed();
      const load = new Load(rig.client);
      await vi.waitUntil(() => load.count > 60, waitMsMax);
      process.kill(rig.gateway.pid as number, 'SIGSTOP');
      let client: S3Client;
      try {
        const promoted = await standby.promote();
        expect(promoted.code, promoted.stderr).toBe(0);
        client = await serve(pair);
        await ask(client, 'PUT', '/plain/new owner', { body: Buffer.from('new') });
      } finally {
        process.kill(rig.gateway.pid as number, 'SIGCONT');
      }
      // What was under way then goes on, too: whatever of it is acknowledged must be there.
      const late = ['plain', 'kept'].flatMap((bucket) =>
        Array.from({ length: 20 }, (_, i) =>
          rig.client.send('PUT', `/${bucket}/late-${i}`, { body: bodyOf(i) }),
        ),
      );
      const statuses = (await Promise.all(late)).map(({ status }) => status);
      expect(new Set(statuses)).toEqual(new Set([503]));
      await load.end();
      await expectAll(client, load);
      for (const bucket of ['plain', 'kept']) {
        expect((await client.send('GET', `/${bucket}/late-1`)).status).toBe(404);
      }
    });
  });

  describeWithTool(compiler, 'whose clock is ten minutes behind', (cc) => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-slow-clock-'));
    const library = join(folder, 'clock-step.so');
    beforeAll(() => {
      const source = join(import.meta.dirname, 'clock-step.c');
      execFileSync(cc, ['-shared', '-fPIC', '-O1', '-o', library, source]);
      // As much as S3 servers accept, about.
      writeFileSync(join(folder, 'step'), '-600');
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    const pair = setUpPair(path, { LD_PRELOAD: library, CLOCK_STEP: join(folder, 'step') });

    it('has all that was acknowledged, and what is written then is newer', async () => {
      const { rig, standby } = pair;
      await prepare(rig.client);
      await untilShipped(rig.client);
      standby.follow();
      await vi.waitUntil(async () => (await standby.status())?.segment, waitMsMax);
      const load = new Load(rig.client);
      await vi.waitUntil(() => load.count > 60, waitMsMax);
      await rig.kill();
      await load.end();
      const promoted = await standby.promote();
      expect(promoted.code, promoted.stderr).toBe(0);
      const client = await serve(pair);
      await expectAll(client, load);
      for (const key of load.keys) {
        await ask(client, 'PUT', key, { body: Buffer.from('newer') });
        expect((await ask(client, 'GET', key)).body.toString()).toBe('newer');
      }
      const newest = new Map<string, string>();
      for (const { key, text } of (await listVersions(client, 'kept')).reverse()) {
        newest.set(key, text);
      }
      for (const text of newest.values()) expect(text).toContain('<IsLatest>true</IsLatest>');
    });
  });
});
