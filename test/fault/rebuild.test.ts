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
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { compareListing, listBucket } from './bookkeeping.ts';
import { inTurns, RebuildRig, type Seen } from './rebuild-rig.ts';
import { S3Client, type Sending } from './s3-client.ts';

const MiB = 1024 * 1024;

async function ask(client: S3Client, method: string, path: string, sending: Sending = {}) {
  const answer = await client.send(method, path, sending);
  if (answer.status >= 300) {
    throw new Error(`${method} ${path}: ${answer.status} ${answer.body.toString()}`);
  }
  return answer;
}

const keyOf = (i: number): string => `folder ${i % 7}/ключ+${String(i).padStart(4, '0')}`;

/** A thousand objects, made in all the ways that there are, and traces of more. */
async function fill(client: S3Client): Promise<void> {
  for (const name of ['one', 'two', 'gone']) await ask(client, 'PUT', `/${name}`);
  const put = (bucket: string, i: number, seed: number) =>
    ask(client, 'PUT', `/${bucket}/${keyOf(i)}`, {
      headers: {
        'content-type': `text/x-${i}`,
        'x-amz-meta-number': String(seed),
        ...(i % 3 === 0 ? { 'cache-control': 'no-store' } : {}),
      },
      body: seededBytes(seed, 1 + ((seed * 7919) % 9000)),
    });
  const numbers = Array.from({ length: 1000 }, (_, i) => i);
  await inTurns(numbers, async (i) => void (await put('one', i, i)));
  await inTurns(numbers.slice(0, 200), async (i) => void (await put('one', i, 5000 + i)));
  await inTurns(numbers.slice(150, 250), async (i) => {
    await ask(client, 'DELETE', `/one/${keyOf(i)}`);
  });
  await inTurns(numbers.slice(300, 350), async (i) => {
    const source = encodeURI(`/one/${keyOf(i)}`).replaceAll('+', '%2B');
    await ask(client, 'PUT', `/two/copy-${i}`, { headers: { 'x-amz-copy-source': source } });
    // The copy alone keeps the extents alive.
    if (i < 325) await ask(client, 'DELETE', `/one/${keyOf(i)}`);
  });
  await inTurns(numbers.slice(0, 30), async (i) => {
    await ask(client, 'PUT', `/two/empty-${i}`, {
      headers: { 'x-amz-meta-none': 'at all' },
      body: Buffer.alloc(0),
    });
  });
  await ask(client, 'PUT', '/two/large', { body: seededBytes(1, 20 * MiB) });
  for (const key of ['parts', 'parts again']) await putParts(client, `/two/${key}`, true);
  await putParts(client, '/two/never completed', false);
  await ask(client, 'PUT', '/gone/object', { body: seededBytes(2, 100) });
  await ask(client, 'DELETE', '/gone/object');
  await ask(client, 'DELETE', '/gone');
}

async function putParts(client: S3Client, path: string, completes: boolean): Promise<void> {
  const headers = { 'x-amz-meta-made': 'in parts' };
  const begun = await ask(client, 'POST', path, { query: [['uploads', '']], headers });
  const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body.toString())?.[1] ?? '';
  const tags: string[] = [];
  for (const [number, sizeBytes] of [
    [1, 5 * MiB],
    [2, 5 * MiB + 1],
    [3, 77],
  ] as const) {
    const query: [string, string][] = [
      ['partNumber', String(number)],
      ['uploadId', id],
    ];
    const part = await ask(client, 'PUT', path, { query, body: seededBytes(number, sizeBytes) });
    tags.push(`<Part><PartNumber>${number}</PartNumber><ETag>${part.headers.etag}</ETag></Part>`);
  }
  if (!completes) return;
  const body = Buffer.from(`<CompleteMultipartUpload>${tags.join('')}</CompleteMultipartUpload>`);
  await ask(client, 'POST', path, { query: [['uploadId', id]], body });
}

async function lookAtBoth(rig: RebuildRig): Promise<Record<string, Map<string, Seen>>> {
  return { one: await rig.look('one'), two: await rig.look('two') };
}

describeWithTool(versitygw, 'a gateway that lost its database', (path) => {
  let rig: RebuildRig;
  let before: Record<string, Map<string, Seen>>;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await fill(rig.client);
    before = await lookAtBoth(rig);
    await rig.kill();
    rig.loseDatabase();
  }, 300_000);
  afterAll(() => rig?.stop(), 60_000);

  it('restores every object as its clients saw it: metadata, times, tags and bytes', async () => {
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({
      isWhole: true,
      buckets: 2,
      tenants: ['default'],
      principals: ['default/admin'],
      lost: { count: 0 },
      damagedExtents: { count: 0 },
    });
    expect(statSync(join(rig.dataDir, 'bursar.db')).mode & 0o777).toBe(0o600);
    expect(report?.uploads.first.map(({ key }) => key)).toContain('never completed');
    await rig.serve();
    const after = await lookAtBoth(rig);
    expect(after.one?.size).toBe(1000 - 100 - 25);
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
    await rig.stopGateway();
    const many = rig.storedObjects('extents/').length;
    await rig.serve(['--sweep-interval', '200ms', '--sweep-grace', '0s']);
    // 875 objects of one extent, 25 copies whose source is gone, 3 and twice 3 of the large ones.
    await waitFor(async () => rig.storedObjects('extents/').length === 875 + 25 + 3 + 6);
    expect(many).toBeGreaterThan(875 + 25 + 3 + 6);
    expect(await lookAtBoth(rig)).toEqual(before);
  }, 120_000);

  it('is rebuilt again, with what was written since', async () => {
    await ask(rig.client, 'PUT', '/one/later', { body: seededBytes(3, 300_000) });
    await ask(rig.client, 'DELETE', `/one/${encodeURI('folder 0')}/none`);
    await ask(rig.client, 'DELETE', '/two/large');
    before = await lookAtBoth(rig);
    await rig.kill();
    rig.loseDatabase();
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ isWhole: true, buckets: 2, lost: { count: 0 } });
    await rig.serve();
    expect(await lookAtBoth(rig)).toEqual(before);
  }, 120_000);
});

describeWithTool(versitygw, 'a rebuild', (path) => {
  let rig: RebuildRig;

  beforeEach(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await ask(rig.client, 'PUT', '/data');
  }, 60_000);
  afterEach(() => rig?.stop(), 60_000);

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

  it('restores acknowledged writes by their extents where the journal lacks them', async () => {
    await put('old', 1);
    await put('overwritten', 2);
    await remove('old');
    const known = rig.storedObjects('journal/').map(({ name }) => name);
    await put('new', 3);
    await put('overwritten', 4);
    const before = await rig.look('data');
    await crash();
    for (const { name } of rig.storedObjects('journal/')) {
      if (!known.includes(name)) rmSync(rig.pathOf(name));
    }
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report?.fromExtents.first.map(({ key }) => key).sort()).toEqual(['new', 'overwritten']);
    await rig.serve();
    const after = await rig.look('data');
    expect([...after.keys()]).toEqual(['new', 'overwritten']);
    // Their times are those of their last extents: a little earlier.
    expect(timeless(after)).toEqual(timeless(before));
  }, 120_000);

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

  it('does not bring back a write that its condition refused', async () => {
    await put('lock', 1);
    const body = seededBytes(2, 400_000);
    const refused = await rig.client.send('PUT', '/data/lock', {
      headers: { 'if-match': '"other"' },
      body,
    });
    expect(refused.status).toBe(412);
    const taken = await rig.client.send('PUT', '/data/taken', {
      headers: { 'if-none-match': '*' },
      body,
    });
    expect(taken.status).toBe(200);
    const before = await rig.look('data');
    await lose();
    // The accepted one was in the journal before it was answered for.
    const { code, report } = await rig.rebuild();
    expect(code).toBe(0);
    expect(report?.fromExtents.first.map(({ key }) => key)).not.toContain('taken');
    await rig.serve();
    expect(await rig.look('data')).toEqual(before);
  }, 120_000);

  it('does not restore by its extents alone what stood under a condition', async () => {
    await remove('nothing');
    const known = rig.storedObjects('journal/').map(({ name }) => name);
    const headers = { 'if-none-match': '*' };
    await ask(rig.client, 'PUT', '/data/lock', { headers, body: seededBytes(2, 400_000) });
    await put('plain', 3);
    await crash();
    for (const { name } of rig.storedObjects('journal/')) {
      if (!known.includes(name)) rmSync(rig.pathOf(name));
    }
    const { report } = await rig.rebuild();
    expect(report?.fromExtents.first.map(({ key }) => key)).toEqual(['plain']);
    expect(report).toMatchObject({ versions: 1, condemnedExtents: 1 });
  }, 120_000);

  it('restores each bucket in its own store, whose number it keeps', async () => {
    await rig.stopGateway();
    rig.backend.makeBucket('cold');
    const { endpoint } = rig.backend;
    const storeAt = (folder: string) => ({ url: `s3://cold/${folder}`, endpoint, pathStyle: true });
    rig.environment = { BURSAR_STORES: JSON.stringify({ zero: storeAt('z'), cold: storeAt('c') }) };
    await rig.serve();
    for (const store of ['zero', 'cold', 'local']) {
      await ask(rig.client, 'PUT', `/in-${store}`, { headers: { 'x-bursar-store': store } });
      await ask(rig.client, 'PUT', `/in-${store}/object`, { body: seededBytes(4, 300_000) });
      await ask(rig.client, 'DELETE', `/in-${store}/nothing`);
    }
    await put('object', 5);
    const headers = { 'x-amz-copy-source': '/data/object' };
    await ask(rig.client, 'PUT', '/in-cold/moved', { headers });
    await ask(rig.client, 'DELETE', '/in-cold/nothing');
    const buckets = ['data', 'in-zero', 'in-cold'];
    const before = await Promise.all(buckets.map((bucket) => rig.look(bucket)));
    await lose();
    // In another order they would get other numbers, if they were not in the journals.
    rig.environment = { BURSAR_STORES: JSON.stringify({ cold: storeAt('c'), zero: storeAt('z') }) };
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ buckets: 3, versions: 4 });
    await rig.serve();
    expect(await Promise.all(buckets.map((bucket) => rig.look(bucket)))).toEqual(before);
    for (const [bucket, store] of [
      ['data', 's3'],
      ['in-zero', 'zero'],
      ['in-cold', 'cold'],
    ]) {
      const head = await ask(rig.client, 'HEAD', `/${bucket}`);
      expect(head.headers['x-bursar-store']).toBe(store);
    }
  }, 120_000);

  it('reports an object whose extent is gone, restores others, and discards nothing', async () => {
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

  it('takes an extent of another length for a lost one', async () => {
    await put('hurt', 2);
    await lose();
    const [extent] = rig.storedObjects('extents/');
    truncateSync(rig.pathOf(extent?.name as string), (extent?.sizeBytes as number) - 1);
    const { report, stderr } = await rig.rebuild();
    expect(report?.lost.first[0]?.reason, stderr).toMatch(/has \d+ bytes instead of \d+/);
  }, 120_000);

  it('reports damaged and foreign objects of the journal, and follows none', async () => {
    await put('a', 1);
    await remove('a');
    await put('b', 2);
    await remove('b');
    await lose();
    const segments = rig
      .storedObjects('journal/')
      .filter(({ name }) => /\d{20}-\d{20}$/.test(name));
    const { name } = segments.at(-1) as { name: string };
    const bytes = readFileSync(rig.pathOf(name));
    bytes[50] = (bytes[50] as number) ^ 1;
    writeFileSync(rig.pathOf(name), bytes);
    await rig.putObject(`${name}-copy`, bytes);
    await rig.putObject(`extents/00/${'0'.repeat(32)}`, Buffer.from('no extent of ours'));
    const { code, report, stderr } = await rig.rebuild();
    expect(code).toBe(1);
    expect(report, stderr).toMatchObject({ isWhole: false, damagedExtents: { count: 1 } });
    expect(report?.journals[0]).toMatchObject({ damaged: [name], foreign: [`${name}-copy`] });
  }, 120_000);

  it('can be run again when it was killed at any step', async () => {
    await inTurns(
      Array.from({ length: 60 }, (_, i) => i),
      async (i) => {
        await put(`key-${i}`, i);
      },
    );
    const before = await rig.look('data');
    await lose();
    for (const step of ['reading the journal', 'restoring versions', 'writing the new journal']) {
      await rig.killRebuild(step);
      // Where the signal came late it is all done: then that is lost as well.
      rig.loseDatabase();
    }
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({ isWhole: true, versions: 60 });
    await rig.serve();
    expect(await rig.look('data')).toEqual(before);
    expect(readdirSync(rig.dataDir).filter((name) => /staging|rebuilding/.test(name))).toEqual([]);
  }, 120_000);

  it('restores tenants with the owners of their buckets, who then need new keys', async () => {
    const native = (method: string, at: string, body?: object) =>
      ask(rig.client, method, `/_/v1/tenants${at}`, {
        headers: { 'content-type': 'application/json' },
        ...(body ? { body: Buffer.from(JSON.stringify(body)) } : {}),
      });
    await native('POST', '', { name: 'cms' });
    await native('POST', '/cms/principals', { name: 'alice', kind: 'person', role: 'admin' });
    const keysOf = async () => {
      const { body } = await native('POST', '/cms/principals/alice/access-keys');
      return new S3Client({ ...rig.gateway, ...JSON.parse(body.toString()) });
    };
    const alice = await keysOf();
    await ask(alice, 'PUT', '/hers');
    await ask(alice, 'PUT', '/hers/object', { body: seededBytes(1, 1000) });
    const before = await rig.look('hers', alice);
    alice.close();
    await lose();
    const { report } = await rig.rebuild();
    expect(report).toMatchObject({
      tenants: ['default', 'cms'],
      principals: ['default/admin', 'cms/alice'],
    });
    await rig.serve();
    const again = await keysOf();
    expect(await rig.look('hers', again)).toEqual(before);
    again.close();
  }, 120_000);

  it('touches nothing where it is not wanted', async () => {
    await put('a', 1);
    await rig.stopGateway();
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
    await put('a', 1);
    await rig.stopGateway();
    const copy = readFileSync(join(rig.dataDir, 'bursar.db'));
    rig.loseDatabase();
    expect((await rig.rebuild()).code).toBe(0);
    rig.loseDatabase();
    writeFileSync(join(rig.dataDir, 'bursar.db'), copy);
    await expect(rig.serve()).rejects.toThrow(/belongs to another data folder/);
  }, 120_000);
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
