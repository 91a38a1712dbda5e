// Objects in storage classes, on a served gateway with folder stores: where their bytes are, what
// clients are shown, what is refused, and that they outlive a kill and the loss of the database.
import { hash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import * as s3 from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openFolderPlace } from '#bursar/backup/folder-place.js';
import { manifestName, readManifest, sealManifest } from '#bursar/backup/manifest.js';
import { PieceSealer, PieceStore } from '#bursar/backup/pieces.js';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { formBody, formHeaders, signPolicy } from '../protocol/forms.ts';
import {
  becomesWhole,
  bytesIn,
  bytesOf,
  client,
  config,
  copiesWaiting,
  countIn,
  damage,
  environment,
  extentsIn,
  folderOf,
  head,
  keys,
  localCopy,
  MB,
  newIn,
  place,
  put,
  read,
  refusal,
  run,
  serve,
  served,
  startRig,
  stopRig,
} from './class-rig.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

beforeAll(startRig);
afterAll(stopRig);

test('a plan by use says what staying and moving would have cost', async () => {
  await put('first', 'probed/a', bytesOf(300_000));
  await read('first', 'probed/a');
  const planned = ['tiering', 'plan', 's3://first/probed/'];
  const chain = ['--chain', 'STANDARD', 'STANDARD_IA', 'default/derived'];
  const { of, staying, byUse, best, tiers, notes, ...plan } = await vi.waitFor(
    async () => {
      const told = JSON.parse(await run(...planned, ...chain, '--json'));
      expect(told.of.reads).toBe(1);
      return told;
    },
    { timeout: 60_000 },
  );
  expect(of).toEqual({
    ...{ tenant: 'default', bucket: 'first', prefix: 'probed/', versions: 1, reads: 1 },
  });
  expect(plan).toEqual({ chain: chain.slice(1), movesDown: 0, movesBack: 0, patience: 1 });
  expect(byUse).toEqual(staying);
  expect(Number(best)).toBeLessThanOrEqual(Number(byUse.total));
  expect(Number(staying.reads)).toBe(4e-7);
  expect(tiers).toEqual([
    { name: 'STANDARD', versions: 1, bytes: 300_000, idleDays: 0 },
    { name: 'STANDARD_IA', versions: 0, bytes: 0, idleDays: 65 },
    // Its folder is charged as STANDARD is, so nothing is saved there.
    { name: 'default/derived', versions: 0, bytes: 0, idleDays: null },
  ]);
  expect(notes).toHaveLength(3);
  const text = await run(...planned, '--chain', 'STANDARD', 'GLACIER_IR', '--horizon', '30');
  expect(text).toMatch(/^1 versions, 1 reads\nUSD +ALL IN STANDARD +BY USE +BEST IN HINDSIGHT\n/);
  expect(text).toMatch(/\nGLACIER_IR +0 +0 B +after \d+ days without a read\n/);
  for (const [asked, said] of [
    [['--chain', 'STANDARD', 'NONE'], 'has no class NONE'],
    [['--chain', 'STANDARD'], 'two classes at least'],
    [['--chain', 'STANDARD', 'STANDARD'], 'each once'],
    [['--horizon', '0'], 'Must be 1 to 99999'],
    [['--chain', 'STANDARD', 'default/none'], 'NoSuchClass'],
  ] as const) {
    const { code, stderr } = await place.run([...planned, ...asked]);
    expect(stderr).toContain(said);
    expect(code).not.toBe(0);
  }
});

describe('an object in a class', () => {
  test.each([
    ['of one byte', 1],
    ['of some', 300_000],
    ['of many extents', 20 * MB],
  ])('%s lies in the store of its leg, and is read and shown', async (_, size) => {
    const before = countIn('disk1');
    const Key = `object-${size}`;
    const made = await put('first', Key, bytesOf(size), 'ONEZONE_IA');
    expect(countIn('disk1') - before).toBe(Math.ceil(size / (8 * 1024 * 1024)));
    expect(made.ETag).toBeDefined();
    const shown = await head('first', Key);
    expect(shown).toMatchObject({ StorageClass: 'ONEZONE_IA', ContentLength: size });
    expect((await read('first', Key)).equals(bytesOf(size))).toBe(true);
    const asked = { Bucket: 'first', Key, ObjectAttributes: ['StorageClass' as const] };
    expect(await client.send(new s3.GetObjectAttributesCommand(asked))).toMatchObject({
      StorageClass: 'ONEZONE_IA',
    });
  });

  test('can come by a form', async () => {
    const said = { bucket: 'first', key: 'formed', 'x-amz-storage-class': 'ONEZONE_IA' };
    const conditions = Object.entries(said).map(([name, value]) => ({ [name]: value }));
    const fields = [...Object.entries(said).slice(1), ...signPolicy(keys, conditions)];
    const body = formBody(fields, { content: bytesOf(1000) });
    const sent = { method: 'POST', headers: formHeaders, body };
    const answer = await fetch(`${served.endpoint}/first`, sent);
    expect([answer.status, answer.headers.get('x-bursar-class')]).toEqual([204, 'derived']);
    expect(await head('first', 'formed')).toMatchObject({ StorageClass: 'ONEZONE_IA' });
  });

  test('is listed by the alias, and by the name where it has none', async () => {
    await put('first', 'list/named', 'x', 'kept');
    await put('first', 'list/standard', 'x');
    await put('first', 'list/derived', 'x', 'derived');
    const listed = await client.send(
      new s3.ListObjectsV2Command({ Bucket: 'first', Prefix: 'list/' }),
    );
    expect(listed.Contents?.map(({ StorageClass }) => StorageClass)).toEqual([
      ...['ONEZONE_IA', 'kept', 'STANDARD'],
    ]);
    const versions = await client.send(
      new s3.ListObjectVersionsCommand({ Bucket: 'first', Prefix: 'list/' }),
    );
    expect(versions.Versions?.map(({ StorageClass }) => StorageClass)).toEqual([
      ...['ONEZONE_IA', 'kept', 'STANDARD'],
    ]);
    expect(await head('first', 'list/standard')).not.toHaveProperty('StorageClass');
  });

  test('can be sent in parts, which are in its store from the first', async () => {
    const before = countIn('disk1');
    const asked = { Bucket: 'first', Key: 'parts' };
    const { UploadId } = await client.send(
      new s3.CreateMultipartUploadCommand({ ...asked, StorageClass: 'ONEZONE_IA' }),
    );
    const open = await client.send(new s3.ListMultipartUploadsCommand({ Bucket: 'first' }));
    expect(open.Uploads).toMatchObject([{ Key: 'parts', StorageClass: 'ONEZONE_IA' }]);
    const part = { ...asked, UploadId };
    const body = bytesOf(6 * MB);
    const one = await client.send(new s3.UploadPartCommand({ ...part, PartNumber: 1, Body: body }));
    const two = await client.send(
      new s3.UploadPartCopyCommand({ ...part, PartNumber: 2, CopySource: 'first/object-300000' }),
    );
    // The copied part shares the extent of its source.
    expect(countIn('disk1') - before).toBe(1);
    const Parts = [
      { PartNumber: 1, ETag: one.ETag },
      { PartNumber: 2, ETag: two.CopyPartResult?.ETag },
    ];
    await client.send(
      new s3.CompleteMultipartUploadCommand({ ...part, MultipartUpload: { Parts } }),
    );
    expect(await head('first', 'parts')).toMatchObject({ StorageClass: 'ONEZONE_IA' });
    expect((await read('first', 'parts')).equals(Buffer.concat([body, bytesOf(300_000)]))).toBe(
      true,
    );
  });

  test('is moved by a copy onto itself, and shares bytes with a copy in its class', async () => {
    const body = bytesOf(200_000);
    await put('first', 'moving', body);
    const before = [countIn('disk1'), countIn('disk2')] as const;
    const copy = (Key: string, StorageClass?: string) =>
      client.send(
        new s3.CopyObjectCommand({
          ...{ Bucket: 'first', Key, CopySource: 'first/moving' },
          StorageClass: StorageClass as s3.StorageClass,
        }),
      );
    await copy('moving', 'ONEZONE_IA');
    expect([countIn('disk1'), countIn('disk2')]).toEqual([before[0] + 1, before[1]]);
    await copy('sharing', 'derived');
    expect(countIn('disk1')).toBe(before[0] + 1);
    await copy('elsewhere', 'kept');
    expect(countIn('disk2')).toBe(before[1] + 1);
    await copy('plain');
    for (const [Key, StorageClass] of [
      ...[
        ['moving', 'ONEZONE_IA'],
        ['sharing', 'ONEZONE_IA'],
        ['elsewhere', 'kept'],
      ],
      ['plain', undefined],
    ] as [string, string | undefined][]) {
      expect((await head('first', Key)).StorageClass, Key).toBe(StorageClass);
      expect((await read('first', Key)).equals(body), Key).toBe(true);
    }
  });

  test('is charged by the book of its store', async () => {
    const due = new Map<string, string>();
    const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
    const rows = await db.tx.all<{ class: string; due: string }>(
      "SELECT class, due FROM quota_storage WHERE bucket = 'first'",
    );
    db.close();
    for (const row of rows) due.set(row.class, JSON.parse(row.due).at(-1)[0]);
    expect(Object.fromEntries(due)).toEqual({
      ...{ STANDARD: 'aws-us-east-1-2026', derived: 'aws-us-east-1-2026', kept: 'free' },
    });
  });
});

const copy = (CopySource: string, Key: string, StorageClass: string) =>
  client.send(
    new s3.CopyObjectCommand({
      ...{ Bucket: 'first', Key, CopySource: `first/${CopySource}` },
      StorageClass: StorageClass as s3.StorageClass,
    }),
  );

/** The bytes that a bucket is charged for in a class. */
async function billedIn(bucket: string, of: string): Promise<number> {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const sql = 'SELECT billed_bytes AS bytes FROM quota_storage WHERE bucket = ? AND class = ?';
  const row = await db.tx.get<{ bytes: number }>(sql, bucket, of);
  db.close();
  return row?.bytes ?? 0;
}

describe('an object in a class of two legs', () => {
  test.each([
    ['of one byte', 1],
    ['of some', 300_000],
    ['of many extents', 20 * MB],
  ])('%s is in both stores when it is acknowledged', async (_, size) => {
    const before = [extentsIn('disk2'), extentsIn('near')] as const;
    await put('first', `pair-${size}`, bytesOf(size), 'EXPRESS_ONEZONE');
    const made = newIn('disk2', before[0]).sort();
    expect(made).toHaveLength(Math.ceil(size / (8 * 1024 * 1024)));
    expect(newIn('near', before[1]).sort()).toEqual(made);
    for (const path of made)
      expect(bytesIn('disk2', path).equals(bytesIn('near', path))).toBe(true);
    expect((await read('first', `pair-${size}`)).equals(bytesOf(size))).toBe(true);
  });

  test('is acknowledged by one where the class says so, and copied then', async () => {
    const before = extentsIn('disk2');
    await put('first', 'loose', bytesOf(9 * MB), 'loose');
    const made = newIn('disk2', before);
    expect(made).toHaveLength(2);
    await vi.waitFor(() => expect(extentsIn('near')).toEqual(expect.arrayContaining(made)), {
      ...{ timeout: 60_000, interval: 100 },
    });
    for (const path of made) await becomesWhole(path);
  });

  test.each([
    ['is missing in one', (path: string) => rmSync(path)],
    ['is another in one', (path: string) => damage(path)],
    ['is short in one', (path: string) => truncateSync(path, 1000)],
  ])('what %s is read from the other, and put right', async (what, spoil) => {
    for (const size of [50_000, 9 * MB]) {
      const before = extentsIn('disk2');
      const Key = `spoilt ${what} ${size}`;
      await put('first', Key, bytesOf(size), 'pair');
      const made = newIn('disk2', before);
      for (const path of made) spoil(join(folderOf('disk2'), path));
      expect((await read('first', Key)).equals(bytesOf(size)), Key).toBe(true);
      const Range = `bytes=${size - 10_000}-${size - 1}`;
      const part = await client.send(new s3.GetObjectCommand({ Bucket: 'first', Key, Range }));
      const bytes = Buffer.from((await part.Body?.transformToByteArray()) ?? []);
      expect(bytes.equals(bytesOf(size).subarray(size - 10_000))).toBe(true);
      await vi.waitFor(() => expect(extentsIn('disk2')).toEqual(expect.arrayContaining(made)), {
        ...{ timeout: 60_000, interval: 100 },
      });
      for (const path of made) await becomesWhole(path);
    }
    for (const action of ['bursar:SuspectCopy', 'bursar:RepairCopy']) {
      const found = await run('records', '--action', action, '--json');
      expect(found).toContain('stores/disk2');
    }
  });

  test('where an older file has taken its place in one is read from the other', async () => {
    const paths: string[] = [];
    for (const Key of ['older', 'newer']) {
      const before = extentsIn('disk2');
      await put('first', Key, bytesOf(300_000), 'pair');
      paths.push(...newIn('disk2', before));
    }
    const [older = '', newer = ''] = paths;
    copyFileSync(join(folderOf('disk2'), older), join(folderOf('disk2'), newer));
    expect((await read('first', 'newer')).equals(bytesOf(300_000))).toBe(true);
    await becomesWhole(newer);
  });

  test('is read from any where the class says so, whichever has lost it', async () => {
    for (const size of [50_000, 9 * MB]) {
      const before = extentsIn('near');
      const Key = `any ${size}`;
      await put('first', Key, bytesOf(size), 'any');
      const made = newIn('near', before);
      // Which one is asked goes by how fast they are: in one of these turns it lacks the object.
      for (const [lost, kept] of [
        ['near', 'disk2'],
        ['disk2', 'near'],
      ] as const) {
        for (const path of made) rmSync(join(folderOf(lost), path));
        for (let i = 0; i < 3; i++) {
          expect((await read('first', Key)).equals(bytesOf(size)), Key).toBe(true);
        }
        for (const path of made)
          copyFileSync(join(folderOf(kept), path), join(folderOf(lost), path));
        for (const path of made) await becomesWhole(path);
      }
    }
  });

  test('shares its bytes with a copy whose write would wait for no more legs', async () => {
    const before = countIn('near');
    await copy('pair-300000', 'pair-copy', 'pair');
    await copy('pair-300000', 'loose-copy', 'loose');
    expect(countIn('near')).toBe(before);
    await copy('loose-copy', 'pair-again', 'pair');
    expect(countIn('near')).toBe(before + 1);
    await copy('pair-300000', 'single', 'kept');
    expect(countIn('near')).toBe(before + 1);
    for (const Key of ['pair-copy', 'loose-copy', 'pair-again', 'single']) {
      expect((await read('first', Key)).equals(bytesOf(300_000)), Key).toBe(true);
    }
  });

  test('is charged for each of its copies', async () => {
    const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
    const [row] = await db.tx.all<{ billed: number; size: number }>(
      "SELECT sum(billed) AS billed, sum(size) AS size FROM versions WHERE class = 'pair'",
    );
    db.close();
    expect(row?.billed).toBe(2 * (row?.size ?? 0));
  });

  test('can be sent in parts', async () => {
    const before = [extentsIn('disk2'), extentsIn('near')] as const;
    const asked = { Bucket: 'second', Key: 'pair-parts' };
    const billedBefore = await billedIn('second', 'pair');
    const { UploadId } = await client.send(
      new s3.CreateMultipartUploadCommand({ ...asked, StorageClass: 'EXPRESS_ONEZONE' }),
    );
    const part = { ...asked, UploadId, PartNumber: 1, Body: bytesOf(6 * MB) };
    const { ETag } = await client.send(new s3.UploadPartCommand(part));
    // A part has two copies, too.
    const billed = billedBefore + 2 * 6 * MB;
    expect(await billedIn('second', 'pair')).toBe(billed);
    const unused = { ...part, PartNumber: 2, Body: 'unused' };
    await client.send(new s3.UploadPartCommand(unused));
    expect(await billedIn('second', 'pair')).toBe(billed + 2 * 6);
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
    await client.send(
      new s3.CompleteMultipartUploadCommand({ ...asked, UploadId, MultipartUpload }),
    );
    expect(await billedIn('second', 'pair')).toBe(billed);
    const again = await client.send(
      new s3.CreateMultipartUploadCommand({ ...asked, StorageClass: 'EXPRESS_ONEZONE' }),
    );
    const aborted = { ...asked, UploadId: again.UploadId };
    await client.send(new s3.UploadPartCommand({ ...aborted, PartNumber: 1, Body: 'aborted' }));
    await client.send(new s3.AbortMultipartUploadCommand(aborted));
    expect(await billedIn('second', 'pair')).toBe(billed);
    expect(newIn('near', before[1]).sort()).toEqual(newIn('disk2', before[0]).sort());
    expect((await read('second', 'pair-parts')).equals(bytesOf(6 * MB))).toBe(true);
  });

  test('is read while one store is away, and written where the class waits for one', async () => {
    const before = extentsIn('near');
    renameSync(folderOf('disk2'), `${folderOf('disk2')}-away`);
    expect(await refusal(put('first', 'pair-away', bytesOf(MB), 'pair'))).toMatch(/^503 /);
    expect(await refusal(put('first', 'loose-away', bytesOf(MB), 'loose'))).toBe('done');
    expect((await read('first', 'loose-away')).equals(bytesOf(MB))).toBe(true);
    expect((await read('first', `pair-${20 * MB}`)).equals(bytesOf(20 * MB))).toBe(true);
    expect((await read('first', 'pair-1')).equals(bytesOf(1))).toBe(true);
    const listed: { kind: string; store?: string; extent: string }[] = JSON.parse(
      await run('work', 'list', '--json'),
    );
    // What earlier tests have spoilt may still wait to be repaired.
    const of = { kind: 'copy', store: 'disk2', tenant: 'default' };
    expect(listed).toEqual(expect.arrayContaining([expect.objectContaining(of)]));
    const isOf = (one: (typeof listed)[number]) => one.kind === 'copy' && one.store === 'disk2';
    const waiting = listed.find(isOf) as (typeof listed)[number];
    const row = new RegExp(`^${waiting.extent} +copy +a copy in disk2`, 'm');
    expect(await run('work', 'list')).toMatch(row);
    expect(await run('work', 'retry', waiting.extent)).toMatch(/^the copy in disk2 is \w+$/m);
    const none = await place.run(['work', 'retry', '0'.repeat(32)]);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('No copy of an extent')]);
    // What shares bytes writes none, and waits for no store.
    expect(await refusal(copy('pair-300000', 'shared-away', 'pair'))).toBe('done');
    rmSync(folderOf('disk2'), { recursive: true, force: true });
    renameSync(`${folderOf('disk2')}-away`, folderOf('disk2'));
    const made = newIn('near', before);
    expect(made.length).toBeGreaterThan(0);
    await vi.waitFor(
      async () => expect(await refusal(put('first', 'pair-back', 'x', 'pair'))).toBe('done'),
      { timeout: 90_000, interval: 1000 },
    );
    await vi.waitFor(
      () => expect(extentsIn('disk2').filter((path) => made.includes(path)).length).toBe(1),
      { timeout: 90_000, interval: 500 },
    );
  });
});

const backups = () => join(place.folder, 'backup');

async function createBackup(): Promise<string> {
  const { code, stdout } = await place.run(['backup', 'create', backups(), '--json']);
  expect(code).toBe(0);
  return (JSON.parse(stdout) as { id: string }).id;
}

/** A copy that is damaged later. */
let suspected = '';

/** Damages the copy in the data folder, as is known, while the gateway does not serve. */
async function suspectLocal(path: string): Promise<void> {
  damage(localCopy(path));
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: false, cacheKib: 1024 });
  const sql = 'UPDATE extent_copies SET state = 3 WHERE extent_id = ? AND store = 1';
  const { changes } = await db.tx.run(sql, Buffer.from(basename(path), 'hex'));
  db.close();
  expect(changes).toBe(1);
}

/** The names of what is damaged, by backup. */
async function verifyBackups(): Promise<string[][]> {
  const { stdout } = await place.run(['backup', 'verify', backups(), '--all', '--json']);
  const told = JSON.parse(stdout) as { faults: { name: string }[] }[];
  return told.map(({ faults }) => faults.map(({ name }) => name));
}

/** The name that the copy of an extent has in a backup. */
const placedName = (path: string) =>
  ['extent-files', basename(path).slice(30), basename(path)].join('/');

/** Makes a backup list a file of the data folder as it is, whether it is damaged or not. */
async function listAsItIs(id: string, path: string): Promise<void> {
  const text = readFileSync(join(place.data, 'keys', 'root-keys.json'), 'utf8');
  const { keys } = JSON.parse(text) as { keys: { epoch: number; key: string }[] };
  const sealer = new PieceSealer(
    new Keyring(keys.map(({ epoch, key }) => ({ epoch, key: Buffer.from(key, 'base64') }))),
  );
  const folder = openFolderPlace(backups(), { mayMake: false });
  const bytes = readFileSync(localCopy(path));
  await folder.write(placedName(path), bytes);
  const entry = Buffer.alloc(52);
  entry.write(basename(path), 'hex');
  entry.writeUInt32BE(bytes.length, 16);
  hash('sha256', bytes, 'buffer').copy(entry, 20);
  const list = await (await PieceStore.list(folder, sealer)).put(entry);
  const manifest = await readManifest(folder, sealer, id);
  if (!manifest?.extents) throw new Error(`no backup ${id}`);
  const extents = { ...manifest.extents, lists: [...manifest.extents.lists, list] };
  await folder.write(manifestName(id), sealManifest(sealer, { ...manifest, extents }));
}

describe('an object one of whose legs is the data folder', () => {
  const isWhole = (path: string) =>
    existsSync(localCopy(path)) && bytesIn('disk1', path).equals(readFileSync(localCopy(path)));
  const becomeWhole = (paths: readonly string[]) =>
    vi.waitFor(() => expect(paths.filter((path) => !isWhole(path))).toEqual([]), {
      ...{ timeout: 60_000, interval: 100 },
    });
  /** Also of those that a test took away, which a repair may bring back at any time. */
  const known: string[] = [];
  /** Gives the extents that an object has, whatever its size: nothing of it is in the database. */
  async function putInBoth(Key: string, size: number, of: string): Promise<string[]> {
    const before = [...extentsIn('disk1'), ...known];
    await put('first', Key, bytesOf(size), of);
    const made = newIn('disk1', before);
    expect(made).toHaveLength(Math.ceil(size / (8 * 1024 * 1024)));
    known.push(...made);
    return made;
  }

  test.each(['homes', 'homely'])('of the class %s is in both', async (of) => {
    for (const size of [1, 300_000, 9 * MB]) {
      const made = await putInBoth(`${of} ${size}`, size, of);
      if (of === 'homes') expect(made.every(isWhole)).toBe(true);
      else await becomeWhole(made);
      expect((await read('first', `${of} ${size}`)).equals(bytesOf(size))).toBe(true);
    }
    expect(await refusal(put('second', 'homes', 'x', of))).toBe('501 NotImplemented');
  });

  test('what one has lost, or has otherwise, is read from the other, and put right', async () => {
    const faults = [
      (path: string) => rmSync(path),
      (path: string) => damage(path),
      (path: string) => truncateSync(path, 10),
    ];
    const spoilt: string[] = [];
    for (const [i, spoil] of faults.entries()) {
      for (const [of, size] of [
        ['homes', i === 0 ? 9 * MB : 50_000],
        ['homely', i === 1 ? 9 * MB : 50_000],
      ] as const) {
        for (const fileOf of [localCopy, (path: string) => join(folderOf('disk1'), path)]) {
          const Key = `${of} spoilt`;
          const made = await putInBoth(Key, size, of);
          await becomeWhole(made);
          for (const path of made) spoil(fileOf(path));
          const Range = `bytes=${size - 10_000}-${size - 1}`;
          const part = await client.send(new s3.GetObjectCommand({ Bucket: 'first', Key, Range }));
          const bytes = Buffer.from((await part.Body?.transformToByteArray()) ?? []);
          expect(bytes.equals(bytesOf(size).subarray(size - 10_000)), Key).toBe(true);
          expect((await read('first', Key)).equals(bytesOf(size)), Key).toBe(true);
          await copy(Key, `${Key} ${spoilt.length}`, of);
          spoilt.push(...made);
        }
      }
    }
    // Damage that no read has met is found by whoever reads all copies.
    expect(await run('verify', 'data')).toContain('verified ');
    await becomeWhole(spoilt);
    const found = await run('records', '--action', 'bursar:RepairCopy', '--json');
    for (const store of ['local', 'disk1']) expect(found).toContain(`stores/${store}`);
  });

  test('is in a backup as it was written, though an earlier one had damage of it', async () => {
    const [path = ''] = await putInBoth('homes rotten', 300_000, 'homes');
    [suspected = ''] = await putInBoth('homes suspect', 50_000, 'homes');
    const [linked = ''] = await putInBoth('homes linked', 300_000, 'homes');
    damage(localCopy(path));
    const first = await createBackup();
    expect(existsSync(join(backups(), placedName(path)))).toBe(false);
    await listAsItIs(first, path);
    // One file has two names, and is damaged under both.
    damage(localCopy(linked));
    for (const Key of ['homes rotten', 'homes linked']) await read('first', Key);
    await becomeWhole([path, linked]);
    expect(await verifyBackups()).toEqual([[placedName(linked)]]);
    await createBackup();
    // What the first one has of the second object is right by what the second one brought.
    expect(await verifyBackups()).toEqual([[], []]);
    const prune = ['backup', 'prune', backups(), '--keep', '1', '--json'];
    expect((await place.run(prune)).code).toBe(0);
    expect(await verifyBackups()).toEqual([[]]);
  });

  test('is read and written while the other is away, as the class says', async () => {
    renameSync(folderOf('disk1'), `${folderOf('disk1')}-away`);
    expect(await refusal(put('first', 'homes away', bytesOf(MB), 'homes'))).toMatch(/^503 /);
    expect(await refusal(put('first', 'homely away', bytesOf(MB), 'homely'))).toBe('done');
    for (const Key of ['homely away', 'homes 300000', 'homely 300000']) {
      const size = Key.endsWith('away') ? MB : 300_000;
      expect((await read('first', Key)).equals(bytesOf(size)), Key).toBe(true);
    }
    rmSync(folderOf('disk1'), { recursive: true, force: true });
    renameSync(`${folderOf('disk1')}-away`, folderOf('disk1'));
    await vi.waitFor(
      async () => expect(await refusal(put('first', 'homes back', 'x', 'homes'))).toBe('done'),
      { timeout: 90_000, interval: 1000 },
    );
  });

  test('is lost where neither has it', async () => {
    const made = await putInBoth('homes lost', MB, 'homes');
    for (const path of made) {
      rmSync(localCopy(path));
      rmSync(join(folderOf('disk1'), path));
    }
    expect(await refusal(read('first', 'homes lost'))).toBe('410 BursarObjectLost');
    await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key: 'homes lost' }));
  });
});

test('what is in a class with a minimum is charged for that', async () => {
  await put('first', 'floored', 'x', 'floor');
  await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key: 'floored' }));
  const of = ['records', '--bucket', 's3://first', '--prefix', 'floored', '--json'];
  const told = (await run(...of)).split('\n').filter((line) => line !== '');
  const ended = told.map((line) => JSON.parse(line)).map((one) => one.record ?? one);
  const { storageCost } = ended.find((one) => one.action === 's3:DeleteObject');
  // A million bytes for 10 days of 30, but for the moment that it was there.
  expect(Number(storageCost)).toBeCloseTo((1e6 / 2 ** 30) * 0.023 * (10 / 30), 9);
  // A request is 5 microdollars, and the 10 days are 7.
  await client.send(new s3.CreateBucketCommand({ Bucket: 'floored' }));
  await run('limit', 'set', 'bucket:default/floored', '--spend', 'total=0.00001');
  expect(await refusal(put('floored', 'x', 'x', 'floor'))).toMatch(/QuotaExceeded/);
  expect(await refusal(put('floored', 'x', 'x', 'derived'))).toBe('done');
  // A rename leaves a version behind, which is paid for as long: 7 microdollars besides the 50 that
  // the dearest request could be.
  const Bucket = 'floored-versions';
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const VersioningConfiguration = { Status: 'Enabled' } as const;
  await client.send(new s3.PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
  await put(Bucket, 'from', 'x', 'floor');
  await run('limit', 'set', `bucket:default/${Bucket}`, '--spend', 'total=0.000064');
  const renamed = { Bucket, Key: 'to', RenameSource: `/${Bucket}/from` };
  const rename = () => client.send(new s3.RenameObjectCommand(renamed));
  expect(await refusal(rename())).toMatch(/QuotaExceeded/);
  await run('limit', 'delete', `bucket:default/${Bucket}`);
  expect(await refusal(rename())).toBe('done');
});

describe('what is refused', () => {
  test.each([
    ['a class that nobody has', 'warm', '400 InvalidStorageClass'],
    ['a name of AWS that stands for none', 'GLACIER', '501 NotImplemented'],
    ['one whose objects are made again, without a recipe', 'again', '400 InvalidRequest'],
  ])('%s', async (_, name, wanted) => {
    const before = countIn('disk1');
    expect(await refusal(put('first', 'refused', 'x', name))).toBe(wanted);
    expect(await refusal(head('first', 'refused'))).toBe('404 NotFound');
    expect(countIn('disk1')).toBe(before);
  });

  test('a leg in the data folder, for a bucket that is in another store', async () => {
    expect(await refusal(put('first', 'home', 'x', 'GLACIER_IR'))).toBe('done');
    expect(await refusal(put('second', 'home', 'x', 'GLACIER_IR'))).toBe('501 NotImplemented');
  });

  test('what a policy says of a class, by whatever name it is asked for', async () => {
    const condition = { StringEquals: { 's3:x-amz-storage-class': 'derived' } };
    const Policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          ...{ Effect: 'Deny', Principal: '*', Action: 's3:PutObject', Condition: condition },
          Resource: 'arn:aws:s3:::second/*',
        },
      ],
    });
    await client.send(new s3.PutBucketPolicyCommand({ Bucket: 'second', Policy }));
    for (const name of ['derived', 'ONEZONE_IA']) {
      expect(await refusal(put('second', 'x', 'x', name))).toBe('403 AccessDenied');
    }
    expect(await refusal(put('second', 'x', 'x', 'kept'))).toBe('done');
    await client.send(new s3.DeleteBucketPolicyCommand({ Bucket: 'second' }));
  });

  test('a compliance lock in a class that can lose objects, by whatever way it comes', async () => {
    const Bucket = 'locked';
    await client.send(new s3.CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
    const until = new Date(Date.now() + 3_600_000);
    const retain = (Key: string, Mode: s3.ObjectLockRetentionMode) =>
      refusal(
        client.send(
          new s3.PutObjectRetentionCommand({
            ...{ Bucket, Key, Retention: { Mode, RetainUntilDate: until } },
            BypassGovernanceRetention: true,
          }),
        ),
      );
    const lockBucket = (Mode: s3.ObjectLockRetentionMode) =>
      client.send(
        new s3.PutObjectLockConfigurationCommand({
          Bucket,
          ObjectLockConfiguration: {
            ...{ ObjectLockEnabled: 'Enabled', Rule: { DefaultRetention: { Mode, Days: 1 } } },
          },
        }),
      );
    const refused = '400 InvalidRequest';
    await put(Bucket, 'lossy', 'x', 'derived');
    await put(Bucket, 'kept', 'x', 'kept');
    expect(await retain('lossy', 'COMPLIANCE')).toBe(refused);
    expect(await retain('lossy', 'GOVERNANCE')).toBe('done');
    expect(await retain('lossy', 'COMPLIANCE')).toBe(refused);
    await put(Bucket, 'renamed', 'x', 'derived');
    const begun = new s3.CreateMultipartUploadCommand({
      ...{ Bucket, Key: 'parts', StorageClass: 'ONEZONE_IA' },
    });
    const { UploadId } = await client.send(begun);
    const part = { Bucket, Key: 'parts', UploadId, PartNumber: 1, Body: 'x' };
    const { ETag } = await client.send(new s3.UploadPartCommand(part));
    await lockBucket('COMPLIANCE');
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
    const completion = { Bucket, Key: 'parts', UploadId, MultipartUpload };
    const copy = { Bucket, Key: 'copy', CopySource: `${Bucket}/lossy` };
    const rename = { Bucket, Key: 'new', RenameSource: `/${Bucket}/renamed` };
    for (const command of [
      new s3.PutObjectCommand({ Bucket, Key: 'y', Body: 'x', StorageClass: 'ONEZONE_IA' }),
      new s3.CreateMultipartUploadCommand({ Bucket, Key: 'y', StorageClass: 'ONEZONE_IA' }),
      new s3.CompleteMultipartUploadCommand(completion),
      new s3.CopyObjectCommand({ ...copy, StorageClass: 'ONEZONE_IA' }),
      new s3.RenameObjectCommand(rename),
    ]) {
      const sent = client.send(command as s3.PutObjectCommand);
      expect(await refusal(sent), command.constructor.name).toBe(refused);
    }
    expect(await refusal(put(Bucket, 'y', 'x', 'kept'))).toBe('done');
    expect(await refusal(client.send(new s3.CopyObjectCommand(copy)))).toBe('done');
    await lockBucket('GOVERNANCE');
    expect(await refusal(client.send(new s3.CompleteMultipartUploadCommand(completion)))).toBe(
      'done',
    );
    expect(await retain('parts', 'COMPLIANCE')).toBe(refused);
  });

  test('to delete a class that is used', async () => {
    const { code, stderr } = await place.run(['class', 'delete', 'default/derived']);
    expect(stderr).toContain('A bucket has, or had, objects or uploads of this class. (InUse)');
    expect(code).toBe(1);
    await run('class', 'delete', 'default/again');
  });

  test('a write whose leg is away: 503, and nothing is put elsewhere', async () => {
    renameSync(folderOf('disk1'), `${folderOf('disk1')}-away`);
    expect(await refusal(put('first', 'away', bytesOf(MB), 'ONEZONE_IA'))).toMatch(/^503 /);
    expect(await refusal(put('first', 'away', bytesOf(MB)))).toBe('done');
    expect(await head('first', 'away')).not.toHaveProperty('StorageClass');
    rmSync(folderOf('disk1'), { recursive: true, force: true });
    renameSync(`${folderOf('disk1')}-away`, folderOf('disk1'));
    await vi.waitFor(
      async () => expect(await refusal(put('first', 'back', 'x', 'ONEZONE_IA'))).toBe('done'),
      { timeout: 90_000, interval: 1000 },
    );
  });
});

describe('what was acknowledged', () => {
  test('is there after a kill, and differs in nothing from its records', async () => {
    await put('second', 'killed', bytesOf(3 * MB), 'ONEZONE_IA');
    const before = extentsIn('disk2');
    await put('second', 'killed-copies', bytesOf(30 * MB), 'loose');
    const copied = newIn('disk2', before);
    const open = { Bucket: 'second', Key: 'open' };
    const { UploadId } = await client.send(
      new s3.CreateMultipartUploadCommand({ ...open, StorageClass: 'EXPRESS_ONEZONE' }),
    );
    const part = { ...open, UploadId, PartNumber: 1, Body: 'part' };
    await client.send(new s3.UploadPartCommand(part));
    await served.stop('SIGKILL');
    await serve();
    await vi.waitFor(() => expect(extentsIn('near')).toEqual(expect.arrayContaining(copied)), {
      ...{ timeout: 60_000, interval: 100 },
    });
    for (const path of copied) await becomesWhole(path);
    expect((await read('second', 'killed')).equals(bytesOf(3 * MB))).toBe(true);
    expect(await head('second', 'killed')).toMatchObject({ StorageClass: 'ONEZONE_IA' });
    expect(await run('verify', 'data')).toMatch(/^verified \d+ versions, [^\n]+\n$/);
    await served.stop();
    const config = ['--config', 'config.yaml'];
    expect(await run('verify', 'deep', ...config)).toMatch(/^compared [^\n]+, and read [1-9]/);
    expect(await run('verify', 'deep')).toContain('\nnot read: what is in store disk1\n');
  });

  test('is restored from a backup, with what the data folder had', async () => {
    const copies = ['homes 300000', 'homely 300000', 'homes rotten', 'homes linked'];
    await suspectLocal(suspected);
    const backup = backups();
    await createBackup();
    expect((await verifyBackups()).at(-1)).toEqual([]);
    for (const name of readdirSync(place.data).filter((one) => one !== 'keys')) {
      rmSync(join(place.data, name), { recursive: true });
    }
    // No journal tells of a local bucket's extents: the database of the backup does.
    const restore = ['restore', backup, '--config', config, '--json'];
    const { stores } = JSON.parse((await place.run(restore, environment)).stdout);
    expect(stores).toMatchObject({ isWhole: true, lost: { count: 0 }, untoldBuckets: [] });
    // What was suspect when the backup was made is in the other leg alone, until that repairs it.
    expect(existsSync(localCopy(suspected))).toBe(false);
    await serve();
    renameSync(folderOf('disk1'), `${folderOf('disk1')}-away`);
    for (const Key of copies) {
      expect((await read('first', Key)).equals(bytesOf(300_000)), Key).toBe(true);
    }
    renameSync(`${folderOf('disk1')}-away`, folderOf('disk1'));
    await vi.waitFor(
      async () => expect((await read('first', 'homes suspect')).length).toBe(50_000),
      { timeout: 60_000, interval: 500 },
    );
    await served.stop();
  });

  test('is rebuilt from the stores when the database is lost', async () => {
    // What one leg has lost is in the other.
    for (const path of extentsIn('disk2').filter((one) => extentsIn('near').includes(one))) {
      rmSync(join(folderOf('disk2'), path));
    }
    rmSync(join(place.data, 'bursar.db'));
    for (const more of ['-wal', '-shm'])
      rmSync(join(place.data, `bursar.db${more}`), { force: true });
    const rebuilt = await place.run(['rebuild', '--config', config, '--json'], environment);
    expect(JSON.parse(rebuilt.stdout)).toMatchObject({ lost: { count: 0 } });
    await serve();
    expect((await read('second', 'killed')).equals(bytesOf(3 * MB))).toBe(true);
    expect(await head('second', 'killed')).toMatchObject({ StorageClass: 'ONEZONE_IA' });
    expect((await read('second', 'pair-parts')).equals(bytesOf(6 * MB))).toBe(true);
    expect((await read('second', 'x')).equals(Buffer.from('x'))).toBe(true);
    expect((await read('second', 'killed-copies')).equals(bytesOf(30 * MB))).toBe(true);
    await vi.waitFor(async () => expect(await copiesWaiting()).toEqual([]), {
      timeout: 60_000,
      interval: 500,
    });
    expect((await read('second', 'killed-copies')).equals(bytesOf(30 * MB))).toBe(true);
    await put('second', 'after', bytesOf(MB), 'derived');
    expect((await read('second', 'after')).equals(bytesOf(MB))).toBe(true);
  });
});
