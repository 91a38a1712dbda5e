// What a lost database costs in buckets that keep versions: nothing that was acknowledged. All
// versions of a key come back in their order under their ids, with markers, tags and locks; and
// with its buckets what was set of them, so that nothing is less protected than it was.
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { listBucket } from './bookkeeping.ts';
import { RebuildRig } from './rebuild-rig.ts';
import type { Answer, Sending } from './s3-client.ts';

describeWithTool(versitygw, 'versions of a gateway that lost its database', (path) => {
  let rig: RebuildRig;

  const ask = async (method: string, target: string, sending: Sending = {}): Promise<Answer> => {
    const answer = await rig.client.send(method, target, sending);
    if (answer.status < 300) return answer;
    throw new Error(`${method} ${target}: ${answer.status} ${answer.body.toString()}`);
  };
  const versionOf = ({ headers }: Answer): string => String(headers['x-amz-version-id']);
  /** A body as S3 wants those of locks and configurations. */
  const digested = (body: Buffer, headers: Record<string, string>) => {
    const md5 = createHash('md5').update(body).digest('base64');
    return { headers: { 'content-md5': md5, ...headers }, body };
  };
  const put = async (target: string, seed: number, headers: Record<string, string> = {}) =>
    versionOf(await ask('PUT', target, digested(seededBytes(seed, 50_000 + seed), headers)));
  const remove = async (target: string, id?: string) =>
    versionOf(await ask('DELETE', target, id === undefined ? {} : { query: [['versionId', id]] }));
  const set = (target: string, name: string, document: string, id?: string, headers = {}) =>
    ask('PUT', target, {
      query: [[name, ''], ...(id === undefined ? [] : [['versionId', id] as [string, string]])],
      ...digested(Buffer.from(document), headers),
    });
  const get = async (target: string, name: string, id?: string) => {
    const query: [string, string][] = [[name, '']];
    if (id !== undefined) query.push(['versionId', id]);
    const { status, body } = await rig.client.send('GET', target, { query });
    // An error names its request, which is another each time.
    return [status, body.toString().replace(/<(RequestId|HostId)>.*?<\/\1>/g, '')];
  };
  const setVersioning = (target: string, status: string) => {
    const inner = `<Status>${status}</Status>`;
    return set(target, 'versioning', `<VersioningConfiguration>${inner}</VersioningConfiguration>`);
  };

  /** What clients see of all versions of a bucket: the list, and the bytes of each. */
  const look = async (bucket: string): Promise<unknown[]> => {
    const [, list] = await get(`/${bucket}`, 'versions');
    const seen: unknown[] = [list];
    const entry = /<Version>.*?<Key>(.*?)<\/Key>.*?<VersionId>(.*?)<\/VersionId>.*?<\/Version>/gs;
    for (const [, key, id] of String(list).matchAll(entry)) {
      const query: [string, string][] = [['versionId', String(id)]];
      const { body, headers } = await ask('GET', `/${bucket}/${key}`, { query });
      const told = Object.entries(headers).filter(([name]) => /^(x-amz-(?!re|id)|etag)/.test(name));
      seen.push([key, id, body.length, body.subarray(0, 20).toString('hex'), told.sort()]);
      seen.push(await get(`/${bucket}/${key}`, 'tagging', id));
    }
    return seen;
  };

  /** Of a gateway that was killed. */
  const rebuildNow = async (): Promise<void> => {
    rig.loseDatabase();
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ isWhole: true, lost: { count: 0 } });
    // Before anybody has served it, too.
    const deep = await rig.run(['verify', 'deep']);
    expect(deep.code, deep.stdout + deep.stderr).toBe(0);
    await rig.serve();
  };

  describe('all at once', () => {
    beforeAll(async () => {
      rig = await RebuildRig.start(path);
      await rig.serve();
    }, 60_000);
    afterAll(() => rig?.stop(), 60_000);

    it('come back in order, under their ids, with markers, tags and bytes', async () => {
      await ask('PUT', '/data');
      await put('/data/key', 1);
      await setVersioning('/data', 'Enabled');
      const second = await put('/data/key', 2, { 'x-amz-tagging': 'a=1' });
      await put('/data/key', 3);
      await remove('/data/key', second);
      const fourth = await put('/data/key', 4);
      const tag = '<Tag><Key>later</Key><Value>yes</Value></Tag>';
      await set('/data/key', 'tagging', `<Tagging><TagSet>${tag}</TagSet></Tagging>`, fourth);
      await remove('/data/key');
      await put('/data/undone', 5);
      await remove('/data/undone', await remove('/data/undone'));
      const headers = { 'x-amz-copy-source': `/data/key?versionId=${fourth}` };
      await ask('PUT', '/data/copy', { headers });
      await setVersioning('/data', 'Suspended');
      await put('/data/key', 6);
      await put('/data/key', 7);
      await remove('/data/suspended');
      const before = await look('data');
      expect(String(before[0]).match(/<Version>/g)).toHaveLength(5);
      expect(String(before[0]).match(/<DeleteMarker>/g)).toHaveLength(2);
      await rig.kill();
      await rebuildNow();
      expect(await look('data')).toEqual(before);
      const listed = await listBucket(rig.client, 'data');
      expect([...listed.objects.keys()]).toEqual(['copy', 'key', 'undone']);
    }, 120_000);

    it('go on as versions: an old one is read, a marker undone, the newest replaced', async () => {
      const before = await look('data');
      await remove('/data/suspended', 'null');
      await setVersioning('/data', 'Enabled');
      const id = await put('/data/key', 8);
      expect(id).toMatch(/^[0-9a-f]{32}$/);
      await remove('/data/key', id);
      const marker = /<DeleteMarker><Key>suspended<\/Key>.*?<\/DeleteMarker>/s;
      expect(await look('data')).toEqual([
        String(before[0]).replace(marker, ''),
        ...before.slice(1),
      ]);
    }, 60_000);

    it('are counted as they are then, and verify deep finds nothing', async () => {
      await rig.stopGateway();
      const { code, stdout, stderr } = await rig.run(['verify', 'deep']);
      expect(stdout + stderr).toMatch(/compared \d+ records with the log, and 7 versions/);
      expect(code, stdout + stderr).toBe(0);
    }, 60_000);

    it('that were renamed are at their new keys alone', async () => {
      await rig.serve();
      const rename = (from: string, to: string) =>
        ask('PUT', to, {
          query: [['renameObject', '']],
          headers: { 'x-amz-rename-source': from, 'x-amz-client-token': `${from}-to-${seed++}` },
        });
      let seed = 100;
      for (const bucket of ['/moved', '/moved-versions']) {
        await ask('PUT', bucket);
        if (bucket === '/moved-versions') await setVersioning(bucket, 'Enabled');
        // What is kept beside others is told by extents alone, or in the journal.
        for (const key of ['a', 'b', 'c', 'x']) {
          const body = seededBytes(seed, 150_000 + seed++);
          await ask('PUT', `${bucket}/${key}`, { body });
        }
        await ask('PUT', `${bucket}/small`, { body: seededBytes(seed, 100) });
        await rename('a', `${bucket}/b`);
        await rename('c', `${bucket}/d`);
        await ask('PUT', `${bucket}/c`, { body: seededBytes(seed, 150_000 + seed++) });
        for (const [from, to] of ['xy', 'yz', 'zx', 'xw'].map((pair) => [...pair])) {
          await rename(String(from), `${bucket}/${to}`);
        }
        await rename('small', `${bucket}/tiny`);
        await rename('d', `${bucket}/gone`);
        await remove(`${bucket}/gone`);
        // The time of what it replaces is later than its own.
        await rename('b', `${bucket}/c`);
      }
      const before = [await look('moved'), await look('moved-versions')];
      const { objects } = await listBucket(rig.client, 'moved');
      expect([...objects.keys()]).toEqual(['c', 'tiny', 'w']);
      await rig.kill();
      await rebuildNow();
      expect([await look('moved'), await look('moved-versions')]).toEqual(before);
    }, 120_000);
  });

  describe('with what protects them', () => {
    beforeEach(async () => {
      rig = await RebuildRig.start(path);
      await rig.serve();
    }, 60_000);
    afterEach(() => rig?.stop(), 60_000);

    /** Many at a time, until the gateway is gone; gives the ids of those that were answered. */
    async function writeToTheEnd(): Promise<string[]> {
      await ask('PUT', '/data');
      await setVersioning('/data', 'Enabled');
      const ids: string[] = [];
      const writing = Array.from({ length: 8 }, async (_, i) => {
        for (let n = 0; n < 200; n++) {
          const id = await put('/data/key', i * 200 + n).catch(() => null);
          if (id === null) return;
          ids.push(id);
        }
      });
      while (ids.length < 40) await new Promise((resolve) => setTimeout(resolve, 5));
      await rig.kill();
      await Promise.all(writing);
      return ids;
    }

    async function expectAll(ids: readonly string[]): Promise<void> {
      const [, list] = await get('/data', 'versions');
      const there = Array.from(String(list).matchAll(/<VersionId>(.*?)</g), ([, id]) => id);
      expect(there).toEqual(expect.arrayContaining([...ids]));
      expect(String(list).match(/<IsLatest>true/g)).toHaveLength(1);
      const listed = await listBucket(rig.client, 'data');
      expect([...listed.objects.keys()]).toEqual(['key']);
    }

    it('are as locked as they were, and those written just before the end are there', async () => {
      await ask('PUT', '/locked');
      await setVersioning('/locked', 'Enabled');
      const until = new Date(Date.now() + 86_400_000_000).toISOString();
      const lock =
        '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>' +
        '<DefaultRetention><Mode>GOVERNANCE</Mode><Days>3</Days></DefaultRetention></Rule>' +
        '</ObjectLockConfiguration>';
      await set('/locked', 'object-lock', lock);
      const byDefault = await put('/locked/key', 1);
      const held = await put('/locked/key', 2);
      const hold = '<LegalHold><Status>ON</Status></LegalHold>';
      await set('/locked/key', 'legal-hold', hold, held);
      const retained = await put('/locked/key', 3);
      const retention = `<Mode>COMPLIANCE</Mode><RetainUntilDate>${until}</RetainUntilDate>`;
      const document = `<Retention>${retention}</Retention>`;
      const bypass = { 'x-amz-bypass-governance-retention': 'true' };
      await set('/locked/key', 'retention', document, retained, bypass);
      const tag = '<Tag><Key>project</Key><Value>x</Value></Tag>';
      await set('/locked', 'tagging', `<Tagging><TagSet>${tag}</TagSet></Tagging>`);
      const block = '<BlockPublicPolicy>true</BlockPublicPolicy>';
      const configuration = 'PublicAccessBlockConfiguration';
      await set('/locked', 'publicAccessBlock', `<${configuration}>${block}</${configuration}>`);
      const Resource = 'arn:aws:s3:::locked/*';
      const rule = { Effect: 'Deny', Principal: { AWS: 'bob' }, Action: 's3:*', Resource };
      const policy = JSON.stringify({ Version: '2012-10-17', Statement: [rule] });
      await set('/locked', 'policy', policy);
      const settings = ['versioning', 'object-lock', 'tagging', 'publicAccessBlock', 'policy'];
      const lookAtAll = async () => [
        await Promise.all(settings.map((name) => get('/locked', name))),
        await look('locked'),
        ...(await Promise.all(
          [byDefault, held, retained].flatMap((id) => [
            get('/locked/key', 'retention', id),
            get('/locked/key', 'legal-hold', id),
          ]),
        )),
      ];
      const before = await lookAtAll();
      expect((before[0] as unknown[][]).map(([status]) => status)).toEqual([
        ...[200, 200, 200, 200, 200],
      ]);
      const ids = await writeToTheEnd();
      await rebuildNow();
      await expectAll(ids);
      expect(await lookAtAll()).toEqual(before);
      for (const id of [byDefault, held, retained]) {
        const query: [string, string][] = [['versionId', id]];
        const refused = await rig.client.send('DELETE', '/locked/key', { query });
        expect(refused.status).toBe(403);
      }
      const bucket = await rig.client.send('DELETE', '/locked');
      expect(bucket.status).toBe(409);
      const other = await put('/locked/new', 4);
      expect((await get('/locked/new', 'retention', other))[1]).toContain('GOVERNANCE');
    }, 120_000);

    it('do not come back by their extents alone, nor replace what is kept', async () => {
      await ask('PUT', '/data');
      await put('/data/key', 1);
      await setVersioning('/data', 'Enabled');
      const known = rig.storedObjects('journal/').map(({ name }) => name);
      const before = await look('data');
      await put('/data/key', 2);
      await put('/data/other', 3);
      await rig.kill();
      rig.loseDatabase();
      // As if the journal had never been told: then nobody was answered.
      for (const { name } of rig.storedObjects('journal/')) {
        if (!known.includes(name)) rmSync(rig.pathOf(name));
      }
      const { report, stderr } = await rig.rebuild();
      expect(report, stderr).toMatchObject({ versions: 1, condemnedExtents: 2 });
      await rig.serve();
      expect(await look('data')).toEqual(before);
    }, 120_000);
  });
});
