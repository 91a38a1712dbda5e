// Lifecycle transitions on a served gateway with folder stores whose days last a second: what is
// moved, what stays, and that a moved version is the version that it was. BURSAR_KILLS kills the
// mover more than three times, BURSAR_FULL=1 a thousand times, BURSAR_KILL_SEED at other moments.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as s3 from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { parseUsd } from '#bursar/core/money.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { draftBook } from '../quota/prices/price-book-text.ts';
import {
  bytesOf,
  client,
  config,
  countIn,
  environment,
  extentsIn,
  MB,
  newIn,
  place,
  put,
  read,
  refusal,
  run,
  serve,
  served,
  startRigWith,
  stopRig,
} from './class-rig.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

const books = mkdtempSync(join(tmpdir(), 'bursar-books-'));

beforeAll(() => {
  // What is stored for less than 30 days is paid for all of them; to put it there is free.
  const source = 'list';
  const STANDARD = {
    storage: { usdPerGbMonth: [{ usd: '0.30' }], source },
    put: { usdPer1000: '0', source },
    get: { usdPer1000: '0', source },
    retrieval: { usdPerGb: '0', source },
    minimum: { days: 30, bytes: 0, source },
  };
  const named = { name: 'lab', provider: 'lab', region: 'basement', classes: { STANDARD } };
  writeFileSync(join(books, 'lab.json'), JSON.stringify({ ...draftBook(), ...named }));
  return startRigWith(
    {
      ...{ BURSAR_LIFECYCLE_DAY: '1s', BURSAR_SWEEP_INTERVAL: '300ms', BURSAR_SWEEP_GRACE: '0ms' },
      BURSAR_PRICE_BOOKS: books,
    },
    'lab/basement',
  );
});
afterAll(async () => {
  await stopRig();
  rmSync(books, { recursive: true });
});

const soon = { timeout: 60_000, interval: 200 };
const isFull = process.env.BURSAR_FULL === '1';

const rule = (Prefix: string, more: Partial<s3.LifecycleRule>): s3.LifecycleRule => ({
  ...{ ID: Prefix || 'all', Status: 'Enabled', Filter: { Prefix }, ...more },
});
const into = (StorageClass: string) => ({
  Transitions: [{ Days: 1, StorageClass: StorageClass as s3.TransitionStorageClass }],
});

function setRules(
  Bucket: string,
  Rules: s3.LifecycleRule[],
  TransitionDefaultMinimumObjectSize?: s3.TransitionDefaultMinimumObjectSize,
) {
  const minimum = TransitionDefaultMinimumObjectSize && { TransitionDefaultMinimumObjectSize };
  return client.send(
    new s3.PutBucketLifecycleConfigurationCommand({
      ...{ Bucket, LifecycleConfiguration: { Rules }, ...minimum },
    }),
  );
}

const headOf = (Bucket: string, Key: string, VersionId?: string) =>
  client.send(new s3.HeadObjectCommand({ Bucket, Key, ...(VersionId && { VersionId }) }));

const becomes = (Bucket: string, Key: string, of: string | undefined, VersionId?: string) =>
  vi.waitFor(
    async () => expect((await headOf(Bucket, Key, VersionId)).StorageClass).toBe(of),
    soon,
  );

interface Told {
  key: string;
  class: string;
  cost: string;
  change: { moved: { from: string; to: string; version: number }; rule: string };
}

async function listMoves(): Promise<Told[]> {
  const lines = (await run('records', '--action', 'bursar:MoveObject', '--json')).split('\n');
  return lines.flatMap((line) => {
    const found = line === '' ? undefined : (JSON.parse(line) as Told & { record?: Told });
    return found ? [found.record ?? found] : [];
  });
}

const movesOf = async (key: string) => (await listMoves()).filter((one) => one.key === key);

describe('a lifecycle transition', () => {
  test.each([
    ['from the data folder', 'first', 300_000],
    ['of many extents, from another store', 'second', 20 * MB],
    ['of an object in the database, whose size a rule says', 'first', 100],
  ])('%s moves the bytes, and nothing else is another', async (_, Bucket, size) => {
    const Key = `moved/${size}`;
    await client.send(
      new s3.PutObjectCommand({
        ...{ Bucket, Key, Body: bytesOf(size), Metadata: { of: 'run 7' }, Tagging: 'kind=raw' },
      }),
    );
    // Under a key of the customer's, which whoever moves it has not.
    const SSECustomerKey = Buffer.alloc(32, 'k').toString('base64');
    const sealed = {
      ...{ Bucket, Key: `moved/sealed-${size}`, SSECustomerAlgorithm: 'AES256', SSECustomerKey },
    };
    await client.send(new s3.PutObjectCommand({ ...sealed, Body: bytesOf(size) }));
    const before = await headOf(Bucket, Key);
    const stored = countIn('disk1');
    const filter = { And: { Prefix: 'moved/', ObjectSizeGreaterThan: 10 } };
    await setRules(Bucket, [{ ...rule('moved/', into('ONEZONE_IA')), Filter: filter }]);
    await becomes(Bucket, Key, 'ONEZONE_IA');
    const after = await headOf(Bucket, Key);
    for (const name of [
      'ETag',
      'LastModified',
      'ContentLength',
      'Metadata',
      'VersionId',
    ] as const) {
      expect(after[name]).toEqual(before[name]);
    }
    await vi.waitFor(async () => {
      const { StorageClass } = await client.send(new s3.HeadObjectCommand(sealed));
      expect(StorageClass).toBe('ONEZONE_IA');
    }, soon);
    expect(countIn('disk1') - stored).toBe(2 * Math.ceil(size / (8 * 1024 * 1024)));
    const { Body } = await client.send(new s3.GetObjectCommand(sealed));
    const bytes = Buffer.from((await Body?.transformToByteArray()) ?? []);
    expect(bytes.equals(bytesOf(size))).toBe(true);
    const bare = client.send(new s3.GetObjectCommand({ Bucket, Key: sealed.Key }));
    await expect(bare).rejects.toMatchObject({ name: 'InvalidRequest' });
    expect((await read(Bucket, Key)).equals(bytesOf(size))).toBe(true);
    const [moved, ...more] = await movesOf(Key);
    expect(more).toEqual([]);
    expect(moved).toMatchObject({
      ...{ class: 'derived', bucketOwner: 'admin', principal: 'admin', storedBytes: 0 },
      change: { moved: { from: 'STANDARD', to: 'derived' }, rule: 'moved/' },
    });
    await setRules(Bucket, [rule('none/', into('ONEZONE_IA'))]);
  });

  test('keeps noncurrent versions what and where they are, and names them as before', async () => {
    const Bucket = 'versioned';
    await client.send(new s3.CreateBucketCommand({ Bucket }));
    await client.send(
      new s3.PutBucketVersioningCommand({
        ...{ Bucket, VersioningConfiguration: { Status: 'Enabled' } },
      }),
    );
    const ids: string[] = [];
    for (const n of [1, 2, 3, 4]) {
      const { VersionId } = await put(Bucket, 'k', bytesOf(200_000 + n));
      ids.push(VersionId as string);
    }
    const NoncurrentVersionTransitions = [
      { NoncurrentDays: 1, NewerNoncurrentVersions: 1, StorageClass: 'ONEZONE_IA' as const },
    ];
    await setRules(Bucket, [rule('', { NoncurrentVersionTransitions })]);
    const [first, second, third, fourth] = ids as [string, string, string, string];
    await becomes(Bucket, 'k', 'ONEZONE_IA', first);
    await becomes(Bucket, 'k', 'ONEZONE_IA', second);
    expect((await headOf(Bucket, 'k', third)).StorageClass).toBeUndefined();
    expect((await headOf(Bucket, 'k', fourth)).StorageClass).toBeUndefined();
    const listed = await client.send(new s3.ListObjectVersionsCommand({ Bucket }));
    expect(listed.Versions?.map(({ VersionId }) => VersionId)).toEqual(ids.reverse());
    const { Body } = await client.send(
      new s3.GetObjectCommand({ Bucket, Key: 'k', VersionId: first }),
    );
    expect(Buffer.from((await Body?.transformToByteArray()) ?? []).length).toBe(200_001);
  });

  test('leaves a copy and a snapshot the bytes that they share', async () => {
    const Bucket = 'second';
    await put(Bucket, 'shared/a', bytesOf(MB));
    await client.send(
      new s3.CopyObjectCommand({ Bucket, Key: 'other/b', CopySource: `${Bucket}/shared/a` }),
    );
    await run('snapshot', 'create', 's3://second', 'then');
    await run('snapshot', 'mount', 's3://second', 'then', 'second-then');
    await setRules(Bucket, [rule('shared/', into('ONEZONE_IA'))]);
    await becomes(Bucket, 'shared/a', 'ONEZONE_IA');
    expect((await read(Bucket, 'other/b')).equals(bytesOf(MB))).toBe(true);
    expect((await read('second-then', 'shared/a')).equals(bytesOf(MB))).toBe(true);
    await client.send(new s3.DeleteObjectCommand({ Bucket, Key: 'shared/a' }));
    expect((await read('second-then', 'shared/a')).equals(bytesOf(MB))).toBe(true);
    // What is brought back is the same object, so that it is brought back once.
    expect(await run('snapshot', 'restore', 's3://second', 'then')).toBe('1 restored, 0 deleted\n');
    expect(await run('snapshot', 'restore', 's3://second', 'then')).toBe('0 restored, 0 deleted\n');
    expect(await run('snapshot', 'diff', 's3://second', 'then')).not.toContain('shared/a');
    await setRules(Bucket, [rule('none/', into('ONEZONE_IA'))]);
    await run('mount', 'delete', 'default/second-then');
  });

  test('passes over what is small, unless the rule says how small', async () => {
    await put('first', 'small/a', bytesOf(100_000));
    await put('first', 'small/b', bytesOf(200_000));
    await setRules('first', [rule('small/', into('ONEZONE_IA'))], 'varies_by_storage_class');
    await becomes('first', 'small/b', 'ONEZONE_IA');
    expect((await headOf('first', 'small/a')).StorageClass).toBeUndefined();
    const asked = await client.send(
      new s3.GetBucketLifecycleConfigurationCommand({ Bucket: 'first' }),
    );
    expect(asked.TransitionDefaultMinimumObjectSize).toBe('varies_by_storage_class');
    expect(asked.Rules?.[0]?.Transitions).toEqual([{ Days: 1, StorageClass: 'ONEZONE_IA' }]);
  });

  test('goes into several legs, and waits for the owner’s money', async () => {
    const Bucket = 'versioned';
    await put(Bucket, 'poor', bytesOf(200_000));
    const { VersionId } = await put(Bucket, 'poor', 'x');
    await setRules(Bucket, [rule('poor', into('ONEZONE_IA'))]);
    await run('limit', 'set', 'bucket:default/versioned', '--spend', 'total=0');
    // It is current again, and due. Deletions are free.
    await client.send(new s3.DeleteObjectCommand({ Bucket, Key: 'poor', VersionId }));
    await put('second', 'rich/a', bytesOf(200_000));
    const before = [extentsIn('disk2'), extentsIn('near')] as const;
    await setRules('second', [rule('rich/', into('EXPRESS_ONEZONE'))]);
    await becomes('second', 'rich/a', 'EXPRESS_ONEZONE');
    expect(newIn('disk2', before[0])).toEqual(newIn('near', before[1]));
    expect(newIn('disk2', before[0])).toHaveLength(1);
    expect(await movesOf('poor')).toEqual([]);
    await run('limit', 'delete', 'bucket:default/versioned');
    // Midnight is when rules are looked at again.
    await becomes(Bucket, 'poor', 'ONEZONE_IA');
  });

  // The second has another copy as well, under a price book that has no minimum.
  test.each(['spare', 'twice'])('begins the minimum time of the class %s', async (name) => {
    const Key = `early ${name}`;
    await put('first', Key, bytesOf(200_000));
    await setRules('first', [rule(Key, into(name))]);
    await becomes('first', Key, name === 'twice' ? 'STANDARD_IA' : name);
    await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key }));
    const of = ['--bucket', 's3://first', '--prefix', Key, '--json'];
    const told = (await run('records', ...of)).split('\n').flatMap((line) => {
      const one = line === '' ? undefined : JSON.parse(line);
      return one ? [one.record ?? one] : [];
    });
    const [moved, ended] = ['bursar:MoveObject', 's3:DeleteObject'].map((action) =>
      told.find((one) => one.action === action),
    );
    const keptMs = Date.parse(ended.time) - Date.parse(moved.time);
    const month = 30n * 86_400_000n;
    const owed = 200_000n * (month - BigInt(keptMs)) * 300_000_000_000n;
    const [over, by] = [owed, 2n ** 30n * month];
    expect(parseUsd(ended.storageCost)).toBe((over + by - 1n) / by);
  });

  test('is refused into what is no class, or can be written to by nobody', async () => {
    const sent = (name: string) => refusal(setRules('first', [rule('x/', into(name))]));
    expect(await sent('nothing')).toBe('400 MalformedXML');
    expect(await sent('INTELLIGENT_TIERING')).toBe('501 NotImplemented');
    expect(await refusal(setRules('second', [rule('x/', into('homes'))]))).toBe(
      '501 NotImplemented',
    );
    expect(await sent('STANDARD')).toBe('400 MalformedXML');
    const both = { ...into('ONEZONE_IA'), Expiration: { Days: 1 } };
    expect(await refusal(setRules('first', [rule('x/', both)]))).toBe('400 InvalidArgument');
  });
});

describe('an object in an archive', () => {
  const restore = (Key: string, Days = 1) =>
    client.send(
      new s3.RestoreObjectCommand({
        ...{ Bucket: 'first', Key },
        RestoreRequest: { Days, GlacierJobParameters: { Tier: 'Bulk' } },
      }),
    );
  const restoreOf = async (Key: string) => (await headOf('first', Key)).Restore;
  /** As each of the listings tells of it. */
  async function listedStatus(Prefix: string): Promise<(s3.RestoreStatus | undefined)[]> {
    const query = { Bucket: 'first', Prefix };
    const asked = { ...query, OptionalObjectAttributes: ['RestoreStatus' as const] };
    const [v2, v1, versions, unasked] = [
      await client.send(new s3.ListObjectsV2Command(asked)),
      await client.send(new s3.ListObjectsCommand(asked)),
      await client.send(new s3.ListObjectVersionsCommand(asked)),
      await client.send(new s3.ListObjectsV2Command(query)),
    ];
    expect(unasked.Contents?.map((one) => one.RestoreStatus)).toEqual([undefined]);
    return [...(v2.Contents ?? []), ...(v1.Contents ?? []), ...(versions.Versions ?? [])].map(
      (one) => one.RestoreStatus,
    );
  }

  test('is put, moved and shown, and is read after a restore and no longer', async () => {
    await put('first', 'cold/put', bytesOf(300_000), 'DEEP_ARCHIVE');
    expect(countIn('tape')).toBe(1);
    await put('first', 'cold/moved', bytesOf(20 * MB));
    await setRules('first', [rule('cold/moved', into('DEEP_ARCHIVE'))]);
    await becomes('first', 'cold/moved', 'DEEP_ARCHIVE');
    const objects = [
      ['cold/put', 300_000],
      ['cold/moved', 20 * MB],
    ] as const;
    await Promise.all(objects.map(([Key, size]) => restoreAndWait(Key, size)));
    const actions = ['s3:RestoreObject', 'bursar:CompleteRestore', 'bursar:EndRestore'];
    for (const action of actions) {
      await vi.waitFor(
        async () =>
          expect(await run('records', '--action', action, '--json')).toContain('"cold/moved"'),
        soon,
      );
    }
    const told = await run('changes', 's3://first/cold/moved', '--json');
    const names = Array.from(told.matchAll(/"eventName":"([^"]+)"/g), ([, name]) => name);
    const [made, moved, ...restores] = names;
    expect([made, moved]).toEqual(['ObjectCreated:Put', 'LifecycleTransition']);
    expect([...new Set(restores)]).toEqual([
      ...['ObjectRestore:Post', 'ObjectRestore:Completed', 'ObjectRestore:Delete'],
    ]);
  });

  async function restoreAndWait(Key: string, size: number): Promise<void> {
    expect(await headOf('first', Key)).toMatchObject({ StorageClass: 'DEEP_ARCHIVE' });
    expect(await restoreOf(Key)).toBeUndefined();
    expect(await listedStatus(Key)).toEqual([undefined, undefined, undefined]);
    expect(await refusal(read('first', Key))).toBe('403 InvalidObjectState');
    const copy = { Bucket: 'first', Key: 'cold/copy', CopySource: `first/${Key}` };
    expect(await refusal(client.send(new s3.CopyObjectCommand(copy)))).toBe(
      '403 InvalidObjectState',
    );
    // Days last a second here.
    expect((await restore(Key, 30)).$metadata.httpStatusCode).toBe(202);
    expect(await restoreOf(Key)).toBe('ongoing-request="true"');
    const underWay = { IsRestoreInProgress: true };
    expect(await listedStatus(Key)).toEqual([underWay, underWay, underWay]);
    expect(await refusal(restore(Key))).toBe('409 RestoreAlreadyInProgress');
    expect(await refusal(read('first', Key))).toBe('403 InvalidObjectState');
    await vi.waitFor(
      async () => expect(await restoreOf(Key)).toContain('ongoing-request="false", expiry-date='),
      soon,
    );
    const there = { IsRestoreInProgress: false, RestoreExpiryDate: expect.any(Date) };
    expect(await listedStatus(Key)).toEqual([there, there, there]);
    expect((await read('first', Key)).equals(bytesOf(size))).toBe(true);
    expect((await restore(Key, 1)).$metadata.httpStatusCode).toBe(200);
    await vi.waitFor(async () => expect(await restoreOf(Key)).toBeUndefined(), soon);
    expect(await refusal(read('first', Key))).toBe('403 InvalidObjectState');
  }

  test('is copied within the archive unread before it is restored', async () => {
    await put('first', 'cold/kept', bytesOf(300_000), 'DEEP_ARCHIVE');
    const copied = { Bucket: 'first', Key: 'cold/back', CopySource: 'first/cold/kept' };
    const copy = (more: Partial<s3.CopyObjectCommandInput>) =>
      client.send(new s3.CopyObjectCommand({ ...copied, ...more }));
    const StorageClass = 'DEEP_ARCHIVE';
    await copy({ StorageClass });
    expect(await headOf('first', 'cold/back')).toMatchObject({ StorageClass });
    const shut = '403 InvalidObjectState';
    expect(await refusal(read('first', 'cold/back'))).toBe(shut);
    expect(await refusal(copy({ StorageClass, ChecksumAlgorithm: 'SHA256' }))).toBe(shut);
    expect(await refusal(copy({ StorageClass: 'GLACIER_IR' as s3.StorageClass }))).toBe(shut);
    // Another class of the same store would be read when its own restore is there.
    const file = join(place.folder, 'other.yaml');
    const durability = { legs: [{ store: 'tape' }] };
    const other = { name: 'other', durability, access: 'restore', restoreWithinHours: 1 };
    writeFileSync(file, JSON.stringify({ classes: [other] }));
    await run('class', 'create', 'default', file);
    expect(await refusal(copy({ StorageClass: 'other' as s3.StorageClass }))).toBe(shut);
    const upload = { Bucket: 'first', Key: 'cold/parts' };
    const { UploadId } = await client.send(
      new s3.CreateMultipartUploadCommand({ ...upload, StorageClass }),
    );
    const part = { ...upload, UploadId, PartNumber: 1, CopySource: copied.CopySource };
    expect(await refusal(client.send(new s3.UploadPartCopyCommand(part)))).toBe(shut);
  });

  test('is one alone that is restored, and by a document that says for how long', async () => {
    await put('first', 'warm', 'x');
    expect(await refusal(restore('warm'))).toBe('403 InvalidObjectState');
    expect(await refusal(restore('nothing'))).toBe('404 NoSuchKey');
    for (const days of [0, 2_000_000_000]) {
      expect(await refusal(restore('cold/put', days))).toBe('400 InvalidArgument');
    }
    expect(await refusal(restore('cold/put', 2 ** 31))).toBe('400 MalformedXML');
  });
});

interface Stored {
  id: string;
  store: string;
}

/** The extents that the catalog has in stores besides the data folder. */
async function extentsKnown(): Promise<Stored[]> {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const rows = await db.tx.all<Stored>(
    `SELECT lower(hex(id)) AS id, name AS store FROM (
       SELECT id, store FROM extents WHERE state = 1
       UNION SELECT extent_id, c.store FROM extent_copies AS c JOIN extents AS e
         ON e.id = extent_id WHERE e.state = 1)
       JOIN stores ON number = store WHERE number > 1`,
  );
  db.close();
  return rows;
}

const namesOf = (stored: readonly Stored[]) =>
  stored.map(({ id, store }) => `${store}/${id}`).sort();

function extentsFound(): string[] {
  return namesOf(
    ['near', 'disk1', 'disk2', 'tape', 'vault'].flatMap((store) =>
      extentsIn(store).map((path) => ({ store, id: basename(path) })),
    ),
  );
}

const killsMax = Number(process.env.BURSAR_KILLS ?? (isFull ? 1000 : 3));

/** At which of the steps of a move the gateway has been killed. */
async function stepsOfKill(): Promise<string[]> {
  const stored = new Set(extentsFound().map((name) => name.slice(name.indexOf('/') + 1)));
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const rows = await db.tx.all<{ id: string; state: number }>(
    'SELECT lower(hex(id)) AS id, state FROM extents WHERE state <> 1',
  );
  db.close();
  const steps = rows.flatMap(({ id, state }) => {
    if (state === 0) return stored.has(id) ? ['written, and not committed'] : ['only declared'];
    return state === 2 && stored.has(id) ? ['committed, and not swept'] : [];
  });
  return [...new Set(steps)];
}

/** A round, and what is waited for before it, is killed within the time that a kill has. */
const roundMsMax = 4000;

/** How many records of moves there are. */
async function countMoved(): Promise<number> {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const row = await db.tx.get<{ count: number }>(
    `SELECT count(*) AS count FROM records
       WHERE json_extract(record, '$.action') = 'bursar:MoveObject'`,
  );
  db.close();
  return row?.count ?? 0;
}

test(
  `a gateway that is killed ${killsMax} times while it moves loses and leaves nothing`,
  async () => {
    const sizes = [100, 200_000, 300_000, 9 * MB];
    const keys = Array.from({ length: 12 }, (_, i) => `killed/${i}`);
    const sizeOf = (key: string) => (sizes[Number(key.slice(7)) % sizes.length] ?? 0) + key.length;
    for (const key of keys) await put('first', key, bytesOf(sizeOf(key)));
    const random = seededRandom(Number(process.env.BURSAR_KILL_SEED ?? 20261128));
    const steps = new Map<string, number>();
    const classes = ['ONEZONE_IA', 'spare', 'EXPRESS_ONEZONE', 'STANDARD_IA'];
    const begin = (StorageClass: string) => {
      const And = { Prefix: 'killed/', ObjectSizeGreaterThan: 1 };
      const to = StorageClass as s3.TransitionStorageClass;
      const Transitions = [{ Date: new Date('2020-01-01'), StorageClass: to }];
      return setRules('first', [{ ...rule('killed/', { Transitions }), Filter: { And } }]);
    };
    // How long a round lasts that nothing disturbs, from which the moments of kills are drawn.
    const beganMs = performance.now();
    await begin('GLACIER_IR');
    for (const key of keys) await becomes('first', key, 'GLACIER_IR');
    let roundMs = performance.now() - beganMs;
    for (let kill = 0; kill < killsMax; kill++) {
      await begin(classes[kill % classes.length] as string);
      const movedBefore = await countMoved();
      // Every other one at any time, and the others some time after something was written.
      const before = kill % 2 === 0 ? null : extentsFound().join();
      const untilMs = performance.now() + 2 * roundMs;
      while (extentsFound().join() === before && performance.now() < untilMs) await sleep(20);
      await sleep(randomBelow(random, Math.ceil(before === null ? roundMs : roundMs / 4)));
      await served.stop('SIGKILL');
      for (const step of await stepsOfKill()) steps.set(step, (steps.get(step) ?? 0) + 1);
      // The machine may have more, or less, to do than before.
      const moved = (await countMoved()) - movedBefore;
      if (moved === 0) roundMs = Math.min(roundMs * 1.2, roundMsMax);
      else if (moved === keys.length) roundMs /= 1.2;
      await serve();
    }
    console.log(`kills by steps: ${JSON.stringify([...steps])}`);
    if (killsMax >= 100) expect(steps.size).toBe(3);
    const last = classes[(killsMax - 1) % classes.length];
    for (const key of keys) {
      await becomes('first', key, last);
      expect((await read('first', key)).equals(bytesOf(sizeOf(key)))).toBe(true);
    }
    await vi.waitFor(
      async () => expect(extentsFound()).toEqual(namesOf(await extentsKnown())),
      soon,
    );
    const moves = await listMoves();
    for (const key of keys) {
      // Each move begins where the one before has ended.
      const own = moves.filter((one) => one.key === key).map(({ change }) => change.moved);
      const ends = ['STANDARD', ...own.map(({ to }) => to)];
      expect([...own.map(({ from }) => from), own.at(-1)?.to]).toEqual(ends);
      // Each is paid for once, as one PUT.
      const costs = moves.filter((one) => one.key === key).map(({ cost }) => cost);
      expect(new Set(costs)).toEqual(new Set([costs[0]]));
    }
    if (killsMax < 100) return;
    await served.stop();
    expect(await run('verify', 'deep', '--config', 'config.yaml')).toMatch(/^compared /);
    await serve();
  },
  killsMax * 20_000 + 120_000,
);

describe('what follows use', () => {
  const Bucket = 'second';
  const archives = (Tierings: s3.Tiering[], Id = 'old') =>
    client.send(
      new s3.PutBucketIntelligentTieringConfigurationCommand({
        ...{ Bucket, Id },
        IntelligentTieringConfiguration: {
          ...{ Id, Status: 'Enabled', Tierings },
          Filter: { And: { Prefix: 'used/', Tags: [{ Key: 'kind', Value: 'raw' }] } },
        },
      }),
    );
  const cool: s3.Tiering = { AccessTier: 'ARCHIVE_ACCESS', Days: 90 };

  test('is nothing where no class stands for it', async () => {
    expect(await refusal(put(Bucket, 'used/none', 'x', 'INTELLIGENT_TIERING'))).toBe(
      '501 NotImplemented',
    );
    expect(await refusal(archives([cool]))).toBe('501 NotImplemented');
  });

  test('moves down by days without a read, and back where it is read on two days', async () => {
    const legs = (store: string) => ({ durability: { legs: [{ store }] } });
    const archive = { access: 'restore', restoreWithinHours: 1 };
    const classes = [
      { name: 'smart', aliases: ['INTELLIGENT_TIERING'], ...legs('near') },
      { name: 'smart-cool', ...legs('disk2'), tier: { of: 'smart', afterDays: 2 } },
      {
        ...{ name: 'smart-archive', ...legs('tape'), ...archive },
        tier: { of: 'smart', archive: 'ARCHIVE_ACCESS' },
      },
    ];
    const file = join(place.folder, 'smart.yaml');
    writeFileSync(file, JSON.stringify({ classes }));
    await run('class', 'create', 'default', file);
    expect(await run('class', 'explain', 'default/smart-cool')).toContain('tier of smart');
    const smart = JSON.parse(await run('class', 'explain', 'default/smart', '--json'));
    expect(smart.tiers).toEqual([
      { class: 'smart-cool', afterDays: 2, archive: null },
      { class: 'smart-archive', afterDays: null, archive: 'ARCHIVE_ACCESS' },
    ]);
    expect(smart.explanation.sentences.join(' ')).toMatch(
      /not read for 2 days moves to its tier smart-cool\..*ARCHIVE_ACCESS moves to its tier smart-archive\./,
    );
    for (const Key of ['used/a', 'used/b']) {
      await put(Bucket, Key, bytesOf(300_000), 'INTELLIGENT_TIERING');
    }
    await put(Bucket, 'used/small', bytesOf(1000), 'INTELLIGENT_TIERING');
    expect(await refusal(put(Bucket, 'used/c', 'x', 'smart-cool'))).toBe('501 NotImplemented');
    const wentTo = async (Key: string) => (await movesOf(Key)).map((one) => one.change.moved.to);
    const goes = (Key: string, to: string[]) =>
      vi.waitFor(async () => expect((await wentTo(Key)).slice(0, to.length)).toEqual(to), soon);
    await goes('used/a', ['smart-cool']);
    await goes('used/b', ['smart-cool']);
    expect((await headOf(Bucket, 'used/a')).StorageClass).toBe('INTELLIGENT_TIERING');
    await read(Bucket, 'used/b');
    const reading = setInterval(() => void read(Bucket, 'used/a').catch(() => {}), 300);
    await goes('used/a', ['smart-cool', 'smart']).finally(() => clearInterval(reading));
    await goes('used/a', ['smart-cool', 'smart', 'smart-cool']);
    expect((await read(Bucket, 'used/a')).equals(bytesOf(300_000))).toBe(true);
    expect(await wentTo('used/b')).toEqual(['smart-cool']);
    const told = await run('changes', 's3://second/used/b', '--json');
    expect(told).toContain('"eventName":"IntelligentTiering"');
    expect(await wentTo('used/small')).toEqual([]);
    const listed = await client.send(new s3.ListObjectsV2Command({ Bucket, Prefix: 'used/' }));
    expect(new Set(listed.Contents?.map((one) => one.StorageClass))).toEqual(
      new Set(['INTELLIGENT_TIERING']),
    );
  });

  test('goes into archives as configurations of its bucket say', async () => {
    await archives([cool]);
    await archives([cool], 'another');
    const deep: s3.Tiering = { AccessTier: 'DEEP_ARCHIVE_ACCESS', Days: 180 };
    expect(await refusal(archives([deep]))).toBe('501 NotImplemented');
    expect(await refusal(archives([{ ...cool, Days: 89 }]))).toBe('400 InvalidArgument');
    expect(await refusal(archives([{ ...cool, Days: 731 }]))).toBe('400 InvalidArgument');
    expect(await refusal(archives([{ ...cool, Days: 200 }, deep]))).toBe('400 InvalidArgument');
    expect(await refusal(archives([cool, cool]))).toBe('400 MalformedXML');
    expect(await refusal(archives([]))).toBe('400 MalformedXML');
    const listed = await client.send(
      new s3.ListBucketIntelligentTieringConfigurationsCommand({ Bucket }),
    );
    expect(listed.IsTruncated).toBe(false);
    expect(listed.IntelligentTieringConfigurationList?.map(({ Id }) => Id)).toEqual([
      'another',
      'old',
    ]);
    const at = { Bucket, Id: 'old' };
    const { IntelligentTieringConfiguration: found } = await client.send(
      new s3.GetBucketIntelligentTieringConfigurationCommand(at),
    );
    expect(found).toMatchObject({
      ...{ Id: 'old', Status: 'Enabled', Tierings: [cool] },
      Filter: { And: { Prefix: 'used/', Tags: [{ Key: 'kind', Value: 'raw' }] } },
    });
    await client.send(new s3.DeleteBucketIntelligentTieringConfigurationCommand(at));
    const gone = [
      client.send(new s3.GetBucketIntelligentTieringConfigurationCommand(at)),
      client.send(new s3.DeleteBucketIntelligentTieringConfigurationCommand(at)),
    ];
    const missing = '404 NoSuchConfiguration';
    expect(await Promise.all(gone.map(refusal))).toEqual([missing, missing]);
  });

  // Archives take 90 and 180 days at least, which last a second here.
  test.runIf(isFull)(
    'goes on from an archive into a deeper one, and back when it was restored',
    async () => {
      const Key = 'used/deep';
      const deeper = {
        ...{ name: 'smart-deep', durability: { legs: [{ store: 'vault' }] }, access: 'restore' },
        ...{ restoreWithinHours: 1, tier: { of: 'smart', archive: 'DEEP_ARCHIVE_ACCESS' } },
      };
      const file = join(place.folder, 'deep.yaml');
      writeFileSync(file, JSON.stringify({ classes: [deeper] }));
      await run('class', 'create', 'default', file);
      await archives([cool, { AccessTier: 'DEEP_ARCHIVE_ACCESS', Days: 180 }]);
      await client.send(
        new s3.PutObjectCommand({
          ...{ Bucket, Key, Body: bytesOf(9 * MB), Tagging: 'kind=raw' },
          StorageClass: 'INTELLIGENT_TIERING',
        }),
      );
      const [tape, vault] = [countIn('tape'), countIn('vault')];
      const wentTo = async () => (await movesOf(Key)).map((one) => one.change.moved.to);
      const inTime = { timeout: 240_000, interval: 1000 };
      const all = ['smart-cool', 'smart-archive', 'smart-deep'];
      await vi.waitFor(async () => expect(await wentTo()).toEqual(all), inTime);
      await vi.waitFor(() => expect(countIn('tape')).toBe(tape), soon);
      expect(countIn('vault')).toBe(vault + 2);
      expect((await headOf(Bucket, Key)).ArchiveStatus).toBe('DEEP_ARCHIVE_ACCESS');
      expect(await refusal(read(Bucket, Key))).toBe('403 InvalidObjectState');
      const near = extentsIn('near');
      await client.send(new s3.RestoreObjectCommand({ Bucket, Key, RestoreRequest: {} }));
      // It is killed on the way, at any time after something was written.
      await vi.waitFor(() => expect(newIn('near', near)).not.toEqual([]), { ...soon, interval: 5 });
      await served.stop('SIGKILL');
      await serve();
      await vi.waitFor(async () => expect(await wentTo()).toEqual([...all, 'smart']), soon);
      expect((await read(Bucket, Key)).equals(bytesOf(9 * MB))).toBe(true);
      await vi.waitFor(() => expect(newIn('near', near)).toHaveLength(2), soon);
      await vi.waitFor(() => expect(countIn('vault')).toBe(vault), soon);
    },
    400_000,
  );
});

test('what was moved differs in nothing from its records, and is there after a kill', async () => {
  await served.stop('SIGKILL');
  await serve();
  expect(await run('verify', 'data')).toMatch(/^verified \d+ versions, [^\n]+\n$/);
  await served.stop();
  expect(await run('verify', 'deep', '--config', 'config.yaml')).toMatch(/^compared /);
  await serve();
  await run('snapshot', 'delete', 's3://second', 'then');
  await served.stop();
});

test('what was moved is where it was moved when the database is lost', async () => {
  for (const more of ['', '-wal', '-shm']) {
    rmSync(join(place.data, `bursar.db${more}`), { force: true });
  }
  const settings = { ...environment, BURSAR_PRICE_BOOKS: books };
  const rebuilt = await place.run(['rebuild', '--config', config, '--json'], settings);
  expect(JSON.parse(rebuilt.stdout)).toMatchObject({ lost: { count: 0 } });
  await serve();
  const Key = `moved/${20 * MB}`;
  expect(await headOf('second', Key)).toMatchObject({ StorageClass: 'ONEZONE_IA' });
  expect((await read('second', Key)).equals(bytesOf(20 * MB))).toBe(true);
  expect(await headOf('second', 'rich/a')).toMatchObject({ StorageClass: 'EXPRESS_ONEZONE' });
});
