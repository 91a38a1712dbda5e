// Snapshots of a gateway that lost its database: each is there again, and its mount shows what it
// showed before, versions, tags and bytes, of what was overwritten, deleted, changed and renamed
// since, and brought back.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';
import type { Answer, Sending } from './s3-client.ts';

describeWithTool(versitygw, 'snapshots of a gateway that lost its database', (path) => {
  let rig: RebuildRig;
  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
  }, 60_000);
  afterAll(() => rig?.stop(), 60_000);

  const ask = async (method: string, target: string, sending: Sending = {}): Promise<Answer> => {
    const answer = await rig.client.send(method, target, sending);
    if (answer.status < 300) return answer;
    throw new Error(`${method} ${target}: ${answer.status} ${answer.body.toString()}`);
  };
  const put = async (target: string, seed: number, sizeBytes = 1000 + seed) =>
    String((await ask('PUT', target, { body: seededBytes(seed, sizeBytes) })).headers.etag);
  const digested = (text: string) => {
    const body = Buffer.from(text);
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
    return { headers, body };
  };
  const tag = (target: string, value: string) => {
    const set = `<TagSet><Tag><Key>t</Key><Value>${value}</Value></Tag></TagSet>`;
    const text = `<Tagging>${set}</Tagging>`;
    return ask('PUT', target, { query: [['tagging', '']], ...digested(text) });
  };
  const rename = (from: string, to: string) =>
    ask('PUT', to, { query: [['renameObject', '']], headers: { 'x-amz-rename-source': from } });
  const native = async (method: string, target: string, content?: object) => {
    const { body } = await ask(method, `/_/v1/tenants/default/${target}`, {
      ...(content && {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(content)),
      }),
    });
    return body.length === 0 ? null : JSON.parse(body.toString());
  };
  const freeze = async (bucket: string, name: string, more: object = {}) => {
    await native('PUT', `buckets/${bucket}/snapshots/${name}`, more);
    await native('PUT', `mounts/${bucket}-${name}`, { bucketTenant: 'default', bucket, at: name });
  };
  const enable = (bucket: string) => {
    const text = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    return ask('PUT', `/${bucket}`, { query: [['versioning', '']], ...digested(text) });
  };

  /** All versions that a bucket or a mount shows, and what they are. */
  const look = async (bucket: string): Promise<string[]> => {
    const { body } = await ask('GET', `/${bucket}`, { query: [['versions', '']] });
    const found = body.toString().matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/gs);
    return Promise.all(
      [...found].map(async ([, kind, shown = '']) => {
        if (kind !== 'Version') return shown;
        const [, key] = /<Key>(.*?)<\/Key>/.exec(shown) ?? [];
        const [, id = ''] = /<VersionId>(.*?)<\/VersionId>/.exec(shown) ?? [];
        const query: [string, string][] = [['versionId', id]];
        const got = await ask('GET', `/${bucket}/${key}`, { query });
        const tags = await ask('GET', `/${bucket}/${key}`, { query: [...query, ['tagging', '']] });
        const digest = createHash('sha256').update(got.body).digest('hex');
        return `${shown} ${digest} ${tags.body}`;
      }),
    );
  };
  const shown = new Map<string, string[]>();
  const note = async (...buckets: string[]) => {
    for (const bucket of buckets) shown.set(bucket, await look(bucket));
  };
  const expectAll = async () => {
    for (const [bucket, before] of shown)
      expect([bucket, await look(bucket)]).toEqual([bucket, before]);
  };
  const listed = async (bucket: string) => {
    const { snapshots, heldBytes } = await native('GET', `buckets/${bucket}/snapshots`);
    // A rebuild numbers anew.
    return { snapshots: snapshots.map((one: object) => ({ ...one, index: 0 })), heldBytes };
  };

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
    for (const bucket of ['plain', 'versioned']) {
      await ask('PUT', `/${bucket}`);
      if (bucket === 'versioned') await enable(bucket);
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
    const before = { plain: await listed('plain'), versioned: await listed('versioned') };
    await rig.kill();
    await rebuild();
    await expectAll();
    expect({ plain: await listed('plain'), versioned: await listed('versioned') }).toEqual(before);
    expect((await rig.client.send('GET', '/plain-gone')).status).toBe(404);
  }, 120_000);

  it('do so after another rebuild, of a journal that tells all of it at once', async () => {
    // A plain write need not be in the journal: its extents tell of it.
    await put('/plain/kept', 20);
    await note('plain');
    await rig.kill();
    await rebuild();
    await expectAll();
  }, 120_000);

  it('let go of what they hold', async () => {
    for (const bucket of ['plain', 'versioned']) {
      for (const { name } of (await listed(bucket)).snapshots) {
        const query: [string, string][] = [['bypassGovernance', 'true']];
        await ask('DELETE', `/_/v1/tenants/default/buckets/${bucket}/snapshots/${name}`, { query });
      }
      const held = async () => (await listed(bucket)).heldBytes;
      await expect.poll(held, { timeout: 30_000 }).toBe(0);
      shown.delete(bucket);
      await note(bucket);
    }
    for (const name of shown.keys()) if (name.includes('-')) shown.delete(name);
    await rig.kill();
    await rebuild();
    await expectAll();
    expect((await listed('plain')).snapshots).toEqual([]);
  }, 120_000);
});
