// Snapshots of a gateway whose folder is restored from a backup: those that were made after it are
// there, those that were deleted are not, and each mount shows what it showed, versions, tags and
// bytes; also when the same backup is restored once more, after the log had gone on otherwise.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { SnapshotContent } from './snapshot-content.ts';

describeWithTool(versitygw, 'snapshots of a folder that is restored', (path) => {
  const place = mkdtempSync(join(tmpdir(), 'bursar-restore-snapshots-'));
  const buckets = ['plain', 'versioned'];
  let rig: RebuildRig;
  let content: SnapshotContent;
  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    content = new SnapshotContent(rig);
  }, 60_000);
  afterAll(async () => {
    await rig?.stop();
    rmSync(place, { recursive: true, force: true });
  }, 60_000);

  const restore = async () => {
    await rig.kill();
    rig.loseFolder();
    const restored = await rig.run(['restore', place, '--json']);
    const deep = await rig.run(['verify', 'deep']);
    expect(deep.code, deep.stdout + deep.stderr).toBe(0);
    await rig.serve(['--sweep-interval', '200ms', '--sweep-grace', '0s']);
    return { ...restored, stores: JSON.parse(restored.stdout).stores };
  };
  /** Once what was deleted has let go of what it held. */
  const all = async () => {
    const sql = "SELECT count(*) AS dying FROM snapshots WHERE state = 'dying'";
    await expect.poll(() => rig.query(sql), { timeout: 30_000 }).toEqual({ dying: 0 });
    return Object.fromEntries(await Promise.all(buckets.map(listed)));
  };
  const listed = async (bucket: string) => [bucket, await content.listed(bucket)];

  const inEach = (work: (bucket: string, of: (key: string) => string) => Promise<void>) =>
    Promise.all(buckets.map((bucket) => work(bucket, (key) => `/${bucket}/${key}`)));
  const ids = new Map<string, string>();

  it('show what they showed when the backup was made, and what they show since', async () => {
    const { ask, put, tag, rename, native, freeze, note } = content;
    await inEach(async (bucket, of) => {
      await ask('PUT', `/${bucket}`);
      if (bucket === 'versioned') await content.enableVersions(bucket);
      for (const [i, key] of [...'abcdefghi'].entries()) ids.set(of(key), await put(of(key), i));
      await put(of('large'), 7, 300_000);
      await tag(of('a'), 'first');
      await tag(of('f'), 'first');
      await freeze(bucket, 'one');
      await freeze(bucket, 'gone');
      await freeze(bucket, 'locked', { expiresAt: '2099-01-01T00:00:00Z', lock: 'governance' });
      await tag(of('a'), 'second');
      await put(of('b'), 11);
      await ask('DELETE', of('c'));
    });
    await ask('PUT', '/window');
    await native('PUT', 'buckets/window/undelete', { seconds: 3600 });
    for (const key of ['lost', 'late', 'new']) await put(`/window/${key}`, 70);
    await ask('DELETE', '/window/lost');
    await ask('PUT', '/rewritten');
    await put('/rewritten/x', 60);
    const made = await rig.backUp(place);
    expect(made.code, made.stderr).toBe(0);
    await inEach(async (bucket, of) => {
      // Before the first snapshot that the backup lacks.
      await tag(of('a'), 'third');
      await tag(of('f'), 'third');
      await put(of('b'), 12);
      await ask('DELETE', of('d'));
      await rename('e', of('moved'));
      await put(of('added'), 13);
      await native('DELETE', `buckets/${bucket}/snapshots/gone`);
      await freeze(bucket, 'two');
      await tag(of('a'), 'fourth');
      await tag(of('f'), 'fourth');
      await put(of('b'), 14);
      await put(of('d'), 15);
      await rename('moved', of('e'));
      await put(of('large'), 16, 200_000);
      await ask('DELETE', of('added'));
      await put(of('brief'), 17);
      await freeze(bucket, 'three', { prefix: 'b' });
      await freeze(bucket, 'brief');
      await ask('DELETE', of('brief'));
      if (bucket === 'versioned') {
        const query: [string, string][] = [['versionId', String(ids.get(of('g')))]];
        await ask('DELETE', of('g'), { query });
      }
      await native('DELETE', `buckets/${bucket}/snapshots/brief`);
      await ask('DELETE', of('h'));
      await note(bucket, ...['one', 'locked', 'two', 'three'].map((name) => `${bucket}-${name}`));
    });
    const query: [string, string][] = [['bypassGovernance', 'true']];
    await ask('DELETE', '/_/v1/tenants/default/buckets/plain/snapshots/locked', { query });
    content.shown.delete('plain-locked');
    await ask('PUT', '/later');
    await put('/later/x', 30);
    await freeze('later', 'first');
    await put('/later/x', 31);
    await ask('DELETE', '/window/late');
    await ask('DELETE', '/rewritten/x');
    await freeze('rewritten', 'empty');
    await note('later', 'later-first', 'window', 'rewritten-empty');
    const before = await all();
    // The journal has no time to tell of it: its extents alone do.
    await put('/rewritten/x', 61);
    const { code, stderr, stores } = await restore();
    expect(code, stderr).toBe(0);
    // Without versions b, d, e, large and h; of the others g, window/late and rewritten/x.
    expect(stores).toMatchObject({ isWhole: true, snapshots: 6, deletedSnapshots: 3, ended: 8 });
    await content.expectAll();
    expect(await all()).toEqual(before);
    expect((await rig.client.send('GET', '/plain-locked')).status).toBe(404);
  }, 120_000);

  it('have an undelete window beside them, with what the backup has', async () => {
    for (const key of ['lost', 'late']) {
      const query: [string, string][] = [['key', key]];
      const target = '/_/v1/tenants/default/buckets/window/undelete';
      const found = JSON.parse((await content.ask('GET', target, { query })).body.toString());
      const headers = {
        'x-amz-copy-source': `/window/${key}`,
        'x-bursar-copy-source-as-of': String(found.objects[0].index),
      };
      await content.ask('PUT', `/window/${key}`, { headers });
      const { body } = await content.ask('GET', `/window/${key}`);
      expect(body.equals(seededBytes(70, 1070)), key).toBe(true);
    }
    await content.note('window');
  });

  it('do so when the backup is restored once more', async () => {
    await inEach(async (bucket, of) => {
      await content.tag(of('a'), 'fifth');
      await content.put(of('b'), 40);
      await content.freeze(bucket, 'four');
      await content.native('DELETE', `buckets/${bucket}/snapshots/three`);
      content.shown.delete(`${bucket}-three`);
      await content.put(of('b'), 41);
      await content.ask('DELETE', of('a'));
      await content.note(bucket, `${bucket}-four`);
    });
    const before = await all();
    const { code, stderr } = await restore();
    expect(code, stderr).toBe(0);
    await content.expectAll();
    expect(await all()).toEqual(before);
  }, 120_000);
});
