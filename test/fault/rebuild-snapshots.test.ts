// Snapshots of a gateway that lost its database: each is there again, and its mount shows what it
// showed before, versions, tags and bytes, of what was overwritten, deleted, changed and renamed
// since, and brought back.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { SnapshotContent } from './snapshot-content.ts';

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
    const { ask, put, tag, rename, native, freeze, note } = content;
    for (const bucket of ['plain', 'versioned']) {
      await ask('PUT', `/${bucket}`);
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
      const headers = { 'x-amz-copy-source': `/${bucket}-one/d` };
      await ask('PUT', at('d'), { headers });
      if (bucket === 'versioned') {
        const { headers: made } = await ask('PUT', at('e'), { body: Buffer.from('new') });
        const id = String(made['x-amz-version-id']);
        await freeze(bucket, 'four');
        await ask('DELETE', at('e'), { query: [['versionId', id]] });
        await note('versioned-four');
      }
      await note(bucket, `${bucket}-one`, `${bucket}-two`, `${bucket}-three`);
    }
    const before = {
      plain: await content.listed('plain'),
      versioned: await content.listed('versioned'),
    };
    await rig.kill();
    await rebuild();
    await content.expectAll();
    expect({
      plain: await content.listed('plain'),
      versioned: await content.listed('versioned'),
    }).toEqual(before);
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
    for (const bucket of ['plain', 'versioned']) {
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
