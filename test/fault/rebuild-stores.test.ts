// A gateway on several S3 stores that loses its database: all of them come back or none, whatever
// one of them has lost, and whatever of one somebody has copied into another.
import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { listFiles } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig, type Seen } from './rebuild-rig.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const places = { hot: 'backend/store/', cold: 'cold/c/' };
type Name = keyof typeof places;
const names = ['hot', 'cold'] as const;

describeWithTool(versitygw, 'a gateway on two stores', (path) => {
  let rig: RebuildRig;
  /** Before the second store. */
  let proxy: FaultProxy;
  let before: Map<string, Seen>[];

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    rig.backend.makeBucket('cold');
    proxy = await FaultProxy.start(rig.backend.port);
    configure('s3://cold/c');
    await rig.serve();
    await send('PUT', '/hot');
    await send('PUT', '/cold', { headers: { 'x-bursar-store': 'cold' } });
    for (const name of names) {
      await send('PUT', `/${name}/object`, { body: Buffer.alloc(100_000, name) });
      // The journal has all when this is answered.
      await send('DELETE', `/${name}/nothing`);
    }
    before = await look();
  });
  afterAll(async () => {
    await rig?.stop();
    await proxy?.stop();
  });

  const configure = (url: string) => {
    const stores = { cold: { url, endpoint: proxy.endpoint, pathStyle: true } };
    rig.environment = { BURSAR_STORES: JSON.stringify(stores) };
  };
  const send = async (method: string, to: string, options: object = {}) => {
    const { status } = await rig.client.send(method, to, options);
    expect([method, to, status < 300]).toEqual([method, to, true]);
  };
  const look = () => Promise.all(names.map((name) => rig.look(name)));
  const crash = async () => {
    await rig.kill();
    rig.loseDatabase();
  };
  const folderOf = (name: Name) => join(rig.backend.dataDir, places[name]);
  const listStored = () =>
    names.map((name) => listFiles(folderOf(name)).filter((file) => !file.includes('/.sgwtmp')));

  /** As somebody does who may read the one store's bucket and write to the other's. */
  async function copyInto(to: Name, from: Name, folder: string): Promise<void> {
    const { endpoint, credentials } = rig.backend;
    const client = new S3Client({ endpoint, ...credentials });
    for (const file of listFiles(join(folderOf(from), folder))) {
      const name = file.slice(folderOf(from).length);
      const { status } = await client.send('PUT', `/${places[to]}${name}`, {
        body: readFileSync(file),
      });
      expect(status).toBe(200);
    }
    client.close();
  }

  async function copyCrosswise(): Promise<void> {
    await copyInto('cold', 'hot', 'extents');
    await copyInto('hot', 'cold', 'extents');
    await copyInto('cold', 'hot', 'journal');
    await copyInto('hot', 'cold', 'journal');
  }

  it('is not rebuilt in part where one is away, another, or has lost its journal', async () => {
    await crash();
    const stored = listStored();
    const expectRefused = async (reason: RegExp) => {
      const { code, stderr, report } = await rig.rebuild();
      expect(stderr).toMatch(reason);
      expect([code, report, listStored()]).toEqual([1, undefined, stored]);
    };
    await proxy.refuse();
    await expectRefused(/store cold cannot be reached/);
    await proxy.accept();
    configure('s3://cold/elsewhere');
    await expectRefused(/no journal .* is in cold: bring it back, or leave the store out/);
    configure('s3://cold/c');
    const journal = join(folderOf('cold'), 'journal');
    const aside = join(rig.dataDir, 'aside');
    renameSync(journal, aside);
    const { code, stderr } = await rig.rebuild();
    expect([code, stderr]).toEqual([1, expect.stringMatching(/no journal .* is in cold: bring/)]);
    renameSync(aside, journal);
  });

  it('comes back whole with what is the other’s planted in each, killed in between', async () => {
    for (const store of ['cold', 's3']) {
      await rig.killRebuild(`writing the new journal of ${store}`);
    }
    await copyCrosswise();
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ isWhole: true, buckets: 2, versions: 2 });
    // The journal of one of the two is newer than the other's own.
    const foreign = report?.journals.flatMap((one) => one.foreign) ?? [];
    expect(foreign.length).toBeGreaterThan(0);
    for (const name of foreign) expect(name).toMatch(/^journal\/.*\/begin$/);
    await rig.serve();
    expect(await look()).toEqual(before);
  });

  it('has a bucket where it was made last, though deleted while that store was away', async () => {
    await send('PUT', '/moved', { headers: { 'x-bursar-store': 'cold' } });
    await send('PUT', '/moved/a', { body: Buffer.alloc(100_000, 'a') });
    await send('DELETE', '/moved/a');
    await proxy.refuse();
    // The journal of a store that is away cannot be told, which is not answered as done.
    await rig.client.send('DELETE', '/moved');
    await rig.client.send('PUT', '/moved');
    await proxy.accept();
    await vi.waitFor(
      async () => expect((await rig.client.send('HEAD', '/cold/object')).status).toBe(200),
      30_000,
    );
    await vi.waitFor(
      async () => {
        await rig.client.send('DELETE', '/moved');
        const { status } = await rig.client.send('PUT', '/moved');
        expect([200, 409]).toContain(status);
        expect((await rig.client.send('PUT', '/moved/b', { body: Buffer.from('b') })).status).toBe(
          200,
        );
      },
      { timeout: 30_000, interval: 500 },
    );
    await send('DELETE', '/hot/nothing');
    // Its journal is written again after a pause.
    await vi.waitFor(() => send('DELETE', '/cold/nothing'), 30_000);
    const seen = await rig.look('moved');
    expect([...seen.keys()]).toEqual(['b']);
    await crash();
    const { code, stderr } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    await rig.serve();
    expect(await rig.look('moved')).toEqual(seen);
    expect(await look()).toEqual(before);
  });

  it('goes on when the journal of one is planted in the other', async () => {
    await rig.stopGateway();
    await copyCrosswise();
    await rig.serve();
    for (const name of names) await send('DELETE', `/${name}/nothing`);
  });
});
