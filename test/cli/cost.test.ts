// `bursar cost` and `bursar price` as their users run them: on the records of a real gateway whose
// prices make each byte cost something, and without any gateway.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parseUsd } from '#bursar/core/money.js';
import { blocksOf, readPage, rowsOf, sectionOf } from '../docs/markdown.ts';
import { S3Client } from '../fault/s3-client.ts';
import { draftBook } from '../quota/prices/price-book-text.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
let served: Served;
const booksFolder = join(place.folder, 'price-books');
const books = ['--price-books', booksFolder];
const usd = (text: string): bigint => parseUsd(text) as bigint;

interface Case extends Record<string, unknown> {
  name: string;
  total: string;
}
interface Answer {
  of: Record<string, unknown>;
  cases: Case[];
  notes: string[];
}

async function costs(...flags: string[]): Promise<Answer> {
  const outcome = await place.run(['cost', '--json', ...books, ...flags]);
  expect(outcome).toMatchObject({ code: 0, stderr: '' });
  return JSON.parse(outcome.stdout) as Answer;
}

const firstOf = (answer: Answer): Case => answer.cases[0] as Case;
const linesOf = ({ stdout }: Outcome): string[] => stdout.trimEnd().split('\n');

async function records(): Promise<Record<string, string | number>[]> {
  const outcome = await place.run(['records', '--json']);
  return linesOf(outcome).map((line) => JSON.parse(line));
}

beforeAll(async () => {
  mkdirSync(booksFolder);
  const source = 'list';
  const book = {
    ...draftBook(),
    ...{ name: 'lab-2026', provider: 'lab', region: 'basement' },
    ingress: { usdPerGb: [{ usd: '0.10' }], source },
    egress: { usdPerGb: [{ usd: '0.18' }], source },
  };
  writeFileSync(join(booksFolder, 'lab-2026.json'), JSON.stringify(book));
  served = await place.serve(['--prices', 'lab/basement', ...books], {
    BURSAR_ROOT_ACCESS_KEY: 'ROOTKEYOFTHETEST',
    BURSAR_ROOT_SECRET_KEY: 'root-secret-of-the-test',
  });
  const keys = { accessKeyId: 'ROOTKEYOFTHETEST', secretAccessKey: 'root-secret-of-the-test' };
  const client = new S3Client({ endpoint: served.endpoint, ...keys });
  writeFileSync(
    join(place.data, 'credentials'),
    `[bursar]\naws_access_key_id = ${keys.accessKeyId}\n` +
      `aws_secret_access_key = ${keys.secretAccessKey}\nendpoint_url = ${served.endpoint}\n`,
  );
  const ask = async (method: string, path: string, sending = {}): Promise<void> => {
    expect((await client.send(method, path, sending)).status).toBeLessThan(300);
  };
  for (const bucket of ['raw', 'derived']) {
    await ask('PUT', `/${bucket}`);
    for (const size of [0, 7, 4096, 1_000_001]) {
      await ask('PUT', `/${bucket}/${size}`, { body: Buffer.alloc(size, 'x') });
      await ask('GET', `/${bucket}/${size}`);
    }
  }
  await ask('PUT', '/raw/copy', { headers: { 'x-amz-copy-source': '/raw/4096' } });
  await ask('GET', '/raw', { query: [['list-type', '2']] });
  await ask('HEAD', '/raw');
  await ask('DELETE', '/raw/7');
  expect((await client.send('GET', '/raw/nothing')).status).toBe(404);
});
afterAll(() => place.remove());

describe('what was paid', () => {
  test("is the sum of the records' costs and what accounts spent, to the picodollar", async () => {
    // Reads are recorded soon after them, and storage is charged each hour, maybe in the midst of
    // this.
    const before = new Date(Date.now() + 100).toISOString();
    await new Promise((resolve) => setTimeout(resolve, 500));
    const to = ['--to', before];
    const answer = await costs(...to);
    const all = (await records()).filter(({ time }) => String(time) < before);
    const paid = all.reduce((sum, { cost = '0' }) => sum + usd(String(cost)), 0n);
    expect(paid).toBeGreaterThan(0n);
    expect(usd(firstOf(answer).total)).toBe(paid);
    expect(answer.of.records).toBe(all.filter(({ cost }) => cost !== undefined).length);
    // Buckets and the principal, the one who asked.
    const ofBuckets = await Promise.all(
      ['raw', 'derived'].map((name) => costs(`bucket:default/${name}`, ...to)),
    );
    const ofPrincipal = await costs('principal:default/admin', ...to);
    expect(firstOf(ofPrincipal).total).toBe(firstOf(answer).total);
    const sum = ofBuckets.reduce((total, one) => total + usd(firstOf(one).total), 0n);
    // Making a bucket is charged to who asks: there is no bucket yet.
    expect(paid - sum).toBe(2n * usd('0.000005'));
    const byName = await costs('--bucket', 'derived', ...to);
    expect(usd(firstOf(byName).total)).toBe(
      usd(firstOf(ofBuckets[1] as Answer).total) + usd('0.000005'),
    );
  });

  test('is what the same prices give when they are asked again, in every meter', async () => {
    const { cases } = await costs('--book', 'lab-2026');
    const [paid, again] = cases as [Case, Case];
    const meters = ['puts', 'gets', 'ingress', 'egress', 'retrieval', 'storage', 'total'];
    for (const meter of meters) expect([meter, again[meter]]).toEqual([meter, paid[meter]]);
    expect(usd(String(paid.ingress))).toBeGreaterThan(0n);
    expect(usd(String(paid.egress))).toBeGreaterThan(0n);
  });

  test('is nothing of an account that paid nothing, or of a time before', async () => {
    expect(firstOf(await costs('tenant:cms')).total).toBe('0.00');
    expect(firstOf(await costs('--to', '2020-01-01')).total).toBe('0.00');
    const today = new Date().toISOString().slice(0, 10);
    expect(firstOf(await costs('--from', today)).total).toBe(firstOf(await costs()).total);
  });

  test('is beside what it is by each book, class and cache, with what is assumed', async () => {
    const { cases, notes } = await costs('--book', 's3-2007', 'free', '--cache-hits', '0', '80%');
    expect(cases.map(({ name }) => name)).toEqual([
      'as charged',
      's3-2007, 0% cached',
      's3-2007, 80% cached',
      'free, 0% cached',
      'free, 80% cached',
    ]);
    expect(cases.at(-1)?.total).toBe('0.00');
    expect(usd(cases[2]?.total ?? '')).toBeLessThan(usd(cases[1]?.total ?? ''));
    expect(notes.join()).toContain('Tiers are counted for these records alone');
    expect((await costs()).notes).toEqual([]);
    // Members do not see what others did in their buckets.
    expect((await place.run(['principal', 'create', 'default/dana'])).code).toBe(0);
    const made = await place.run(['key', 'create', 'default/dana', '--json']);
    const { accessKeyId, secretAccessKey } = JSON.parse(made.stdout);
    const dana = {
      ...{ BURSAR_ACCESS_KEY_ID: accessKeyId, BURSAR_SECRET_ACCESS_KEY: secretAccessKey },
      BURSAR_ENDPOINT: served.endpoint,
    };
    const own = await place.run(['cost', '--json', ...books], dana);
    expect(JSON.parse(own.stdout).notes.join()).toContain('Of your own requests alone');
  });

  test('is a table, or CSV', async () => {
    const table = linesOf(await place.run(['cost', ...books, '--book', 's3-2010']));
    expect(table[0]).toMatch(/^USD +as charged +s3-2010$/);
    expect(table.find((line) => line.startsWith('total'))).toMatch(/^total +0\.0\d+ +0\.0\d+ *$/);
    const csv = await place.run(['cost', ...books, '--book', 's3-2010', '--csv']);
    const [heading, ...lines] = csv.stdout.split('\r\n');
    expect(heading).toBe(
      'case,book,class,cacheHits,puts,gets,ingress,egress,retrieval,storage,earlyDeletion,total',
    );
    expect(lines.map((line) => line.split(',')[0])).toEqual(['as charged', 's3-2010', '']);
    expect(csv.stderr).toContain('Tiers are counted');
  });

  test('is said by the books of the gateway, which are nowhere else', async () => {
    expect((await place.run(['cost'])).code).toBe(0);
    const other = { BURSAR_PRICE_BOOKS: join(place.folder, 'none') };
    mkdirSync(other.BURSAR_PRICE_BOOKS);
    const outcome = await place.run(['cost'], other);
    expect(outcome).toMatchObject({ code: 1, stdout: '' });
    expect(outcome.stderr).toBe(
      'bursar: the records name the price book lab-2026, which is not here\n',
    );
  });
});

describe('what a workload costs', () => {
  const file = join(place.folder, 'archive.json');
  beforeAll(() => {
    const [block] = blocksOf(readPage('docs/formats/price-book.md').text).filter(({ code }) =>
      code.includes('bursar-workload'),
    );
    writeFileSync(file, String(block?.code));
  });

  test('is said by the prices of today, and by others', async () => {
    const { cases, of } = await costs('--workload', file, '--class', 'STANDARD', 'DEEP_ARCHIVE');
    expect(of).toEqual({ workload: "a lab's archive", months: 12 });
    expect(cases).toMatchObject([
      { name: 'aws-us-east-1-2026', storage: '1536.00', retrieval: '30.72', egress: '168.48' },
      { name: 'STANDARD', storage: '2826.24', retrieval: '0.00' },
      { name: 'DEEP_ARCHIVE', retrieval: '61.44' },
    ]);
    // 10 TB at $0.0125 for 12 months and the rest, over 8 bits a byte.
    expect(cases[0]?.picocentsPerBitYear).toBeCloseTo(
      (Number(cases[0]?.year) * 1e14) / 2 ** 43 / 10,
      2,
    );
  });

  test('is said by one book where that of today has not its class', async () => {
    const text = JSON.parse(
      String(
        blocksOf(readPage('docs/formats/price-book.md').text).find(({ code }) =>
          code.includes('bursar-workload'),
        )?.code,
      ),
    );
    const volume = join(place.folder, 'volume.json');
    text.parts[0].class = 'EBS';
    writeFileSync(volume, JSON.stringify(text));
    const { cases } = await costs('--workload', volume, '--book', 'ebs-2010');
    expect(cases.map(({ name }) => name)).toEqual(['ebs-2010']);
  });

  test.each([
    [['--workload', 'nothing.json'], 'nothing.json: ENOENT'],
    [['--workload', join('price-books', 'lab-2026.json')], 'lab-2026.json: workload: must'],
    [['tenant:cms', '--workload', 'archive.json'], 'an account is of records'],
    [['--workload', 'archive.json', '--book', 'lab-1999'], '--book lab-1999 is not there'],
    [['--workload', 'archive.json', '--cache-hits', '1.2'], 'Must be a share'],
    [['--workload', 'archive.json', '--cache-hits', '101%'], 'Must be a share'],
    [['cms/alice'], 'cms/alice must be such as'],
    [['bucket:cms/raw', '--bucket', 'other'], 'is another than that of'],
  ])('or what is asked for is refused: %j', async (flags, message) => {
    const outcome = await place.run(['cost', ...flags]);
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toContain(message);
    expect(outcome.stderr.trimEnd()).not.toContain('\n');
  });
});

describe("the studies' examples", () => {
  test("have the papers' figures beside ours, and what is assumed, without a gateway", async () => {
    const dzero = await place.run(['cost', 'example', 'dzero']);
    expect(dzero.code).toBe(0);
    expect(dzero.stdout).toMatch(/^storage +691,200\.00 +691,200\.00 +0\.00 +0\.00%$/m);
    expect(dzero.stdout).toMatch(/^transfer +335,928\.43 +335,012\.00 +916\.43 +0\.27%$/m);
    expect(dzero.stdout).toContain('A TB is 1,024 GB: 384,000 GB at $0.15 for 12 months.');
    const ebs = await place.run(['cost', 'example', 'ebs']);
    expect(ebs.stdout).toMatch(/^storage and I\/O +1,066\.56 +1,068\.00 +-1\.44 +-0\.13%$/m);
    expect(ebs.stdout).toMatch(/^storage and I\/O +24832\.785 +24866\.312$/m);
  });

  test('are listed, and shown as JSON', async () => {
    expect(linesOf(await place.run(['cost', 'example', '--list'])).slice(1)).toHaveLength(2);
    const { stdout } = await place.run(['cost', 'example', 'dzero', '--json']);
    expect(JSON.parse(stdout).figures[0]).toMatchObject({
      ours: '691200.00',
      picocentsPerBitYear: { ours: 20954.757, paper: 20954.757 },
    });
    expect(await place.run(['cost', 'example', 'other'])).toMatchObject({
      code: 2,
      stderr: 'bursar: name one of the examples: dzero, ebs\n',
    });
  });
});

async function createClasses(...names: string[]): Promise<void> {
  const classes = names.map((name) => ({ name, durability: { legs: [{ store: 'local' }] } }));
  writeFileSync(join(place.folder, 'classes.yaml'), JSON.stringify({ classes }));
  for (const args of [
    ['tenant', 'create', 'cms'],
    ['class', 'create', 'cms', 'classes.yaml'],
  ]) {
    expect(await place.run(args)).toMatchObject({ code: 0, stderr: '' });
  }
}

describe('the pages of prices and costs', () => {
  test.each(['prices', 'cost'])('have commands that work: %s', async (page) => {
    const [block] = blocksOf(readPage('docs/formats/price-book.md').text).filter(({ code }) =>
      code.includes('bursar-workload'),
    );
    writeFileSync(join(place.folder, 'archive.json'), String(block?.code));
    const lines = blocksOf(readPage(`docs/admin/${page}.md`).text)
      .flatMap(({ code }) => code.trim().split('\n'))
      .filter((line) => line.startsWith('npx bursar ') && !line.startsWith('npx bursar serve'));
    expect(lines.length).toBeGreaterThan(2);
    if (page === 'cost') await createClasses('online-production', 'batch-production');
    for (const line of lines) {
      const outcome = await place.run(line.split(' ').slice(2), {
        BURSAR_PRICE_BOOKS: booksFolder,
      });
      expect([line, outcome.code]).toEqual([line, 0]);
    }
  });

  test("have the examples' figures", async () => {
    const rows = rowsOf(sectionOf(readPage('docs/admin/cost.md').text, "The studies' examples"));
    const found: string[][] = [];
    for (const name of ['dzero', 'ebs']) {
      const { stdout } = await place.run(['cost', 'example', name]);
      for (const row of rows) {
        const line = stdout.split('\n').find((one) => one.includes(row.slice(1, 3).join('  ')));
        if (line) found.push(row);
      }
    }
    expect(found).toEqual(rows);
  });
});

describe('price books', () => {
  test('are listed with those of a folder, and which are in force', async () => {
    const { stdout } = await place.run(['price', 'list', ...books, '--json']);
    const listed = JSON.parse(stdout) as { name: string; market: string; inForce: boolean }[];
    const inForce = listed.filter((one) => one.inForce).map(({ name }) => name);
    expect(inForce.sort()).toEqual(['aws-us-east-1-2026', 'ebs-2010', 'free', 'lab-2026']);
    expect(linesOf(await place.run(['price', 'list']))).toHaveLength(listed.length + 1);
  });

  test('show each figure with its source and date', async () => {
    const { stdout } = await place.run(['price', 'show', 's3-2010']);
    expect(stdout).toMatch(
      /^STANDARD +storage +\$0\.150 to 51,200 GB, .* a GB-month +table-2010$/m,
    );
    expect(stdout).toMatch(/^REDUCED_REDUNDANCY +get +\$0\.001 for 1,000 +table-2010$/m);
    expect(stdout).toMatch(/^table-2010 \(2010\): /m);
    const unknown = await place.run(['price', 'show', 's3-1999']);
    expect(unknown).toMatchObject({ code: 1, stdout: '' });
  });

  test('are checked alone and beside those that are shipped', async () => {
    const check = (file: string) => place.run(['price', 'check', file]);
    expect(await check('price-books/lab-2026.json')).toMatchObject({
      code: 0,
      stdout: 'price-books/lab-2026.json: the price book lab-2026 of lab/basement, with STANDARD\n',
    });
    const twice = { ...draftBook(), name: 'mine' };
    writeFileSync(join(place.folder, 'mine.json'), JSON.stringify(twice));
    expect(await check('mine.json')).toMatchObject({
      code: 1,
      stderr: 'bursar: the price books aws-us-east-1-2026 and mine begin on one day\n',
    });
    writeFileSync(join(place.folder, 'mine.json'), JSON.stringify({ ...twice, currency: 'EUR' }));
    expect((await check('mine.json')).stderr).toMatch(/^bursar: mine\.json: currency: must be/);
    expect((await check('none.json')).stderr).toMatch(/^bursar: none\.json: ENOENT/);
  });
});
