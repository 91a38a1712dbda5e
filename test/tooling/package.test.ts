// What members install, as they use it: in an empty folder, without the repository. The one file
// with an empty PATH, the package of npm with nothing but Node.
import { execFile, execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Served, Workplace } from '../cli/command.ts';

// A file is made by compressing all of Node.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const folder = mkdtempSync(join(tmpdir(), 'bursar-package-'));
const platform = `${process.platform}-${process.arch}`;
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const file = join(folder, 'first', `bursar-${version}-${platform}`);
let place: Workplace;
let served: Served;
/** With ~/.aws and nothing else. */
const home = join(folder, 'home');

const make = (out: string) =>
  execFileSync(process.execPath, ['scripts/package.mjs', '--out', join(folder, out), platform]);

beforeAll(async () => {
  make('first');
  place = new Workplace();
  const books = join(place.folder, 'books');
  mkdirSync(books);
  // The operator's own.
  const book = readFileSync('price-books/s3-2010.json', 'utf8').replaceAll('s3-2010', 'lab-2026');
  writeFileSync(join(books, 'lab-2026.json'), book.replace(/"region": "[^"]*"/, '"region": "lab"'));
  served = await place.serve(['--price-books', books]);
  mkdirSync(join(home, '.aws'), { recursive: true });
  copyFileSync(join(place.data, 'credentials'), join(home, '.aws/credentials'));
  writeFileSync(join(home, '.aws/config'), `[default]\nsource_profile = bursar\n`);
});

afterAll(async () => {
  await place.remove();
  rmSync(folder, { recursive: true });
});

/** In the empty folder. */
async function run(program: string, args: string[], environment: Record<string, string>) {
  const env = { HOME: home, AWS_PROFILE: 'bursar', ...environment };
  return (await promisify(execFile)(program, args, { cwd: home, env })).stdout;
}

test('two runs give the same bytes, and say their digests', () => {
  make('second');
  const names = readdirSync(join(folder, 'first')).filter((name) => name !== 'bursar');
  expect(names.sort()).toEqual(['SHA256SUMS', `bursar-${version}-${platform}`, expect.any(String)]);
  for (const name of names) {
    const [first, second] = ['first', 'second'].map((one) => join(folder, one, name));
    expect(readFileSync(first as string).equals(readFileSync(second as string)), name).toBe(true);
  }
  const sums = execFileSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: join(folder, 'first') });
  expect(String(sums).match(/: OK/g)).toHaveLength(2);
});

test('one file is at most 80 MB, and runs with an empty PATH', async () => {
  expect(statSync(file).size).toBeLessThan(80_000_000);
  for (const _ of ['unpacking', 'unpacked']) {
    expect(await run(file, ['--version'], { PATH: '' })).toBe(`${version}\n`);
  }
  const self = JSON.parse(await run(file, ['whoami', '--json'], { PATH: '' }));
  expect(self).toMatchObject({ tenant: 'default', principal: 'admin' });
  // Two who start it for the first time at once.
  const cache = { XDG_CACHE_HOME: join(folder, 'other'), PATH: '' };
  const both = [1, 2].map(() => run(file, ['tenant', 'list', '--csv'], cache));
  for (const told of await Promise.all(both)) expect(told).toContain('default,yes');
});

test('what the operator charges by comes from the gateway', async () => {
  expect(await run(file, ['price', 'list'], { PATH: '' })).toMatch(/^lab-2026 /m);
  const costs = JSON.parse(await run(file, ['cost', '--book', 'lab-2026', '--json'], { PATH: '' }));
  expect(costs.cases).toMatchObject([{ name: 'as charged' }, { book: 'lab-2026' }]);
  expect(await run(file, ['price', 'show', 'lab-2026'], { PATH: '' })).toMatch(/^STANDARD /m);
});

test('it has nothing of the server', () => {
  const dist = join(folder, 'first/bursar/dist');
  const names = readdirSync(dist, { recursive: true }) as string[];
  const rooms = new Set(names.filter((name) => name.endsWith('.js')).map((name) => dirname(name)));
  for (const room of rooms) expect(room).not.toMatch(/^(?:ledger|state|backup|catalog)/);
  // Settings, what reads credentials files, and what reads XML; the rule of tiering is pure.
  const ofServer = names.filter((name) =>
    /^(?:server|gateway|tiering(?!\/policy))\/.*\.js$/.test(name),
  );
  expect(ofServer.length).toBeLessThan(20);
  for (const name of ofServer) {
    expect(name).toMatch(
      /^server\/(?:settings|folder)\/|^gateway\/http\/(?:xml|echo|origins)|\/store-place/,
    );
  }
});

test('npm installs the package, with few others', async () => {
  const prefix = join(folder, 'prefix');
  const tarball = join(folder, 'first', `bursar-${version}.tgz`);
  const npm = ['install', '--global', '--prefix', prefix, '--offline', '--no-audit'];
  execFileSync('npm', [...npm, tarball], { cwd: home, stdio: 'ignore', timeout: 60_000 });
  const installed = readdirSync(join(prefix, 'lib/node_modules/bursar/node_modules'));
  expect(installed.filter((name) => !name.startsWith('.')).length).toBeLessThan(6);
  const path = { PATH: dirname(process.execPath) };
  const told = await run(resolve(prefix, 'bin/bursar'), ['whoami'], path);
  expect(told).toMatch(/^default\/admin /m);
  expect(served.endpoint).toMatch(/^http/);
});
