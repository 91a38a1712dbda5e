// `bursar audit`: a tenant's records are written as a bundle that verifies without the gateway, and
// records are erased by their indexes; `bursar records` finds by all that it offers.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const place = new Workplace();
const bundle = join(place.folder, 'cms.jsonl');
const keyFile = join(place.folder, 'key');
let served: Served;
let alice: S3Client;

beforeAll(async () => {
  served = await place.serve();
  await run('tenant create cms');
  await run('principal create cms/alice');
  const { stdout } = await run('key create cms/alice --json');
  alice = new S3Client({ endpoint: served.endpoint, ...JSON.parse(stdout) });
  await alice.send('PUT', '/raw');
  // Several tiles of the log, most of them full.
  for (let i = 0; i < 600; i += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, j) => alice.send('HEAD', `/raw/k${i + j}`)));
  }
  const published = await fetch(`${served.endpoint}/_/log/key`);
  writeFileSync(keyFile, await published.text());
});
afterAll(async () => {
  alice.close();
  await place.remove();
});

async function run(line: string, ...more: string[]): Promise<Outcome> {
  const outcome = await tryRun(line, ...more);
  if (outcome.code !== 0) throw new Error(`bursar ${line}: ${outcome.stderr}`);
  return outcome;
}

function tryRun(line: string, ...more: string[]): Promise<Outcome> {
  return place.run([...line.split(' '), ...more]);
}

async function verify(file: string) {
  const { code, stdout } = await place.run([
    ...['verify', 'bundle', file, '--key', keyFile, '--json'],
  ]);
  return { code, found: JSON.parse(stdout) };
}

async function indexesOf(...filters: string[]): Promise<number[]> {
  const { stdout } = await run('records --tenant cms --json', ...filters);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line).index);
}

test('a bundle verifies without the gateway, and has all records of its tenant', async () => {
  const { stdout } = await run('audit export cms --json --out', bundle);
  const { records, from, to } = JSON.parse(stdout);
  expect(records).toBeGreaterThanOrEqual(601);
  expect(existsSync(`${bundle}.partial`)).toBe(false);
  const { code, found } = await verify(bundle);
  expect(code).toBe(0);
  expect(found).toMatchObject({ ok: true, tenant: 'cms', from, to, records, erased: 0 });
});

test('a bundle that lacks one record is refused', async () => {
  const lines = readFileSync(bundle, 'utf8').split('\n');
  const at = lines.findIndex((line) => line.includes('"key":"k300"'));
  const damaged = join(place.folder, 'damaged.jsonl');
  writeFileSync(damaged, lines.toSpliced(at, 1).join('\n'));
  const { code, found } = await verify(damaged);
  expect(code).toBe(1);
  expect(found.findings.join()).toMatch(/is missing/);
});

test('bundles of one range behind the other have each record once', async () => {
  const [first, second] = ['first.jsonl', 'second.jsonl'].map((name) => join(place.folder, name));
  await run('audit export cms --to 300 --out', first as string);
  await run('audit export cms --from 300 --to 500 --out', second as string);
  const [one, other] = [await verify(first as string), await verify(second as string)];
  expect([one.found.to, other.found.from, other.found.to]).toEqual([300, 300, 500]);
  const within = (await indexesOf()).filter((index) => index < 500);
  expect(one.found.records + other.found.records).toBe(within.length);
});

test('a bundle that cannot be written leaves no file, and says why', async () => {
  const out = join(place.folder, 'no-folder', 'cms.jsonl');
  const { code, stderr } = await tryRun('audit export cms --out', out);
  expect([code, existsSync(out)]).toEqual([1, false]);
  expect(stderr).toContain('no-folder');
});

test('a bundle of a tenant that is not there, or is not one’s own, is refused', async () => {
  const out = join(place.folder, 'none.jsonl');
  const { code } = await tryRun('audit export nobody --out', out);
  expect([code, existsSync(out)]).toEqual([1, false]);
});

test('records are found by status, address and token', async () => {
  const missing = await indexesOf('--status', '404');
  expect(missing).toHaveLength(600);
  expect(await indexesOf('--status', '404', '--address', '127.0.0.1')).toEqual(missing);
  expect(await indexesOf('--address', '192.0.2.1')).toEqual([]);
  expect(await indexesOf('--token', 'no-such-token')).toEqual([]);
  expect((await tryRun('records --status ok')).code).toBe(2);
});

test('records are erased by their indexes, more than one call takes', async () => {
  const indexes = (await indexesOf('--status', '404')).slice(0, 150);
  const erase = ['audit', 'erase', '--tenant', 'cms', '--reason', 'they name a person'];
  const { code, stdout } = await place.run([...erase, ...indexes.map(String)]);
  expect([code, stdout]).toEqual([0, '150 erased; the log verifies as before\n']);
  expect(await indexesOf('--status', '404')).toHaveLength(450);
  await run('audit export cms --out', bundle);
  const { found } = await verify(bundle);
  // The acts are the operator's, of another tenant, and are in the bundle all the same.
  expect(found).toMatchObject({ ok: true, erased: 150, unexplained: [] });
  const again = await place.run([...erase, String(indexes[0])]);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('erased already')]);
});

test.each([
  ['no reason', 'audit erase 1'],
  ['no index', 'audit erase --reason x'],
  ['what is no index', 'audit erase one --reason x'],
])('an erasure with %s is asked for wrongly', async (_what, line) => {
  expect((await tryRun(line)).code).toBe(2);
});
