// A served gateway whose S3 store loses a part of the journal while it is down, or holds what
// somebody planted: what it says, and what a rebuild makes of it.
import { readFileSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import { readMetrics } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const policy = (sid: string) =>
  Buffer.from(
    JSON.stringify({
      Version: '2012-10-17',
      Statement: {
        ...{ Sid: sid, Effect: 'Allow', Principal: '*', Action: 's3:GetObject' },
        Resource: 'arn:aws:s3:::data/*',
      },
    }),
  );

describeWithTool(versitygw, 'a gateway whose store', (path) => {
  let rig: RebuildRig;
  beforeEach(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve(['--sweep-grace', '0s', '--sweep-interval', '1s']);
    await send('PUT', '/data');
    await send('DELETE', '/data', { query: [['publicAccessBlock', '']] });
  });
  afterEach(() => rig?.stop());

  const send = async (
    method: string,
    to: string,
    options: { body?: Buffer; query?: [string, string][] } = {},
  ) => {
    const { status } = await rig.client.send(method, to, options);
    expect([method, to, status < 300]).toEqual([method, to, true]);
  };
  const put = (key: string) => send('PUT', `/data/${key}`, { body: Buffer.alloc(100_000, key) });
  const names = (prefix: string) => rig.storedObjects(prefix).map(({ name }) => name);
  const segments = () => names('journal/').filter((name) => /\/\d{20}-\d{20}$/.test(name));
  const health = async () => {
    const { body } = await rig.client.send('GET', '/_/v1/health');
    return JSON.parse(body.toString()).stores.s3.journal as boolean;
  };
  const metric = async (name: string) => {
    return totalOf(parseMetrics(await readMetrics(rig.gateway)), name, { store: 's3' });
  };
  const crashAndRebuild = async (args: string[] = []) => {
    await rig.kill();
    rig.loseDatabase();
    return rig.rebuild(args);
  };

  it('lost the end of its journal says so, and a rebuild is whole again', async () => {
    const query: [string, string][] = [['policy', '']];
    await put('kept');
    await send('PUT', '/data', { query, body: policy('public') });
    await put('removed');
    const [, , ...before] = segments();
    const extents = names('extents/').map((name) => ({
      name,
      bytes: readFileSync(rig.pathOf(name)),
    }));
    await send('DELETE', '/data', { query });
    await send('DELETE', '/data/removed');
    // Swept at once: they are put back further below.
    await vi.waitFor(() => expect(names('extents/').length).toBe(extents.length - 1), 20_000);
    await rig.stopGateway();
    for (const name of segments()
      .filter((one) => !before.includes(one))
      .slice(-2)) {
      rmSync(rig.pathOf(name));
    }
    await rig.serve();
    await vi.waitFor(async () => {
      expect(await metric('bursar_journal_lost_objects_total')).toBe(2);
      expect(await metric('bursar_journal_whole')).toBe(1);
      expect(await health()).toBe(true);
    }, 20_000);
    await expect
      .poll(() => rig.gateway.output())
      .toMatch(/journal of store s3: .*not there any more/);
    for (const { name, bytes } of extents) await rig.putObject(name, bytes);
    const { code, stderr, report } = await crashAndRebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ isWhole: true, versions: 1, fromExtents: { count: 0 } });
    await rig.serve();
    expect((await rig.client.send('GET', '/data', { query })).status).toBe(404);
    expect([...(await rig.look('data')).keys()]).toEqual(['kept']);
  });

  it('lost all of its journal but the marker is not taken for an empty one', async () => {
    await put('kept');
    await rig.kill();
    rig.loseDatabase();
    for (const name of segments()) rmSync(rig.pathOf(name));
    const { code, report } = await rig.rebuild();
    expect(code).toBe(1);
    expect(report).toMatchObject({ isWhole: false, condemnedExtents: 0, leftExtents: 1 });
    expect(report?.untoldBuckets).toEqual(['default/data']);
  });

  it('has planted journals is rebuilt from its own, again and again', async () => {
    await put('kept');
    await send('DELETE', '/data/nothing');
    const [segment = ''] = segments();
    const [extent = ''] = names('extents/');
    const planted = [
      'journal/999999999999999-00000000/x',
      'journal/999999999999998-00000000/begin',
      'journal/no-generation',
      `${segment.slice(0, -41)}${'0'.repeat(20)}-${'0'.repeat(19)}1`,
      `extents/00/${'0'.repeat(32)}`,
      // Names of the one that is there, where it would be listed first and last.
      ...['0/', '00/', '0f/', 'ff/'].map((folder) => `extents/${folder}${extent.slice(-32)}`),
    ].filter((name) => name !== extent);
    for (const name of planted) await rig.putObject(name, Buffer.alloc(300, 7));
    for (let again = 0; again < 2; again++) {
      const { code, stderr, report } = await crashAndRebuild();
      expect(code, stderr + JSON.stringify(report)).toBe(0);
      expect(report).toMatchObject({ isWhole: true, versions: 1 });
      expect(report?.journals[0]?.foreign).toContain(planted[1]);
      await rig.serve();
      expect([...(await rig.look('data')).keys()]).toEqual(['kept']);
      await send('DELETE', '/data/nothing');
    }
  });

  it('has an extent of another content type is verified to the end', async () => {
    await put('first');
    await put('second');
    const [extent = ''] = names('extents/');
    await rig.rewriteType(extent, 'application/xml');
    await rig.stopGateway();
    const { code, stdout, stderr } = await rig.run(['verify', 'deep']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/ 2 versions with their records, and read 1\d\d(\.\d)? Ki?B/);
  });
});
