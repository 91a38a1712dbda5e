// Listings of an S3 server that are older than what is in it, or that lack names: what a rebuild
// and a start make of them. A real S3 server, and a proxy that takes names out of its lists.
import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

describeWithTool(versitygw, 'a store whose lists lack names', (path) => {
  let rig: RebuildRig;
  let proxy: FaultProxy;
  /** What the lists lack: those of these names. */
  let lacking = new Set<string>();

  beforeEach(async () => {
    rig = await RebuildRig.start(path);
    proxy = await FaultProxy.start(rig.backend.port);
    rig.proxy = proxy;
    proxy.choose = ({ method, target }) =>
      method === 'GET' && target.includes('list-type=2') && !target.includes('probe')
        ? { kind: 'rewrite', body: withoutLacking }
        : undefined;
    await rig.serve();
    await send('PUT', '/data');
  });
  afterEach(async () => {
    lacking = new Set();
    await rig?.stop();
    await proxy?.stop();
  });

  const withoutLacking = (text: string): string => {
    let taken = 0;
    const kept = text.replaceAll(/<Contents>.*?<\/Contents>/gs, (one) => {
      const name = decodeURIComponent(/<Key>(.*?)<\/Key>/.exec(one)?.[1] ?? '');
      if (!lacking.has(name.replace(/^store\//, ''))) return one;
      taken++;
      return '';
    });
    return kept.replace(/<KeyCount>(\d+)/, (_, count) => `<KeyCount>${Number(count) - taken}`);
  };
  const send = async (method: string, to: string, body?: Buffer): Promise<void> => {
    const { status } = await rig.client.send(method, to, { body });
    expect([method, to, status < 300]).toEqual([method, to, true]);
  };
  const put = (key: string) => send('PUT', `/data/${key}`, Buffer.alloc(100_000, key));
  const names = (prefix: string) => rig.storedObjects(prefix).map(({ name }) => name);
  const segments = () => names('journal/').filter((name) => /\/\d{20}-\d{20}$/.test(name));
  const health = async () => {
    const { body } = await rig.client.send('GET', '/_/v1/health');
    return JSON.parse(body.toString()).stores.s3;
  };

  it('is rebuilt by the names that its journal knows, and what is listed is not all', async () => {
    for (const key of ['a', 'b', 'c', 'd']) {
      await put(key);
      // Each has a segment of its own.
      await send('DELETE', `/data/nothing-${key}`);
    }
    await send('DELETE', '/data/b');
    const before = await rig.look('data');
    await rig.kill();
    rig.loseDatabase();
    const [, ...behindFirst] = segments();
    const unlisted = [...behindFirst.slice(0, -1), ...names('extents/').slice(1)];
    lacking = new Set(unlisted);
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(1);
    expect(report).toMatchObject({ isWhole: false, lost: { count: 0 }, condemnedExtents: 0 });
    expect(report?.journals[0]).toMatchObject({ missing: [], damaged: [] });
    expect(report?.journals[0]?.unlisted.length).toBeGreaterThanOrEqual(behindFirst.length - 1);
    lacking = new Set();
    await rig.serve();
    expect(await rig.look('data')).toEqual(before);
  });

  it('is served: what the database has written is asked for by its name', async () => {
    await put('a');
    await send('DELETE', '/data/nothing');
    await rig.stopGateway();
    lacking = new Set(names(''));
    await rig.serve();
    await put('b');
    await send('DELETE', '/data/a');
    expect(await health()).toMatchObject({ ready: true, journal: true });
    expect(rig.gateway.output()).not.toMatch(/is not there any more|lost the mark/);
    expect([...(await rig.look('data')).keys()]).toEqual(['b']);
    // What is really gone is noticed all the same.
    await rig.stopGateway();
    for (const name of segments().slice(-1)) rmSync(rig.pathOf(name));
    await rig.serve();
    await vi.waitFor(() => expect(rig.gateway.output()).toMatch(/is whole again/), 20_000);
    // So is the snapshot that a marker names, by a rebuild.
    await rig.kill();
    rig.loseDatabase();
    lacking = new Set(names('journal/').filter((name) => name.includes('snapshot')));
    expect(lacking.size).toBeGreaterThan(1);
    const { report } = await rig.rebuild();
    expect(report).toMatchObject({ versions: 1, lost: { count: 0 }, untoldBuckets: [] });
    expect(report?.journals[0]?.missing).toEqual([]);
    expect(report?.journals[0]?.unlisted[0]).toContain('complete');
  });

  it('waits while its lists are reordered or repeated, and loses nothing by that', async () => {
    await put('a');
    for (const key of ['x', 'y', 'z']) await send('DELETE', `/data/${key}`);
    await rig.stopGateway();
    const honest = proxy.choose;
    const both = (text: string) => {
      const all = text.match(/<Contents>.*?<\/Contents>/gs) ?? [];
      return text.replace(all.join(''), () => [...all].reverse().join(''));
    };
    proxy.choose = (request) => {
      const fault = honest(request);
      return fault?.kind === 'rewrite' ? { kind: 'rewrite', body: both } : fault;
    };
    await rig.serve();
    await vi.waitFor(() => expect(rig.gateway.output()).toMatch(/the list has .* behind/), 20_000);
    expect((await rig.client.send('DELETE', '/data/a')).status).toBe(503);
    expect((await rig.client.send('GET', '/data/a')).status).toBeLessThan(504);
    proxy.choose = honest;
    await vi.waitFor(async () => {
      expect(await health()).toMatchObject({ ready: true, journal: true });
    }, 30_000);
    await send('PUT', '/data/b', Buffer.from('b'));
    expect(rig.gateway.output()).not.toMatch(/is not there any more/);
  });
});
