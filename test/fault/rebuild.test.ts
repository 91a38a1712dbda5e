// What a lost database costs: nothing that was acknowledged (docs/admin/rebuild.md). The gateway is
// killed, its database removed, and `bursar rebuild` has the store and the root keys alone.
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { compareListing, listBucket } from './bookkeeping.ts';
import { ask, fill, left, moved } from './rebuild-content.ts';
import { RebuildRig, type Rebuilt, type Seen } from './rebuild-rig.ts';
import { S3Client } from './s3-client.ts';

async function lookAtBoth(rig: RebuildRig): Promise<Record<string, Map<string, Seen>>> {
  return { one: await rig.look('one'), two: await rig.look('two') };
}

describeWithTool(versitygw, 'a gateway that lost its database', (path) => {
  let rig: RebuildRig;
  let before: Record<string, Map<string, Seen>>;
  let report: Rebuilt['report'];
  /** Extents that were stored when it was rebuilt. */
  let many: number;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await fill(rig.client);
    before = await lookAtBoth(rig);
    await rig.kill();
    rig.loseDatabase();
  }, 300_000);
  afterAll(() => rig?.stop(), 60_000);

  it('can be rebuilt again when that was killed at any step', async () => {
    for (const step of ['reading the journal', 'restoring versions', 'writing the new journal']) {
      await rig.killRebuild(step);
      // Where the signal came late it is all done: then that is lost as well.
      rig.loseDatabase();
    }
    const rebuilt = await rig.rebuild();
    expect(rebuilt.code, rebuilt.stderr).toBe(0);
    expect(readdirSync(rig.dataDir).filter((name) => /staging|rebuilding/.test(name))).toEqual([]);
    ({ report } = rebuilt);
  }, 120_000);

  it('restores every object as its clients saw it: metadata, times, tags and bytes', async () => {
    expect(report).toMatchObject({
      isWhole: true,
      buckets: 2,
      // They are told of, not only their buckets.
      tenants: [],
      principals: [],
      identities: { stores: ['s3'], doubtful: false },
      lost: { count: 0 },
      damagedExtents: { count: 0 },
    });
    expect(statSync(join(rig.dataDir, 'bursar.db')).mode & 0o777).toBe(0o600);
    expect(report?.uploads.first.map(({ key }) => key)).toContain('never completed');
    many = rig.storedObjects('extents/').length;
    await rig.serve(['--sweep-interval', '200ms', '--sweep-grace', '0s']);
    const after = await lookAtBoth(rig);
    expect(after.one?.size).toBe(left);
    expect(after).toEqual(before);
  }, 300_000);

  it('tells one story in catalog, counters and records', async () => {
    const restored = await countRecords(rig.client, 'bursar:RestoreVersion');
    const { objects } = await listBucket(rig.client, 'one');
    const { objects: others } = await listBucket(rig.client, 'two');
    expect(restored).toBe(objects.size + others.size);
    for (const bucket of ['one', 'two']) {
      const listed = await listBucket(rig.client, bucket);
      expect(await compareListing(rig.client, bucket, listed)).toEqual([]);
    }
  }, 60_000);

  it('sweeps what belongs to nothing, and nothing else', async () => {
    // Objects of one extent, copies whose source is gone, 2 and twice 3 of the large ones, and
    // those under a key of a customer.
    const alive = left + moved + 2 + 6 + 4;
    await waitFor(async () => rig.storedObjects('extents/').length === alive);
    expect(many).toBeGreaterThan(Math.max(alive, 1000));
    expect(await lookAtBoth(rig)).toEqual(before);
  }, 120_000);

  it('is rebuilt again, with what was written since', async () => {
    await ask(rig.client, 'PUT', '/one/later', { body: seededBytes(3, 300_000) });
    await ask(rig.client, 'DELETE', `/one/${encodeURI('folder 0')}/none`);
    await ask(rig.client, 'DELETE', '/two/large');
    before.one?.set('later', await rig.see('one', 'later'));
    before.two?.delete('large');
    await rig.kill();
    rig.loseDatabase();
    const again = await rig.rebuild();
    expect(again.code, again.stderr).toBe(0);
    expect(again.report).toMatchObject({ isWhole: true, buckets: 2, lost: { count: 0 } });
    await rig.serve();
    expect(await lookAtBoth(rig)).toEqual(before);
  }, 120_000);
});

describeWithTool(versitygw, 'a rebuild', (path) => {
  let rig: RebuildRig;
  let rebuilt: Rebuilt;

  const begin = async (prepare?: () => void) => {
    rig = await RebuildRig.start(path);
    prepare?.();
    await rig.serve();
    await ask(rig.client, 'PUT', '/data');
  };
  const end = () => rig?.stop();

  const put = (key: string, seed: number) =>
    ask(rig.client, 'PUT', `/data/${key}`, {
      headers: { 'x-amz-meta-seed': String(seed) },
      body: seededBytes(seed, 400_000),
    });
  const remove = (key: string) => ask(rig.client, 'DELETE', `/data/${key}`);
  /** The end comes, whatever the journal has until then. */
  const crash = async () => {
    await rig.kill();
    rig.loseDatabase();
  };
  /** The same when the journal has all. */
  const lose = async () => {
    await remove('nothing');
    await crash();
  };

  describe('where the journal lacks what came last', () => {
    let before: Map<string, Seen>;

    beforeAll(async () => {
      await begin();
      await put('old', 1);
      await put('overwritten', 2);
      await remove('old');
      const known = rig.storedObjects('journal/').map(({ name }) => name);
      await put('new', 3);
      await put('overwritten', 4);
      before = await rig.look('data');
      const headers = { 'if-none-match': '*' };
      await ask(rig.client, 'PUT', '/data/lock', { headers, body: seededBytes(5, 400_000) });
      await crash();
      for (const { name } of rig.storedObjects('journal/')) {
        if (!known.includes(name)) rmSync(rig.pathOf(name));
      }
      rebuilt = await rig.rebuild();
      await rig.serve();
    }, 120_000);
    afterAll(end, 60_000);

    it('restores acknowledged writes by their extents', async () => {
      expect(rebuilt.code, rebuilt.stderr).toBe(0);
      const keys = rebuilt.report?.fromExtents.first.map(({ key }) => key);
      expect(keys?.sort()).toEqual(['new', 'overwritten']);
      const after = await rig.look('data');
      expect([...after.keys()]).toEqual(['new', 'overwritten']);
      // Their times are those of their last extents: a little earlier.
      expect(timeless(after)).toEqual(timeless(before));
    }, 60_000);

    it('does not restore by its extents alone what stood under a condition', () => {
      // Beside it what was deleted, and what was overwritten.
      expect(rebuilt.report).toMatchObject({ versions: 2, condemnedExtents: 3 });
    });
  });

  describe('of all that was acknowledged', () => {
    const storeAt = (folder: string) => {
      const { endpoint } = rig.backend;
      return { url: `s3://cold/${folder}`, endpoint, pathStyle: true };
    };
    const buckets = ['data', 'in-zero', 'in-cold'];
    const lookAtAll = () => Promise.all(buckets.map((bucket) => rig.look(bucket)));
    const native = (method: string, at: string, body?: object) =>
      ask(rig.client, method, `/_/v1/tenants${at}`, {
        headers: { 'content-type': 'application/json' },
        ...(body ? { body: Buffer.from(JSON.stringify(body)) } : {}),
      });
    const asAlice = async <T>(use: (alice: S3Client) => Promise<T>) => {
      const { body } = await native('POST', '/cms/principals/alice/access-keys');
      const alice = new S3Client({ ...rig.gateway, ...JSON.parse(body.toString()) });
      const given = await use(alice);
      alice.close();
      return given;
    };
    let before: Map<string, Seen>[];
    let hers: Map<string, Seen>;

    beforeAll(async () => {
      await begin(() => {
        rig.backend.makeBucket('cold');
        const stores = { zero: storeAt('z'), cold: storeAt('c') };
        rig.environment = { BURSAR_STORES: JSON.stringify(stores) };
      });
      await put('lock', 1);
      const body = seededBytes(2, 400_000);
      const putIf = (key: string, headers: Record<string, string>) =>
        rig.client.send('PUT', `/data/${key}`, { headers, body });
      expect((await putIf('lock', { 'if-match': '"other"' })).status).toBe(412);
      for (const store of ['zero', 'cold', 'local']) {
        await ask(rig.client, 'PUT', `/in-${store}`, { headers: { 'x-bursar-store': store } });
        await ask(rig.client, 'PUT', `/in-${store}/object`, { body: seededBytes(4, 300_000) });
        await ask(rig.client, 'DELETE', `/in-${store}/nothing`);
      }
      await put('object', 5);
      const headers = { 'x-amz-copy-source': '/data/object' };
      await ask(rig.client, 'PUT', '/in-cold/moved', { headers });
      await ask(rig.client, 'DELETE', '/in-cold/nothing');
      await native('POST', '', { name: 'cms' });
      await native('POST', '/cms/principals', { name: 'alice', kind: 'person', role: 'admin' });
      hers = await asAlice(async (alice) => {
        await ask(alice, 'PUT', '/hers');
        await ask(alice, 'PUT', '/hers/object', { body: seededBytes(1, 1000) });
        return rig.look('hers', alice);
      });
      // The last of all: it was in the journal before it was answered for.
      expect((await putIf('taken', { 'if-none-match': '*' })).status).toBe(200);
      before = await lookAtAll();
      await lose();
      // In another order they would get other numbers, if they were not in the journals.
      const stores = { cold: storeAt('c'), zero: storeAt('z') };
      rig.environment = { BURSAR_STORES: JSON.stringify(stores) };
      rebuilt = await rig.rebuild();
      await rig.serve();
    }, 120_000);
    afterAll(end, 60_000);

    it('does not bring back a write that its condition refused', async () => {
      expect(rebuilt.code, rebuilt.stderr).toBe(0);
      const keys = rebuilt.report?.fromExtents.first.map(({ key }) => key);
      expect(keys).not.toContain('taken');
      expect(await rig.look('data')).toEqual(before[0]);
    }, 60_000);

    it('restores each bucket in its own store, whose number it keeps', async () => {
      expect(rebuilt.report).toMatchObject({ buckets: 4, versions: 7 });
      expect(await lookAtAll()).toEqual(before);
      for (const [bucket, store] of [
        ['data', 's3'],
        ['in-zero', 'zero'],
        ['in-cold', 'cold'],
      ]) {
        const head = await ask(rig.client, 'HEAD', `/${bucket}`);
        expect(head.headers['x-bursar-store']).toBe(store);
      }
    }, 60_000);

    it('restores tenants with the owners of their buckets, who then need new keys', async () => {
      expect(rebuilt.report).toMatchObject({
        identities: { restored: { tenants: 2, principals: 2 } },
      });
      expect(rebuilt.report?.identities.stores.sort()).toEqual(['cold', 's3', 'zero']);
      expect(await asAlice((alice) => rig.look('hers', alice))).toEqual(hers);
    }, 60_000);
  });

  describe('of what was damaged', () => {
    let segment: string;

    beforeAll(async () => {
      await begin();
      await put('hurt', 2);
      await remove('nothing');
      const [extent] = rig.storedObjects('extents/');
      await put('a', 1);
      await remove('a');
      await lose();
      truncateSync(rig.pathOf(extent?.name as string), (extent?.sizeBytes as number) - 1);
      const segments = rig
        .storedObjects('journal/')
        .filter(({ name }) => /\d{20}-\d{20}$/.test(name));
      ({ name: segment } = segments.at(-1) as { name: string });
      const bytes = readFileSync(rig.pathOf(segment));
      bytes[50] = (bytes[50] as number) ^ 1;
      writeFileSync(rig.pathOf(segment), bytes);
      await rig.putObject(`${segment}-copy`, bytes);
      await rig.putObject(`extents/00/${'0'.repeat(32)}`, Buffer.from('no extent of ours'));
      rebuilt = await rig.rebuild();
    }, 120_000);
    afterAll(end, 60_000);

    it('takes an extent of another length for a lost one', () => {
      const { report, stderr } = rebuilt;
      expect(report?.lost.first[0]?.reason, stderr).toMatch(/has \d+ bytes instead of \d+/);
    });

    it('reports damaged and foreign objects of the journal, and follows none', () => {
      const { code, report, stderr } = rebuilt;
      expect(code).toBe(1);
      const first = expect.arrayContaining([expect.stringContaining('0'.repeat(32))]);
      // The one that was cut, and the foreign one.
      const damagedExtents = { count: 2, first };
      expect(report, stderr).toMatchObject({ isWhole: false, damagedExtents });
      const foreign = [`${segment}-copy`];
      expect(report?.journals[0]).toMatchObject({ damaged: [segment], foreign });
    });
  });

  describe('beside a database, without keys, or with those of others', () => {
    let database: Buffer;

    beforeAll(async () => {
      await begin();
      await put('a', 1);
      await rig.stopGateway();
      database = readFileSync(join(rig.dataDir, 'bursar.db'));
    }, 60_000);
    afterAll(end, 60_000);

    it('touches nothing where it is not wanted', async () => {
      const there = await rig.rebuild();
      expect(there).toMatchObject({ code: 1, report: undefined });
      expect(there.stderr).toMatch(/bursar\.db is there/);

      const stored = rig.storedObjects('');
      const keys = join(rig.dataDir, 'keys', 'root-keys.json');
      const kept = readFileSync(keys);
      rig.loseDatabase();
      rmSync(keys);
      const keyless = await rig.rebuild();
      expect(keyless).toMatchObject({ code: 1, report: undefined });
      expect(keyless.stderr).toMatch(/root-keys\.json is missing/);

      const other = { epoch: 1, createdAt: new Date().toISOString(), key: randomKey() };
      writeFileSync(keys, JSON.stringify({ version: 1, keys: [other] }), { mode: 0o600 });
      const strange = await rig.rebuild();
      expect(strange).toMatchObject({ code: 1, report: undefined });
      expect(strange.stderr).toMatch(/no journal under these keys/);
      expect(rig.storedObjects('')).toEqual(stored);

      writeFileSync(keys, kept);
      const mistyped = await rig.rebuild(['--generation', '001763678000000-0123abcd']);
      expect(mistyped).toMatchObject({ code: 1, report: undefined });
      expect(mistyped.stderr).toMatch(/no journal 001763678000000-0123abcd/);
      expect(rig.storedObjects('')).toEqual(stored);

      expect((await rig.rebuild()).report).toMatchObject({ isWhole: true, versions: 1 });
    }, 120_000);

    it('keeps the gateway of the lost database out of the store', async () => {
      rig.loseDatabase();
      writeFileSync(join(rig.dataDir, 'bursar.db'), database);
      await expect(rig.serve()).rejects.toThrow(/belongs to another data folder/);
    }, 60_000);
  });

  describe('with', () => {
    beforeEach(() => begin(), 60_000);
    afterEach(end, 60_000);

    it('loses no deletion that was answered for, however often the store was away', async () => {
      await put('kept', 1);
      await put('removed', 2);
      for (let outage = 0; outage < 2; outage++) {
        await rig.backend.kill();
        // It was made, or it was not; who hears this does not know, and asks again.
        const unsure = await rig.client.send('DELETE', '/data/removed');
        expect(unsure.status).toBe(503);
        await rig.backend.restart();
        await waitFor(async () => {
          const again = await rig.client.send('DELETE', '/data/removed');
          return again.status === 204;
        });
        await crash();
        expect((await rig.rebuild()).code).toBe(0);
        await rig.serve();
        expect([...(await rig.look('data')).keys()]).toEqual(['kept']);
        if (outage === 0) await put('removed', 3);
      }
    }, 120_000);

    it('reports an object whose extent is gone, restores others, discards nothing', async () => {
      const extents = () => rig.storedObjects('extents/').map(({ name }) => name);
      await put('kept', 1);
      const others = extents();
      await put('hurt', 2);
      const victim = extents().find((name) => !others.includes(name)) as string;
      await put('removed', 3);
      await remove('removed');
      const before = await rig.look('data');
      await lose();
      // The backend keeps more with a file than its bytes, so it is moved, not copied.
      const aside = join(rig.dataDir, 'aside');
      renameSync(rig.pathOf(victim), aside);
      const { code, stderr, report } = await rig.rebuild();
      expect(code).toBe(1);
      expect(stderr).toContain('not everything could be restored');
      expect(report).toMatchObject({ isWhole: false, versions: 1, condemnedExtents: 0 });
      expect(report?.lost.first).toEqual([
        expect.objectContaining({ bucket: 'data', key: 'hurt', tenant: 'default' }),
      ]);
      expect(report?.leftExtents).toBe(1);
      await rig.serve();
      expect([...(await rig.look('data')).keys()]).toEqual(['kept']);
      await rig.stopGateway();

      // The extent is found again: the journal of before still tells of the object.
      mkdirSync(dirname(rig.pathOf(victim)), { recursive: true });
      renameSync(aside, rig.pathOf(victim));
      rig.loseDatabase();
      const newest = await rig.rebuild();
      // By its own metadata; what was removed stays so, though its extents were left alone.
      expect(newest.report, newest.stderr).toMatchObject({ isWhole: false, versions: 2 });
      expect(newest.report?.fromExtents.first.map(({ key }) => key)).toEqual(['hurt']);
      rig.loseDatabase();
      const generation = report?.journals[0]?.generation as string;
      const again = await rig.rebuild(['--generation', generation]);
      expect(again.report).toMatchObject({ isWhole: true, versions: 2, lost: { count: 0 } });
      await rig.serve();
      expect(await rig.look('data')).toEqual(before);
    }, 120_000);
  });
});

function timeless(seen: Map<string, Seen>): Map<string, Seen> {
  return new Map([...seen].map(([key, one]) => [key, { ...one, lastModified: undefined }]));
}

function randomKey(): string {
  return seededBytes(99, 32).toString('base64');
}

async function waitFor(check: () => Promise<boolean>): Promise<void> {
  const endMs = Date.now() + 60_000;
  while (!(await check())) {
    if (Date.now() > endMs) throw new Error('it did not come to that');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function countRecords(client: S3Client, action: string): Promise<number> {
  let count = 0;
  for (let cursor: string | null = null; ; ) {
    const query: [string, string][] = [
      ['action', action],
      ['limit', '1000'],
      ...(cursor === null ? [] : ([['cursor', cursor]] as [string, string][])),
    ];
    const { body } = await ask(client, 'GET', '/_/v1/records', { query });
    const page = JSON.parse(body.toString()) as { records: unknown[]; next: string | null };
    count += page.records.length;
    if (page.next === null) return count;
    cursor = page.next;
  }
}
