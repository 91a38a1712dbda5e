// Snapshots of a gateway that lost its database: each is there again, and its mount shows what it
// showed before, versions, tags and bytes, of what was overwritten, deleted, changed and renamed
// since, and brought back.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { SnapshotContent } from './snapshot-content.ts';

/** Of the last one, objects are in a class of the tenant's own. */
const buckets = ['plain', 'versioned', 'classed'];

describeWithTool(versitygw, 'snapshots of a gateway that lost its database', (path) => {
  let rig: RebuildRig;
  let content: SnapshotContent;
  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    content = new SnapshotContent(rig);
  }, 60_000);
  afterAll(() => rig?.stop(), 60_000);

  /** The gateway is dead, and so is its database. */
  const rebuild = async (): Promise<void> => {
    rig.loseDatabase();
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ isWhole: true, lost: { count: 0 } });
    const deep = await rig.run(['verify', 'deep']);
    expect(deep.code, deep.stdout + deep.stderr).toBe(0);
    await rig.serve();
  };

  it('show what they showed', async () => {
    const { ask, tag, rename, native, freeze, note } = content;
    const legs = [{ store: 's3' }];
    await native('POST', 'classes', { name: 'own', durability: { legs } });
    for (const bucket of buckets) {
      await ask('PUT', `/${bucket}`);
      const headers: Record<string, string> =
        bucket === 'classed' ? { 'x-amz-storage-class': 'own' } : {};
      const put = (target: string, seed: number, sizeBytes?: number) =>
        content.put(target, seed, sizeBytes, { headers });
      if (bucket === 'versioned') await content.enableVersions(bucket);
      const at = (key: string) => `/${bucket}/${key}`;
      for (const [i, key] of ['a', 'b', 'c', 'd', 'e', 'kept'].entries()) await put(at(key), i);
      await put(at('large'), 7, 300_000);
      await tag(at('a'), 'first');
      await put(at('b'), 10);
      await freeze(bucket, 'one');
      await tag(at('a'), 'second');
      await tag(at('a'), 'third');
      await put(at('b'), 11);
      await ask('DELETE', at('c'));
      await rename('d', at('moved'));
      await put(at('large'), 12, 200_000);
      await freeze(bucket, 'two', { prefix: 'mo' });
      await freeze(bucket, 'gone');
      await freeze(bucket, 'three', { expiresAt: '2099-01-01T00:00:00Z', lock: 'governance' });
      await ask('DELETE', at('moved'));
      await put(at('b'), 13);
      await put(at('c'), 14);
      await native('DELETE', `buckets/${bucket}/snapshots/gone`);
      const copied = { ...headers, 'x-amz-copy-source': `/${bucket}-one/d` };
      await ask('PUT', at('d'), { headers: copied });
      if (bucket === 'versioned') {
        const id = await put(at('e'), 15);
        await freeze(bucket, 'four');
        await ask('DELETE', at('e'), { query: [['versionId', id]] });
        await note('versioned-four');
      }
      await note(bucket, `${bucket}-one`, `${bucket}-two`, `${bucket}-three`);
    }
    const listed = async () => {
      const all = await Promise.all(buckets.map(content.listed));
      return Object.fromEntries(all.map((one, i) => [buckets[i], one]));
    };
    const before = await listed();
    await rig.kill();
    await rebuild();
    await content.expectAll();
    expect(await listed()).toEqual(before);
    expect((await rig.client.send('GET', '/plain-gone')).status).toBe(404);
  }, 120_000);

  it('do so after another rebuild, of a journal that tells all of it at once', async () => {
    // A plain write need not be in the journal: its extents tell of it.
    await content.put('/plain/kept', 20);
    await content.note('plain');
    await rig.kill();
    await rebuild();
    await content.expectAll();
  }, 120_000);

  it('let go of what they hold', async () => {
    for (const bucket of buckets) {
      for (const { name } of (await content.listed(bucket)).snapshots) {
        const query: [string, string][] = [['bypassGovernance', 'true']];
        await content.ask('DELETE', `/_/v1/tenants/default/buckets/${bucket}/snapshots/${name}`, {
          query,
        });
      }
      const held = async () => (await content.listed(bucket)).heldBytes;
      await expect.poll(held, { timeout: 30_000 }).toBe(0);
      await content.note(bucket);
    }
    for (const name of content.shown.keys()) if (name.includes('-')) content.shown.delete(name);
    await rig.kill();
    await rebuild();
    await content.expectAll();
    expect((await content.listed('plain')).snapshots).toEqual([]);
  }, 120_000);
});
