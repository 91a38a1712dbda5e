// What the records say that operations cost the operator, held against the log of the S3 server
// behind the gateway, which knows nothing of our counters, and against the accounts.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { parseUsd } from '#bursar/core/money.js';
import { listBackendCosts } from '#bursar/quota/backend-cost.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { S3Client } from '../fault/s3-client.ts';
import { makeBytes } from '../tiering/rig.ts';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { startVersitygw } from '../tooling/versitygw.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const MiB = 2 ** 20;
const storeName = 'cloud';

interface Entry {
  store: string;
  priceBook: string;
  cost: string;
  puts: number;
  gets: number;
  frees: number;
  sentBytes: number;
  receivedBytes: number;
}

interface LogRecord {
  index: number;
  action: string;
  tenant: string;
  bucketTenant?: string;
  bucket?: string;
  key?: string;
  range?: string;
  status: number;
  error?: string;
  bytesOut: number;
  cost?: string;
  backend?: Entry[];
  backendCost?: string;
}

const large = makeBytes(20 * MiB + 12_345);
const small = makeBytes(1000);

describeWithTool(versitygw, 'what stores cost the operator', (path) => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-backend-cost-'));
  let proxy: FaultProxy;
  let records: LogRecord[];
  let accounts: Awaited<ReturnType<typeof listBackendCosts>>;
  let ofTenant: typeof accounts;
  /** What the native API shows to whom; of a refusal the status. */
  let shown: { operator: { account: string }[]; admin: unknown; member: unknown };
  /** Lines of the server's own log, by its name of the operation. */
  const served: Record<string, number> = {};
  /** The objects that it was sent, in order. */
  const stored: { sizeBytes: number }[] = [];

  beforeAll(async () => {
    const logFile = join(folder, 'access.log');
    const backend = await startVersitygw(path, ['--access-log', logFile]);
    backend.makeBucket('backing');
    backend.makeBucket('other');
    proxy = await FaultProxy.start(backend.port);
    const dataDir = join(folder, 'data');
    const at = { endpoint: proxy.endpoint, pathStyle: 'yes' };
    const stores = {
      [storeName]: { ...at, url: 's3://backing/bursar' },
      far: { ...at, url: 's3://other' },
    };
    const gateway = await startServedGateway({
      dataDir,
      args: ['--store', storeName, '--sweep-interval', '100ms', '--sweep-grace', '0s'],
      env: {
        BURSAR_STORES: JSON.stringify(stores),
        AWS_ACCESS_KEY_ID: backend.credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: backend.credentials.secretAccessKey,
      },
    });
    await use(gateway);
    await gateway.stop();
    readLog(readFileSync(logFile, 'utf8'), backend.credentials.accessKeyId);
    ({ records, accounts, ofTenant } = await readState(dataDir));
    await proxy.stop();
    await backend.stop();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function readLog(text: string, accessKeyId: string): void {
    const form = /^(\S+) .* (s3_\w+) \S+ \S+ (?:\S+ )?(\d{3}) \S+ \d+ (\d+) \d+ /;
    for (const line of text.trim().split('\n')) {
      const [, who, name = '', , sizeBytes] = form.exec(line) ?? [];
      if (who !== accessKeyId) continue;
      served[name] = (served[name] ?? 0) + 1;
      if (name === 's3_PutObject') stored.push({ sizeBytes: Number(sizeBytes) });
    }
  }

  async function use(gateway: ServedGateway): Promise<void> {
    const client = new S3Client(gateway);
    const must = async (method: string, at: string, sending = {}, status = 200) => {
      const answer = await client.send(method, at, sending);
      expect(`${method} ${at} ${answer.status}`).toBe(`${method} ${at} ${status}`);
      return answer;
    };
    await must('PUT', '/data');
    await must('PUT', '/data/large', { body: large });
    await must('PUT', '/data/small', { body: small });
    expect((await must('GET', '/data/large')).body.equals(large)).toBe(true);
    await must('GET', '/data/small');
    await must('HEAD', '/data/small');
    await must('GET', '/data/small', { headers: { range: 'bytes=0-9' } }, 206);
    let left = 1;
    proxy.choose = ({ method, target }) =>
      method === 'GET' && target.includes('/extents/') && left-- > 0
        ? { kind: 'status', status: 503, code: 'SlowDown' }
        : undefined;
    await must('GET', '/data/small', { headers: { range: 'bytes=10-19' } }, 206);
    proxy.choose = () => undefined;
    await must(
      'PUT',
      '/data/bad',
      { body: large, headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' } },
      400,
    );
    await must('PUT', '/data/lost', { body: small, headers: { 'if-match': '"0"' } }, 404);
    await abandon(client);
    await must('PUT', '/data/copy', { headers: { 'x-amz-copy-source': '/data/large' } });
    for (const name of ['local', 'far']) {
      await must('PUT', `/${name}`, { headers: { 'x-bursar-store': name } });
      await must('PUT', `/${name}/moved`, { headers: { 'x-amz-copy-source': '/data/small' } });
    }
    await must('PUT', '/local/put', { body: small });
    await must('GET', '/local/put');
    await must('GET', '/data');
    await must('DELETE', '/data/large', {}, 204);
    await must('DELETE', '/data/copy', {}, 204);
    shown = await show(gateway, client);
    // Until the sweeper has taken their extents away.
    for (;;) {
      const { DELETE: removed = 0 } = proxy.methods;
      await new Promise((r) => setTimeout(r, 100));
      if (removed >= 3 + 3) break;
    }
  }

  async function show(gateway: ServedGateway, client: S3Client): Promise<typeof shown> {
    const make = async (path: string, body: object) => {
      const answer = await client.send('POST', path, {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
      });
      expect(answer.status).toBe(201);
      return JSON.parse(answer.body.toString());
    };
    const ask = async (asking: S3Client) => {
      const { status, body } = await asking.send('GET', '/_/v1/store-costs');
      return status === 200 ? JSON.parse(body.toString()).costs : status;
    };
    await make('/_/v1/tenants', { name: 'cms' });
    const as = async (role: string) => {
      await make('/_/v1/tenants/cms/principals', { name: role, kind: 'person', role });
      const path = `/_/v1/tenants/cms/principals/${role}/access-keys`;
      return new S3Client({ ...gateway, ...(await make(path, {})) });
    };
    const [admin, member] = [await ask(await as('admin')), await ask(await as('member'))];
    return { operator: await ask(client), admin, member };
  }

  /** Goes away in the midst of a GET. */
  async function abandon(client: S3Client): Promise<void> {
    const response = await client.open('GET', '/data/large');
    await new Promise((resolve) => response.once('data', resolve));
    response.destroy();
    await new Promise((r) => setTimeout(r, 300));
  }

  const find = (
    action: string,
    key: string | undefined,
    more: (record: LogRecord) => boolean = () => true,
  ) => records.filter((record) => record.action === action && record.key === key && more(record));

  /** The one record of an operation, without what it cost. */
  function usesOf(action: string, key: string, more?: (record: LogRecord) => boolean) {
    const found = find(action, key, more);
    expect(found).toHaveLength(1);
    return found[0]?.backend?.map(({ cost: _, priceBook: __, ...use }) => use);
  }

  const nothing = { store: storeName, puts: 0, gets: 0, frees: 0, sentBytes: 0, receivedBytes: 0 };
  const isRange = (range: string) => (record: LogRecord) => record.range === range;

  it('is said by the record of a PUT: an extent for each 8 MiB, with tags and metadata', () => {
    const extents = stored.filter(({ sizeBytes }) => sizeBytes > MiB).slice(0, 3);
    const sentBytes = extents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    expect(sentBytes).toBeGreaterThan(large.length);
    expect(usesOf('s3:PutObject', 'large')).toEqual([{ ...nothing, puts: 3, sentBytes }]);
    const [own] = usesOf('s3:PutObject', 'small') ?? [];
    expect(own).toEqual({ ...nothing, puts: 1, sentBytes: expect.any(Number) });
    // What the journal was told is among what the server has stored.
    expect(stored).toContainEqual({ sizeBytes: own?.sentBytes });
    expect(own?.sentBytes).toBeGreaterThan(1000);
    expect(own?.sentBytes).toBeLessThan(5000);
  });

  it('is said by the record of a GET, which reads whole extents of small objects', () => {
    const whole = (record: LogRecord) => record.range === undefined;
    const [put] = usesOf('s3:PutObject', 'large') ?? [];
    const isDone = (record: LogRecord) => record.status === 200;
    const [get] = usesOf('s3:GetObject', 'large', isDone) ?? [];
    expect(get).toEqual({ ...nothing, gets: 3, receivedBytes: put?.sentBytes });
    const [small] = usesOf('s3:PutObject', 'small') ?? [];
    const read = [{ ...nothing, gets: 1, receivedBytes: small?.sentBytes }];
    expect(usesOf('s3:GetObject', 'small', isRange('0-9'))).toEqual(read);
    const plain = find('s3:GetObject', 'small', whole).map(({ backend }) => backend?.[0]?.gets);
    // GET and HEAD, which asks no store.
    expect(plain).toEqual([1, undefined]);
  });

  it('has each try of a read that was tried again', () => {
    expect(usesOf('s3:GetObject', 'small', isRange('10-19'))).toMatchObject([
      { gets: 1, frees: 1 },
    ]);
  });

  it('is there for what was refused, with the extents that had to be removed', () => {
    const [record] = find('s3:PutObject', 'bad');
    expect(record?.error).toBe('BadDigest');
    expect(record?.backend).toMatchObject([{ puts: 2, frees: 2 }]);
  });

  it('is there for a read whose client went away', () => {
    const [record] = find('s3:GetObject', 'large', ({ error }) => error !== undefined);
    const { gets = 0, receivedBytes = 0 } = record?.backend?.[0] ?? {};
    expect(gets).toBeGreaterThan(0);
    expect(receivedBytes).toBeGreaterThanOrEqual(record?.bytesOut ?? 0);
  });

  it('has each store of a copy, and the local disk never', () => {
    const read = { store: storeName, puts: 0, gets: 1, frees: 0 };
    const ofBucket = (bucket: string) => (record: LogRecord) => record.bucket === bucket;
    const far = usesOf('s3:PutObject', 'moved', ofBucket('far'));
    expect(far).toMatchObject([{ store: 'far', puts: 1, gets: 0, frees: 0 }, read]);
    expect(far?.[0]?.sentBytes).toBeGreaterThan(small.length);
    expect(usesOf('s3:PutObject', 'moved', ofBucket('local'))).toMatchObject([read]);
  });

  it('is nothing where no store was asked', () => {
    for (const [action, key] of [
      ['s3:PutObject', 'put'],
      ['s3:GetObject', 'put'],
      ['s3:PutObject', 'copy'],
      ['s3:PutObject', 'lost'],
      ['s3:DeleteObject', 'large'],
    ] as const) {
      const [record] = find(action, key);
      expect(record).toBeDefined();
      expect(record).not.toHaveProperty('backend');
      expect(record).not.toHaveProperty('backendCost');
    }
  });

  it('is, over all records, what the server served and what failed on the way to it', () => {
    const sum = sumOf(records.flatMap(({ backend = [] }) => backend));
    const { s3_PutObject: put = 0, s3_ListObjectsV2: list = 0, ...rest } = served;
    const { s3_GetObject: get = 0, s3_DeleteObject: remove = 0, ...other } = rest;
    expect(other).toEqual({});
    // The injected 503 did not reach it.
    expect(sum).toMatchObject({ puts: put + list, gets: get, frees: remove + 1 });
    expect(sum.puts + sum.gets + sum.frees).toBe(proxy.requests);
    expect(sum.sentBytes).toBe(stored.reduce((all, { sizeBytes }) => all + sizeBytes, 0));
    expect(sum.receivedBytes).toBeLessThanOrEqual(proxy.bytes.down);
    expect(find('bursar:BackendCost', undefined).length).toBeGreaterThan(0);
  });

  it('is, to the picodollar, what the accounts of stores and tenants say', () => {
    expect(accounts).toEqual(accountsOf(records, [storeName, 'far']));
    expect(accounts[0]?.charged).toBe(String(usd(records.map(({ cost }) => cost))));
    expect(ofTenant).toEqual(accounts.slice(0, 1));
    for (const { backend = [], backendCost } of records) {
      if (backendCost === undefined) expect(backend).toEqual([]);
      else expect(usd([backendCost])).toBe(usd(backend.map(({ cost }) => cost)));
    }
  });

  it('is priced by the book of the store', () => {
    const book = readPriceBooks().named('aws-us-east-1-2026');
    const prices = book?.classes.get('STANDARD');
    for (const { puts, gets, cost, priceBook } of records.flatMap(({ backend = [] }) => backend)) {
      expect(priceBook).toBe(book?.name);
      // So little moved that none of it is beyond the free amount.
      const requests =
        BigInt(puts) * (prices?.picodollarsPerPut ?? 0n) +
        BigInt(gets) * (prices?.picodollarsPerGet ?? 0n);
      expect(usd([cost])).toBe(requests);
    }
  });

  it('is shown to operators and to admins of the tenant, and to no member', () => {
    const { operator, admin, member } = shown;
    expect(operator.map(({ account }) => account)).toEqual([
      'backend:default',
      'store:cloud',
      'store:far',
    ]);
    expect(admin).toEqual([]);
    expect(member).toBe(403);
  });
});

describeWithTool(versitygw, 'what stores cost the operator, after a kill', (path) => {
  it('is still the sum of the records, with each operation that was answered', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-backend-kill-'));
    const backend = await startVersitygw(path);
    backend.makeBucket('backing');
    const dataDir = join(folder, 'data');
    const at = { endpoint: backend.endpoint, pathStyle: 'yes', url: 's3://backing' };
    const gateway = await startServedGateway({
      dataDir,
      args: ['--store', storeName],
      env: {
        BURSAR_STORES: JSON.stringify({ [storeName]: at }),
        AWS_ACCESS_KEY_ID: backend.credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: backend.credentials.secretAccessKey,
      },
    });
    let answered = 0;
    const client = new S3Client(gateway);
    await client.send('PUT', '/data');
    const put = async (key: number): Promise<void> => {
      const { status } = await client.send('PUT', `/data/${key}`, { body: small });
      if (status !== 200) return;
      answered++;
      await put(key + 8);
    };
    const writing = Promise.allSettled(Array.from({ length: 8 }, (_, key) => put(key)));
    while (answered < 100) await new Promise((r) => setTimeout(r, 5));
    await gateway.kill();
    await writing;
    const { records, accounts } = await readState(dataDir);
    await backend.stop();
    rmSync(folder, { recursive: true, force: true });
    expect(accounts).toEqual(accountsOf(records, [storeName]));
    const { puts } = sumOf(records.flatMap((record) => record.backend ?? []));
    expect(puts).toBeGreaterThanOrEqual(answered);
  });
});

/** What the database in a data folder says that nobody serves. */
async function readState(dataDir: string) {
  const options = { readonly: true, cacheKib: 1024 };
  const db = openDatabase(join(dataDir, 'bursar.db'), options);
  const { tx } = db;
  const rows = await tx.all<{ record: string }>('SELECT record FROM records ORDER BY idx');
  const state = {
    records: rows.map(({ record }) => JSON.parse(record) as LogRecord),
    accounts: await listBackendCosts(tx, null),
    ofTenant: await listBackendCosts(tx, 'default'),
  };
  db.close();
  return state;
}

/** What the accounts must be, by the records. */
function accountsOf(records: readonly LogRecord[], stores: readonly string[]) {
  const entriesOf = (some: readonly LogRecord[]) => some.flatMap((record) => record.backend ?? []);
  const ofUsers = records.filter(({ action }) => action !== 'bursar:BackendCost');
  return [
    accountOf('backend:default', entriesOf(ofUsers)),
    ...stores.map((name) =>
      accountOf(
        `store:${name}`,
        entriesOf(records).filter(({ store }) => store === name),
      ),
    ),
  ];
}

function sumOf(entries: readonly Entry[]) {
  const sum = { puts: 0, gets: 0, frees: 0, sentBytes: 0, receivedBytes: 0 };
  const names = Object.keys(sum) as (keyof typeof sum)[];
  for (const entry of entries) for (const name of names) sum[name] += entry[name];
  return sum;
}

/** As `listBackendCosts` has it, but for what was charged. */
function accountOf(account: string, entries: readonly Entry[]) {
  const { puts, gets, frees, sentBytes, receivedBytes } = sumOf(entries);
  return {
    account,
    requests: puts + gets + frees,
    ingressBytes: sentBytes,
    egressBytes: receivedBytes,
    spend: String(usd(entries.map(({ cost }) => cost))),
    charged: account.startsWith('store:') ? null : expect.any(String),
  };
}

/** Picodollars. */
function usd(amounts: readonly (string | undefined)[]): bigint {
  return amounts.reduce((sum, amount) => sum + (amount ? (parseUsd(amount) ?? -1n) : 0n), 0n);
}
