// `bursar bucket chown`: a bucket gets another owner of its tenant. What is stored is charged to
// each for its part, up to and from the same millisecond, whoever writes meanwhile, and whenever
// the gateway dies.
import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { type Part, partsOf } from '#bursar/quota/roll-up/charged-record.js';
import { S3Client } from '../fault/s3-client.ts';
import { hold } from '../gateway/held-request.ts';
import { type LogRecord, labFlags } from '../gateway/storage-rig.ts';
import type { Target } from '../protocol/target.ts';
import { accountsWritten } from '../tooling/accounts-written.ts';
import { call, operator, operatorSettings, send } from '../tooling/filled-folder.ts';
import { servedThreads } from '../tooling/served-gateway.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const isFull = process.env.BURSAR_FULL === '1';

const place = new Workplace();
const flags = labFlags(mkdtempSync(join(place.folder, 'books-')));
let served: Served;
let root: S3Client;
/** Principals of tenant cms, by name: clients, and their keys as the environment of a command. */
const people = new Map<string, { client: S3Client; keys: Record<string, string> }>();

async function serve(): Promise<void> {
  const args = ['--data', place.data, '--sweep-interval', '1h', ...flags];
  served = await place.serve(args, { ...operatorSettings, ...servedThreads() });
  root = new S3Client({ endpoint: served.endpoint, ...operator });
  for (const [name, { keys }] of people) people.set(name, { client: clientOf(keys), keys });
}

function clientOf(keys: Record<string, string>): S3Client {
  const { BURSAR_ACCESS_KEY_ID: accessKeyId = '', BURSAR_SECRET_ACCESS_KEY: secret = '' } = keys;
  return new S3Client({ endpoint: served.endpoint, accessKeyId, secretAccessKey: secret });
}

async function add(tenant: string, name: string, role = 'member'): Promise<void> {
  const principals = `tenants/${tenant}/principals`;
  await call(root, 'POST', principals, { name, role });
  const made = await call(root, 'POST', `${principals}/${name}/access-keys`);
  const keys = {
    BURSAR_ACCESS_KEY_ID: made.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: made.secretAccessKey,
  };
  people.set(name, { client: clientOf(keys), keys });
}

function keysOf(name: string): { accessKeyId: string; secretAccessKey: string } {
  const keys = people.get(name)?.keys ?? {};
  const { BURSAR_ACCESS_KEY_ID: accessKeyId = '', BURSAR_SECRET_ACCESS_KEY: secret = '' } = keys;
  return { accessKeyId, secretAccessKey: secret };
}

function as(name: string): S3Client {
  return people.get(name)?.client as S3Client;
}

function chown(who: string, ...args: string[]): Promise<Outcome> {
  const keys = people.get(who)?.keys ?? {};
  return place.run(['bucket', 'chown', ...args, '--endpoint', served.endpoint], keys);
}

async function read<R>(sql: string): Promise<R[]> {
  const options = { readonly: true, cacheKib: 1024 };
  const db = openDatabase(join(place.data, 'bursar.db'), options);
  try {
    return await db.tx.all<R>(sql);
  } finally {
    db.close();
  }
}

async function recordsOf(bucket: string): Promise<(LogRecord & { change?: object })[]> {
  const rows = await read<{ record: string }>('SELECT record FROM records ORDER BY idx');
  return rows.map(({ record }) => JSON.parse(record)).filter((one) => one.bucket === bucket);
}

const meters = ['storedBytes', 'storedObjects', 'spend', 'requests', 'ingressBytes'] as const;
type Sums = Record<(typeof meters)[number], bigint>;

/** What an account has used, as it is counted. */
async function used(account: string): Promise<Sums> {
  await accountsWritten(join(place.data, 'bursar.db'));
  const [row] = await read<Sums>(
    `SELECT CAST(used_stored_bytes AS TEXT) AS storedBytes,
       CAST(used_stored_objects AS TEXT) AS storedObjects, CAST(used_spend AS TEXT) AS spend,
       CAST(used_requests AS TEXT) AS requests, CAST(used_ingress_bytes AS TEXT) AS ingressBytes
       FROM quota_accounts WHERE account = '${account}'`,
  );
  return Object.fromEntries(meters.map((meter) => [meter, BigInt(row?.[meter] ?? 0)])) as Sums;
}

function add2(a: Sums, b: Sums): Sums {
  return Object.fromEntries(meters.map((meter) => [meter, a[meter] + b[meter]])) as Sums;
}

async function stored(...names: string[]): Promise<string[]> {
  const sums = await Promise.all(names.map((name) => used(`principal:cms/${name}`)));
  return sums.map(({ storedBytes, storedObjects }) => `${storedBytes} in ${storedObjects}`);
}

async function verifyDeep(): Promise<void> {
  const said = await place.run(['verify', 'deep', '--data', place.data, '--skip-data']);
  expect(said.stdout + said.stderr).toMatch(/compared \d+ records/);
  expect(said.code, said.stdout).toBe(0);
}

const put = (who: string, path: string, body: string | Buffer = 'x') =>
  send(as(who), 'PUT', path, { body });

beforeAll(async () => {
  await serve();
  for (const name of ['cms', 'atlas']) await call(root, 'POST', 'tenants', { name });
  await add('cms', 'boss', 'admin');
  for (const name of ['old', 'new', 'third', 'poor']) await add('cms', name);
  await add('atlas', 'chief', 'admin');
});
afterAll(() => place.remove());

describe('a bucket that is given to another', () => {
  it('is charged to each for its part, split at the millisecond of the commit', async () => {
    await put('old', '/split', '');
    const versioning =
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    await send(as('old'), 'PUT', '/split', { query: [['versioning', '']], body: versioning });
    for (const body of ['first', 'second', 'third one']) await put('old', '/split/key', body);
    await call(root, 'PUT', 'tenants/cms/buckets/split/snapshots/before', {});
    const [current] = await read<{ id: string }>(
      "SELECT version_id AS id FROM versions WHERE key = 'key'",
    );
    const named: [string, string][] = [['versionId', current?.id ?? '']];
    await send(as('old'), 'DELETE', '/split/key', { query: named });
    const begun = await send(as('old'), 'POST', '/split/parts', { query: [['uploads', '']] });
    const [, uploadId = ''] = /<UploadId>([^<]+)/.exec(begun.body.toString()) ?? [];
    const part: [string, string][] = [
      ['partNumber', '1'],
      ['uploadId', uploadId],
    ];
    await send(as('old'), 'PUT', '/split/parts', { query: part, body: Buffer.alloc(150_000) });
    // Held by a snapshot, noncurrent, current again, and a part.
    expect(await stored('old', 'new')).toEqual(['150020 in 2', '0 in 0']);

    const said = await chown('boss', 's3://split', 'new', '--json');
    expect(said.stderr).toBe('');
    expect(JSON.parse(said.stdout)).toMatchObject({ name: 'split', owner: 'new' });
    expect(await stored('old', 'new')).toEqual(['0 in 0', '150020 in 2']);

    const records = await recordsOf('split');
    const moves = records.filter(({ action }) => action === 'bursar:ChangeOwner');
    expect(moves).toMatchObject([
      { principal: 'old', bucketOwner: 'old', storedBytes: -150_020, storedObjects: -2 },
      { principal: 'new', bucketOwner: 'new', storedBytes: 150_020, storedObjects: 2 },
    ]);
    expect(moves[0]).toMatchObject({ change: { from: 'old', to: 'new' }, status: 200 });
    const [charged] = records.filter(({ action }) => action === 'bursar:ChargeStorage');
    expect(charged).toMatchObject({ bucketOwner: 'old', time: moves[0]?.time });
    expect(charged?.period?.split('/')[1]).toBe(moves[0]?.time);

    // What is stored from then on, what ends and what is charged later is the new owner's.
    await send(as('new'), 'DELETE', '/split/parts', { query: [['uploadId', uploadId]] });
    expect(await stored('old', 'new')).toEqual(['0 in 0', '20 in 2']);
    expect((await chown('boss', 'cms/split', 'cms/third')).stdout).toContain('third');
    const later = (await recordsOf('split')).filter(
      ({ action }) => action === 'bursar:ChargeStorage',
    );
    const [before, after] = [charged?.period?.split('/')[1], later.at(-1)?.period?.split('/')];
    expect(later.at(-1)?.bucketOwner).toBe('new');
    expect(after?.[0]).toBe(before);
  });

  it('is shown with its objects as the new owner’s, who alone may do everything', async () => {
    await put('old', '/shown', '');
    await put('old', '/shown/key');
    expect((await as('new').send('GET', '/shown/key')).status).toBe(403);
    expect((await chown('boss', 's3://shown', 'new')).code).toBe(0);
    for (let i = 0; i < 8; i++) {
      // Whichever thread answers.
      expect((await as('old').send('GET', '/shown/key')).status).toBe(403);
      expect((await as('old').send('PUT', '/shown/more')).status).toBe(403);
      expect((await as('new').send('GET', '/shown/key')).status).toBe(200);
    }
    const listed = (query: [string, string][]) =>
      send(as('new'), 'GET', '/shown', { query }).then(({ body }) => body.toString());
    const owner = '<Owner><ID>cms/new</ID></Owner>';
    const owners = [['list-type', '2'] as [string, string], ['fetch-owner', 'true']];
    expect(await listed(owners as [string, string][])).toContain(owner);
    expect(await listed([['versions', '']])).toContain(owner);
    const list = await send(as('new'), 'GET', '/shown/key', { query: [['acl', '']] });
    expect(list.body.toString()).toContain('<ID>cms/new</ID>');
  });

  it('stays where it is, if the new owner may not store so much', async () => {
    await put('old', '/much', '');
    await put('old', '/much/key', Buffer.alloc(2000));
    await call(root, 'PUT', 'limits/principal:cms/poor', { storedBytes: { total: 1000 } });
    const before = await stored('old', 'poor');
    const said = await chown('boss', 's3://much', 'poor');
    expect(said.code).toBe(1);
    expect(said.stderr).toContain('The limit of principal:cms/poor on storedBytes');
    expect(await stored('old', 'poor')).toEqual(before);
    await call(root, 'PUT', 'limits/principal:cms/poor', { storedBytes: { total: 2000 } });
    expect((await chown('boss', 's3://much', 'poor')).code).toBe(0);
    expect((await chown('boss', 's3://much', 'poor')).code).toBe(0);
  });

  it('is given by administrators of its tenant alone, to principals of it', async () => {
    await put('old', '/kept', '');
    const rule = { effect: 'allow', actions: ['bursar:ChangeOwner'] };
    const body = { ...rule, subjects: ['principal:cms/new'] };
    await call(root, 'PUT', 'tenants/cms/grants/taker', body);
    for (const [who, owner, told] of [
      ['old', 'new', 'AccessDenied'],
      ['new', 'new', 'AccessDenied'],
      ['chief', 'chief', 'NoSuchTenant'],
      ['boss', 'atlas/chief', 'OtherTenant'],
      ['boss', 'nobody', 'NoSuchPrincipal'],
      ['boss', 'No body', 'InvalidInput'],
    ] as const) {
      const said = await chown(who, 'cms/kept', owner);
      const code = told === 'InvalidInput' ? 2 : 1;
      expect([said.code, said.stderr]).toEqual([code, expect.stringContaining(told)]);
    }
    const url = '/_/v1/tenants/cms/buckets/kept/owner';
    const json = Buffer.from(JSON.stringify({ owner: 'new', from: 'third' }));
    const headers = { 'content-type': 'application/json' };
    expect((await as('boss').send('PUT', url, { body: json, headers })).status).toBe(412);
    const [kept] = await read<{ owner: string }>("SELECT owner FROM buckets WHERE name = 'kept'");
    expect(kept?.owner).toBe('old');
  });
});

/** Writes and deletes in a bucket until it is told to end; gives how many of that were done. */
async function load(bucket: string, isOver: () => boolean): Promise<number> {
  let done = 0;
  const writer = async (i: number) => {
    for (let n = 0; !isOver(); n++) {
      const path = `/${bucket}/${i}-${n % 5}`;
      const body = Buffer.alloc(i % 2 === 0 ? 100 + n : 70_000 + n);
      const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
      const sent = n % 4 === 3 ? as('boss').send('DELETE', path) : null;
      const { status } = await (sent ?? as('boss').send('PUT', path, { body, headers }));
      expect([200, 204, 503]).toContain(status);
      if (status < 300) done += 1;
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => writer(i)));
  return done;
}

describe('while others write', () => {
  it('has writes that are under way tried again, and cuts no download', async () => {
    await put('old', '/held', '');
    const large = Buffer.alloc(16 * 1024 * 1024, 7);
    await put('old', '/held/large', large);
    const begun = await send(as('boss'), 'POST', '/held/parts', { query: [['uploads', '']] });
    const [, uploadId = ''] = /<UploadId>([^<]+)/.exec(begun.body.toString()) ?? [];
    const target = { endpoint: served.endpoint, keys: keysOf('boss') } as Target;
    const part: [string, string][] = [
      ['partNumber', '1'],
      ['uploadId', uploadId],
    ];
    const messages = [
      { method: 'PUT', path: '/held/small', body: 'small' },
      { method: 'PUT', path: '/held/larger', body: 'x'.repeat(300_000) },
      { method: 'PUT', path: '/held/parts', query: part, body: 'y'.repeat(200_000) },
    ];
    const writes = await Promise.all(messages.map((message) => hold(target, message)));
    const download = await as('boss').open('GET', '/held/large');
    const before = await stored('old', 'new');
    expect((await chown('boss', 's3://held', 'new')).code).toBe(0);
    const moved = await stored('old', 'new');
    expect(moved).not.toEqual(before);
    for (const write of writes) {
      const { status, code } = await write.finish();
      expect([status, code]).toEqual([503, 'SlowDown']);
    }
    let received = 0;
    for await (const piece of download) received += piece.length;
    expect(received).toBe(large.length);
    expect(await stored('old', 'new')).toEqual(moved);
    for (const { path, body, query } of messages) {
      await send(as('boss'), 'PUT', path, { body, ...(query && { query }) });
    }
    const [old, now] = await stored('old', 'new');
    expect(old).toBe(moved[0]);
    const bytes = BigInt(moved[1]?.split(' ')[0] ?? 0) + 500_005n;
    expect(now?.split(' ')[0]).toBe(String(bytes));
  });

  it('charges the owners what there is in all, and not a byte more', async () => {
    await put('old', '/busy', '');
    const owners = ['old', 'new', 'third'];
    let isOver = false;
    const loaded = load('busy', () => isOver);
    for (let i = 0; i < 24; i++) {
      const body = { owner: owners[(i + 1) % 3] };
      await call(root, 'PUT', 'tenants/cms/buckets/busy/owner', body);
    }
    isOver = true;
    expect(await loaded).toBeGreaterThan(0);
    const [rows] = await read<{ bytes: number; objects: number }>(
      `SELECT sum(size) AS bytes, count(*) AS objects FROM versions
         WHERE bucket_id = (SELECT id FROM buckets WHERE name = 'busy')`,
    );
    const bucket = await used('bucket:cms/busy');
    expect([bucket.storedBytes, bucket.storedObjects]).toEqual([
      ...[BigInt(rows?.bytes ?? 0), BigInt(rows?.objects ?? 0)],
    ]);
    // Of the request that made it the bucket was charged nothing.
    const charged = (await recordsOf('busy')).filter(({ bucketOwner }) => bucketOwner);
    const parts = charged.flatMap((one) => partsOf(JSON.stringify(one)));
    const sumOf = (account: string): Sums => {
      const of = (meter: keyof Sums) => (part: Part) => BigInt(part[meter]);
      const mine = parts.filter((part) => part.account === account);
      return Object.fromEntries(
        meters.map((meter) => [meter, mine.map(of(meter)).reduce((a, b) => a + b, 0n)]),
      ) as Sums;
    };
    expect(sumOf('bucket:cms/busy')).toEqual(bucket);
    const all = owners.map((name) => sumOf(`principal:cms/${name}`));
    expect(all.reduce(add2)).toEqual(bucket);
    // Each but the last keeps nothing of it.
    expect(all.map(({ storedBytes }) => storedBytes)).toEqual([bucket.storedBytes, 0n, 0n]);
  });

  it('is whole whenever the gateway is killed', async () => {
    await put('old', '/killed', '');
    for (const wait of isFull ? [0, 1, 2, 3, 5, 8, 13, 21] : [1, 4]) {
      let isOver = false;
      const writing = load('killed', () => isOver).catch(() => 0);
      let done = 0;
      const giving = (async () => {
        for (let i = 0; !isOver; i++, done++) {
          const owner = ['new', 'third', 'old'][i % 3];
          await call(root, 'PUT', 'tenants/cms/buckets/killed/owner', { owner });
        }
      })().catch(() => {});
      await vi.waitFor(() => expect(done).toBeGreaterThan(wait), { timeout: 60_000 });
      await served.stop('SIGKILL');
      isOver = true;
      await Promise.all([writing, giving]);
      await serve();
    }
    await served.stop();
    await verifyDeep();
    await serve();
  });
});
