// `bursar find`: shown, counted, explained, and given to a command one by one; and
// `bursar dataset`, which writes down what was found.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { callNative, newPrincipal, send, type Target } from '../protocol/target.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();

let target: Target;

async function put(path: string, run?: string, body = ''): Promise<void> {
  const headers: Record<string, string> = run === undefined ? {} : { 'x-amz-meta-run': run };
  expect((await send(target, { method: 'PUT', path, headers, body })).status).toBe(200);
}

beforeAll(async () => {
  const { endpoint } = await place.serve();
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  target = {
    ...{ endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [] },
    stop: async () => {},
  };
  for (const bucket of ['/raw', '/sim']) await put(bucket);
  await put('/raw/in/a b', '7', 'hello');
  await put('/raw/out/c\u202e', '7', 'world!');
  await put('/raw/other', '8');
  await put('/sim/in/d', '7', 'x');
  await vi.waitFor(async () => {
    expect((await find('s3://raw', 's3://sim', 'meta.run = 7', '--count')).stdout).toBe('3\n');
  }, 30_000);
});
afterAll(() => place.remove());

const find = (...args: string[]) => place.run(['find', ...args]);

it('shows objects of several buckets and prefixes, a line each', async () => {
  const { stdout, code } = await find('s3://raw', 's3://sim/in/', 'meta.run = 7');
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map((line) => line.split(/ {2,}/).slice(1))).toEqual([
    ['5 B', 's3://raw/in/a b'],
    ['6 B', 's3://raw/out/c\\u202e'],
    ['1 B', 's3://sim/in/d'],
  ]);
  const json = await find('s3://raw/in/', 'meta.run = 7', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ url: 's3://raw/in/a b', metadata: { run: '7' } });
  const csv = await find('s3://raw', 'size = 5', '--csv');
  expect(csv.stdout.split('\r\n').map((line) => line.split(',').slice(0, 2))).toEqual([
    ['url', 'size'],
    ['s3://raw/in/a b', '5'],
    [''],
  ]);
  const one = await find('s3://raw', 's3://sim', 'meta.run = 7', '--limit', '1', '--json');
  expect(one.stdout.trimEnd().split('\n')).toHaveLength(1);
});

it('counts and sums them', async () => {
  const sum = await find('s3://raw', 's3://sim', 'meta.run exists', '--sum', 'size');
  expect(sum.stdout).toBe('4 objects, 12 B (12 bytes)\n');
  const json = await find('s3://raw', 'meta.run = 7', '--count', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ count: 2, size: 11 });
});

it('says what the index is asked for', async () => {
  const led = await find('s3://raw', 'meta.run = 7 and size > 5', '--explain');
  expect(led.stdout).toContain('s3://raw: the index leads to ');
  const none = await find('s3://raw', 'not meta.run = 7', '--explain');
  expect(none.stdout).toBe('s3://raw: each object is looked at\n');
});

it('starts a command for each, without a shell, and says how many failed', async () => {
  const done = await find('s3://raw', 'meta.run = 7', '--exec', '--', 'echo', '<{}>');
  expect(done.stdout).toBe('<s3://raw/in/a b>\n<s3://raw/out/c\u202e>\n');
  const failing = await find('s3://raw', 'meta.run = 7', '--exec', '--', 'test', '{}', '=', 'x');
  expect({ code: failing.code, stderr: failing.stderr }).toEqual({
    code: 1,
    stderr: 'bursar: the command failed for 2 objects\n',
  });
});

describe('a data set', () => {
  const json = async (...args: string[]) => {
    const { code, stdout, stderr } = await place.run([...args, '--json']);
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout);
  };
  const verify = async (...args: string[]) => {
    const { stdout, code } = await place.run(['verify', 'dataset', crate, ...args, '--json']);
    const { findings, files, receipts } = JSON.parse(stdout);
    return { code, findings, files, receipts };
  };
  let crate: string;
  let fetched: string;
  let key: string;

  beforeAll(async () => {
    [crate, fetched] = ['crate', 'fetched'].map((name) => join(place.folder, name)) as [
      string,
      string,
    ];
    await put('/raw/odd\n%\\', '7', 'odd');
    await json('snapshot', 'create', 's3://raw', 'paper');
    await json(
      'mount',
      'create',
      'run7',
      'default:raw',
      '--at',
      'paper',
      '--where',
      'meta.run = 7',
    );
    await put('/raw/in/a b', '7', 'changed since');
    const made = await json('dataset', 'manifest', 's3://run7', '--out', crate, '--receipts');
    expect(made).toMatchObject({ out: crate, objects: 3, size: 14 });
    const list = readFileSync(join(crate, 'manifest-sha256.txt'));
    expect(made.sha256).toBe(createHash('sha256').update(list).digest('hex'));
    key = join(place.folder, 'log.key');
    writeFileSync(key, (await place.run(['log', 'key'])).stdout);
    const contents = { 'in/a b': 'hello', 'out/c\u202e': 'world!', 'odd\n%\\': 'odd' };
    for (const [path, content] of Object.entries(contents)) {
      mkdirSync(dirname(join(fetched, path)), { recursive: true });
      writeFileSync(join(fetched, path), content);
    }
  });

  it('is written down as it was frozen, and verified by itself and by sha256sum', async () => {
    const described = JSON.parse(readFileSync(join(crate, 'ro-crate-metadata.json'), 'utf8'));
    const entities = new Map<string, Record<string, unknown>>(
      described['@graph'].map((one: { '@id': string }) => [one['@id'], one]),
    );
    expect(entities.get('s3://run7/in/a%20b')).toMatchObject({ '@type': 'File', contentSize: '5' });
    const parts = entities.get('./')?.hasPart as { '@id': string }[];
    expect(parts.every((part) => entities.has(part['@id']))).toBe(true);
    expect(await verify(fetched, '--key', key)).toEqual({
      code: 0,
      findings: [],
      files: 3,
      receipts: 3,
    });
    const by = (file: string, cwd: string) =>
      spawnSync('sha256sum', ['--check', '--strict', '--quiet', join(crate, file)], { cwd });
    expect(by('manifest-sha256.txt', fetched).status).toBe(0);
    expect(by('tagmanifest-sha256.txt', crate).status).toBe(0);
  });

  it('is not what was changed, is missing, or is more', async () => {
    writeFileSync(join(fetched, 'in/a b'), 'hallo');
    writeFileSync(join(fetched, 'more'), '');
    rmSync(join(fetched, 'out'), { recursive: true });
    expect((await verify(fetched)).findings).toEqual([
      'in/a b has another content',
      'out/c\u202e is not there',
      'more is not of the data set',
    ]);
    const receipts = readdirSync(join(crate, 'receipts')).map((name) =>
      join(crate, 'receipts', name),
    );
    copyFileSync(receipts[0] as string, receipts[1] as string);
    const file = join(crate, 'objects.jsonl');
    writeFileSync(file, readFileSync(file, 'utf8').replace('"size":5', '"size":6'));
    const { code, findings } = await verify('--key', key);
    expect(code).toBe(1);
    expect(findings.join()).toMatch(
      /is not that of in\/a b.*is not that of .*objects.jsonl is not/s,
    );
  });

  it('has a digest of each, also of what was uploaded in parts', async () => {
    const path = '/raw/parts';
    const begun = await send(target, { method: 'POST', path, query: [['uploads', '']] });
    const [, id = ''] = /<UploadId>(.*)<\/UploadId>/.exec(begun.text) ?? [];
    const upload: [string, string][] = [['uploadId', id]];
    const part = { method: 'PUT', path, query: [['partNumber', '1'], ...upload] as typeof upload };
    const etag = (await send(target, { ...part, body: 'in parts' })).headers.etag;
    const one = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
    const body = `<CompleteMultipartUpload>${one}</CompleteMultipartUpload>`;
    expect((await send(target, { method: 'POST', path, query: upload, body })).status).toBe(200);
    const args = ['dataset', 'manifest', 's3://raw/par', 'size = 8', '--out', `${crate}2`];
    await vi.waitFor(
      async () => expect((await find('s3://raw', 'size = 8')).stdout).toMatch(/parts/),
      30_000,
    );
    const refused = await place.run(args);
    expect([refused.code, existsSync(`${crate}2`)]).toEqual([1, false]);
    expect(refused.stderr).toContain('1 objects (8 B) were uploaded in parts');
    await json(...args, '--digest');
    const list = readFileSync(join(`${crate}2`, 'manifest-sha256.txt'), 'utf8');
    expect(list).toBe(`${createHash('sha256').update('in parts').digest('hex')}  parts\n`);
    expect((await place.run(args)).stderr).toContain('is there already');
  });

  it('has what its maker may read, and no more', async () => {
    const bob = await newPrincipal(target, { name: 'bob' });
    const grant = { effect: 'allow', subjects: ['principal:default/bob'], bucket: 'raw' };
    for (const [name, more] of [
      ['bob-lists', { actions: ['s3:ListBucket'] }],
      ['bob-reads', { actions: ['s3:GetObject'], prefix: 'in/' }],
    ] as const) {
      const path = `/_/v1/tenants/default/grants/${name}`;
      await callNative(target, 'PUT', path, { ...grant, ...more });
    }
    const env = {
      BURSAR_ENDPOINT: target.endpoint,
      ...{ BURSAR_ACCESS_KEY_ID: bob.accessKeyId, BURSAR_SECRET_ACCESS_KEY: bob.secretAccessKey },
    };
    const args = ['dataset', 'manifest', 's3://raw', '--out', `${crate}4`];
    expect(await place.run(args, env)).toMatchObject({ code: 0 });
    const list = readFileSync(join(`${crate}4`, 'manifest-sha256.txt'), 'utf8');
    expect(list.replaceAll(/^\w{64} {2}/gm, '')).toBe('in/a b\n');
    const other = ['dataset', 'manifest', 's3://sim', '--out', `${crate}5`];
    expect((await place.run(other, env)).stderr).toContain('AccessDenied');
    expect(existsSync(`${crate}5`)).toBe(false);
  });

  it('is written whole where the gateway was busy, or away, for a moment', async () => {
    const { hostname, port } = new URL(target.endpoint);
    let [asked, refused, cut] = [0, 0, 0];
    let away = 4;
    /** Has each request fail the first two times, and reads of an object four times before. */
    const failing = createServer(({ method, url = '', headers }, answer) => {
      if (!url.startsWith('/_/') && away > 0) {
        away -= 1;
        answer.destroy();
        return;
      }
      asked += 1;
      if (asked % 3 === 1) {
        refused += 1;
        answer.writeHead(503, { 'content-type': 'application/problem+json' });
        answer.end(JSON.stringify({ status: 503, code: 'SlowDown', detail: 'Busy.' }));
      } else if (asked % 3 === 2) {
        cut += 1;
        answer.destroy();
      } else {
        const passed = request({ hostname, port, method, path: url, headers }, (from) => {
          answer.writeHead(from.statusCode ?? 0, from.headers);
          from.pipe(answer);
        });
        passed.end();
      }
    });
    await new Promise<void>((resolve) => failing.listen(0, '127.0.0.1', resolve));
    const { port: ours } = failing.address() as AddressInfo;
    try {
      // Whose tenant it is, is said: nothing else is asked than what is written.
      const from = ['--endpoint', `http://127.0.0.1:${ours}`, '--digest', '--receipts'];
      const where = ['s3://default:raw/par', 'not size < 0', '--out', `${crate}3`];
      await json('dataset', 'manifest', ...where, ...from);
      expect(readFileSync(join(`${crate}3`, 'manifest-sha256.txt'), 'utf8')).toContain('parts');
      // A page, the bytes of what was uploaded in parts, and receipts.
      expect(Math.min(refused, cut)).toBeGreaterThanOrEqual(3);
    } finally {
      failing.close();
    }
  });
});

it('says that nothing fits', async () => {
  const nothing = ['s3://raw', 'meta.run = "none of them"'];
  const said = 'bursar: no objects fit, of those that you may list and read\n';
  expect(await find(...nothing)).toEqual({ code: 0, stdout: '', stderr: said });
  const tagged = await find('s3://raw', 'tag.no = "none of them"');
  expect(tagged.stderr).toMatch(/ read, and whose tags you may read\n$/);
  expect(await find(...nothing, '--json')).toEqual({ code: 0, stdout: '', stderr: '' });
  const { code, stdout, stderr } = await find(...nothing, '--csv');
  expect([code, stderr]).toEqual([0, said]);
  expect(stdout).toMatch(/^url,size,[^\n]*,index\r\n$/);
});

it.each([
  [['s3://raw'], 2, 'say where, and then what'],
  [['size > 1'], 2, 'say where, and then what'],
  [['s3://raw', 'size > 1', 'ls'], 2, 'a command is given by --exec'],
  [['s3://raw', 'size > 1', '--exec'], 2, 'a command is given by --exec'],
  [['s3://raw', 'size > 1', '--count', '--explain'], 2, 'exclude each other'],
  [['s3://raw', 'size > 1', '--sum', 'etag'], 2, 'Must be size.'],
  [['s3://raw', 'size >'], 2, 'The query cannot be read at character 7'],
  [['s3://none', 'size > 1'], 1, 'NoSuchBucket'],
])('refuses %j', async (args, code, message) => {
  const done = await find(...args);
  expect({ code: done.code, stdout: done.stdout }).toEqual({ code, stdout: '' });
  expect(done.stderr).toContain(message);
});
