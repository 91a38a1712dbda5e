// `bursar class` on a served gateway with the stores and the file of docs/admin/classes.md.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const root = join(import.meta.dirname, '../..');
const file = join(root, 'docs/admin/classes.yaml');
const page = readFileSync(join(root, 'docs/admin/classes.md'), 'utf8');

let place: Workplace;

beforeAll(async () => {
  place = new Workplace();
  const config = join(place.folder, 'config.yaml');
  writeFileSync(config, storesOf(page));
  await place.serve(['--config', config]);
});

afterAll(() => place.remove());

/** The stores that the page configures, each in a folder that is there. */
function storesOf(text: string): string {
  const [, block = ''] = /```yaml\n(stores:\n[^`]+)```/.exec(text) ?? [];
  const lines = block.replace(/storageClass: \S+ /, '').split('\n');
  return lines
    .map((line) =>
      line.replace(/^( {2}(\S+): \{ url: )"[^"]+"/, (_, start: string, name: string) => {
        const folder = join(place.folder, name);
        mkdirSync(folder);
        return `${start}"${pathToFileURL(folder).href}"`;
      }),
    )
    .join('\n');
}

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

test('the four classes of the paper are made, listed, shown, explained and deleted', async () => {
  await run('tenant', 'create', 'cms');
  const made = await run('class', 'create', 'cms', file);
  expect(made).toMatch(/^CLASS +ALIASES +LEGS +ACK +ACCESS +LOSS +WRITABLE\n/);
  const listed = JSON.parse(await run('class', 'list', 'cms', '--json')) as { name: string }[];
  expect(listed.map(({ name }) => name)).toEqual([
    ...['batch-production', 'cache', 'long-term-archive', 'online-production'],
  ]);
  expect(await run('class', 'list', 'cms', '--csv')).toContain('cms/cache,EXPRESS_ONEZONE,fast,1');
  const [, example = ''] = /## What is explained\n\n```\n([^`]+)```/.exec(page) ?? [];
  expect(await run('class', 'explain', 'cms/online-production')).toBe(example);
  expect(await run('class', 'explain', 'cms/long-term-archive')).toContain(
    '1 in 2.6 × 10⁷ objects',
  );
  expect(await run('class', 'show', 'cms/batch-production')).toContain('may be away      168 h');
  const shown = JSON.parse(await run('class', 'show', 'cms/cache', '--json'));
  expect(shown).toMatchObject({ name: 'cache', explanation: { expectedAnnualLoss: 0.05 } });
  await run('class', 'delete', 'cms/cache');
  const records = await run('records', '--action', 'bursar:CreateClass', '--json');
  expect(
    records
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).target)
      .sort(),
  ).toEqual(listed.map(({ name }) => `tenants/cms/classes/${name}`));
});

test('what the same costs in them is what each leg stores and the first is asked', async () => {
  const workload = join(place.folder, 'workload.json');
  const text = readFileSync(join(root, 'docs/formats/price-book.md'), 'utf8');
  const fence = /```json\n(\{\n {2}"format": "bursar-workload\/1"[^`]+)```/;
  const [, example = ''] = fence.exec(text) ?? [];
  writeFileSync(workload, example);
  const least = join(place.folder, 'least.yaml');
  const terms = 'durability: { legs: [{ store: fast }] }, minimum: { days: 730, bytes: 0 }';
  writeFileSync(least, `classes: [{ name: least, ${terms} }]`);
  await run('class', 'create', 'cms', least);
  const names = ['cms/batch-production', 'cms/online-production', 'cms/least'];
  const json = async (...args: string[]) => JSON.parse(await run('cost', ...args, '--json'));
  const asked = ['--workload', workload, '--class', 'STANDARD', '--class-plan', ...names];
  const { cases, notes } = await json(...asked);
  const [, standard, one, two, three] = cases;
  expect(cases.map((each: { name: string }) => each.name).slice(1)).toEqual(['STANDARD', ...names]);
  // Each leg is in a folder, which is charged as STANDARD of the gateway's prices.
  expect(one).toEqual({ ...standard, name: names[0], class: names[0] });
  const cents = (amount: string) => Math.round(Number(amount) * 100);
  expect(cents(two.storage)).toBe(2 * cents(standard.storage));
  expect(cents(two.total)).toBe(cents(standard.total) + cents(standard.storage));
  expect(two).toMatchObject({ gets: standard.gets, egress: standard.egress, cacheHits: 0 });
  // What is replaced each year is paid for two.
  const { storage, egress } = standard;
  expect(three).toMatchObject({ storage, egress, earlyDeletion: storage });
  expect(notes.at(-2)).toMatch(/^cms\/online-production: 2 copies: .* Expected loss: 1 in 33 /);
  const paid = await json('--class-plan', names[1] as string, '--cache-hits', '0.5', '1');
  expect(paid.cases.map((each: { name: string }) => each.name)).toEqual([
    ...['as charged', 'cms/online-production, 50% cached', 'cms/online-production, 100% cached'],
  ]);
  const none = await place.run(['cost', '--class-plan', 'cms/none']);
  expect(none.stderr).toContain('NoSuchClass');
});

test('what does not fit is named, and what was made before', async () => {
  const bad = join(place.folder, 'bad.yaml');
  const legs = '{ legs: [{ store: fast }] }';
  writeFileSync(bad, `classes: [{ name: a, durability: ${legs} }, { name: b, durability: {} }]`);
  const refused = await place.run(['class', 'create', 'default', bad]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/^bursar: b: .*legs.*; made before: a/);
  writeFileSync(bad, 'classes: 3');
  const odd = await place.run(['class', 'create', 'default', bad]);
  expect(odd.code).toBe(2);
  expect(odd.stderr).toContain('must have a list of classes under "classes"');
  const missing = await place.run(['class', 'create', 'default', join(place.folder, 'none')]);
  expect(missing.code).toBe(2);
  expect((await place.run(['class', 'show', 'cms/none'])).stderr).toContain('NoSuchClass');
});
