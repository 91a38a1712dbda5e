// Inventories as S3 clients configure them and pandas reads them: what they list, in whose name
// they are written, and what is refused.
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { lastDue } from '#bursar/catalog/inventory.js';
import {
  as,
  callNative,
  elementOf,
  findRecords,
  type Message,
  newName,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { awsCli, dataPython, describeWithTool } from '../tooling/tools.ts';

let operator: Target;
let alice: Target;
/** Who looks for what is due does so each minute. */
const patience = { timeout: 150_000, interval: 200 };

async function ask(who: Target, method: string, path: string, more: Partial<Message> = {}) {
  const answer = await send(who, { ...more, method, path });
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer;
}

interface Wanted {
  into: string;
  format?: string;
  fields?: readonly string[];
  versions?: string;
  prefix?: string;
  filter?: string;
}

const allFields = ['Size', 'LastModifiedDate', 'ETag', 'StorageClass', 'IsMultipartUploaded'];

function documentOf(id: string, wanted: Wanted): string {
  const { into, format = 'CSV', fields = allFields, versions = 'Current' } = wanted;
  const { prefix = 'lists', filter } = wanted;
  return `<InventoryConfiguration><Id>${id}</Id><IsEnabled>true</IsEnabled>
    <Destination><S3BucketDestination><Bucket>arn:aws:s3:::${into}</Bucket>
      <Format>${format}</Format><Prefix>${prefix}</Prefix></S3BucketDestination></Destination>
    ${filter === undefined ? '' : `<Filter><Prefix>${filter}</Prefix></Filter>`}
    <IncludedObjectVersions>${versions}</IncludedObjectVersions>
    <OptionalFields>${fields.map((one) => `<Field>${one}</Field>`).join('')}</OptionalFields>
    <Schedule><Frequency>Daily</Frequency></Schedule></InventoryConfiguration>`;
}

const query = (id: string): [string, string][] => [
  ['inventory', ''],
  ['id', id],
];

function put(who: Target, bucket: string, id: string, body: string) {
  return send(who, { method: 'PUT', path: `/${bucket}`, query: query(id), body });
}

const pathOf = (bucket: string) => `/_/v1/tenants/cms/buckets/${bucket}/inventories`;

/** Has it written, and gives what the native API says of it. */
async function run(bucket: string, id: string) {
  await callNative(alice, 'POST', `${pathOf(bucket)}/${id}/run`);
  return ended(bucket, id);
}

async function ended(bucket: string, id: string) {
  return vi.waitFor(async () => {
    const { inventories } = await callNative(alice, 'GET', pathOf(bucket));
    const found = inventories.find((one: { id: string }) => one.id === id);
    expect(found.state).toMatch(/written|failed/);
    return found;
  }, patience);
}

/** The manifest, whose checksum is compared, and the rows of its CSV files. */
async function read(into: string, key: string) {
  const manifest = await ask(alice, 'GET', `/${into}/${key}`);
  const checksum = await ask(alice, 'GET', `/${into}/${key.replace('.json', '.checksum')}`);
  expect(createHash('md5').update(manifest.text).digest('hex')).toBe(checksum.text);
  return JSON.parse(manifest.text);
}

beforeAll(async () => {
  operator = await startEmbeddedTarget();
  await callNative(operator, 'POST', '/_/v1/tenants', { name: 'cms' });
  alice = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'alice' }));
});
afterAll(() => operator.stop());

async function newBuckets(): Promise<{ bucket: string; into: string }> {
  const [bucket, into] = [newName('listed'), newName('lists')];
  for (const name of [bucket, into]) await ask(alice, 'PUT', `/${name}`);
  return { bucket, into };
}

describe('an inventory', () => {
  it('is written by itself when it is due, in the name of who configured it', {
    timeout: 180_000,
  }, async () => {
    const { bucket, into } = await newBuckets();
    for (const key of ['a', 'in/b c', 'in/"d"']) {
      await ask(alice, 'PUT', `/${bucket}/${key}`, { body: 'hello' });
    }
    expect((await put(alice, bucket, 'all', documentOf('all', { into }))).status).toBe(204);
    const { manifest, objects, state } = await ended(bucket, 'all');
    expect([state, objects]).toEqual(['written', 3]);
    const said = await read(into, manifest);
    expect(said).toMatchObject({
      ...{ sourceBucket: bucket, destinationBucket: `arn:aws:s3:::${into}`, fileFormat: 'CSV' },
      version: '2016-11-30',
      fileSchema: 'Bucket, Key, Size, LastModifiedDate, ETag, StorageClass, IsMultipartUploaded',
    });
    expect(said.files).toHaveLength(1);
    const records = await findRecords(operator, [['bucket', into]]);
    const writes = records.filter(({ action }) => action === 's3:PutObject');
    expect(new Set(writes.map(({ tenant, principal }) => `${tenant}/${principal}`))).toEqual(
      new Set(['cms/alice']),
    );
    expect(writes.every(({ cost }) => Number(cost) > 0)).toBe(true);
    // With a token of theirs that is listed, and says what it is for.
    const ids = new Set(writes.map(({ tokens }) => String(tokens)));
    const label = `inventory all of cms/${bucket}`;
    await vi.waitFor(async () => {
      const { tokens } = await callNative(alice, 'GET', '/_/v1/tokens');
      const own = tokens.filter((one: { label: string }) => one.label === label);
      expect(own).toMatchObject([{ principal: 'cms/alice', state: 'valid', issued: false }]);
      expect(own.map(({ jti }: { jti: string }) => jti)).toEqual([...ids]);
    }, patience);
    // What is there is whole, and stays: one that is asked for is another.
    const again = await run(bucket, 'all');
    const more = await run(bucket, 'all');
    expect(again.manifest).not.toBe(manifest);
    expect((await read(into, again.manifest)).files).toHaveLength(1);
    // The names of both would be the same, where a minute has not ended between them.
    if (more.state === 'failed') expect(more.problem).toContain('ask again in the next');
    else expect([manifest, again.manifest]).not.toContain(more.manifest);
  });

  it('is not written where who configured it may not write, and says so', async () => {
    const { bucket } = await newBuckets();
    const elsewhere = newName('others');
    await ask(operator, 'PUT', `/${elsewhere}`);
    await put(alice, bucket, 'out', documentOf('out', { into: `default:${elsewhere}` }));
    const { state, problem } = await run(bucket, 'out');
    expect([state, problem]).toEqual(['failed', expect.stringContaining('Access Denied')]);
  });

  it('is not written again after a restart, by who may not read it either', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-inventory-again-'));
    let gateway = await startServedGateway({ dataDir });
    const { accessKeyId, secretAccessKey } = gateway;
    const at = (keys = { accessKeyId, secretAccessKey }): Target => {
      return { endpoint: gateway.endpoint, keys, strayNames: () => [], stop: async () => {} };
    };
    try {
      await callNative(at(), 'POST', '/_/v1/tenants', { name: 'cms' });
      const bob = await newPrincipal(at(), { tenant: 'cms', name: 'bob' });
      const ada = await newPrincipal(at(), { tenant: 'cms', name: 'ada', role: 'admin' });
      await ask(at(bob), 'PUT', '/listed');
      await ask(at(ada), 'PUT', '/lists');
      await callNative(at(ada), 'PUT', '/_/v1/tenants/cms/grants/bob-writes', {
        ...{ effect: 'allow', actions: ['s3:PutObject'], bucket: 'lists' },
        subjects: ['principal:cms/bob'],
      });
      await put(at(bob), 'listed', 'all', documentOf('all', { into: 'lists' }));
      const written = () =>
        vi.waitFor(async () => {
          const path = '/_/v1/tenants/cms/buckets/listed/inventories';
          const { inventories } = await callNative(at(ada), 'GET', path);
          expect(inventories[0].state).toBe('written');
          return inventories[0];
        }, patience);
      const again = async () => {
        await gateway.stop();
        gateway = await startServedGateway({ dataDir });
        return written();
      };
      const first = await again();
      const second = await again();
      // How many objects it has was known to who wrote it.
      expect([first.objects, second.objects]).toEqual([0, null]);
      expect(second.manifest).toBe(first.manifest);
      const records = await findRecords(at(ada), [['bucket', 'lists']]);
      const writes = records.filter(({ action }) => action === 's3:PutObject');
      expect(writes.map(({ key, principal }) => [key, principal]).sort()).toEqual([
        [first.manifest.replace('.json', '.checksum'), 'bob'],
        [first.manifest, 'bob'],
      ]);
      // What somebody else writes there does not stand for it, and so is not told either.
      const checksum = `/lists/${first.manifest.replace('.json', '.checksum')}`;
      await ask(at(ada), 'PUT', checksum, { body: 'planted' });
      expect((await again()).objects).toBe(0);
    } finally {
      await gateway.stop();
      rmSync(dataDir, { recursive: true });
    }
  });

  it('is refused with a token, and to others; listed and deleted by S3', async () => {
    const { bucket, into } = await newBuckets();
    const bob = as(operator, await newPrincipal(operator, { tenant: 'cms', name: newName('bob') }));
    const body = documentOf('all', { into });
    expect(elementOf((await put(bob, bucket, 'all', body)).text, 'Code')).toBe('AccessDenied');
    const refusals: [string, string, string][] = [
      ['all', body.replace('<Id>all', '<Id>other'), 'IdMismatch'],
      ['a b', documentOf('a b', { into }), 'InvalidArgument'],
      ['all', documentOf('all', { into, format: 'ORC' }), 'NotImplemented'],
      ['all', documentOf('all', { into, format: 'XML' }), 'MalformedXML'],
      ['all', documentOf('all', { into, fields: ['Colour'] }), 'MalformedXML'],
      ['all', documentOf('all', { into, fields: ['EncryptionStatus'] }), 'NotImplemented'],
      ['all', documentOf('all', { into: 'No Bucket' }), 'InvalidS3DestinationBucket'],
      ['all', '<InventoryConfiguration/>', 'MalformedXML'],
      ['all', '<Other/>', 'MalformedXML'],
    ];
    for (const [id, document, code] of refusals) {
      const { text } = await put(alice, bucket, id, document);
      expect([document, elementOf(text, 'Code')]).toEqual([document, code]);
    }
    const list = () => ask(alice, 'GET', `/${bucket}`, { query: [['inventory', '']] });
    expect((await list()).text).not.toContain('<Id>');
    for (const id of ['b', 'a']) await put(alice, bucket, id, documentOf(id, { into }));
    expect((await list()).text).toMatch(/<Id>a<.*<Id>b</s);
    const one = await ask(alice, 'GET', `/${bucket}`, { query: query('a') });
    expect(elementOf(one.text, 'Frequency')).toBe('Daily');
    await ask(alice, 'DELETE', `/${bucket}`, { query: query('a') });
    const gone = await send(alice, { method: 'DELETE', path: `/${bucket}`, query: query('a') });
    expect(elementOf(gone.text, 'Code')).toBe('NoSuchConfiguration');
  });

  it('is due at midnight, or that of Sundays', () => {
    const friday = Date.parse('2026-11-27T19:00:00Z');
    expect(new Date(lastDue('Daily', friday)).toISOString()).toBe('2026-11-27T00:00:00.000Z');
    expect(new Date(lastDue('Weekly', friday)).toISOString()).toBe('2026-11-22T00:00:00.000Z');
    const sunday = Date.parse('2026-11-29T00:00:00Z');
    expect(lastDue('Weekly', sunday)).toBe(sunday);
  });
});

const pandas = `
import io, json, sys, pandas
columns, files = json.loads(sys.argv[1]), sys.argv[2:]
if columns:
    frames = [pandas.read_csv(f, header=None, names=columns) for f in files]
else:
    frames = [pandas.read_parquet(f) for f in files]
frame = pandas.concat(frames).rename(columns={"Key": "key", "Size": "size"})
print(json.dumps({"keys": sorted(frame["key"]), "size": int(frame["size"].sum()),
                  "columns": list(frame.columns)}))
`;

describeWithTool(dataPython, 'read by pandas', (python) => {
  describeWithTool(awsCli, 'configured by the AWS CLI', (aws) => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-inventory-'));
    afterAll(() => rmSync(folder, { recursive: true }));

    it.each(['CSV', 'Parquet'])('%s', { timeout: 180_000 }, async (format) => {
      const { bucket, into } = await newBuckets();
      const keys = Array.from({ length: 1234 }, (_, i) => `run ${i % 7}/file-${i} ü.root`);
      const sizes = keys.map((_, i) => i % 11);
      for (let i = 0; i < keys.length; i += 50) {
        await Promise.all(
          keys.slice(i, i + 50).map((key, j) => {
            return ask(alice, 'PUT', `/${bucket}/${key}`, { body: 'x'.repeat(sizes[i + j] ?? 0) });
          }),
        );
      }
      const file = join(folder, 'inventory.json');
      const configuration = {
        ...{ Id: 'all', IsEnabled: true, IncludedObjectVersions: 'Current' },
        Destination: { S3BucketDestination: { Bucket: `arn:aws:s3:::${into}`, Format: format } },
        ...{ OptionalFields: allFields, Schedule: { Frequency: 'Weekly' } },
      };
      writeFileSync(file, JSON.stringify(configuration));
      const cli = (...args: string[]) =>
        promisify(execFile)(aws, ['--endpoint-url', operator.endpoint, 's3api', ...args], {
          env: {
            ...{ PATH: process.env.PATH, NO_PROXY: '127.0.0.1', AWS_DEFAULT_REGION: 'us-east-1' },
            AWS_ACCESS_KEY_ID: alice.keys.accessKeyId,
            AWS_SECRET_ACCESS_KEY: alice.keys.secretAccessKey,
          },
        });
      const named = ['--bucket', bucket, '--id', 'all'];
      const of = ['--inventory-configuration', `file://${file}`];
      await cli('put-bucket-inventory-configuration', ...named, ...of);
      const { stdout } = await cli('get-bucket-inventory-configuration', ...named);
      expect(JSON.parse(stdout)).toEqual({ InventoryConfiguration: configuration });
      const { manifest, objects } = await run(bucket, 'all');
      expect(objects).toBe(keys.length);
      const said = await read(into, manifest);
      const files: string[] = [];
      for (const { key, size, MD5checksum } of said.files) {
        const { body } = await ask(alice, 'GET', `/${into}/${key}`);
        expect(body.length).toBe(size);
        expect(createHash('md5').update(body).digest('hex')).toBe(MD5checksum);
        const path = join(folder, key.replaceAll('/', '_'));
        writeFileSync(path, body);
        files.push(path);
      }
      const columns = format === 'CSV' ? said.fileSchema.split(', ') : null;
      const args = ['-c', pandas, JSON.stringify(columns), ...files];
      const env = { PATH: process.env.PATH ?? '' };
      const seen = JSON.parse(execFileSync(python, args, { env }).toString());
      const listed = format === 'CSV' ? seen.keys.map(decodeURIComponent) : seen.keys;
      expect(listed.sort()).toEqual([...keys].sort());
      expect(seen.size).toBe(sizes.reduce((sum, size) => sum + size, 0));
      expect(seen.columns).toHaveLength(7);
    });
  });
});
